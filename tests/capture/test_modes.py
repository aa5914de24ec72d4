"""Modes and pauses of projects, and approval: what is stored, shown and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import LEVELS, Actor, Clearance, system_actor
from memoryhub.capture import project_changes, projects
from memoryhub.memories.delete import delete_waiting
from memoryhub.memories.errors import Conflict, StoreError
from memoryhub.models import Event, EventCount, Injection, JournalEntry, Memory, Project, Session
from tests.api.conftest import Agent, is_problem, stored
from tests.capture.conftest import DATABASE, DESIGN, FIX, AgentSession
from tests.cases import each

ADMIN = system_actor("tests")
TITLE = "Read each file once"


def set_mode(mode: str, **more: Any) -> Project:
    return projects.configure_project("shop", ADMIN, mode=mode, **more).project


def work(session: AgentSession) -> dict[str, Any]:
    """Send a session with a prompt, a commit and an end; return the answer to the prompt."""
    session.ok("session:start", {"source": "startup"})
    answer = session.ok("prompt:submit", {"prompt": "Why does the importer read files twice?"})
    edit = {"tool_name": "Edit", "tool_input": {"file_path": "importer.py", "new_string": "x"}}
    session.ok("tool:post", edit)
    data = {"tool_name": "Bash", "tool_input": {"command": f'git commit -m "{FIX}"'}, "tool_response": "ok"}
    session.ok("tool:post", data)
    session.ok("session:end", {"reason": "exit"})
    return answer


@pytest.mark.parametrize("mode", ["off", "observe"])
def test_project_that_is_off_or_observed_stores_and_injects_nothing(
    agent_session: AgentSession, remember: Callable[..., Memory], mode: str
) -> None:
    remember("The importer reads files twice because of the cache", project="shop")
    set_mode(mode)
    answer = work(agent_session)
    assert answer["context"] == ""
    assert {report["status"] for report in answer["handlers"]} == {"skipped"}
    asked = {"prompt": "Why does the importer read files twice?", "project": "shop", "session_id": "s1"}
    assert agent_session.agent.post("/inject", asked).json()["context"] == ""
    assert [model.objects.count() for model in (Memory, Event, Session, Injection)] == [1, 0, 0, 0]
    assert not JournalEntry.objects.exclude(operation__in=("insert", "configure", "issue")).exists()


def test_observed_project_counts_events_by_day(agent_session: AgentSession) -> None:
    set_mode("observe")
    work(agent_session)
    work(agent_session)
    counts = {"prompt:submit": 2, "session:end": 2, "session:start": 2, "tool:post": 4}
    assert projects.count_events(Project.named("shop")) == counts
    assert set(EventCount.objects.values_list("day", flat=True)) == {timezone.now().date()}
    set_mode("off")
    work(agent_session)
    assert projects.count_events(Project.named("shop")) == counts


def test_pause_ends_by_itself(agent_session: AgentSession) -> None:
    projects.configure_project("shop", ADMIN, pause_hours=1)
    work(agent_session)
    assert not Event.objects.exists()
    Project.objects.update(paused_until=timezone.now())
    work(agent_session)
    assert Event.objects.count() == 5
    assert [memory.title for memory in agent_session.memories("bugfix")] == [TITLE]


def test_mode_of_one_project_does_not_concern_another(
    open_session: Callable[..., AgentSession],
) -> None:
    set_mode("off")
    other = open_session("s1", "elsewhere")
    work(other)
    assert other.memories()


def test_agent_cannot_store_in_a_project_that_is_off(bot: Agent) -> None:
    set_mode("off")
    body = {"content": "a note", "project": "shop"}
    is_problem(bot.post("/memories", body), 403)
    is_problem(bot.post("/facts", {"subject": "a", "predicate": "b", "object": "c", "project": "shop"}), 403)
    assert bot.post("/memories", {**body, "project": "other"}).status_code == 201
    set_mode("observe")
    assert bot.post("/memories", body).status_code == 201


def test_agent_cannot_change_or_move_a_memory_into_a_project_that_is_off(bot: Agent) -> None:
    inside, outside = (stored(bot, content=name, project=name) for name in ("shop", "yard"))
    set_mode("off")
    is_problem(bot.patch(f"/memories/{inside['id']}", {"content": "new"}), 403)
    is_problem(bot.patch(f"/memories/{outside['id']}", {"project": "shop"}), 403)


def test_event_of_a_waiting_memory_shows_no_text(agent_session: AgentSession, bot: Agent) -> None:
    set_mode("approve")
    comment = "# Retry three times because the upstream gateway drops the first connection\nx = 2\n"
    agent_session.tool("Edit", {"file_path": "gate.py", "new_string": comment}, {})
    agent_session.end()
    assert Memory.objects.filter(content__contains="gateway").exists()
    for path in ("/timeline", "/sessions/s1"):
        assert "gateway" not in bot.get(path).content.decode()


def test_boundary_of_a_session_whose_memories_wait_has_no_words(
    agent_session: AgentSession, bot: Agent
) -> None:
    set_mode("approve")
    for output in (DATABASE, DATABASE + " vacuum", DESIGN):
        agent_session.tool("Bash", {"command": "make"}, output)
    [fact] = bot.get("/facts", project="shop").json()["items"]
    assert fact["predicate"] == "boundary_at"
    assert "planner" not in fact["object"]
    assert "contrast" not in fact["object"]


@pytest.mark.parametrize("later", ["approve", "automatic"])
def test_next_session_gets_no_files_of_a_session_whose_memories_wait(
    agent_session: AgentSession, bot: Agent, later: str
) -> None:
    set_mode("approve")
    agent_session.tool("Edit", {"file_path": "gate.py", "new_string": "x = 2"}, {})
    agent_session.commit(FIX)
    set_mode(later)
    hook = {
        "hook_event_name": "SessionStart",
        "session_id": "s2",
        "cwd": "/home/ada/shop",
        "source": "startup",
    }
    assert bot.post("/hooks/claude-code", hook).json() == {}
    assert bot.get("/projects/shop/page").json()["sections"] == []


def test_memory_did_not_exist_before_its_approval(agent_session: AgentSession, bot: Agent) -> None:
    memory = captured(agent_session)
    before = timezone.now()
    memories.apply_bulk_action("accept", [memory.uid], ADMIN)
    query = {"query": "importer cache key encoding"}
    assert bot.get("/search", **query).json()["total"]
    assert bot.get("/search", **query, as_of=before.isoformat()).json()["total"] == 0


def test_person_can_store_in_a_project_that_is_off(remember: Callable[..., Memory]) -> None:
    set_mode("off")
    assert remember("a note of a person", by=ADMIN, project="shop").pk


@pytest.mark.parametrize("mode", ["off", "observe"])
def test_transcript_is_not_extracted_where_nothing_is_stored(bot: Agent, mode: str) -> None:
    set_mode(mode)
    says = {"role": "user", "content": "We decided to deploy on Tuesdays, because the vendor is in then."}
    answer = bot.post("/extract", {"messages": [says], "project": "shop"}).json()
    assert answer["results"] == []
    assert len(answer["notes"]) == 1
    assert not Memory.objects.exists()


# Approve first


def captured(session: AgentSession) -> Memory:
    """Capture a commit in a project whose memories need approval."""
    set_mode("approve")
    work(session)
    return Memory.objects.get(type="bugfix")


def test_captured_memory_waits_and_no_agent_sees_it(agent_session: AgentSession, bot: Agent) -> None:
    memory = captured(agent_session)
    levels = {"allow_private": "true", "allow_secret": "true"}
    assert memory.sensitivity == "waiting-public"
    assert set(Memory.objects.values_list("type", "sensitivity")) == {
        ("bugfix", "waiting-public"),
        ("session_summary", "waiting-public"),
    }
    asked = {"query": "importer cache key encoding", "allow_private": True, "allow_secret": True}
    answers = [
        bot.get("/memories", **levels),
        bot.get("/memories", trashed="true", **levels),
        bot.get("/memories", file="importer", **levels),
        bot.get("/timeline", **levels),
        bot.get("/sessions/s1", **levels),
        bot.get("/journal", **levels),
        bot.get("/stats", **levels),
        bot.get("/export", everything="true", **levels),
        bot.get("/memories/prompt", **levels),
        bot.post("/search", {**asked, "min_score": 0}),
        bot.post("/recall", asked),
        bot.post("/inject", {"prompt": "the importer cache key encoding", "project": "shop"}),
        bot.post("/tools/letsgo/search_memories", {"query": "importer cache key encoding"}),
        bot.post("/tools/letsgo/list_memories", {}),
        bot.post("/tools/memory-mcp/memory_recall", {"query": "importer cache key"}),
        bot.post("/tools/mira/memory", {"action": "recall", "query": "importer cache key"}),
        bot.post("/tools/pigo/memory_recall", {"query": "importer cache key"}),
    ]
    for answer in answers:
        text = answer.getvalue().decode()
        assert memory.uid not in text, answer.request
        assert "path alone" not in text, answer.request
        assert "read each file" not in text, answer.request
    is_problem(bot.get(f"/memories/{memory.uid}", trashed="true", **levels), 404)
    is_problem(bot.patch(f"/memories/{memory.uid}", {"title": "x"}), 404)
    is_problem(bot.delete(f"/memories/{memory.uid}"), 404)
    is_problem(bot.get(f"/memories/{memory.uid}/history"), 404)


def test_report_of_a_waiting_memory_has_no_id(agent_session: AgentSession) -> None:
    set_mode("approve")
    for _ in range(2):  # the repetition looks the same
        data = {"tool_name": "Bash", "tool_input": {"command": f'git commit -m "{FIX}"'}}
        reports = agent_session.ok("tool:post", {**data, "tool_response": "ok"})["handlers"]
        assert reports[1]["detail"] == "waits for approval in the review queue"
    assert Memory.objects.count() == 1


def test_approved_memory_is_found_and_undo_hides_it_again(agent_session: AgentSession, bot: Agent) -> None:
    memory = captured(agent_session)
    approved = memories.apply_bulk_action("accept", [memory.uid], ADMIN)
    assert bot.get(f"/memories/{memory.uid}").status_code == 200
    found = bot.post("/search", {"query": "importer cache key encoding"}).json()["results"]
    assert [one["memory"]["id"] for one in found] == [memory.uid]
    rows = bot.get("/journal", object_id=memory.uid).json()["items"]
    assert [row["operation"] for row in rows] == ["accept"]
    memories.undo_bulk_action(approved.id, ADMIN, approved.first, approved.last)
    assert bot.get(f"/memories/{memory.uid}").status_code == 404


def test_discarded_memory_stays_hidden_and_is_not_captured_again(
    agent_session: AgentSession, bot: Agent
) -> None:
    memory = captured(agent_session)
    memories.apply_bulk_action("discard", [memory.uid], ADMIN)
    work(agent_session)
    assert Memory.objects.filter(type="bugfix").count() == 1
    assert bot.get("/memories", trashed="true").json()["items"] == []


def test_discarded_memory_is_deleted_in_the_end_and_a_waiting_one_stays(agent_session: AgentSession) -> None:
    memory = captured(agent_session)
    memories.apply_bulk_action("discard", [memory.uid], ADMIN)
    assert delete_waiting(ADMIN, 0, timezone.now()) == 1
    assert [one.type for one in Memory.objects.all()] == ["session_summary"]


def test_waiting_memory_is_hidden_from_reviewers_of_other_projects(agent_session: AgentSession) -> None:
    memory = captured(agent_session)
    stranger = Actor("user:eve", Clearance(frozenset(LEVELS), projects=frozenset({"other"})))
    refused = memories.apply_bulk_action("accept", [memory.uid], stranger).refused
    assert refused == [(memory.uid, "there is no such memory")]


def test_waiting_memory_changes_no_visible_one(agent_session: AgentSession) -> None:
    work(agent_session)
    before = list(Memory.objects.order_by("pk").values())
    set_mode("approve")
    agent_session.commit("Revert: fix(importer): read each file once because the cache key was right before")
    agent_session.end()
    keys = [row["id"] for row in before]
    assert list(Memory.objects.filter(pk__in=keys).order_by("pk").values()) == before


def test_direct_store_needs_no_approval(bot: Agent) -> None:
    set_mode("approve")
    assert bot.post("/memories", {"content": "noted on purpose", "project": "shop"}).status_code == 201
    assert bot.get("/memories").json()["total"] == 1


def test_extracted_memory_waits_for_approval(bot: Agent) -> None:
    set_mode("approve")
    says = {"role": "user", "content": "We decided to deploy on Tuesdays, because the vendor is in then."}
    results = bot.post("/extract", {"messages": [says], "project": "shop"}).json()["results"]
    assert [(one["outcome"], one["id"]) for one in results] == [("waiting", None)]
    assert Memory.objects.get().sensitivity == "waiting-public"


# Settings


def test_change_of_settings_is_journaled_and_undone(db: None) -> None:
    changed = projects.configure_project("shop", ADMIN, mode="off", ignored_paths="*.pem\n")
    assert JournalEntry.objects.get(operation="configure").detail["left"] == {
        "mode": "off",
        "ignored_paths": "*.pem",
    }
    assert project_changes.undo_project_change(changed.undo, ADMIN).mode == "automatic"
    assert Project.named("shop").ignored_paths == ""


def test_settings_that_changed_since_are_not_undone(db: None) -> None:
    changed = projects.configure_project("shop", ADMIN, pause_hours=2)
    projects.configure_project("shop", ADMIN, pause_hours=0)
    with pytest.raises(Conflict, match="changed since"):
        project_changes.undo_project_change(changed.undo, ADMIN)


def test_usual_patterns_with_wildcards_are_accepted(db: None) -> None:
    patterns = "**/node_modules/**/*.min.*\nsrc/*/tests/**/*_test.*\npackages/*/*/dist/*\n**/.env*"
    projects.configure_project("shop", ADMIN, ignored_paths=patterns)
    assert Project.named("shop").ignored_paths == patterns


def test_stored_patterns_that_are_refused_now_do_not_prevent_other_changes(db: None) -> None:
    Project.objects.create(name="shop", ignored_paths="*a*a*a*b")
    projects.configure_project("shop", ADMIN, ignored_paths="*a*a*a*b", mode="off")
    assert Project.named("shop").mode == "off"


@each(
    "values, field",
    [
        ({"mode": "loud"}, "mode"),
        ({"pause_hours": -1}, "pause_hours"),
        ({"pause_hours": float("nan")}, "pause_hours"),
        ({"ignored_paths": "*.pem\n!"}, "ignored_paths"),
        ({"ignored_paths": "*a*a*a*b"}, "ignored_paths"),
        ({"ignored_paths": "**/a/**/a/**/a/**/b"}, "ignored_paths"),
        ({"ignored_paths": "*a*/*a*/*a*b"}, "ignored_paths"),
        ({"ignored_paths": "\n".join(f"*a*a*{n}" for n in range(900))}, "ignored_paths"),
        ({"ignored_paths": "x" * 20_000}, "ignored_paths"),
    ],
)
def test_invalid_setting_is_refused(db: None, values: dict[str, Any], field: str) -> None:
    with pytest.raises(StoreError) as refused:
        projects.configure_project("shop", ADMIN, **values)
    assert refused.value.field == field
    assert not Project.objects.exists()
