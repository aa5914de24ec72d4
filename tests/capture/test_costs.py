"""Test that the cost of an event does not grow with the store."""

from __future__ import annotations

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub.backends import statements as statements_module
from memoryhub.models import Event
from tests.capture.conftest import DATABASE, FIX, AgentSession

OTHER = (
    "fix(rates): the rate of a weekend is that of Friday, because the bank publishes none, so it never warned"
)

# Finds neither a mark nor a repeated event.
SESSION_BEFORE_THE_OTHER_PROCESS = statements_module.SESSION_OF_EVENT.replace(
    "p.ignored_paths,", "p.ignored_paths, false AND "
).replace("AS is_repeated, EXISTS", "AS is_repeated, false AND EXISTS")


def statements(work):
    with CaptureQueriesContext(
        connection,
    ) as caught:
        work()
    return [one["sql"] for one in caught.captured_queries if "SAVEPOINT" not in one["sql"]]


def grow(agent_session, remember, rows):
    for n in range(rows):
        remember(f"{DATABASE} and number {n} of the encoding cache importer rate", project="shop")
        agent_session.tool("Read", {"file_path": f"f{n}.py"}, "text")


def test_routine_call_takes_a_fixed_number_of_queries(agent_session, remember):
    agent_session.ok("session:start")
    before = statements(lambda: agent_session.tool("Read", {"file_path": "a.py"}, DATABASE))
    grow(agent_session, remember, 25)
    after = statements(lambda: agent_session.tool("Read", {"file_path": "b.py"}, DATABASE))
    assert len(after) <= len(before) <= 20


def test_captured_call_takes_no_more_queries_in_a_large_store(agent_session, remember):
    agent_session.ok("session:start")
    before = statements(lambda: agent_session.commit(FIX))
    grow(agent_session, remember, 25)
    after = statements(lambda: agent_session.commit(OTHER))
    assert abs(len(after) - len(before)) <= 3, "three: the neighbours that there are now"


def test_session_state_has_a_limited_size(agent_session):
    sizes = []
    for n in range(60):
        agent_session.tool(
            "Edit",
            {"file_path": f"f{n}.py", "new_string": f"# step {n}: because it must never be {n} again\n"},
            {},
            extra={"tool_use_id": f"toolu_{n}"},
        )
        sizes.append(len(str(agent_session.row.state)))
    assert max(sizes) < 40_000


def counted(work):
    return [sql for sql in statements(work) if not sql.startswith(("BEGIN", "COMMIT", "RELEASE"))]


def test_routine_tool_call_takes_five_statements(agent_session):
    agent_session.tool("Read", {"file_path": "a.py"}, DATABASE)
    data = {"tool_name": "Read", "tool_input": {"file_path": "b.py"}, "tool_use_id": "t2"}
    # Token, session, its state read and changed with the time of the session, the event.
    assert len(counted(lambda: agent_session.ok("tool:post", data))) <= 5


def test_first_tool_call_of_a_session_takes_six_statements(agent_session):
    data = {"tool_name": "Read", "tool_input": {"file_path": "b.py"}}
    AgentSession(agent_session.agent, "earlier").ok("tool:post", data)
    # The same, and the new session. Its project is read with the session.
    assert len(counted(lambda: agent_session.ok("tool:post", data))) <= 6


def test_prompt_of_a_known_session_takes_seven_statements_around_its_search(agent_session, remember):
    remember(DATABASE, project="shop")
    agent_session.ok("prompt:submit", {"prompt": "How does the planner choose an index?"})
    sent = counted(
        lambda: agent_session.ok("prompt:submit", {"prompt": "Does the planner scan each partition?"})
    )
    search = ("memoryhub_text", "FROM memoryhub_memory ", "memoryhub_change_era")
    # Token, session, earlier injections, the injection, the accesses, the event, the state.
    assert len([sql for sql in sent if not any(name in sql for name in search)]) <= 7


def test_names_in_a_prompt_are_looked_up_together_with_its_words(agent_session, remember):
    remember("The planner reads cache.ttl_seconds before each scan", project="shop")
    agent_session.ok("prompt:submit", {"prompt": "How does the planner choose an index?"})
    prompt = {"prompt": "Where does the planner read cache.ttl_seconds and pool.size?"}
    sent = counted(lambda: agent_session.ok("prompt:submit", prompt))
    assert len([sql for sql in sent if "memoryhub_change_era" in sql]) == 1


def test_first_prompt_of_a_session_does_not_update_the_session(agent_session):
    sent = counted(lambda: agent_session.ok("prompt:submit", {"prompt": "How does the planner work?"}))
    assert not [sql for sql in sent if sql.startswith("UPDATE memoryhub_session")]
    assert agent_session.row.state == {"asked": 3, "prompted": True}
    assert agent_session.row.segment == 1


def test_event_that_two_processes_record_is_stored_once(agent_session, monkeypatch):
    data = {"tool_name": "Read", "tool_input": {"file_path": "a.py"}, "tool_use_id": "t1"}
    agent_session.ok("tool:post", data)
    monkeypatch.setattr(statements_module, "SESSION_OF_EVENT", SESSION_BEFORE_THE_OTHER_PROCESS)
    agent_session.ok("tool:post", data)
    agent_session.ok("prompt:submit", {"prompt": "hello planner"})
    agent_session.ok("prompt:submit", {"prompt": "hello planner"})
    assert [event.event for event in Event.objects.order_by("pk")] == ["tool:post", "prompt:submit"]


def test_first_prompt_that_is_delivered_again_does_not_repeat_its_memories(agent_session, remember):
    remember(DATABASE, project="shop")
    prompt, at = {"prompt": "Why did the planner choose the wrong index?"}, timezone.now().isoformat()
    assert "wrong index" in agent_session.ok("prompt:submit", prompt, at=at)["context"]
    assert not agent_session.ok("prompt:submit", prompt, at=at)["context"]
