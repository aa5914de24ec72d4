"""Lost journal rows: detected with the mirror, recorded in the journal, reported until acknowledged.

A journal that lost its newest rows is still a valid chain, for example after the write-ahead log was deleted
or an older file was copied over the store. Only the mirror still contains those rows. Therefore the next
write records the loss as a journal row before the mirror is set aside.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from memoryhub.audit import mirror
from memoryhub.audit.mirror import LOSS
from memoryhub.models import JournalEntry

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
        count = f"{self.rows:,} journal row" + ("" if self.rows == 1 else "s")
        return (
            f"{count} lost ({self.numbers}), recorded in row {self.recorded_in};"
            f" still in {', '.join(self.files)}"
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


def _recorded() -> list[tuple[int, str, dict[str, Any]]]:
    rows = JournalEntry.objects.filter(operation__in=(LOSS, ACKNOWLEDGED)).order_by("seq")
    found = rows.values_list("seq", "operation", "detail")
    # An imported row is about the journal of another store.
    return [row for row in found if "imported" not in row[2]]


def detect(last: int, digest: str) -> dict[str, Any] | None:
    """Return the detail of a new loss row, or None. ``last`` and ``digest``: of the journal's newest row.

    Must run in a write transaction: then every line of the mirror is of a row that was committed before.
    """
    try:
        end = mirror.last()
        if end is None or not end[0] or end == (last, digest) or _is_row(*end):
            return None
        common = None if mirror.recorded_loss(end[1]) else _last_common_row(last)
    except OSError as error:
        logger.warning("journal mirror %s cannot be compared: %s", mirror.mirror_path(), error)
        return None
    if common is None:
        return None
    logger.error("journal rows %s to %s are lost; see manage.py verify_journal", common + 1, end[0])
    return {
        "first_seq": common + 1,
        "last_seq": end[0],
        "rows": end[0] - common,
        "journal_rows": last,
        "mirror_hash": end[1],
        "file": mirror.name_aside().name,
    }


def _last_common_row(last: int) -> int | None:
    """Return the newest row in both the mirror and the journal. None if the mirror is of another store."""
    first = mirror.first()
    if last == 0:
        return 0 if first and _was_written_here(first) else None
    if first is None or not _is_row(*mirror.number_and_hash(first)):
        return None
    return next((seq for seq, digest in mirror.from_the_end() if _is_row(seq, digest)), None)


def _was_written_here(line: bytes) -> bool:
    """Whether the line is newer than this database, whose journal is empty."""
    created = MigrationRecorder(connection).migration_qs.order_by("applied").first()
    at = mirror.moment(line)
    return created is not None and at is not None and created.applied <= at


def _is_row(seq: int, digest: str) -> bool:
    """Whether the journal has this row. Plain SQL: every write asks while the mirror is behind."""
    if not 0 < seq < 2**63:
        return False
    with connection.cursor() as cursor:
        sql = f"SELECT 1 FROM {JournalEntry._meta.db_table} WHERE seq = %s AND hash = %s"  # noqa: S608
        cursor.execute(sql, [seq, digest])
        return cursor.fetchone() is not None
