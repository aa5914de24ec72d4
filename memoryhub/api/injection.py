"""``/inject``, ``/memories/prompt`` and ``/checks``: context for prompts, and what they must bring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Self

from django.conf import settings
from django.http import HttpResponse
from django.utils import timezone
from ninja import Query, Router
from pydantic import BaseModel, ConfigDict, Field, model_validator

from memoryhub import checks, memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.api.schemas import InjectionShape, documented
from memoryhub.audit.journal import record_reveals
from memoryhub.capture.ignored_paths import IgnoredPaths
from memoryhub.capture.projects import get_project
from memoryhub.checks import CheckDraft
from memoryhub.core.dates import format_iso
from memoryhub.core.vocabulary import ProjectMode, Right
from memoryhub.http.authentication import READ, WRITE, AccessParams, ApiRequest, Caller
from memoryhub.http.problems import json_response
from memoryhub.injection import effects
from memoryhub.injection.context_block import format_most_used
from memoryhub.injection.requests import InjectionRequest as Wanted
from memoryhub.injection.requests import InjectionResult, with_default_project
from memoryhub.injection.services import inject_context
from memoryhub.memories.filters import MemoryFilter, TextFilter
from memoryhub.memories.merge import MAX_MERGED
from memoryhub.memories.schemas import Content, MemoryPatch, Name, Share
from memoryhub.models import MemoryCheck, Project

router = Router()
MAX_TOKENS, MAX_MEMORIES = 100_000, 100


class LostShape(BaseModel):
    id: str
    reason: str


class PromptEffectShape(BaseModel):
    """A prompt whose answer would change: ids of the memories before and after."""

    injection_id: str
    prompt: str
    project: str
    before: list[str]
    after: list[str]
    lost: list[LostShape]
    gained: list[str]


class EffectShape(BaseModel):
    """``total``: logged prompts to replay. ``replayed``: those for which there was time."""

    summary: str
    total: int
    replayed: int
    took_ms: float
    changed: list[PromptEffectShape]


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
    tags=["Search and recall"],
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


class UpdateIn(BaseModel):
    """A change of the given fields of a memory."""

    model_config = ConfigDict(extra="forbid")

    id: Name
    fields: MemoryPatch


class MergeIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    keep: Name
    others: Annotated[list[Name], Field(min_length=1, max_length=MAX_MERGED)]
    content: Content | None = None


class ModeIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    project: Name
    mode: ProjectMode


class ThresholdsIn(BaseModel):
    """Other values of ``injection_min_score``, ``max_inject_count`` and ``token_budget``."""

    model_config = ConfigDict(extra="forbid")

    min_score: Share | None = None
    max_count: Annotated[int, Field(ge=0, le=MAX_MEMORIES)] | None = None
    token_budget: Annotated[int, Field(ge=0, le=MAX_TOKENS)] | None = None


class EffectRequest(AccessParams):
    """Exactly one change. ``trash``: ids of memories to move to the trash."""

    model_config = ConfigDict(extra="forbid")

    update: UpdateIn | None = None
    merge: MergeIn | None = None
    trash: Annotated[list[Name], Field(min_length=1, max_length=MAX_MERGED)] | None = None
    mode: ModeIn | None = None
    thresholds: ThresholdsIn | None = None

    @model_validator(mode="after")
    def _has_one_change(self) -> Self:
        given = [one for one in (self.update, self.merge, self.trash, self.mode, self.thresholds) if one]
        if len(given) != 1:
            raise ValueError("give exactly one of: update, merge, trash, mode, thresholds")
        return self


@router.post(
    "/injection/effect",
    auth=WRITE,
    response=documented(EffectShape, errors=(404, 409)),
    tags=["Search and recall"],
    summary="Preview the effect of a change on logged prompts",
)
def preview_effect(request: ApiRequest, wanted: EffectRequest) -> HttpResponse:
    """Replays up to 200 logged prompts without and with a change, and returns those whose answers differ.

    Nothing is changed, logged or counted. A mode requires the right ``maintain``.
    """
    effect, uids = _find_effect(wanted, request.auth)
    return json_response(
        {
            "summary": effect.summary(uids, "one of these memories" if uids else "a memory"),
            "total": effect.total,
            "replayed": effect.replayed,
            "took_ms": effect.took_ms,
            "changed": [
                {
                    "injection_id": one.prompt.uid,
                    "prompt": one.prompt.text,
                    "project": one.prompt.project,
                    "before": [memory.uid for memory in one.before.shown],
                    "after": [memory.uid for memory in one.after.shown],
                    "lost": [{"id": memory.uid, "reason": memory.reason} for memory in one.lost],
                    "gained": [memory.uid for memory in one.gained],
                }
                for one in effect.changed
            ],
        }
    )


def _find_effect(wanted: EffectRequest, caller: Caller) -> tuple[effects.Effect, list[str]]:
    """Return the effect, and the ids of the memories that the change is about."""
    clearance, actor = wanted.clearance(caller), caller.actor
    change: Callable[[], object]
    if update := wanted.update:
        change = partial(memories.update_memory, update.id, update.fields, actor)
        return effects.preview_change(clearance, change), [update.id]
    if merge := wanted.merge:
        change = partial(
            memories.merge_memories, merge.keep, merge.others, actor, content=merge.content or ""
        )
        return effects.preview_change(clearance, change), [merge.keep, *merge.others]
    if wanted.trash:
        change = partial(memories.trash_memories, wanted.trash, actor)
        return effects.preview_change(clearance, change), wanted.trash
    if wanted.mode:
        caller.require(Right.MAINTAIN)
        get_project(wanted.mode.project, actor)
        return effects.preview_settings(clearance, modes={wanted.mode.project: wanted.mode.mode}), []
    limits = effects.Thresholds(**(wanted.thresholds or ThresholdsIn()).model_dump())
    return effects.preview_settings(clearance, thresholds=limits), []


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
    tags=["Memories"],
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


checks_router = Router(tags=["Memory checks"])
MAX_LISTED = 1000


class CheckQuery(AccessParams):
    project: TextFilter = None


class CheckShape(CheckDraft):
    """``passed`` and ``failures`` of the last run; null without one, or if it saw more than the token may."""

    id: str
    owner: str
    passed: bool | None
    failures: list[str] | None
    checked_at: str | None


class CheckList(BaseModel):
    items: list[CheckShape]


class CheckResult(BaseModel):
    """The result of a run that saw what both the owner of the check and this token may see."""

    passed: bool
    failures: list[str]


class DeletedCheck(BaseModel):
    deleted: bool


@checks_router.get("/checks", summary="List memory checks", auth=READ, response=documented(CheckList))
def list_checks(request: ApiRequest, params: Query[CheckQuery]) -> HttpResponse:
    """Returns the memory checks, newest first, with the result of the last run."""
    clearance = params.clearance(request.auth)
    found = checks.visible_checks(clearance)
    if params.project is not None:
        found = found.filter(project=params.project)
    return json_response({"items": [_serialize(one, clearance) for one in found[:MAX_LISTED]]})


@checks_router.post(
    "/checks",
    summary="Create a memory check",
    auth=WRITE,
    response=documented(CheckShape, status=201, errors=(403, 409)),
)
def create_check(request: ApiRequest, draft: CheckDraft) -> HttpResponse:
    """Stores a check. It runs daily and after maintenance, with the clearance of the owner of the token."""
    check = checks.create_check(draft, request.auth.actor)
    return json_response(_serialize(check, request.auth.actor.clearance), status=201)


@checks_router.get(
    "/checks/{check_id}",
    summary="Get a memory check",
    auth=READ,
    response=documented(CheckShape, errors=(404,)),
)
def get_check(request: ApiRequest, check_id: str, params: Query[AccessParams]) -> HttpResponse:
    """Returns a check with the result of its last run."""
    clearance = params.clearance(request.auth)
    return json_response(_serialize(checks.get_check(check_id, clearance), clearance))


@checks_router.put(
    "/checks/{check_id}",
    summary="Replace a memory check",
    auth=WRITE,
    response=documented(CheckShape, errors=(403, 404, 409)),
)
def replace_check(request: ApiRequest, check_id: str, draft: CheckDraft) -> HttpResponse:
    """Replaces a check. The owner of the token becomes its owner."""
    check = checks.update_check(check_id, draft, request.auth.actor)
    return json_response(_serialize(check, request.auth.actor.clearance))


@checks_router.delete(
    "/checks/{check_id}",
    summary="Delete a memory check",
    auth=WRITE,
    response=documented(DeletedCheck, errors=(404,)),
)
def delete_check(request: ApiRequest, check_id: str) -> HttpResponse:
    """Deletes a check."""
    checks.delete_check(check_id, request.auth.actor)
    return json_response({"deleted": True})


@checks_router.post(
    "/checks/{check_id}/run",
    summary="Run a memory check",
    auth=READ,
    response=documented(CheckResult, errors=(404,)),
)
def run_check(request: ApiRequest, check_id: str, params: Query[AccessParams]) -> HttpResponse:
    """Runs a check now. It is not logged as an injection and counts as no access."""
    clearance = params.clearance(request.auth)
    failures = checks.run_check(checks.get_check(check_id, clearance), clearance)
    reasons = checks.describe_failures(failures, clearance)
    return json_response({"passed": not failures, "failures": reasons})


def _serialize(check: MemoryCheck, clearance: Clearance) -> dict[str, Any]:
    is_open = check.passed is not None and checks.may_see_result(check, clearance)
    failures = check.result.get("failures", []) if is_open else None
    draft = checks.to_draft(check)
    draft["never_projects"] = [one for one in draft["never_projects"] if clearance.includes_project(one)]
    return {
        "id": check.uid,
        **draft,
        "owner": check.owner,
        "passed": check.passed if is_open else None,
        "failures": None if failures is None else checks.describe_failures(failures, clearance),
        "checked_at": format_iso(check.checked_at) if is_open and check.checked_at else None,
    }
