"""Restore the history of another store: sessions, events, versions, evidence, the journal and other lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memoryhub.access.policy import Actor
from memoryhub.audit import journal as journals
from memoryhub.capture import projects
from memoryhub.checks import CheckDraft, import_check
from memoryhub.core.database import batched
from memoryhub.facts import services
from memoryhub.memories import imported_history
from memoryhub.memories.errors import Forbidden, NotFound, SecretDetected, StoreError, TooCostlyToCheck
from memoryhub.memories.rows import CHUNK_SIZE, fetch_by_uid, resolve_project
from memoryhub.memories.secret_check import find_refusal, find_secrets_in_field, refusal_change
from memoryhub.models import Event, JournalEntry, Memory, Project, Session
from memoryhub.transfer.export import serialize_journal_row
from memoryhub.transfer.import_files import IdMap
from memoryhub.transfer.schema import (
    EVENT_COLUMNS,
    SESSION_COLUMNS,
    CheckLine,
    CountLine,
    EventLine,
    IdentityLine,
    JournalLine,
    MergeLine,
    ProjectLine,
    ReplacementLine,
    SessionLine,
    SummaryLine,
    SupersededLine,
)

Result = bool | StoreError


def find_line_refusal(kind: str, shape: Any) -> StoreError | None:
    """Return the refusal of a line that contains a secret. Call it before a transaction is opened."""
    if kind == "revision":
        return imported_history.find_revision_refusal(shape)
    if refusal := find_refusal(shape, KINDS[kind].texts):
        return refusal
    try:
        for field in KINDS[kind].documents:
            text = json.dumps(getattr(shape, field), ensure_ascii=False)
            if found := find_secrets_in_field(text, field):
                return SecretDetected(found[0].kind, 1, field)
    except TooCostlyToCheck as refusal:
        return refusal
    return None


def restore_lines(
    kind: str,
    shapes: Sequence[Any],
    actor: Actor,
    ids: IdMap,
    *,
    dry_run: bool,
    refusals: Sequence[StoreError | None],
) -> list[Result]:
    """Store lines of one kind in a transaction; return True for new and False for known ones.

    ``refusals`` has the result of :func:`find_line_refusal` for each line. In a dry run, references to
    memories of earlier batches are not found, which is not reported.
    """
    uids = [uid for shape in shapes for uid in _referenced_ids(shape)]
    known = ids.find(uids)
    clean = [shape for shape, refusal in zip(shapes, refusals, strict=True) if refusal is None]
    stored = iter(KINDS[kind].restore(clean, actor, known) if clean else [])
    results: list[Result] = [next(stored) if refusal is None else refusal for refusal in refusals]
    _journal_refusals(kind, shapes, results, actor)
    if not dry_run:
        return results
    return [
        True
        if isinstance(result, NotFound) and all(uid in known for uid in _referenced_ids(shape))
        else result
        for shape, result in zip(shapes, results, strict=True)
    ]


def _journal_refusals(kind: str, shapes: Sequence[Any], results: Sequence[Result], actor: Actor) -> None:
    """Journal each line that contained a credential; the caller's transaction continues."""
    refused = [
        refusal_change(result, shape, actor, kind)
        for shape, result in zip(shapes, results, strict=True)
        if isinstance(result, SecretDetected) and not result.noted
    ]
    journals.record(actor, refused)


def _referenced_ids(shape: Any) -> list[str]:
    """Return the ids of the memories that a line references, or of the facts (as :func:`fact_key`)."""
    if isinstance(shape, SupersededLine):
        return [fact_key(shape.fact_id), fact_key(shape.by)]
    if isinstance(shape, JournalLine):
        return [shape.object_id] if shape.object_type == "memory" else []
    if isinstance(shape, CheckLine):
        return [*shape.must_bring, *shape.never_bring]
    return [uid for name in ("memory_id", "into", "by") if (uid := getattr(shape, name, None))]


def fact_key(uid: str) -> str:
    """Return the id map key of a fact; a memory may have the same id."""
    return f"fact:{uid}"


def _restore_superseded(line: SupersededLine, actor: Actor, known: dict[str, str]) -> bool:
    fact, by = (known.get(fact_key(uid), uid) for uid in (line.fact_id, line.by))
    return services.import_superseded(fact, by, actor)


def _about_memories(
    store: Callable[[Sequence[imported_history.FoundRow], Actor], list[Result]],
) -> Callable[..., list[Result]]:
    """Return a function that passes ``store`` the ids of the memories and the other values of the lines."""

    def restore_all(shapes: Sequence[Any], actor: Actor, known: dict[str, str]) -> list[Result]:
        found = [
            (known.get(one.memory_id, one.memory_id), one.model_dump(exclude={"kind", "memory_id"}))
            for one in shapes
        ]
        return store(found, actor)

    return restore_all


def _restore_merges(shapes: Sequence[MergeLine], actor: Actor, known: dict[str, str]) -> list[Result]:
    found = [(known.get(one.memory_id, one.memory_id), known.get(one.into, one.into)) for one in shapes]
    return imported_history.import_merges(found, actor)


