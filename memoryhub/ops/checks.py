"""System checks that report what is wrong with an installation and how to fix it."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connection

from memoryhub.backends import release
from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.core.network import EndpointProblem

# The tag of the checks that commands run first. Django's other checks load every page, so only
# `manage.py check` runs them.
INSTALLATION = "installation"
MIN_SQLITE = (3, 34, 0)  # the first with the trigram tokenizer


@register(INSTALLATION)
def sqlite_is_able(**kwargs: Any) -> list[CheckMessage]:
    """Refuse an SQLite that is too old or lacks FTS5."""
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        wanted = ".".join(map(str, MIN_SQLITE))
        return [
            Error(
                f"SQLite {sqlite3.sqlite_version} is too old",
                hint=f"Use a Python whose sqlite3 module has SQLite {wanted} or newer.",
                id="memoryhub.E001",
            )
        ]
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text, tokenize='trigram')")
        except sqlite3.OperationalError as error:
            return [
                Error(
                    f"SQLite lacks FTS5: {error}", hint="Use a Python built with FTS5.", id="memoryhub.E002"
                )
            ]
    return []


# Network file systems: the shared memory of SQLite's write-ahead log does not reach other machines.
# fmt: off
NETWORK = frozenset({
    "afs", "beegfs", "ceph", "cephfs", "cifs", "coda", "davfs", "davfs2", "fhgfs", "gfs", "gfs2",
    "glusterfs", "gpfs", "lustre", "moosefs", "ncp", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs",
    "pvfs2", "smb2", "smb3", "smbfs", "fuse.beegfs", "fuse.ceph", "fuse.cephfs", "fuse.curlftpfs",
    "fuse.davfs", "fuse.davfs2", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs",
    "fuse.mfs", "fuse.mountpoint-s3", "fuse.rclone", "fuse.s3fs", "fuse.smbnetfs", "fuse.sshfs"
})
# Folders that a virtual machine or container shares with its host: safe while only one side uses the store.
SHARED_WITH_HOST = frozenset({
    "9p", "drvfs", "fakeowner", "fuse.grpcfuse", "fuse.osxfs", "fuse.vmhgfs-fuse", "prl_fs", "vboxsf",
    "virtiofs", "vmhgfs"
})
# fmt: on
_MOUNTS = Path("/proc/mounts")
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """A mount point and the type of its file system."""

    point: str
    type: str

    @property
    def is_network(self) -> bool:
        return self.type in NETWORK

    @property
    def is_shared_with_host(self) -> bool:
        return self.type in SHARED_WITH_HOST


def mount_of(path: Path, mounts: str) -> Mount | None:
    """Return the mount of ``path`` from the text of ``/proc/mounts``: the last of the deepest ones."""
    best: Mount | None = None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[1])
        if path.is_relative_to(point) and (best is None or len(point) >= len(best.point)):
            best = Mount(point, fields[2])
    return best


def mount_under(path: Path) -> Mount | None:
    """Return the mount of ``path``, which need not exist, or None if the system lists none (macOS)."""
    try:
        return mount_of(path.resolve(), _MOUNTS.read_text("utf-8", "surrogateescape"))
    except OSError:
        return None


@register(INSTALLATION)
def database_is_local(**kwargs: Any) -> list[CheckMessage]:
    """Refuse network file systems: the shared memory of a write-ahead log does not reach other machines."""
    if IS_POSTGRES:
        return []
    path = Path(settings.DATABASES["default"]["NAME"])
    mount = mount_under(path)
    if mount is not None and mount.is_network:
        return [
            Error(
                f"The store {path} is on a network file system ({mount.type} at {mount.point})",
                hint="SQLite would be corrupted there. Set LETSGO_HOME or LETSGO_MEMORY_DB to a local disk.",
                id="memoryhub.E003",
            )
        ]
    if mount is not None and mount.is_shared_with_host:
        return [
            Warning(
                f"The store {path} is in a folder shared with the host ({mount.type} at {mount.point})",
                hint="Never use it from both sides at once; better move it to a separate disk.",
                id="memoryhub.W002",
            )
        ]
    return []


@register(INSTALLATION)
def postgres_is_able(**kwargs: Any) -> list[CheckMessage]:
    """Refuse a PostgreSQL server that is too old, stores other characters or does not let the hub write."""
    if not IS_POSTGRES:
        return []
    from memoryhub.backends.postgres import server

    try:
        problems = list(server.find_problems(server.read_facts()))
    except DatabaseError as error:
        problems = [server.find_connection_problem(error)]
    return [(Error if one.is_serious else Warning)(one.text, hint=one.fix, id=one.id) for one in problems]


@register(INSTALLATION)
def store_is_there(**kwargs: Any) -> list[CheckMessage]:
    """Prevent that an empty store is created after an interrupted restore."""
    from memoryhub.ops import backup

    aside = [] if IS_POSTGRES else backup.set_aside()
    if not aside:
        return []
    return [
        Error(
            f"There is no store at {backup.live_path()}, but a restore has set aside"
            f" {', '.join(map(str, aside))}",
            hint=f"Put it back: manage.py restore_backup {aside[0]} --yes\n"
            "\tTo start with an empty store instead, move these files to another folder.",
            id="memoryhub.E005",
        )
    ]


@register(INSTALLATION)
def store_is_not_foreign(**kwargs: Any) -> list[CheckMessage]:
    """Refuse the SQLite file of another program, to which ``migrate`` would add the hub's tables.

    A file of LetsGo is accepted: both programs have the same settings, and their tables have different names.
    """
    from memoryhub.ops import backup

    if IS_POSTGRES:
        return []
    path = backup.live_path()
    try:
        tables = release.find_foreign_tables(path)
    except sqlite3.DatabaseError:  # missing or damaged: the command or doctor reports it
        return []
    if not tables or _is_file_of_letsgo(path):
        return []
    named = ", ".join(tables[:3]) + (", …" if len(tables) > 3 else "")
    setting = "DATABASE_URL" if settings.DATABASE_URL else "LETSGO_MEMORY_DB"
    return [
        Error(
            f"{path} belongs to another program: it has its tables ({named}), and none of memoryhub",
            hint=f"Nothing was changed. Set {setting} to a new file, or to one that memoryhub has made.",
            id="memoryhub.E012",
        )
    ]


def _is_file_of_letsgo(path: Path) -> bool:
    from memoryhub.transfer.formats import FORMATS

    return FORMATS["letsgo"].recognises(path)


REFUSED_STORE_HINT = (
    "Use the version that wrote it, also to export its memories. Or restore a backup from before the upgrade."
)


@register(INSTALLATION)
def store_is_not_newer(**kwargs: Any) -> list[CheckMessage]:
    """Refuse a store of a newer version, which this one could misread or harm."""
    from memoryhub.ops import backup

    path = connection.settings_dict["NAME"] if IS_POSTGRES else backup.live_path()
    try:
        newer = release.find_refusal() if IS_POSTGRES else release.find_refusal_of(path)
    except (sqlite3.DatabaseError, DatabaseError):
        return []  # missing, empty or damaged: the command or doctor reports it
    if not newer:
        return []
    return [Error(f"The store {path} cannot be used: {newer}", hint=REFUSED_STORE_HINT, id="memoryhub.E006")]


@register(INSTALLATION)
def store_is_copied(**kwargs: Any) -> list[CheckMessage]:
    """Refuse a store into which ``copy_store`` has not copied all rows yet.

    It looks intact: for example, its journal ends before the last change, or is empty.
    """
    from memoryhub.ops import backup

    try:
        if not release.is_unfinished_copy(None if IS_POSTGRES else backup.live_path()):
            return []
    except (sqlite3.DatabaseError, DatabaseError):  # missing, empty or damaged, as above
        return []
    return [
        Error(
            "The store is an unfinished copy: copy_store was interrupted",
            hint="Set the database of the original again, and repeat the same command, which continues.\n"
            "\tOr empty this database and begin again.",
            id="memoryhub.E013",
        )
    ]


def require_usable_store() -> None:
    """Raise ImproperlyConfigured if the store cannot be used. For servers that run no system checks."""
    found = (
        *(*database_is_local(), *postgres_is_able(), *store_is_there()),
        *(*store_is_not_foreign(), *store_is_not_newer(), *store_is_copied()),
    )
    for message in found:
        if message.is_serious():
            raise ImproperlyConfigured(f"{message.msg}. {message.hint}")


@register(INSTALLATION)
def variables_are_known(**kwargs: Any) -> list[CheckMessage]:
    """Warn about unknown variables, which would be ignored silently."""
    return [
        Warning(text, hint="Correct or unset it.", id="memoryhub.W001")
        for text in settings.MEMORYHUB_LOADED.warnings
    ]


@register(INSTALLATION)
def store_is_named_once(environ: Mapping[str, str] = os.environ, **kwargs: Any) -> list[CheckMessage]:
    """Warn about two settings for the store, one of which would be ignored silently."""
    if settings.DATABASE_URL and environ.get("LETSGO_MEMORY_DB"):
        return [
            Warning(
                "DATABASE_URL and LETSGO_MEMORY_DB are both set; the hub uses DATABASE_URL",
                hint="Unset one of them.",
                id="memoryhub.W003",
            )
        ]
    return []


@register(INSTALLATION)
def embeddings_can_work(**kwargs: Any) -> list[CheckMessage]:
    """Report embedding settings that cannot work. Search by words continues, so these are warnings."""
    from memoryhub.embeddings.provider import current_settings, find_problems, sends_key_in_clear

    chosen = current_settings()
    messages = _problem_warnings(
        find_problems(chosen), "Until then, search uses words only.", id="memoryhub.W004"
    )
    if sends_key_in_clear(chosen):
        messages.append(_clear_text_warning("embeddings_url", "the text of memories", id="memoryhub.W005"))
    return messages


@register(INSTALLATION)
def language_model_can_work(**kwargs: Any) -> list[CheckMessage]:
    """Report model settings that cannot work. Extraction by rules continues, so these are warnings."""
    from memoryhub.llm import LlmSettings, find_problems, sends_in_clear

    chosen = LlmSettings.now()
    messages = _problem_warnings(
        find_problems(chosen), "Until then, rules process conversations.", id="memoryhub.W006"
    )
    if sends_in_clear(chosen):
        messages.append(_clear_text_warning("llm_url", "the text of conversations", id="memoryhub.W007"))
    return messages


def _problem_warnings(problems: Iterable[EndpointProblem], until_then: str, *, id: str) -> list[CheckMessage]:
    return [Warning(one.text, hint=f"{one.fix} {until_then}", id=id) for one in problems]


def _clear_text_warning(setting: str, what: str, *, id: str) -> CheckMessage:
    return Warning(
        f"{setting} is http: {what} and the key are sent unencrypted",
        hint="Use https, or an endpoint on this machine.",
        id=id,
    )


@register(INSTALLATION)
def daily_operations_are_known(**kwargs: Any) -> list[CheckMessage]:
    """Report unknown maintenance operations, which would never run."""
    from memoryhub.maintenance.operations import OPERATIONS
    from memoryhub.maintenance.runs import unknown_operations

    return [
        Error(
            f"maintenance_operations names {name!r}, and there is no such operation",
            hint=f"Choose from {', '.join(OPERATIONS)}.",
            id="memoryhub.E004",
        )
        for name in unknown_operations()
    ]
