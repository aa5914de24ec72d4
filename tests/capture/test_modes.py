"""Modes of projects, pauses, private text and ignored files: what is stored, shown and counted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import LEVELS, Actor, Clearance, system_actor
from memoryhub.audit import mirror
from memoryhub.backends.dialect import sql
from memoryhub.capture import projects
from memoryhub.capture.ignored_paths import IgnoredPaths
from memoryhub.capture.observation import observe
from memoryhub.memories.delete import delete_waiting
from memoryhub.memories.errors import Conflict, StoreError
from memoryhub.models import Event, EventCount, Injection, JournalEntry, Memory, Project, Session
from tests.api.conftest import Agent, is_problem, stored
from tests.capture.conftest import DATABASE, DESIGN, FIX, AgentSession
from tests.cost import cost_ratio, ordinary_text, repeat

ADMIN = system_actor("tests")
TITLE = "Read each file once"
MATCHES_WORD = sql.MATCH(index="memoryhub_text", expression="%s")
WORD = "quincewort"  # a word that no other text of these tests has


def set_mode(mode: str, **more: Any) -> Project:
    return projects.configure_project("shop", ADMIN, mode=mode, **more).project


def stored_anywhere(word: str) -> list[str]:
    """Return the tables that contain the word, full-text indexes included."""
    with connection.cursor() as cursor:
        found = []
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            if any(word in repr(row).lower() for row in cursor.fetchall()):
                found.append(table)
        if word.isalpha():
            cursor.execute(f"SELECT count(*) FROM memoryhub_text WHERE {MATCHES_WORD}", [word])
            found += ["index"] if cursor.fetchone()[0] else []
    return found


@pytest.fixture
def everywhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, configure: Callable[..., None]
) -> Callable[[str], list[str]]:
    """Return where a word is stored or logged: tables, indexes, the mirror of the journal, log messages."""
    caplog.set_level(logging.DEBUG)

    def find(word: str) -> list[str]:
        path = mirror.mirror_path()
        text = path.read_text() if path and path.exists() else ""
        places = {"mirror": text, "log": caplog.text}
        return stored_anywhere(word) + [name for name, one in places.items() if word in one.lower()]

    return find


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
    assert projects.undo_configuration(changed.undo, ADMIN).mode == "automatic"
    assert Project.named("shop").ignored_paths == ""


def test_settings_that_changed_since_are_not_undone(db: None) -> None:
    changed = projects.configure_project("shop", ADMIN, pause_hours=2)
    projects.configure_project("shop", ADMIN, pause_hours=0)
    with pytest.raises(Conflict, match="changed since"):
        projects.undo_configuration(changed.undo, ADMIN)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"mode": "loud"}, "mode"),
        ({"pause_hours": -1}, "pause_hours"),
        ({"pause_hours": float("nan")}, "pause_hours"),
        ({"ignored_paths": "*.pem\n!"}, "ignored_paths"),
        ({"ignored_paths": "*a*a*a*b"}, "ignored_paths"),
        ({"ignored_paths": "**/a/**/a/**/a/**/b"}, "ignored_paths"),
        ({"ignored_paths": "x" * 20_000}, "ignored_paths"),
    ],
)
def test_invalid_setting_is_refused(db: None, values: dict[str, Any], field: str) -> None:
    with pytest.raises(StoreError) as refused:
        projects.configure_project("shop", ADMIN, **values)
    assert refused.value.field == field
    assert not Project.objects.exists()


# Private text


@pytest.mark.parametrize(
    "block",
    [
        f"<private>{WORD}</private>",
        f"<PRIVATE>\n{WORD}\n</Private>",
        f"<private>a <private>b</private> {WORD}</private>",
        f'<private reason="x">{WORD}',
    ],
)
def test_private_text_is_stored_nowhere(
    agent_session: AgentSession, everywhere: Callable[[str], list[str]], block: str
) -> None:
    prompt = f"Please fix the importer of the ledger. {block}"
    agent_session.ok("prompt:submit", {"prompt": prompt})
    agent_session.ok("prompt:submit", {"prompt": prompt}, at=timezone.now().isoformat())
    agent_session.agent.post("/inject", {"prompt": prompt, "project": "shop", "session_id": "s1"})
    agent_session.tool("Bash", {"command": "make test"}, {"stdout": f"Error: {block}"})
    agent_session.tool("Edit", {"file_path": "a.py", "new_string": f"# Because {block}"}, {})
    agent_session.tool(
        "Edit", {"file_path": "a.py"}, {"lines": [f"<private>{WORD}", WORD, "</private>", "x"]}
    )
    agent_session.commit(FIX)
    agent_session.commit(f"Cut the cache key, because it was stale. {block}")
    agent_session.end()
    says = {"role": "user", "content": f"We decided to deploy on Tuesdays, because of this. {block}"}
    agent_session.agent.post("/extract", {"messages": [says], "project": "shop"})
    assert agent_session.memories("bugfix")
    assert everywhere(WORD) == []


def test_text_around_private_blocks_is_stored(agent_session: AgentSession) -> None:
    agent_session.ok("prompt:submit", {"prompt": f"before <private>{WORD}</private> &lt;private&gt; after"})
    assert Event.objects.get().preview == "before &lt;private&gt; after"


# Ignored files


def ignore(*patterns: str) -> None:
    projects.configure_project("shop", ADMIN, ignored_paths="\n".join(patterns))


@pytest.mark.parametrize(
    ("tool", "given", "response"),
    [
        ("Read", {"file_path": f"/home/ada/shop/vault/{WORD}.txt"}, {"content": WORD}),
        ("Write", {"file_path": f"/home/ada/shop/vault/{WORD}.txt", "content": WORD}, {}),
        ("Edit", {"file_path": f"src/{WORD}.pem", "new_string": WORD}, {}),
        ("Bash", {"command": f"cat vault/{WORD}.txt"}, {"stdout": WORD}),
        ("Bash", {"command": f"cat {WORD}_rsa"}, {"stdout": WORD}),
        ("Bash", {"command": "grep -r password vault"}, {"stdout": WORD}),
        ("Bash", {"command": "cd vault && cat a.txt"}, {"stdout": WORD}),
        ("Bash", {"command": "cat vault*/a.txt"}, {"stdout": WORD}),
        ("Grep", {"pattern": "password", "path": "vault"}, {"content": WORD}),
        ("Grep", {"pattern": "password", "glob": "vault/**"}, {"content": WORD}),
        ("Bash", {"command": "cat 'my box/a.txt'"}, {"stdout": WORD}),
        ("Bash", {"command": "cat my\\ box/a.txt"}, {"stdout": WORD}),
        ("Bash", {"command": "cd 'my box'"}, {"stdout": WORD}),
        ("Bash", {"command": 'cat "vault"/a.txt'}, {"stdout": WORD}),
        ("Bash", {"command": "cat {vault,src}/a"}, {"stdout": WORD}),
        ("Bash", {"command": "cat 'app/(admin)/page.tsx' | head"}, {"stdout": WORD}),
        ("shell", {"command": ["bash", "-lc", "cat vault/a.txt"]}, {"output": WORD}),
        ("shell", {"command": ["cat", "vault/a.txt"]}, {"output": WORD}),
        ("read_many_files", {"paths": ["vault/a.txt"]}, {"content": WORD}),
        ("read_file", {"absolute_path": "/home/ada/shop/vault/a.txt"}, {"content": WORD}),
        ("mcp__fs__move_file", {"source": "vault/a.txt", "destination": "b.txt"}, {"content": WORD}),
        ("mcp__fs__list", {"directory": "vault"}, {"content": WORD}),
        ("mcp__fs__read", {"uri": "file:///home/ada/shop/vault/a.txt"}, {"content": WORD}),
        ("MultiEdit", {"edits": [{"file_path": "vault/a", "new_string": WORD}]}, {}),
    ],
)
def test_event_about_ignored_files_is_not_stored(
    agent_session: AgentSession,
    everywhere: Callable[[str], list[str]],
    tool: str,
    given: Any,
    response: Any,
) -> None:
    ignore("vault/", "*.pem", "*_rsa", "my box/", "app/(admin)/")
    data = {"tool_name": tool, "tool_input": given, "tool_response": response}
    agent_session.ok("tool:post", data, cwd="/home/ada/shop")
    assert not Event.objects.exists()
    assert everywhere(WORD) == []


@pytest.mark.parametrize(
    ("tool", "given", "response"),
    [
        ("Bash", {"command": "git diff"}, {"stdout": f"+++ b/vault/a.txt\n+{WORD}"}),
        ("Grep", {"pattern": "x"}, {"content": f"src/a.py:1:x\nvault/a.txt-12-{WORD}"}),
        ("Grep", {"pattern": "x"}, {"content": f"src/a.py:1:x\nmy box/vault/a.txt:12:{WORD}"}),
        ("exec_command", {"cmd": "cat vault/a.txt"}, {"output": WORD}),
        ("apply_patch", {"input": f"*** Update File: src/a.py\n*** Update File: vault/a.txt\n+{WORD}"}, "ok"),
    ],
)
def test_event_with_other_files_is_stored_without_the_ignored_ones(
    agent_session: AgentSession,
    everywhere: Callable[[str], list[str]],
    tool: str,
    given: Any,
    response: Any,
) -> None:
    ignore("vault/", "my box/")
    event = agent_session.tool(tool, given, response, cwd="/home/ada/shop")
    assert not any("vault" in path for path in event.files)
    assert everywhere(WORD) == []
    assert everywhere("vault/a") == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Look at my box/plan.txt and src/plan.txt.", "Look at [ignored path] and src/plan.txt."),
        ("Put 'my box' into my boxes", "Put '[ignored path]' into my boxes"),
        ("Read secret key.txt.", "Read [ignored path]."),
        ("(see app/(admin)/[id].tsx, src/a,b.py)", "(see [ignored path], src/a,b.py)"),
        ("vault/a,src/b.py", "[ignored path],src/b.py"),
    ],
)
def test_ignored_path_with_a_space_or_bracket_is_removed(text: str, shown: str) -> None:
    patterns = "# my notes\nmy box/\nsecret\\ key.txt\napp/(admin)/\nvault/"
    assert IgnoredPaths(patterns, "shop").redact(text) == shown


@pytest.mark.parametrize("part", ["a", "a/", "a[(,", "my box", "/", ".", "'", "{a,b}"])
def test_hostile_text_takes_linear_time(part: str) -> None:
    ignored = IgnoredPaths("vault/\n*.pem\nmy box/", "shop", ("/home/ada/shop",))

    def run(text: str) -> None:
        ignored.redact(text)
        ignored.filter(observe("Bash", {"command": text}, {"stdout": text}), {"command": text})

    assert cost_ratio(run, repeat(part, 20_000), ordinary_text(20_000), 10) < 20


def test_ignored_path_in_a_prompt_is_removed(agent_session: AgentSession) -> None:
    ignore("vault/")
    agent_session.ok("prompt:submit", {"prompt": "Look at vault/plan.txt and src/plan.txt."})
    assert Event.objects.get().preview == "Look at [ignored path] and src/plan.txt."
    agent_session.agent.post("/inject", {"prompt": "Look at vault/plan.txt", "project": "shop"})
    assert not any("vault" in row.prompt_preview for row in Injection.objects.all())


@pytest.mark.parametrize(
    ("path", "ignored"),
    [
        ("vault/a", True),
        ("/home/ada/shop/vault/a", True),
        ("deep/vault/a", True),
        ("src/keep.pem", False),
        ("src/drop.pem", True),
        ("build/x", True),
        ("src/build/x", False),
        ("/home/ada/shop/sub/../build/x", True),
        ("C:\\Users\\ada\\shop\\build\\x", True),
        ("/elsewhere/shop/build/x", True),
        ("/home/ada/build/x", False),
    ],
)
def test_patterns_match_like_gitignore(path: str, ignored: bool) -> None:
    found = IgnoredPaths("vault/\n*.pem\n!keep.pem\n/build\n# comment", "shop", ("/home/ada/shop",))
    assert found.matches(path) is ignored


def test_long_text_is_no_path_and_the_end_of_a_deep_path_counts() -> None:
    found = IgnoredPaths("*a*a*b\n**/a/**/a/**/x\n*.pem", "shop", ("/home/ada/shop",))
    assert not found.matches("a" * 100_000 + ".pem")
    assert not found.matches("a/" * 10_000 + "y")
    assert found.matches("a/" * 10_000 + "key.pem")


def test_path_below_a_subfolder_is_matched_from_the_project(agent_session: AgentSession) -> None:
    ignore("config/keys.yaml")
    agent_session.ok("session:start", {"source": "startup"}, cwd="/home/ada/shop")
    data = {"tool_name": "Read", "tool_input": {"file_path": "keys.yaml"}, "tool_response": WORD}
    agent_session.ok("tool:post", data, cwd="/home/ada/shop/config")
    assert Event.objects.filter(event="tool:post").count() == 0
