"""Uploaded files, stored in ``LETSGO_HOME/imports`` until they are imported.

If nodes share a database, it contains a copy in parts, because any node may execute the import.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from memoryhub.core.database import is_postgres, write_transaction
from memoryhub.models import MaintenanceRun, UploadPart
from memoryhub.transfer.files import write_atomically
from memoryhub.transfer.reader import imports_folder

RETENTION_DAYS = 7  # for uploads that are never fully imported
_PART_BYTES = 1024 * 1024
_KEY = re.compile(r"[0-9a-f]{32}")
_SECONDS_TO_STORE = 600  # the copy of an upload, at most
_PENDING = (MaintenanceRun.Status.QUEUED, MaintenanceRun.Status.RUNNING)


class UploadTooLarge(Exception):
    """The file exceeds ``max_upload_mb``. The message contains the fix."""


def max_upload_bytes() -> int:
    """Return the size limit in bytes."""
    return settings.MEMORYHUB.max_upload_mb * 1024 * 1024


def upload_too_large() -> UploadTooLarge:
    mebibytes = settings.MEMORYHUB.max_upload_mb
    return UploadTooLarge(
        f"the file is larger than {mebibytes} MiB (max_upload_mb); import it with manage.py import_memories"
    )


def save_upload(chunks: Iterable[bytes]) -> str:
    """Save an upload atomically, readable by its owner only; return its key.

    Raise :class:`UploadTooLarge`.
    """
    delete_old_uploads()
    key = secrets.token_hex(16)
    write_atomically(upload_path(key), _require_size(chunks))
    if is_postgres():
        _store_parts(key)
    return key


def _require_size(chunks: Iterable[bytes]) -> Iterator[bytes]:
    left = max_upload_bytes()
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise upload_too_large()
        yield chunk


def _store_parts(key: str) -> None:
    with write_transaction(), upload_path(key).open("rb") as file:
        for number in itertools.count():
            content = file.read(_PART_BYTES)
            if not content:
                return
            UploadPart.objects.create(key=key, number=number, size=len(content), content=content)


def find_upload(key: str) -> Path | None:
    """Return the path of an upload, which another node may have received; None if it is gone."""
    path = upload_path(key)
    parts = UploadPart.objects.filter(key=key).order_by("number").values_list("content", flat=True)
    if not path.exists() and parts.exists():
        write_atomically(path, map(bytes, parts.iterator(chunk_size=1)))
    return path if path.exists() else None


def is_stored(key: str) -> bool:
    """Return whether :func:`find_upload` would find an upload."""
    return upload_path(key).exists() or UploadPart.objects.filter(key=key).exists()


def upload_path(key: str) -> Path:
    """Return the path of an upload. Raise ValueError for an invalid key."""
    if not _KEY.fullmatch(key):
        raise ValueError("this is not the key of an upload")
    return imports_folder() / f"upload-{key}"


def id_map_path(key: str) -> Path:
    return upload_path(key).with_suffix(".ids")


def delete_upload(key: str) -> None:
    """Delete an upload and its id map."""
    with write_transaction():
        UploadPart.objects.filter(key=key).delete()
    for path in (upload_path(key), id_map_path(key)):
        path.unlink(missing_ok=True)


def delete_old_uploads() -> None:
    """Delete uploads after the retention time, unless a run still needs them.

    Also delete files of this node that were imported: the import was killed at its end, or another node did
    it.
    """
    pending = MaintenanceRun.objects.filter(operation="import", status__in=_PENDING)
    needed = {str(params.get("upload")) for params in pending.values_list("params", flat=True)}
    before = time.time() - RETENTION_DAYS * 24 * 3600
    limit = timezone.now() - timedelta(days=RETENTION_DAYS)
    old = UploadPart.objects.filter(created_at__lt=limit).exclude(key__in=needed)
    if old.exists():
        with write_transaction():
            old.delete()
    for path in imports_folder().glob("upload-*"):
        with contextlib.suppress(FileNotFoundError):
            key, written_at = path.stem.removeprefix("upload-"), path.stat().st_mtime
            if key not in needed and (written_at < before or _is_imported(key, written_at)):
                with write_transaction():
                    UploadPart.objects.filter(key=key).delete()
                path.unlink()


def _is_imported(key: str, written_at: float) -> bool:
    """Whether an upload was imported. Its copy in the database is stored after the file."""
    if time.time() - written_at <= _SECONDS_TO_STORE:
        return False
    if is_postgres() and not UploadPart.objects.filter(key=key).exists():
        return True
    imports = MaintenanceRun.objects.filter(operation="import", dry_run=False, params__upload=key)
    return imports.filter(status=MaintenanceRun.Status.DONE).exists()
