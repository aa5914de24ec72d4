"""``/inject`` and ``/memories/prompt``: context for a prompt, and the most used memories as Markdown."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from django.conf import settings
from django.http import HttpResponse
from django.utils import timezone
from ninja import Query, Router
from pydantic import BaseModel, Field

from memoryhub.access.policy import Actor
from memoryhub.api.schemas import InjectionShape, documented
from memoryhub.audit.journal import record_reveals
from memoryhub.capture.ignored_paths import IgnoredPaths
from memoryhub.http.authentication import READ, AccessParams, ApiRequest
from memoryhub.http.problems import json_response
from memoryhub.injection.requests import InjectionRequest as Wanted
from memoryhub.injection.requests import InjectionResult, with_default_project
from memoryhub.injection.services import inject_context
from memoryhub.injection.system_prompt import format_most_used
from memoryhub.memories.filters import MemoryFilter, TextFilter
from memoryhub.memories.schemas import Name
from memoryhub.models import Project

router = Router()
MAX_TOKENS, MAX_MEMORIES = 100_000, 100


class InjectionRequest(AccessParams):
    """A prompt, and limits for the context to inject."""

    prompt: str = Field(description="The text of the prompt, unchanged. Any text of any length is accepted.")
    session_id: Name = Field("", description="Memories that this session received recently are left out.")
    project: Name = Field(
        "",
        description="Limits memories to this project, the team and no project.",
    )
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
    summary="Get context for a prompt",
)
def inject_memories(request: ApiRequest, params: InjectionRequest) -> HttpResponse:
    """Returns a block of relevant memories to add to the prompt.

    ``context`` is empty if no memory is relevant or the time limit is exceeded. Each injected memory is
    logged and counts as one access.
    """
    given = Wanted(**{name: getattr(params, name) for name in InjectionRequest.model_fields})
    found = _inject(given, request.auth.actor)
    return json_response(
        {
            "context": found.context,
            "injected": [
                {
                    "id": one.uid,
                    "score": one.score,
                    "scale": one.scale,
                    **({} if one.factor == 1 else {"factor": one.factor}),
                }
                for one in found.injected
            ],
            "withheld": [
                {"id": one.uid, "reason": one.reason, "detail": one.detail} for one in found.withheld
            ],
            "tokens_used": found.tokens_used,
            "took_ms": found.took_ms,
            "skipped": found.skipped,
        }
    )


def _inject(given: Wanted, actor: Actor) -> InjectionResult:
    """Inject as far as the project's settings allow: each injection is logged, with the prompt."""
    given = with_default_project(given, actor)
    project = Project.named(given.project)
    if not project.records_events(timezone.now()):
        return InjectionResult(skipped=["nothing is recorded in this project, so nothing is injected"])
    ignored = IgnoredPaths(project.ignored_paths, project.name)
    return inject_context(replace(given, prompt=ignored.redact(given.prompt)), actor)


MAX_ENTRIES, DEFAULT_ENTRIES = 200, 20


class PromptRequest(AccessParams):
    max_entries: Annotated[int, Field(ge=1, le=MAX_ENTRIES)] = Field(
        DEFAULT_ENTRIES, description="Maximum number of memories."
    )
    category: TextFilter = None
    project: TextFilter = None
    session_id: TextFilter = None


class PromptShape(BaseModel):
    """``prompt``: Markdown, or empty. ``withheld``: ids of memories that look like instructions."""

    prompt: str
    ids: list[str]
    withheld: list[str]


@router.get(
    "/memories/prompt",
    auth=READ,
    response=documented(PromptShape),
    tags=["memory"],
    summary="Get the most used memories as Markdown",
)
def get_prompt(request: ApiRequest, params: Query[PromptRequest]) -> HttpResponse:
    """Returns one line for each memory, grouped by category. Does not count as access."""
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
