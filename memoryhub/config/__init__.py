"""Load the configuration and record the source of each value. Pure, because ``settings.py`` loads it.

The sources by precedence: the environment (``MEMORYHUB_<NAME>``), the TOML file in ``MEMORYHUB_CONFIG``,
``memoryhub.toml`` in ``LETSGO_HOME``, the default in ``tunables.py``. A TOML file has the keys at its top
level or in ``[tool.letsgo.memory]``; in ``pyproject.toml`` only that table counts.

The operator has further variables: paths, secrets and flags, and secrets from the file in ``<NAME>_FILE``.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import math
import os
import re
import secrets
import sys
import tomllib
import zoneinfo
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from memoryhub.config.tunables import (
    ASCENDING_FIELDS,
    WEIGHT_GROUPS,
    Config,
    Flag,
    expected_form,
    limits,
    parse_flag,
)
from memoryhub.core.network import is_loopback

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_MAIL_PORTS = {"smtp+tls": 587, "smtp+ssl": 465, "smtp": 25}
_ADDRESS = re.compile(r"[^\s@<>,]+@[^\s@<>,]+")
_HOST = re.compile(r"[a-z0-9.-]+|[0-9a-f:]+")  # a name or an address, as urlsplit writes it


class ConfigError(ValueError):
    """The configuration is invalid. Each line of the message names a key, its source and the fix."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class MailServer(NamedTuple):
    host: str
    port: int
    user: str
    password: str
    starttls: bool
    tls: bool


def _variable(name: str, doc: str, default: Any = "", *, shown: str = "", secret: bool = False) -> Any:
    """``shown``: a description of the default. ``secret``: it is never shown, and may be in a file."""
    factory = {"default_factory": default} if callable(default) else {"default": default}
    shown = shown or (str(default).lower() if isinstance(default, bool) else str(default)) or "not set"
    extra: Any = {"shown_default": shown, "secret": secret}
    return Field(
        **factory, validation_alias=name, description=doc, json_schema_extra=extra, validate_default=True
    )


