"""Change stored memories: updates with revisions, access counts, expiry renewal and review flags."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Case, Max, Q, QuerySet, Value, When
from django.utils import timezone

from memoryhub.access.filters import memory_filter
from memoryhub.access.policy import AGENT_PREFIX, LEVELS, Actor, Sensitivity, level_rank
from memoryhub.audit import journal
from memoryhub.core.database import side_write, write_transaction
from memoryhub.core.text import make_title
from memoryhub.core.vocabulary import ProjectMode
from memoryhub.memories import rows
from memoryhub.memories.delete import evict_over_cap
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.freshness import clear_after_edit
from memoryhub.memories.replacements import change_replacement
from memoryhub.memories.rows import CHUNK_SIZE, add_revision, compute_expiry, fetch_by_uids
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.memories.secret_check import MEMORY_FIELDS, find_refusal, journal_refusals
from memoryhub.models import Fact, Memory, Project, Revision
from memoryhub.models.querysets import MemoryQuerySet, unapproved_filter

# A change of one of these may make a memory equal to another.
_PLACE_FIELDS = {"project", "scope", "sensitivity", "key"}
_IDENTITY_FIELDS = {"content", *_PLACE_FIELDS}
RAISED_REASON = "raised after merge"  # of a revision


def get_memory(uid: str, actor: Actor) -> Memory:
    """Return a memory that the actor may see, even if it is expired or in the trash.

    Call this inside the transaction that changes the memory.
    """
    memory: Memory | None = Memory.objects.visible_to(actor.clearance).filter(uid=uid).first()
    if memory is None:
        raise NotFound("there is no such memory")
    return memory


def update_memory(
    uid: str,
    patch: MemoryPatch,
    actor: Actor,
    now: datetime | None = None,
    *,
    unchanged_since: datetime | None = None,
    reason: str = "update",
    checked: bool = False,
) -> Memory:
    """Set the given fields. A revision stores the replaced values and the ``reason`` in a word.

    ``unchanged_since``: the ``updated_at`` that the editor started from. If someone else has changed the
    memory since, the update is a :class:`Conflict`. ``checked``: the caller is inside a transaction and has
    already checked the patch for secrets.
    """
    now = now or timezone.now()
    vectors = rows.PreparedVectors([rows.embedding_text(patch)] if "content" in patch.given else ())
    if not checked:
        _refuse_secrets(uid, patch, actor)
    with write_transaction():
        memory = get_memory(uid, actor)
        refuse_if_ended(memory, patch, now)
        _refuse_where_off(memory, patch, actor)
        if unchanged_since and memory.updated_at != unchanged_since:
            raise Conflict("someone has changed this memory since you opened it; reload it", "updated_at")
        changes = apply_patch(memory, patch, patch.given, actor, now, reason=reason)
        if changes:
            memory.updated_at = now
            memory.save()
            vectors.refresh(memory)
            journal.record(actor, changes, now)
            if "project" in patch.given:
                evict_over_cap([memory], actor, now)
    return memory


def _refuse_secrets(uid: str, patch: MemoryPatch, actor: Actor) -> None:
    """Refuse a patch with secrets. NotFound comes first: a refusal about a hidden memory is not journaled."""
    with journal_refusals(patch, actor, uid=uid):
        if refusal := find_refusal(patch, [name for name in MEMORY_FIELDS if name in patch.given]):
            get_memory(uid, actor)
            raise refusal


def _refuse_where_off(memory: Memory, patch: MemoryPatch, actor: Actor) -> None:
    """Refuse a change by an agent in a project that is switched off, or into such a project."""
    if actor.name.startswith(AGENT_PREFIX):
        names = {memory.project, patch.project} if "project" in patch.given else {memory.project}
        off = Project.objects.filter(name__in=names, mode=ProjectMode.OFF.value)
        for name in off.values_list("name", flat=True):
            rows.refuse_if_off(name, actor, [name])


def refuse_if_trashed(memory: Memory) -> None:
    """Raise :class:`Conflict` if the memory is in the trash."""
    if memory.deleted_at:
        raise Conflict("this memory is in the trash; restore it first", "id")


def refuse_if_ended(memory: Memory, patch: MemoryPatch, now: datetime) -> None:
    """Raise :class:`Conflict` if the memory is in the trash, or expired and not given ``ttl_days``."""
    refuse_if_trashed(memory)
    if memory.is_expired(now) and "ttl_days" not in patch.given:
        raise Conflict("this memory has expired; restore it first, or give it ttl_days", "id")


def apply_patch(
    memory: Memory,
    patch: Any,
    given: set[str],
    actor: Actor,
    now: datetime,
    *,
    reason: str,
    equal_to: Collection[int] = (),
    **detail: Any,
) -> list[journal.Change]:
    """Set fields, write list rows and a revision. The caller saves the memory and journals the returned
    changes.

    ``equal_to``: primary keys of memories that this one may become equal to, because they go to the trash or
    move.
    """
    level, copies = memory.sensitivity, []
    changed = _change_scalars(memory, patch, given, actor, now)
    if changed.keys() & _IDENTITY_FIELDS:
        memory.content_hash = rows.hash_content(memory.content)
        _update_copy_number(memory, actor, moved=bool(changed.keys() & _PLACE_FIELDS), ignored=equal_to)
    if "content" in changed:
        clear_after_edit(memory)
    others: list[journal.Change] = []
    if "superseded_by" in given:
        replaced, others = change_replacement(memory, patch.superseded_by, actor, now)
        changed |= replaced
    changed |= _change_lists(memory, patch, [name for name in rows.LIST_FIELDS if name in given])
    if not changed:
        return []
    if "sensitivity" in changed and reason != "merge":
        copies = raise_merged(memory, level, actor, now)
    number = add_revision(memory, changed, level, actor, now, reason)
    if changed.keys() & {"session_id", "project"}:
        rows.extend_sessions([memory], actor)
    pin = {"pinned": memory.pinned} if "pinned" in changed else {}
    change = {"fields": sorted(changed), "revision": number, "reason": reason, **pin, **detail}
    return [*others, journal.memory_change("update", memory, **change), *copies]


def _change_scalars(
    memory: Memory, patch: Any, given: set[str], actor: Actor, now: datetime
) -> dict[str, Any]:
    """Set the given fields and return the old values of those that changed."""
    before = {name: getattr(memory, name) for name in rows.SCALAR_FIELDS}
    old_expiry = memory.expires_at
    _set_scalars(memory, patch, given, actor, now)
    changed = {name: old for name, old in before.items() if getattr(memory, name) != old}
    if changed.keys() & {"importance", "pinned"}:
        memory.consolidated_at = now  # importance that a caller sets, or unpins, decays from now on
    # Setting the same number of days starts them again; pinning and unpinning set the expiry too.
    if memory.expires_at != old_expiry and "pinned" not in changed:
        changed.setdefault("ttl_days", before["ttl_days"])
    return changed


def _change_lists(memory: Memory, patch: Any, names: Iterable[str]) -> dict[str, Any]:
    """Replace these lists and return the old values of those that changed."""
    before = {name: rows.list_values(memory, name) for name in names}
    changed = {name: old for name, old in before.items() if rows.to_list_values(getattr(patch, name)) != old}
    for name in changed:
        _replace_list_rows(memory, name, patch)
    return changed


def _replace_list_rows(memory: Memory, name: str, draft: Any) -> None:
    """Replace the join rows of one list-valued field."""
    if name == "entities":
        memory.entities.all().delete()
    elif name in rows.LABEL_KINDS:
        memory.labels.filter(kind=rows.LABEL_KINDS[name]).delete()
    else:
        memory.files.filter(access=name.removeprefix("files_")).delete()
    rows.save_lists([(memory, draft)], [name])
    if name == "aliases":
        rows.update_alias_text(memory, draft.aliases)
    memory._prefetched_objects_cache = {}  # type: ignore[attr-defined]
    memory.loaded_lists = None


def _set_scalars(memory: Memory, patch: Any, given: set[str], actor: Actor, now: datetime) -> None:
    old_content, old_scope, was_pinned = memory.content, memory.scope, memory.pinned
    for name in given & set(rows.SCALAR_FIELDS):
        value = getattr(patch, name)
        setattr(memory, name, str(value) if name in ("type", "sensitivity", "scope") else value)
    if "project" in given:
        memory.project = rows.resolve_project(memory.project, actor)
    if memory.scope != old_scope:
        memory.owner = rows.resolve_owner(memory.scope, actor)
    memory.ttl_days = memory.ttl_days or None
    if "ttl_days" in given or memory.pinned != was_pinned:
        rows.restart_expiry(memory, now)
    # A title and an abstract that were made from the content follow it; written ones stay.
    if not memory.title or (memory.title == make_title(old_content) and "title" not in given):
        memory.title = make_title(memory.content)
    if not memory.abstract or (
        memory.abstract == rows.make_abstract(old_content) and "abstract" not in given
    ):
        memory.abstract = rows.make_abstract(memory.content)


def _update_copy_number(memory: Memory, actor: Actor, *, moved: bool, ignored: Collection[int]) -> None:
    """Give the memory a free copy number, or raise :class:`Conflict` if the actor may know of a twin.

    Two memories can have the same key if the writer of one could not know of the other. Callers who see both
    may change either, as long as the contents differ.
    """
    twins = find_twins(memory)
    conflicting = twins if moved else twins.filter(content_hash=memory.content_hash)
    known = conflicting.filter(memory_filter(actor.clearance)).exclude(pk__in=ignored).first()
    if known is not None:
        field = "content" if known.content_hash == memory.content_hash else "key"
        fix = "restore or erase the one in the trash" if known.deleted_at else "change or delete that one"
        raise Conflict(f"memory {known.uid} has this {field} already; {fix}", field)
    memory.copy = next_copy_number(twins)


FACT_IDENTITY = ("subject", "predicate", "object", "project", "sensitivity")


def find_equal(row: Memory | Fact) -> QuerySet[Any]:
    """Return the rows from which only its copy number distinguishes a memory or a fact."""
    if isinstance(row, Memory):
        return find_twins(row)
    same = {name: getattr(row, name) for name in FACT_IDENTITY}
    return Fact.objects.filter(**same).exclude(pk=row.pk)


def find_twins(memory: Memory) -> MemoryQuerySet:
    """Return the other memories with the same content or key in the same project, scope, owner and level."""
    place = Q(project=memory.project, scope=memory.scope, owner=memory.owner, sensitivity=memory.sensitivity)
    same = Q(content_hash=memory.content_hash)
    if memory.key:
        same |= Q(key=memory.key)
    return Memory.objects.filter(place & same, key=memory.key).exclude(pk=memory.pk)


def next_copy_number(twins: QuerySet[Any]) -> int:
    """Return a copy number that no twin has."""
    last: int | None = twins.aggregate(last=Max("copy"))["last"]
    return 0 if last is None else last + 1


def raise_merged(memory: Memory, was: str, actor: Actor, now: datetime) -> list[journal.Change]:
    """Raise the memories that were merged into this one, directly or not, if its level was raised.

    They have much of its text, so this includes those that the actor cannot see. ``was``: its earlier level.
    Return the changes.
    """
    wider = LEVELS[: level_rank(memory.sensitivity)]
    if was not in wider:
        return []
    raised = [one for one in _merged_into(memory) if one.sensitivity in wider]
    last = Revision.objects.filter(memory__in=raised).values_list("memory").annotate(Max("number"))
    numbers = dict(last.order_by())
    revisions, changes = [], []
    for one, copy in zip(raised, _free_copies(raised, memory.copy), strict=True):
        old, one.sensitivity, one.copy = one.sensitivity, memory.sensitivity, copy
        number = numbers.get(one.pk, 0) + 1
        before = {"sensitivity": old}
        revisions.append(rows.build_revision(one, number, before, old, actor, now, RAISED_REASON))
        detail = {"fields": ["sensitivity"], "revision": number, "reason": RAISED_REASON}
        changes.append(journal.memory_change("update", one, **detail))
    Memory.objects.bulk_update(raised, ["sensitivity", "copy"], batch_size=CHUNK_SIZE)
    Revision.objects.bulk_create(revisions, batch_size=CHUNK_SIZE)
    return changes


def _free_copies(raised: Sequence[Memory], above: int) -> Iterator[int]:
    """Yield a copy number for each memory that no other one with its content or key has."""
    same = Q(content_hash__in=[one.content_hash for one in raised])
    same |= Q(key__in=[one.key for one in raised if one.key])
    last: dict[str, int] = {}
    for *names, copy in Memory.objects.filter(same).values_list("content_hash", "key", "copy"):
        last |= {name: max(copy, last.get(name, above)) for name in names if name}
    for one in raised:
        names = [name for name in (one.content_hash, one.key) if name]
        copy = 1 + max(last.get(name, above) for name in names)
        last |= dict.fromkeys(names, copy)
        yield copy


def _merged_into(memory: Memory) -> list[Memory]:
    """Return the memories in the trash that were merged into this one, and those merged into them."""
    found: dict[int, Memory] = {}
    keys = [memory.pk]
    while keys:
        merged = Memory.objects.filter(merged_into__in=keys).exclude(pk__in=[memory.pk, *found])
        keys = [one.pk for one in merged]
        found |= {one.pk: one for one in merged}
    return list(found.values())


def repair_sensitivity(uids: Iterable[str], level: Sensitivity, actor: Actor) -> list[Memory]:
    """Give memories with an unknown sensitivity level a known one. Ignore memories with a known level.

    The repair is never refused: a memory that becomes equal to another one is stored as a copy, which a
    reader can delete. ``updated_at`` does not change.
    """
    now = timezone.now()
    with write_transaction():
        unknown = Memory.objects.of_unknown_level(actor.clearance)
        memories = rows.fetch_by_uids(unknown, uids)
        changes = []
        for memory in memories:
            was, memory.sensitivity = memory.sensitivity, level.value
            memory.copy = next_copy_number(find_twins(memory))
            memory.save(update_fields=["sensitivity", "copy"])
            changes.append(journal.memory_change("repair_level", memory, was=was))
        journal.record(actor, changes, now)
    return memories


def renew_expiry(uids: Iterable[str], least: float) -> dict[str, datetime]:
    """Restart the days to live of live memories with at least this importance. Return the new expiry by id.

    The caller has checked that the memories are visible. Memories that never expire, or would expire sooner,
    stay as they are. Not journaled; ``updated_at`` does not change.
    """
    now = timezone.now()
    live = Memory.objects.live(now).filter(uid__in=list(uids), importance__gte=least)
    renewed: dict[str, datetime] = {}
    by_end: dict[datetime, list[int]] = defaultdict(list)
    for memory in live.filter(expires_at__isnull=False).only("pk", "uid", "ttl_days", "expires_at"):
        end = compute_expiry(memory.ttl_days, now.replace(microsecond=0))
        if end and memory.expires_at and end > memory.expires_at:
            by_end[end].append(memory.pk)
            renewed[memory.uid] = end
    if renewed:
        ends = Case(*(When(pk__in=keys, then=Value(end)) for end, keys in by_end.items()))
        # Skips memories that ended in the meantime or got a later expiry.
        current = live.filter(uid__in=list(renewed), expires_at__lt=ends)
        if not side_write("expiry was not renewed", lambda: current.update(expires_at=ends)):
            return {}
    return renewed


PROMPT_INJECTION_FLAG = "governor"


def flag_memories(
    found: Mapping[str, Iterable[str]], actor: Actor, now: datetime | None = None
) -> list[Memory]:
    """Add flags to memories, given by id. Return the memories that did not have all of them.

    Memories in the trash are skipped, and so are memories that a person approved and that have not changed
    since. ``updated_at`` does not change. One journal row for each memory.
    """
    changes, flagged = [], []
    with write_transaction():
        candidates = Memory.objects.visible_to(actor.clearance).filter(
            unapproved_filter(), deleted_at__isnull=True
        )
        for memory in fetch_by_uids(candidates, list(found)):
            flags = memory.flags if isinstance(memory.flags, list) else []
            new = sorted(set(found[memory.uid]) - set(flags))
            if new:
                memory.flags = [*flags, *new]
                memory.save(update_fields=["flags"])
                flagged.append(memory)
                changes.append(journal.memory_change("flag", memory, flags=new))
        journal.record(actor, changes, now or timezone.now())
    return flagged
