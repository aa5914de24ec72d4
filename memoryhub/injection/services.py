"""Inject context: select the few memories that matter, render them as a block, and log the result.

An injection is on time or empty, and never raises (docs/moments.md). :class:`MemoryStore` is the capability
``memory.store``: injection and the rest of the memory store for Python code in the same process.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any, Literal

from django.conf import settings
from django.utils import timezone

from memoryhub import capabilities, memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit.journal import record_reveals
from memoryhub.core import database_errors
from memoryhub.core.agent_hooks import MAX_CONTEXT_CHARS, MAX_CONTEXT_TOKENS
from memoryhub.core.database import Deadline, DeadlinePassed
from memoryhub.core.text import estimate_tokens, new_uid
from memoryhub.core.vocabulary import SUMMARY_TYPES, MemoryType
from memoryhub.facts import queries
from memoryhub.facts import services as facts
from memoryhub.injection import context_block, selection
from memoryhub.injection.candidates import (
    Candidate,
    CandidateSet,
    find_about_files,
    find_candidates,
    find_repairs,
    full_match,
    injectable_memories,
    require_loaded,
)
from memoryhub.injection.project_page import (
    PageEntry,
    clean_entry,
    element_line,
    find_entries,
    fit_entries,
    render_element,
    render_frame,
)
from memoryhub.injection.requests import (
    InjectedItem,
    InjectionRequest,
    InjectionResult,
    WithheldItem,
    page_was_shown,
    previously_shown,
    record_injection,
    with_default_project,
)
from memoryhub.injection.selection import WITHHOLD, Selection
from memoryhub.memories import serializers
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.rows import visible_replacements
from memoryhub.memories.schemas import FactDraft, MemoryDraft
from memoryhub.models import Fact, Memory, Project
from memoryhub.models.querysets import FactQuerySet, MemoryQuerySet
from memoryhub.search.hybrid import SearchResults, search_memories
from memoryhub.search.recall import RecallRequest, recall_memories
from memoryhub.search.semantic import available_embedder
from memoryhub.search.visible_rows import load_in_background

MAX_RECENT = 100  # memories among which the most important ones are selected at session start
MAX_IMPORTANT = 3  # memories in addition to the last summary
MIN_IMPORTANCE = 0.6
MAX_PINNED = 100  # pinned memories at the start of a session, whatever their budget
PREVIEW_DEADLINE_MS = 5_000
logger = logging.getLogger(__name__)

CandidateFinder = Callable[[InjectionRequest, Clearance, datetime], CandidateSet]


def _live_memories(clearance: Clearance, now: datetime) -> MemoryQuerySet:
    """Return the live memories without those that a visible memory replaces."""
    return Memory.objects.visible_to(clearance).live(max(now, timezone.now())).without_replaced()


def pinned_memories(request: InjectionRequest, clearance: Clearance, now: datetime) -> MemoryQuerySet:
    """Return the pinned memories of the project and of no project, which every session opens with."""
    return _live_memories(clearance, now).pinned().filter(project__in={request.project, ""})


def find_pinned(request: InjectionRequest, clearance: Clearance, now: datetime) -> list[Candidate]:
    """Return the most important pinned memories, hardly more than could fit into their budget."""
    limit = min(settings.MEMORYHUB.pinned_token_budget // context_block.MIN_TEXT_TOKENS + 1, MAX_PINNED)
    pinned = pinned_memories(request, clearance, now).order_by("-importance", "pinned_at", "pk")
    return [full_match(memory, now) for memory in pinned[:limit]]


def find_at_session_start(request: InjectionRequest, clearance: Clearance, now: datetime) -> CandidateSet:
    """Return the summary of the previous session, then the best of the latest important memories."""
    live = _live_memories(clearance, now).filter(project=request.project).unpinned()
    recent = list(live.order_by("-updated_at", "-pk")[:MAX_RECENT])
    summaries = [
        full_match(memory, now)
        for memory in recent
        if memory.session_id != request.session_id and memory.type == MemoryType.SESSION_SUMMARY.value
    ]
    important = [
        full_match(memory, now)
        for memory in recent
        if memory.type not in SUMMARY_TYPES and memory.importance >= MIN_IMPORTANCE
    ]
    ranked = [*summaries[:1], *sorted(important, key=lambda one: -one.rank)[:MAX_IMPORTANT]]
    return CandidateSet(ranked, find_pinned(request, clearance, now), _find_page(request, clearance, now))


def _find_page(request: InjectionRequest, clearance: Clearance, now: datetime) -> list[PageEntry]:
    """Return the lines of the project's page, unless it is switched off or the agent still has it.

    Pinned memories have their own part of the block.
    """
    if not settings.MEMORYHUB.project_page_tokens or not request.budget:
        return []
    if not Project.named(request.project).sends_page or page_was_shown(request, clearance, now):
        return []
    entries = find_entries(request.project, clearance, max(now, timezone.now()), request.session_id)
    withholds = settings.MEMORYHUB.outdated_memories == WITHHOLD
    wanted = [entry for entry in entries if not entry.pinned and not (withholds and entry.may_be_outdated)]
    return [clean for entry in wanted if (clean := clean_entry(entry))]


def fit_page(
    entries: list[PageEntry], project: str, left: int, shown: Iterable[Candidate]
) -> tuple[list[PageEntry], int]:
    """Return the lines of the page that fit and are not shown as memories, and the tokens that they take."""
    if not entries:
        return [], 0
    known = {one.memory.uid for one in shown}
    budget = min(settings.MEMORYHUB.project_page_tokens, left - context_block.EMPTY_TOKENS)
    frame = estimate_tokens(render_frame(project, ""))
    lines = [one for one in entries if one.uid not in known]
    fitting, tokens = fit_entries(lines, budget - frame, element_line)
    return fitting, tokens + frame if fitting else 0


def inject_context(
    request: InjectionRequest, actor: Actor, *, now: datetime | None = None, record: bool = True
) -> InjectionResult:
    """Return the block for a prompt; empty on an error or timeout. Never raises.

    With ``record`` False, nothing is logged and no access is counted.
    """

    def find(request: InjectionRequest, clearance: Clearance, now: datetime) -> CandidateSet:
        require_loaded(injectable_memories(clearance, request.project, now))
        return candidates_for_prompt(request, clearance, now)

    return _inject(find, request, actor, now=now, record=record)


def inject_at_session_start(
    request: InjectionRequest,
    actor: Actor,
    now: datetime | None = None,
    *,
    record: bool = True,
    deadline_ms: float | None = None,
) -> InjectionResult:
    """Return the block for a new session.

    It contains pinned memories, the project's page, the last summary, and recent important memories.
    """
    find = find_at_session_start
    return _warn_if_missed(_inject(find, request, actor, now=now, record=record, deadline_ms=deadline_ms))


def preview_session_start(
    project: str, actor: Actor, *, private: bool = False, secret: bool = False
) -> InjectionResult:
    """Return what the next session of Claude Code in a project receives, without logging it.

    It may take longer than a real injection, so that a busy hub can still show it.
    """
    if not capabilities.is_enabled(capabilities.STORE):
        return InjectionResult(skipped=[capabilities.disabled_message(capabilities.STORE)])
    request = InjectionRequest(
        "",
        session_id=new_uid(),
        project=project,
        token_budget=min(settings.MEMORYHUB.token_budget, MAX_CONTEXT_TOKENS),
        max_tokens=MAX_CONTEXT_TOKENS,
        allow_private=private,
        allow_secret=secret,
    )
    result = inject_at_session_start(request, actor, record=False, deadline_ms=PREVIEW_DEADLINE_MS)
    if len(result.context) > MAX_CONTEXT_CHARS:
        return InjectionResult(skipped=[f"more than {MAX_CONTEXT_CHARS} characters are not sent"])
    return result


def inject_pinned(request: InjectionRequest, actor: Actor, now: datetime | None = None) -> InjectionResult:
    """Return the block of the pinned memories alone. Without any, nothing is logged."""
    request = with_default_project(request, actor)
    moment = now or timezone.now()
    if not pinned_memories(request, request.clearance(actor), moment).exists():
        return InjectionResult()
    result = _inject(lambda *given: CandidateSet(pinned=find_pinned(*given)), request, actor, now=moment)
    return _warn_if_missed(result)


def _warn_if_missed(result: InjectionResult) -> InjectionResult:
    """Return the block of a session start with a warning if it is empty because a step failed."""
    return result if result.context else replace(result, warnings=[*result.warnings, *result.skipped])


def inject_for_tool_call(
    request: InjectionRequest, files: Sequence[str], root: str, failure: str, actor: Actor, now: datetime
) -> InjectionResult:
    """Return the block for a tool call that touches files or reports a failure. Logged only if not empty.

    ``root``: the name of the folder of the repository, if the paths of the files start there.
    """

    def find(request: InjectionRequest, clearance: Clearance, now: datetime) -> CandidateSet:
        candidates = find_about_files(clearance, files, root, request.project, request.session_id, now)
        if failure:
            candidates += find_repairs(injectable_memories(clearance, request.project, now), failure, now)
        return CandidateSet(candidates)

    if request.project and not request.clearance(actor).includes_project(request.project):
        return InjectionResult()
    deadline_ms = settings.MEMORYHUB.tool_deadline_ms
    return _inject(find, request, actor, now=now, record="shown", deadline_ms=deadline_ms)


def select_for_new_session(candidates: CandidateSet, request: InjectionRequest, now: datetime) -> Selection:
    """Return the selection for a session that was not shown anything yet. Nothing is logged."""
    return _select(candidates, request, {}, now, Deadline(math.inf))


def candidates_for_prompt(request: InjectionRequest, clearance: Clearance, now: datetime) -> CandidateSet:
    memories = injectable_memories(clearance, request.project, now)
    return CandidateSet(find_candidates(memories, request.prompt, now))


def _inject(
    find: CandidateFinder,
    request: InjectionRequest,
    actor: Actor,
    *,
    now: datetime | None = None,
    record: bool | Literal["shown"] = True,
    deadline_ms: float | None = None,
) -> InjectionResult:
    """Return a block. ``record``: whether to log it, or to log it if it shows or misses something."""
    try:
        _load_rules()
    except Exception:
        logger.exception("the rules or the model of injections could not be loaded")
    deadline = Deadline(deadline_ms or settings.MEMORYHUB.injection_deadline_ms)
    now, request = now or timezone.now(), with_default_project(request, actor)
    try:
        return _inject_in_time(find, request, actor, now, deadline, record)
    except DeadlinePassed as passed:
        cause = passed.args[0] if passed.args else f"after {deadline.milliseconds:g} ms"
        reason = f"injection: not ready {cause}"
        logger.warning("an injection was left out, not ready %s", cause)
        # The first search of a large store reads all visible rows, which can take longer than the deadline.
        load_in_background(injectable_memories(request.clearance(actor), request.project, now))
    except Exception as error:
        logger.exception("an injection failed and was left out")
        cause = (
            database_errors.DAMAGE_ADVICE if database_errors.is_damage(error) else "the log has the details"
        )
        reason = f"injection failed; {cause}"
    missed = InjectionResult(skipped=[reason], took_ms=deadline.elapsed_ms())
    if record:
        try:
            record_injection(request, missed, request.clearance(actor), actor, now, deadline)
        except Exception:
            logger.exception("a missed injection could not be logged")
    return missed


@cache
def _load_rules() -> None:
    """Load the rules and the model. This takes about as long as the deadline, so they are loaded first.

    ``serve`` loads them when it starts, but other servers of the WSGI application do not.
    """
    import memoryhub.security.prompt_injection.detector  # noqa: F401

    if settings.MEMORYHUB.embeddings == "wordllama":  # other providers load in the background
        available_embedder()


def _inject_in_time(
    find: CandidateFinder,
    request: InjectionRequest,
    actor: Actor,
    now: datetime,
    deadline: Deadline,
    record: bool | Literal["shown"],
) -> InjectionResult:
    clearance = request.clearance(actor)
    with deadline.reading():
        candidates = find(request, clearance, now)
        is_empty = not (candidates.ranked or candidates.pinned)
        shown_at = {} if is_empty else previously_shown(request, clearance, now)
        chosen = _select(candidates, request, shown_at, now, deadline)
    result = _build_result(chosen, request.project, deadline)
    deadline.check()
    if record == "shown" and not result.injected:
        return result
    if record and not record_injection(request, result, clearance, actor, now, deadline):
        busy = "injection: it could not be logged in time, so nothing is shown"
        return InjectionResult(skipped=[*result.skipped, busy], took_ms=deadline.elapsed_ms())
    return result


def _build_result(chosen: Selection, project: str, deadline: Deadline) -> InjectionResult:
    """Render the block and describe what is in it and what was withheld."""
    context = _render(chosen, project)
    return InjectionResult(
        context=context,
        injected=[
            InjectedItem(one.candidate.memory.uid, one.candidate.score, one.scale, one.candidate.factor)
            for one in chosen.shown
        ],
        withheld=[WithheldItem(one.memory.uid, one.reason, one.detail) for one in chosen.withheld],
        tokens_used=estimate_tokens(context),
        took_ms=deadline.elapsed_ms(),
        skipped=list(dict.fromkeys(chosen.notes)),
        warnings=chosen.warnings,
        shown=chosen.shown,
        choice=chosen,
        page=chosen.page,
    )


def _select(
    candidates: CandidateSet,
    request: InjectionRequest,
    shown_at: dict[str, datetime],
    now: datetime,
    deadline: Deadline,
) -> Selection:
    """Select the pinned memories and the others, each within their budget."""
    max_tokens = request.max_tokens
    limit, left, pinned = settings.MEMORYHUB.pinned_token_budget, request.budget, Selection()
    if candidates.pinned:
        limit = limit if max_tokens is None else min(limit, max_tokens)
        pinned = selection.select_pinned(candidates.pinned, shown_at, limit, deadline)
        if max_tokens is not None:
            left = min(left, max_tokens - estimate_tokens(_render(pinned)))
    page, reserved = fit_page(candidates.page, request.project, left, candidates.ranked)
    left -= reserved
    chosen = selection.select_memories(
        candidates.ranked, shown_at, left, request.count, now, deadline, request.floor
    )
    chosen.shown = pinned.shown + chosen.shown
    chosen.withheld = pinned.withheld + chosen.withheld
    chosen.warnings = selection.pinned_warnings(pinned)
    if page:  # lines of memories that were withheld may fill the rest of the tokens
        left, shown = reserved + context_block.EMPTY_TOKENS, [one.candidate for one in chosen.shown]
        chosen.page, _ = fit_page(candidates.page, request.project, left, shown)
    return chosen


def _render(chosen: Selection, project: str = "") -> str:
    return context_block.render_block(
        [one.passage for one in chosen.shown],
        [one.text for one in chosen.shown],
        render_element(project, chosen.page) if chosen.page else "",
        sum(one.scale == selection.PINNED for one in chosen.shown),
    )


class MemoryStore:
    """Store, find and delete memories and facts.

    Each method takes the actor: the name for the journal, and the clearance. An actor never sees or changes
    a row outside of its clearance. Refusals are raised as ``memoryhub.memories.StoreError``.
    """

    def store(self, actor: Actor, content: str, **fields: Any) -> memories.StoreResult:
        """Store a memory; ``fields`` are those of ``POST /memories``. The result has outcome and memory."""
        return memories.create_memory(MemoryDraft(content=content, **fields), actor)

    def memories(self, actor: Actor, **filters: Any) -> MemoryQuerySet:
        """Return a queryset of visible live memories; ``filters`` are those of ``GET /memories``."""
        return MemoryFilter(**filters).select(actor.clearance)

    def search(
        self, actor: Actor, query: str, limit: int = 10, min_score: float | None = None, **filters: Any
    ) -> SearchResults:
        """Search visible memories; ``hits`` have the memory, its score and the snippet, best first."""
        found = search_memories(self.memories(actor, **filters), query, limit=limit, min_score=min_score)
        record_reveals((hit.memory for hit in found.hits), actor, "python search")
        return found

    def recall(self, actor: Actor, query: str, max_tokens: int = 1000, **filters: Any) -> dict[str, Any]:
        """Return an index and details of matches within a token budget, like ``POST /recall``."""

        def detail(memory: Memory, score: float) -> dict[str, Any]:
            replacements = visible_replacements([memory], actor.clearance)
            return {**serializers.memory(memory, replacements), "score": score}

        return recall_memories(
            self.memories(actor, **filters),
            RecallRequest(query, max_tokens),
            detail,
            on_shown=lambda shown: record_reveals(shown, actor, "python recall"),
        )

    def inject(self, actor: Actor, prompt: str, **options: Any) -> InjectionResult:
        """Return the context block for a prompt; ``options`` are those of ``POST /inject``."""
        return inject_context(InjectionRequest(prompt, **options), actor)

    def delete(self, actor: Actor, uid: str) -> bool:
        """Move a memory to the trash; return whether it was there."""
        return bool(memories.trash_memories([uid], actor))

    def store_fact(self, actor: Actor, subject: str, predicate: str, object: str, **fields: Any) -> Fact:
        """Store a fact, or update the confidence of the same one."""
        draft = FactDraft(subject=subject, predicate=predicate, object=object, **fields)
        return facts.create_fact(draft, actor)[0]

    def facts(self, actor: Actor, **filters: Any) -> FactQuerySet:
        """Return visible facts, newest first; ``filters`` are those of ``GET /facts``."""
        return queries.query_facts(actor.clearance, **filters)


STORE = MemoryStore()