class Operator(BaseSettings):
    """The variables that an operator sets, besides the tunables. An empty variable counts as unset."""

    model_config = SettingsConfigDict(case_sensitive=True, env_ignore_empty=True, extra="ignore")

    home: Path = _variable("LETSGO_HOME", "folder of the store and its other files", Path("~/.letsgo"))
    memory_db: Path = _variable(
        "LETSGO_MEMORY_DB",
        "the SQLite file of the store",
        lambda data: data["home"] / "memory.db",
        shown="memory.db in LETSGO_HOME",
    )
    memory_log: Path = _variable(
        "LETSGO_MEMORY_LOG",
        "the journal's mirror, as JSON lines",
        lambda data: data["home"] / "logs/memory-journal.jsonl",
        shown="logs/memory-journal.jsonl in LETSGO_HOME",
    )
    database_url: str = _variable(
        "DATABASE_URL",
        "postgres://USER:PASSWORD@HOST/DATABASE, or sqlite:////path/of/a/file, instead of LETSGO_MEMORY_DB",
        secret=True,
    )
    database_replica_url: str = _variable(
        "DATABASE_REPLICA_URL",
        "postgres://USER:PASSWORD@HOST/DATABASE of a streaming replica, which then serves reads",
        secret=True,
    )
    config: str = _variable(
        "MEMORYHUB_CONFIG", "a TOML file with tunables; it overrides memoryhub.toml in LETSGO_HOME"
    )
    secret_key: str = _variable(
        "MEMORYHUB_SECRET_KEY",
        "signs browser sessions and encrypts second factors; a new key ends all sessions",
        shown="created at first use in LETSGO_HOME/secret-key",
        secret=True,
    )
    embeddings_key: str = _variable(
        "MEMORYHUB_EMBEDDINGS_KEY", 'key of the embeddings endpoint (`embeddings = "openai"`)', secret=True
    )
    llm_key: str = _variable(
        "MEMORYHUB_LLM_KEY", 'key of the language model\'s endpoint (`llm = "openai"`)', secret=True
    )
    allowed_hosts: Annotated[list[str], NoDecode] = _variable(
        "MEMORYHUB_ALLOWED_HOSTS", "host names of the hub, separated by commas", ",".join(LOOPBACK_HOSTS)
    )
    https: Flag = _variable(
        "MEMORYHUB_HTTPS", "true if browsers and agents use HTTPS: secure cookies, redirect, HSTS", False
    )
    behind_proxy: Flag = _variable(
        "MEMORYHUB_BEHIND_PROXY", "true if a proxy sets X-Forwarded-Proto and X-Forwarded-For", False
    )
    public_url: str = _variable(
        "MEMORYHUB_PUBLIC_URL",
        "the hub's address for browsers and hosted agents, such as https://hub.example.org; enables OAuth for"
        " MCP",
    )
    debug: Flag = _variable("MEMORYHUB_DEBUG", "error pages for developers; never on a network", False)
    metrics_token: str = _variable(
        "MEMORYHUB_METRICS_TOKEN",
        "enables /metrics for Prometheus, which sends it as a bearer token; at least 16 characters",
        secret=True,
    )
    log_format: Literal["plain", "json"] = _variable(
        "MEMORYHUB_LOG_FORMAT",
        "plain, or json: one JSON object per line, and a line for each request",
        "plain",
    )
    node_name: str = _variable(
        "MEMORYHUB_NODE_NAME",
        "the name of this node among several; each needs its own",
        shown="the name of the machine",
    )
    time_zone: str = _variable("MEMORYHUB_TIME_ZONE", "the time zone of pages", "UTC")
    oidc_issuer: str = _variable(
        "MEMORYHUB_OIDC_ISSUER",
        "the OpenID Connect issuer of your organisation, as in its discovery document",
    )
    oidc_client_id: str = _variable("MEMORYHUB_OIDC_CLIENT_ID", "the hub's client id at that provider")
    oidc_client_secret: str = _variable(
        "MEMORYHUB_OIDC_CLIENT_SECRET", "the hub's client secret at that provider", secret=True
    )
    oidc_name: str = _variable(
        "MEMORYHUB_OIDC_NAME", "the name of that provider on the login page", "your organisation"
    )
    oidc_create: Flag = _variable(
        "MEMORYHUB_OIDC_CREATE",
        "true to create an account at the first sign-in there; it can read public memories",
        False,
    )
    email_url: str = _variable(
        "MEMORYHUB_EMAIL_URL",
        "the mail server that sends digests: smtp+tls://USER:PASSWORD@HOST:587 (STARTTLS), smtp+ssl:// (TLS"
        " from the start, port 465) or smtp:// (unencrypted, port 25, without a password)",
        secret=True,
    )
    email_from: str = _variable(
        "MEMORYHUB_EMAIL_FROM",
        "the sender of digests, such as memoryhub@example.org",
        shown="memoryhub@ and the host of MEMORYHUB_PUBLIC_URL",
    )
    token: str = _variable(
        "MEMORYHUB_TOKEN",
        "the token of an agent that starts `manage.py mcp`, or that sends it from its own settings",
        secret=True,
    )
    url: str = _variable(
        "MEMORYHUB_URL",
        "the address of the hub for the Python client and commands such as `memoryhub search`",
    )
    spool: str = _variable(
        "MEMORYHUB_SPOOL", "the folder in which the plugin's hooks store events until the hub accepts them"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, _SecretFiles(settings_cls)

    @field_validator("home", "memory_db", "memory_log")
    @classmethod
    def _make_absolute(cls, path: Path, info: ValidationInfo) -> Path:
        try:
            return path.expanduser().absolute()
        except RuntimeError as error:
            name = variable_of(cls.model_fields[str(info.field_name)])
            raise ConfigError(
                [f"{name}: cannot resolve {path}: {error}; set {name} to a full path"]
            ) from None

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split_at_commas(cls, written: str) -> list[str]:
        return [item.strip() for item in written.split(",") if item.strip()]

    @field_validator("time_zone")
    @classmethod
    def _require_time_zone(cls, written: str) -> str:
        try:
            zoneinfo.ZoneInfo(written)
        except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
            problem = f"MEMORYHUB_TIME_ZONE: there is no time zone {written!r}; write one like Europe/Berlin"
            raise ConfigError([problem]) from None
        return written

    @field_validator("log_format", mode="before")
    @classmethod
    def _require_log_format(cls, written: str) -> str:
        if written not in ("plain", "json"):
            raise ConfigError([f"MEMORYHUB_LOG_FORMAT must be plain or json, not {written!r}"])
        return written

    @field_validator("metrics_token")
    @classmethod
    def _require_long_token(cls, written: str) -> str:
        if written and not re.fullmatch(r"[!-~]{16,}", written):
            raise ConfigError(["MEMORYHUB_METRICS_TOKEN must have at least 16 characters and no spaces"])
        return written

    @model_validator(mode="after")
    def _check_public_url(self) -> Operator:
        """Require an origin that tokens can travel to. Requests to its host are answered."""
        if not (written := self.public_url.strip()):
            return self
        try:
            address = urlsplit(written)
            host, port = address.hostname or "", address.port
        except ValueError:
            raise ConfigError([f"MEMORYHUB_PUBLIC_URL: {written!r} is not an address"]) from None
        origin = f"{address.scheme}://{address.netloc}"
        if not _HOST.fullmatch(host) or address.username is not None or written.rstrip("/") != origin:
            raise ConfigError(
                ["MEMORYHUB_PUBLIC_URL must be only a scheme and a host, such as https://hub.example.org"]
            )
        if address.scheme != "https" and not (address.scheme == "http" and is_loopback(host)):
            raise ConfigError(["MEMORYHUB_PUBLIC_URL must be an https address, because it receives tokens"])
        is_default = port == {"https": 443, "http": 80}[address.scheme]
        named = f"[{host}]" if ":" in host else host
        self.public_url = f"{address.scheme}://{named}" + ("" if port is None or is_default else f":{port}")
        if "*" not in self.allowed_hosts and named not in self.allowed_hosts:
            self.allowed_hosts.append(named)
        return self

    @model_validator(mode="after")
    def _check_email(self) -> Operator:
        """Require a valid mail server and sender."""
        self.mail_server()
        if self.email_from and not _ADDRESS.fullmatch(self.email_from.strip()):
            raise ConfigError(["MEMORYHUB_EMAIL_FROM must be an e-mail address, such as hub@example.org"])
        return self

    def mail_server(self) -> MailServer:
        """Return the mail server that MEMORYHUB_EMAIL_URL names; without it, one without a host."""
        written = urlsplit(self.email_url.strip())
        try:
            host, port = written.hostname or "", written.port
        except ValueError:
            raise ConfigError(["MEMORYHUB_EMAIL_URL: the port must be a number"]) from None
        if self.email_url.strip() and (written.scheme not in _MAIL_PORTS or not host):
            raise ConfigError(
                [f"MEMORYHUB_EMAIL_URL must be an address such as {' or '.join(_MAIL_PORTS)}://host:port"]
            )
        if written.scheme == "smtp" and written.password and not is_loopback(host):
            raise ConfigError(
                ["MEMORYHUB_EMAIL_URL would send its password unencrypted; write smtp+tls:// or smtp+ssl://"]
            )
        return MailServer(
            host,
            port or _MAIL_PORTS.get(written.scheme, 25),
            unquote(written.username or ""),
            unquote(written.password or ""),
            starttls=written.scheme == "smtp+tls",
            tls=written.scheme == "smtp+ssl",
        )

    @model_validator(mode="after")
    def _check_oidc(self) -> Operator:
        """Require a complete OpenID Connect provider. Without an issuer, ignore the rest."""
        self.oidc_issuer = self.oidc_issuer.strip()
        if not self.oidc_issuer:
            self.oidc_client_id = self.oidc_client_secret = ""
            return self
        address, name = urlsplit(self.oidc_issuer), "MEMORYHUB_OIDC"
        if address.scheme != "https" and address.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise ConfigError([f"{name}_ISSUER must be an https address, as the provider writes it"])
        if not self.oidc_client_id or not self.oidc_client_secret:
            raise ConfigError([f"{name}_ISSUER needs {name}_CLIENT_ID and {name}_CLIENT_SECRET too"])
        if importlib.util.find_spec("oauthlib") is None:
            command = f"{sys.executable} -m pip install 'django-allauth[socialaccount]'"
            raise ConfigError([f"{name}_ISSUER needs more packages; run: {command}"])
        return self


def variable_of(spec: FieldInfo) -> str:
    return str(spec.validation_alias)


def describe(spec: FieldInfo) -> dict[str, Any]:
    """Return ``shown_default`` and ``secret`` of a variable."""
    return dict(spec.json_schema_extra) if isinstance(spec.json_schema_extra, dict) else {}


def operator_variables() -> set[str]:
    """Return the names of all variables, and of those with the file of a secret."""
    specs = Operator.model_fields.values()
    files = {f"{variable_of(spec)}_FILE" for spec in specs if describe(spec)["secret"]}
    return {variable_of(spec) for spec in specs} | files


class _SecretFiles(PydanticBaseSettingsSource):
    """The secrets in the files that ``<NAME>_FILE`` names."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return read_secret(variable_of(field)), variable_of(field), False

    def __call__(self) -> dict[str, Any]:
        secret = {name: spec for name, spec in Operator.model_fields.items() if describe(spec)["secret"]}
        found = [self.get_field_value(spec, name) for name, spec in secret.items()]
        return {variable: text for text, variable, _ in found if text}


def read_secret(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return ``NAME``, or else the content of the file in ``NAME_FILE``, or else an empty string."""
    if value := environ.get(name):
        return value
    if path := environ.get(f"{name}_FILE"):
        try:
            return Path(path).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError([f"{name}_FILE: cannot read {path}: {error}"]) from None
    return ""


def load_operator() -> Operator:
    """Read the environment. Raise ConfigError with all problems."""
    try:
        return Operator()
    except ValidationError as error:
        problems: list[str] = []
        for one in error.errors(include_url=False):
            cause = one.get("ctx", {}).get("error")
            if isinstance(cause, ConfigError):
                problems += cause.problems
            elif one["type"] != "default_factory_not_called":  # a consequence of another problem
                problems.append(f"{one['loc'][0]} must be true or false, not {one['input']!r}")
        raise ConfigError(problems) from None


def load_or_create_secret(path: Path) -> str:
    """Return the secret in a file (mode 600). Create a random one at first use.

    Two processes that start at the same time get the same secret: each writes a temporary file, and only one
    can link it to ``path``.
    """
    try:
        if path.exists():
            return path.read_text("utf-8").strip()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(64), "utf-8")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            [f"cannot store a secret key in {path}: {error}; set MEMORYHUB_SECRET_KEY or fix the folder"]
        ) from None


