"""Verify the hash chain of the journal, compare it with its mirror, and repair a mirror that is behind.

The hash chain reveals a changed row, but not that the newest rows were cut off: the rest is still a valid
chain. The mirror still contains those rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from memoryhub.audit import journal, mirror
from memoryhub.models import JournalEntry

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
        _compare(_read_lines(file, size, found), journal.stored_bytes(), found)
    return found


def repair_mirror(found: MirrorReport) -> bool:
    """Add missing rows to the mirror. Return False if it contradicts the database: then it is evidence."""
    if found.lost or found.different or found.unreadable:
        return False
    if found.gaps:
        mirror.move_aside()
    if newest := list(mirror.lines_after(journal.last_seq() - 1)):
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
        for name, cell in zip(journal.STORED_COLUMNS, row, strict=True)
    }
    try:
        at = journal.stored_moment(datetime.fromisoformat(line["at"]))
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
    loss: journal.Loss | None = None


def verify() -> Verification:
    """Verify the chain, compare its end with the mirror, and look for recorded losses.

    A journal that lost its newest rows is still a valid chain, but the mirror still contains the rows.
    """
    found, loss = verify_chain(), journal.pending()
    bad = found.first_bad_seq or _first_lost_seq(found.rows) or (loss.first_seq if loss else None)
    return Verification(found.ok and bad is None, found.rows, bad, loss)


def verify_chain() -> Verification:
    """Recompute the whole chain from the stored bytes."""
    return check_chain(journal.stored_bytes())


def _first_lost_seq(rows: int) -> int | None:
    """Return the first row that is missing or different according to the mirror, if it is of this store."""
    end, beginning = mirror.last(), mirror.first()
    if end is None or beginning is None or not end[0]:
        return None
    first, first_hash = mirror.number_and_hash(beginning)
    if rows and not JournalEntry.objects.filter(seq=first, hash=first_hash).exists():
        return None
    # The row may have been written after the others were counted.
    return None if journal.is_row(*end) else min(end[0], rows + 1)


def check_chain(rows: Iterable[Sequence[bytes | None]]) -> Verification:
    """Verify the chain of rows that were fetched with :data:`STORED_BYTES_SQL` from any store."""
    previous, expected, bad = journal.GENESIS_HASH, 1, None
    count = 0
    for row in rows:
        *stored, digest = ((cell or b"").decode("utf-8", "surrogateescape") for cell in row)
        count += 1
        if bad is None and (stored[0] != str(expected) or journal.hash_row(stored, previous) != digest):
            bad = expected
        previous, expected = digest, expected + 1
    return Verification(bad is None, count, bad)