def _for_each_line(restore_line: Callable[[Any, Actor, dict[str, str]], bool]) -> Callable[..., list[Result]]:
    def restore_all(shapes: Sequence[Any], actor: Actor, known: dict[str, str]) -> list[Result]:
        results: list[Result] = []
        for shape in shapes:
            try:
                results.append(restore_line(shape, actor, known))
            except StoreError as refusal:
                results.append(refusal)
        return results

    return restore_all


def _restore_replacement(line: ReplacementLine, actor: Actor, known: dict[str, str]) -> bool:
    """Set the replacement of a memory, if this import stored that memory."""
    return imported_history.import_replacement(
        known.get(line.memory_id, ""), known.get(line.by, line.by), actor
    )


def _restore_project(line: ProjectLine, actor: Actor, known: dict[str, str]) -> bool:
    """Restore the settings of a project that has none. Requires the permission to change its mode."""
    if Project.objects.filter(name=line.name).exists():
        return False
    projects.configure_project(line.name, actor, **line.model_dump(mode="json", exclude={"kind", "name"}))
    return True


def _restore_identity(line: IdentityLine, actor: Actor, known: dict[str, str]) -> bool:
    return projects.import_identity(line.project, line.key, line.owner, line.created_at, actor)


def _restore_count(line: CountLine, actor: Actor, known: dict[str, str]) -> bool:
    return projects.import_event_count(line.project, line.day, line.event, line.count, actor)


def _restore_check(line: CheckLine, actor: Actor, known: dict[str, str]) -> bool:
    values = line.model_dump(include=set(CheckDraft.model_fields))
    for name in ("must_bring", "never_bring"):
        values[name] = [known.get(uid, uid) for uid in values[name]]
    draft = CheckDraft.model_validate(values)
    owner = line.owner if actor.clearance.every_owner else actor.owner
    return import_check(line.id, owner, draft, actor, line.created_at, line.updated_at)


def _restore_session(line: SessionLine, actor: Actor, known: dict[str, str]) -> bool:
    """Restore a session. If it exists, extend it to cover both time spans."""
    project = resolve_project(line.project, actor)
    values = {name: getattr(line, name) for name in SESSION_COLUMNS}
    values["project"] = project
    session, is_new = Session.objects.get_or_create(
        session_id=line.session_id, project=project, defaults=values
    )
    if not is_new and (line.started_at < session.started_at or line.last_at > session.last_at):
        Session.widen([(line.session_id, project, line.started_at, line.last_at)], actor.name)
    return is_new


def _restore_summary(line: SummaryLine, actor: Actor, known: dict[str, str]) -> bool:
    uid = known.get(line.memory_id, line.memory_id)
    memory = Memory.objects.visible_to(actor.clearance).filter(uid=uid).first()
    if memory is None:
        raise NotFound("its memory is not in this store", "memory_id")
    project = resolve_project(line.project, actor)
    without_summary = Session.objects.filter(session_id=line.session_id, project=project, summary=None)
    return bool(without_summary.update(summary=memory))


def _restore_events(shapes: Sequence[EventLine], actor: Actor, known: dict[str, str]) -> list[Result]:
    sessions = {
        (one.session_id, one.project): one
        for chunk in batched({shape.session_id for shape in shapes}, CHUNK_SIZE)
        for one in Session.objects.filter(session_id__in=chunk)
    }
    existing = _existing_event_keys(shapes, sessions)
    uids = {known.get(uid, uid) for shape in shapes for uid in _referenced_ids(shape)}
    memories = fetch_by_uid(Memory.objects.visible_to(actor.clearance), uids)
    results: list[Result] = []
    new_rows: list[Event] = []
    for line in shapes:
        try:
            event = _restore_event(line, actor, sessions, memories, known)
        except StoreError as refusal:
            results.append(refusal)
            continue
        keys = _event_keys(event)
        results.append(existing.isdisjoint(keys))
        if results[-1]:
            existing.update(keys)
            new_rows.append(event)
    Event.objects.bulk_create(new_rows, CHUNK_SIZE)
    return results


def _restore_event(
    line: EventLine,
    actor: Actor,
    sessions: dict[tuple[str, str], Session],
    memories: dict[str, Memory],
    known: dict[str, str],
) -> Event:
    project = resolve_project(line.project, actor)
    session = sessions.get((line.session_id, project))
    if session is None:
        raise NotFound("its session is not in this store", "session_id")
    memory = memories.get(known.get(line.memory_id, line.memory_id)) if line.memory_id else None
    if line.memory_id and memory is None:
        raise NotFound("its memory is not in this store", "memory_id")
    values = {name: getattr(line, name) for name in EVENT_COLUMNS}
    return Event(session=session, memory=memory, at=line.at, **values)


def _event_keys(event: Event) -> set[tuple[Any, ...]]:
    """Return the key by which an event is recognised: its mark, or all its values."""
    if event.mark:
        return {(event.session_id, event.mark)}
    values = (event.at, event.event, event.tool_name, event.preview, json.dumps(event.files))
    return {(event.session_id, *values)}


