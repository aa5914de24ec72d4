"""Test the visibility of events and everything derived from them, at every endpoint."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.models import Event, Fact, Injection, JournalEntry, MaintenanceRun, Memory
from tests.capture.conftest import DATABASE, DESIGN, FIX, AgentSession
from tests.cases import each

LEVELS = ("public", "private", "secret")
WORDS = {"public": "heron", "private": "osprey", "secret": "bittern"}
SAID = {
    "public": "fix: the heron list skipped ships, because its counter index began at one after midnight",
    "private": "fix: osprey invoices got the wrong currency when customers moved; counter index added",
    "secret": "fix: bittern backups failed silently on full disks since the counter index locked the archive",
}


@pytest.fixture
def four(open_session, bot):
    """Create a session with an event of each level and one of an unknown level."""
    agent_session = open_session("four")
    for level, message in SAID.items():
        assert agent_session.commit(message, sensitivity=level).memory
    agent_session.commit("fix: grebe labels were printed twice because the counter index was never reset")
    last = Event.objects.latest("pk")
    Event.objects.filter(pk=last.pk).update(sensitivity="cosmic")
    Memory.objects.filter(pk=last.memory.pk).update(sensitivity="cosmic")
    return agent_session


ASKED = [
    ("public", {}, {"heron"}),
    ("secret", {}, {"heron"}),
    ("public", {"allow_private": "true", "allow_secret": "true"}, {"heron"}),
    ("private", {"allow_private": "true"}, {"heron", "osprey"}),
    ("private", {"allow_secret": "true"}, {"heron"}),
    ("secret", {"allow_private": "true", "allow_secret": "true"}, {"heron", "osprey", "bittern"}),
]


@each("clearance, asked, seen", [ASKED[1], ASKED[2], ASKED[4], ASKED[5]])
@each("path", ["/sessions/four", "/timeline", "/memories", "/search?query=counter+index"])
def test_each_endpoint_shows_requested_and_allowed_levels(four, agent, clearance, asked, seen, path):
    answer = agent(clearance, "reader").get(path.partition("?")[0], **asked, **dict(_query(path)))
    assert answer.status_code == 200
    text = answer.content.decode()
    assert {word for word in (*WORDS.values(), "grebe") if word in text} == seen


def _query(path):
    query = path.partition("?")[2]
    return [tuple(part.replace("+", " ").split("=")) for part in query.split("&")] if query else []


@each("clearance, asked, seen", ASKED)
def test_prompt_injects_requested_and_allowed_levels(four, agent, clearance, asked, seen, configure):
    configure(injection_min_score=0.0)
    reader = AgentSession(agent(clearance, "reader"), "other")
    flags = dict.fromkeys(asked, True)
    context = reader.ok("prompt:submit", {"prompt": "what of the counter index?"}, **flags)["context"]
    assert {word for word in (*WORDS.values(), "grebe") if word in context} == seen


def test_event_is_hidden_with_its_memory(agent_session, agent):
    event = agent_session.commit(FIX)
    Memory.objects.filter(pk=event.memory.pk).update(sensitivity="secret")
    assert "encoding" not in agent("public", "reader").get("/timeline").content.decode()


def test_call_on_a_credential_file_is_private(agent_session, agent):
    agent_session.tool("Read", {"file_path": "ops/.env"}, "A=1")
    assert ".env" not in agent("secret", "reader").get("/timeline").content.decode()
    shown = agent("private", "reader").get("/timeline", allow_private="true").content.decode()
    assert "ops/.env" in shown


def test_events_of_other_projects_are_hidden(agent_session, agent):
    agent_session.commit(FIX)
    confined = agent("secret", "reader", projects=["elsewhere"])
    assert confined.get("/timeline").json()["total"] == 0
    assert confined.get("/sessions/s1").status_code == 404


def test_hidden_memories_do_not_affect_the_memorability_parts(open_session, remember):
    """An identical secret memory neither causes a duplicate nor lowers the parts."""
    remember(FIX, project="shop", sensitivity="secret")
    event = open_session(clearance="public").commit(FIX)
    assert event.memory is not None
    assert event.memorability_parts["distinctiveness"] == 1.0


def test_secret_captured_by_a_public_agent_is_not_injected(open_session):
    low = open_session(clearance="public")
    low.commit(FIX, sensitivity="secret")
    prompt = {"prompt": "which cache key ignored the encoding of the importer?"}
    assert low.ok("prompt:submit", prompt, allow_secret=True)["context"] == ""
    assert low.agent.get("/memories", allow_secret="true").json()["total"] == 0


@pytest.mark.parametrize("level", LEVELS)
def test_level_applies_to_memory_boundary_and_summary(agent_session, level):
    for output in (DATABASE, DATABASE + " vacuum", DESIGN):
        agent_session.tool("Bash", {"command": "x"}, output, sensitivity=level)
    agent_session.commit(FIX, sensitivity=level)
    agent_session.end(sensitivity=level)
    assert set(Event.objects.values_list("sensitivity", flat=True)) == {level}
    assert set(Memory.objects.values_list("sensitivity", flat=True)) == {level}
    assert set(Fact.objects.values_list("sensitivity", flat=True)) <= {level}


def test_hostile_text_is_escaped(agent_session):
    agent_session.tool("Bash", {"command": "<script>alert(1)</script>"}, "</memory-context><b>" + DATABASE)
    [row] = [one for one in agent_session.agent.get("/timeline").json()["items"] if one["kind"] == "event"]
    assert row["preview"].startswith("<script>")
    assert json.dumps(row)


@pytest.mark.parametrize("event", ["prompt", "start"])
def test_event_with_a_past_time_does_not_inject_expired_memories(bot, remember, event):
    memory = remember(DATABASE, project="shop", importance=1)
    Memory.objects.filter(pk=memory.pk).update(
        expires_at="2026-06-01T00:00Z", created_at="2026-05-01T00:00Z", updated_at="2026-05-01T00:00Z"
    )
    hook = {
        "prompt": {
            "hook_event_name": "UserPromptSubmit",
            "prompt": "the planner of the ledger partition index",
        },
        "start": {"hook_event_name": "SessionStart", "source": "startup"},
    }[event]
    body = {"session_id": "s1", "cwd": "/home/ada/shop", **hook}
    assert bot.post("/hooks/claude-code?at=2026-05-02T00:00:00Z", body).json() == {}


def test_injection_log_of_a_private_prompt_is_private(agent_session, remember):
    remember("the counter index is rebuilt at night", project="shop")
    agent_session.ok("prompt:submit", {"prompt": "what of the counter index?"}, sensitivity="private")
    assert Injection.objects.get().sensitivity == "private"


def test_public_event_does_not_reveal_the_number_of_secret_memories(open_session, remember):
    remember("the counter index is rebuilt at night", project="shop", sensitivity="secret")
    high = open_session(clearance="secret")
    high.ok("prompt:submit", {"prompt": "what of the counter index?"}, allow_secret=True)
    assert Injection.objects.get().injected
    [said] = Event.objects.get().handlers
    assert said["detail"] == "the injection log says what was shown"


def _idle(remember):
    old = timezone.now() - timedelta(days=10)
    Memory.objects.filter(pk=remember("idle words", project="shop").pk).update(updated_at=old, created_at=old)


@pytest.mark.parametrize("level", ["private", "secret"])
def test_end_of_a_hidden_session_changes_no_public_memory(open_session, remember, agent, level):
    public, hidden = agent("public", "reader"), open_session("hidden-one")
    _idle(remember)
    before = _answers(public)
    hidden.ok("prompt:submit", {"prompt": "what is due?"}, sensitivity=level)
    hidden.end(sensitivity=level)
    assert public.get("/sessions/hidden-one").status_code == 404
    assert _answers(public) == before


def test_end_of_a_session_with_a_hidden_summary_changes_no_public_memory(open_session, remember, agent):
    """The end is sent as public, but it is hidden with the secret summary."""
    public, hidden = agent("public", "reader"), open_session("hidden-one")
    _idle(remember)
    before = _answers(public)
    hidden.commit(FIX, sensitivity="secret")
    hidden.end()
    assert Event.objects.latest("pk").memory.sensitivity == "secret"
    assert public.get("/sessions/hidden-one").status_code == 404
    assert _answers(public) == before


def test_end_of_a_hidden_session_in_a_large_project_queues_no_run(open_session, remember, configure):
    configure(inline_maintenance_limit=0)
    _idle(remember)
    open_session("hidden-one").end(sensitivity="secret")
    assert not MaintenanceRun.objects.exists()
    assert not JournalEntry.objects.filter(object_type="run").exists()


def _answers(reader):
    """Return the memories, the statistics and the journal as a public agent sees them."""
    paths = ("/memories", "/stats", "/journal", "/timeline", "/sessions")
    return [reader.get(path).content for path in paths]


def test_one_guarded_event_hides_the_session_id(open_session, remember):
    """The end is public, an earlier event is not."""
    open_session("hidden-one").ok("prompt:submit", {"prompt": "what is due?"}, sensitivity="secret")
    _idle(remember)
    open_session("hidden-one", name="other").end()
    assert JournalEntry.objects.get(operation="consolidate").object_id != "hidden-one"


@each("level", ["public", "private", "secret", "cosmic"])
def test_old_journal_row_with_a_session_id_is_visible_with_the_session(open_session, agent, level):
    open_session("old-one").ok("prompt:submit", {"prompt": "what is due?"})
    Event.objects.update(sensitivity=level)
    past = journal.Change("consolidate", "memories", "old-one", {"run": "old-one"}, "shop")
    with transaction.atomic():
        journal.record(Actor("system:session-end"), [past])
    seen = {
        clearance
        for clearance in LEVELS
        if "old-one"
        in agent(clearance, clearance).get("/journal", allow_private=True, allow_secret=True).content.decode()
    }
    expected = {
        "public": set(LEVELS),
        "private": {"private", "secret"},
        "secret": {"secret"},
        "cosmic": set(),
    }
    assert seen == expected[level]
