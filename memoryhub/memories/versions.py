"""Earlier versions of a memory, its visible revisions and journal rows, and undo of the last change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from memoryhub.access.policy import Actor, Clearance, stricter_level
from memoryhub.core.vocabulary import Scope
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.rows import LIST_FIELDS, SCALAR_FIELDS, list_values
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.memories.update import get_memory, update_memory
from memoryhub.models import JournalEntry, Memory, Revision
from memoryhub.models.querysets import JournalQuerySet

VERSIONED_FIELDS = (*SCALAR_FIELDS, *LIST_FIELDS)
UNDO_REASON = "undo"  # the reason of a revision that takes a change back
# What its title and abstract were goes with a content: made from it, they would be made anew.
_GENERATED_FIELDS = ("title", "abstract")


@dataclass(frozen=True)
class HiddenValue:
    """Stands for a value that may not be seen; ``number``: the change that replaced it."""

    number: int


@dataclass(frozen=True)
class Version:
    """Every field of a memory as it was, or :class:`Hidden`.

    ``number`` 0: as it is now. ``levels``: the level under which each value is kept. ``until``: when it was
    replaced, and by whom.
    """

    number: int
    values: dict[str, Any]
    levels: dict[str, str]
    until: datetime | None = None
    replaced_by: str = ""

    @property
    def hidden(self) -> list[str]:
        """Fields whose value may not be seen."""
        return sorted(name for name, value in self.values.items() if isinstance(value, HiddenValue))


def walk_revisions(memory: Memory, clearance: Clearance) -> Iterator[tuple[Revision, bool]]:
    """Every earlier version, newest first, and whether it may be seen. One query, read as it is asked for.

    A version shows only to those who may read the level, the project and the scope it was under: a memory
    that was personal, or of a closed project, does not take its past along when it is shared.
    """
    scope, project, same_owner = memory.scope, memory.project, True
    for row in memory.revisions.order_by("-number").iterator(chunk_size=20):
        # Going back in time, each row brings the values from before its change; with another scope the owner,
        # whom revisions do not keep, may have been another too.
        same_owner = same_owner and "scope" not in row.before
        scope, project = row.before.get("scope", scope), row.before.get("project", project)
        open_to_all = scope != Scope.PERSONAL.value or same_owner
        yield row, clearance.opens(project, row.sensitivity) and open_to_all


def current_value(memory: Memory, name: str) -> Any:
    """A field's value now, in the shape in which revisions keep it."""
    return list_values(memory, name) if name in LIST_FIELDS else getattr(memory, name)


def current_version(memory: Memory) -> Version:
    """The memory as it is now."""
    values = {name: current_value(memory, name) for name in VERSIONED_FIELDS}
    return Version(0, values, dict.fromkeys(VERSIONED_FIELDS, memory.sensitivity))


def load_versions(memory: Memory, numbers: Collection[int], clearance: Clearance) -> dict[int, Version]:
    """Those of the versions that are there and may be seen, by number; 0 is what the memory says now."""
    here = current_version(memory)
    found = {0: here} if 0 in numbers else {}
    wanted = {number for number in numbers if number > 0}
    values, levels = dict(here.values), dict(here.levels)
    for row, seen in walk_revisions(memory, clearance):
        if not wanted or row.number < min(wanted):
            break
        kept = [name for name in row.before if name in values]
        values |= {name: row.before[name] if seen else HiddenValue(row.number) for name in kept}
        levels |= dict.fromkeys(kept, row.sensitivity)
        if seen and row.number in wanted:
            found[row.number] = Version(row.number, dict(values), dict(levels), row.at, row.actor)
    return found


