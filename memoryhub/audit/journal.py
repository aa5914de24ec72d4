"""The journal: who changed what and when, in the transaction of the change, and its verification.

The hash chain reveals a changed row, but not that the newest rows were cut off: the rest is still a valid
chain. The mirror still contains those rows, so they are compared, and a mirror that is behind is repaired.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance, Sensitivity, stricter_level, system_actor
from memoryhub.audit import mirror
from memoryhub.audit.mirror import LINE_FIELDS, LOSS
from memoryhub.backends import bulk
from memoryhub.backends.dialect import sql
from memoryhub.core.database import fetch_all, fetch_one, write_transaction
from memoryhub.core.dates import format_iso
from memoryhub.core.text import format_count
from memoryhub.models import Fact, JournalEntry, Memory

logger = logging.getLogger(__name__)
ACKNOWLEDGED = "journal_loss_acknowledged"


@dataclass(frozen=True)
class Loss:
    """Lost rows that no person has acknowledged, summed up over all recorded losses."""

    recorded_in: int
    """The newest journal row that records one of the losses."""
    first_seq: int
    last_seq: int
    rows: int
    files: tuple[str, ...]
    """Names of the mirrors that still contain the lost rows."""

    @property
    def numbers(self) -> str:
        """The numbers of the lost rows, such as ``8 to 10``."""
        last = f" to {self.last_seq}" if self.last_seq > self.first_seq else ""
        return f"{self.first_seq}{last}"

    def summary(self) -> str:
        return (
            f"{format_count(self.rows, 'journal row')} lost ({self.numbers}), recorded in row"
            f" {self.recorded_in}; still in {', '.join(self.files)}"
        )


def pending(through: int | None = None) -> Loss | None:
    """Return the losses recorded up to row ``through`` (default: all) that wait for acknowledgement."""
    losses: list[tuple[int, dict[str, Any]]] = []
    for seq, operation, detail in _recorded():
        if operation == ACKNOWLEDGED:
            losses = [one for one in losses if one[0] > detail.get("through", 0)]
        elif through is None or seq <= through:
            losses.append((seq, detail))
    if not losses:
        return None
    return Loss(
        recorded_in=losses[-1][0],
        first_seq=min(detail.get("first_seq", 0) for _, detail in losses),
        last_seq=max(detail.get("last_seq", 0) for _, detail in losses),
        rows=sum(detail.get("rows", 0) for _, detail in losses),
        files=tuple(str(detail.get("file", "")) for _, detail in losses),
    )


def has_lost_rows() -> bool:
    """Whether rows were lost that no person has acknowledged, recorded or not."""
    return pending() is not None or detect(*_last_row()) is not None


def _recorded() -> list[tuple[int, str, dict[str, Any]]]:
    rows = JournalEntry.objects.filter(operation__in=(LOSS, ACKNOWLEDGED)).order_by("seq")
    found = rows.values_list("seq", "operation", "detail")
    # An imported row is about the journal of another store.
    return [row for row in found if "imported" not in row[2]]


def detect(last: int, digest: str) -> dict[str, Any] | None:
    """Return the detail of a new loss row, or None. ``last`` and ``digest``: of the journal's newest row.

    A row is committed before its line is written, so a line without a row is a loss.
    """
    try:
        end = mirror.last()
        if end is None or not end[0] or end == (last, digest) or is_row(*end):
            return None
        common = None if mirror.recorded_loss(end[1]) else _last_common_row(last)
    except OSError as error:
        logger.warning("journal mirror %s cannot be compared: %s", mirror.mirror_path(), error)
        return None
    if common is None:
        return None
    return {
        "first_seq": common + 1,
        "last_seq": end[0],
        "rows": end[0] - common,
        "journal_rows": last,
        "mirror_hash": end[1],
        "file": mirror.timestamped_path().name,
    }


def _last_common_row(last: int) -> int | None:
    """Return the newest row in both the mirror and the journal. None if the mirror is of another store."""
    first = mirror.first()
    if last == 0:
        return 0 if first and _was_written_here(first) else None
    if first is None or not is_row(*mirror.number_and_hash(first)):
        return None
    return next((seq for seq, digest in mirror.from_the_end() if is_row(seq, digest)), None)


def _was_written_here(line: bytes) -> bool:
    """Whether the line is newer than this database, whose journal is empty."""
    created = MigrationRecorder(connection).migration_qs.order_by("applied").first()
    at = mirror.moment(line)
    return created is not None and at is not None and created.applied <= at


def is_row(seq: int, digest: str) -> bool:
    """Whether the journal has this row. Plain SQL: every write asks while the mirror is behind."""
    if not 0 < seq < 2**63:
        return False
    sql = f"SELECT 1 FROM {JournalEntry._meta.db_table} WHERE seq = %s AND hash = %s"  # noqa: S608
    return fetch_one(sql, [seq, digest]) is not None


GENESIS_HASH = "0" * 64
ACCESS_FIELDS = ("project", "sensitivity", "owner")
_HASHED_COLUMNS = (*LINE_FIELDS[:6], *ACCESS_FIELDS, "detail")


@dataclass(frozen=True)
class Change:
    """One change of one object. ``detail`` has field names and counts, never the text of a memory."""

    operation: str
    object_type: str
    object_id: str = ""
    detail: dict[str, Any] = field(default_factory=dict)
    project: str = ""
    sensitivity: str = Sensitivity.PUBLIC.value
    owner: str = ""


def memory_change(operation: str, memory: Memory, **detail: Any) -> Change:
    """Return a change with the level, project and owner of the memory."""
    return Change(
        operation,
        "memory",
        memory.uid,
        {"content_hash": memory.content_hash, **detail},
        memory.project,
        memory.sensitivity,
        memory.owner,
    )


def fact_change(operation: str, fact: Fact, **detail: Any) -> Change:
    """Return a change of a fact, with the stricter level of fact and memory, and the memory's owner."""
    level = stricter_level(fact.sensitivity, fact.memory.sensitivity) if fact.memory else fact.sensitivity
    owner = fact.memory.owner if fact.memory else ""
    return Change(operation, "fact", fact.uid, detail, fact.project, level, owner)


