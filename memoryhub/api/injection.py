"""``/inject`` and ``/memories/prompt``: context for a prompt, and the most used memories as Markdown."""

from __future__ import annotations

from typing import Annotated

from django.conf import settings
from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, Field

from memoryhub.api.schemas import InjectionShape, documented
from memoryhub.audit.journal import record_reveals
from memoryhub.http.authentication import READ, AccessParams, ApiRequest
from memoryhub.http.problems import json_response
from memoryhub.injection.services import InjectionRequest as Wanted
from memoryhub.injection.services import inject_context
from memoryhub.injection.system_prompt import format_most_used
from memoryhub.memories.filters import MemoryFilter, TextFilter
from memoryhub.memories.schemas import Name

router = Router()
MAX_TOKENS, MAX_MEMORIES = 100_000, 100


class InjectionRequest(AccessParams):
    """A prompt, and how much may be put before it."""

    prompt: str = Field(description="What the person asked, as it is: any text of any length is safe.")
    session_id: Name = Field("", description="What this session was shown lately is not shown again.")
    project: Name = Field("", description="Its memories, the team's and those of no project; empty: of all.")
    token_budget: Annotated[int, Field(ge=0, le=MAX_TOKENS)] = Field(
        default_factory=lambda: settings.MEMORYHUB.token_budget
    )
    max_count: Annotated[int, Field(ge=0, le=MAX_MEMORIES)] = Field(
        default_factory=lambda: settings.MEMORYHUB.max_inject_count
    )


@router.post(
    "/inject",
    auth=READ,
    response=documented(InjectionShape),
    tags=["search"],
    summary="Memories for a prompt",
)
def inject_memories(request: ApiRequest, params: InjectionRequest) -> HttpResponse:
    """A block of memories to put before the prompt; empty when nothing is relevant, or when it took too long.

    What is shown is logged and counts as one access of each memory.
    """
    given = Wanted(**{name: getattr(params, name) for name in InjectionRequest.model_fields})
    found = inject_context(given, request.auth.actor)
    return json_response(
        {
            "context": found.context,
            "injected": [{"id": one.uid, "score": one.score, "scale": one.scale} for one in found.injected],
            "withheld": [
                {"id": one.uid, "reason": one.reason, "detail": one.detail} for one in found.withheld
            ],
            "tokens_used": found.tokens_used,
            "took_ms": found.took_ms,
            "skipped": found.skipped,
        }
    )


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
