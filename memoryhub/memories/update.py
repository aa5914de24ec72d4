"""Change stored memories: updates with revisions, access counts, expiry renewal and flags for reviewers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import Case, F, Max, Q, Value, When
from django.db.models.lookups import Exact
from django.utils import timezone

from memoryhub.access.filters import memory_filter
from memoryhub.access.policy import Actor, Sensitivity
from memoryhub.audit import journal
from memoryhub.core.text import make_title
from memoryhub.core.transactions import write_transaction
from memoryhub.memories import rows
from memoryhub.memories import vectors as memories_vectors
from memoryhub.memories.delete import evict_over_cap
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.rows import compute_expiry, fetch_by_uids
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.memories.secret_check import MEMORY_FIELDS, find_refusal, journal_refusals
from memoryhub.models import Memory, Revision
from memoryhub.models.querysets import MemoryQuerySet, unapproved_filter

# A change of one of these may make a memory the same as another.
_PLACE_FIELDS = {"project", "scope", "sensitivity", "key"}
_IDENTITY_FIELDS = {"content", *_PLACE_FIELDS}


def get_memory(uid: str, actor: Actor) -> Memory:
    """The memory, if the actor may see it; expired and trashed ones too. Call it inside the transaction."""
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
    """Set the given fields; what they were goes into a revision, with the ``reason`` in a word.

    ``unchanged_since``: the ``updated_at`` that the editor started from; a later change by someone else is a
    :class:`Conflict` instead of being overwritten unseen. ``checked``: the caller, who is inside a
    transaction, has checked the patch for secrets before.
    """
    now = now or timezone.now()
    vectors = memories_vectors.PreparedVectors(
        [memories_vectors.embedding_text(patch)] if "content" in patch.given else ()
    )
    if not checked:
        _refuse_secrets(uid, patch, actor)
    with write_transaction():
        memory = get_memory(uid, actor)
        refuse_if_ended(memory, patch, now)
        if unchanged_since and memory.updated_at != unchanged_since:
            raise Conflict("someone changed this memory since you opened it; look at it again", "updated_at")
        changes = apply_patch(memory, patch, patch.given, actor, now, reason=reason)
        if changes:
            memory.updated_at = now
            memory.save()
            vectors.renew(memory)
            journal.record(actor, changes, now)
            if "project" in patch.given:
                evict_over_cap([memory], actor, now)
    return memory


def _refuse_secrets(uid: str, patch: MemoryPatch, actor: Actor) -> None:
    """Refuse secrets in a patch; NotFound comes first, so that nothing is noted about a hidden memory."""
    with journal_refusals(patch, actor, uid=uid):
        if refusal := find_refusal(patch, [name for name in MEMORY_FIELDS if name in patch.given]):
            get_memory(uid, actor)
            raise refusal


def refuse_if_trashed(memory: Memory) -> None:
    """:class:`Conflict` for what lies in the trash: it is as it was until it is restored."""
    if memory.deleted_at:
        raise Conflict("this memory is in the trash; restore it first", "id")


def refuse_if_ended(memory: Memory, patch: MemoryPatch, now: datetime) -> None:
    """:class:`Conflict` for what has ended, unless the change gives it time anew."""
    refuse_if_trashed(memory)
    if memory.expires_at and memory.expires_at <= now and "ttl_days" not in patch.given:
        raise Conflict("this memory has expired; restore it first, or give it ttl_days", "id")


def apply_patch(
    memory: Memory,
    patch: Any,
    given: set[str],
    actor: Actor,
    now: datetime,
    *,
    reason: str,
    beside: Collection[int] = (),
    **detail: Any,
) -> list[journal.Change]:
    """Set fields, write list rows and the revision; the caller saves and journals what comes back.

    ``beside``: keys of memories that it may come to equal, because they make room for it.
    """
    level = memory.sensitivity
    changed = _change_scalars(memory, patch, given, actor, now)
    if changed.keys() & _IDENTITY_FIELDS:
        memory.content_hash = rows.hash_content(memory.content)
        _update_copy_number(memory, actor, moved=bool(changed.keys() & _PLACE_FIELDS), spared=beside)
    changed |= _change_lists(memory, patch, [name for name in rows.LIST_FIELDS if name in given])
    if not changed:
        return []
    number = (memory.revisions.aggregate(last=Max("number"))["last"] or 0) + 1
    Revision.objects.create(
        memory=memory,
        number=number,
        at=now,
        actor=actor.name,
        reason=reason,
        sensitivity=level,
        before=changed,
    )
    if changed.keys() & {"session_id", "project"}:
        rows.extend_sessions([memory], actor)
    return [
        journal.memory_change(
            "update", memory, fields=sorted(changed), revision=number, reason=reason, **detail
        )
    ]


def _change_scalars(
    memory: Memory, patch: Any, given: set[str], actor: Actor, now: datetime
) -> dict[str, Any]:
    """Set them; returns what those that changed were."""
    before = {name: getattr(memory, name) for name in rows.SCALAR_FIELDS}
    old_expiry = memory.expires_at
    _set_scalars(memory, patch, given, actor, now)
    changed = {name: old for name, old in before.items() if getattr(memory, name) != old}
    if "importance" in changed:
        memory.consolidated_at = now  # what somebody says holds from then on
    if memory.expires_at != old_expiry:  # the same number of days again is a new lease
        changed.setdefault("ttl_days", before["ttl_days"])
    return changed


def _change_lists(memory: Memory, patch: Any, names: Iterable[str]) -> dict[str, Any]:
    """Replace these lists; returns what those that changed were."""
    before = {name: rows.list_values(memory, name) for name in names}
    changed = {name: old for name, old in before.items() if _to_list_values(getattr(patch, name)) != old}
    for name in changed:
        rows.replace_list_rows(memory, name, patch)
    return changed


def _set_scalars(memory: Memory, patch: Any, given: set[str], actor: Actor, now: datetime) -> None:
    old_content, old_scope = memory.content, memory.scope
    for name in given & set(rows.SCALAR_FIELDS):
        value = getattr(patch, name)
        setattr(memory, name, str(value) if name in ("type", "sensitivity", "scope") else value)
    if "project" in given:
        memory.project = rows.resolve_project(memory.project, actor)
    if memory.scope != old_scope:
        memory.owner = rows.resolve_owner(memory.scope, actor)
    if "ttl_days" in given:
        memory.ttl_days = memory.ttl_days or None
        memory.expires_at = rows.compute_expiry(memory.ttl_days, now)
    # What was made from the content follows it; what someone wrote stays.
    if not memory.title or (memory.title == make_title(old_content) and "title" not in given):
        memory.title = make_title(memory.content)
    if not memory.abstract or (
        memory.abstract == rows.make_abstract(old_content) and "abstract" not in given
    ):
        memory.abstract = rows.make_abstract(memory.content)


def _update_copy_number(memory: Memory, actor: Actor, *, moved: bool, spared: Collection[int] = ()) -> None:
    """Keep the memory distinct from those it has come to equal: a conflict if the actor may know of one.

    Two memories of one key can stand side by side when the writer of one might not know of the other; who
    sees both may go on changing either, as long as they do not come to say the same.
    """
    beside = find_twins(memory)
    clashing = beside if moved else beside.filter(content_hash=memory.content_hash)
    known = clashing.filter(memory_filter(actor.clearance)).exclude(pk__in=spared).first()
    if known is not None:
        field = "content" if known.content_hash == memory.content_hash else "key"
        mend = "restore or erase the one in the trash" if known.deleted_at else "change or delete that one"
        raise Conflict(f"memory {known.uid} has this {field} already; {mend}", field)
    memory.copy = next_copy_number(beside)


def find_twins(memory: Memory) -> MemoryQuerySet:
    """Other memories in the same place with the same words or the same key."""
    place = Q(project=memory.project, scope=memory.scope, owner=memory.owner, sensitivity=memory.sensitivity)
    same = Q(content_hash=memory.content_hash)
    if memory.key:
        same |= Q(key=memory.key)
    found: MemoryQuerySet = Memory.objects.filter(place & same, key=memory.key).exclude(pk=memory.pk)
    return found


def next_copy_number(beside: MemoryQuerySet) -> int:
    last: int | None = beside.aggregate(last=Max("copy"))["last"]
    return 0 if last is None else last + 1


def repair_sensitivity(
    uids: Iterable[str], level: Sensitivity, actor: Actor, now: datetime | None = None
) -> list[Memory]:
    """Give memories of an unknown level a known one; all that can be done with them.

    Memories of a known level are left out of the result. One that comes to equal another becomes a copy
    beside it, which its reader can then delete: a repair is never refused. ``updated_at`` stays.
    """
    now = now or timezone.now()
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


def _to_list_values(values: Iterable[Any]) -> list[Any]:
    """A draft's list in the order and shape that :func:`rows.listed` gives."""
    plain = [v.model_dump() if hasattr(v, "model_dump") else v for v in values]
    return sorted(plain, key=lambda value: tuple(value.values()) if isinstance(value, dict) else value)


