"""Move memories to the trash and back, erase them, purge expired ones, evict those over the cap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Case, Count, F, Q, QuerySet, Value, When
from django.utils import timezone

from memoryhub.access.filters import memory_filter
from memoryhub.access.policy import AGENT_PREFIX, LEVELS, Actor, level_rank, stricter_level
from memoryhub.audit import clock, journal
from memoryhub.backends import schema, vector_index
from memoryhub.core.database import batched, write_transaction
from memoryhub.core.dates import is_in_doubt
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories.replacements import move_replacements, return_skipped, skip_removed
from memoryhub.memories.rows import CHUNK_SIZE, fetch_by_uids, is_unchanged, restart_expiry
from memoryhub.models import AgentToken, Event, Fact, Memory, Project
from memoryhub.models.querysets import MemoryQuerySet

TRASH_FIELDS = ("deleted_at", "trash_reason", "merged_into")
_DELETE_CHUNK = 50  # memories deleted in one transaction: 1 to 2 ms each with their index rows


def trash_memories(
    uids: Iterable[str],
    actor: Actor,
    reason: TrashReason = TrashReason.FORGOTTEN,
    now: datetime | None = None,
    *,
    into: Memory | None = None,
    why: str = "",
) -> list[Memory]:
    """Move memories to the trash. Return those that were moved.

    ``into``: the memory that they are merged into, which stays. ``why``: the reason for the journal, which
    the caller has checked for secrets.
    """
    now = now or timezone.now()
    with write_transaction():
        found = fetch_by_uids(_visible_memories(actor).filter(deleted_at__isnull=True), uids)
        memories = [memory for memory in found if memory != into]
        move_to_trash(memories, actor, reason, now, into, why=why)
    return memories


def restore_memories(uids: Iterable[str], actor: Actor, now: datetime | None = None) -> list[Memory]:
    """Take memories out of the trash and revive expired ones, whose days to live start again.

    An evicted memory counts as used now: otherwise the next maintenance would evict it again.
    """
    now = now or timezone.now()
    with write_transaction():
        memories = fetch_by_uids(_visible_memories(actor).ended(now), uids)
        changes = [journal.memory_change("restore", memory) for memory in memories]
        for memory in memories:
            changes += revive_memory(memory, actor, now)
        journal.record(actor, changes, now)
    return memories


def revive_memory(memory: Memory, actor: Actor, now: datetime) -> list[journal.Change]:
    """Restore one memory that was read in the current transaction. The caller journals it.

    Return the changes of the memories that it replaces again.
    """
    changes = return_skipped(memory, actor, now)
    if memory.is_expired(now):
        restart_expiry(memory, now)
    if memory.trash_reason == TrashReason.EVICTED.value:
        memory.last_accessed_at = now
    memory.deleted_at, memory.trash_reason, memory.merged_into = None, "", None
    memory.save(update_fields=[*TRASH_FIELDS, "expires_at", "last_accessed_at"])
    return changes


def erase_memories(
    uids: Iterable[str], actor: Actor, *, why: str = "", seen: Mapping[str, datetime] | None = None
) -> list[str]:
    """Erase memories and return their ids. Only a hash in the journal is left of them.

    Deletes the row, revisions, labels, files, entities, the vector, facts from this memory, previews of
    events, the words in the indexes, and the bytes in the database file and its log. Takes seconds in a large
    store. ``why``: the reason for the journal, which must not repeat the text. ``seen``: ``updated_at`` of
    memories as the person read them; memories that were changed since are not erased.
    """
    with write_transaction():
        memories = [
            one for one in fetch_by_uids(_visible_memories(actor), uids) if is_unchanged(one, seen or {})
        ]
        if memories:
            schema.begin_erase()
        for chunk in batched(memories, CHUNK_SIZE):
            _delete_chunk(chunk, actor, "erase", timezone.now(), why=why)
    if memories:
        schema.scrub_erased()
    return [memory.uid for memory in memories]


def purge_expired(actor: Actor, grace_days: float = 0, now: datetime | None = None) -> int:
    """Delete memories that expired ``grace_days`` ago or earlier. Return how many."""
    now = now or timezone.now()
    return _purge_in_chunks(purgeable_memories(actor, grace_days, now), actor, now)


def purgeable_memories(actor: Actor, grace_days: float, now: datetime) -> MemoryQuerySet:
    """Return the memories that :func:`purge_expired` would delete. The grace period counts days of uptime."""
    return _visible_memories(actor).unpinned().expired(clock.removal_limit(grace_days, now))


def delete_waiting(actor: Actor, grace_days: float, now: datetime) -> int:
    """Delete memories that were discarded, or expired before approval, ``grace_days`` ago or earlier."""
    limit = clock.removal_limit(grace_days, now)
    ended = Q(deleted_at__lte=limit) | Q(expires_at__lte=limit)
    return _purge_in_chunks(Memory.objects.waiting(actor.clearance).filter(ended), actor, now)


def evict_memories(
    where: Q, count: int, actor: Actor, now: datetime, spare: Iterable[Memory] = ()
) -> list[Memory]:
    """Move the ``count`` least used of these unpinned memories that the actor may delete to the trash.

    The order is fewest accesses, oldest change, lowest importance. Memories in ``spare`` go last.
    """
    if not actor.may_delete or is_in_doubt():
        return []
    spared = [Case(When(pk__in=[memory.pk for memory in spare], then=1), default=0)] if spare else []
    with write_transaction():
        live = _visible_memories(actor).filter(where).live(now).unpinned()
        memories = list(live.order_by(*spared, "accessed_count", "updated_at", "importance", "pk")[:count])
        move_to_trash(memories, actor, TrashReason.EVICTED, now)
    return memories


def evict_over_cap(
    newcomers: Iterable[Memory], actor: Actor, now: datetime, caps: Caps | None = None
) -> None:
    """Enforce the caps in the quotas that these memories were just added to. ``caps``: as loaded before.

    A write evicts no more memories than it adds, so lowering the cap or importing beyond it does not empty a
    project at the next write. The newcomers go last: they were never accessed, so the order alone would
    choose them first. Newcomers in a quota that stays above the cap get ``over_cap``.
    """
    added: dict[Quota, list[Memory]] = defaultdict(list)
    for memory in newcomers:
        added[quota_of(memory)].append(memory)
    caps = load_caps({quota.project for quota in added}) if caps is None else caps
    for quota, memories in added.items():
        if not (cap := caps[quota.project]):
            continue
        over = _count_over_cap(quota, memories, actor, now, cap)
        if over > 0:
            most = min(over, len(memories)) if has_one_owner(quota) else 0
            evicted = evict_memories(in_quota(quota), most, actor, now, memories)
            for memory in memories:
                memory.over_cap = over > len(evicted)


def _count_over_cap(quota: Quota, newcomers: Sequence[Memory], actor: Actor, now: datetime, cap: int) -> int:
    """Return by how many memories a quota is above the cap, but no more than one above the newcomers' number.

    Only the newcomers and what the actor may see are counted: other hidden memories must not have an effect.
    """
    known = memory_filter(actor.clearance) | Q(pk__in=[memory.pk for memory in newcomers])
    counted = Memory.objects.live(now).filter(in_quota(quota), known).order_by()
    return int(counted[: cap + len(newcomers) + 1].count()) - cap


def _visible_memories(actor: Actor) -> MemoryQuerySet:
    return Memory.objects.visible_to(actor.clearance)


# The operation in the journal; for other reasons, it is the reason.
_OPERATIONS = {
    TrashReason.FORGOTTEN: "delete",
    TrashReason.UNDONE: "delete",
    TrashReason.EVICTED: "evict",
}


def move_to_trash(
    memories: list[Memory],
    actor: Actor,
    reason: TrashReason,
    now: datetime,
    into: Memory | None = None,
    *,
    why: str = "",
) -> None:
    """Move memories that were read in the current transaction to the trash, with a journal row each.

    The memory that they are merged ``into`` replaces what they replaced, or else the next of their chain.
    """
    ending = dict(zip(TRASH_FIELDS, (now, reason.value, into), strict=True))
    for chunk in batched(memories, CHUNK_SIZE):
        Memory.objects.filter(pk__in=[memory.pk for memory in chunk]).update(**ending)
    for memory in memories:
        memory.deleted_at, memory.trash_reason, memory.merged_into = now, reason.value, into
    detail = {"reason": why} if why else {}
    operation = _OPERATIONS.get(reason, reason.value)
    rows = [
        journal.memory_change(operation, memory, **_merge_detail(memory, into), **detail)
        for memory in memories
    ]
    if into is None:
        rows += skip_removed(memories, actor, now)
    else:
        rows += move_replacements(into, [memory.pk for memory in memories], actor, now)
    journal.record(actor, rows, now)


def _merge_detail(memory: Memory, into: Memory | None) -> dict[str, str]:
    """Return the id of the merged memory for the journal, if everyone who sees the one may see both."""
    if into is None or stricter_level(memory.sensitivity, into.sensitivity) != memory.sensitivity:
        return {}
    is_visible = into.project == memory.project and into.owner in ("", memory.owner)
    return {"merged_into": into.uid} if is_visible else {}


def delete_memories(memories: MemoryQuerySet, actor: Actor, operation: str, now: datetime) -> list[Memory]:
    """Delete memories in one transaction, with a journal row each. One step of a longer removal."""
    with write_transaction():
        found = list(memories)
        _delete_chunk(found, actor, operation, now)
        transaction.on_commit(vector_index.overwrite_deleted, robust=True)
    return found


def _purge_in_chunks(memories: MemoryQuerySet, actor: Actor, now: datetime) -> int:
    """Delete memories in short transactions, so that agents do not wait for long."""
    keys = memories.order_by("pk").values_list("pk", flat=True)
    return sum(
        len(delete_memories(memories.filter(pk__in=some), actor, "purge", now))
        for some in batched(keys, _DELETE_CHUNK)
    )


def _delete_chunk(
    memories: list[Memory], actor: Actor, operation: str, now: datetime, *, why: str = ""
) -> None:
    ids = [memory.pk for memory in memories]
    facts = list(Fact.objects.filter(memory__in=ids).select_related("memory"))
    changes = [journal.fact_change(operation, fact) for fact in facts]
    detail = {"reason": why} if why else {}
    changes += [journal.memory_change(operation, memory, **detail) for memory in memories]
    # Others were skipped when they moved to the trash.
    changes += skip_removed([memory for memory in memories if not memory.deleted_at], actor, now)
    _clear_event_texts(memories)
    Fact.objects.filter(pk__in=[fact.pk for fact in facts]).delete()
    Memory.objects.filter(pk__in=ids).delete()
    journal.record(actor, changes, now)


def _clear_event_texts(memories: list[Memory]) -> None:
    """Clear the texts of the memories' events, and raise the events to the level of their memory."""
    for level in {memory.sensitivity for memory in memories}:
        ids = [memory.pk for memory in memories if memory.sensitivity == level]
        wider = LEVELS[: level_rank(level)] if level in LEVELS else LEVELS
        stricter = Case(When(sensitivity__in=wider, then=Value(level)), default=F("sensitivity"))
        Event.objects.filter(memory__in=ids).update(
            preview="", keywords=[], files=[], handlers=[], sensitivity=stricter
        )


