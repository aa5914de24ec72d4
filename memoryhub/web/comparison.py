"""Any two versions of a memory against each other, and the versions that there are to choose from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from memoryhub.models import Memory
from memoryhub.sensitivity import Clearance
from memoryhub.store.versions import Hidden, Version, versions_of, walk
from memoryhub.web.history import ORDER, FieldChange, field_change, plain

NOW = "now"
MOST = 300  # versions offered at once


@dataclass(frozen=True)
class Choice:
    """A version to choose; ``until`` is when it was replaced, ``number`` 0 is what the memory says now."""

    number: int
    until: datetime | None = None
    replaced_by: str = ""

    @property
    def value(self) -> str:
        return str(self.number or NOW)

    @property
    def name(self) -> str:
        return f"version {self.number}" if self.number else NOW


@dataclass(frozen=True)
class Comparison:
    """``left`` and ``right``: the versions; ``same``: how many fields are equal."""

    left: Version
    right: Version
    changes: list[FieldChange]
    same: int

    @property
    def levels(self) -> set[str]:
        """The levels of all values that are shown."""
        names = [change.name for change in self.changes]
        sides = (self.left, self.right)
        return {side.levels[n] for side in sides for n in names if not isinstance(side.values[n], Hidden)}


def choices(memory: Memory, clearance: Clearance) -> list[Choice]:
    """What it says now, and the newest :data:`MOST` versions that may be seen; one query."""
    seen = (row for row, may_be_seen in walk(memory, clearance) if may_be_seen)
    return [Choice(0), *(Choice(row.number, row.at, row.actor) for row in islice(seen, MOST))]


def compare(memory: Memory, left: int, right: int, clearance: Clearance) -> Comparison | None:
    """The two versions field by field; ``None`` when one of them is not there or may not be seen."""
    found = versions_of(memory, {left, right}, clearance)
    if left not in found or right not in found:
        return None
    one, other = found[left], found[right]
    unlike = [name for name in ORDER if one.values[name] != other.values[name]]
    changes = [_change(name, one.values[name], other.values[name]) for name in unlike]
    return Comparison(one, other, changes, len(ORDER) - len(unlike))


def _change(name: str, old: Any, new: Any) -> FieldChange:
    hidden = isinstance(old, Hidden), isinstance(new, Hidden)
    if hidden == (True, True):
        return FieldChange(name, "sealed")
    if hidden == (True, False):
        return FieldChange(name, "unseen", new=plain(new))
    if hidden == (False, True):
        return FieldChange(name, "hidden", old=plain(old))
    return field_change(name, old, new)
