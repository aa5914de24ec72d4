"""Memories as they were at a moment (``as_of``): rows that did not change since, and earlier versions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Max

from memoryhub.access.policy import Clearance, stricter_level
from memoryhub.backends.statements import key_list
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
from memoryhub.memories.versions import rewind
from memoryhub.models import Memory, Revision
from memoryhub.models.querysets import MemoryQuerySet

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