class Quota(NamedTuple):
    """What a cap limits: the live memories of one project and owner.

    Shared memories have no owner. There the author counts: the agent or person that stored the memory.
    """

    project: str
    owner: str
    author: str


class Caps(dict[str, int]):
    """The cap of each project by its name, 0 for none. Projects without their own have the configured one."""

    def __missing__(self, project: str) -> int:
        return settings.MEMORYHUB.max_memories

    def excess(self, project: str, count: int) -> int:
        """Return by how many this number of memories of one owner is above the cap of a project."""
        cap = self[project]
        return max(count - cap, 0) if cap else 0

    @property
    def is_any(self) -> bool:
        """Whether some project has a cap."""
        return bool(settings.MEMORYHUB.max_memories or any(self.values()))


def projects_with_cap() -> QuerySet[Project]:
    """Return the projects that have their own cap."""
    return Project.objects.exclude(max_memories=None)


def load_caps(projects: Collection[str] | None = None) -> Caps:
    """Return the caps of these projects, or of all. A store reads them in its first statement instead."""
    own = projects_with_cap()
    chosen = own if projects is None else own.filter(name__in=projects)
    return Caps({name: cap or 0 for name, cap in chosen.values_list("name", "max_memories")})


# The author of a shared memory, else empty: the last part of a quota.
AUTHOR = Case(When(owner="", then=F("author")), default=Value(""))