def to_line(row: JournalEntry) -> dict[str, Any]:
    """Return a row in the shape of the mirror."""
    return {name: format_iso(row.at) if name == "at" else getattr(row, name) for name in LINE_FIELDS}


def to_visible_line(row: JournalEntry, clearance: Clearance) -> dict[str, Any]:
    """Return a row in the shape of the API. ``clearance``: all that the caller may see.

    ``seq`` counts hidden rows and ``hash`` depends on them, so both are null for callers who cannot see every
    row.
    """
    line = to_line(row)
    return line if clearance.is_whole else {**line, "seq": None, "hash": None}


def record(
    actor: Actor,
    changes: Iterable[Change],
    now: datetime | None = None,
    *,
    after: tuple[int, str] | None = None,
) -> None:
    """Append changes. Call this in the transaction that makes them: the write lock orders the chain.

    ``after``: number and hash of the newest row, if the caller has read them in this transaction.
    """
    at = now or timezone.now()
    _append([(at, actor.name, change) for change in changes], after)


def record_imported(past: Iterable[tuple[datetime, str, Change]]) -> None:
    """Append rows ``(moment, actor, change)`` of another store's journal, in the transaction of the import.

    ``detail`` must contain ``imported`` with the original number and hash, so that no imported row looks like
    one that was written here.
    """
    entries = list(past)
    if any(not change.detail.get("imported") for _, _, change in entries):
        raise ValueError("an imported journal row needs its origin in detail.imported")
    _append(entries)


def _append(entries: list[tuple[datetime, str, Change]], after: tuple[int, str] | None = None) -> None:
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("a change and its journal row are one transaction")
    if not entries:
        return
    end = after or _last_row()
    # A row about lost rows is the last one: callers expect their first row after the newest one.
    lost = detect(*end)
    _write([*entries, _of_loss(lost)] if lost else entries, *end)


