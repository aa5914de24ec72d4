"""Rename, merge and split projects. Each is one transaction, one journal row, and one undo.

They act on every row of a project, so the caller must see every project and level. No one sees more
afterwards: a merge is refused while someone reads the target and not the source; a new project has the
members of the one that it was split off; the projects of a token only follow a new name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.http import QueryDict
from django.utils import timezone

from memoryhub.access.policy import Actor, Sensitivity, level_rank
from memoryhub.capture.identities import MAX_FOLDER_CHARS, NAME, folder_key
from memoryhub.capture.ignored_paths import check_patterns
from memoryhub.capture.observation import clean_text
from memoryhub.capture.project_moves import (
    MERGE,
    MOVES,
    RENAME,
    SPLIT,
    UNDO_MOVE,
    current_name,
    extend_checks,
    move_identities,
    move_rows,
    move_sessions,
    replace_keys,
    revert_moves,
    save_move,
)
from memoryhub.capture.projects import CONFIGURE, PAUSE, SETTINGS, ProjectChange, to_detail
from memoryhub.core.database import batched, write_transaction
from memoryhub.core.text import new_uid
from memoryhub.core.vocabulary import PROJECT_MODES
from memoryhub.memories.delete import Caps, Quota, count_by_quota
from memoryhub.memories.errors import Conflict, Forbidden, NotFound, StoreError
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.maintenance_updates import move_facts, move_memories
from memoryhub.memories.rows import CHUNK_SIZE, extend_sessions
from memoryhub.memories.undo import Inverse, Undo, inverse_of, record_action
from memoryhub.models import (
    AgentToken,
    Digest,
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