ENV_PREFIX = "MEMORYHUB_"

OPERATOR_VARIABLES = frozenset(operator_variables())


@dataclass(frozen=True)
class LoadedConfig:
    """A configuration with the source of each value, and warnings."""

    config: Config
    sources: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def load_config(environ: Mapping[str, str] | None = None, home: Path | None = None) -> LoadedConfig:
    """Load the configuration. Raise :class:`ConfigError` with all problems."""
    environ = os.environ if environ is None else environ
    problems: list[str] = []
    layers = [(str(path), _toml_table(path, problems)) for path in _toml_files(environ, home, problems)]
    variables = {ENV_PREFIX + name.upper(): name for name in Config.model_fields}
    layers += [(name, {key: environ[name]}) for name, key in variables.items() if name in environ]
    values: dict[str, Any] = {}
    sources = dict.fromkeys(Config.model_fields, "default")
    for source, table in layers:
        invalid = _find_invalid(table, source)
        problems += invalid.values()
        valid = {key: raw for key, raw in table.items() if key not in invalid}
        values |= valid
        sources |= dict.fromkeys(valid, source)
    config = Config(**values)
    problems += _check_relations(config)
    if problems:
        raise ConfigError(problems)
    return LoadedConfig(config, sources, tuple(_unknown_variables(environ, variables)))


