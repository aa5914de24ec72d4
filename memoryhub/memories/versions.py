"""Earlier versions of a memory, its visible revisions and journal rows, and undo of the last change.

A snapshot contains the memories of a moment (``as_of``): unchanged rows, and earlier versions of others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db.models import Max
from pydantic import ValidationError

from memoryhub.access.policy import Actor, Clearance, stricter_level
from memoryhub.backends.statements import key_list
from memoryhub.core.vocabulary import Scope
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.rows import (
    LIST_FIELDS,
    SCALAR_FIELDS,
    attach_lists,
    field_value,
    hash_content,
    join_aliases,
    visible_replacements,
)
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.memories.update import get_memory, update_memory
from memoryhub.models import JournalEntry, Memory, Revision
from memoryhub.models.journal import JournalQuerySet
from memoryhub.models.querysets import MemoryQuerySet

VERSIONED_FIELDS = (*SCALAR_FIELDS, "superseded_by", *LIST_FIELDS)
UNDO_REASON = "undo"  # of the revision that an undo makes
# Restored with the content: otherwise a new title and abstract would be made from it.
_GENERATED_FIELDS = ("title", "abstract")


@dataclass(frozen=True)
class HiddenValue:
    """Replaces a value that may not be seen. ``number``: the change that replaced the value."""

    number: int


@dataclass(frozen=True)
class Version:
    """All fields of a memory in one version. A value that may not be seen is a :class:`HiddenValue`.

    Version *n* is the memory before its change *n*, version 0 the current one. ``levels``: the level under
    which each value is stored. ``until`` and ``replaced_by``: when and by whom the version was replaced.
    """

    number: int
    values: dict[str, Any]
    levels: dict[str, str]
    until: datetime | None = None
    replaced_by: str = ""

    @property
    def hidden(self) -> list[str]:
        """The names of fields whose value may not be seen."""
        return sorted(name for name, value in self.values.items() if isinstance(value, HiddenValue))


def walk_revisions(memory: Memory, clearance: Clearance) -> Iterator[tuple[Revision, bool]]:
    """Yield the revisions, newest first, and whether this clearance may see them. One lazy query.

    A version is visible to callers with access to its own level, project and scope. Sharing a personal memory
    or moving it to an open project does not reveal its earlier versions. A replacement that this clearance
    may not see is null in ``before``.
    """

    def is_visible(uid: str) -> bool:
        return bool(Memory.objects.visible_to(clearance).filter(uid=uid).exists())

    revisions = memory.revisions.order_by("-number").iterator(chunk_size=20)
    return _check_revisions(memory, revisions, clearance, is_visible)


def _check_revisions(
    memory: Memory, revisions: Iterable[Revision], clearance: Clearance, is_visible: Callable[[str], bool]
) -> Iterator[tuple[Revision, bool]]:
    """Yield each revision, newest first and none left out, and whether this clearance may see it.

    ``is_visible``: whether it may see the memory with an id, for replacements.
    """
    scope, project, same_owner = memory.scope, memory.project, True
    for row in revisions:
        # Each row has the values from before its change. Revisions do not store the owner, who can have been
        # another person before a change of the scope.
        if uid := row.before.get("superseded_by"):
            row.before |= {"superseded_by": uid if is_visible(uid) else None}
        same_owner = same_owner and "scope" not in row.before
        scope, project = row.before.get("scope", scope), row.before.get("project", project)
        open_to_all = scope != Scope.PERSONAL.value or same_owner
        yield row, clearance.allows(project, row.sensitivity) and open_to_all


def current_value(memory: Memory, name: str, clearance: Clearance) -> Any:
    """Return the current value of a field, in the shape of :func:`walk_revisions`."""
    if name == "superseded_by":
        return next(iter(visible_replacements([memory], clearance).values()), None)
    return field_value(memory, name)


def current_version(memory: Memory, clearance: Clearance) -> Version:
    """Return the memory as it is now."""
    values = {name: current_value(memory, name, clearance) for name in VERSIONED_FIELDS}
    return Version(0, values, dict.fromkeys(VERSIONED_FIELDS, memory.sensitivity))


def rewind(
    memory: Memory,
    current: dict[str, Any],
    revisions: Iterable[Revision],
    clearance: Clearance,
    visible_ids: Container[str],
) -> Version:
    """Return the memory before these revisions, its latest ones, newest first. ``current``: its values.

    ``visible_ids``: of the memories that replaced it before, those that this clearance may see.
    """
    version = Version(0, dict(current), dict.fromkeys(current, memory.sensitivity))
    for row, seen in _check_revisions(memory, revisions, clearance, visible_ids.__contains__):
        version = _before(version, row, seen=seen)
    return version


def _before(version: Version, row: Revision, *, seen: bool) -> Version:
    """Return the version that a revision replaced, given the one that followed."""
    kept = [name for name in row.before if name in version.values]
    values = {name: row.before[name] if seen else HiddenValue(row.number) for name in kept}
    levels = dict.fromkeys(kept, row.sensitivity)
    return Version(row.number, version.values | values, version.levels | levels, row.at, row.actor)


def load_versions(memory: Memory, numbers: Collection[int], clearance: Clearance) -> dict[int, Version]:
    """Return the visible versions with these numbers. Number 0 is the current version."""
    version = current_version(memory, clearance)
    found = {0: version} if 0 in numbers else {}
    wanted = {number for number in numbers if number > 0}
    for row, seen in walk_revisions(memory, clearance):
        if not wanted or row.number < min(wanted):
            break
        version = _before(version, row, seen=seen)
        if seen and row.number in wanted:
            found[row.number] = version
    return found


def restore_version(
    uid: str, number: int, actor: Actor, *, unchanged_since: datetime | None = None
) -> Memory:
    """Restore an earlier version of a memory. The current values become a revision.

    Restores all fields but access, expiry and pin: the level is never lowered, a personal memory stays
    personal, and the time of expiry does not change.

    ``unchanged_since``: the ``updated_at`` that the person saw. Raise :class:`NotFound` for a version that
    the actor may not see, and :class:`Conflict` if parts of it are hidden, if someone changed the memory
    since, or as for any update.
    """
    memory = get_memory(uid, actor)
    then = load_versions(memory, [number], actor.clearance).get(number) if number > 0 else None
    if then is None:
        raise NotFound("there is no such version", "version")
    if then.hidden:
        raise Conflict(
            f"of version {number} you cannot see: {', '.join(then.hidden)}; show its level in the"
            " Visibility menu, or ask someone with access to it",
            "version",
        )
    values = _changed_values(memory, then, actor.clearance)
    if not values:
        return memory
    seen = unchanged_since or memory.updated_at
    reason = f"restore of {number}"
    return update_memory(uid, _to_patch(values, number), actor, unchanged_since=seen, reason=reason)


def _changed_values(memory: Memory, then: Version, clearance: Clearance) -> dict[str, Any]:
    now = current_version(memory, clearance).values
    wanted = {name: value for name, value in then.values.items() if name not in ("ttl_days", "pinned")}
    wanted["sensitivity"] = stricter_level(wanted["sensitivity"], memory.sensitivity)
    if memory.scope == Scope.PERSONAL.value:
        wanted["scope"] = memory.scope
    changed = {name: value for name, value in wanted.items() if value != now[name]}
    return _with_generated_texts(changed, wanted)


def undo_last_change(uid: str, number: int, actor: Actor) -> Memory:
    """Undo the last change of a memory: restore exactly the fields that it replaced.

    Raise :class:`NotFound` if the actor may not see the replaced values, and :class:`Conflict` if the memory
    was changed since or the change set ``ttl_days``: revisions do not store the time of expiry.
    """
    memory = get_memory(uid, actor)
    last, seen = next(walk_revisions(memory, actor.clearance), (None, False))
    if last is None or number > last.number:
        raise NotFound("there is no such change", "version")
    if number < last.number or memory.updated_at != last.at:
        raise Conflict(
            "this memory was changed since; its history has every version to bring back", "version"
        )
    if not seen:
        raise NotFound("there is no such change", "version")
    if "ttl_days" in last.before:
        raise Conflict("a change of the expiry cannot be undone; edit the memory instead", "ttl_days")
    before = {name: value for name, value in last.before.items() if name in VERSIONED_FIELDS}
    held = {name: getattr(memory, name) for name in _GENERATED_FIELDS}
    patch = _to_patch(_with_generated_texts(before, held | before), number)
    return update_memory(uid, patch, actor, unchanged_since=memory.updated_at, reason=UNDO_REASON)


def _with_generated_texts(values: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    return values | {name: wanted[name] for name in _GENERATED_FIELDS} if "content" in values else values


def _to_patch(values: dict[str, Any], number: int) -> MemoryPatch:
    """Return a patch with these values. Old values can be invalid, because the limits were different."""
    try:
        return MemoryPatch.model_validate(values)
    except ValidationError as wrong:
        names = sorted({str(error["loc"][0]) for error in wrong.errors() if error["loc"]})
        raise Conflict(
            f"version {number} has values that are no longer valid: {', '.join(names)}; edit the memory"
            " instead",
            "version",
        ) from None


def visible_revisions(memory: Memory, clearance: Clearance) -> list[Revision]:
    """Return the visible revisions, newest first."""
    return [row for row, seen in walk_revisions(memory, clearance) if seen]


def memory_journal(memory: Memory, clearance: Clearance) -> JournalQuerySet:
    """Return the journal rows about a memory that the caller may see, newest first."""
    return JournalEntry.objects.about(memory, clearance).order_by("-seq")


@dataclass
class Provenance:
    """The newest journal rows about each memory, at most ``most`` of each."""

    clearance: Clearance
    most: int
    rows: dict[str, list[JournalEntry]] = field(default_factory=dict)

    def read(self, memories: Iterable[Memory]) -> None:
        """Load the rows about memories that the caller may see, in one query."""
        self.rows = defaultdict(list)
        uids = [memory.uid for memory in memories]
        found = JournalEntry.objects.visible_as_recorded(self.clearance)
        for row in found.filter(object_type="memory", object_id__in=uids).order_by("-seq").iterator():
            if len(self.rows[row.object_id]) < self.most:
                self.rows[row.object_id].append(row)


def journal_by_uid(uid: str, clearance: Clearance) -> JournalQuerySet:
    """Return the journal rows about a memory that may be erased, newest first. Lazy."""
    rows = JournalEntry.objects.visible_to(clearance)
    return rows.filter(object_type="memory", object_id=uid).order_by("-seq")


MAX_CHANGED = 2000  # memories whose earlier versions are read, those created last first


@dataclass(frozen=True)
class Snapshot:
    """The memories of a moment. ``rows`` did not change since; ``versions`` are unsaved copies of the others.

    ``is_complete``: there were not more changed memories than :data:`MAX_CHANGED`.
    """

    moment: datetime
    rows: MemoryQuerySet
    versions: Sequence[Memory] = ()
    is_complete: bool = True

    def narrow(self, wanted: MemoryFilter) -> Snapshot:
        """Return those that match another filter, too."""
        versions = [one for one in self.versions if wanted.matches(one)]
        return replace(self, rows=wanted.apply(self.rows), versions=versions)


def load_snapshot(wanted: MemoryFilter, clearance: Clearance, moment: datetime) -> Snapshot:
    """Return what was stored at a moment and matches the filter. ``wanted.trashed`` is not used.

    A caller sees a version if they may see the memory now and could see that version. A memory in the trash
    today is included if it was not there at that moment; an erased one is gone. At most seven queries.
    """
    existing = Memory.objects.visible_to(clearance).existed_at(moment)
    changed = list(existing.changed_since(moment).order_by("-created_at", "-pk")[: MAX_CHANGED + 1])
    versions = [
        one for one in _load_versions(changed[:MAX_CHANGED], clearance, moment) if wanted.matches(one)
    ]
    return Snapshot(
        moment, wanted.apply(existing.unchanged_since(moment)), versions, len(changed) <= MAX_CHANGED
    )


def _load_versions(memories: Sequence[Memory], clearance: Clearance, moment: datetime) -> list[Memory]:
    """Return copies of memories with the values of a moment, without those that may not be seen."""
    if not memories:
        return []
    attach_lists(memories)
    replacements = visible_replacements(memories, clearance)
    keys = key_list(memory.pk for memory in memories)
    later = defaultdict(list)
    for row in Revision.objects.filter(memory__in=keys, at__gt=moment).order_by("-number"):
        later[row.memory_id].append(row)
    earlier = Revision.objects.filter(memory__in=keys, at__lte=moment).order_by()
    changed_at = dict(earlier.values_list("memory").annotate(Max("at")))
    replaced_by = {uid for rows in later.values() for row in rows if (uid := row.before.get("superseded_by"))}
    known = Memory.objects.visible_to(clearance).in_bulk(replaced_by, field_name="uid")
    versions = []
    for memory in memories:
        current = {name: field_value(memory, name) for name in (*SCALAR_FIELDS, *LIST_FIELDS)}
        current["superseded_by"] = replacements.get(memory.superseded_by_id or 0)
        version = rewind(memory, current, later[memory.pk], clearance, known)
        if not version.hidden:
            updated_at = changed_at.get(memory.pk, memory.created_at)
            earlier_memory = _copy_with(memory, version.values, updated_at)
            if version.values["superseded_by"] != current["superseded_by"]:
                earlier_memory.superseded_by = known.get(version.values["superseded_by"])
            versions.append(earlier_memory)
    return versions


def _copy_with(memory: Memory, values: dict[str, Any], updated_at: datetime) -> Memory:
    """Return a copy of a memory with the values of a version. Its level is not lower than today's."""
    earlier = copy(memory)
    for name in SCALAR_FIELDS:
        setattr(earlier, name, values[name])
    earlier.sensitivity = stricter_level(values["sensitivity"], memory.sensitivity)
    earlier.loaded_lists = {name: values[name] for name in LIST_FIELDS}
    earlier.alias_text = join_aliases(values["aliases"])
    earlier.content_hash = hash_content(earlier.content)
    earlier.updated_at = updated_at
    return earlier
