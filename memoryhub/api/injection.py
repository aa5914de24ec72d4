"""``/inject``: what an agent should know before it reads a prompt."""

from __future__ import annotations

from typing import Annotated

from django.conf import settings
from django.http import HttpResponse
from ninja import Router
from pydantic import Field

from memoryhub.api.schemas import InjectionShape, documented
from memoryhub.http.authentication import READ, AccessParams, ApiRequest
from memoryhub.http.json import json_response
from memoryhub.injection.services import InjectionRequest as Wanted
from memoryhub.injection.services import inject_context
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