def _toml_files(environ: Mapping[str, str], home: Path | None, problems: list[str]) -> list[Path]:
    """Return the files to read, the one with the higher precedence last."""
    usual = home / "memoryhub.toml" if home else None
    found = [usual] if usual and os.path.isfile(usual) else []
    if named := environ.get("MEMORYHUB_CONFIG"):
        if os.path.isfile(named):
            found.append(Path(named))
        else:
            problems.append(
                f"MEMORYHUB_CONFIG: no file at {named}; set it to an existing TOML file, or unset it"
            )
    return found


def _toml_table(path: Path, problems: list[str]) -> Mapping[str, Any]:
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        problems.append(f"{path}: not readable as TOML: {error}")
        return {}
    nested: Any = data
    for name in ("tool", "letsgo", "memory"):
        nested = nested.get(name, {})
        if not isinstance(nested, dict):
            problems.append(f"{path}: {name!r} of [tool.letsgo.memory] must be a table")
            return {}
    top = {} if path.name == "pyproject.toml" else {k: v for k, v in data.items() if k != "tool"}
    return {**top, **nested}


def _find_invalid(table: Mapping[str, Any], source: str) -> dict[str, str]:
    """Return the problems in the values of one source by key."""
    try:
        Config.model_validate(table)
    except ValidationError as error:
        kinds = {str(one["loc"][0]): one["type"] for one in error.errors(include_url=False)}
        return {key: f"{source}: {_describe(key, kind, table[key])}" for key, kind in kinds.items()}
    return {}