def _write(entries: Iterable[tuple[datetime, str, Change]], last: int, before: str) -> None:
    moments: dict[datetime, tuple[str, str]] = {}
    rows, lines, previous = [], [], before
    for seq, (at, actor, change) in enumerate(entries, start=last + 1):
        if at not in moments:
            moments[at] = (stored_moment(at), format_iso(at))
        stored_at, iso_at = moments[at]
        subject = (change.operation, change.object_type, change.object_id)
        detail = json.dumps(dict(sorted(change.detail.items())))
        access = (change.project, change.sensitivity, change.owner)
        stored = (seq, stored_at, actor, *subject, *access, detail)
        previous = hash_row(map(str, stored), previous)
        document = sql.storable_document(detail)
        rows.append((*stored[:-1], document, previous, *[detail] * len(sql.JOURNAL_COPIES)))
        lines.append(
            dict(zip(LINE_FIELDS, (seq, iso_at, actor, *subject, change.detail, previous), strict=True))
        )
    bulk.insert(JournalEntry, (*_HASHED_COLUMNS, "hash", *sql.JOURNAL_COPIES), rows)
    transaction.on_commit(partial(mirror.append, lines, before))


def stored_moment(at: datetime) -> str:
    """Return a moment as it is in the chain: in UTC, as SQLite stores it."""
    return str(at.astimezone(UTC).replace(tzinfo=None))


def _of_loss(lost: dict[str, Any]) -> tuple[datetime, str, Change]:
    logger.error(
        "journal rows %s to %s are lost; see manage.py verify_journal", lost["first_seq"], lost["last_seq"]
    )
    return timezone.now(), system_actor("journal").name, _of_journal(mirror.LOSS, **lost)


def _of_journal(operation: str, **detail: Any) -> Change:
    """Return a change of the journal itself. It is secret because its numbers count hidden rows."""
    return Change(operation, "journal", "", detail, sensitivity=Sensitivity.SECRET.value)


def record_loss() -> Loss | None:
    """Record a loss that the mirror proves, before the next change does. Return all that is pending."""
    if detect(*_last_row()):
        with write_transaction():
            _record_detected()
    return pending()


def _record_detected() -> None:
    end = _last_row()
    if lost := detect(*end):
        _write([_of_loss(lost)], *end)


def acknowledge_loss(actor: Actor, through: int | None = None) -> Loss | None:
    """Stop reporting the losses recorded up to row ``through`` (default: all). Return the losses, if any.

    Must run in a write transaction.
    """
    if through is None:
        _record_detected()
    loss = pending(through)
    if loss:
        record(actor, [_of_journal(ACKNOWLEDGED, through=loss.recorded_in, rows=loss.rows)])
    return loss


def _last_row() -> tuple[int, str]:
    """Return the number and hash of the last row. Plain SQL, because every write needs them."""
    newest = f"SELECT seq, hash FROM {JournalEntry._meta.db_table} ORDER BY seq DESC LIMIT 1"  # noqa: S608
    return fetch_one(newest) or (0, GENESIS_HASH)


def last_seq() -> int:
    """Return the number of the newest row, or 0. In a write transaction the next row gets the next number."""
    return _last_row()[0]


# Bytes: parsing could hide a changed byte, and invalid UTF-8 could not be fetched.
STORED_COLUMNS = (*_HASHED_COLUMNS, "hash")
STORED_BYTES_SQL = (
    f"SELECT {', '.join(map(sql.stored_bytes, STORED_COLUMNS))} "  # noqa: S608 own names
    f"FROM {JournalEntry._meta.db_table} ORDER BY seq"
)


_PAGE_SQL = STORED_BYTES_SQL.replace(" ORDER BY seq", " WHERE seq > %s ORDER BY seq LIMIT %s")
_PAGE_SIZE = 2000
_BEFORE_ALL = -(2**63)  # a row inserted before the first one must not be left out


def _stored_page(after: int, limit: int) -> list[tuple[bytes | None, ...]]:
    return fetch_all(_PAGE_SQL, [after, limit])


def stored_bytes() -> Iterator[tuple[bytes | None, ...]]:
    """Yield all rows with :data:`STORED_COLUMNS`, in pages: PostgreSQL sends all rows of a query at once."""
    page = _stored_page(_BEFORE_ALL, _PAGE_SIZE)
    while page:
        yield from page
        page = _stored_page(int(page[-1][0] or 0), _PAGE_SIZE)


def stored_rows(after: int, limit: int) -> list[list[str]]:
    """Return the stored texts of the rows after a number, in the order of :data:`STORED_COLUMNS`."""
    page = _stored_page(after, limit)
    return [[(cell or b"").decode("utf-8", "surrogateescape") for cell in row] for row in page]


