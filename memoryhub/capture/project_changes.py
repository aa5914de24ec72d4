"""Rename, merge and split projects: each moves rows in one transaction, one journal row, and one undo.

They act on every row of a project, so the caller must see every project and level. No one sees more
afterwards: a merge is refused while someone reads the target and not the source; a new project has the
members of the one that it was split off; the projects of a token only follow a new name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Model, Q
from django.http import QueryDict
from django.utils import timezone

from memoryhub.access.policy import Actor, Sensitivity, level_rank
from memoryhub.capture.ignored_paths import check_patterns
from memoryhub.capture.observation import clean_text
from memoryhub.capture.projects import (
    CONFIGURE,
    MAX_FOLDER_CHARS,
    NAME,
    PAUSE,
    SETTINGS,
    ProjectChange,
    folder_key,
    to_detail,
)
from memoryhub.core.database import batched, write_transaction
from memoryhub.core.dates import format_iso
from memoryhub.core.text import new_uid
from memoryhub.core.vocabulary import PROJECT_MODES
from memoryhub.memories.delete import Caps, Quota, count_by_quota
from memoryhub.memories.errors import Conflict, Forbidden, NotFound, StoreError
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.maintenance_updates import move_back, move_facts, move_memories
from memoryhub.memories.rows import CHUNK_SIZE, extend_sessions
from memoryhub.memories.undo import Inverse, Undo, inverse_of, record_action
from memoryhub.models import (
    AgentToken,
    Digest,
    Event,
    Extraction,
    Fact,
    Injection,
    JournalEntry,
    Membership,
    Memory,
    MemoryCheck,
    Project,
    ProjectIdentity,
    ProjectMove,
    SavedSearch,
    Session,
)
from memoryhub.security.secrets import find_secrets

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


_UNITED_SETTINGS = ("mode", PAUSE, "ignored_paths", "sends_page", "off_page_facts", "max_memories")
_NAMED_BY_PROJECT = (Memory, Fact, Session, Injection, Extraction, MemoryCheck, Membership)


def rename_project(name: str, into: str, actor: Actor) -> ProjectChange:
    """Give a project an unused name. Memberships, tokens and saved searches follow."""
    _require_whole(actor)
    into = _check_name(into)
    with write_transaction():
        _require_used(name)
        _refuse_used(into)
        uid = new_uid()
        _rename(name, into)
        project = _target(uid, into)
        replace_keys(uid, [NAME + into], None)
        replace_keys(uid, [NAME + name], project)
        return _record_move(RENAME, uid, {"name": name, "into": into}, actor)


def merge_projects(name: str, into: str, actor: Actor) -> ProjectChange:
    """Move everything of a project into another one.

    It gets the stricter mode, the longer pause, the higher cap, and the ignored files of both.
    """
    _require_whole(actor)
    with write_transaction():
        _require_used(name)
        if not into or not _is_used(into):
            raise StoreError("there is no such project; rename the other one instead", "into")
        if name == into:
            raise StoreError("must be another project", "into")
        _refuse_new_readers(name, into, timezone.now())
        _refuse_full(name, into)
        uid = new_uid()
        detail = {"name": name, "into": into, **_unite_settings(name, into)}
        save_move(uid, Memory, move_memories(name, into))
        save_move(uid, Fact, move_facts(name, into))
        move_rows(uid, Injection.objects.filter(project=name), into, "session")
        move_sessions(uid, into, Session.objects.filter(project=name))
        move_rows(uid, Extraction.objects.filter(project=name), into)
        move_rows(uid, MemoryCheck.objects.filter(project=name), into)
        project = _target(uid, into)
        move_identities(uid, ProjectIdentity.objects.filter(project__name=name), project)
        extend_checks(uid, name, into)
        replace_keys(uid, [NAME + name], project)
        return _record_move(MERGE, uid, detail, actor)


def split_project(
    name: str,
    into: str,
    actor: Actor,
    *,
    folder: str = "",
    identities: Sequence[str] = (),
    chosen: MemoryFilter | None = None,
) -> ProjectChange:
    """Move a part of a project into a new one.

    ``folder``: sessions that worked in it, with their memories and facts; its next events are in the new
    project. ``identities``: repositories whose next sessions are in the new project. ``chosen``: visible
    memories.
    """
    _require_whole(actor)
    into = _check_name(into)
    folder_keys = [_check_folder(folder)] if folder else []
    with write_transaction():
        _require_used(name)
        _refuse_used(into)
        sessions = Session.objects.filter(_in_folder(folder), project=name)
        keys = _memory_keys(name, sessions, chosen, actor)
        known = ProjectIdentity.objects.filter(project__name=name, key__in=identities)
        if set(identities) - set(known.values_list("key", flat=True)):
            raise StoreError("the project has no such identity; see its settings", "identities")
        if not (keys or identities or sessions.exists()):
            raise StoreError("nothing of this project was chosen, or nothing matches", "into")
        uid = new_uid()
        _copy_settings(name, into)
        extend_checks(uid, name, into)
        _move_part(uid, name, into, sessions, keys)
        project = _target(uid, into)
        move_identities(uid, known, project)
        replace_keys(uid, folder_keys, project)
        extend_sessions(Memory.objects.filter(project=into), actor)
        return _record_move(SPLIT, uid, {"name": name, "into": into}, actor)


# --- Checks -------------------------------------------------------------------------------------------------


def _require_whole(actor: Actor) -> None:
    if not actor.clearance.is_whole:
        raise Forbidden(
            "you can rename, merge and split projects only with access to every project and level"
        )


def _check_name(name: str) -> str:
    name = clean_text(name).strip()
    if not 0 < len(name) <= 200 or not name.isprintable():
        raise StoreError("must be 1 to 200 printable characters", "into")
    if find_secrets(name):
        raise StoreError("contains what looks like a secret; remove it", "into")
    return name


def _check_folder(folder: str) -> str:
    key = folder_key(clean_text(folder))
    if not key or find_secrets(folder):
        raise StoreError(f"must be an absolute path of at most {MAX_FOLDER_CHARS} characters", "folder")
    return key


def _is_used(name: str) -> bool:
    if any(model._default_manager.filter(project=name).exists() for model in _NAMED_BY_PROJECT):
        return True
    return Project.objects.filter(name=name).exists() or bool(_tokens_of(name))


def _tokens_of(name: str) -> list[AgentToken]:
    limited = AgentToken.objects.filter(revoked_at__isnull=True).exclude(projects=[])
    return [token for token in limited if name in token.projects]


def _require_used(name: str) -> None:
    if not name or not _is_used(name):
        raise NotFound("there is no such project")


def _refuse_used(name: str) -> None:
    if _is_used(name):
        raise Conflict(f"the name {name} is in use; choose another one, or merge the two projects", "into")


def _refuse_new_readers(source: str, target: str, now: datetime) -> None:
    """Refuse a merge after which someone could read the memories of the source who cannot read them now."""
    may_read = dict(Membership.objects.filter(project=source).values_list("user_id", "clearance"))
    members = Membership.objects.filter(project=target).values_list("user_id", "clearance")
    tokens = [token for token in _tokens_of(target) if not token.has_ended(now)]
    if not all(
        user in may_read and _reads_as_much(may_read[user], level) for user, level in members
    ) or not all(source in token.projects for token in tokens):
        raise Conflict(
            f"after the merge, a member or an agent of {target} could read memories of {source} that they "
            f"cannot read now; give them access to {source} first, or end their access to {target}",
            "into",
        )


def _reads_as_much(level: str, other: str) -> bool:
    """Whether a membership of this level reads at least as much as one of the other level.

    An empty level leaves the permissions of the person as they are, so it equals only another empty one.
    """
    return level == other or bool(level and other and level_rank(level) >= level_rank(other))


def _refuse_full(source: str, target: str) -> None:
    """Refuse a merge after which the next write would evict memories."""
    own = _wider_cap(Project.named(source), Project.named(target))
    cap = settings.MEMORYHUB.max_memories if own is None else own
    counts: dict[Quota, int] = {}
    for quota, n in count_by_quota(Memory.objects.live().filter(project__in=(source, target))).items():
        both = quota._replace(project=target)
        counts[both] = counts.get(both, 0) + n
    if cap and max(counts.values(), default=0) > cap:
        raise Conflict(
            f"{target} would have {max(counts.values()):,} memories of one author, more than its cap "
            f"(max_memories, {cap:,}), and the next write would move some to the trash; raise the cap first",
            "into",
        )


def _wider_cap(source: Project, target: Project) -> int | None:
    """Return the higher of two caps. None means the cap of the hub's settings."""
    caps = Caps({one.name: own for one in (target, source) if (own := one.max_memories) is not None})
    return max((target, source), key=lambda one: caps[one.name] or math.inf).max_memories