def _describe(key: str, kind: str, raw: object) -> str:
    """Describe an invalid value. ``kind``: pydantic's name for the error."""
    if kind == "extra_forbidden":
        return f"unknown key {key!r}{_did_you_mean(key, Config.model_fields)}"
    spec = Config.model_fields[key]
    if kind in ("greater_than_equal", "less_than_equal"):
        low, high = limits(spec)
        wanted = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
    elif kind == "string_pattern_mismatch":
        wanted = expected_form(spec)
    else:
        wanted = _KINDS[spec.annotation]
    return f"{key} must be {wanted}, not {raw!r}"


_KINDS: dict[object, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _check_relations(config: Config) -> list[str]:
    problems = []
    for whole in WEIGHT_GROUPS:
        total = sum(getattr(config, name) for name in whole)
        if abs(total - 1) > 1e-6:
            problems.append(f"{', '.join(whole)} must add up to 1, not {total:g}")
    ages = [getattr(config, name) for name in ASCENDING_FIELDS]
    if ages != sorted(ages):
        problems.append(
            f"{', '.join(ASCENDING_FIELDS)} must not descend, but are {', '.join(f'{a:g}' for a in ages)}"
        )
    return problems


def _unknown_variables(environ: Mapping[str, str], tunables: Iterable[str]) -> list[str]:
    """Return warnings about unknown variables with our prefix, which may be misspelt."""
    known = {*tunables, *OPERATOR_VARIABLES}
    return [
        f"environment: {name} is not a setting of memoryhub{_did_you_mean(name, known)}"
        for name in sorted(environ)
        if name.startswith(ENV_PREFIX) and name not in known
    ]


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
