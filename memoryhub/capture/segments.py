"""Assign tool calls to segments of a session. Each boundary is a fact ``session:{id}`` / ``boundary_at``.

The method follows LetsGo's memory guide: "detects context shifts via keyword Jaccard similarity in a sliding
window". The window contains the keywords of the last tool outputs of the segment. An output that shares too
little with all of them opens a new segment with an empty window. Keywords are stored as whole words, so that
people can read them, and compared by their stems.

The state of a session between two events (the boundary window, the work since the last commit) is JSON in its
row. It is read and written under the write lock, so that concurrent events do not overwrite each other.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any

from django.conf import settings
from django.db.models import Q
from pydantic import AfterValidator, TypeAdapter, ValidationError

from memoryhub.access.policy import Actor
from memoryhub.backends import statements
from memoryhub.backends.dialect import sql
from memoryhub.capture.distillation import OpenWork
from memoryhub.capture.events import ToolCall
from memoryhub.core.database import adapt_moment, write_transaction
from memoryhub.core.dates import parse_moment
from memoryhub.core.text import extract_keywords, jaccard, most_common_keywords, stem
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Event, Session

__all__ = ["detect_boundary", "extract_keywords"]  # the methods of the capability memory.boundaries

logger = logging.getLogger(__name__)
CALLS_AFTER_PROMPT = 3  # tool calls that are judged with the threshold for a new request


def _check_moment(text: str) -> str:
    moment = parse_moment(text)
    if moment is not None and moment.tzinfo is None:
        raise ValueError("a moment needs a time zone")
    return text


Moment = Annotated[str, AfterValidator(_check_moment)]


@dataclass
class SessionState:
    """The field names are the keys of the stored JSON.

    ``window``: keywords of the last outputs of the segment; ``window_at``: time (ISO) of the latest of them;
    ``output``: its digest. ``doubt``: outputs unlike the window, which may begin a segment.
    ``asked``: remaining calls of :data:`CALLS_AFTER_PROMPT`; ``prompted``: whether the session sends prompts.
    ``calls``: tool calls so far; ``summed_up``: the number of calls at the last checkpoint; ``recapped_at``:
    the time (ISO) that the last checkpoint covers; ``fresh_since``: when the agent last lost its context;
    ``tokens``: approximate cost of the work since the last captured memory.
    ``subfolder``: the first working folder, as a path in its repository; None if unknown.
    """

    segment: int = 1
    window: list[list[str]] = field(default_factory=list)
    doubt: list[list[str]] = field(default_factory=list)
    asked: int = 0
    prompted: bool = False
    window_at: Moment = ""
    output: str = ""
    work: OpenWork = field(default_factory=OpenWork)
    tokens: int = 0
    calls: int = 0
    summed_up: int = 0
    recapped_at: Moment = ""
    fresh_since: Moment = ""
    subfolder: str | None = None

    @classmethod
    def from_row(cls, state: dict[str, Any], segment: int) -> SessionState:
        """Read the columns of a session. Unknown keys are ignored, and a damaged state starts anew."""
        try:
            found = _stored.validate_python({**state, "work": state.get("work") or {}})
        except (ValidationError, TypeError) as error:
            logger.warning("the state of a session is damaged and starts anew: %s", type(error).__name__)
            found = cls()
        return replace(found, segment=max(segment, 1))

    def is_past(self, at: datetime) -> bool:
        """Whether a later call has been placed already."""
        return bool(self.window_at) and at < datetime.fromisoformat(self.window_at)

    def as_state(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "segment"}
        return {**state, "work": self.work.as_state()}


_stored = TypeAdapter(SessionState)


@contextmanager
def locked_state(session: Session, at: datetime | None = None) -> Iterator[SessionState]:
    """Yield the session's state under the write lock and save what the block changes.

    ``at``: the time of the event that changes it, to which the session extends.
    """
    with write_transaction():
        stored = statements.read_session_state(session.pk)
        if stored is None:
            raise Session.DoesNotExist
        row, segment = stored
        state = SessionState.from_row(row, segment)
        before = json.dumps(row)  # serialised now, because the block changes lists in place
        yield state
        after = state.as_state()
        if json.dumps(after) != before or state.segment != segment:
            changes: dict[str, list[Any]] = {
                "state = %s": [json.dumps(after)],
                "segment = %s": [state.segment],
            }
            if at and at > session.last_at:
                changes[f"last_at = {sql.GREATEST}(last_at, %s)"] = [adapt_moment(at)]
                session.last_at = at
            statements.update_session(session.pk, changes)


BOUNDARY_PREDICATE = "boundary_at"
BOUNDARY_FACTS = Q(predicate=BOUNDARY_PREDICATE, subject__startswith="session:")
# Factors of the configured threshold. A change of subject is likely right after a prompt. Between prompts the
# work continues, so a boundary needs one output that shares next to nothing with the window, such as one word
# of forty, or two in a row that share little. In a session without prompts, one below the threshold suffices.
AFTER_PROMPT_FACTOR = 2.0
BETWEEN_PROMPTS_FACTOR = 0.5
SURE_FACTOR = 0.25
MAX_FACT_KEYWORDS = 12  # for each side of the boundary
MIN_KEYWORDS = 4  # shorter outputs cannot open a segment
MIN_WINDOW = 2  # outputs that a segment needs before it can end


@dataclass(frozen=True)
class SegmentPlacement:
    """The segment of a call. ``boundary``: the call opens it. ``late``: it arrived after later calls.

    ``detail``: the object of the fact about a boundary.
    """

    segment: int
    boundary: bool = False
    similarity: float = 1.0
    late: bool = False
    detail: dict[str, Any] = field(default_factory=dict)


def place_call(call: ToolCall, state: SessionState, session: Session, at: datetime) -> SegmentPlacement:
    """Compare a call with the session's window; on a boundary, open a segment.

    A call that arrives after later ones gets the segment of its time and leaves the window unchanged.
    """
    if state.is_past(at):
        return SegmentPlacement(_segment_at(session, at, state.segment), late=True)
    state.window_at = at.isoformat()
    repeated = bool(call.output_digest) and call.output_digest == state.output
    state.output = call.output_digest
    if repeated or call.shows_status:
        return SegmentPlacement(state.segment)
    window = [frozenset(keywords) for keywords in state.window]
    config = settings.MEMORYHUB
    threshold, sure_below = _thresholds(state, config.boundary_similarity)
    doubt = [] if state.asked else [frozenset(keywords) for keywords in state.doubt]
    decision = detect_boundary(call.keywords, window, threshold, config.boundary_window, doubt, sure_below)
    state.window = [sorted(keywords) for keywords in decision.window]
    state.doubt = [sorted(keywords) for keywords in decision.doubt]
    state.asked = max(state.asked - 1, 0)
    if not decision.boundary:
        return SegmentPlacement(state.segment, similarity=decision.similarity)
    state.segment, state.asked = state.segment + 1, 0
    detail = {
        "time": at.isoformat(),
        "tool": call.observation.tool,
        "segment": state.segment,
        "similarity": round(decision.similarity, 3),
        "keywords_before": most_common_keywords(map(sorted, window), MAX_FACT_KEYWORDS),
        "keywords_after": list(call.keywords[:MAX_FACT_KEYWORDS]),
    }
    return SegmentPlacement(state.segment, True, decision.similarity, detail=detail)


def record_boundary(
    placed: SegmentPlacement, session: Session, sensitivity: str, actor: Actor, *, without_words: bool
) -> None:
    """Store a boundary as a fact.

    ``without_words``: omit the keywords, because they may repeat a text that waits for approval.
    """
    no_words: dict[str, Any] = {"keywords_before": [], "keywords_after": []}
    detail = placed.detail | (no_words if without_words else {})
    draft = FactDraft(
        subject=f"session:{session.session_id}",
        predicate=BOUNDARY_PREDICATE,
        object=json.dumps(detail, ensure_ascii=False),
        project=session.project,
        session_id=session.session_id,
        sensitivity=sensitivity,
    )
    services.create_fact(draft, actor)


def _thresholds(state: SessionState, configured: float) -> tuple[float, float]:
    """Return the similarity below which an output is in doubt, and that below which one output is enough."""
    if state.asked:
        return configured * AFTER_PROMPT_FACTOR, configured * AFTER_PROMPT_FACTOR
    if state.prompted:
        return configured * BETWEEN_PROMPTS_FACTOR, configured * SURE_FACTOR
    return configured, configured


def _segment_at(session: Session, at: datetime, latest: int) -> int:
    earlier = Event.objects.filter(session=session, at__lte=at).order_by("-at", "-pk")
    found: int | None = earlier.values_list("segment", flat=True).first()
    return max(found if found is not None else 1, 1) if latest > 1 else 1


@dataclass(frozen=True)
class BoundaryDecision:
    """``similarity`` to the window (0..1), the window after this output, and the outputs still in doubt."""

    boundary: bool
    similarity: float
    window: tuple[frozenset[str], ...]
    doubt: tuple[frozenset[str], ...] = ()


def _stems(keywords: Iterable[str]) -> set[str]:
    return set(map(stem, keywords))


def detect_boundary(
    keywords: Sequence[str],
    window: Sequence[frozenset[str]],
    threshold: float,
    size: int,
    doubt: Sequence[frozenset[str]] = (),
    sure_below: float = 1.0,
) -> BoundaryDecision:
    """Compare the keywords of a new output with the window.

    The similarity is the highest one to a single output of the window or to all of them together: returning
    to the work of two outputs ago is no boundary, and a repeated output never is. One output is enough for a
    boundary if it shares no word with the window or is below ``sure_below``; otherwise it is in doubt until
    the next output is unlike the window too.
    """
    new, own = frozenset(keywords), _stems(keywords)
    if len(own) < MIN_KEYWORDS:
        return BoundaryDecision(False, 1.0, tuple(window), tuple(doubt))
    together = frozenset().union(*window)
    similarity = max((jaccard(own, _stems(other)) for other in (*window, together) if other), default=1.0)
    if len(window) < MIN_WINDOW or similarity >= threshold:
        return BoundaryDecision(False, similarity, (*window, *doubt, new)[-size:])
    if doubt or not similarity or similarity < sure_below:
        return BoundaryDecision(True, similarity, (*doubt, new)[-size:])
    return BoundaryDecision(False, similarity, tuple(window), (new,))
