"""Full disks of this machine: local files need them, also if the store is on PostgreSQL."""

from __future__ import annotations

import errno
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

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
