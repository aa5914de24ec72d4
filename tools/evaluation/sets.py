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
_MOST_TOLD = 5  # problems of one file


class NotASet(Exception):
    """The file is no retrieval set; the message says which field, and how to mend it."""


def check_unique(names: list[str], what: str) -> None:
    """Raise ValueError if a name occurs twice."""
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    if twice:
        raise ValueError(f"{what} must each stand once; rename the second {sorted(twice)[0]!r}")


class SetMemory(BaseModel):
    """What is stored. ``ref`` is how the questions call it."""

    ref: Word
    content: Content
    project: Name = ""
    session_id: Name = ""
    created_at: Moment


class SetQuery(BaseModel):
    """What is asked; an empty ``relevant`` says that the store holds no answer."""

    id: Word
    category: Text
    query: Annotated[str, AfterValidator(str.strip)]
    relevant: list[str]


class RetrievalSet(BaseModel):
    """Memories and the questions about them. ``unit``: what a memory is: a turn, a fact, a note."""

    name: Word
    unit: Word
    memories: Annotated[list[SetMemory], Field(min_length=1)]
    queries: Annotated[list[SetQuery], Field(min_length=1)]

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        refs = [memory.ref for memory in self.memories]
        check_unique(refs, "the refs of the memories")
        check_unique([query.id for query in self.queries], "the ids of the queries")
        known = set(refs)
        for query in self.queries:
            if strange := [ref for ref in query.relevant if ref not in known]:
                raise ValueError(
                    f"query {query.id!r}: relevant names {strange[0]!r}, which is no memory's ref; "
                    "name refs of this file, or none"
                )
        return self

    @property
    def family(self) -> str:
        """The first part of the name: ``locomo`` of ``locomo-conv-26``."""
        return re.split(r"[-_ ]", self.name)[0] or self.name

    @property
    def group(self) -> str:
        """Sets that are measured together: of one family and one unit."""
        return f"{self.family}, {self.unit}s"


def read_set(path: Path) -> RetrievalSet:
    """Read one file; NotASet says what is wrong with it."""
    try:
        return RetrievalSet.model_validate_json(path.read_bytes())
    except OSError as error:
        raise NotASet(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        told = describe_problems(error)
        raise NotASet(f"{path} is no retrieval set: {told}. A set looks like {SHAPE}") from None


def describe_problems(error: ValidationError) -> str:
    """Return the first problems of a file, each with its field."""
    problems = error.errors(include_url=False, include_input=False)
    told = "; ".join(_told(problem) for problem in problems[:_MOST_TOLD])
    more = f"; and {len(problems) - _MOST_TOLD} more" if len(problems) > _MOST_TOLD else ""
    return told + more


def _told(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
