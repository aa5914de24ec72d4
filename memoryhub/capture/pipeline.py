"""The hook pipeline: which handlers run for which event, in priority order, each isolated from the others."""

from __future__ import annotations

import logging
from datetime import datetime

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from memoryhub import capabilities
from memoryhub.access.policy import LEVELS, Actor, Clearance, Sensitivity, stricter_level
from memoryhub.backends.fts_query import match_any
from memoryhub.backends.statements import rare_words
from memoryhub.capture import event_log, segments, summaries
from memoryhub.capture import services as capturing
from memoryhub.capture.events import (
    CHECKPOINT,
    PROMPT_SUBMIT,
    SESSION_END,
    SESSION_START,
    TOOL_POST,
    DispatchResult,
    HandlerReport,
    HandlerResult,
    Hook,
    HookContext,
    HookEvent,
)
from memoryhub.capture.session_state import SessionState, locked_state
from memoryhub.core.text import STOP_WORDS, terms, words
from memoryhub.core.transactions import is_database_busy
from memoryhub.injection.services import (
    InjectionRequest,
    InjectionResult,
    inject_at_session_start,
    inject_context,
)
from memoryhub.maintenance import runs
from memoryhub.maintenance.registry import run_now
from memoryhub.memories.errors import StoreError
from memoryhub.models import Event, Memory
from memoryhub.models.fields import new_uid
from memoryhub.models.querysets import MemoryQuerySet

AUTO = "auto"


def consolidate(passage: HookContext) -> HandlerResult:
    return _run_maintenance("consolidate", settings.MEMORYHUB.session_end_consolidation, passage)


def compress(passage: HookContext) -> HandlerResult:
    return _run_maintenance("compress", settings.MEMORYHUB.session_end_compression, passage)


def _run_maintenance(operation: str, mode: str, passage: HookContext) -> HandlerResult:
    """At once in a small project; in a large one a run of its own, so that the agent need not wait."""
    if mode != AUTO:
        return "skipped", "left to the scheduler and to people (set to manual)"
    session = passage.session
    guarded = _has_non_public_events(passage)
    actor = _maintenance_actor("upkeep" if guarded else "session-end", passage)
    project = {"project": session.project}
    limit = settings.MEMORYHUB.inline_maintenance_limit
    live = Memory.objects.visible_to(actor.clearance).live().filter(project=session.project)
    if live.order_by()[: limit + 1].count() > limit:
        run = runs.enqueue(operation, project, actor, may_wait=True)
        return "ok", f"queued as run {run.uid}"
    ran = run_now(operation, project, actor, run_uid=new_uid() if guarded else session.session_id)
    return "ok", f"{ran.changed} of {ran.seen} memories changed" if ran.seen else "no memories to tend"


def _has_non_public_events(passage: HookContext) -> bool:
    """Whether part of the session is above public.

    What tending changes is journaled at the level of each memory: neither the session's id nor that one has
    ended may stand there for readers who cannot know of it.
    """
    public = Sensitivity.PUBLIC.value
    if passage.happening.sensitivity != public:
        return True
    return Event.objects.filter(session=passage.session).exclude(sensitivity=public).exists()


def _maintenance_actor(name: str, passage: HookContext) -> Actor:
    """Return an actor for the session's project that sees no more of it than the caller.

    Upkeep moves memories to the trash. The daily maintenance does that with memories hidden from the caller.
    """
    project = Clearance(frozenset(LEVELS), projects=frozenset({passage.session.project}))
    return Actor(f"system:{name}", passage.actor.clearance.within(project))


MAX_RARE_WORDS = 6
MAX_POSTINGS = 600  # memories that hold one of the words asked for; a word in more of them is not rare
MAX_NEIGHBOURS = 12
# Words of a text whose rarity is asked for: names and long words are the rare ones as a rule.
_MAX_WORDS_LOOKED_UP = 30
_REQUIRED_COMMON_WORDS = 4  # common words that a memory has to hold all of
_MAX_COMPARED_CHARS = 4000  # characters of a text that are compared


def find_similar_terms(memories: MemoryQuerySet, text: str) -> list[set[str]]:
    """The terms of the memories that share most rare words with a text, at most :data:`MOST_NEIGHBOURS`.

    Of a text that has only common words, the latest memories that hold several of them together. ``memories``
    are gated by the caller. Two queries, whatever the store holds.
    """
    useful = [word for word in dict.fromkeys(words(text)) if len(word) > 2 and word not in STOP_WORDS]
    likely = sorted(useful, key=lambda word: (-any(map(str.isdigit, word)), -len(word)))[
        :_MAX_WORDS_LOOKED_UP
    ]
    if not likely:
        return []
    counted = rare_words(likely, MAX_POSTINGS)
    rare = sorted(counted, key=lambda word: (counted[word], word))[:MAX_RARE_WORDS]
    if rare:
        found = memories.matching(match_any(rare))
    else:
        together = " AND ".join(match_any([word]) for word in likely[:_REQUIRED_COMMON_WORDS])
        found = memories.matching(together).order_by("-text_index__pk")
    rows = found.values_list("title", "content")[:MAX_NEIGHBOURS]
    return [terms(content[:_MAX_COMPARED_CHARS]) | terms(title) for title, content in rows]


