"""Read environment variables, and secrets from the file in ``<NAME>_FILE``. Pure."""

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
    """Return the folder of the store: ``LETSGO_HOME``, or else ``~/.letsgo``."""
    return read_path("LETSGO_HOME", "~/.letsgo", environ)


def read_path(name: str, default: Path | str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return an absolute path. ``~`` is the user's home folder."""
    written = environ.get(name) or default
    try:
        return Path(written).expanduser().absolute()
    except RuntimeError as error:
        raise ConfigError([f"{name}: cannot resolve {written}: {error}; set {name} to a full path"]) from None


def make_folder(path: Path, name: str) -> None:
    """Create a folder for its owner only, unless it exists. ``name``: the variable with the path."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigError(
            [f"{name}: cannot make the folder {path}: {error}; name another or make room"]
        ) from None


def read_time_zone(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of a time zone, by default UTC."""
    written = environ.get(name) or "UTC"
    try:
        zoneinfo.ZoneInfo(written)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise ConfigError(
            [f"{name}: there is no time zone {written!r}; write one like Europe/Berlin"]
        ) from None
    return written


def read_flag(name: str, default: bool = False, environ: Mapping[str, str] = os.environ) -> bool:
    """Return a boolean variable. Raise ConfigError if it is neither true nor false."""
    try:
        return parse_flag(environ[name]) if environ.get(name) else default
    except ValueError:
        raise ConfigError([f"{name} must be true or false, not {environ[name]!r}"]) from None


def read_list(name: str, default: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the items of a comma-separated variable."""
    return [item.strip() for item in (environ.get(name) or default).split(",") if item.strip()]


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


def read_oidc_provider(prefix: str, environ: Mapping[str, str] = os.environ) -> tuple[str, str, str]:
    """Return issuer, client id and client secret of an OpenID Connect provider, empty without an issuer."""
    issuer = environ.get(f"{prefix}_ISSUER", "").strip()
    client, secret = environ.get(f"{prefix}_CLIENT_ID", ""), read_secret(f"{prefix}_CLIENT_SECRET", environ)
    if not issuer:
        return "", "", ""
    address = urlsplit(issuer)
    if address.scheme != "https" and address.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise ConfigError([f"{prefix}_ISSUER must be an https address, as the provider writes it"])
    if not client or not secret:
        raise ConfigError([f"{prefix}_ISSUER needs {prefix}_CLIENT_ID and {prefix}_CLIENT_SECRET too"])
    if importlib.util.find_spec("mozilla_django_oidc") is None:
        raise ConfigError([f"{prefix}_ISSUER needs the extra oidc: pip install 'memoryhub[oidc]'"])
    return issuer, client, secret


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
