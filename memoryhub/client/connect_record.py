"""The record of what ``connect`` has added to configuration files, and safe changes of such files."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memoryhub.client.config_files import Entry
from memoryhub.client.errors import ConfigurationError

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


class Record:
    """What was added to which file, in a file of the user's state folder."""

    def __init__(self, additions: dict[str, Addition]) -> None:
        self._additions = additions

    @staticmethod
    def _path() -> Path:
        folder = folder_from("XDG_STATE_HOME", Path.home() / ".local" / "state")
        return folder / "memoryhub" / "connect.json"

    @classmethod
    def load(cls) -> Record:
        text = read_text(cls._path())
        try:
            found = json.loads(text) if text else {}
            return cls({path: _to_addition(values) for path, values in found.items()})
        except (ValueError, TypeError, KeyError, AttributeError):
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
            values = {name: asdict(one) for name, one in self._additions.items()}
            write_text(self._path(), json.dumps(values, indent=2))
            return
        self._path().unlink(missing_ok=True)
        with suppress(OSError):  # it was never made, or contains something else
            self._path().parent.rmdir()


def _to_addition(values: dict[str, Any]) -> Addition:
    entries = [Entry(**{**entry, "path": tuple(entry["path"])}) for entry in values["entries"]]
    return Addition(**{**values, "entries": entries})


def folder_from(variable: str, default: Path) -> Path:
    """Return the folder that an environment variable names, or the default."""
    value = os.environ.get(variable)
    return Path(value).expanduser() if value else default


def backup_path(path: Path) -> Path:
    """Return where the text of a file is kept as it was before."""
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
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            Path(name).chmod((like or path).stat().st_mode & 0o777)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def digest(text: str | None) -> str:
    """Return a digest of the text of a file; an empty text if there is no file."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()
