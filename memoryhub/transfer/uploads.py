"""Uploaded files, stored in ``LETSGO_HOME/imports`` until they are imported."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings

from memoryhub.models import MaintenanceRun
from memoryhub.transfer.reader import imports_folder

RETENTION_DAYS = 7  # for uploads that are never fully imported
_KEY = re.compile(r"[0-9a-f]{32}")
_PENDING = (MaintenanceRun.Status.QUEUED, MaintenanceRun.Status.RUNNING)


class UploadTooLarge(Exception):
    """The file exceeds ``max_upload_mb``; the message says what to do instead."""


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
    key, left = secrets.token_hex(16), max_upload_bytes()
    draft = upload_path(key).with_suffix(".part")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for chunk in chunks:
                left -= len(chunk)
                if left < 0:
                    raise upload_too_large()
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(upload_path(key))
    finally:
        draft.unlink(missing_ok=True)
    return key


def upload_path(key: str) -> Path:
    """Return the path of an upload. Raise ValueError for an invalid key."""
    if not _KEY.fullmatch(key):
        raise ValueError("this is not the key of an upload")
    return imports_folder() / f"upload-{key}"


def id_map_path(key: str) -> Path:
    """Return the path of the upload's id map."""
    return upload_path(key).with_suffix(".ids")


def delete_upload(key: str) -> None:
    """Delete an upload and its id map."""
    for path in (upload_path(key), id_map_path(key)):
        path.unlink(missing_ok=True)


def delete_old_uploads() -> None:
    """Delete uploads after the retention time, unless a run still needs them."""
    pending = MaintenanceRun.objects.filter(operation="import", status__in=_PENDING)
    needed = {str(params.get("upload")) for params in pending.values_list("params", flat=True)}
    before = time.time() - RETENTION_DAYS * 24 * 3600
    for path in imports_folder().glob("upload-*"):
        with contextlib.suppress(FileNotFoundError):
            if path.stem.removeprefix("upload-") not in needed and path.stat().st_mtime < before:
                path.unlink()
