"""The demo's latest session: a recorded one, played through the endpoint as an agent would have sent it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from memoryhub.management.replaying.doors import inside
from memoryhub.management.replaying.player import Player
from memoryhub.management.replaying.transcript import read_transcript
from memoryhub.sensitivity import system

AGENT = "claude-code"
RECORDED = "fixtures/sessions/debugging.jsonl"
ENDED_AGO = timedelta(minutes=35)


def play_session(now: datetime | None = None) -> None:
    """Play it so that it ended a while ago. Refused when the endpoint takes nothing."""
    transcript = read_transcript(settings.BASE_DIR / RECORDED)
    with _in_no_hurry(), inside(system("quickstart"), AGENT) as door:
        for _ in Player(door, transcript, looks=False).play((now or timezone.now()) - ENDED_AGO):
            pass


@contextmanager
def _in_no_hurry() -> Iterator[None]:
    """On a busy machine, too, each prompt gets what it would have got."""
    served = settings.MEMORYHUB
    settings.MEMORYHUB = replace(served, injection_deadline_ms=60_000)
    try:
        yield
    finally:
        settings.MEMORYHUB = served
