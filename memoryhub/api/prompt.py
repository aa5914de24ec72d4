"""``/memories/prompt``: what is used most, as markdown for a system prompt."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, Field

from memoryhub.api.schemas import documented
from memoryhub.audit.reveals import note_reveals
from memoryhub.http.authentication import READ, ApiRequest, Asking
from memoryhub.http.json import answer
from memoryhub.injection.prompt_list import most_used
from memoryhub.memories.filters import Filter, MemoryFilter

router = Router()
MOST, USUAL = 200, 20


class PromptRequest(Asking):
    max_entries: Annotated[int, Field(ge=1, le=MOST)] = Field(USUAL, description="Most memories in it.")
    category: Filter = None
    project: Filter = None
    session_id: Filter = None


class PromptShape(BaseModel):
    """``prompt``: markdown, empty without memories. ``withheld``: ids of those that read like orders."""

    prompt: str
    ids: list[str]
    withheld: list[str]


@router.get(
    "/memories/prompt",
    auth=READ,
    response=documented(PromptShape),
    tags=["memory"],
    summary="Top memories for a system prompt",
)
def get_prompt(request: ApiRequest, wanted: Query[PromptRequest]) -> HttpResponse:
    """One line for each of the most used memories, under their categories. Counts no access."""
    narrowed = MemoryFilter(
        category=wanted.category, project=wanted.project, session_id=wanted.session_id
    ).select(wanted.clearance(request.auth))
    listed = most_used(narrowed, wanted.max_entries)
    note_reveals(listed.shown, request.auth.actor, "api prompt")
    return answer(
        {
            "prompt": listed.markdown,
            "ids": [memory.uid for memory in listed.shown],
            "withheld": [memory.uid for memory in listed.withheld],
        }
    )
