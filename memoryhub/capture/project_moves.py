"""Move rows from one project to another, record what was moved, list it, and take it back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Model, Q

from memoryhub.access.policy import Actor
from memoryhub.capture.projects import SETTINGS
from memoryhub.core.database import batched
from memoryhub.core.dates import format_iso
from memoryhub.memories.maintenance_updates import move_back
from memoryhub.memories.rows import CHUNK_SIZE
from memoryhub.models import (
    Event,
    Extraction,
    Fact,
    Injection,
    JournalEntry,
    Memory,
    MemoryCheck,
    Project,
    ProjectIdentity,
    ProjectMove,
    Session,
)

RENAME, MERGE, SPLIT, UNDO_MOVE = "rename", "merge", "split", "undo_move"
MOVES = (RENAME, MERGE, SPLIT)
MAX_LISTED_MOVES = 5
_EXTENDED_CHECKS = "never_projects"  # the table of a ProjectMove with checks
_REPLACED_KEYS = "replaced_keys"  # the table of a ProjectMove with keys and the identities that had them
_WIDENED = "widened_sessions"  # the table of a ProjectMove with spans of sessions, before and after


def extend_checks(uid: str, name: str, into: str) -> None:
    """Extend checks that forbid a project to the other project that its memories move to."""
    forbidding = [one for one in MemoryCheck.objects.exclude(never_projects=[]) if name in one.never_projects]
    extended = [check for check in forbidding if into not in check.never_projects]
    for check in extended:
        check.never_projects = [*check.never_projects, into]
        check.save(update_fields=["never_projects"])
    if extended:
        ProjectMove.objects.create(action=uid, table=_EXTENDED_CHECKS, rows=[[one.pk] for one in extended])


def _narrow_checks(keys: Sequence[int], into: str) -> None:
    """Undo what :func:`extend_checks` did."""
    for check in MemoryCheck.objects.filter(pk__in=keys):
        check.never_projects = [one for one in check.never_projects if one != into]
        check.save(update_fields=["never_projects"])


def replace_keys(uid: str, keys: Sequence[str], project: Project | None) -> None:
    """Let keys identify this project, or none, instead of their present projects.

    A former name lets hooks of folders with that name find the project.
    """
    for key in keys:
        rows = ProjectIdentity.objects.filter(key=key)
        was = [[one.pk, one.owner, one.project_id, format_iso(one.created_at)] for one in rows]
        if project is None:
            rows.delete()
        else:
            rows.filter(owner="").delete()
            ProjectIdentity.objects.create(key=key, project=project)
        if was or project:
            row = [key, project and project.pk, was]
            ProjectMove.objects.create(action=uid, table=_REPLACED_KEYS, rows=[row])


def _restore_keys(key: str, replaced_by: int | None, was: Sequence[Sequence[Any]]) -> None:
    """Undo what :func:`replace_keys` did to a key, if it identifies the same project still."""
    ProjectIdentity.objects.filter(key=key, project=replaced_by, owner="").delete()
    existing = set(Project.objects.values_list("pk", flat=True).filter(pk__in=[one[2] for one in was]))
    rows = []
    for pk, owner, project, created in was:
        at = datetime.fromisoformat(created)
        if project in existing:
            rows.append(ProjectIdentity(pk=pk, key=key, owner=owner, project_id=project, created_at=at))
    ProjectIdentity.objects.bulk_create(rows, ignore_conflicts=True)


def save_move(uid: str, model: type[Model], rows: Iterable[Sequence[Any]]) -> None:
    if moved := [list(row) for row in rows]:
        ProjectMove.objects.create(action=uid, table=model.__name__, rows=moved)


def move_rows(uid: str, rows: Any, into: str, was: str = "project") -> None:
    """Move rows that only name their project. ``was``: the column to save for the undo."""
    save_move(uid, rows.model, rows.values_list("pk", was))
    rows.update(project=into)


def move_sessions(uid: str, into: str, sessions: Any) -> None:
    """Move sessions. The events of one that the target has too go to that one."""
    own = Session.objects.filter(project=into)
    shared = sessions.filter(session_id__in=own.values("session_id"))
    for session in shared:
        other = own.get(session_id=session.session_id)
        repeated = session.events.filter(mark__in=other.events.exclude(mark="").values("mark"))
        save_move(uid, Event, session.events.values_list("pk", "session", "mark"))
        repeated.update(mark="")
        session.events.update(session=other)
        session.injections.update(session=other)
        _widen_session(uid, other, session)
    move_rows(uid, sessions.exclude(session_id__in=own.values("session_id")), into)


def _widen_session(uid: str, other: Session, session: Session) -> None:
    """Extend a session by the span of the one whose events it gets."""
    was = [format_iso(at) for at in (other.started_at, other.last_at)]
    other.started_at = min(other.started_at, session.started_at)
    other.last_at = max(other.last_at, session.last_at)
    other.save(update_fields=["started_at", "last_at"])
    widened = [format_iso(at) for at in (other.started_at, other.last_at)]
    ProjectMove.objects.create(action=uid, table=_WIDENED, rows=[[other.pk, *was, *widened]])


def _narrow_session(key: int, *times: str) -> None:
    """Undo what :func:`_widen_session` did, except an end that later events have moved."""
    started_at, last_at, first, last = map(datetime.fromisoformat, times)
    Session.objects.filter(pk=key, started_at=first).update(started_at=started_at)
    Session.objects.filter(pk=key, last_at=last).update(last_at=last_at)


def move_identities(uid: str, identities: Any, project: Project) -> None:
    save_move(uid, ProjectIdentity, identities.values_list("pk", "project__name"))
    keys = list(identities.values_list("pk", flat=True))
    ProjectIdentity.objects.filter(pk__in=keys).update(project=project)


def revert_moves(uid: str, name: str, into: str) -> None:
    """Move back what an action moved, as far as it is still there. What was added since stays."""
    moves = ProjectMove.objects.filter(action=uid).order_by("-pk")
    for move in moves:
        if move.table == _REPLACED_KEYS:
            for key, replaced_by, was in move.rows:
                _restore_keys(key, replaced_by, was)
        elif move.table == _WIDENED:
            for row in move.rows:
                _narrow_session(*row)
        elif move.table in ("Memory", "Fact"):
            move_back(Memory if move.table == "Memory" else Fact, into, name, move.rows)
        else:
            for chunk in batched(move.rows, CHUNK_SIZE):
                _revert_rows(move.table, chunk, name, into)
    moves.delete()


def _revert_rows(table: str, rows: Sequence[Sequence[Any]], name: str, into: str) -> None:
    keys = [pk for pk, *_ in rows]
    if table == "Session":
        taken = Session.objects.filter(project=name).values("session_id")
        back = Session.objects.filter(pk__in=keys, project=into).exclude(session_id__in=taken)
        back.update(project=name)
    elif table == "ProjectIdentity":
        project, _ = Project.objects.get_or_create(name=name)
        ProjectIdentity.objects.filter(pk__in=keys, project__name=into).update(project=project)
    elif table == "Project":
        unused = Project.objects.filter(pk__in=keys, identities=None, event_counts=None)
        untouched = {field: getattr(Project(), field) for field in SETTINGS}
        unused.filter(**untouched).delete()
    elif table in ("Extraction", "MemoryCheck"):
        model = Extraction if table == "Extraction" else MemoryCheck
        model._default_manager.filter(pk__in=keys, project=into).update(project=name)
    elif table == "Injection":
        Injection.objects.filter(pk__in=keys, project=into).update(project=name)
        _take_to_sessions(Injection, rows)
    elif table == "Event":
        _take_to_sessions(Event, rows)
    elif table == _EXTENDED_CHECKS:
        _narrow_checks(keys, into)


def _take_to_sessions(model: type[Event | Injection], rows: Sequence[Sequence[Any]]) -> None:
    """Give events and injections back to their sessions, if these still exist."""
    by_session: dict[int, list[int]] = {}
    for pk, session, *_ in rows:
        by_session.setdefault(session, []).append(pk)
    for session in Session.objects.filter(pk__in=[key for key in by_session if key]):
        moved = model._default_manager.filter(pk__in=by_session[session.pk])
        moved.exclude(session=session).update(session=session)
    for pk, session, *mark in rows:
        if mark and mark[0]:
            Event.objects.filter(pk=pk, session=session, mark="").update(mark=mark[0])


def list_moves(name: str, actor: Actor) -> list[JournalEntry]:
    """Return the newest renames, merges and splits of a project that were not undone, the newest first."""
    rows = JournalEntry.objects.visible_as_recorded(actor.clearance).filter(object_type="project")
    rows = rows.exclude(detail__has_key="imported")
    undone = rows.filter(operation=UNDO_MOVE).values("object_id")
    of_project = Q(detail__into=name) | Q(operation=SPLIT, detail__name=name)
    moves = rows.filter(of_project, operation__in=MOVES).exclude(object_id__in=undone)
    return list(moves.order_by("-seq")[:MAX_LISTED_MOVES])


def current_name(row: JournalEntry, name: str) -> str:
    """Return the name that a project has now, after later renames and merges of the whole project."""
    moves = JournalEntry.objects.filter(object_type="project", operation__in=(*MOVES, UNDO_MOVE))
    renames = set(moves.filter(operation=RENAME).values_list("object_id", flat=True))
    later = list(moves.filter(seq__gt=row.seq).order_by("seq"))
    undone = {move.object_id for move in later if move.operation == UNDO_MOVE}
    for move in later:
        is_whole = move.object_id in renames or (move.operation == MERGE and move.object_id not in undone)
        if is_whole and move.detail["name"] == name:
            name = str(move.detail["into"])
    return name