# --- Moves --------------------------------------------------------------------------------------------------


def _rename(name: str, into: str) -> None:
    move_memories(name, into)
    move_facts(name, into)
    for model in _NAMED_BY_PROJECT[2:]:
        model._default_manager.filter(project=name).update(project=into)
    for token in _tokens_of(name):
        token.projects = sorted({into if one == name else one for one in token.projects})
        token.save(update_fields=["projects"])
    for search in SavedSearch.objects.filter(query__contains="project="):
        query = QueryDict(search.query, mutable=True)
        if query.get("project") == name:
            query["project"] = into
            search.query = query.urlencode()[:2000]
            search.save(update_fields=["query"])
    for check in MemoryCheck.objects.exclude(never_projects=[]):
        check.never_projects = [into if one == name else one for one in check.never_projects]
        check.save(update_fields=["never_projects"])
    Digest.objects.filter(project=name).update(project=into)
    Project.objects.filter(name=name).update(name=into)


def _target(uid: str, name: str) -> Project:
    """Return the row of the project that gets identities. The undo removes it again if it is new."""
    project, is_new = Project.objects.get_or_create(name=name)
    if is_new:
        ProjectMove.objects.create(action=uid, table=Project.__name__, rows=[[project.pk]])
    return project


def _in_folder(folder: str) -> Q:
    if not folder:
        return Q(pk__in=())
    folder = folder.rstrip("/\\")
    return Q(cwd=folder) | Q(cwd__startswith=f"{folder}/") | Q(cwd__startswith=f"{folder}\\")


