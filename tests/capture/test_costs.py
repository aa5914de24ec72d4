"""Test that the cost of an event does not grow with the store."""

from __future__ import annotations

from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.capture.conftest import DATABASE, FIX

OTHER = (
    "fix(rates): the rate of a weekend is that of Friday, because the bank publishes none, so it never warned"
)


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
