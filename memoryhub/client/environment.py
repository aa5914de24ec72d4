"""What each command takes from its environment: the address and the token of the hub, and the terminal.

The token is in a variable, or in the keyring of the machine (package ``keyring``).
"""

from __future__ import annotations

import argparse
import difflib
import getpass
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType

from pydantic import BaseModel

from memoryhub.client.calls import DEFAULT_SERVER, SERVER_VARIABLE, ConfigurationError, check_server
from memoryhub.client.clients import Client
from memoryhub.core.agent_hooks import TOKEN_VARIABLE
from memoryhub.core.text import shorten

SERVICE = "memoryhub"  # the keyring's name for all tokens; the address of the hub is the user name
_FILE_VARIABLE = f"{TOKEN_VARIABLE}_FILE"
INSTALL_KEYRING = "pip install keyring"


def find_server(option: str | None) -> str:
    """Return the address of the hub from the option, the environment or the default."""
    return check_server(option or os.environ.get(SERVER_VARIABLE) or DEFAULT_SERVER)


def find_token(server: str) -> str:
    """Return the token of a hub. Raise ConfigurationError if there is none."""
    token, reason = _from_environment(), ""
    if not token:
        token, reason = read_keyring(server)
    if token:
        return token
    raise ConfigurationError(
        f"No token for {server}. Set {TOKEN_VARIABLE}, or run: memoryhub connect --server {server}"
        f"{reason and f' ({reason})'}"
    )


def open_client(server: str) -> Client:
    """Return a client for a hub, with the token of this machine."""
    return Client(server, find_token(server))


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


def find_or_ask_token(server: str) -> str:
    """Return the token of the hub, or ask for it and store it in the keyring."""
    try:
        return find_token(server)
    except ConfigurationError:
        if not sys.stdin.isatty():
            raise
    print(f"Create a token at {server}/connect/ and paste it here. It is not shown.")
    token = getpass.getpass("Token: ").strip()
    if not token:
        raise ConfigurationError("No token was given.")
    if reason := store_token(server, token):
        print(f"The token was not stored: {reason}. Set {TOKEN_VARIABLE} yourself.", file=sys.stderr)
    return token


def explain_token(server: str) -> None:
    """Print how to set the variable from which the agents read the token."""
    is_stored = not os.environ.get(TOKEN_VARIABLE) and read_keyring(server)[0]
    value = f'"$(keyring get {SERVICE} {server})"' if is_stored else "mh_..."
    print(
        f"The agents read the token from {TOKEN_VARIABLE}. Set it in the profile of your shell:\n"
        f"  export {TOKEN_VARIABLE}={value}"
    )


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


# Control and direction characters. Stored text is not trusted.
_UNSAFE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def make_safe(text: str) -> str:
    """Replace characters that could change what a terminal shows. Line breaks stay."""
    return _UNSAFE.sub("�", text.replace("\r\n", "\n").replace("\t", "    "))


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in columns. In a terminal, the last column is cut at its edge."""
    lines = [[" ".join(make_safe(cell).split()) for cell in row] for row in (heads, *rows)]
    widths = [max(_width(line[column]) for line in lines) for column in range(len(heads))]
    used = [column for column, width in enumerate(widths) if any(line[column] for line in lines[1:])]
    left = shutil.get_terminal_size().columns - sum(widths[column] + 2 for column in used[:-1])
    for line in lines:
        cells = [line[column] for column in used]
        last = shorten(cells[-1], max(left, 20)) if sys.stdout.isatty() else cells[-1]
        padded = [
            cell + " " * (widths[column] - _width(cell))
            for column, cell in zip(used, cells[:-1], strict=False)
        ]
        print("  ".join([*padded, last]).rstrip())


def _width(text: str) -> int:
    """Return the number of columns: East Asian characters take two, combining ones none."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def print_diff(before: str | None, after: str | None, path: Path, context: int = 3) -> None:
    """Print the change of a file; None if there is no such file. ``context``: unchanged lines around it."""
    names = ["/dev/null" if text is None else str(path) for text in (before, after)]
    old, new = (before or "").splitlines(), (after or "").splitlines()
    lines = difflib.unified_diff(old, new, names[0], names[1], n=context, lineterm="")
    print("\n".join(map(make_safe, lines)))


def confirm(question: str, yes: bool) -> bool:
    """Ask the person for consent, unless they have given it with ``--yes``."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigurationError(
            "This is not a terminal, so the command cannot ask. Use --yes to apply the changes, or --dry-run."
        )
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def print_json(results: BaseModel | Sequence[BaseModel]) -> int:
    """Print results as JSON, and return the exit status of success."""
    models = results if isinstance(results, Sequence) else [results]
    values = [model.model_dump(mode="json") for model in models]
    text = json.dumps(values if isinstance(results, Sequence) else values[0], indent=2, ensure_ascii=False)
    print(_UNSAFE.sub(lambda unsafe: f"\\u{ord(unsafe[0]):04x}", text))
    return 0


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def format_day(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d}"


def format_time(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M}"
