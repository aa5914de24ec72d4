"""``/memories/prompt``: what is used most, as markdown for a system prompt."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, Field

from memoryhub.api.schemas import documented
from memoryhub.audit.reveals import record_reveals
from memoryhub.http.authentication import READ, AccessParams, ApiRequest
from memoryhub.http.json import json_response
from memoryhub.injection.system_prompt import format_most_used
from memoryhub.memories.filters import MemoryFilter, TextFilter

router = Router()
MAX_ENTRIES, DEFAULT_ENTRIES = 200, 20


class PromptRequest(AccessParams):
    max_entries: Annotated[int, Field(ge=1, le=MAX_ENTRIES)] = Field(
        DEFAULT_ENTRIES, description="Most memories in it."
    )
    category: TextFilter = None
    project: TextFilter = None
    session_id: TextFilter = None


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
def get_prompt(request: ApiRequest, params: Query[PromptRequest]) -> HttpResponse:
    """One line for each of the most used memories, under their categories. Counts no access."""
    narrowed = MemoryFilter(
        category=params.category, project=params.project, session_id=params.session_id
    ).select(params.clearance(request.auth))
    listed = format_most_used(narrowed, params.max_entries)
    record_reveals(listed.shown, request.auth.actor, "api prompt")
    return json_response(
        {
            "prompt": listed.markdown,
            "ids": [memory.uid for memory in listed.shown],
            "withheld": [memory.uid for memory in listed.withheld],
        }
    )
