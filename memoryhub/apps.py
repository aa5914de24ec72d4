"""The app: installs the search schema around migrations and registers the system checks. And the admin's."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks as system_checks
from django.db.models.signals import post_migrate, pre_migrate

# Paths, so that a command imports only what it uses.
_CAPABILITY_OBJECTS = {
    "memory.store": "memoryhub.injection.services:STORE",
    "memory.memorability": "memoryhub.capture.classification",
    "memory.boundaries": "memoryhub.capture.segments",
    "memory.temporal": "memoryhub.memories.evidence",
    "memory.consolidation": "memoryhub.maintenance.operations.consolidate",
    "memory.compression": "memoryhub.maintenance.operations.compress",
}


class MemoryhubConfig(AppConfig):
    name = "memoryhub"
    default = True
    verbose_name = "memoryhub"

    def ready(self) -> None:
        from memoryhub import capabilities
        from memoryhub.accounts import clearance, identities, second_factors, sign_in, tokens
        from memoryhub.accounts.permissions import install_roles
        from memoryhub.core import database
        from memoryhub.maintenance import operations
        from memoryhub.ops import checks  # noqa: F401  checks register themselves

        for name, path in _CAPABILITY_OBJECTS.items():
            capabilities.register(name, path)
        operations.register("import", "memoryhub.transfer.jobs.IMPORT_OPERATION")
        operations.register("bulk_action", "memoryhub.web.memories.bulk_actions.BULK_ACTION")
        operations.register(operations.MEMORY_CHECKS, "memoryhub.checks.MEMORY_CHECKS")
        operations.register(operations.SEND_DIGESTS, "memoryhub.digests.SEND_DIGESTS")
        operations.call_after_changes("memoryhub.checks.enqueue_checks")

        if database.is_postgres():
            from memoryhub.backends.postgres.server import limit_connections

            limit_connections()
        else:
            database.watch_files()
        clearance.connect_signals()
        identities.connect_signals()
        second_factors.connect_signals()
        sign_in.connect_signals()
        tokens.connect_signals()
        post_migrate.connect(install_roles, sender=self)
        pre_migrate.connect(_require_known_schema, sender=self)
        pre_migrate.connect(_record_migrations_atomically, sender=self)
        pre_migrate.connect(_drop_triggers, sender=self)
        post_migrate.connect(_install_schema, sender=self)


class LateAdminConfig(SimpleAdminConfig):
    """Django's admin, loaded late: its modules take a third of a command's start time."""

    def ready(self) -> None:
        system_checks.register(check_dependencies, system_checks.Tags.admin)
        system_checks.register(_check_admin, system_checks.Tags.admin)


def _check_admin(**kwargs: Any) -> list[system_checks.CheckMessage]:
    admin.autodiscover()
    return check_admin_app(**kwargs)


def _require_known_schema(apps: Any = None, plan: Any = None, **kwargs: Any) -> None:
    """Refuse a store whose tables are not those of its recorded migrations.

    ``apps``: the models after the recorded migrations.
    """
    if not plan:
        return
    from django.core.management import CommandError
    from django.db import connection

    from memoryhub.backends import release

    if unrecorded := release.find_unrecorded_tables(apps):
        raise CommandError(
            f"this store contains tables that its record of migrations does not name"
            f" ({', '.join(unrecorded[:3])}). Nothing was changed. {release.ADVICE_WITHOUT_RECORD}"
        )
    introspection = connection.introspection
    models = [one for one in apps.get_models(include_auto_created=True) if one._meta.app_label == "memoryhub"]
    with connection.cursor() as cursor:
        tables = introspection.table_names(cursor)
        for meta in (model._meta for model in models if model._meta.managed):
            table = meta.db_table
            found = introspection.get_table_description(cursor, table) if table in tables else ()
            missing = {field.column for field in meta.local_concrete_fields} - {one.name for one in found}
            if missing:
                raise CommandError(
                    f"this store was made by an unknown version: its table {table} lacks"
                    f" {', '.join(sorted(missing))}. Nothing was changed. Export its memories with that"
                    " version (manage.py export_memories), and import them into a new store."
                )


def _record_migrations_atomically(**kwargs: Any) -> None:
    from memoryhub.backends import release

    release.record_migrations_atomically()


def _drop_triggers(**kwargs: Any) -> None:
    """Drop the triggers, which SQLite would lose. On PostgreSQL other nodes may be writing meanwhile."""
    from memoryhub.backends import schema
    from memoryhub.backends.dialect import IS_POSTGRES

    if IS_POSTGRES:
        return
    schema.drop_triggers()
    schema.drop_views()


def _install_schema(**kwargs: Any) -> None:
    from memoryhub.backends import schema

    if schema.tables_missing():
        schema.uninstall()
    else:
        schema.install()