# Sources of Claude Code's SessionStart after which the agent has nothing of the session before its eyes.
_SOURCES_WITHOUT_CONTEXT = frozenset({"startup", "clear", "compact"})


def inject_memories(passage: HookContext) -> HandlerResult:
    """prompt:submit @50."""
    if not passage.happening.reads:
        return "skipped", "this token lacks the right 'read'"
    wanted = _injection_request(passage, str(passage.happening.data.get("prompt") or ""))
    return _report_injection(passage, inject_context(wanted, passage.actor, now=passage.at))


def _injection_request(passage: HookContext, prompt: str) -> InjectionRequest:
    happening = passage.happening
    with_state = SessionState.of(passage.session.state, passage.session.segment)
    budget = settings.MEMORYHUB.token_budget
    return InjectionRequest(
        prompt=prompt,
        session_id=passage.session.session_id,
        project=passage.session.project,
        token_budget=min(budget, happening.most_tokens) if happening.most_tokens is not None else budget,
        allow_private=happening.allow_private,
        allow_secret=happening.allow_secret,
        fresh_since=datetime.fromisoformat(with_state.fresh_since) if with_state.fresh_since else None,
        sensitivity=happening.sensitivity,
    )


def _report_injection(passage: HookContext, done: InjectionResult) -> HandlerResult:
    passage.context = done.context
    looked_at = len(done.injected) + len(done.withheld)
    if not looked_at:
        said = "nothing to show"
    elif _reveals_hidden_memories(passage, done):
        said = "the injection log says what was shown"
    else:
        said = f"{len(done.injected)} of {looked_at} memories shown"
    return "ok" if done.injected else "skipped", "; ".join([said, *done.skipped])


def _reveals_hidden_memories(passage: HookContext, done: InjectionResult) -> bool:
    """Whether a number would tell those who may see the event of memories that they may not see."""
    level = passage.event.sensitivity
    memories = [one.candidate.memory for one in done.shown]
    memories += [one.memory for one in done.choice.withheld] if done.choice else []
    return any(stricter_level(memory.sensitivity, level) != level for memory in memories)


def assign_segment(passage: HookContext) -> HandlerResult:
    """tool:post @100."""
    call = passage.call
    assert call is not None  # noqa: S101 recording.begin read it
    event = passage.event
    placed = segments.place_call(call, passage.session, passage.at, event.sensitivity, passage.actor)
    event.segment, event.boundary = placed.segment, placed.boundary
    if placed.late:
        return "ok", f"came late; segment {placed.segment}, the window is as it was"
    if placed.boundary:
        return "ok", f"segment {placed.segment} begins, similarity {placed.similarity:.2f}"
    return "ok", f"segment {placed.segment}"


def capture_tool_call(passage: HookContext) -> HandlerResult:
    """tool:post @150."""
    call, event, actor = passage.call, passage.event, passage.actor
    assert call is not None  # noqa: S101 recording.begin read it
    done = capturing.capture_call(call, _capture_context(passage), _neighbour_lookup(passage), actor)
    event.memory, event.skip_reason = done.memory, done.reason
    if done.judged:
        event.memorability, event.memorability_parts = round(done.judged.total, 3), done.judged.parts()
    said = [f"kept as {done.memory.type} {done.memory.uid}" if done.memory else f"not kept: {done.reason}"]
    said += [f"noted before: {memory.uid}" for memory in done.beside if memory != done.memory]
    if done.due:
        captured = [*([done.memory] if done.memory else []), *done.beside]
        said.append(f"checkpoint: {_checkpoint(passage, captured)}")
    return "ok" if done.memory else "skipped", "; ".join([*said, *done.notes])


def _checkpoint(passage: HookContext, captured: list[Memory]) -> str:
    """What became of a checkpoint; that it fails does not make a captured memory a failure."""
    passing = summaries.CurrentEvent(passage.event, captured)
    try:
        return summaries.store_checkpoint(passage.session, passage.at, passage.actor, passing)[1]
    except Exception:
        logger.exception("the checkpoint of a session failed")
        return "failed; the log has the details"


def _capture_context(passage: HookContext) -> capturing.CaptureContext:
    segment = passage.event.segment if capabilities.is_enabled(capabilities.BOUNDARIES) else 0
    return capturing.CaptureContext(passage.session, segment, passage.at, passage.event.sensitivity)


def _neighbour_lookup(passage: HookContext) -> capturing.Neighbours:
    """What is remembered already in this project, as far as the agent may know of it."""
    memories = Memory.objects.visible_to(passage.actor.clearance).live()
    within = memories.filter(project=passage.session.project)
    return lambda text: find_similar_terms(within, text)


