"""The end of a session tends its project: consolidation @200, compression @300."""

from __future__ import annotations

from django.conf import settings

from memoryhub.hooks.happening import Passage, Said
from memoryhub.lifecycle import runs
from memoryhub.lifecycle.operations import run_now
from memoryhub.models import Event, Memory
from memoryhub.models.fields import new_uid
from memoryhub.sensitivity import LEVELS, Actor, Clearance, Sensitivity

AUTO = "auto"


def consolidate(passage: Passage) -> Said:
    return _tend("consolidate", settings.MEMORYHUB.session_end_consolidation, passage)


def compress(passage: Passage) -> Said:
    return _tend("compress", settings.MEMORYHUB.session_end_compression, passage)


def _tend(operation: str, mode: str, passage: Passage) -> Said:
    """At once in a small project; in a large one a run of its own, so that the agent need not wait."""
    if mode != AUTO:
        return "skipped", "left to the scheduler and to people (set to manual)"
    session = passage.session
    guarded = _is_guarded(passage)
    actor = _upkeep_actor("upkeep" if guarded else "session-end", passage)
    project = {"project": session.project}
    limit = settings.MEMORYHUB.inline_maintenance_limit
    live = Memory.objects.visible_to(actor.clearance).live().filter(project=session.project)
    if live.order_by()[: limit + 1].count() > limit:
        run = runs.start(operation, project, actor, may_wait=True)
        return "ok", f"queued as run {run.uid}"
    ran = run_now(operation, project, actor, run_uid=new_uid() if guarded else session.session_id)
    return "ok", f"{ran.changed} of {ran.seen} memories changed" if ran.seen else "no memories to tend"


def _is_guarded(passage: Passage) -> bool:
    """Whether part of the session is above public.

    What tending changes is journaled at the level of each memory: neither the session's id nor that one has
    ended may stand there for readers who cannot know of it.
    """
    public = Sensitivity.PUBLIC.value
    if passage.happening.sensitivity != public:
        return True
    return Event.objects.filter(session=passage.session).exclude(sensitivity=public).exists()


def _upkeep_actor(name: str, passage: Passage) -> Actor:
    """Return an actor for the session's project that sees no more of it than the caller.

    Upkeep moves memories to the trash. The daily maintenance does that with memories hidden from the caller.
    """
    project = Clearance(frozenset(LEVELS), projects=frozenset({passage.session.project}))
    return Actor(f"system:{name}", passage.actor.clearance.within(project))
