"""The token of each hub: from the environment, or from the keyring of the machine (package ``keyring``)."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from types import ModuleType

from memoryhub.client.calls import DEFAULT_SERVER, SERVER_VARIABLE, TOKEN_VARIABLE, check_server
from memoryhub.client.errors import ConfigurationError

SERVICE = "memoryhub"  # the keyring's name for all tokens; the address of the hub is the user name
_FILE_VARIABLE = f"{TOKEN_VARIABLE}_FILE"
INSTALL_KEYRING = "pip install 'memoryhub[keyring]'"


def find_server(option: str | None) -> str:
    """Return the address of the hub from the option, the environment or the default."""
    return check_server(option or os.environ.get(SERVER_VARIABLE) or DEFAULT_SERVER)


def find_token(server: str) -> str:
    """Return the token of a hub. ConfigurationError says where a token can be put."""
    token, reason = _from_environment(), ""
    if not token:
        token, reason = read_keyring(server)
    if token:
        return token
    raise ConfigurationError(
        f"No token for {server}. Set {TOKEN_VARIABLE}, or run: memoryhub connect --server {server}"
        f"{reason and f' ({reason})'}"
    )


def store_token(server: str, token: str) -> str:
    """Store a token in the keyring. Return why that was not possible, or an empty text."""
    keyring = _import_keyring()
    if keyring is None:
        return _missing()
    try:
        keyring.set_password(SERVICE, server, token)
    except keyring.errors.KeyringError as error:
        return _unusable(error)
    return ""


def _from_environment() -> str:
    path = os.environ.get(_FILE_VARIABLE)
    if not path or os.environ.get(TOKEN_VARIABLE):
        return os.environ.get(TOKEN_VARIABLE, "").strip()
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{_FILE_VARIABLE} cannot be read: {error}") from None


def read_keyring(server: str) -> tuple[str, str]:
    """Return the token of a hub, and why there is none."""
    keyring = _import_keyring()
    if keyring is None:
        return "", _missing()
    try:
        return keyring.get_password(SERVICE, server) or "", "the keyring has none either"
    except keyring.errors.KeyringError as error:
        return "", _unusable(error)


def _import_keyring() -> ModuleType | None:
    try:
        return import_module("keyring")
    except ImportError:
        return None


def _missing() -> str:
    return f"the keyring is not available; {INSTALL_KEYRING} adds it"


def _unusable(error: Exception) -> str:
    return f"the keyring cannot be used: {error}"
