"""Turn a tool call into a memory, or record why it was skipped; run maintenance at the end of a session."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from django.conf import settings
from django.utils import timezone

from memoryhub import capabilities, memories
from memoryhub.access.policy import LEVELS, Actor, Clearance, Sensitivity
from memoryhub.capture import classification
from memoryhub.capture.classification import (
    MAX_CHARS,
    Classification,
    Memorability,
    MemorabilityWeights,
    classify,
    make_subtitle,
    make_title,
    reverted_headline,
)
from memoryhub.capture.distillation import ROUTINE, Candidate, distill, distill_routine
from memoryhub.capture.events import HookContext, ToolCall
from memoryhub.capture.segments import SessionState, locked_state
from memoryhub.core.text import STOP_WORDS, jaccard, new_uid, terms, words
from memoryhub.core.vocabulary import TrashReason
from memoryhub.hooks import HandlerResult
from memoryhub.maintenance import runs
from memoryhub.maintenance.operations import run_now
from memoryhub.memories.rows import hash_content
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Event, Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.lexical import likely_rare, rows_sharing_words
from memoryhub.search.prompts import contains_injected_context
from memoryhub.security.secrets import may_contain_secrets, redact

AUTO = "auto"  # the setting with which maintenance runs at the end of a session
DUPLICATE_SIMILARITY = 0.8  # term Jaccard from which a candidate repeats a memory
CAPTURED_TAG = "captured"  # on every memory that capture creates
# Trust by source: text that people wrote on purpose is more reliable than the output of a tool.
TRUST_BY_SOURCE = {
    "commit": 0.7,
    "document": 0.7,
    "record": 0.7,
    "user": 0.9,
    "recovery": 0.6,
    "failure": 0.6,
    "comment": 0.6,
    "output": 0.5,
    "answer": 0.4,
}
MAX_RARE_WORDS = 6
MAX_NEIGHBOURS = 12
_MAX_COMPARED_CHARS = 4000
_REPLACED = {TrashReason.COMPRESSED.value, TrashReason.MERGED.value}  # another memory has the content now


@dataclass
class CaptureResult:
    """``skip_reason``: why no memory was created, empty if one was.

    ``from_notes``: memories created from notes of earlier calls. ``warnings``: capabilities that failed.
    """

    skip_reason: str = ""
    memory: Memory | None = None
    score: Memorability | None = None
    checkpoint_due: bool = False
    from_notes: list[Memory] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class DistilledCall:
    """The candidate of a call, or why there is none; notes that are due; the cost in tokens."""

    candidate: Candidate | str
    notes: list[Candidate] = field(default_factory=list)
    tokens: int = 0
    checkpoint_due: bool = False


def capture_call(distilled: DistilledCall, context: HookContext) -> CaptureResult:
    """Classify and score a call; store it if it is memorable, and the notes that are due."""
    result = CaptureResult(checkpoint_due=distilled.checkpoint_due)
    if isinstance(distilled.candidate, Candidate):
        _capture_candidate(result, distilled.candidate, distilled.tokens, context)
    else:
        result.skip_reason = distilled.candidate
    for note in distilled.notes:
        captured = _capture_note(note, context, result)
        result.memory, result.score = result.memory or captured.memory, result.score or captured.score
    if result.memory:
        result.skip_reason = ""
    return result


def capture_remaining_notes(context: HookContext) -> CaptureResult:
    """Capture all open notes, at the end of a session."""
    with locked_state(context.session) as state:
        notes = state.work.take_due_notes(everything=True)
    result = CaptureResult()
    for note in notes:
        _capture_note(note, context, result)
    return result


def _capture_note(note: Candidate, context: HookContext, result: CaptureResult) -> CaptureResult:
    captured = CaptureResult()
    _capture_candidate(captured, note, 0, context)
    result.from_notes += [captured.memory] if captured.memory else []
    result.warnings += [warning for warning in captured.warnings if warning not in result.warnings]
    return captured


def _capture_candidate(
    result: CaptureResult, candidate: Candidate, tokens: int, context: HookContext
) -> None:
    old = _find_replaced_memory(candidate, context)
    if old and candidate.fixes:
        candidate = replace(candidate, text=f"{candidate.text}\n\n{candidate.fixes}"[:MAX_CHARS])
    if may_contain_secrets(candidate.text):
        result.skip_reason = "secret"
    elif reason := _duplicate_reason(candidate.text, context):
        result.skip_reason = reason
    else:
        classified = classify(candidate.text, candidate.source)
        known = _visible_live(context).exclude(pk=old.pk if old else None)
        result.score, result.skip_reason = _score_candidate(candidate, classified, known, result.warnings)
        if not result.skip_reason:
            _store_memory(result, candidate, classified, tokens, context, old)


def distill_call(call: ToolCall, state: SessionState) -> DistilledCall:
    """Add a call to the open work of its session, and distil what is complete."""
    every = settings.MEMORYHUB.checkpoint_events
    state.calls += 1
    checkpoint_due = bool(every) and state.calls - state.summed_up >= every
    if checkpoint_due:
        state.summed_up = state.calls
    if call.by_memory_tool:
        return DistilledCall("memory tool", checkpoint_due=checkpoint_due)
    if call.secret:
        return DistilledCall("secret", checkpoint_due=checkpoint_due)
    state.tokens += call.tokens
    candidate = distill(call.observation, state.work)
    if candidate == ROUTINE and _lets_routine_pass():
        candidate = distill_routine(call.observation)
    state.work.failure = redact(state.work.failure)
    state.work.reported = redact(state.work.reported)
    state.work.failed_command = redact(state.work.failed_command)
    state.work.remedies = [redact(command) for command in state.work.remedies]
    tokens = state.tokens
    if isinstance(candidate, Candidate):
        state.tokens = 0
    elif candidate == ROUTINE and contains_injected_context(call.observation.text):
        candidate = "injected block"
    return DistilledCall(candidate, state.work.take_due_notes(), tokens, checkpoint_due)


def _duplicate_reason(text: str, context: HookContext) -> str:
    """Return why an identical text is not stored again: it exists, or a user deleted it."""
    same = Memory.objects.visible_to(context.actor.clearance).filter(content_hash=hash_content(text))
    same = same.filter(project=context.session.project)
    for twin in same.only("deleted_at", "trash_reason", "expires_at"):
        if twin.deleted_at and twin.trash_reason == TrashReason.FORGOTTEN.value:
            return "forgotten before"
        if twin.trash_reason in _REPLACED if twin.deleted_at else not twin.is_expired(timezone.now()):
            return "duplicate"
    return ""


def _lets_routine_pass() -> bool:
    """Whether the threshold is so low that sentences of routine output can reach it."""
    is_scored = capabilities.is_enabled(capabilities.MEMORABILITY)
    return is_scored and settings.MEMORYHUB.memorability_threshold < classification.ROUTINE_FACTOR


def _score_candidate(
    candidate: Candidate, classified: Classification, known: MemoryQuerySet, warnings: list[str]
) -> tuple[Memorability | None, str]:
    """Return the score and the reason to skip; while memorability is off, every candidate passes."""
    config = settings.MEMORYHUB
    weights = MemorabilityWeights(
        config.substance_weight, config.salience_weight, config.distinctiveness_weight, config.type_weight
    )
    text, own = candidate.text, terms(candidate.text)
    is_routine = candidate.source == ROUTINE

    def compute() -> tuple[Memorability, bool]:
        neighbours = find_similar_terms(known, text)
        repeated = any(jaccard(own, other) >= DUPLICATE_SIMILARITY for other in neighbours)
        scorer = capabilities.get(capabilities.MEMORABILITY)
        return scorer.score(text, classified.type, neighbours, weights, is_routine), repeated

    answer = capabilities.call_capability(capabilities.MEMORABILITY, compute, warnings)
    if answer is None:
        return None, ""
    score, repeated = answer
    if repeated:
        return score, "duplicate"
    return score, "below the gate" if score.total < config.memorability_threshold else ""


def find_similar_terms(memories: MemoryQuerySet, text: str) -> list[set[str]]:
    """Return the terms of up to :data:`MAX_NEIGHBOURS` memories that share most rare words with a text."""
    likely = likely_rare(word for word in words(text) if len(word) > 2 and word not in STOP_WORDS)
    if not likely:
        return []
    keys = rows_sharing_words(memories, likely, max_words=MAX_RARE_WORDS, limit=MAX_NEIGHBOURS)
    rows = Memory.objects.filter(pk__in=keys).values_list("title", "content")
    return [terms(content[:_MAX_COMPARED_CHARS]) | terms(title) for title, content in rows]


def _store_memory(
    result: CaptureResult,
    candidate: Candidate,
    classified: Classification,
    tokens: int,
    context: HookContext,
    old: Memory | None,
) -> None:
    """Store a candidate, in place of an old memory if there is one."""
    try:
        stored = memories.create_memory(
            _build_draft(candidate, classified, tokens, context, old),
            context.actor,
            needs_approval=context.needs_approval,
            imported_at=context.imported_at,
        )
        result.memory = stored.memory
    except (memories.SecretDetected, memories.TooCostlyToCheck):
        result.skip_reason = "secret"
    else:
        if old and not old.pinned and not context.needs_approval:
            memories.trash_memories([old.uid], context.actor, TrashReason.MERGED, into=result.memory)


def _build_draft(
    candidate: Candidate, classified: Classification, tokens: int, context: HookContext, old: Memory | None
) -> MemoryDraft:
    """Return the memory of a candidate. It is about the files of the old memory if it names none."""
    has_segments = capabilities.is_enabled(capabilities.BOUNDARIES)
    segment = [f"segment-{context.event.segment}"] if has_segments else []
    modified = list(candidate.files_modified)
    if old and not modified:
        modified = list(old.files.filter(access="modified").order_by("pk").values_list("path", flat=True))
    return MemoryDraft(
        content=candidate.text,
        title=classified.title,
        subtitle=make_subtitle(modified or candidate.files_read, candidate.text),
        abstract=classified.abstract,
        type=classified.type,
        importance=classified.importance,
        trust=TRUST_BY_SOURCE.get(candidate.source, 0.5),
        concepts=list(classified.concepts),
        tags=[CAPTURED_TAG, *segment],
        files_read=list(candidate.files_read),
        files_modified=modified,
        project=context.session.project,
        session_id=context.session.session_id,
        sensitivity=context.event.sensitivity,
        discovery_tokens=tokens or None,
        created_at=context.at,
    )


def _find_replaced_memory(candidate: Candidate, context: HookContext) -> Memory | None:
    """Return the captured memory of the commit that this one reverts, or of the failure that it fixes."""
    headline = reverted_headline(candidate.text)
    if not headline and (not candidate.fixes or context.needs_approval):
        return None
    captured = _visible_live(context).filter(labels__kind="tag", labels__value=CAPTURED_TAG)
    if headline:
        return captured.filter(title=make_title(headline)).order_by("-created_at", "-pk").first()
    own = captured.filter(session_id=context.session.session_id, sensitivity=context.event.sensitivity)
    return own.filter(content_hash=hash_content(candidate.fixes), pinned_at=None).first()


def _visible_live(context: HookContext) -> MemoryQuerySet:
    return Memory.objects.visible_to(context.actor.clearance).live().filter(project=context.session.project)


def consolidate(context: HookContext) -> HandlerResult:
    return _run_maintenance("consolidate", settings.MEMORYHUB.session_end_consolidation, context)


def compress(context: HookContext) -> HandlerResult:
    return _run_maintenance("compress", settings.MEMORYHUB.session_end_compression, context)


def _run_maintenance(operation: str, mode: str, context: HookContext) -> HandlerResult:
    """Run an operation now in a small project; queue it in a large one, so that the agent does not wait."""
    if context.hook_event.is_backfilled:
        return "skipped", "backfilled; the schedule or a person runs it"
    if mode != AUTO:
        return "skipped", "set to manual; the schedule or a person runs it"
    if _is_hidden_end(context):
        return "skipped", "the end of this session is not public; the schedule or a person runs it"
    session = context.session
    # The journal shows changes at the level of each memory. Readers who cannot see part of this session must
    # not learn its id from them.
    is_guarded = Event.objects.filter(session=session).exclude(sensitivity=Sensitivity.PUBLIC.value).exists()
    actor = _maintenance_actor("upkeep" if is_guarded else "session-end", context)
    project = {"project": session.project}
    limit = settings.MEMORYHUB.inline_maintenance_limit
    live = Memory.objects.visible_to(actor.clearance).live().filter(project=session.project)
    if live.order_by()[: limit + 1].count() > limit:
        run = runs.enqueue(operation, project, actor, may_wait=True)
        return "ok", f"queued as run {run.uid}"
    ran = run_now(operation, project, actor, run_uid=new_uid() if is_guarded else session.session_id)
    return "ok", f"{ran.changed} of {ran.seen} memories changed" if ran.seen else "no memories to maintain"


def _is_hidden_end(context: HookContext) -> bool:
    """Whether the event is above public. Readers of public memories must see no effect of it on them.

    An event is visible only with its memory, here the summary.
    """
    event = context.event
    levels = [event.sensitivity, *([event.memory.sensitivity] if event.memory else [])]
    return any(level != Sensitivity.PUBLIC.value for level in levels)


def _maintenance_actor(name: str, context: HookContext) -> Actor:
    """Return an actor for the session's project whose clearance does not exceed the caller's.

    Otherwise a caller could move memories to the trash that it cannot see. The daily maintenance does that.
    """
    project = Clearance(frozenset(LEVELS), projects=frozenset({context.session.project}))
    return Actor(f"system:{name}", context.actor.clearance.within(project))
