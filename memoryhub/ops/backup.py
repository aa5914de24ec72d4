"""Backups of the store: create, inspect, restore.

A backup is one SQLite file (``memoryhub-<time>.db``), made with SQLite's backup API while agents continue to
write, and a copy of the journal's mirror (``memoryhub-<time>.journal.jsonl``). A copy of the live file itself
would lack the changes that are still in its write-ahead log. A restore replaces the live store; there is a
complete store at any moment.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import connections

from memoryhub.audit import journal, mirror
from memoryhub.backends import JOURNAL_TABLE, MEMORY_TABLE, release
from memoryhub.core import database
from memoryhub.core.database import is_postgres, store_path
from memoryhub.core.database_errors import FileConnection, is_damage
from memoryhub.core.disks import draft_folder
from memoryhub.core.files import create_file

SUFFIX, MIRROR_SUFFIX = ".db", ".journal.jsonl"
_NAME = re.compile(r"memoryhub-\d{8}T\d{9}Z\.db")
_BUSY_SECONDS = 20


class BackupError(Exception):
    """A backup or restore that cannot be done. The message says why and what to do."""


@dataclass(frozen=True)
class Contents:
    """Summary of the content of a store file."""

    path: Path
    size: int
    memories: int
    trashed: int
    facts: int
    sessions: int
    users: int
    newest: str
    chain: journal.Verification
    refusal: str
    """Why this release may not serve the store, or an empty string."""
    altered: tuple[str, ...] = ()
    """The ids of memories whose text does not have the hash that was stored with it."""

    def summary(self) -> str:
        """Return the summary on one line."""
        newest = f", the newest of {self.newest[:19]} UTC" if self.newest else ""
        return (
            f"memories {self.memories:,}, in the trash {self.trashed:,}, facts {self.facts:,}, "
            f"sessions {self.sessions:,}, users {self.users:,}, journal rows {self.chain.rows:,}{newest}; "
            f"{self.size / 1e6:,.1f} MB"
        )

    def damage(self) -> str:
        """Return the defects of its journal and its texts, or an empty string."""
        parts = [] if self.chain.ok else [f"the journal's chain is broken at row {self.chain.first_bad_seq}"]
        if self.altered:
            ids = ", ".join(self.altered[:5]) + (", …" if len(self.altered) > 5 else "")
            parts.append(f"the text of {len(self.altered):,} memories was changed outside the hub: {ids}")
        return "; ".join(parts)


def live_path() -> Path:
    """Return the file of the store, also behind a link. Raise BackupError for a store on PostgreSQL."""
    if is_postgres():
        raise BackupError(
            "the store is on PostgreSQL: back it up with pg_dump and restore it with pg_restore"
            " (docs/deployment.md)"
        )
    return store_path().resolve()


def default_folder() -> Path:
    return Path(settings.HOME) / "backups"


def backup_mirror_path(file: Path) -> Path:
    """Return the path of the mirror that belongs to a backup."""
    return file.with_name(file.name.removesuffix(SUFFIX) + MIRROR_SUFFIX)


def stamp() -> str:
    """Return the current UTC time to the millisecond, in a form that sorts chronologically."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"[:-3] + "Z"


