"""Small readers of environment variables, with secrets from ``<NAME>_FILE`` too. Pure."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import zoneinfo
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from memoryhub.config import ConfigError, parse_flag


def read_home(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of the real store: ``LETSGO_HOME``, else ``~/.letsgo``."""
    return read_path("LETSGO_HOME", "~/.letsgo", environ)


def read_path(name: str, default: Path | str, environ: Mapping[str, str] = os.environ) -> Path:
    """An absolute path; ``~`` is the user's home folder."""
    written = environ.get(name) or default
    try:
        return Path(written).expanduser().absolute()
    except RuntimeError as error:
        raise ConfigError([f"{name}: cannot resolve {written}: {error}; set {name} to a full path"]) from None


def make_folder(path: Path, name: str) -> None:
    """Make the folder that the variable ``name`` asks for, for its owner alone, unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigError(
            [f"{name}: cannot make the folder {path}: {error}; name another or make room"]
        ) from None


def read_time_zone(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """The name of a time zone, UTC unless it is set."""
    written = environ.get(name) or "UTC"
    try:
        zoneinfo.ZoneInfo(written)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise ConfigError(
            [f"{name}: there is no time zone {written!r}; write one like Europe/Berlin"]
        ) from None
    return written


def read_flag(name: str, default: bool = False, environ: Mapping[str, str] = os.environ) -> bool:
    """A yes/no variable; ConfigError when it is neither."""
    try:
        return parse_flag(environ[name]) if environ.get(name) else default
    except ValueError:
        raise ConfigError([f"{name} must be true or false, not {environ[name]!r}"]) from None


def read_list(name: str, default: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """A comma-separated variable."""
    return [item.strip() for item in (environ.get(name) or default).split(",") if item.strip()]


def read_secret(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """``NAME``, else the content of the file named by ``NAME_FILE``, else an empty string."""
    if value := environ.get(name):
        return value
    if path := environ.get(f"{name}_FILE"):
        try:
            return Path(path).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError([f"{name}_FILE: cannot read {path}: {error}"]) from None
    return ""


def read_oidc_provider(prefix: str, environ: Mapping[str, str] = os.environ) -> tuple[str, str, str]:
    """The issuer, client id and client secret of an OpenID Connect provider; empty without an issuer."""
    issuer = environ.get(f"{prefix}_ISSUER", "").strip()
    client, secret = environ.get(f"{prefix}_CLIENT_ID", ""), read_secret(f"{prefix}_CLIENT_SECRET", environ)
    if not issuer:
        return "", "", ""
    address = urlsplit(issuer)
    if address.scheme != "https" and address.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise ConfigError([f"{prefix}_ISSUER must be an https address, as the provider writes it"])
    if not client or not secret:
        raise ConfigError([f"{prefix}_ISSUER needs {prefix}_CLIENT_ID and {prefix}_CLIENT_SECRET beside it"])
    if importlib.util.find_spec("mozilla_django_oidc") is None:
        raise ConfigError([f"{prefix}_ISSUER needs the extra oidc: pip install 'memoryhub[oidc]'"])
    return issuer, client, secret


def load_or_create_secret(path: Path) -> str:
    """A random secret kept in ``path`` (mode 600), made at first use.

    Two processes that start at once agree: the file is made whole beside its place, and one of them links it
    there.
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
            [f"cannot keep a secret key in {path}: {error}; set MEMORYHUB_SECRET_KEY or mend the folder"]
        ) from None
