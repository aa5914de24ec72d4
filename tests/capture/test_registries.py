"""Test the registries of capabilities and hooks, and the examples of docs/python.md."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memoryhub import capabilities, hooks
from memoryhub.capture.classification import Memorability

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


@pytest.fixture
def handler(monkeypatch):
    """Return a function that registers a handler for tool calls until the end of the test."""
    monkeypatch.setattr(hooks, "chains", dict(hooks.chains))
    return lambda priority, function, **options: hooks.register("tool:post", priority, function, **options)


def reports(agent_session):
    answer = agent_session.ok("tool:post", {"tool_name": "Read"})
    return [(one["name"], one["status"]) for one in answer["handlers"]]


@pytest.mark.django_db
def test_examples_of_the_python_page_work(handler, configure):
    configure(injection_deadline_ms=60_000)
    options = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    text = PAGE.read_text("utf-8").replace("```", "")
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    found = doctest.DocTestRunner(optionflags=options).run(test)
    assert found.attempted > 20
    assert found.failed == 0


def test_documented_methods_of_each_capability_exist():
    rows = [line.split("|") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `memory.")]
    assert {row[1].strip(" `") for row in rows} == set(capabilities.CAPABILITIES)
    for _, name, _, methods, _ in rows:
        provided = capabilities.get(name.strip(" `"))
        for method in methods.replace("`", "").split(","):
            assert getattr(provided, method.strip()).__doc__


def test_capability_that_is_off_is_unavailable(configure):
    configure(capability_temporal=False)
    with pytest.raises(capabilities.CapabilityUnavailable, match=r"memory\.temporal is switched off"):
        capabilities.get("memory.temporal")


def test_registered_handler_runs_at_its_priority(agent_session, handler):
    handler(120, lambda context: None, name="between")
    assert [name for name, _ in reports(agent_session)] == ["boundaries", "between", "capture"]


def test_handler_of_a_switched_off_capability_is_reported(agent_session, handler, configure):
    handler(200, lambda context: None, name="extra", capability="memory.temporal")
    configure(capability_temporal=False)
    assert reports(agent_session)[-1] == ("extra", "skipped")


def test_failing_registered_handler_is_reported_and_the_others_run(agent_session, handler):
    def fail(context):
        raise RuntimeError

    handler(50, fail)
    assert reports(agent_session)[0] == ("fail", "failed")
    assert [name for name, _ in reports(agent_session)] == ["fail", "boundaries", "capture"]


def test_handler_of_an_unknown_event_is_refused():
    with pytest.raises(ValueError, match="unknown event 'tool:pre'"):
        hooks.register("tool:pre", 1, print)


def test_registered_scorer_decides_what_capture_keeps(agent_session, monkeypatch):
    class Scorer:
        """Keeps nothing."""

        def score(self, *args):
            return Memorability(0.0, 0.0, 0.0, 0.0, 0.0)

    monkeypatch.setitem(capabilities._objects, "memory.memorability", Scorer())
    assert agent_session.commit("feat: members wait in line for a tool").skip_reason == "below the gate"


NEIGHBOUR = """
from django.apps import AppConfig


class NeighbourConfig(AppConfig):
    name = "neighbour"

    def ready(self):
        from memoryhub import hooks

        def count_words(context):
            return "ok", f"{len(context.hook_event.data['prompt'].split())} words"

        hooks.register("prompt:submit", 10, count_words)
"""
SETTINGS = """
from memoryhub.settings import *

INSTALLED_APPS = [%s]
"""
DISPATCH = """
import django

django.setup()

from django.core.management import call_command
from memoryhub.access.policy import system_actor
from memoryhub.capture import HookEvent, dispatch

call_command("migrate", verbosity=0)
event = HookEvent("prompt:submit", "session-1", "shop", data={"prompt": "Which database is it?"})
print([(one.name, one.status, one.detail) for one in dispatch(event, system_actor("tests")).handlers][0])
"""


@pytest.mark.slow
@pytest.mark.parametrize("apps", ["*INSTALLED_APPS, 'neighbour'", "'neighbour', *INSTALLED_APPS"])
def test_another_app_joins_the_chain_when_it_is_ready(tmp_path, migrated_home, apps):
    """In a process of its own, and before or after the hub's app."""
    (tmp_path / "neighbour").mkdir()
    (tmp_path / "neighbour" / "__init__.py").touch()
    (tmp_path / "neighbour" / "apps.py").write_text(NEIGHBOUR)
    (tmp_path / "site_settings.py").write_text(SETTINGS % apps)
    environment = {
        "PATH": os.environ["PATH"],
        "LETSGO_HOME": str(migrated_home),
        "PYTHONPATH": f"{tmp_path}:{PAGE.parents[1]}",
        "DJANGO_SETTINGS_MODULE": "site_settings",
    }
    done = subprocess.run(
        [sys.executable, "-c", DISPATCH], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "('count_words', 'ok', '4 words')\n", done.stderr
