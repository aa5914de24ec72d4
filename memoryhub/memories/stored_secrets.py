"""Find secrets in stored rows, quarantine and release the rows, or redact the secrets.

The rows were stored before their secret was detectable, or while the check was off. A finding has the kind,
field and line, never the text.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import chain
from operator import itemgetter
from typing import Any

from django.db.models import Model, Q
from django.utils import timezone

from memoryhub.access.policy import LEVELS, WAITING_LEVELS, Actor, Sensitivity, stricter_level
from memoryhub.audit import journal
from memoryhub.backends import schema
from memoryhub.core.database import batched, write_transaction
from memoryhub.core.pagination import row_pages
from memoryhub.memories import rows
from memoryhub.memories.secret_check import MEMORY_FIELDS
from memoryhub.memories.update import find_equal, next_copy_number
from memoryhub.models import (
    Entity,
    Event,
    Evidence,
    Extraction,
    Fact,
    FileLink,
    Injection,
    JournalEntry,
    Label,
    MaintenanceRun,
    Memory,
    Project,
    Revision,
    Session,
)
from memoryhub.security.secrets import REDACTED, CheckTooCostly, find_secrets, redact, redact_checked

QUARANTINED = "quarantined"  # an unknown level, so no one sees the row; the admin can set another level
NOT_CHECKED = "not checked: too costly to check for secrets"
_WRITE_CHUNK = 50  # rows changed in one transaction
_READ_CHUNK = 500  # rows read at once


@dataclass(frozen=True)
class ScannedTable:
    """A table to scan: its text and JSON columns. ``shown``: the column with the id to report."""

    name: str
    model: type[Model]
    texts: tuple[str, ...]
    documents: tuple[str, ...] = ()
    shown: str = "uid"
    levelled: bool = False  # a row can be hidden by its sensitivity level
    sealed: bool = False  # rows cannot be changed


SCANNED_TABLES = (
    ScannedTable("memory", Memory, MEMORY_FIELDS[:9], levelled=True),
    ScannedTable("tag, concept or alias", Label, ("value",), shown="memory__uid"),
    ScannedTable("file", FileLink, ("path",), shown="memory__uid"),
    ScannedTable("entity", Entity, ("entity", "entity_type"), shown="memory__uid"),
    ScannedTable("evidence", Evidence, ("session_id",), shown="memory__uid"),
    ScannedTable("revision", Revision, (), ("before",), shown="memory__uid", levelled=True),
    ScannedTable("fact", Fact, ("subject", "predicate", "object", "project", "session_id"), levelled=True),
    ScannedTable("session", Session, ("session_id", "project", "cwd", "end_reason"), ("state",), shown="pk"),
    ScannedTable("project", Project, ("ignored_paths",), shown="name"),
    ScannedTable(
        "event", Event, ("preview", "tool_name"), ("files", "keywords", "handlers"), shown="pk", levelled=True
    ),
    ScannedTable("injection", Injection, ("prompt_preview", "project"), ("withheld",), levelled=True),
    ScannedTable("extraction", Extraction, ("project", "session_id", "error"), ("messages", "result")),
    ScannedTable("run", MaintenanceRun, ("project", "error"), ("params", "result")),
    ScannedTable(
        "journal row", JournalEntry, ("actor", "object_id", "project"), ("detail",), "seq", sealed=True
    ),
)
_MEMORY_PARTS = (Label, FileLink, Entity, Evidence)


@dataclass(frozen=True)
class SecretFinding:
    """One secret: its row (``shown`` is the id of the row or its memory), field, line and kind."""

    place: ScannedTable
    key: int
    shown: str
    field: str
    line: int
    kind: str
    quarantined: bool = False


@dataclass
class CleanupResult:
    """The number of changed rows by table, and the findings that could not be hidden or redacted."""

    changed: Counter[str]
    left: list[SecretFinding]


def scan_store() -> Iterator[SecretFinding]:
    """Yield every secret in the store, of every level. For the operator of the machine.

    A text that is too costly to check is a finding of the kind :data:`NOT_CHECKED`.
    """
    for place in SCANNED_TABLES:
        columns = (*place.texts, *place.documents)
        level = ("sensitivity",) if place.levelled else ()
        found = place.model._default_manager.values_list("pk", place.shown, *level, *columns)
        for key, shown, *values in chain.from_iterable(row_pages(found, _READ_CHUNK, itemgetter(0))):
            hidden = bool(level) and values.pop(0) == QUARANTINED
            for column, value in zip(columns, values, strict=True):
                text = value if column in place.texts else _document_text(value)
                for kind, line in _find_in_text(text):
                    yield SecretFinding(place, key, str(shown), column, line, kind, hidden)


def _find_in_text(text: str) -> Sequence[tuple[str, int]]:
    try:
        return find_secrets(text) if text else ()
    except CheckTooCostly:
        return [(NOT_CHECKED, 1)]


def _document_text(document: Any) -> str:
    """Return the strings of a document, each on its own line."""
    if isinstance(document, dict):
        return "\n".join(
            f"{_document_text(name)}: {_document_text(value)}" for name, value in document.items()
        )
    if isinstance(document, list):
        return "\n".join(map(_document_text, document))
    return document if isinstance(document, str) else ""


def quarantine_findings(findings: Iterable[SecretFinding], actor: Actor) -> CleanupResult:
    """Hide rows with secrets from everyone by an unknown level. The texts do not change.

    A finding in a part of a memory, such as a tag, hides the memory. Sessions, extractions and runs have no
    level: their findings are returned as ``left``.
    """
    now, left = timezone.now(), []
    by_model: dict[type[Model], dict[int, list[SecretFinding]]] = defaultdict(lambda: defaultdict(list))
    for finding in findings:
        if finding.place.model in _MEMORY_PARTS:
            memory = Memory.objects.only("pk").get(uid=finding.shown)
            by_model[Memory][memory.pk].append(finding)
        elif finding.place.levelled:
            by_model[finding.place.model][finding.key].append(finding)
        else:
            left.append(finding)
    changed: Counter[str] = Counter()
    for model, found in by_model.items():
        for keys in batched(found, _WRITE_CHUNK):
            with write_transaction():
                rows_ = model._default_manager.filter(pk__in=keys).exclude(sensitivity=QUARANTINED)
                changed[_model_name(model)] += _quarantine_rows(list(rows_), found, actor, now)
    return CleanupResult(changed, left)


def _quarantine_rows(
    found: Sequence[Any], findings: dict[int, list[SecretFinding]], actor: Actor, now: datetime
) -> int:
    changes = []
    for row in found:
        # The journal row has the old level: callers who saw the memory can see why it is gone.
        changes.append(_to_change("quarantine", row, findings[row.pk], was=row.sensitivity))
        _set_level(row, QUARANTINED)
    journal.record(actor, changes, now)
    return len(changes)


def release_rows(uids: Iterable[str], actor: Actor) -> dict[str, Counter[str]]:
    """Give quarantined rows their old level, which the journal has, or else ``secret``. Journaled.

    ``uids`` are ids as :func:`scan_store` reports them. Releases the revisions of a memory too, under the
    strictest level that one of them had. Return the number of released rows by id and table.
    """
    now, released = timezone.now(), {}
    for uid in dict.fromkeys(uids):
        with write_transaction():
            hidden = [(place, row) for place in SCANNED_TABLES for row in _quarantined_rows(place, uid)]
            changes = [_release_row(row) for _, row in hidden]
            journal.record(actor, changes, now)
        released[uid] = Counter(place.name for place, _ in hidden)
    return released


def _quarantined_rows(place: ScannedTable, uid: str) -> list[Any]:
    numbered = place.shown == "pk"
    if not place.levelled or (numbered and not (uid.isascii() and uid.isdigit() and len(uid) < 19)):
        return []
    rows_ = place.model._default_manager.filter(**{place.shown: uid, "sensitivity": QUARANTINED})
    return list(rows_.order_by("pk"))


def _release_row(row: Any) -> journal.Change:
    _set_level(row, _level_before_quarantine(row))
    return _to_change("release", row, [], was=QUARANTINED)


def _set_level(row: Any, level: str) -> None:
    row.sensitivity = level
    _make_unique(row)
    row.save(update_fields=["sensitivity", *(["copy"] if hasattr(row, "copy") else [])])


def _level_before_quarantine(row: Any) -> str:
    """Return the level before the last quarantine. For revisions: the strictest of all of the memory."""
    name = _model_name(type(row))
    change = _to_change("quarantine", row, [])
    entries = JournalEntry.objects.filter(
        operation="quarantine", object_type=change.object_type, object_id=change.object_id
    )
    details = entries.order_by("-seq").values_list("detail", flat=True)
    known = (*LEVELS, *WAITING_LEVELS)
    levels = [one["was"] for one in details if one.get("of", name) == name and one.get("was") in known]
    if not levels:
        return Sensitivity.SECRET.value
    return reduce(stricter_level, levels) if isinstance(row, Revision) else str(levels[0])


def redact_findings(findings: Iterable[SecretFinding], actor: Actor) -> CleanupResult:
    """Replace each secret with ``[secret removed]``: in rows, indexes, vectors and the database file.

    The journal cannot be changed. The app never writes a text there.
    """
    now, left = timezone.now(), []
    by_place: dict[ScannedTable, dict[int, list[SecretFinding]]] = defaultdict(lambda: defaultdict(list))
    for finding in findings:
        if finding.place.sealed:
            left.append(finding)
        else:
            by_place[finding.place][finding.key].append(finding)
    changed: Counter[str] = Counter()
    for place, found in by_place.items():
        for keys in batched(found, _WRITE_CHUNK):
            with write_transaction():
                schema.begin_erase()
                rows_ = list(place.model._default_manager.filter(pk__in=keys))
                changes = []
                for row in rows_:
                    try:
                        _redact_row(place, row)
                    except CheckTooCostly:
                        left += found[row.pk]
                        continue
                    changes.append(_to_change("redact", row, found[row.pk]))
                journal.record(actor, changes, now)
                changed[place.name] += len(changes)
    if changed or schema.is_erase_pending():  # or a redaction was killed before it did this
        schema.scrub_erased()
    return CleanupResult(changed, left)


def _redact_row(place: ScannedTable, row: Any) -> None:
    """Redact the row's texts and documents. Raise CheckTooCostly, before any write, if one is unchecked."""
    for column in place.texts:
        value, limit = redact_checked(getattr(row, column)), row._meta.get_field(column).max_length
        setattr(row, column, value[:limit] if limit else value)
    for column in place.documents:
        setattr(row, column, _redact_document(getattr(row, column)))
    if place.model in _MEMORY_PARTS:
        _redact_part(row)
        return
    if isinstance(row, Memory):
        row.content_hash = rows.hash_content(row.content)
    _make_unique(row)
    row.save()
    if isinstance(row, Memory):
        rows.PreparedVectors([rows.embedding_text(row)]).refresh(row)


