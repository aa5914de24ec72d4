"""A store of an older release: passwords, identities, sessions and settings work after ``migrate``."""

from __future__ import annotations

import pytest

from tests.database import run_in_new_process

STORY = """
import json, os
from tests.accounts.provider import CLIENT, SECRET, Provider, serve
provider = Provider()
serve(provider)
os.environ["MEMORYHUB_OIDC_ISSUER"] = provider.issuer
os.environ["MEMORYHUB_OIDC_CLIENT_ID"], os.environ["MEMORYHUB_OIDC_CLIENT_SECRET"] = CLIENT, SECRET
import django
django.setup()
from django.contrib.auth.hashers import make_password
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.test import Client
from django.test.utils import setup_test_environment
setup_test_environment()

BEFORE = ("memoryhub", "0018_memory_checks")
for app in ("contenttypes", "auth", "sessions", "admin"):
    call_command("migrate", app, verbosity=0)
call_command("migrate", *BEFORE, verbosity=0)
old = MigrationExecutor(connection).loader.project_state([BEFORE, ("sessions", "0001_initial")]).apps
users, identities = old.get_model("auth", "User").objects, old.get_model("memoryhub", "Identity").objects
ada = users.create(username="ada", password=make_password("a good password"))
bob = users.create(username="bob", password="!unusable", email="bob@example.org")
identities.create(user=bob, issuer=provider.issuer, subject="person-1", since="2026-01-02T03:04:05Z")
identities.create(user=ada, issuer="https://old.example", subject="person-1")
from django.contrib.auth.models import User
sessions = {}
for name, backend in (("ada", "clearance.AccountBackend"), ("bob", "single_sign_on.SingleSignOnBackend")):
    stored = users.get(username=name)
    user = User(pk=stored.pk, password=stored.password)
    session = SessionStore()
    session.update({"_auth_user_id": str(user.pk), "_auth_user_backend": f"memoryhub.accounts.{backend}",
                    "_auth_user_hash": user.get_session_auth_hash(), "device": "Firefox on Linux",
                    "from": "10.0.0.9", "since": "2026-11-01T08:00:00+00:00", "show_private": True})
    session.save()
    sessions[name] = session.session_key
call_command("migrate", verbosity=0)

from memoryhub.accounts import identities
from tests.accounts.sign_on_client import go, name_of
report = {"tables": "memoryhub_identity" in connection.introspection.table_names()}
client = Client()
report["password"] = client.post("/login/", {"username": "ada", "password": "a good password"})["Location"]
bound = identities.find_identity(User.objects.get(username="bob"))
report["bound since"] = bound.date_joined.isoformat()
for name, key in sessions.items():
    client = Client()
    client.cookies["sessionid"] = key
    page = client.get("/you/").content.decode()
    report[f"session of {name}"] = "Firefox on Linux" in page and f"Account of {name}" in page
    report[f"level of {name}"] = client.session["show_private"]
provider.claims = {"email": "someone@example.org"}
report["organisation"] = name_of(go(provider)[0])
print(json.dumps(report))
"""


@pytest.mark.slow
def test_store_of_an_older_release_works_after_migrate(tmp_path):
    assert run_in_new_process(STORY, tmp_path) == {
        "tables": False,
        "password": "/",
        "bound since": "2026-01-02T03:04:05+00:00",
        "session of ada": True,
        "level of ada": True,
        "session of bob": True,
        "level of bob": True,
        "organisation": "bob",
    }