def count_access(memory: Memory, now: datetime | None = None) -> None:
    """Count one access. Not journaled, and ``updated_at`` stays: reading is not writing."""
    count_accesses([memory], now)


def count_accesses(
    memories: Collection[Memory],
    now: datetime | None = None,
    *,
    promotions: Mapping[int, str] | None = None,
    every: int = 1,
) -> None:
    """Count one access of each, in one statement. Not journaled, and ``updated_at`` stays.

    ``promotions``: the scale that a memory, by its primary key, rises to if this is the last of ``every``
    accesses.
    """
    now = now or timezone.now()
    by_scale: dict[str, list[int]] = {}
    for pk, scale in (promotions or {}).items():
        by_scale.setdefault(scale, []).append(pk)
    due = Exact((F("accessed_count") + 1) % every, 0)
    cases = [When(Q(pk__in=pks) & Q(due), then=Value(scale)) for scale, pks in by_scale.items()]
    scales = {"scale": Case(*cases, default=F("scale"))} if cases else {}
    Memory.objects.filter(pk__in=[memory.pk for memory in memories]).update(
        accessed_count=F("accessed_count") + 1, last_accessed_at=now, **scales
    )
    for memory in memories:
        memory.accessed_count += 1
        memory.last_accessed_at = now


def renew_expiry(uids: Iterable[str], least: float, now: datetime | None = None) -> dict[str, datetime]:
    """Let the time of live memories of this importance or more begin anew; returns when each expires now.

    For memories that the caller has found behind the gate. Those that never expire, or would expire sooner,
    are left alone. Not journaled, and ``updated_at`` stays: reading is not writing.
    """
    now = now or timezone.now()
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
        with write_transaction():
            # Not what ended meanwhile, or was given a later time.
            live.filter(uid__in=list(renewed), expires_at__lt=ends).update(expires_at=ends)
    return renewed


PROMPT_INJECTION_FLAG = "governor"


def flag_memories(
    found: Mapping[str, Iterable[str]], actor: Actor, now: datetime | None = None
) -> list[Memory]:
    """Raise flags on memories, given by their ids; returns those that did not have them all.

    Not on what lies in the trash, and not on what somebody has approved of and that says the same since: a
    person's word stands. ``updated_at`` stays as it is. One journal row each.
    """
    if not found:
        return []
    changes, flagged = [], []
    with write_transaction():
        reachable = Memory.objects.visible_to(actor.clearance).filter(
            unapproved_filter(), deleted_at__isnull=True
        )
        for memory in fetch_by_uids(reachable, list(found)):
            raised = memory.flags if isinstance(memory.flags, list) else []
            more = sorted(set(found[memory.uid]) - set(raised))
            if more:
                memory.flags = [*raised, *more]
                memory.save(update_fields=["flags"])
                flagged.append(memory)
                changes.append(journal.memory_change("flag", memory, flags=more))
        journal.record(actor, changes, now or timezone.now())
    return flagged