def insert_stored_rows(rows: Iterable[Sequence[str]]) -> None:
    """Insert rows of another database exactly as they are stored there, with their hashes."""
    copies = len(sql.JOURNAL_COPIES)
    copied = [
        (int(seq), *others, sql.storable_document(detail), digest, *[detail] * copies)
        for seq, *others, detail, digest in rows
    ]
    bulk.insert(JournalEntry, (*STORED_COLUMNS, *sql.JOURNAL_COPIES), copied)


def hash_row(stored: Iterable[str], previous: str) -> str:
    """Return the SHA-256 over the texts of a row, each prefixed with its length, and the previous hash."""
    whole = "".join([f"{len(text)}:{text}" for text in stored])
    return hashlib.sha256((whole + previous).encode("utf-8", "surrogatepass")).hexdigest()


MAX_NAMED_IDS = 100  # in one row, which also has the count


def record_reveals(memories: Iterable[Memory], actor: Actor, page: str) -> None:
    """Journal the secret memories among those that a response shows, before it is sent.

    Writes one row for each project and owner.
    """
    shown: dict[tuple[str, str], list[str]] = defaultdict(list)
    for memory in memories:
        if memory.sensitivity == Sensitivity.SECRET.value:
            shown[(memory.project, memory.owner)].append(memory.uid)
    if not shown:
        return
    with write_transaction():
        record(actor, [_reveal_change(uids, *place, page) for place, uids in sorted(shown.items())])


def _reveal_change(uids: list[str], project: str, owner: str, page: str) -> Change:
    level = Sensitivity.SECRET.value
    if len(uids) == 1:
        return Change("reveal", "memory", uids[0], {"page": page}, project, level, owner)
    detail = {"page": page, "count": len(uids), "ids": uids[:MAX_NAMED_IDS]}
    return Change("reveal", "memories", "", detail, project, level, owner)


_TEXT_FIELDS = ("actor", "operation", "object_type", "object_id")


@dataclass
class MirrorReport:
    """The result of a comparison, with numbers of rows or lines."""

    path: Path
    exists: bool = False
    lines: int = 0
    behind: int = 0
    """Newest rows that are not in the file yet; the next change writes them."""
    torn: bool = False
    """The last line is incomplete; the next change replaces it."""
    gaps: int = 0
    """Rows that are missing in the middle of the file."""
    different: int = 0
    lost: int = 0
    """Lines without a row in the database."""
    unreadable: int = 0
    first_different: int | None = None
    first_lost: int | None = None
    foreign: bool = False
    """The first line differs: the mirror of another store."""

    @property
    def ok(self) -> bool:
        """No line contradicts the database. The file may be behind."""
        return not (self.gaps or self.different or self.lost or self.unreadable)

    @property
    def in_step(self) -> bool:
        return self.ok and self.exists and not self.behind and not self.torn

    def findings(self) -> list[str]:
        """Return a sentence for each problem, the most serious first."""
        found = []
        if self.foreign:
            found.append("its first line is not the first row here: it belongs to another store")
        if self.lost:
            found.append(
                f"lines without a row in the database: {self.lost}, from {self.first_lost} on;"
                " rows were removed from the journal, or an older store was restored"
            )
        if self.different and not self.foreign:
            found.append(
                f"lines that differ from their rows: {self.different}, from {self.first_different} on"
            )
        if self.unreadable:
            found.append(f"lines that cannot be read: {self.unreadable}")
        if self.gaps:
            found.append(f"rows left out in its middle: {self.gaps}")
        if self.behind:
            found.append(f"newest rows not written yet: {self.behind}")
        if self.torn:
            found.append("its last line was cut short")
        return found


def compare_mirror() -> MirrorReport:
    """Compare the mirror with the journal. Streams both."""
    found = MirrorReport(mirror.mirror_path())
    try:
        file = found.path.open("rb")
    except FileNotFoundError:
        found.behind = JournalEntry.objects.count()
        return found
    found.exists = True
    with file:
        # Take the size before the rows: a row is committed before its line is written, so every line has one.
        size = os.fstat(file.fileno()).st_size
        _compare(_read_lines(file, size, found), stored_bytes(), found)
    return found