def _existing_event_keys(shapes: Sequence[EventLine], sessions: dict[Any, Session]) -> set[tuple[Any, ...]]:
    found: set[tuple[Any, ...]] = set()
    session_ids = [session.pk for session in sessions.values()]
    span = (min(shape.at for shape in shapes), max(shape.at for shape in shapes))
    marks = {shape.mark for shape in shapes if shape.mark}
    for chunk in batched(session_ids, CHUNK_SIZE):
        rows = Event.objects.filter(session__in=chunk)
        for event in rows.filter(at__range=span, mark="").iterator(chunk_size=CHUNK_SIZE):
            found |= _event_keys(event)
        for marks_chunk in batched(marks, CHUNK_SIZE):
            found |= set(rows.filter(mark__in=marks_chunk).values_list("session_id", "mark"))
    return found


def _restore_journal(shapes: Sequence[JournalLine], actor: Actor, known: dict[str, str]) -> list[Result]:
    """Restore journal rows that this journal does not contain, as its own or imported rows."""
    existing = _existing_journal_rows(shapes, known)
    results: list[Result] = []
    new_rows: list[tuple[datetime, str, journals.Change]] = []
    for line in shapes:
        try:
            _refuse_out_of_scope(line, actor)
        except StoreError as refusal:
            results.append(refusal)
            continue
        results.append(line.hash not in existing)
        if results[-1]:
            existing.add(line.hash)
            detail: dict[str, Any] = {**line.detail, "imported": {"seq": line.seq, "hash": line.hash}}
            object_id = known.get(line.object_id, line.object_id)
            access = (line.project, line.sensitivity.value, line.owner)
            change = journals.Change(line.operation, line.object_type, object_id, detail, *access)
            new_rows.append((line.at, line.actor, change))
    journals.record_imported(new_rows)
    return results


def _refuse_out_of_scope(line: JournalLine, actor: Actor) -> None:
    """Refuse journal rows about projects or owners outside of the actor's clearance."""
    if not actor.clearance.includes_project(line.project):
        raise Forbidden("you have no access to the project of this row", "project")
    if line.owner and line.owner != actor.owner and not actor.clearance.every_owner:
        raise Forbidden("this row is about another person's memory", "owner")


def _existing_journal_rows(shapes: Sequence[JournalLine], known: dict[str, str]) -> set[str]:
    subjects = {known.get(line.object_id, line.object_id) for line in shapes}
    span = (min(line.at for line in shapes), max(line.at for line in shapes))
    found: set[str] = set()
    for chunk in batched(subjects, CHUNK_SIZE):
        rows = JournalEntry.objects.filter(object_id__in=chunk, at__range=span)
        for row in rows.iterator(chunk_size=CHUNK_SIZE):
            found |= {serialize_journal_row(row, numbered=numbered)["hash"] for numbered in (True, False)}
    return found


@dataclass(frozen=True)
class LineKind:
    """How to restore lines of a kind. ``texts`` and ``documents`` are the fields to check for secrets."""

    label: str
    restore: Callable[[Sequence[Any], Actor, dict[str, str]], list[Result]]
    texts: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()


KINDS = {
    "project": LineKind("settings of projects", _for_each_line(_restore_project), ("name", "ignored_paths")),
    "identity": LineKind(
        "identities of projects", _for_each_line(_restore_identity), ("project", "key", "owner")
    ),
    "count": LineKind("counts of events", _for_each_line(_restore_count), ("project", "event")),
    "session": LineKind(
        "sessions",
        _for_each_line(_restore_session),
        ("session_id", "project", "cwd", "agent", "end_reason"),
        ("state",),
    ),
    "event": LineKind(
        "events",
        _restore_events,
        ("preview", "event", "tool_name", "files", "keywords", "skip_reason"),
        ("handlers", "memorability_parts"),
    ),
    # :func:`find_line_refusal` checks the values of a revision.
    "revision": LineKind("earlier versions", _about_memories(imported_history.import_revisions)),
    "evidence": LineKind("evidence", _about_memories(imported_history.import_evidence), ("session_id",)),
    "absence": LineKind("times in the trash", _about_memories(imported_history.import_absences)),
    "reference": LineKind(
        "references to code", _about_memories(imported_history.import_code_references), ("path",)
    ),
    "merge": LineKind("merges", _restore_merges),
    "replacement": LineKind("replacements", _for_each_line(_restore_replacement)),
    "summary": LineKind("summaries of sessions", _for_each_line(_restore_summary)),
    "superseded": LineKind("superseded facts", _for_each_line(_restore_superseded)),
    "check": LineKind(
        "memory checks",
        _for_each_line(_restore_check),
        ("prompt", "project", "owner", "must_words", "never_words", "never_projects"),
    ),
    "journal": LineKind(
        "journal rows",
        _restore_journal,
        ("actor", "operation", "object_type", "object_id", "project", "owner"),
        ("detail",),
    ),
}
