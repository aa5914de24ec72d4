"""Test the recorded session of the demo."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from memoryhub.models import AgentToken, Session
from memoryhub.ops.replay import AGENT, play_session


@pytest.fixture(scope="module")
def played_at(store: None) -> datetime:
    now = timezone.now()
    play_session(now)
    return now


def test_demo_contains_a_recorded_session(played_at):
    session = Session.objects.get()
    assert session.agent == f"token:{AGENT}"
    assert session.events.filter(memory__isnull=False).count() > 8
    assert session.events.exclude(skip_reason="").count() > 100
    assert session.injections.exists()
    assert session.summary


def test_demo_session_ended_recently(played_at):
    ended = Session.objects.get().ended_at
    assert abs(played_at - timedelta(minutes=35) - ended) < timedelta(seconds=1)


def test_demo_token_is_revoked(played_at):
    assert not AgentToken.objects.active().exists()
