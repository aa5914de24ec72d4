"""The session that the demo shows first."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from memoryhub.models import AgentToken, Session
from memoryhub.ops.demo import AGENT, play_session


@pytest.fixture(scope="module")
def played_at(store: None) -> datetime:
    now = timezone.now()
    play_session(now)
    return now


def test_the_demo_has_a_session_that_an_agent_really_sent(played_at):
    session = Session.objects.get()
    assert session.agent == f"token:{AGENT}"
    assert session.events.filter(memory__isnull=False).count() > 8
    assert session.events.exclude(skip_reason="").count() > 100
    assert session.injections.exists()
    assert session.summary


def test_it_ended_a_short_while_ago(played_at):
    ended = Session.objects.get().ended_at
    assert abs(played_at - timedelta(minutes=35) - ended) < timedelta(seconds=1)


def test_its_token_opens_nothing_any_more(played_at):
    assert not AgentToken.objects.active().exists()