def quota_of(memory: Memory) -> Quota:
    return Quota(memory.project, memory.owner, "" if memory.owner else memory.author)


def in_quota(quota: Quota) -> Q:
    """Return the condition on memories that count towards this quota."""
    found = Q(project=quota.project, owner=quota.owner)
    return found if quota.owner else found & Q(author=quota.author)


def has_one_owner(quota: Quota) -> bool:
    """Whether all memories in the quota are of one person.

    Shared memories have only the name of their agent, and agents of several people may have or have had the
    same name. Those that never did anything do not count.
    """
    name = quota.author.removeprefix(AGENT_PREFIX)
    if name == quota.author:
        return True
    used = AgentToken.objects.ever_named(name).exclude(last_used_at=None)
    owners = used.order_by().values("owner").distinct()
    return owners[:2].count() < 2


def count_by_quota(memories: MemoryQuerySet) -> dict[Quota, int]:
    """Return the number of these memories in each quota."""
    rows = memories.order_by().values_list("project", "owner", AUTHOR).annotate(n=Count("pk"))
    return {Quota(*quota): n for *quota, n in rows}


def fullest_quotas(counts: Mapping[Quota, int]) -> dict[str, int]:
    """Return for each project the number of memories in its fullest quota, the largest first."""
    most: dict[str, int] = {}
    for quota, n in counts.items():
        most[quota.project] = max(n, most.get(quota.project, 0))
    return dict(sorted(most.items(), key=lambda item: (-item[1], item[0])))
