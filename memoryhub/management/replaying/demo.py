"""The demo's latest session: a recorded one, played through the endpoint as an agent would have sent it."""

from __future__ import annotations

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
    with inside(system("quickstart"), AGENT) as door:
        for _ in Player(door, transcript, looks=False).play((now or timezone.now()) - ENDED_AGO):
            pass
