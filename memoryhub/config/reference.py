"""The environment variables of the operator (besides the tunables) and their current values."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.conf import settings

from memoryhub.config import environment

_PASSWORD = re.compile(r"(://[^:/@]*):[^@]*@")


@dataclass(frozen=True)
class OperatorSetting:
    """A variable. ``default``: a description. ``read``: returns the current value."""

    variable: str
    default: str
    doc: str
    read: Callable[[], object]
    secret: bool = False

    def shown(self) -> str:
        """Return the value as a text to show."""
        value = self.read()
        if isinstance(value, list | tuple):
            return ",".join(map(str, value))
        if isinstance(value, bool):
            return str(value).lower()
        return str(value)

    def source(self, environ: Mapping[str, str] = os.environ) -> str:
        """Return the variable that has the value, or ``default``."""
        names = (self.variable, f"{self.variable}_FILE") if self.secret else (self.variable,)
        return next((name for name in names if environ.get(name)), "default")


def _describe_secret(value: str) -> str:
    return f"set, {len(value)} characters" if value else ""


def _token() -> str:
    return "set" if environment.read_secret("MEMORYHUB_TOKEN") else ""


def _database_url() -> str:
    return _PASSWORD.sub(r"\1:…@", settings.DATABASE_URL)


OPERATOR_SETTINGS = (
    OperatorSetting(
        "LETSGO_HOME", "~/.letsgo", "folder of the store and of all that goes with it", lambda: settings.HOME
    ),
    OperatorSetting(
        "LETSGO_MEMORY_DB",
        "memory.db in LETSGO_HOME",
        "the SQLite file of the store",
        lambda: settings.DATABASES["default"]["NAME"],
    ),
    OperatorSetting(
        "LETSGO_MEMORY_LOG",
        "logs/memory-journal.jsonl in LETSGO_HOME",
        "the journal's mirror, as JSON lines",
        lambda: settings.MEMORY_LOG,
    ),
    OperatorSetting(
        "DATABASE_URL",
        "not set",
        "sqlite:////path/of/a/file, instead of LETSGO_MEMORY_DB",
        _database_url,
        secret=True,
    ),
    OperatorSetting(
        "MEMORYHUB_CONFIG",
        "not set",
        "a TOML file with tunables; stronger than memoryhub.toml in LETSGO_HOME",
        lambda: os.environ.get("MEMORYHUB_CONFIG", ""),
    ),
    OperatorSetting(
        "MEMORYHUB_SECRET_KEY",
        "made at first use and kept in LETSGO_HOME/secret-key",
        "signs the sessions of the browser; a new one ends them all",
        lambda: _describe_secret(settings.SECRET_KEY),
        secret=True,
    ),
    OperatorSetting(
        "MEMORYHUB_EMBEDDINGS_KEY",
        "not set",
        'key of the embeddings endpoint (`embeddings = "openai"`)',
        lambda: _describe_secret(settings.EMBEDDINGS_KEY),
        secret=True,
    ),
    OperatorSetting(
        "MEMORYHUB_LLM_KEY",
        "not set",
        'key of the language model\'s endpoint (`llm = "openai"`)',
        lambda: _describe_secret(settings.LLM_KEY),
        secret=True,
    ),
    OperatorSetting(
        "MEMORYHUB_ALLOWED_HOSTS",
        "localhost,127.0.0.1,[::1]",
        "host names under which the hub may be asked, separated by commas",
        lambda: settings.ALLOWED_HOSTS,
    ),
    OperatorSetting(
        "MEMORYHUB_HTTPS",
        "false",
        "true where browsers and agents come over HTTPS: secure cookies, redirect, HSTS",
        lambda: settings.HTTPS,
    ),
    OperatorSetting(
        "MEMORYHUB_BEHIND_PROXY",
        "false",
        "true where a proxy in front ends the TLS and sets X-Forwarded-Proto",
        lambda: settings.BEHIND_PROXY,
    ),
    OperatorSetting(
        "MEMORYHUB_DEBUG", "false", "error pages for developers; never on a network", lambda: settings.DEBUG
    ),
    OperatorSetting(
        "MEMORYHUB_TIME_ZONE", "UTC", "the zone in which pages show times", lambda: settings.TIME_ZONE
    ),
    OperatorSetting(
        "MEMORYHUB_OIDC_ISSUER",
        "not set",
        "the OpenID Connect provider of your organisation, as its discovery document writes it",
        lambda: settings.OIDC_ISSUER,
    ),
    OperatorSetting(
        "MEMORYHUB_OIDC_CLIENT_ID",
        "not set",
        "the hub's name at that provider",
        lambda: settings.OIDC_CLIENT_ID,
    ),
    OperatorSetting(
        "MEMORYHUB_OIDC_CLIENT_SECRET",
        "not set",
        "the hub's secret at that provider",
        lambda: _describe_secret(settings.OIDC_CLIENT_SECRET),
        secret=True,
    ),
    OperatorSetting(
        "MEMORYHUB_OIDC_NAME",
        "your organisation",
        "what the login page calls that provider",
        lambda: settings.OIDC_NAME,
    ),
    OperatorSetting(
        "MEMORYHUB_OIDC_CREATE",
        "false",
        "true where whoever that provider vouches for gets an account, which reads what is public",
        lambda: settings.OIDC_CREATE,
    ),
    OperatorSetting(
        "MEMORYHUB_TOKEN",
        "not set",
        "the token of an agent that starts `manage.py mcp`, or that sends it from its own settings",
        _token,
        secret=True,
    ),
)
