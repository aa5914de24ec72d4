"""Labelled prompts: a store of memories, and prompts with the memories that must and must not come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from memoryhub.memories.schemas import Content, Labels, MemoryDraft, Word
from tools.evaluation.sets import InvalidSet, check_unique, describe_problems

MEMORIES, DEVELOPMENT, HELD_BACK = "memories.jsonl", "development.json", "held_back.json"
ANYTHING_ELSE = "*"  # as ``must_not``: only memories of ``must`` and ``may`` are allowed


class StoredMemory(BaseModel):
    """A memory of the store. All other fields are those of a draft, known to this version or not."""

    model_config = ConfigDict(extra="allow")

    id: Word
    content: Content
    age_days: Annotated[float, Field(ge=0, le=36_500)]
    aliases: Labels = Field(default_factory=list)
    superseded_by: str = ""


class LabelledPrompt(BaseModel):
    """A prompt, and the ids of the memories that must, may and must not come.

    ``session``: prompts with the same name are the turns of one session, in the order of the file.
    """

    model_config = ConfigDict(extra="forbid")

    id: Word
    kind: Word
    prompt: Word
    must: list[str]
    must_not: list[str] | Literal["*"]
    may: list[str] = Field(default_factory=list)
    session: str = ""

    @property
    def named(self) -> list[str]:
        """Return the ids of all three lists."""
        return [*self.must, *self.may, *(() if self.must_not == ANYTHING_ELSE else self.must_not)]

    def is_unwanted(self, memory: str) -> bool:
        if self.must_not == ANYTHING_ELSE:
            return memory not in self.must and memory not in self.may
        return memory in self.must_not


class PromptSet(BaseModel):
    """The store and the prompts of one half."""

    memories: Annotated[list[StoredMemory], Field(min_length=1)]
    prompts: Annotated[list[LabelledPrompt], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        known = {memory.id for memory in self.memories}
        check_unique([memory.id for memory in self.memories], "the ids of the memories")
        check_unique([prompt.id for prompt in self.prompts], "the ids of the prompts")
        for memory in self.memories:
            if memory.superseded_by and memory.superseded_by not in known:
                raise ValueError(f"memory {memory.id!r}: superseded_by {memory.superseded_by!r} is unknown")
        for prompt in self.prompts:
            check_unique(prompt.named, f"prompt {prompt.id!r}: the labels")
            if unknown := [name for name in prompt.named if name not in known]:
                raise ValueError(f"prompt {prompt.id!r}: {unknown[0]!r} is not the id of a memory")
        return self

    def conversations(self) -> list[list[LabelledPrompt]]:
        """Return the turns of each session, and every other prompt by itself."""
        groups: dict[str, list[LabelledPrompt]] = {}
        for prompt in self.prompts:
            groups.setdefault(f"session {prompt.session}" if prompt.session else prompt.id, []).append(prompt)
        return list(groups.values())


def read_prompts(folder: Path, *, held_back: bool = False) -> PromptSet:
    """Read the memories and one half of the prompts. Raise InvalidSet if they are not valid."""
    half = HELD_BACK if held_back else DEVELOPMENT
    try:
        lines = (folder / MEMORIES).read_text("utf-8").splitlines()
        memories = [json.loads(line) for line in lines if line.strip()]
        prompts = json.loads((folder / half).read_text("utf-8"))
        return PromptSet.model_validate({"memories": memories, "prompts": prompts})
    except OSError as error:
        raise InvalidSet(f"{error.filename}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise InvalidSet(f"{folder}: {describe_problems(error)}") from None
    except ValueError as error:
        raise InvalidSet(f"{folder}: {MEMORIES} and {half} must be JSON: {error}") from None


def replacements_first(memories: Iterable[StoredMemory]) -> Iterator[list[StoredMemory]]:
    """Yield groups of memories, each after the memories that supersede it."""
    left, done = list(memories), {""}
    while left:
        group = [memory for memory in left if memory.superseded_by in done]
        if not group:
            raise InvalidSet(f"memory {left[0].id!r}: its superseded_by leads back to itself")
        yield group
        left = [memory for memory in left if memory not in group]
        done |= {memory.id for memory in group}


def to_draft(memory: StoredMemory, stored: Mapping[str, str], created_at: datetime) -> MemoryDraft:
    """Return the draft of a memory without the fields that this version does not know.

    ``stored``: the id in the store of each memory that is stored already.
    """
    values: dict[str, Any] = memory.model_dump(exclude_unset=True)
    if memory.superseded_by:
        values["superseded_by"] = stored[memory.superseded_by]
    known = {name: value for name, value in values.items() if name in MemoryDraft.model_fields}
    return MemoryDraft(**known | {"created_at": created_at, "ttl_days": 0})
