"""Events that the sender spooled and sends late: recorded once, with their own times."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from memoryhub.models import AgentToken, Event, Injection, Memory, Session
from tests.api.conftest import is_problem
from tests.capture.conftest import DATABASE, FIX
from tests.capture.test_claude_code import HOOK, commit, hook, send
from tests.cases import each

QUESTION = "why does the planner scan the ledger partition index?"
EARLIER = "2026-08-01T10:00:00Z"


def test_event_that_the_sender_gave_up_is_recorded_once(bot):
    send(bot, hook("UserPromptSubmit", prompt=QUESTION), "?event_id=a1")
    send(bot, hook("UserPromptSubmit", prompt=QUESTION), f"?event_id=a1&at={EARLIER}&late=true")
    assert Event.objects.count() == 1


def test_equal_prompts_with_different_ids_are_two_events(bot):
    for name in ("a1", "a2"):
        send(bot, hook("UserPromptSubmit", prompt=QUESTION), f"?event_id={name}&at={EARLIER}&late=true")
    assert Event.objects.count() == 2


def test_call_in_the_spool_is_recognised_by_its_own_id(bot):
    send(bot, commit())
    send(bot, commit(), f"?event_id=a1&at={EARLIER}&late=true")
    assert Event.objects.count() == 1


def test_late_events_keep_their_times(bot):
    send(bot, hook("SessionStart", source="startup"))
    for minute in (1, 2):
        query = f"?event_id=a{minute}&at=2026-08-01T10:0{minute}:00Z&late=true"
        send(bot, hook("UserPromptSubmit", prompt=f"question {minute}"), query)
    late = Event.objects.filter(event="prompt:submit").order_by("at")
    assert [(one.preview, one.at.minute) for one in late] == [("question 1", 1), ("question 2", 2)]
    assert Session.objects.get().started_at.minute == 1


@each("ahead", [timedelta(hours=2), timedelta(days=2), timedelta(days=365 * 20)])
def test_late_event_of_a_clock_that_is_ahead_is_recorded_now(bot, ahead):
    at = timezone.now() + ahead
    query = f"?event_id=a1&at={at:%Y-%m-%dT%H:%M:%SZ}&late=true"
    send(bot, hook("UserPromptSubmit", prompt=QUESTION), query)
    assert Event.objects.get().at <= timezone.now()


@each("at", ["nonsense", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"])
def test_late_event_with_a_time_that_no_clock_has_is_refused_or_recorded(bot, at):
    path = f"{HOOK}?event_id=a1&late=true&at={at}"
    answer = bot.post(path, hook("UserPromptSubmit", prompt=QUESTION))
    assert answer.status_code == (200 if at.startswith("9999") else 422)


@pytest.mark.parametrize(
    "body", [hook("UserPromptSubmit", prompt=QUESTION), hook("SessionStart", source="startup")]
)
def test_late_event_injects_and_logs_nothing(bot, remember, body):
    remember(DATABASE, project="shop", importance=1)
    assert send(bot, body, "?event_id=a1&late=true") == {}
    assert Event.objects.count() == 1
    assert not Injection.objects.exists()


def test_late_command_pauses_nothing(bot):
    asked = hook("UserPromptSubmit", prompt="/memoryhub:pause 2")
    assert send(bot, asked, "?event_id=a1&late=true") == {}
    assert "paused" in send(bot, asked, "?event_id=a2")["reason"]


def test_secret_in_a_late_event_is_not_stored(bot):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    send(bot, hook("UserPromptSubmit", prompt=f"use {secret}"), "?event_id=a1&late=true")
    send(bot, commit(f"{FIX} {secret}"), "?event_id=a2&late=true")
    previews = " ".join(Event.objects.values_list("preview", flat=True))
    assert "[secret removed]" in previews
    assert secret not in previews
    assert not Memory.objects.exists()


@each("event_id", ["x" * 65, "a b", "é", "a%00"])
def test_event_id_of_another_form_is_refused(bot, event_id):
    is_problem(bot.post(f"{HOOK}?event_id={event_id}", hook("SessionStart")), 422)


def test_sender_is_asked_to_keep_an_event_that_a_busy_store_refused(bot, monkeypatch):
    def busy(*args, **kwargs):
        raise OperationalError("database is locked")

    monkeypatch.setattr("memoryhub.capture.event_log.save_event", busy)
    assert bot.post(f"{HOOK}?event_id=a1", commit()).status_code == 503
    assert send(bot, commit()) == {}


def test_hub_keeps_how_many_events_wait(bot, django_assert_num_queries):
    def report(count):
        headers = {"HTTP_X_MEMORYHUB_WAITING": count}
        bot.http.post("/api/v1" + HOOK, "{}", content_type="application/json", **headers)
        return AgentToken.objects.values_list("waiting_events", flat=True).get()

    assert [report(count) for count in ("3", "-1", "many", "9999999", "0")] == [3, 3, 3, 3, 0]
    with django_assert_num_queries(2):  # the token, and the reading above
        report("0")
