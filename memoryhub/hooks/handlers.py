"""The handlers of the chain: each hands one stage what it needs from the others."""

from __future__ import annotations

from memoryhub import capabilities
from memoryhub.encoding import capture as capturing
from memoryhub.encoding import recap, segmentation
from memoryhub.encoding.working import working
from memoryhub.hooks.happening import Passage, Said
from memoryhub.models import Memory
from memoryhub.retrieval.neighbours import nearest


def draw_boundaries(passage: Passage) -> Said:
    """tool:post @100."""
    call = passage.call
    assert call is not None  # noqa: S101 recording.begin read it
    event = passage.event
    placed = segmentation.place(call, passage.session, passage.at, event.sensitivity, passage.actor)
    event.segment, event.boundary = placed.segment, placed.boundary
    if placed.late:
        return "ok", f"came late; segment {placed.segment}, the window is as it was"
    if placed.boundary:
        return "ok", f"segment {placed.segment} begins, similarity {placed.similarity:.2f}"
    return "ok", f"segment {placed.segment}"


def capture_call(passage: Passage) -> Said:
    """tool:post @150."""
    call, event, actor = passage.call, passage.event, passage.actor
    assert call is not None  # noqa: S101 recording.begin read it
    segment = event.segment if capabilities.is_on(capabilities.BOUNDARIES) else 0
    place = capturing.Place(passage.session, segment, passage.at, event.sensitivity)
    within = Memory.objects.visible_to(actor.clearance).live().filter(project=passage.session.project)
    done = capturing.capture(call, place, lambda text: nearest(within, text), actor)
    event.memory, event.skip_reason = done.memory, done.reason
    if done.judged:
        event.memorability, event.memorability_parts = round(done.judged.total, 3), done.judged.parts()
    said = [f"kept as {done.memory.type} {done.memory.uid}" if done.memory else f"not kept: {done.reason}"]
    if done.due:
        _, outcome = recap.checkpoint(passage.session, passage.at, actor)
        said.append(f"checkpoint: {outcome}")
    return "ok" if done.memory else "skipped", "; ".join([*said, *done.notes])


def begin_session(passage: Passage) -> Said:
    """session:start @50: a sitting starts with a fresh window."""
    with working(passage.session) as state:
        known = state.calls > 0
        late = state.window_at and passage.at.isoformat() < state.window_at
        if not late:
            state.window, state.output = [], ""
    return "ok", "the session goes on" if known else "the session begins"


def sum_up(passage: Passage) -> Said:
    """session:end @100."""
    memory, outcome = recap.summarise_session(passage.session, passage.at, passage.actor)
    passage.event.memory = memory
    return ("ok", f"summary {outcome}: {memory.uid}") if memory else ("skipped", outcome)


def make_checkpoint(passage: Passage) -> Said:
    """session:checkpoint @100."""
    memory, outcome = recap.checkpoint(passage.session, passage.at, passage.actor)
    passage.event.memory = memory
    return ("ok", f"checkpoint {outcome}: {memory.uid}") if memory else ("skipped", outcome)
