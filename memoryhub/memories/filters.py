"""The filters of lists and searches: one model for the API, the pages and the exports."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, Field

from memoryhub.access.policy import Clearance, Sensitivity
from memoryhub.core.vocabulary import MemoryType, Scope
from memoryhub.models import Label, Memory
from memoryhub.models.querysets import MemoryQuerySet, is_about_file, live_memories

ORDERS = ("-updated_at", "-created_at", "-importance", "-accessed_count")
Order = Literal["-updated_at", "-created_at", "-importance", "-accessed_count"]


def _blank_as_none(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


def _check_no_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain a NUL character; remove it")
    return text


def _add_time_zone(value: object) -> object:
    """Add UTC to a date or to a moment without a time zone."""
    if isinstance(value, str) and value.strip():
        text = value.strip().replace(" ", "+") if "T" in value else value.strip()
        if len(text) == 10:
            return f"{text}T00:00:00+00:00"
        tail = text[10:]
        return text if tail.endswith(("Z", "z")) or "+" in tail or "-" in tail else f"{text}+00:00"
    return _blank_as_none(value)


def _to_utc(moment: datetime | None) -> datetime | None:
    try:
        return moment and moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("is out of range") from None


TextFilter = Annotated[
    Annotated[str, Field(max_length=1000), AfterValidator(_check_no_nul)] | None,
    BeforeValidator(_blank_as_none),
]
Timestamp = Annotated[AwareDatetime | None, BeforeValidator(_add_time_zone), AfterValidator(_to_utc)]


AS_OF = Field(None, description="Search what was stored at this time, as it was then.")


class MemoryFilter(BaseModel):
    """The filters of a list of memories. ``since`` ≤ created_at < ``until``."""

    project: TextFilter = None
    session_id: TextFilter = None
    type: Annotated[MemoryType | None, BeforeValidator(_blank_as_none)] = None
    category: TextFilter = None
    concept: TextFilter = None
    tag: TextFilter = None
    file: TextFilter = Field(None, description="A path, the end of one, a basename or a directory.")
    entity: TextFilter = None
    sensitivity: Annotated[Sensitivity | None, BeforeValidator(_blank_as_none)] = None
    scope: Annotated[Scope | None, BeforeValidator(_blank_as_none)] = None
    since: Timestamp = None
    until: Timestamp = None
    pinned: Annotated[
        bool | None,
        BeforeValidator(_blank_as_none),
        Field(description="Only memories that are pinned, or only those that are not."),
    ] = None
    trashed: bool = False

    def select(self, clearance: Clearance, now: datetime | None = None) -> MemoryQuerySet:
        """Return the matching memories that are visible with this clearance. Lazy."""
        if now is None and not self.trashed:
            return self.apply(live_memories(clearance))
        return self.narrow(Memory.objects.visible_to(clearance), now)

    def narrow(self, memories: MemoryQuerySet, now: datetime | None = None) -> MemoryQuerySet:
        """Apply the filters to memories that are restricted by access (or only counted). Lazy.

        The result contains live memories or, with ``trashed``, those in the trash.
        """
        return self.apply(memories.trashed() if self.trashed else memories.live(now))

    def matches(self, memory: Memory) -> bool:
        """Whether an unsaved memory with ``loaded_lists`` matches the filters other than ``trashed``."""
        plain = self._plain_values() | ({"session_id": self.session_id} if self.session_id else {})
        if any(getattr(memory, name) != value for name, value in plain.items()):
            return False
        lists = memory.loaded_lists or {}
        names = [entity["entity"] for entity in lists["entities"]]
        members = ((self.concept, lists["concepts"]), (self.tag, lists["tags"]), (self.entity, names))
        if any(value and value not in values for value, values in members):
            return False
        if self.pinned is not None and self.pinned != memory.pinned:
            return False
        if self.since and memory.created_at < self.since:
            return False
        if self.until and memory.created_at >= self.until:
            return False
        paths = [*lists["files_read"], *lists["files_modified"]]
        return not self.file or any(is_about_file(path, self.file) for path in paths)

    def _plain_values(self) -> dict[str, str]:
        names = ("project", "category", "type", "sensitivity", "scope")
        return {name: str(value) for name in names if (value := getattr(self, name))}

    def apply(self, memories: MemoryQuerySet) -> MemoryQuerySet:
        """Apply the filters other than ``trashed``."""
        if wanted := self._plain_values():
            memories = memories.filter(**wanted)
        if self.pinned is not None:
            memories = memories.pinned() if self.pinned else memories.unpinned()
        memories = memories.between("created_at", self.since, self.until)
        if self.session_id:
            memories = memories.in_session(self.session_id)
        if self.concept:
            memories = memories.labelled(Label.Kind.CONCEPT.value, self.concept)
        if self.tag:
            memories = memories.labelled(Label.Kind.TAG.value, self.tag)
        if self.file:
            memories = memories.about_file(self.file)
        if self.entity:
            memories = memories.about_entity(self.entity)
        return memories