def back_up(target: Path) -> Contents:
    """Copy the live store and its mirror to ``target``, which is created only after verification."""
    if target.exists():
        raise BackupError(f"{target} exists; choose another file, or a folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with draft_folder(target.parent) as folder:
            copied_mirror = copy_mirror(folder / "mirror")
            copy = folder / "copy"
            _copy_live(copy)
            contents = inspect(copy, live_path())
            if copied_mirror:
                (folder / "mirror").replace(backup_mirror_path(target))
            copy.replace(target)
        sync(target.parent)
    except OSError as error:
        raise BackupError(f"cannot write to {target.parent}: {error.strerror or error}") from None
    return contents


def prune(folder: Path, keep: int) -> list[Path]:
    """Remove all but the newest ``keep`` backups and return the removed files. Other files stay."""
    backups = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    old = backups[: max(0, len(backups) - keep)]
    for path in old:
        path.unlink()
        backup_mirror_path(path).unlink(missing_ok=True)
    return old


def inspect(path: Path, shown_as: Path | None = None) -> Contents:
    """Return the summary of a store file. Raise :class:`BackupError` if it is damaged or not a store.

    ``shown_as``: the path for messages, if ``path`` is a temporary copy.
    """
    name = shown_as or path
    try:
        with closing(open_store(path)) as file:
            damage = [row[0] for row in file.execute("PRAGMA integrity_check")]
            if damage != ["ok"]:
                raise BackupError(f"{name} is damaged: {damage[0]}")
            return _contents(path, file, name)
    except sqlite3.DatabaseError as error:
        raise BackupError(f"{name} is damaged or not an SQLite database: {error}") from None


def _contents(path: Path, file: sqlite3.Connection, name: Path) -> Contents:
    tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if missing := {MEMORY_TABLE, JOURNAL_TABLE, "django_migrations"} - tables:
        raise BackupError(f"{name} is not a store of memoryhub: it lacks {', '.join(sorted(missing))}")

    def count(table: str, condition: str = "1") -> int:
        sql = f"SELECT count(*) FROM {table} WHERE {condition}"  # noqa: S608 own names
        return int(file.execute(sql).fetchone()[0]) if table in tables else 0

    return Contents(
        path=path,
        size=path.stat().st_size,
        memories=count(MEMORY_TABLE, "deleted_at IS NULL"),
        trashed=count(MEMORY_TABLE, "deleted_at IS NOT NULL"),
        facts=count("memoryhub_fact"),
        sessions=count("memoryhub_session"),
        users=count("auth_user"),
        newest=str(file.execute(f"SELECT max(at) FROM {JOURNAL_TABLE}").fetchone()[0] or ""),  # noqa: S608
        chain=journal.check_chain(file.execute(journal.STORED_BYTES_SQL)),
        refusal=release.refusal(
            file.execute(release.READ_SQL).fetchone()[0],
            file.execute("SELECT app, name FROM django_migrations"),
        ),
        altered=tuple(_altered_memories(file)),
    )


def _altered_memories(file: sqlite3.Connection) -> Iterator[str]:
    """Yield the ids of memories whose text does not match its hash. Damaged text may not be UTF-8."""
    sql = f"SELECT uid, CAST(content AS BLOB), content_hash FROM {MEMORY_TABLE}"  # noqa: S608 own name
    for uid, content, digest in file.execute(sql):
        if hashlib.sha256(content or b"").hexdigest() != digest:
            yield str(uid)


def copy_with_log(file: Path, copy: Path) -> None:
    """Copy a store that is not in use, and its write-ahead log. The log of a link is next to its target."""
    for end in ("", "-wal"):
        with contextlib.suppress(FileNotFoundError):
            copy_privately(Path(f"{file.resolve()}{end}"), Path(f"{copy}{end}"))


def _copy_live(target: Path) -> None:
    """Copy the store in one read transaction, so writers do not wait and the copy is consistent."""
    if not live_path().is_file():
        raise BackupError(f"there is no store at {live_path()}; nothing to back up")
    target.touch(mode=0o600)
    try:
        with closing(open_store(live_path())) as live, closing(open_store(target)) as copy:
            live.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log
    except sqlite3.Error as error:
        state = "is damaged" if is_damage(error) else "could not be copied"
        raise BackupError(f"the store {state}: {error}") from None
    sync(target)


def copy_mirror(target: Path) -> bool:
    """Copy the mirror before the store, so that no line is ahead of the copied rows."""
    if not mirror.mirror_path().is_file():
        return False
    copy_privately(mirror.mirror_path(), target)
    with target.open("r+b") as file:
        mirror.last_row(file)  # removes an unfinished line
        os.fsync(file.fileno())
    return True


def copy_privately(source: Path, target: Path) -> None:
    """Copy a file to a new one that only its owner can read."""
    with source.open("rb") as read, create_file(target) as write:
        shutil.copyfileobj(read, write, 1024 * 1024)


def into_one_file(copy: Path, file: Path) -> None:
    """Checkpoint a write-ahead log that was next to the file."""
    try:
        with closing(open_store(copy)) as connected:
            connected.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.DatabaseError as error:
        state = "is damaged or not an SQLite database" if is_damage(error) else "could not be copied"
        raise BackupError(f"{file} {state}: {error}") from None


def open_store(path: Path, timeout: float = _BUSY_SECONDS) -> sqlite3.Connection:
    """Connect to a store file that exists, outside of Django."""
    address = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(address, timeout=timeout, uri=True, isolation_level=None, factory=FileConnection)


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
    for path in second_names(live):
        for name in (*_logs(path), path):
            name.unlink(missing_ok=True)
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
    database.clear_damage()
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
