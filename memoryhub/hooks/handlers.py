"""The handlers of the chain: each hands one stage what it needs from the others."""

from __future__ import annotations

import logging
from datetime import datetime

from django.conf import settings

from memoryhub import capabilities
from memoryhub.encoding import capture as capturing
from memoryhub.encoding import recap, segmentation
from memoryhub.encoding.working import Working, working
from memoryhub.hooks.happening import Passage, Said
from memoryhub.models import Memory
from memoryhub.retrieval.inject import Injected, Wanted, inject
from memoryhub.retrieval.neighbours import nearest
from memoryhub.retrieval.opening import open_session
from memoryhub.sensitivity import higher

logger = logging.getLogger(__name__)
# Sources of Claude Code's SessionStart after which the agent has nothing of the session before its eyes.
_FORGETFUL = frozenset({"startup", "clear", "compact"})


def inject_memories(passage: Passage) -> Said:
    """prompt:submit @50."""
    if not passage.happening.reads:
        return "skipped", "this token lacks the right 'read'"
    wanted = _wanted(passage, str(passage.happening.data.get("prompt") or ""))
    return _injected(passage, inject(wanted, passage.actor, now=passage.at))


def _wanted(passage: Passage, prompt: str) -> Wanted:
    happening = passage.happening
    with_state = Working.of(passage.session.state, passage.session.segment)
    budget = settings.MEMORYHUB.token_budget
    return Wanted(
        prompt=prompt,
        session_id=passage.session.session_id,
        project=passage.session.project,
        token_budget=min(budget, happening.most_tokens) if happening.most_tokens is not None else budget,
        allow_private=happening.allow_private,
        allow_secret=happening.allow_secret,
        fresh_since=datetime.fromisoformat(with_state.fresh_since) if with_state.fresh_since else None,
        sensitivity=happening.sensitivity,
    )


def _injected(passage: Passage, done: Injected) -> Said:
    passage.context = done.context
    looked_at = len(done.injected) + len(done.withheld)
    if not looked_at:
        said = "nothing to show"
    elif _tells_more(passage, done):
        said = "the injection log says what was shown"
    else:
        said = f"{len(done.injected)} of {looked_at} memories shown"
    return "ok" if done.injected else "skipped", "; ".join([said, *done.skipped])


def _tells_more(passage: Passage, done: Injected) -> bool:
    """Whether a number would tell those who may see the event of memories that they may not see."""
    level = passage.event.sensitivity
    memories = [one.candidate.memory for one in done.shown]
    memories += [one.memory for one in done.choice.withheld] if done.choice else []
    return any(higher(memory.sensitivity, level) != level for memory in memories)


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
    done = capturing.capture(call, _place(passage), _neighbours(passage), actor)
    event.memory, event.skip_reason = done.memory, done.reason
    if done.judged:
        event.memorability, event.memorability_parts = round(done.judged.total, 3), done.judged.parts()
    said = [f"kept as {done.memory.type} {done.memory.uid}" if done.memory else f"not kept: {done.reason}"]
    said += [f"noted before: {memory.uid}" for memory in done.beside if memory != done.memory]
    if done.due:
        captured = [*([done.memory] if done.memory else []), *done.beside]
        said.append(f"checkpoint: {_checkpoint(passage, captured)}")
    return "ok" if done.memory else "skipped", "; ".join([*said, *done.notes])


def _checkpoint(passage: Passage, captured: list[Memory]) -> str:
    """What became of a checkpoint; that it fails does not make a captured memory a failure."""
    passing = recap.Passing(passage.event, captured)
    try:
        return recap.checkpoint(passage.session, passage.at, passage.actor, passing)[1]
    except Exception:
        logger.exception("the checkpoint of a session failed")
        return "failed; the log has the details"


def _place(passage: Passage) -> capturing.Place:
    segment = passage.event.segment if capabilities.is_on(capabilities.BOUNDARIES) else 0
    return capturing.Place(passage.session, segment, passage.at, passage.event.sensitivity)


def _neighbours(passage: Passage) -> capturing.Neighbours:
    """What is remembered already in this project, as far as the agent may know of it."""
    memories = Memory.objects.visible_to(passage.actor.clearance).live()
    within = memories.filter(project=passage.session.project)
    return lambda text: nearest(within, text)


def begin_session(passage: Passage) -> Said:
    """session:start @50: a sitting starts with a fresh window."""
    happening = passage.happening
    with working(passage.session) as state:
        known = state.calls > 0
        late = bool(state.window_at) and passage.at < datetime.fromisoformat(state.window_at)
        if not late:
            state.window, state.doubt, state.output = [], [], ""
            if str(happening.data.get("source", "startup")) in _FORGETFUL:
                state.fresh_since = passage.at.isoformat()
    said = "the session goes on" if known else "the session begins"
    if not (happening.greets and happening.reads):
        return "ok", said
    passage.session.refresh_from_db(fields=["state", "segment"])
    _, told = _injected(passage, open_session(_wanted(passage, ""), passage.actor, passage.at))
    return "ok", f"{said}; {told}"


def sum_up(passage: Passage) -> Said:
    """session:end @100: what was noted and not told yet, then the summary of it all."""
    rest = capturing.capture_rest(_place(passage), _neighbours(passage), passage.actor)
    passing = recap.Passing(passage.event, rest.beside)
    memory, outcome = recap.summarise_session(passage.session, passage.at, passage.actor, passing)
    passage.event.memory = memory
    said = [f"summary {outcome}: {memory.uid}" if memory else outcome]
    said += [f"noted before: {one.uid}" for one in rest.beside]
    return "ok" if memory else "skipped", "; ".join([*said, *rest.notes])


def make_checkpoint(passage: Passage) -> Said:
    """session:checkpoint @100: what was injected so far is about to be lost to the agent."""
    with working(passage.session) as state:
        state.fresh_since = passage.at.isoformat()
    memory, outcome = recap.checkpoint(passage.session, passage.at, passage.actor)
    passage.event.memory = memory
    return ("ok", f"checkpoint {outcome}: {memory.uid}") if memory else ("skipped", outcome)
