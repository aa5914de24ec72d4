"""Sessions fall into segments: where one begins is a fact ``session:{id}`` / ``boundary_at``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import Q

from memoryhub.access.policy import Actor
from memoryhub.capture.boundaries import detect_boundary, most_common_keywords
from memoryhub.capture.event_preview import ToolCall
from memoryhub.capture.session_state import SessionState, locked_state
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Event, Session

BOUNDARY_PREDICATE = "boundary_at"
BOUNDARY_FACTS = Q(
    predicate=BOUNDARY_PREDICATE, subject__startswith="session:"
)  # the hub's own notes among the facts
# Shares of the configured threshold. After a prompt a person just said what comes next; between prompts the
# work goes on, and only what shares almost nothing with it, twice in a row, is another piece of work.
AFTER_PROMPT_FACTOR = 2.0
BETWEEN_PROMPTS_FACTOR = 0.5
NO_PROMPTS_FACTOR = 0.2  # enough at once, in a session that tells of no prompts
MAX_FACT_KEYWORDS = 12  # of each side in the fact


@dataclass(frozen=True)
class SegmentPlacement:
    """The segment that a call belongs to; ``boundary``: it opens this segment. ``similarity``: 0..1."""

    segment: int
    boundary: bool = False
    similarity: float = 1.0
    late: bool = False


def place_call(
    call: ToolCall, session: Session, at: datetime, sensitivity: str, actor: Actor
) -> SegmentPlacement:
    """Hold a call against the session's window; a shift opens a segment and is stored as a fact.

    A call that arrives after later ones is put into the segment of its time and leaves the window alone.
    """
    draft: FactDraft | None = None
    with locked_state(session) as state:
        if state.window_at and at < datetime.fromisoformat(state.window_at):
            return SegmentPlacement(_segment_at(session, at, state.segment), late=True)
        state.window_at = at.isoformat()
        repeated = bool(call.output_digest) and call.output_digest == state.output
        state.output = call.output_digest
        if repeated or call.looks_around:
            return SegmentPlacement(state.segment)
        window = [frozenset(one) for one in state.window]
        config = settings.MEMORYHUB
        threshold, sure = _thresholds(state, config.boundary_similarity)
        doubt = [] if state.asked else [frozenset(one) for one in state.doubt]
        judged = detect_boundary(call.keywords, window, threshold, config.boundary_window, doubt, sure)
        state.window = [sorted(one) for one in judged.window]
        state.doubt = [sorted(one) for one in judged.doubt]
        state.asked = max(state.asked - 1, 0)
        if judged.boundary:
            state.segment, state.asked = state.segment + 1, 0
            before = most_common_keywords(map(sorted, window))
            draft = _boundary_fact(call, session, at, sensitivity, state, before, judged.similarity)
        placed = SegmentPlacement(state.segment, judged.boundary, judged.similarity)
    if draft is not None:
        services.create_fact(draft, actor)
    return placed


def _thresholds(state: SessionState, configured: float) -> tuple[float, float]:
    """The similarity below which an output is unlike the window; that below which one alone is a shift."""
    if state.asked:
        return configured * AFTER_PROMPT_FACTOR, configured * AFTER_PROMPT_FACTOR
    if state.prompted:
        return configured * BETWEEN_PROMPTS_FACTOR, 0.0
    return configured, configured * NO_PROMPTS_FACTOR


def _segment_at(session: Session, at: datetime, latest: int) -> int:
    earlier = Event.objects.filter(session=session, at__lte=at).order_by("-at", "-pk")
    found: int | None = earlier.values_list("segment", flat=True).first()
    return max(found if found is not None else 1, 1) if latest > 1 else 1


def _boundary_fact(
    call: ToolCall,
    session: Session,
    at: datetime,
    sensitivity: str,
    state: SessionState,
    before: list[str],
    similarity: float,
) -> FactDraft:
    told = {
        "time": at.isoformat(),
        "tool": call.seen.tool,
        "segment": state.segment,
        "similarity": round(similarity, 3),
        "keywords_before": before[:MAX_FACT_KEYWORDS],
        "keywords_after": list(call.keywords[:MAX_FACT_KEYWORDS]),
    }
    return FactDraft(
        subject=f"session:{session.session_id}",
        predicate=BOUNDARY_PREDICATE,
        object=json.dumps(told, ensure_ascii=False),
        project=session.project,
        session_id=session.session_id,
        sensitivity=sensitivity,
    )
