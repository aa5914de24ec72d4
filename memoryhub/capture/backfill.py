"""Past sessions: events read from transcripts, recorded under one run that is undone as a whole.

A run writes a journal row for each batch of events, with the keys of the sessions and events and the ids of
the memories that the batch added. A session that was reported live is never backfilled, because the hub has
its events already.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.capture.events import HookEvent
from memoryhub.capture.pipeline import dispatch
from memoryhub.core.database import batched, write_transaction
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories.delete import move_to_trash
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.rows import resolve_project
from memoryhub.memories.undo import AccessKey, Inverse, Undo, access_key, inverse_of, record_action
from memoryhub.models import Event, JournalEntry, Memory, Project, Session
from memoryhub.models.querysets import BACKFILL_MARK

BACKFILL, UNDO_BACKFILL, ABOUT = "backfill", "undo_backfill", "session"
_ROWS_IN_TRANSACTION = 5  # of an undo; a row is about one batch
# Outcomes of an event besides the mode of a project that stores nothing, and "paused".
KNOWN, LIVE, STORED, RECORDED, IGNORED, NEW = "known", "live", "stored", "recorded", "ignored", "new"


@dataclass(frozen=True)
class PastSession:
    """What the hub has of a past session. ``state``: ``new``, ``live``, ``paused``, ``off`` or ``observe``.

    ``known``: ids of events that were backfilled before.
    """

    project: str
    state: str
    known: frozenset[str] = frozenset()


def mark_event(event: str, event_id: str) -> str:
    """Return the mark by which a second delivery of a backfilled event is recognised."""
    return BACKFILL_MARK + hashlib.sha256(f"{event}\n{event_id}".encode("utf-8", "replace")).hexdigest()[:15]


def check_session(
    session_id: str, project: str, events: Sequence[tuple[str, str]], actor: Actor
) -> PastSession:
    """Return what a backfill of these events ``(event, id)`` would find. Stores nothing."""
    project = resolve_project(project, actor)
    session = Session.objects.filter(session_id=session_id, project=project).first()
    marks = {mark_event(event, event_id): event_id for event, event_id in events}
    known = frozenset(marks[mark] for mark in _known_marks(session, marks))
    return PastSession(project, _state(session, Project.named(project), timezone.now()), known)


def _known_marks(session: Session | None, marks: Collection[str]) -> set[str]:
    if session is None:
        return set()
    return {
        mark
        for chunk in batched(marks, 500)
        for mark in session.events.filter(mark__in=chunk).values_list("mark", flat=True)
    }


def _state(session: Session | None, project: Project, now: datetime) -> str:
    if project.is_paused(now):
        return "paused"
    if not project.is_recorded:
        return project.mode
    is_live = session and session.events.live().exists()
    return LIVE if is_live else NEW


@dataclass
class _Batch:
    """One batch of a run, and what it added, for its journal rows.

    A place is the id and the project of a session. ``states`` and ``known``: by place, the result of
    :func:`_state` and the marks of stored events among ``marks``. ``sessions``: places with a new event.
    ``events``: keys of new events by access key and key of their session. ``first_seq``: the newest journal
    row before the batch.
    """

    run: str
    actor: Actor
    now: datetime
    first_seq: int
    marks: Collection[str]
    states: dict[tuple[str, str], str] = field(default_factory=dict)
    known: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    events: dict[AccessKey, dict[int, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    new_sessions: set[int] = field(default_factory=set)
    sessions: set[tuple[str, str]] = field(default_factory=set)

    def store(self, hook_event: HookEvent) -> str:
        """Record one event and return its outcome."""
        place = hook_event.session_id, resolve_project(hook_event.project, self.actor)
        if place not in self.states:
            session = Session.objects.filter(session_id=place[0], project=place[1]).first()
            self.states[place] = _state(session, Project.named(place[1]), self.now)
            self.known[place] = _known_marks(session, self.marks)
        if (state := self.states[place]) != NEW:
            return state
        mark = mark_event(hook_event.event, hook_event.delivery_id)
        if mark in self.known[place]:
            return KNOWN
        past = replace(hook_event, delivery_id=mark, is_late=True, is_backfilled=True)
        event = dispatch(past, self.actor, self.now).event
        if event is None:
            return IGNORED
        self.known[place].add(mark)
        self.sessions.add(place)
        if event.session.is_new:
            self.new_sessions.add(event.session_id)
        self.events[place[1], event.sensitivity, ""][event.session_id].append(event.pk)
        return STORED if event.memory_id else RECORDED

    def record(self) -> int:
        """Write the journal rows of the batch and return the number of new memories."""
        details: dict[AccessKey, dict[str, Any]] = {}
        for key, sessions in self.events.items():
            spans = [
                [pk, min(keys), max(keys), int(pk in self.new_sessions)] for pk, keys in sessions.items()
            ]
            details[key] = {"events": spans, "count": sum(map(len, sessions.values())), "memories": []}
        memories = self._new_memories()
        for memory in memories:
            key = memory.project, memory.sensitivity, memory.owner
            empty: dict[str, Any] = {"events": [], "count": 0, "memories": []}
            details.setdefault(key, empty)["memories"].append(memory.uid)
        if details:
            with write_transaction():
                record_action(BACKFILL, self.run, details, self.actor, self.now, about=ABOUT)
        return len(memories)

    def _new_memories(self) -> list[Memory]:
        """Return the memories that the batch added to its sessions, also out of the trash."""
        if not self.sessions:
            return []
        rows = JournalEntry.objects.filter(
            seq__gt=self.first_seq, actor=self.actor.name, object_type="memory"
        ).values_list("object_id", "operation", "detail")
        uids = [uid for uid, kind, detail in rows if kind == "insert" or detail.get("revived")]
        return [
            memory
            for memory in Memory.objects.filter(uid__in=uids)
            if (memory.session_id, memory.project) in self.sessions
        ]


def store_events(run: str, hook_events: Sequence[HookEvent], actor: Actor) -> tuple[list[str], int]:
    """Record events of past sessions, in order. Return their outcomes and the number of new memories.

    The ``delivery_id`` of an event is its id. The context of a prompt is not computed. Raise
    :class:`Conflict` if the run is of someone else or was undone.
    """
    run = _run_of_owner(run, actor)
    if _rows(run).exclude(actor=actor.name).exists() or _rows(run, UNDO_BACKFILL).exists():
        raise Conflict("this run was undone, or is not yours; start another one", "run")
    marks = {mark_event(one.event, one.delivery_id) for one in hook_events}
    batch = _Batch(run, actor, timezone.now(), journal.last_seq(), marks)
    outcomes: list[str] = []
    try:
        for hook_event in hook_events:
            outcomes.append(batch.store(hook_event))
    finally:  # what was stored before an error must be undone with the run
        added = batch.record()
    return outcomes, added


def _run_of_owner(run: str, actor: Actor) -> str:
    """Return the id of a run in the journal.

    Agents of several people may have the same name, and readers of the journal must not learn the id with
    which a run is undone.
    """
    return hashlib.sha256(f"{actor.owner}\n{run}".encode("utf-8", "replace")).hexdigest()[:32]


def _rows(run: str, *operations: str) -> QuerySet[JournalEntry]:
    """Return the rows of a run. Also hidden ones: never show them."""
    rows = JournalEntry.objects.filter(object_type=ABOUT, object_id=run)
    rows = rows.filter(operation__in=operations or (BACKFILL, UNDO_BACKFILL))
    return rows.exclude(detail__has_key="imported")


def undo_backfill(run: str, actor: Actor) -> Counter[str]:
    """Move the memories of a run to the trash and delete its events and sessions. Return how many.

    A memory that a person pinned or changed since stays, and so does a session with other events.
    """
    run = _run_of_owner(run, actor)
    own = _rows(run, BACKFILL).filter(actor=actor.name).order_by("-seq")
    rows = [row for row in own if actor.clearance.includes_project(row.project)]
    if not rows or _rows(run, UNDO_BACKFILL).exists():
        raise NotFound("there is no such run of yours, or it was undone")
    undo = Undo(run, actor, timezone.now(), rows)
    for _ in undo.steps(lambda rows: batched(rows, _ROWS_IN_TRANSACTION)):
        pass
    undone: dict[AccessKey, dict[str, Any]] = {access_key(row): {} for row in undo.rows}
    with write_transaction():
        record_action(UNDO_BACKFILL, run, undone, actor, undo.now, about=ABOUT)
    return Counter(undo.restored)


def _remove_batches(undo: Undo, rows: Sequence[JournalEntry]) -> int:
    for row in rows:
        uids = row.detail["memories"]
        undo.restored += ["memories"] * _remove_memories(undo, uids)
        for session, first, last, is_new in row.detail["events"]:
            events = Event.objects.filter(
                session=session, pk__range=(first, last), mark__startswith=BACKFILL_MARK
            )
            undo.restored += ["events"] * events.count()
            events.delete()
            if is_new:
                undo.restored += ["sessions"] * _delete_if_empty(session)
    return len(rows)


def _remove_memories(undo: Undo, uids: Collection[str]) -> int:
    """Move memories to the trash, and take memories out of it that one of them replaced."""
    own = Memory.objects.filter(uid__in=uids, author=undo.actor.name)
    gone = [memory for memory in own if not memory.deleted_at or memory.merged_into_id]
    gone = [memory for memory in gone if not memory.pinned and not _is_changed(memory, undo.actor)]
    replaced = Memory.objects.filter(merged_into__in=gone, trash_reason=TrashReason.MERGED.value)
    back = list(replaced.visible_to(undo.actor.clearance))
    for memory in back:
        memory.deleted_at, memory.trash_reason, memory.merged_into = None, "", None
        memory.save(update_fields=["deleted_at", "trash_reason", "merged_into"])
    changes = [journal.memory_change("restore", memory, undoes=undo.id) for memory in back]
    journal.record(undo.actor, changes, undo.now)
    move_to_trash(gone, undo.actor, TrashReason.UNDONE, undo.now, why=f"undo of backfill {undo.id}")
    return len(gone)


def _is_changed(memory: Memory, actor: Actor) -> bool:
    """Whether someone else changed the memory since it was stored, other than by maintenance."""
    others = memory.revisions.exclude(actor=actor.name).exclude(actor__startswith="system:")
    return others.exists()


def _delete_if_empty(session: int) -> int:
    """Delete a session if it has no events and no live memories. Return 1 if it was deleted, otherwise 0."""
    found = Session.objects.filter(pk=session, events__isnull=True).first()
    if found is None:
        return 0
    memories = Memory.objects.live().in_session(found.session_id, project=found.project)
    if memories.exists():
        return 0
    found.delete()
    return 1


inverse_of(Inverse(list, _remove_batches, UNDO_BACKFILL), BACKFILL, about=ABOUT)