def repair_mirror(found: MirrorReport) -> bool:
    """Add missing rows to the mirror. Return False if it contradicts the database: then it is evidence."""
    if found.lost or found.different or found.unreadable:
        return False
    if found.gaps:
        mirror.move_aside()
    if newest := list(mirror.lines_after(last_seq() - 1)):
        mirror.append(newest, after="")
    return True


def _read_lines(file: IO[bytes], size: int, found: MirrorReport) -> Iterator[tuple[int, dict[str, Any]]]:
    while file.tell() < size:
        raw = file.readline()
        if not raw.endswith(b"\n"):
            found.torn = True
            return
        found.lines += 1
        try:
            line = json.loads(raw)
            yield int(line["seq"]), line
        except (ValueError, KeyError, TypeError, RecursionError):
            found.unreadable += 1


def _compare(
    lines: Iterator[tuple[int, dict[str, Any]]], rows: Iterator[tuple[Any, ...]], found: MirrorReport
) -> None:
    """Compare lines and rows in the order of their numbers."""
    row, last = next(rows, None), 0
    for seq, line in lines:
        skipped = 0
        while row is not None and int(row[0]) < seq:
            skipped, row = skipped + 1, next(rows, None)
        found.gaps += skipped
        if row is None or int(row[0]) > seq > last:
            found.lost += 1
            found.first_lost = found.first_lost or seq
        elif seq <= last or not _is_same(line, row):
            found.different += 1
            found.first_different = found.first_different or seq
            found.foreign |= seq == 1
        if row is not None and int(row[0]) == seq:
            row = next(rows, None)
        last = max(last, seq)
    found.behind = 0 if row is None else 1 + sum(1 for _ in rows)


def _is_same(line: dict[str, Any], row: tuple[Any, ...]) -> bool:
    stored = {
        name: (cell or b"").decode("utf-8", "surrogateescape")
        for name, cell in zip(STORED_COLUMNS, row, strict=True)
    }
    try:
        at = stored_moment(datetime.fromisoformat(line["at"]))
        if at != stored["at"] or json.loads(stored["detail"]) != line["detail"]:
            return False
    except (ValueError, KeyError, TypeError):
        return False
    return all(line.get(name) == stored[name] for name in (*_TEXT_FIELDS, "hash"))


@dataclass(frozen=True)
class Verification:
    """The result of a verification. ``first_bad_seq``: the first number whose row was changed or is missing.

    ``loss``: lost rows that no one has acknowledged. Then ``ok`` is false.
    """

    ok: bool
    rows: int
    first_bad_seq: int | None = None
    loss: Loss | None = None


def verify() -> Verification:
    """Verify the chain, compare its end with the mirror, and look for recorded losses.

    A journal that lost its newest rows is still a valid chain, but the mirror still contains the rows.
    """
    found, loss = verify_chain(), pending()
    bad = found.first_bad_seq or _first_lost_seq(found.rows) or (loss.first_seq if loss else None)
    return Verification(found.ok and bad is None, found.rows, bad, loss)


def verify_chain() -> Verification:
    """Recompute the whole chain from the stored bytes."""
    return check_chain(stored_bytes())


def _first_lost_seq(rows: int) -> int | None:
    """Return the first row that is missing or different according to the mirror, if it is of this store."""
    end, beginning = mirror.last(), mirror.first()
    if end is None or beginning is None or not end[0]:
        return None
    first, first_hash = mirror.number_and_hash(beginning)
    if rows and not JournalEntry.objects.filter(seq=first, hash=first_hash).exists():
        return None
    # The row may have been written after the others were counted.
    return None if is_row(*end) else min(end[0], rows + 1)


def check_chain(rows: Iterable[Sequence[bytes | None]]) -> Verification:
    """Verify the chain of rows that were fetched with :data:`STORED_BYTES_SQL` from any store."""
    previous, expected, bad = GENESIS_HASH, 1, None
    count = 0
    for row in rows:
        *stored, digest = ((cell or b"").decode("utf-8", "surrogateescape") for cell in row)
        count += 1
        if bad is None and (stored[0] != str(expected) or hash_row(stored, previous) != digest):
            bad = expected
        previous, expected = digest, expected + 1
    return Verification(bad is None, count, bad)
