"""Capture: turn a tool call into a memory, or record why it was skipped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from memoryhub import capabilities, memories
from memoryhub.access.policy import Actor
from memoryhub.capture import memorability
from memoryhub.capture.classification import Classification, classify
from memoryhub.capture.distillation import Candidate, contains_injected_context, distill
from memoryhub.capture.event_preview import ToolCall
from memoryhub.capture.memorability import Memorability, MemorabilityWeights
from memoryhub.capture.session_state import locked_state
from memoryhub.capture.titles import make_subtitle, make_title, reverted_headline
from memoryhub.core.text import jaccard, terms
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories.rows import hash_content
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Memory, Session
from memoryhub.security.secrets import may_contain_secrets, redact


def find_reverted_memory(text: str, project: str, tag: str, actor: Actor) -> Memory | None:
    """The memory of the commit that this one takes back, if it formed by itself and is still there."""
    what = reverted_headline(text)
    if not what:
        return None
    told = Memory.objects.visible_to(actor.clearance).live().filter(project=project, title=make_title(what))
    return told.filter(labels__kind="tag", labels__value=tag).order_by("-created_at").first()


def modified_files(memory: Memory) -> list[str]:
    """The files that the commit had changed, and that are as they were again."""
    return list(memory.files.filter(access="modified").order_by("pk").values_list("path", flat=True))


def replace_reverted_memory(old: Memory, new: Memory, actor: Actor) -> None:
    """The old memory goes to the trash, with a note where it went; ``store.restore`` undoes it."""
    memories.trash_merged(new, [old.uid], actor)


# The terms of the memories that are most like a text: handed in, for finding them is retrieval's.
Neighbours = Callable[[str], list[set[str]]]
DUPLICATE_SIMILARITY = 0.8  # term Jaccard from which a candidate says what a memory says already
CAPTURED_TAG = "captured"  # on every memory that formed by itself
# Trust in the source: what people wrote on purpose stands above what a page said.
TRUST_BY_SOURCE = {
    "commit": 0.7,
    "document": 0.7,
    "recovery": 0.6,
    "comment": 0.6,
    "output": 0.5,
    "answer": 0.4,
}


@dataclass
class CaptureResult:
    """``reason``: why nothing was kept, empty when something was. ``due``: it is time for a checkpoint.

    ``beside``: memories made of what was noted before. ``notes``: capabilities that were missed.
    """

    reason: str = ""
    memory: Memory | None = None
    judged: Memorability | None = None
    due: bool = False
    beside: list[Memory] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CaptureContext:
    """Where a call stands: session, segment (0 where nobody draws boundaries), time, level."""

    session: Session
    segment: int
    at: datetime
    sensitivity: str


def capture_call(
    call: ToolCall, place: CaptureContext, neighbours: Neighbours, actor: Actor
) -> CaptureResult:
    """Distil, classify and weigh a call; keep what is worth it, and what was noted before and is due now."""
    found, noted, tokens, due = _distill_call(call, place.session)
    done = CaptureResult(due=due)
    if isinstance(found, Candidate):
        _capture_candidate(done, found, place, tokens, neighbours, actor)
    else:
        done.reason = found
    for candidate in noted:
        late = _capture_note(candidate, place, neighbours, actor, done)
        done.memory, done.judged = done.memory or late.memory, done.judged or late.judged
    if done.memory:
        done.reason = ""
    return done


def capture_remaining_notes(place: CaptureContext, neighbours: Neighbours, actor: Actor) -> CaptureResult:
    """At the end of a session: what was noted and no commit told."""
    with locked_state(place.session) as state:
        noted = state.work.due(all_of_them=True)
    done = CaptureResult()
    for candidate in noted:
        _capture_note(candidate, place, neighbours, actor, done)
    return done


def _capture_note(
    candidate: Candidate, place: CaptureContext, neighbours: Neighbours, actor: Actor, done: CaptureResult
) -> CaptureResult:
    """One that was noted before, beside what the call itself left."""
    one = CaptureResult()
    _capture_candidate(one, candidate, place, 0, neighbours, actor)
    done.beside += [one.memory] if one.memory else []
    done.notes += [note for note in one.notes if note not in done.notes]
    return one


def _capture_candidate(
    done: CaptureResult,
    found: Candidate,
    place: CaptureContext,
    tokens: int,
    neighbours: Neighbours,
    actor: Actor,
) -> None:
    """Keep a candidate, or say why not."""
    if may_contain_secrets(found.text):
        done.reason = "secret"
    elif twin := _duplicate_reason(found.text, place.session.project, actor):
        done.reason = twin
    else:
        named = classify(found.text, found.source)
        done.judged, done.reason = _score_candidate(found.text, named, neighbours, done.notes)
        if not done.reason:
            _store_memory(done, found, named, place, tokens, actor)


def _distill_call(call: ToolCall, session: Session) -> tuple[Candidate | str, list[Candidate], int, bool]:
    """The candidate or the reason; what was noted and is due; what it cost; whether a checkpoint is due."""
    every = settings.MEMORYHUB.checkpoint_events
    with locked_state(session) as state:
        state.calls += 1
        due = bool(every) and state.calls - state.summed_up >= every
        if due:
            state.summed_up = state.calls
        if call.own:
            return "memory tool", [], 0, due
        if call.secret:
            return "secret", [], 0, due
        state.tokens += call.tokens
        found = distill(call.seen, state.work)
        state.work.failure = redact(state.work.failure)
        state.work.failed_command = redact(state.work.failed_command)
        tokens = state.tokens
        if isinstance(found, Candidate):
            state.tokens = 0
        elif found == "routine" and contains_injected_context(call.seen.text):
            found = "injected block"
        return found, state.work.due(), tokens, due


_REPLACED = {TrashReason.COMPRESSED.value, TrashReason.MERGED.value}  # another memory says it now


def _duplicate_reason(text: str, project: str, actor: Actor) -> str:
    """Why the very same words are not stored again: they are there, or a person threw them away."""
    twins = Memory.objects.visible_to(actor.clearance).filter(content_hash=hash_content(text))
    found = twins.filter(project=project).values_list("deleted_at", "trash_reason", "expires_at")
    for deleted_at, reason, expires_at in found:
        if deleted_at and reason == TrashReason.FORGOTTEN.value:
            return "forgotten before"
        if reason in _REPLACED if deleted_at else not expires_at or expires_at > timezone.now():
            return "duplicate"
    return ""


def _score_candidate(
    text: str, named: Classification, neighbours: Neighbours, notes: list[str]
) -> tuple[Memorability | None, str]:
    """The four parts, and the reason to skip; without the capability all passes."""
    config = settings.MEMORYHUB
    shares = MemorabilityWeights(
        config.substance_weight, config.salience_weight, config.distinctiveness_weight, config.type_weight
    )
    own = terms(text)

    def ask() -> tuple[Memorability, bool]:
        near = neighbours(text)
        repeated = any(jaccard(own, other) >= DUPLICATE_SIMILARITY for other in near)
        return memorability.score(text, named.type, near, shares), repeated

    answer = capabilities.call_capability(capabilities.MEMORABILITY, ask, notes)
    if answer is None:
        return None, ""
    judged, repeated = answer
    if repeated:
        return judged, "duplicate"
    return judged, "below the gate" if judged.total < config.memorability_threshold else ""


def _store_memory(
    done: CaptureResult,
    found: Candidate,
    named: Classification,
    place: CaptureContext,
    tokens: int,
    actor: Actor,
) -> None:
    old = find_reverted_memory(found.text, place.session.project, CAPTURED_TAG, actor)
    modified = list(found.files_modified) or (modified_files(old) if old else [])
    draft = MemoryDraft(
        content=found.text,
        title=named.title,
        subtitle=make_subtitle(modified or found.files_read, found.text),
        abstract=named.abstract,
        type=named.type,
        importance=named.importance,
        trust=TRUST_BY_SOURCE.get(found.source, 0.5),
        concepts=list(named.concepts),
        tags=[CAPTURED_TAG, *([f"segment-{place.segment}"] if place.segment else [])],
        files_read=list(found.files_read),
        files_modified=modified,
        project=place.session.project,
        session_id=place.session.session_id,
        sensitivity=place.sensitivity,
        discovery_tokens=tokens or None,
        created_at=place.at,
    )
    try:
        done.memory = memories.create_memory(draft, actor).memory
    except (memories.SecretDetected, memories.TooCostlyToCheck):
        done.reason = "secret"
    else:
        if old:
            replace_reverted_memory(old, done.memory, actor)