def _memory_keys(name: str, sessions: Any, chosen: MemoryFilter | None, actor: Actor) -> list[int]:
    """Return the keys of all memories of these sessions, even hidden ones, and of the chosen visible ones."""
    ids = list(sessions.values_list("session_id", flat=True))
    found = set(Memory.objects.filter(project=name, session_id__in=ids).values_list("pk", flat=True))
    if chosen is not None:
        found |= set(chosen.select(actor.clearance).filter(project=name).values_list("pk", flat=True))
    return sorted(found)


def _move_part(uid: str, name: str, into: str, sessions: Any, keys: Sequence[int]) -> None:
    ids = list(sessions.values_list("session_id", flat=True))
    facts = set(Fact.objects.filter(project=name, session_id__in=ids).values_list("pk", flat=True))
    for chunk in batched(keys, CHUNK_SIZE):
        facts |= set(Fact.objects.filter(project=name, memory__in=chunk).values_list("pk", flat=True))
    move_rows(
        uid,
        Injection.objects.filter(session__in=list(sessions.values_list("pk", flat=True))),
        into,
        "session",
    )
    save_move(uid, Memory, move_memories(name, into, keys))
    save_move(uid, Fact, move_facts(name, into, sorted(facts)))
    move_sessions(uid, into, sessions)


def _copy_settings(name: str, into: str) -> None:
    """Give a new project the settings and the members of the one that it was split off."""
    was = Project.named(name)
    Project.objects.create(name=into, **{field: getattr(was, field) for field in SETTINGS})
    for one in Membership.objects.filter(project=name).select_related("user"):
        Membership.objects.create(user=one.user, project=into, clearance=one.clearance)


