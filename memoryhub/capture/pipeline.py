"""The hook pipeline: which handlers run for which event, in priority order, each isolated from the others.

It also stores references to code with new memories. Later tool calls are compared with these references.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from memoryhub import capabilities, hooks, memories
from memoryhub.access.policy import LEVELS, Actor, stricter_level
from memoryhub.capture import event_log, projects, segments, services, summaries
from memoryhub.capture.classification import failure_line
from memoryhub.capture.code_lines import MAX_FILES, line_hashes, lines_of_memory
from memoryhub.capture.events import DispatchResult, HandlerReport, HookContext, HookEvent
from memoryhub.capture.observation import moved_paths, relative_path, removed_paths
from memoryhub.capture.segments import SessionState, locked_state
from memoryhub.capture.services import compress, consolidate
from memoryhub.core import database_errors
from memoryhub.core.database_errors import STORE_UNAVAILABLE, is_database_busy
from memoryhub.core.dates import parse_moment
from memoryhub.core.vocabulary import SUMMARY_TYPES
from memoryhub.hooks import (
    CHECKPOINT,
    PROMPT_SUBMIT,
    SESSION_END,
    SESSION_START,
    TOOL_CONTEXT,
    TOOL_POST,
    HandlerResult,
    Hook,
)
from memoryhub.injection.candidates import MAX_SHOWN_FOR_TOOL
from memoryhub.injection.queries import decide_abandoned, decide_outcomes, decide_quietly
from memoryhub.injection.requests import InjectionRequest, InjectionResult
from memoryhub.injection.services import (
    inject_at_session_start,
    inject_context,
    inject_for_tool_call,
    inject_pinned,
)
from memoryhub.memories import FileChange
from memoryhub.memories.errors import StoreError
from memoryhub.models import Event, Memory, Session
from memoryhub.security.secrets import redact

logger = logging.getLogger(__name__)

_WAITS = "waits for approval in the review queue"
_LATE = "delivered late; the agent no longer waits"
# Sources of Claude Code's SessionStart that leave the agent without the earlier context of the session.
_SOURCES_WITHOUT_CONTEXT = frozenset({"startup", "clear", "compact"})


def inject_memories(context: HookContext) -> HandlerResult:
    if context.hook_event.is_late:
        return "skipped", _LATE
    if not context.hook_event.may_read:
        return "skipped", "this token lacks the right 'read'"
    request = _injection_request(context, str(context.hook_event.data.get("prompt") or ""))
    return _report_injection(context, inject_context(request, context.actor, now=context.at))


def inject_for_tool(context: HookContext) -> HandlerResult:
    """Inject memories of the file that a tool opens or edits, or of the failure that it reports."""
    call, budget = context.call, settings.MEMORYHUB.tool_token_budget
    if context.hook_event.is_late:
        return "skipped", _LATE
    if call is None or call.secret or not budget or not context.hook_event.may_read:
        return "skipped", "nothing to show"
    seen = call.observation
    failure = redact(failure_line(seen.output)) if seen.failed and seen.kind == "run" else ""
    is_known = context.session.has_file_links or context.session.has_code_references
    files = call.files if seen.kind in ("read", "write") and is_known else ()
    if not failure and not files:
        return "skipped", "nothing to show"
    label = f"{seen.tool}: {failure or ', '.join(files)}"
    request = replace(
        _injection_request(context, label),
        token_budget=budget,
        max_count=MAX_SHOWN_FOR_TOOL,
        once_in_session=True,
    )
    files = tuple(dict.fromkeys([*files, *map(context.session.path_in_folder, files)]))
    result = inject_for_tool_call(request, files, context.root_name, failure, context.actor, context.at)
    return _report_injection(context, result)


def _injection_request(context: HookContext, prompt: str) -> InjectionRequest:
    hook_event = context.hook_event
    budget = settings.MEMORYHUB.token_budget
    return InjectionRequest(
        max_tokens=hook_event.max_tokens,
        prompt=prompt,
        session_id=context.session.session_id,
        project=context.session.project,
        token_budget=budget if hook_event.max_tokens is None else min(budget, hook_event.max_tokens),
        allow_private=hook_event.allow_private,
        allow_secret=hook_event.allow_secret,
        fresh_since=parse_moment(SessionState.from_row(context.session.state, 1).fresh_since),
        sensitivity=hook_event.sensitivity,
        session=context.session,
    )


def _report_injection(context: HookContext, result: InjectionResult) -> HandlerResult:
    context.injected, context.warnings = result.context, result.warnings
    considered = len({one.uid for one in result.injected} | {one.uid for one in result.withheld})
    if not considered and not result.page:
        summary = "nothing to show"
    elif _reveals_hidden_memories(context, result):
        summary = "the injection log says what was shown"
    else:
        page = [f"{len(result.page)} lines of the project page shown"] if result.page else []
        shown = f"{len(result.injected)} of {considered} memories shown"
        summary = "; ".join([shown, *page, *result.warnings])
    return "ok" if result.context else "skipped", "; ".join([summary, *result.skipped])


def _reveals_hidden_memories(context: HookContext, result: InjectionResult) -> bool:
    """Whether the counts include memories above the level of the event, which its readers may not see."""
    level = context.event.sensitivity
    considered: list[Any] = [*result.page, *(shown.candidate.memory for shown in result.shown)]
    considered += [withheld.memory for withheld in result.choice.withheld] if result.choice else []
    return any(stricter_level(memory.sensitivity, level) != level for memory in considered)


def _place_call(context: HookContext, state: SessionState) -> segments.SegmentPlacement:
    assert context.call is not None  # noqa: S101 set by event_log.prepare_event
    return segments.place_call(context.call, state, context.session, context.at)


def _distill_call(context: HookContext, state: SessionState) -> services.DistilledCall:
    assert context.call is not None  # noqa: S101 set by event_log.prepare_event
    return services.distill_call(context.call, state)


# The steps of a tool call that change the session's state, by the capability of their handler.
_STEPS: dict[str, Callable[[HookContext, SessionState], Any]] = {
    capabilities.BOUNDARIES: _place_call,
    capabilities.STORE: _distill_call,
}


def _step_result(context: HookContext, capability: str) -> Any:
    """Return the result of a step. All steps run in one transaction, when a handler first needs one."""
    if not context.steps:
        context.steps = _run_steps(context)
    result = context.steps[capability]
    if isinstance(result, Exception):
        raise result
    return result


def _run_steps(context: HookContext) -> dict[str, Any]:
    """Run the steps of the enabled capabilities. A step that fails does not change the state."""
    results: dict[str, Any] = {}
    with locked_state(context.session, context.at) as state:
        for capability, step in _STEPS.items():
            if not capabilities.is_enabled(capability):
                continue
            before, segment = json.dumps(state.as_state()), state.segment
            try:
                results[capability] = step(context, state)
            except Exception as error:  # noqa: BLE001 raised again in the handler
                results[capability] = error
                vars(state).update(vars(SessionState.from_row(json.loads(before), segment)))
    return results


def assign_segment(context: HookContext) -> HandlerResult:
    event = context.event
    placed: segments.SegmentPlacement = _step_result(context, capabilities.BOUNDARIES)
    if placed.boundary:
        segments.record_boundary(
            placed, context.session, event.sensitivity, context.actor, without_words=context.needs_approval
        )
    event.segment, event.boundary = placed.segment, placed.boundary
    if placed.late:
        return "ok", f"arrived late; segment {placed.segment}, window unchanged"
    if placed.boundary:
        return "ok", f"segment {placed.segment} begins, similarity {placed.similarity:.2f}"
    return "ok", f"segment {placed.segment}"


def capture_tool_call(context: HookContext) -> HandlerResult:
    event = context.event
    distilled: services.DistilledCall = _step_result(context, capabilities.STORE)
    result = services.capture_call(distilled, context)
    event.memory, event.skip_reason = result.memory, result.skip_reason
    add_references(_new_memories(result), context.session, context.at, event)
    if context.call and context.call.by_memory_tool:
        add_references_of_tool(context)
    if result.score:
        event.memorability, event.memorability_parts = round(result.score.total, 3), result.score.parts()
    if not result.memory:
        details = [f"not stored: {result.skip_reason}"]
    elif context.needs_approval:
        details = [_WAITS]
    else:
        details = [f"stored as {result.memory.type} {result.memory.uid}"]
    details += _describe_notes(context, [memory for memory in result.from_notes if memory != result.memory])
    if result.checkpoint_due and not context.needs_approval:
        details.append(f"checkpoint: {_try_checkpoint(context, _new_memories(result))}")
    return "ok" if result.memory else "skipped", "; ".join([*details, *result.warnings])


def _new_memories(result: services.CaptureResult) -> list[Memory]:
    return list(dict.fromkeys([*([result.memory] if result.memory else []), *result.from_notes]))


def _describe_notes(context: HookContext, memories: list[Memory]) -> list[str]:
    """Return lines about memories made of earlier calls, without ids of those that wait for approval."""
    return [] if context.needs_approval else [f"noted before: {memory.uid}" for memory in memories]


def _try_checkpoint(context: HookContext, captured: list[Memory]) -> str:
    """Store a checkpoint and return the outcome. Its failure must not turn the capture into a failure."""
    try:
        return summaries.store_checkpoint(context, captured)[1]
    except Exception:
        logger.exception("the checkpoint of a session failed")
        return "failed; the log has the details"


def begin_session(context: HookContext) -> HandlerResult:
    """Empty the boundary window and, if asked to, inject the context of recent sessions."""
    decide_quietly(decide_abandoned, context.session, context.at)
    hook_event = context.hook_event
    with locked_state(context.session) as state:
        is_known = state.calls > 0
        if not state.is_past(context.at):
            state.window, state.doubt, state.output = [], [], ""
            if str(hook_event.data.get("source", "startup")) in _SOURCES_WITHOUT_CONTEXT:
                state.fresh_since = context.at.isoformat()
    detail = "the session continues" if is_known else "the session begins"
    if hook_event.is_late or not hook_event.may_read:
        return "ok", detail
    context.session.refresh_from_db(fields=["state", "segment"])
    inject = inject_at_session_start if hook_event.injects_at_start else inject_pinned
    greeting = inject(_injection_request(context, ""), context.actor, context.at)
    if greeting == InjectionResult():
        return "ok", detail
    return "ok", f"{detail}; {_report_injection(context, greeting)[1]}"


def end_session(context: HookContext) -> HandlerResult:
    """Capture the open notes, write the summary of the session, and decide whether its memories helped."""
    decide_quietly(decide_outcomes, context.session, context.at)
    rest = services.capture_remaining_notes(context)
    add_references(rest.from_notes, context.session, context.at, context.event)
    drop_lines(context.session)
    memory, outcome = summaries.summarise_session(context, rest.from_notes)
    context.event.memory = memory
    if context.needs_approval:
        details = [f"summary {_WAITS}" if memory else outcome]
    else:
        details = [f"summary {outcome}: {memory.uid}" if memory else outcome]
    details += _describe_notes(context, rest.from_notes)
    return "ok" if memory else "skipped", "; ".join([*details, *rest.warnings])


def create_checkpoint(context: HookContext) -> HandlerResult:
    """Summarise the work so far, before the agent loses its context, unless a person has to approve it."""
    with locked_state(context.session) as state:
        state.fresh_since = context.at.isoformat()
    if context.needs_approval:
        return "skipped", "memories wait for approval, so there is no checkpoint"
    memory, outcome = summaries.store_checkpoint(context)
    context.event.memory = memory
    return ("ok", f"checkpoint {outcome}: {memory.uid}") if memory else ("skipped", outcome)


# The priorities of LetsGo's memory guide, "Hook Execution Chain". Lower ones run first.
HOOKS: tuple[Hook, ...] = (
    hooks.register(
        PROMPT_SUBMIT, 50, inject_memories, name="inject", capability=capabilities.STORE, repeats=True
    ),
    hooks.register(TOOL_CONTEXT, 50, inject_for_tool, name="inject", capability=capabilities.STORE),
    hooks.register(TOOL_POST, 100, assign_segment, name="boundaries", capability=capabilities.BOUNDARIES),
    hooks.register(TOOL_POST, 150, capture_tool_call, name="capture", capability=capabilities.STORE),
    hooks.register(SESSION_START, 50, begin_session, name="capture", capability=capabilities.STORE),
    hooks.register(SESSION_END, 100, end_session, name="capture", capability=capabilities.STORE),
    hooks.register(
        SESSION_END, 200, consolidate, name="consolidation", capability=capabilities.CONSOLIDATION
    ),
    hooks.register(SESSION_END, 300, compress, name="compression", capability=capabilities.COMPRESSION),
    hooks.register(CHECKPOINT, 100, create_checkpoint, name="capture", capability=capabilities.STORE),
)


def _skip_event(event: str, reason: str) -> DispatchResult:
    """Return the result of an event that is not recorded."""
    reports = [HandlerReport(hook.name, hook.priority, "skipped", reason) for hook in hooks.chains[event]]
    return DispatchResult(reports, "", None)


def dispatch(hook_event: HookEvent, actor: Actor, now: datetime | None = None) -> DispatchResult:
    """Run an event through the pipeline and record it, as far as the project's settings allow.

    A failing handler does not stop the others. A repeated event changes nothing. A tool that is about to run
    is not recorded. Raise StoreError for an invalid field of the event, and DatabaseError if the event cannot
    be recorded and there is no context to return.
    """
    now = now or timezone.now()
    hook_event = event_log.validate_event(hook_event, actor)
    received = event_log.receive_event(hook_event, now)
    project = received.project
    if not project.records_events(now):
        return _skip_event(hook_event.event, projects.leave_out(project, hook_event.event, now))
    ignored = event_log.ignored_paths(project, hook_event.cwd)
    if ignored and (prompt := hook_event.data.get("prompt")):
        hook_event = replace(hook_event, data={**hook_event.data, "prompt": ignored.redact(str(prompt))})
    context = event_log.prepare_event(hook_event, received, actor)
    if context.ignored:
        return _skip_event(hook_event.event, "only ignored files")
    reports = []
    if hook_event.event in (TOOL_POST, TOOL_CONTEXT):
        ran = [_run_hook(hook, context) for hook in hooks.chains[TOOL_CONTEXT]]
        reports = [report for report in ran if report.status != "skipped"]
    if hook_event.event == TOOL_CONTEXT:
        return DispatchResult(reports, context.injected, None, context.warnings)
    reports += [_run_hook(hook, context) for hook in hooks.chains[hook_event.event]]
    try:
        event = event_log.save_event(context, reports)
    except DatabaseError:
        if not context.injected:
            raise
        logger.exception("cannot record %s; its context is returned anyway", hook_event.event)
        event = None
    if event is not None and hook_event.event == TOOL_POST:
        compare_event(context)
    return DispatchResult(reports, context.injected, event, context.warnings)


def _run_hook(hook: Hook, context: HookContext) -> HandlerReport:
    if context.repeated and not hook.repeats:
        return HandlerReport(hook.name, hook.priority, "skipped", "this event was recorded before")
    if hook.capability and not capabilities.is_enabled(hook.capability):
        return HandlerReport(
            hook.name, hook.priority, "skipped", capabilities.disabled_message(hook.capability)
        )
    try:
        status, detail = hook.handler(context) or ("ok", "")
    except Exception as error:
        logger.exception("hook %s at %s failed", hook.name, hook.event)
        return HandlerReport(hook.name, hook.priority, "failed", _failure_reason(error))
    return HandlerReport(hook.name, hook.priority, status, detail)


def _failure_reason(error: Exception) -> str:
    """Return why a handler failed, without any content that it worked on."""
    if isinstance(error, StoreError):
        return f"refused: {error.code} {error.field}".strip()
    if database_errors.is_damage(error):
        return database_errors.DAMAGE_ADVICE
    if is_database_busy(error):
        return "the database is busy"
    if isinstance(error, DatabaseError):
        return STORE_UNAVAILABLE
    return "an unexpected error; the log has the details"


MAX_EVENTS = 150  # of a session whose lines a new memory may be about
MAX_STORED_BY_TOOL = 3  # memories that one call of a memory tool may have stored
STORED_WITHIN = timedelta(minutes=2)  # before the event of the call
_REMOVES_FILES = re.compile(r"\b(?:rm|mv)\s")


def add_references(found: Iterable[Memory], session: Session, at: datetime, current: Event) -> None:
    """Link the new memories of a session to the lines of code that they are about.

    A memory never depends on events above its level, because its readers see when it is marked. A failure is
    logged; the memory stays.
    """
    try:
        for memory in found:
            if memory.type not in SUMMARY_TYPES:
                _add_references(memory, session, at, current)
    except Exception:
        logger.exception("the code that a memory is about could not be noted")


def _add_references(memory: Memory, session: Session, at: datetime, current: Event) -> None:
    links = list(memory.files.order_by("pk").values_list("access", "path"))
    files = [path for access, path in links if access == "modified"] or [path for _, path in links]
    files = [relative_path(path, session.top) for path in files]  # an agent may name whole paths
    if not files:
        return
    levels = [level for level in LEVELS if stricter_level(level, memory.sensitivity) == memory.sensitivity]
    rows = Event.objects.filter(session=session, lines__has_key="path", sensitivity__in=levels)
    digests = list(rows.order_by("-at", "-pk").values_list("lines", flat=True)[:MAX_EVENTS])[::-1]
    if current.lines and current.sensitivity in levels:
        digests.append(current.lines)
    lines = lines_of_memory(memory.titled_content, digests, files[: 4 * MAX_FILES])
    memories.store_references(memory, lines, at)


def add_references_of_tool(context: HookContext) -> None:
    """Note the code of the memories that the agent itself has just stored with a memory tool."""
    span = (context.at - STORED_WITHIN, context.at)
    stored = (
        Memory.objects.visible_to(context.actor.clearance)
        .live()
        .filter(
            project=context.session.project,
            author=context.actor.name,
            created_at__range=span,
            code_references__isnull=True,
            files__isnull=False,
        )
    )
    found = stored.distinct().order_by("-pk")[:MAX_STORED_BY_TOOL]
    add_references(found, context.session, context.at, context.event)


def drop_lines(session: Session) -> None:
    """Delete the hashes of lines of a session that has ended."""
    Event.objects.filter(session=session, lines__has_key="path").update(lines=None)


def compare_event(context: HookContext) -> None:
    """Mark or unmark the memories about the files of a recorded tool call. A failure is logged."""
    try:
        changes = list(_file_changes(context))
        if changes:
            session, level = context.session, context.event.sensitivity
            memories.compare_with_code(
                changes, session.project, level, context.actor, context.at, session.session_id
            )
    except Exception:
        logger.exception("memories could not be compared with the code")


def _file_changes(context: HookContext) -> Iterable[FileChange]:
    call, view = context.call, context.file_view
    if call is None or call.secret:
        return
    if view is not None and context.session.has_code_references:
        shown, removed = line_hashes(view.shown), line_hashes(view.removed)
        yield FileChange(view.path, shown, removed - shown, view.is_whole)
    command = call.observation.command
    if command and not call.observation.failed and _REMOVES_FILES.search(command):
        cwd, root = context.cwd, context.root
        for path in removed_paths(command):
            yield FileChange(relative_path(path, cwd, root), is_whole=True)
        for path, target in moved_paths(command).items():
            moved_to = relative_path(target, cwd, root)
            yield FileChange(relative_path(path, cwd, root), moved_to=moved_to)
