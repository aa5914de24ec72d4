"""What any file comes down to: things to store, things that cannot be read, things without a home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from memoryhub.drafts import FactDraft, MemoryDraft
from memoryhub.interchange.problems import Problem, problems_of
from memoryhub.past import Past

__all__ = [
    "NO_PAST",
    "Bad",
    "History",
    "Item",
    "Options",
    "Past",
    "Problem",
    "Record",
    "Unmapped",
    "record_or_bad",
]

NO_PAST = Past()


@dataclass(frozen=True, slots=True)
class Record:
    """A memory or a fact to store.

    ``place``: where it stands in the file, for people: "line 12", "memories row 5". ``source_id``: its id
    over there, unique in the file (empty: nothing refers to it); the ``memory_id`` of a fact's draft is such
    a ``source_id`` too, of a record that comes before the fact. ``past``: what a draft cannot say.
    """

    place: str
    draft: MemoryDraft | FactDraft
    source_id: str = ""
    past: Past = NO_PAST


@dataclass(frozen=True, slots=True)
class Bad:
    """One thing that cannot be read; the others still can."""

    place: str
    problems: list[Problem]


@dataclass(frozen=True, slots=True)
class Unmapped:
    """What has no home here: told in the report, never dropped in silence.

    ``what``: short words for a kind of thing ("column memories.embedding", "relations without a target"), of
    which there are few in a file; never a value. ``count``: how many of them.
    """

    what: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class History:
    """What only the hub's own file brings (:mod:`memoryhub.interchange.lines`): it restores a store."""

    place: str
    shape: BaseModel


Item = Record | Bad | Unmapped | History


@dataclass(frozen=True)
class Options:
    """How to read. ``name``: what the file was called before it was uploaded. ``project``: of what names none
    (the loader sets it; a format needs it only to tell places apart). ``now``: what "now" is for ages."""

    name: str = ""
    project: str = ""
    now: datetime | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


Draft = TypeVar("Draft", MemoryDraft, FactDraft)


def record_or_bad(
    place: str,
    shape: type[Draft],
    values: Mapping[str, Any],
    *,
    source_id: str = "",
    past: Past = NO_PAST,
) -> Record | Bad:
    """The record that these values make, or what is wrong with them."""
    try:
        return Record(place, shape.model_validate(dict(values)), source_id, past)
    except ValidationError as error:
        return Bad(place, problems_of(error))
