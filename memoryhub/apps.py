"""The app: installs the search schema around migrations and registers the system checks."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


class MemoryhubConfig(AppConfig):
    name = "memoryhub"
    verbose_name = "memoryhub"

    def ready(self) -> None:
        from memoryhub import checks, membership, roles, signing  # noqa: F401  checks register themselves
        from memoryhub.lifecycle import guests

        guests.register("import", "memoryhub.interchange.running.IMPORT")

        membership.connect()
        signing.connect()
        post_migrate.connect(roles.install, sender=self)
        pre_migrate.connect(_drop_triggers, sender=self)
        post_migrate.connect(_install_schema, sender=self)


def _drop_triggers(**kwargs: Any) -> None:
    from memoryhub.search import schema

    schema.drop_triggers()


def _install_schema(**kwargs: Any) -> None:
    from memoryhub.search import schema

    if schema.tables_missing():
        schema.uninstall()
    else:
        schema.install()
