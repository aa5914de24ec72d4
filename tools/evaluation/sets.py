"""A retrieval set: memories, and questions with the memories that answer them (a file of JSON)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from memoryhub.memories.schemas import Content, Moment, Name, Text, Word

SHAPE = (
    '{"name", "unit", "memories": [{"ref", "content", "project", "session_id", "created_at"}], '
    '"queries": [{"id", "category", "query", "relevant": [ref]}]}'
)
MAX_PROBLEMS = 5  # in the message about a file


class InvalidSet(Exception):
    """The file is not a valid set. The message names the field and the fix."""


def check_unique(names: list[str], what: str) -> None:
    """Raise ValueError if a name occurs twice."""
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    if twice:
        raise ValueError(f"{what} must be unique; rename the second {sorted(twice)[0]!r}")


class SetMemory(BaseModel):
    """A memory to store. Questions refer to it by ``ref``."""

    ref: Word
    content: Content
    project: Name = ""
    session_id: Name = ""
    created_at: Moment


class SetQuery(BaseModel):
    """A question. ``relevant`` is empty if no memory answers it."""

    id: Word
    category: Text
    query: Annotated[str, AfterValidator(str.strip)]
    relevant: list[str]


class RetrievalSet(BaseModel):
    """Memories and questions about them. ``unit``: what a memory is, such as a turn, a fact or a note."""

    name: Word
    unit: Word
    memories: Annotated[list[SetMemory], Field(min_length=1)]
    queries: Annotated[list[SetQuery], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_refs(self) -> Self:
        refs = [memory.ref for memory in self.memories]
        check_unique(refs, "the refs of the memories")
        check_unique([query.id for query in self.queries], "the ids of the queries")
        known = set(refs)
        for query in self.queries:
            if unknown := [ref for ref in query.relevant if ref not in known]:
                raise ValueError(
                    f"query {query.id!r}: relevant names {unknown[0]!r}, which is no memory's ref; "
                    "use refs of this file, or an empty list"
                )
        return self

    @property
    def family(self) -> str:
        """Return the first part of the name: ``locomo`` of ``locomo-conv-26``."""
        return re.split(r"[-_ ]", self.name)[0] or self.name

    @property
    def group(self) -> str:
        """Return the name of the sets that are measured together: of one family and unit."""
        return f"{self.family}, {self.unit}s"


def read_set(path: Path) -> RetrievalSet:
    """Read a retrieval set. Raise InvalidSet if it is not valid."""
    try:
        return RetrievalSet.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidSet(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        problems = describe_problems(error)
        raise InvalidSet(f"{path} is not a retrieval set: {problems}. A set looks like {SHAPE}") from None


def describe_problems(error: ValidationError) -> str:
    """Return the first problems of a file, each with its field."""
    problems = error.errors(include_url=False, include_input=False)
    described = "; ".join(map(_describe, problems[:MAX_PROBLEMS]))
    more = f"; and {len(problems) - MAX_PROBLEMS} more" if len(problems) > MAX_PROBLEMS else ""
    return described + more


def _describe(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
