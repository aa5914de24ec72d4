"""``show_config``: print every setting with its value and its source."""

from __future__ import annotations

import json
import math
import os
import re
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from pydantic.fields import FieldInfo

from memoryhub.config import ENV_PREFIX, Config, Operator, describe, variable_of
from memoryhub.config.tunables import expected_form, limits

_PASSWORD = re.compile(r"(://[^:/@]*):[^@]*@")


class Command(BaseCommand):
    help = (
        "Print every setting with its value and its source: the default, a file or an environment variable. "
        "Secrets are not shown."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        shape = parser.add_mutually_exclusive_group()
        shape.add_argument("--json", action="store_true", help="print one JSON object")
        shape.add_argument(
            "--changed", action="store_true", help="only settings that differ from their default"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["json"]:
            self.stdout.write(json.dumps(as_json(), ensure_ascii=False, indent=2))
        else:
            self._list(options["changed"])

    def _list(self, changed: bool) -> None:
        shape = as_json()
        for title, rows in (("Operator", shape["operator"]), ("Tunables", shape["tunables"])):
            self.stdout.write(self.style.MIGRATE_HEADING(title))
            for row in rows:
                if changed and row["source"] == "default":
                    continue
                self.stdout.write(f"{row['name']} = {to_toml(row['value'])}  [{row['source']}]")
                if not changed:
                    form = f" ({row['range']})" if row.get("range") else ""
                    self.stdout.write(f"    {row['doc']}{form}")
        for warning in shape["warnings"]:
            self.stdout.write(self.style.WARNING(warning))


def as_json() -> dict[str, Any]:
    """Return every setting with its value and source."""
    loaded = settings.MEMORYHUB_LOADED
    return {
        "operator": [
            {
                "name": variable_of(spec),
                "value": shown_value(name, spec),
                "default": describe(spec)["shown_default"],
                "source": _source(spec),
                "doc": spec.description,
            }
            for name, spec in Operator.model_fields.items()
        ],
        "tunables": [
            {
                "name": name,
                "value": getattr(loaded.config, name),
                "default": spec.default,
                "source": loaded.sources[name],
                "doc": spec.description,
                "range": shown_range(spec),
                "variable": ENV_PREFIX + name.upper(),
            }
            for name, spec in Config.model_fields.items()
        ],
        "warnings": list(loaded.warnings),
    }


def shown_value(name: str, spec: FieldInfo) -> str:
    """Return the current value of an operator variable as a text. Secrets are replaced."""
    value = getattr(settings, name.upper(), None) or getattr(settings.OPERATOR, name)
    if name == "memory_db":
        value = settings.DATABASES["default"]["NAME"]
    if name in ("database_url", "database_replica_url"):
        return _PASSWORD.sub(r"\1:…@", value)
    if name == "token":
        return "set" if value else ""
    if describe(spec)["secret"]:
        return f"set, {len(value)} characters" if value else ""
    if isinstance(value, list):
        return ",".join(value)
    return to_toml(value)


def _source(spec: FieldInfo) -> str:
    """Return the variable that has the value, or ``default``."""
    names = [variable_of(spec)]
    if describe(spec)["secret"]:
        names.append(f"{names[0]}_FILE")
    return next((name for name in names if os.environ.get(name)), "default")


def shown_range(spec: FieldInfo) -> str:
    """Return the values that a setting accepts, or an empty string if it accepts all of its type."""
    if form := expected_form(spec):
        return form
    low, high = limits(spec)
    if low == -math.inf and high == math.inf:
        return ""
    return f"{low:,g} or more" if high == math.inf else f"{low:,g} to {high:,.15g}"


def to_toml(value: object) -> str:
    """Return a value as text, with ``true`` and ``false`` as in TOML."""
    return str(value).lower() if isinstance(value, bool) else str(value)
