"""Files on the disks of this machine, also if the store is on PostgreSQL: incomplete files, and full disks.

Incomplete files and folders contain memories in plain text. Each is listed in ``LETSGO_HOME/drafts`` while a
process writes it, under a lock that ends with the process. A later start or run finds and removes what a
killed process left, wherever it is.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from django.conf import settings

from memoryhub.core.database import store_path

MIN_FREE_BYTES = 1_000_000  # a log with room for a small write would hide a full disk
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
FULL_DISK = (
    "the disk of this machine is full or read-only, so the file was not saved;"
    " try again later, or ask the operator to run: manage.py doctor"
)


def is_disk_error(error: BaseException) -> bool:
    """Whether a local file could not be written because its disk is full or read-only."""
    return isinstance(error, OSError) and error.errno in _DISK_ERRORS


def is_full(folder: Path) -> bool:
    """Whether the disk of a folder, which need not exist yet, is full."""
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    return shutil.disk_usage(existing).free < MIN_FREE_BYTES


def find_full_folders() -> list[Path]:
    """Return the folders on full disks: of the store, the mirror of the journal, and temporary files."""
    folders = [store_path().absolute().parent, Path(settings.MEMORY_LOG).absolute().parent]
    with suppress(FileNotFoundError):  # it could write to no folder at the start of the process
        folders.append(Path(tempfile.gettempdir()))
    return [one for one in dict.fromkeys(folders) if is_full(one)]


logger = logging.getLogger(__name__)
_NAME = re.compile(r"\.memoryhub-[0-9a-f]{12}|\..+\.[0-9a-f]{8}", re.DOTALL)
# Folders that earlier releases made without listing them.
_UNLISTED = re.compile(r"\.memoryhub-[0-9a-f]{12}|examined-[a-z0-9_]{8}")
_SECONDS_TO_LOCK = 60  # a list entry without a path is new, or was not completed


@contextmanager
def draft_file(target: Path) -> Iterator[Path]:
    """Yield a name for the incomplete content of ``target``. The file is removed unless it was renamed."""
    with _listed(target.with_name(f".{target.name}.{secrets.token_hex(4)}")) as path:
        yield path


@contextmanager
def draft_folder(parent: Path) -> Iterator[Path]:
    """Create a temporary folder for incomplete files, on the disk of their destination."""
    with _listed(parent / f".memoryhub-{secrets.token_hex(6)}") as path:
        path.mkdir(mode=0o700)
        yield path


@contextmanager
def _listed(path: Path) -> Iterator[Path]:
    remove_abandoned()
    entry = _add_to_list(path)
    try:
        yield path
    finally:
        _remove(path)
        if entry:
            Path(entry.name).unlink(missing_ok=True)
            entry.close()


def _add_to_list(path: Path) -> IO[str] | None:
    """Return the locked list entry of a path, or None if the disk of the home is full or read-only."""
    entry = _drafts_folder() / secrets.token_hex(8)
    try:
        entry.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = entry.open("x")
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(str(path.absolute()))
        file.flush()
    except OSError as error:
        logger.warning("%s is not listed in %s: %s", path, entry.parent, error.strerror)
        return None
    return file


def find_abandoned() -> list[Path]:
    """Return what processes that ended have left."""
    in_use, found = set(), []
    for entry in _entries():
        with entry.open() as file:
            path = Path(file.read())
            if not _try_lock(file):
                in_use.add(path)
            elif _NAME.fullmatch(path.name) and os.path.lexists(path):
                found.append(path)
    for parent in {Path(settings.HOME), Path(settings.HOME) / "backups", store_path().absolute().parent}:
        if parent.is_dir():
            found += [path for path in parent.iterdir() if _UNLISTED.fullmatch(path.name)]
    return sorted(set(found) - in_use)


def remove_abandoned() -> list[Path]:
    """Remove and return what processes that ended have left."""
    found = find_abandoned()
    for path in found:
        _remove(path)
    for entry in _entries():
        with suppress(OSError), entry.open() as file:
            old = time.time() - entry.stat().st_mtime > _SECONDS_TO_LOCK
            if _try_lock(file) and (file.read() or old):
                entry.unlink()
    return [path for path in found if not os.path.lexists(path)]


def _drafts_folder() -> Path:
    return Path(settings.HOME) / "drafts"


def _entries() -> list[Path]:
    return sorted(_drafts_folder().iterdir()) if _drafts_folder().is_dir() else []


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