def _unite_settings(name: str, into: str) -> dict[str, Any]:
    """Unite the settings of two projects in the target. Return its settings before and after."""
    source, target = Project.named(name), Project.named(into)
    was = to_detail({field: getattr(target, field) for field in _UNITED_SETTINGS})
    target.mode = min(source.mode, target.mode, key=PROJECT_MODES.index)
    target.paused_until = max(filter(None, (source.paused_until, target.paused_until)), default=None)
    lines = [*target.ignored_paths.splitlines(), *source.ignored_paths.splitlines()]
    target.ignored_paths = "\n".join(dict.fromkeys(lines))
    try:
        check_patterns(target.ignored_paths)
    except StoreError:
        raise Conflict("the ignored files of both are too many; shorten one list first", "into") from None
    target.sends_page = source.sends_page and target.sends_page
    target.off_page_facts = sorted({*source.off_page_facts, *target.off_page_facts})
    target.max_memories = _wider_cap(source, target)
    target.save()
    return {"was": was, "left": to_detail({field: getattr(target, field) for field in _UNITED_SETTINGS})}


def _record_move(
    operation: str, uid: str, detail: Mapping[str, Any], actor: Actor, now: datetime | None = None
) -> ProjectChange:
    """Journal a move. Only callers with access to every project see the row, because it names two."""
    access = ("", Sensitivity.SECRET.value, "")
    record_action(operation, uid, {access: dict(detail)}, actor, now or timezone.now(), about="project")
    return ProjectChange(Project.named(detail["into"]), uid)


def undo_project_change(uid: str, actor: Actor, *, allowed: Collection[str] = SETTINGS) -> Project:
    """Undo a change of settings, a rename, a merge or a split. Raise Conflict after another change since.

    Raise Forbidden for a change of other settings than the ``allowed`` ones.
    """
    undo = Undo.of_action(uid, actor, (CONFIGURE, *MOVES), about="project")
    if not undo.rows:
        raise NotFound("there is no such change")
    if any(not set(row.detail.get("was", SETTINGS)) <= set(allowed) for row in undo.rows):
        raise Forbidden("you do not have permission to change these settings")
    undo.run()
    if undo.refused:
        raise Conflict(undo.refused[0][1])
    return undo.restored[0]  # type: ignore[no-any-return]


def _undo_moves(undo: Undo, rows: Sequence[JournalEntry]) -> int:
    _require_whole(undo.actor)
    for row in rows:
        name, into = row.detail["name"], row.detail["into"]
        if (current := current_name(row, into)) != into:
            undo.refused.append((name, f"{into} is called {current} now; undo that rename or merge first"))
            continue
        if row.operation == RENAME:
            if _is_used(name) or not _is_used(into):
                undo.refused.append((name, f"the name {name} is in use again, or {into} is gone"))
                continue
            _rename(into, name)
        revert_moves(undo.id, name, into)
        if row.operation != RENAME:
            _restore_target(row, into)
        _record_move(UNDO_MOVE, undo.id, {"name": into, "into": name}, undo.actor, undo.now)
        undo.restored.append(Project.named(name))
    return len(undo.restored)


def _restore_target(row: JournalEntry, into: str) -> None:
    """Delete the project of a split if it is empty, or restore the settings that a merge united."""
    if row.operation == SPLIT:
        with_memories = Memory.objects.filter(project=into).values("session_id")
        Session.objects.filter(project=into, events=None).exclude(session_id__in=with_memories).delete()
        if not any(model._default_manager.filter(project=into).exists() for model in _NAMED_BY_PROJECT[:-1]):
            Membership.objects.filter(project=into).delete()
            Project.objects.filter(name=into, identities=None).delete()
        return
    target = Project.objects.filter(name=into, **row.detail["left"])
    target.update(**row.detail["was"], updated_at=timezone.now())


inverse_of(Inverse(list, _undo_moves, UNDO_MOVE), *MOVES, about="project")
