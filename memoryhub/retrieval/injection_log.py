"""What was injected is written down, and looked up again so that a session is not told the same twice."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import OperationalError

from memoryhub.models import Injection, Session
from memoryhub.retrieval.choice import BLOCKED, REDACTED
from memoryhub.retrieval.deadline import Deadline
from memoryhub.retrieval.prompts import without_context
from memoryhub.retrieval.scales import count_access
from memoryhub.sensitivity import Actor, Clearance, higher
from memoryhub.store.flagging import GOVERNOR, flag
from memoryhub.store.screening import redact
from memoryhub.text import shorten
from memoryhub.transactions import is_busy, write

if TYPE_CHECKING:
    from memoryhub.retrieval.inject import Injected, Wanted

logger = logging.getLogger(__name__)
MOST_PREVIEWED = 100_000  # characters, more than any preview: a credential is not cut in two at its end
EMPTY_WAITS = 0.1  # seconds for other writers; then an answer without memories goes out without its row
MOST_LOOKED_AT = 30  # prompts of a session back


def shown_before(wanted: Wanted, clearance: Clearance, now: datetime) -> dict[str, datetime]:
    """When each memory was last shown to this session, as far as the agent still has it before its eyes:
    within the session scale, and since it last lost its context."""
    if not wanted.session_id:
        return {}
    begin = now - timedelta(minutes=settings.MEMORYHUB.session_minutes)
    rows = Injection.objects.visible_to(clearance).filter(
        session__session_id=wanted.session_id,
        project=wanted.project,
        at__gte=max(begin, wanted.fresh_since or begin),
    )
    found: dict[str, datetime] = {}
    for at, injected in rows.order_by("-at").values_list("at", "injected")[:MOST_LOOKED_AT]:
        for one in injected:
            found.setdefault(one["id"], at)
    return found


def write_down(
    wanted: Wanted, result: Injected, clearance: Clearance, actor: Actor, now: datetime, deadline: Deadline
) -> bool:
    """Log the injection and count an access of each memory shown; whether that could be done.

    A prompt that brought nothing up leaves a row without memories, but none in a project out of reach. The
    log is as sensitive as the prompt, and as all that is shown.
    """
    if wanted.project and not clearance.reaches(wanted.project):
        return True
    left = deadline.left()
    try:
        with write(patience=left if result.injected else min(left, EMPTY_WAITS)):
            row = _row(wanted, result)
            row.session, row.at = _session(wanted, clearance, actor, now), now
            row.took_ms = deadline.took()
            row.save(force_insert=True)
            count_access([one.candidate.memory for one in result.shown], now)
            flag(_orders(result), actor, now)
    except OperationalError as error:
        if not is_busy(error):
            raise
        logger.warning("an injection could not be logged: %s", error)
        return not result.injected
    return True


def _row(wanted: Wanted, result: Injected) -> Injection:
    """What was asked, shown and held back; not saved, and without its session and time."""
    level = wanted.sensitivity
    for one in result.shown:
        level = higher(level, one.candidate.memory.sensitivity)
    return Injection(
        project=wanted.project,
        sensitivity=level,
        prompt_preview=_preview(wanted.prompt),
        token_budget=wanted.budget,
        tokens_used=result.tokens_used,
        injected=[{"id": one.uid, "score": one.score, "scale": one.scale} for one in result.injected],
        withheld=[
            {"id": one.uid, "reason": one.reason, **({"detail": one.detail} if one.detail else {})}
            for one in result.withheld
        ],
    )


def note_missed(wanted: Wanted, result: Injected, actor: Actor, now: datetime, deadline: Deadline) -> None:
    """Log a prompt that got nothing because its answer was late or failed. Never raises, hardly waits."""
    try:
        write_down(wanted, result, wanted.clearance(actor), actor, now, deadline)
    except Exception:
        logger.exception("that a prompt got nothing could not be logged")


def _orders(result: Injected) -> dict[str, list[str]]:
    """What the governor found in which memory, as flags for a reviewer."""
    found = [one for one in result.withheld if one.reason in (BLOCKED, REDACTED) and one.detail]
    return {one.uid: [f"{GOVERNOR}:{kind}" for kind in one.detail.split(", ")] for one in found}


def _preview(prompt: str) -> str:
    """The beginning of a prompt, without credentials and without what was injected before."""
    beginning = without_context(prompt.replace("\x00", " ")[:MOST_PREVIEWED])
    return shorten(redact(beginning), settings.MEMORYHUB.event_preview_chars)


def _session(wanted: Wanted, clearance: Clearance, actor: Actor, now: datetime) -> Session | None:
    """The session that asked; one that is new begins here."""
    if not wanted.session_id or not clearance.reaches(wanted.project):
        return None
    Session.widen([(wanted.session_id, wanted.project, now, now)], actor.name)
    return Session.objects.get(session_id=wanted.session_id, project=wanted.project)
