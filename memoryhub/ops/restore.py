"""Replace the live store with a backup. There is a complete store at any moment."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from django.core.management import call_command
from django.db import connections

from memoryhub.audit import mirror
from memoryhub.core import database_errors
from memoryhub.core.drafts import draft_folder
from memoryhub.ops.backup import (
    SUFFIX,
    BackupError,
    backup_mirror_path,
    copy_privately,
    copy_with_log,
    into_one_file,
    live_path,
    open_store,
    stamp,
    sync,
)

_BEFORE_RESTORE = "-before-restore-"
# If opening takes longer, another process has the store open.
_EXCLUSIVE_SECONDS = 0.5


@contextlib.contextmanager
def staged(file: Path) -> Iterator[Path]:
    """Copy ``file`` next to the live store, ready to replace it. The file itself is only read."""
    if not file.is_file():
        raise BackupError(f"{file}: there is no such file")
    live = live_path()
    if live.exists() and file.samefile(live):
        raise BackupError(f"{file} is the store in use; choose a backup")
    live.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with draft_folder(live.parent) as folder:
        copy = folder / live.name
        copy_with_log(file, copy)
        into_one_file(copy, file)
        yield copy


def put_in_place(copy: Path, copy_of: Path) -> Path | None:
    """Replace the store with ``copy`` and its mirror with the one next to ``copy_of``; then migrate it.

    Return the new path of the previous store, or None if there was no store. There is a complete store at any
    moment, the old one or the new one. If the migration fails, the old one is restored.
    """
    live, log = live_path(), mirror.mirror_path()
    connections.close_all()
    _remove_second_names(live)
    kept = live.with_name(f"{live.stem}{_BEFORE_RESTORE}{stamp()}{SUFFIX}")
    with claimed(live):
        _copy_owner(copy, live if live.exists() else live.parent)
        sync(copy)
        _keep(live, log, kept)
        with _put_back_on_failure(kept, live, log):
            _replace(live, copy)
    with _put_back_on_failure(kept, live, log):
        _put_mirror(backup_mirror_path(copy_of), log)
        call_command("migrate", interactive=False, verbosity=0)
    return kept if kept.exists() else None


def set_aside() -> list[Path]:
    """Return the stores that a restore set aside next to a missing or empty store, newest first."""
    kept = sorted(_kept_stores(live_path()), reverse=True)
    return kept if kept and _is_empty(live_path()) else []


def _kept_stores(live: Path) -> Iterator[Path]:
    return live.parent.glob(f"{glob.escape(live.stem)}{_BEFORE_RESTORE}*{SUFFIX}")


def _is_empty(store: Path) -> bool:
    """Return whether the file is missing or has no table. Connecting creates such a file."""
    if not store.is_file() or not store.stat().st_size:
        return True
    try:
        with closing(open_store(store)) as file:
            return file.execute("SELECT 1 FROM sqlite_master").fetchone() is None
    except sqlite3.DatabaseError:  # damaged, so not empty; other checks report it
        return False


def second_names(live: Path) -> list[Path]:
    """Return other names of the live store, left by an interrupted restore. SQLite must not open it twice."""
    if not live.is_file() or live.stat().st_nlink == 1:
        return []
    return [path for path in _kept_stores(live) if path.samefile(live)]


def _remove_second_names(live: Path) -> None:
    for path in second_names(live):
        for name in (*_logs(path), path):
            name.unlink(missing_ok=True)


def _keep(live: Path, log: Path, kept: Path) -> None:
    """Give the store a second name, and move its mirror next to it. Do both or neither.

    A store that lacks its mirror writes a new one with the next change, so an interruption does no harm. A
    damaged store may still have its log, which belongs to it.
    """
    try:
        for source, target in zip((*_logs(live), live), (*_logs(kept), kept), strict=True):
            if source.exists():
                _link_or_copy(source, target)
        if log.exists():
            shutil.move(log, backup_mirror_path(kept))
    except BaseException:
        for path in (kept, *_logs(kept)):
            path.unlink(missing_ok=True)
        if log.exists():
            backup_mirror_path(kept).unlink(missing_ok=True)  # a copy that was not finished
        elif backup_mirror_path(kept).exists():
            shutil.move(backup_mirror_path(kept), log)
        raise


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        with draft_folder(target.parent) as folder:
            copy_privately(source, folder / target.name)
            _copy_owner(folder / target.name, source)
            sync(folder / target.name)
            (folder / target.name).replace(target)


def _replace(live: Path, copy: Path) -> None:
    """Replace the store in one step. Old logs go first: SQLite would apply them to the new file."""
    for path in _logs(live):
        path.unlink(missing_ok=True)
    copy.replace(live)
    database_errors.clear_damage()
    sync(live.parent)


def _put_mirror(source: Path, target: Path) -> None:
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with draft_folder(target.parent) as folder:
            copy_privately(source, folder / target.name)
            (folder / target.name).replace(target)


@contextlib.contextmanager
def _put_back_on_failure(kept: Path, live: Path, log: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connections.close_all()
        _put_back(kept, live, log)
        raise


def _put_back(kept: Path, live: Path, log: Path) -> None:
    """Undo the replacement, even if it was not completed."""
    for source, target in zip(_logs(kept), _logs(live), strict=True):
        if source.exists():
            source.replace(target)
        else:
            target.unlink(missing_ok=True)
    if kept.exists():
        kept.replace(live)  # does nothing when both are still names of one file
    else:
        live.unlink(missing_ok=True)
    for path in (kept, *_logs(kept)):
        path.unlink(missing_ok=True)
    log.unlink(missing_ok=True)
    if backup_mirror_path(kept).exists():
        shutil.move(backup_mirror_path(kept), log)
    sync(live.parent)


@contextlib.contextmanager
def claimed(live: Path) -> Iterator[None]:
    """Lock the store exclusively and checkpoint its log, so that the file is complete."""
    if not live.exists():
        yield
        return
    with closing(open_store(live, _EXCLUSIVE_SECONDS)) as connected:
        try:
            connected.execute("PRAGMA journal_mode=DELETE")
            connected.execute("BEGIN EXCLUSIVE")
            if connected.execute("PRAGMA journal_mode").fetchone() != ("delete",):
                raise sqlite3.OperationalError("locked")  # another process has turned the log on again
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise BackupError(
                    f"{live} is in use; stop the server and other programs that use it"
                ) from None
        except sqlite3.DatabaseError:
            pass  # damaged: kept as it is, with its log
        yield


def _logs(database: Path) -> list[Path]:
    return [Path(f"{database}{end}") for end in ("-wal", "-shm")]


def _copy_owner(file: Path, example: Path) -> None:
    """Keep the owner: root may restore the store of a service user."""
    if os.geteuid() == 0:
        owner = example.stat()
        os.chown(file, owner.st_uid, owner.st_gid)
