"""The changes of a memory, as far as they are visible.

A revision stores the values that its change replaced, with the level they had. The new value of a field is
the one that its next revision replaced, or the current one; it is shown only if it is visible too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memoryhub.access.policy import Clearance
from memoryhub.memories.versions import current_value, walk_revisions
from memoryhub.models import Memory, Revision
from memoryhub.web.base import diffs

# In the order in which they are shown.
FIELD_ORDER = (
    "title subtitle content abstract overview type category tags concepts aliases importance trust confidence"
    " sensitivity scope project session_id key ttl_days files_read files_modified entities superseded_by"
    " discovery_tokens"
).split()
_LONG_FIELDS = {"content", "overview"}
_UNKNOWN = object()


@dataclass(frozen=True)
class FieldChange:
    """One field of one change.

    ``kind``: lines, words, list, value; or if a value is not visible: hidden (the new one), unseen (the old
    one), sealed (both).
    """

    name: str
    kind: str
    old: Any = None
    new: Any = None
    rows: list[diffs.DiffRow] = field(default_factory=list)

    @property
    def label(self) -> str:
        name = "replaced_by" if self.name == "superseded_by" else self.name
        return name.replace("_", " ").replace(" id", "").capitalize()


@dataclass(frozen=True)
class MemoryChange:
    """One change of a memory: who, when, and what it did to each field."""

    number: int
    at: datetime
    actor: str
    reason: str
    sensitivity: str
    changes: list[FieldChange]

    @property
    def names(self) -> str:
        """Return the names of the fields, capitalised."""
        return ", ".join(change.label.lower() for change in self.changes).capitalize()


def visible_changes(
    memory: Memory, clearance: Clearance, *, limit: int = 10, before: int | None = None
) -> tuple[list[MemoryChange], int | None]:
    """Return the newest visible changes, and the number where the next page starts; one query."""
    found: list[MemoryChange] = []
    for revision, after in _visible_revisions(memory, clearance):
        if before is not None and revision.number >= before:
            continue
        if len(found) == limit:
            return found, found[-1].number
        found.append(_to_memory_change(revision, after))
    return found, None


def state_at(memory: Memory, moment: datetime, clearance: Clearance) -> dict[str, Any]:
    """Return the values at ``moment`` of the fields that have changed since; None for hidden ones."""
    state: dict[str, Any] = {}
    for revision, seen in walk_revisions(memory, clearance):
        if revision.at <= moment:
            break
        state |= revision.before if seen else dict.fromkeys(revision.before)
    return state


def field_change(name: str, old: Any, new: Any) -> FieldChange:
    """Compare two values of a field by lines, words or items."""
    if isinstance(old, list) or isinstance(new, list):
        before, after = _item_texts(old), _item_texts(new)
        removed, added = [x for x in before if x not in after], [x for x in after if x not in before]
        return FieldChange(name, "list", removed, added)
    if not isinstance(old, str) or not isinstance(new, str):
        return FieldChange(name, "value", old, new)
    if name in _LONG_FIELDS or "\n" in old + new:
        return FieldChange(name, "lines", old, new, diffs.compare(old, new))
    left, right = diffs.compare_words(old, new)
    return FieldChange(name, "words", left, right)


def _visible_revisions(memory: Memory, clearance: Clearance) -> Iterator[tuple[Revision, dict[str, Any]]]:
    """Yield visible revisions, newest first, with the new values (``_UNKNOWN`` if hidden)."""
    later: dict[str, Any] = {}
    for revision, seen in walk_revisions(memory, clearance):
        if seen:
            yield (
                revision,
                {
                    name: later[name] if name in later else current_value(memory, name, clearance)
                    for name in _known_fields(revision)
                },
            )
        later |= revision.before if seen else dict.fromkeys(revision.before, _UNKNOWN)


def _to_memory_change(revision: Revision, after: dict[str, Any]) -> MemoryChange:
    changes = [
        FieldChange(name, "hidden", list_to_text(revision.before[name]))
        if after[name] is _UNKNOWN
        else field_change(name, revision.before[name], after[name])
        for name in _known_fields(revision)
    ]
    return MemoryChange(
        revision.number, revision.at, revision.actor, revision.reason, revision.sensitivity, changes
    )


def _known_fields(revision: Revision) -> list[str]:
    return [name for name in FIELD_ORDER if name in revision.before]


def list_to_text(value: Any) -> Any:
    """Join a list to one text; return other values unchanged."""
    return ", ".join(_item_texts(value)) if isinstance(value, list) else value


def _item_texts(value: Any) -> list[str]:
    return [f"{x['entity']} ({x['entity_type']})" if isinstance(x, dict) else str(x) for x in value or []]
