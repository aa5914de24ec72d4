"""Memories about lines of code, and the mark when these lines change."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub import memories
from memoryhub.capture import pipeline
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import CodeReference, Event, JournalEntry, Memory
from tests.capture.conftest import AgentSession
from tests.capture.test_costs import counted
from tests.cases import each

PATH = "src/client.py"
LINES = [
    "READ_TIMEOUT = 30  # the gateway closes idle connections after forty",
    "session.mount(gateway, adapter_with_timeout(READ_TIMEOUT))",
]
MESSAGE = (
    "fix(client): set the read timeout to 30 seconds, because the gateway closes idle connections after 40"
)
REST = "def unrelated():\n    return compute_everything_else(values)\n"
OTHER = [
    "READ_TIMEOUT = 90  # a proxy answers now, and it is slow",
    "session.mount(proxy, plain_adapter(READ_TIMEOUT))",
]


def edit(session: AgentSession, old: str, new: str, path: str = PATH, **more):
    given = {"file_path": path, "old_string": old, "new_string": new}
    return session.tool("Edit", given, {"filePath": path}, **more)


def write(session: AgentSession, content: str, path: str = PATH, **more):
    return session.tool("Write", {"file_path": path, "content": content}, {"type": "update"}, **more)


def read(session: AgentSession, content: str, path: str = PATH, start: int = 1, total: int | None = None):
    lines = len(content.splitlines())
    file = {"content": content, "startLine": start, "numLines": lines, "totalLines": total or lines}
    return session.tool("Read", {"file_path": path}, {"type": "text", "file": file})


@pytest.fixture
def memory(agent_session) -> Memory:
    """A memory of a commit that added :data:`LINES`."""
    edit(agent_session, "session = Session()", "\n".join(["session = Session()", *LINES]))
    return agent_session.commit(MESSAGE).memory


@pytest.fixture
def later(open_session) -> AgentSession:
    return open_session("s2")


def is_marked(memory: Memory) -> bool:
    memory.refresh_from_db()
    return memory.may_be_outdated


def test_commit_refers_to_the_lines_that_it_added(memory):
    reference = CodeReference.objects.get(memory=memory)
    assert (reference.path, len(reference.lines)) == (PATH, 2)


def test_no_line_of_code_is_stored(memory):
    stored = json.dumps(
        [list(CodeReference.objects.values_list("lines")), list(Event.objects.values_list("lines"))]
    )
    assert not any(word in stored for word in ("TIMEOUT", "gateway", "adapter", "Session"))


def test_line_with_a_secret_is_not_hashed(agent_session):
    secret = 'API_KEY = "ghp_' + "a1B2" * 9 + '"  # of the gateway with the timeout'
    edit(agent_session, "x = unrelated_value", "\n".join([secret, *LINES]))
    plain = agent_session.row.events.latest("pk").lines["lines"]
    assert len(plain) == 2


def test_edit_that_replaces_the_lines_marks_the_memory(memory, later):
    edit(later, "\n".join(LINES), "\n".join(OTHER))
    assert is_marked(memory)


def test_whole_file_without_the_lines_marks_the_memory(memory, later):
    write(later, REST)
    assert is_marked(memory)


def test_whole_read_without_the_lines_marks_the_memory(memory, later):
    read(later, REST)
    assert is_marked(memory)


def test_part_of_a_file_without_the_lines_marks_nothing(memory, later):
    read(later, REST, start=1, total=400)
    assert not is_marked(memory)


def test_removed_file_marks_the_memory(memory, later):
    later.tool("Bash", {"command": f"git rm -q {PATH}"}, {"stdout": ""})
    assert is_marked(memory)


@each(
    "command, cwd",
    [
        ("rm -rf src", "/shop"),
        ("cd src && rm client.py", "/shop"),
        ("rm client.py", "/shop/src"),
        ("rm ../src/./client.py", "/shop/tests"),
    ],
)
def test_removal_is_noticed_by_folder_and_from_any_folder(memory, later, command, cwd):
    later.tool("Read", {"file_path": "/shop/README.md"}, "Read me", cwd="/shop")
    later.tool("Bash", {"command": command}, {"stdout": ""}, cwd=cwd)
    assert is_marked(memory)


@each("command", [f"git rm --cached {PATH}", "rm src/other.py", "rm -rf build"])
def test_other_removals_mark_nothing(memory, later, command):
    later.tool("Bash", {"command": command}, {"stdout": ""})
    assert not is_marked(memory)


def test_reference_follows_a_renamed_file(memory, later):
    later.tool("Bash", {"command": f"git mv {PATH} src/gateway.py"}, {"stdout": ""})
    assert not is_marked(memory)
    edit(later, "\n".join(LINES), "\n".join(OTHER), path="src/gateway.py")
    assert is_marked(memory)


@pytest.mark.parametrize(
    ("command", "path"),
    [("git mv src lib", "lib/client.py"), ("git mv src packages/", "packages/src/client.py")],
)
def test_reference_follows_a_renamed_folder(memory, later, command, path):
    later.tool("Bash", {"command": command}, {"stdout": ""})
    assert CodeReference.objects.get(memory=memory).path == path
    assert not is_marked(memory)
    write(later, REST, path)
    assert is_marked(memory)


def test_removed_line_of_which_a_copy_is_left_marks_nothing(memory, later):
    before = [*LINES, "# once more", *LINES]
    hunk = {"lines": [" # once more", *(f"-{line}" for line in LINES)]}
    response = {"filePath": PATH, "originalFile": "\n".join(before), "structuredPatch": [hunk]}
    given = {"file_path": PATH, "old_string": "\n".join(before[2:]), "new_string": "# once more"}
    later.tool("Edit", given, response)
    assert not is_marked(memory)


def test_other_spaces_and_quotes_mark_nothing(memory, later):
    edit(later, "\n".join(LINES), "\n".join(f"    {line}".replace(" = ", "  =  ") for line in LINES))
    assert not is_marked(memory)


def test_change_of_other_lines_marks_nothing(memory, later):
    edit(later, "    return compute_everything_else(values)", "    return nothing_at_all(values)")
    assert not is_marked(memory)


def test_same_path_of_another_project_marks_nothing(memory, open_session):
    write(open_session("s2", "garden"), REST)
    assert not is_marked(memory)


def test_folder_of_the_repository_is_the_same_file_for_edits(memory, later):
    edit(later, "\n".join(LINES), "\n".join(OTHER), path="client.py")
    assert is_marked(memory)


def test_file_with_the_same_name_in_another_folder_marks_nothing(memory, later):
    write(later, REST, path="client.py")
    write(later, REST, path="lib/client.py")
    assert not is_marked(memory)


def test_mark_is_removed_when_the_lines_are_back(memory, later):
    write(later, REST)
    write(later, REST + "\n".join(LINES))
    assert not is_marked(memory)
    rows = JournalEntry.objects.filter(object_id=memory.uid).order_by("seq")
    assert list(rows.values_list("operation", flat=True))[-2:] == ["mark_outdated", "unmark_outdated"]


def test_journal_says_which_agent_and_session_marked(memory, later):
    write(later, REST)
    row = JournalEntry.objects.get(operation="mark_outdated")
    assert row.actor.startswith("token:")
    assert row.detail.items() >= {"lines": 2, "gone": 2, "session": "s2"}.items()


def test_older_event_than_the_memory_marks_nothing(memory, later):
    write(later, REST, at=(timezone.now() - timedelta(days=2)).isoformat())
    assert not is_marked(memory)


def test_refused_edit_marks_nothing(memory, later):
    given = {"file_path": PATH, "old_string": "\n".join(LINES), "new_string": "x"}
    later.tool("Edit", given, {"error": "String to replace not found"})
    assert not is_marked(memory)


def test_memory_in_the_trash_is_not_marked(memory, later, actor):
    memories.trash_memories([memory.uid], actor)
    write(later, REST)
    assert not is_marked(memory)


@pytest.mark.parametrize("cited", [PATH, f"./{PATH}", f"/home/ada/shop/{PATH}"])
def test_memory_that_the_agent_stored_itself_refers_to_lines_that_it_read(agent_session, cited):
    agent_session.ok("session:start", cwd="/home/ada/shop")
    read(agent_session, REST + "\n".join(LINES))
    text = "The gateway closes idle connections after forty seconds, so READ_TIMEOUT is 30"
    stored = agent_session.agent.post(
        "/memories", {"content": text, "project": "shop", "files_read": [cited]}
    ).json()["memory"]["id"]
    agent_session.tool("mcp__memoryhub__memory_store", {"content": text}, {"id": stored})
    [reference] = CodeReference.objects.filter(memory__uid=stored)
    assert 1 <= len(reference.lines) <= 2


class TestDecisions:
    def test_still_true_does_not_come_back_for_the_same_change(self, memory, later, actor):
        write(later, REST)
        memories.apply_bulk_action("still_true", [memory.uid], actor)
        assert not is_marked(memory)
        write(later, REST + "\nmore_code_that_is_new()")
        assert not is_marked(memory)

    def test_still_true_can_be_undone(self, memory, later, actor):
        write(later, REST)
        done = memories.apply_bulk_action("still_true", [memory.uid], actor)
        memories.undo_bulk_action(done.id, actor, done.first, done.last)
        assert is_marked(memory)
        [[changed]] = memories.changed_files([memory]).values()
        assert (changed.gone, changed.lines, changed.path) == (2, 2, PATH)

    def test_another_change_marks_again_after_the_lines_were_back(self, memory, later, actor):
        write(later, REST)
        memories.apply_bulk_action("still_true", [memory.uid], actor)
        write(later, REST + "\n".join(LINES))
        write(later, REST)
        assert is_marked(memory)

    def test_new_text_removes_the_mark(self, memory, later, actor):
        write(later, REST)
        memories.update_memory(memory.uid, MemoryPatch(content="The timeout is 90 seconds"), actor)
        assert not is_marked(memory)
        write(later, REST)
        assert not is_marked(memory)

    def test_change_of_tags_keeps_the_mark(self, memory, later, actor):
        write(later, REST)
        memories.update_memory(memory.uid, MemoryPatch(tags=["looked at"]), actor)
        assert is_marked(memory)

    def test_erasing_a_memory_erases_its_hashes(self, memory, actor):
        memories.erase_memories([memory.uid], actor)
        assert not CodeReference.objects.exists()


class TestAccess:
    @each("level", ["private", "secret", "unknown"])
    def test_agent_marks_no_memory_that_it_may_not_see(self, memory, open_session, level):
        Memory.objects.update(sensitivity=level)
        public = open_session("s2", clearance="public")
        write(public, REST)
        assert not is_marked(memory)

    def test_agent_of_another_project_marks_nothing(self, memory, open_session):
        confined = open_session("s2", "garden", projects=["garden"])
        write(confined, REST)
        assert confined.send("tool:post", {"tool_name": "Read"}, project="shop").status_code == 403
        assert not is_marked(memory)

    def test_private_event_does_not_mark_a_public_memory(self, memory, later):
        write(later, REST, sensitivity="private")
        assert not is_marked(memory)

    def test_private_event_is_no_evidence_for_a_public_memory(self, agent_session):
        added = "\n".join(["session = Session()", *LINES])
        edit(agent_session, "session = Session()", added, sensitivity="private")
        agent_session.commit(MESSAGE)
        assert not CodeReference.objects.exists()

    def test_answer_is_the_same_whether_a_memory_is_marked_or_not(self, memory, later):
        def answer(name):
            given = {"tool_name": "Write", "tool_input": {"file_path": PATH, "content": REST}}
            return later.ok("tool:post", {**given, "tool_use_id": name}, session_id=name)

        Memory.objects.update(sensitivity="secret")
        hidden = answer("a")
        Memory.objects.update(sensitivity="public", type="change", importance=0.2)
        assert hidden == answer("b")
        assert is_marked(memory)

    def test_hashes_are_in_no_answer(self, memory, later, agent_session):
        write(later, REST)
        [one] = CodeReference.objects.values_list("lines", flat=True)
        shown = agent_session.agent.get(f"/memories/{memory.uid}").content.decode()
        shown += agent_session.agent.get("/sessions/s1?project=shop").content.decode()
        assert '"may_be_outdated":true' in shown
        assert not any(line in shown for line in one)


class TestCost:
    def test_call_of_a_file_without_references_takes_no_more_statements(self, agent_session, memory):
        data = {"tool_name": "Read", "tool_input": {"file_path": "b.py"}, "tool_response": REST}
        assert len(counted(lambda: agent_session.ok("tool:post", {**data, "tool_use_id": "t"}))) <= 6

    def test_call_that_changes_nothing_takes_one_more_statement(self, agent_session, memory):
        given = {"tool_name": "Read", "tool_input": {"file_path": PATH}, "tool_use_id": "t"}
        Memory.objects.update(type="change", importance=0.1)
        Memory.objects.get().files.all().delete()  # nothing to inject
        assert len(counted(lambda: agent_session.ok("tool:post", {**given, "tool_response": REST}))) <= 7

    def test_hashes_of_lines_go_with_the_end_of_the_session(self, agent_session, memory):
        assert Event.objects.filter(lines__has_key="path").exists()
        agent_session.end()
        assert not Event.objects.filter(lines__has_key="path").exists()

    def test_failure_of_the_comparison_does_not_fail_the_event(self, memory, later, monkeypatch, caplog):
        def fail(*args):
            raise ValueError("broken")

        monkeypatch.setattr(pipeline.memories, "compare_with_code", fail)
        write(later, REST)
        assert "could not be compared" in caplog.text


@each(
    "response",
    [
        None,
        [],
        "text",
        {"structuredPatch": 3},
        {"structuredPatch": [{"lines": [1, None, "+"]}]},
        {"file": {"content": 7}},
    ],
)
@each("given", [None, {"file_path": PATH, "edits": [3, {"old_string": 5}]}, {"file_path": PATH}])
def test_calls_of_any_shape_are_taken(memory, later, given, response):
    for tool in ("Read", "Edit", "MultiEdit", "Write", "NotebookEdit"):
        later.tool(tool, given, response)