def _redact_part(row: Any) -> None:
    """Save a label, file or entity after redaction. Delete it if its memory has an equal one."""
    if isinstance(row, FileLink):
        row.basename = redact_checked(row.basename)
    names = [field.name for field in row._meta.concrete_fields if field.name not in ("id", "at", "basename")]
    same = {name: getattr(row, name) for name in names}
    if type(row)._default_manager.filter(**same).exclude(pk=row.pk).exists():
        row.delete()
    else:
        row.save()
    if isinstance(row, Label) and row.kind == Label.Kind.ALIAS:
        memory = Memory.objects.get(pk=row.memory_id)
        rows.update_alias_text(memory, rows.list_values(memory, "aliases"))


def _redact_document(document: Any) -> Any:
    if isinstance(document, dict):
        return {redact_checked(str(name)): _redact_pair(name, value) for name, value in document.items()}
    if isinstance(document, list):
        return [_redact_document(item) for item in document]
    return redact_checked(document) if isinstance(document, str) else document


def _redact_pair(name: Any, value: Any) -> Any:
    """Redact a value. Its name can make it a secret: ``"password": "…"``."""
    plain = _redact_document(value)
    if isinstance(plain, str) and find_secrets(f"{name}: {plain}"):
        return REDACTED
    return plain


def _make_unique(row: Any) -> None:
    """Give a changed row a free copy number or key, if another row is equal to it."""
    if isinstance(row, Memory):
        if row.key and REDACTED in row.key:
            row.key = f"{REDACTED} {row.uid}"
    elif not isinstance(row, Fact):
        same = Q(session_id=row.session_id, project=row.project) if isinstance(row, Session) else Q(pk=None)
        if Session.objects.filter(same).exclude(pk=row.pk).exists():
            row.session_id = f"{row.session_id[:180]} {row.pk}"
        return
    row.copy = next_copy_number(find_equal(row))


def _to_change(operation: str, row: Any, findings: list[SecretFinding], **detail: Any) -> journal.Change:
    """Return the journal row, with the fields and the kinds of the findings."""
    detail |= {
        "fields": sorted({finding.field for finding in findings}),
        "kinds": sorted({finding.kind for finding in findings}),
    }
    memory = row if isinstance(row, Memory) else getattr(row, "memory", None)
    if isinstance(row, Fact):
        return journal.fact_change(operation, row, **detail)
    if memory is not None and not isinstance(row, Event):
        return journal.memory_change(operation, memory, of=_model_name(type(row)), **detail)
    project = redact(getattr(row, "project", "") or "")
    level = getattr(row, "sensitivity", None)
    change = journal.Change(operation, _model_name(type(row)), str(row.pk), detail, project)
    return change if level is None else journal.Change(**{**change.__dict__, "sensitivity": level})


def _model_name(model: type[Model]) -> str:
    return str(model._meta.model_name)


def to_json(finding: SecretFinding) -> str:
    """Return a finding as one line of JSON."""
    return json.dumps(
        {
            "in": finding.place.name,
            "id": finding.shown,
            "field": finding.field,
            "line": finding.line,
            "kind": finding.kind,
            "quarantined": finding.quarantined,
        }
    )
