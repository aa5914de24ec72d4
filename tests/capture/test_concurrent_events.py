"""Test that concurrent events of a session are neither lost nor rejected."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from memoryhub import capture
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit import journal
from memoryhub.models import Event, Memory, Session
from tests.capture.conftest import FIX

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
ACTOR = Actor("token:bot", Clearance.up_to("secret", owner="ada"))
THREADS, CALLS = 6, 8


def at_once(work):
    """Return the results of all threads in any order."""
    barrier, answers, raised = threading.Barrier(THREADS), [], []

    def run(number):
        try:
            barrier.wait()
            answers.extend(work(number))
        except Exception as error:  # noqa: BLE001 the test must see any error of a thread
            raised.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raised == []
    return answers


def call(command, response="ok", mark=""):
    data = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_response": response}
    return capture.dispatch(capture.HookEvent("tool:post", "s1", "shop", data=data, delivery_id=mark), ACTOR)


def test_concurrent_calls_are_all_recorded_and_counted():
    answers = at_once(lambda number: [call(f"echo {number} {n}") for n in range(CALLS)])
    assert not [one for answer in answers for one in answer.handlers if one.status == "failed"]
    assert Session.objects.count() == 1
    assert Event.objects.count() == THREADS * CALLS
    assert Session.objects.get().state["calls"] == THREADS * CALLS


def test_concurrent_identical_commits_create_one_memory():
    at_once(lambda number: [call(f'git commit -m "{FIX}"')])
    assert Memory.objects.count() == 1
    assert journal.verify().ok


def test_concurrent_identical_deliveries_create_one_event():
    answers = at_once(lambda number: [call("echo", mark="toolu_1")])
    assert Event.objects.count() == 1
    assert len([one for one in answers if one.event]) == 1


def test_concurrent_session_ends_create_one_summary():
    call(f'git commit -m "{FIX}"')
    at_once(lambda number: [capture.dispatch(capture.HookEvent("session:end", "s1", "shop"), ACTOR)])
    assert Memory.objects.filter(type="session_summary").count() == 1