def begin_session(passage: HookContext) -> HandlerResult:
    """session:start @50: a sitting starts with a fresh window."""
    happening = passage.happening
    with locked_state(passage.session) as state:
        known = state.calls > 0
        late = bool(state.window_at) and passage.at < datetime.fromisoformat(state.window_at)
        if not late:
            state.window, state.doubt, state.output = [], [], ""
            if str(happening.data.get("source", "startup")) in _SOURCES_WITHOUT_CONTEXT:
                state.fresh_since = passage.at.isoformat()
    said = "the session goes on" if known else "the session begins"
    if not (happening.greets and happening.reads):
        return "ok", said
    passage.session.refresh_from_db(fields=["state", "segment"])
    _, told = _report_injection(
        passage, inject_at_session_start(_injection_request(passage, ""), passage.actor, passage.at)
    )
    return "ok", f"{said}; {told}"


def end_session(passage: HookContext) -> HandlerResult:
    """session:end @100: what was noted and not told yet, then the summary of it all."""
    rest = capturing.capture_remaining_notes(
        _capture_context(passage), _neighbour_lookup(passage), passage.actor
    )
    passing = summaries.CurrentEvent(passage.event, rest.beside)
    memory, outcome = summaries.summarise_session(passage.session, passage.at, passage.actor, passing)
    passage.event.memory = memory
    said = [f"summary {outcome}: {memory.uid}" if memory else outcome]
    said += [f"noted before: {one.uid}" for one in rest.beside]
    return "ok" if memory else "skipped", "; ".join([*said, *rest.notes])


def create_checkpoint(passage: HookContext) -> HandlerResult:
    """session:checkpoint @100: what was injected so far is about to be lost to the agent."""
    with locked_state(passage.session) as state:
        state.fresh_since = passage.at.isoformat()
    memory, outcome = summaries.store_checkpoint(passage.session, passage.at, passage.actor)
    passage.event.memory = memory
    return ("ok", f"checkpoint {outcome}: {memory.uid}") if memory else ("skipped", outcome)


logger = logging.getLogger(__name__)

# LetsGo's memory guide, "Hook Execution Chain"; lower priorities come first.
HOOKS: tuple[Hook, ...] = (
    Hook(PROMPT_SUBMIT, 50, "inject", capabilities.STORE, inject_memories, repeats=True),
    Hook(TOOL_POST, 100, "boundaries", capabilities.BOUNDARIES, assign_segment),
    Hook(TOOL_POST, 150, "capture", capabilities.STORE, capture_tool_call),
    Hook(SESSION_START, 50, "capture", capabilities.STORE, begin_session),
    Hook(SESSION_END, 100, "capture", capabilities.STORE, end_session),
    Hook(SESSION_END, 200, "consolidation", capabilities.CONSOLIDATION, consolidate),
    Hook(SESSION_END, 300, "compression", capabilities.COMPRESSION, compress),
    Hook(CHECKPOINT, 100, "capture", capabilities.STORE, create_checkpoint),
)


def dispatch(happening: HookEvent, actor: Actor, now: datetime | None = None) -> DispatchResult:
    """Run an event through the chain and record it. A handler that fails does not stop the others.

    StoreError where the event itself cannot be used (it names the field), DatabaseError where nothing can be
    read or recorded. An event that came before changes nothing.
    """
    passage = event_log.prepare_event(happening, actor, now or timezone.now())
    hooks = sorted((hook for hook in HOOKS if hook.event == happening.event), key=lambda hook: hook.priority)
    reports = [_run_hook(hook, passage) for hook in hooks]
    try:
        event = event_log.save_event(passage, reports)
    except DatabaseError:
        if not passage.context:
            raise
        logger.exception("%s could not be recorded; its context is given all the same", happening.event)
        event = None
    return DispatchResult(reports, passage.context, event)


def _run_hook(hook: Hook, passage: HookContext) -> HandlerReport:
    if passage.repeated and not hook.repeats:
        return HandlerReport(hook.name, hook.priority, "skipped", "this event was recorded before")
    if not capabilities.is_enabled(hook.capability):
        return HandlerReport(
            hook.name, hook.priority, "skipped", capabilities.disabled_message(hook.capability)
        )
    try:
        status, detail = hook.handler(passage)
    except Exception as error:
        logger.exception("hook %s at %s failed", hook.name, hook.event)
        return HandlerReport(hook.name, hook.priority, "failed", _failure_reason(error))
    return HandlerReport(hook.name, hook.priority, status, detail)


def _failure_reason(error: Exception) -> str:
    """Why a handler failed, in words that tell nothing of what it worked on."""
    if isinstance(error, StoreError):
        return f"refused: {error.code} {error.field}".strip()
    if is_database_busy(error):
        return "the database is busy"
    if isinstance(error, DatabaseError):
        return "the database cannot serve this; see /readyz"
    return "an unexpected error; the log has the details"