def restore_version(
    uid: str,
    number: int,
    actor: Actor,
    now: datetime | None = None,
    *,
    unchanged_since: datetime | None = None,
) -> Memory:
    """Let a memory say again what it said in an earlier version; what it says now becomes a revision.

    All of it comes back, but for who may read it and how long it lives: its level is never lower than now or
    then, a personal memory stays personal, and the days it has left stay as they are.

    ``unchanged_since``: the ``updated_at`` that the person looked at. :class:`NotFound` for a version that
    the actor may not see; :class:`Conflict` when parts of it are hidden, when somebody changed the memory
    meanwhile, and as for any change.
    """
    memory = get_memory(uid, actor)
    then = load_versions(memory, [number], actor.clearance).get(number) if number > 0 else None
    if then is None:
        raise NotFound("there is no such version", "version")
    if then.hidden:
        raise Conflict(
            f"of version {number} you may not see: {', '.join(then.hidden)}; turn on the switch of that"
            " level, or ask someone who may see it",
            "version",
        )
    values = _changed_values(memory, then)
    if not values:
        return memory
    seen = unchanged_since or memory.updated_at
    reason = f"restore of {number}"
    return update_memory(uid, _to_patch(values, number), actor, now, unchanged_since=seen, reason=reason)


def _changed_values(memory: Memory, then: Version) -> dict[str, Any]:
    """The fields that were otherwise, with their values."""
    wanted = {name: value for name, value in then.values.items() if name != "ttl_days"}
    wanted["sensitivity"] = stricter_level(wanted["sensitivity"], memory.sensitivity)
    if memory.scope == Scope.PERSONAL.value:
        wanted["scope"] = memory.scope
    changed = {name: value for name, value in wanted.items() if value != current_value(memory, name)}
    return _with_generated_texts(changed, wanted)


def undo_last_change(uid: str, number: int, actor: Actor, now: datetime | None = None) -> Memory:
    """Undo the last change of a memory: exactly the fields that it replaced are as they were before it.

    :class:`NotFound` when the actor may not see what was replaced; :class:`Conflict` when the memory was
    changed since, or the change was about its time to live, of which the end is not kept.
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
        raise Conflict("this change set when the memory expires; edit it instead", "ttl_days")
    before = {name: value for name, value in last.before.items() if name in VERSIONED_FIELDS}
    held = {name: current_value(memory, name) for name in _GENERATED_FIELDS}
    patch = _to_patch(_with_generated_texts(before, held | before), number)
    return update_memory(uid, patch, actor, now, unchanged_since=memory.updated_at, reason=UNDO_REASON)


def _with_generated_texts(values: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    return values | {name: wanted[name] for name in _GENERATED_FIELDS} if "content" in values else values


def _to_patch(values: dict[str, Any], number: int) -> MemoryPatch:
    """The change that sets them. Limits may have been others when they were stored."""
    try:
        return MemoryPatch.model_validate(values)
    except ValidationError as wrong:
        names = sorted({str(error["loc"][0]) for error in wrong.errors() if error["loc"]})
        raise Conflict(
            f"version {number} holds what is not stored any more: {', '.join(names)}; edit the memory"
            " instead",
            "version",
        ) from None


def visible_revisions(memory: Memory, clearance: Clearance) -> list[Revision]:
    """The earlier versions that may be seen, newest first."""
    return [row for row, seen in walk_revisions(memory, clearance) if seen]


def memory_journal(memory: Memory, clearance: Clearance) -> JournalQuerySet:
    """The journal's rows about a memory that the caller has found behind the gate, newest first."""
    rows: JournalQuerySet = JournalEntry.objects.about(memory, clearance)
    return rows.order_by("-seq")


@dataclass
class Provenance:
    """The newest rows about each memory, the newest first; ``most`` of each."""

    clearance: Clearance
    most: int
    rows: dict[str, list[JournalEntry]] = field(default_factory=dict)

    def read(self, memories: Iterable[Memory]) -> None:
        """One query for memories that the caller has found behind the gate."""
        self.rows = defaultdict(list)
        uids = [memory.uid for memory in memories]
        found: JournalQuerySet = JournalEntry.objects.of_reach(self.clearance)
        for row in found.filter(object_type="memory", object_id__in=uids).order_by("-seq").iterator():
            if len(self.rows[row.object_id]) < self.most:
                self.rows[row.object_id].append(row)


def journal_by_uid(uid: str, clearance: Clearance) -> JournalQuerySet:
    """All rows about one memory, which may be gone by now, newest first. Lazy."""
    rows: JournalQuerySet = JournalEntry.objects.visible_to(clearance)
    return rows.filter(object_type="memory", object_id=uid).order_by("-seq")
