"""Move identities to django-allauth, and keep people signed in whom its predecessor signed in."""

from importlib import import_module

from django.conf import settings
from django.db import migrations

OLD_BACKEND = "memoryhub.accounts.single_sign_on.SingleSignOnBackend"
NEW_BACKEND = "memoryhub.accounts.clearance.AccountBackend"


def move_identities(apps, schema_editor):
    database = schema_editor.connection.alias
    accounts = apps.get_model("socialaccount", "SocialAccount").objects.using(database)
    for one in apps.get_model("memoryhub", "Identity").objects.using(database).order_by("pk"):
        moved = accounts.create(user_id=one.user_id, provider=one.issuer, uid=one.subject, extra_data={})
        # The library sets both to the time of creation.
        accounts.filter(pk=moved.pk).update(date_joined=one.since, last_login=one.since)


def keep_sessions(apps, schema_editor):
    store = import_module(settings.SESSION_ENGINE).SessionStore
    sessions = apps.get_model("sessions", "Session").objects.using(schema_editor.connection.alias)
    for key in list(sessions.values_list("session_key", flat=True)):
        session = store(key)
        if session.get("_auth_user_backend") == OLD_BACKEND:
            session["_auth_user_backend"] = NEW_BACKEND
            session.save()


class Migration(migrations.Migration):

    dependencies = [
        ("memoryhub", "0018_memory_checks"),
        ("account", "0001_initial"),
        ("mfa", "0003_authenticator_type_uniq"),
        ("sessions", "0001_initial"),
        ("socialaccount", "0006_alter_socialaccount_extra_data"),
    ]

    operations = [
        migrations.RunPython(move_identities, migrations.RunPython.noop),
        migrations.RunPython(keep_sessions, migrations.RunPython.noop),
        migrations.DeleteModel("Identity"),
    ]
