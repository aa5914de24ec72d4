"""The record of what ``connect`` has added to configuration files, and safe changes of such files."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from memoryhub.client.config_files import Entry
from memoryhub.client.errors import ConfigurationError, UnusableConfig
from memoryhub.core.files import replace_file

BACKUP_SUFFIX = ".memoryhub-backup"


@dataclass
class Addition:
    """What was added to one file. ``original`` and ``result``: digests of its text before and after.

    ``original`` is empty for a new file. ``guideline``: a guideline or a whole new file.
    """

    entries: list[Entry] = field(default_factory=list)
    toml: str = ""
    guideline: str = ""
    original: str = ""
    result: str = ""


_ADDITIONS = TypeAdapter(dict[str, Addition])


class Record:
    """The additions by file, stored in the user's state folder."""

    def __init__(self, additions: dict[str, Addition]) -> None:
        self._additions = additions

    @staticmethod
    def _path() -> Path:
        return state_folder() / "connect.json"

    @classmethod
    def load(cls) -> Record:
        text = read_text(cls._path())
        try:
            return cls(_ADDITIONS.validate_json(text) if text else {})
        except ValueError:
            raise ConfigurationError(f"{cls._path()} cannot be read. Restore it, or remove it.") from None

    def paths(self) -> list[Path]:
        return [Path(path) for path in self._additions]

    def get(self, path: Path) -> Addition | None:
        return self._additions.get(str(path))

    def set(self, path: Path, addition: Addition | None) -> None:
        if addition is None:
            self._additions.pop(str(path), None)
        else:
            self._additions[str(path)] = addition
        if self._additions:
            write_text(self._path(), _ADDITIONS.dump_json(self._additions, indent=2).decode())
            return
        self._path().unlink(missing_ok=True)
        with suppress(OSError):  # it does not exist, or contains other files
            self._path().parent.rmdir()


@dataclass
class Change:
    """A change of one file. ``after`` is None for a file to delete.

    ``original``: the text without the entries, for the backup. ``notes`` are shown to the user.
    """

    path: Path
    before: str | None
    after: str | None
    original: str | None = None
    addition: Addition | None = None
    notes: list[str] = field(default_factory=list)


def apply_change(change: Change, record: Record) -> None:
    """Change a file, after writing its backup and recording the addition."""
    path = change.path
    if read_text(path) != change.before:
        raise UnusableConfig("it was changed in the meantime. Run the command again")
    if change.addition is None:
        if record.get(path) is None:
            return
        if change.after != change.before:
            write_or_delete(path, change.after)
        backup_path(path).unlink(missing_ok=True)
        record.set(path, None)
        return
    record.set(path, change.addition)
    if change.before == change.after:
        return
    if change.original is not None:
        write_text(backup_path(path), change.original, like=path)
    write_or_delete(path, change.after)


def folder_from(variable: str, default: Path) -> Path:
    """Return the folder that an environment variable names, or the default."""
    value = os.environ.get(variable)
    return Path(value).expanduser() if value else default


def state_folder() -> Path:
    """Return the folder in which the commands store what they must remember."""
    return folder_from("XDG_STATE_HOME", Path.home() / ".local" / "state") / "memoryhub"


def backup_path(path: Path) -> Path:
    """Return the path of the backup of a file."""
    return path.with_name(path.name + BACKUP_SUFFIX)


def read_text(path: Path) -> str | None:
    """Return the text of a file with its own line endings; None if there is no file."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None


def write_or_delete(path: Path, text: str | None) -> None:
    """Replace a file, or delete it if there is no text."""
    if text is None:
        path.unlink()
    else:
        write_text(path, text)


def write_text(path: Path, text: str, like: Path | None = None) -> None:
    """Replace a file at once. It keeps its mode, or gets that of ``like``; a new file is private."""
    path = path.resolve()  # a link stays a link
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path, to_disk=True) as file:
        file.write(text.encode())
        with suppress(FileNotFoundError):
            os.fchmod(file.fileno(), (like or path).stat().st_mode & 0o777)


def digest(text: str | None) -> str:
    """Return a digest of the text of a file; an empty text if there is no file."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()
