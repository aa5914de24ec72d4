"""The shapes of answers about maintenance runs, for the OpenAPI description."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field


class RunShape(BaseModel):
    id: str
    operation: str
    status: Literal["queued", "running", "done", "failed"]
    dry_run: bool
    done: int
    total: int
    in_percent: bool = Field(
        description="The run met more than this token may see: done and total are percent."
    )
    cause: Literal["", "error", "interrupted", "stopped"] = Field(description="Why it failed.")
    error: str
    detail: str = Field(description="What a waiting run waits for, where that is not this hub's own worker.")
    params: dict[str, Any]
    actor: str
    undoes: str | None = Field(description="The run that this one takes back.")
    undoable: bool
    resumable: bool
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    undone_at: datetime | None


class ChangeShape(BaseModel):
    id: str
    action: str
    count: int = Field(description="How many things it stands for, where they have no ids.")
    title: str
    before: float | None
    after: float | None
    reason: str
    members: list[str] = Field(description="The ids of the memories that become one.")
    member_titles: list[str] = Field(description="The titles of those that are still there.")
    into: str = Field(description="The memory that they became.")


class ResultShape(BaseModel):
    counts: dict[str, int] = Field(description="Changes by action.")
    changes: int
    listed: int = Field(description="Length of the list of items; after 20 000 changes are only counted.")
    items: list[ChangeShape] = Field(description="Those that may be seen, a page of them.")
    next_cursor: str | None


class RunWithChanges(RunShape):
    result: ResultShape
