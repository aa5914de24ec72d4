"""Which tests are marked as served or slow, in which order they run, and their collection."""

from __future__ import annotations

import gc
from collections.abc import Generator
from typing import Any

import pytest

from tests.settings import POSTGRES
from tools import slow_tests

# Test modules that start a server or a process of the hub: ``manage.py test --served``.
_SERVED = (
    "tests/backends/test_replica.py",
    "tests/backends/test_vectors_across_processes.py",
    "tests/client/test_served.py",
    "tests/commands/test_evaluate.py",
    "tests/commands/test_maintenance_served.py",
    "tests/commands/test_quickstart.py",
    "tests/commands/test_readme.py",
    "tests/commands/test_serve.py",
    "tests/commands/test_start.py",
    "tests/faults/test_caddy.py",
    "tests/faults/test_failover.py",
    "tests/faults/test_full_node_disk.py",
    "tests/faults/test_killed_undo.py",
    "tests/faults/test_kills.py",
    "tests/faults/test_lost_commits.py",
    "tests/faults/test_nodes.py",
    "tests/faults/test_pgbouncer.py",
    "tests/faults/test_server_backups.py",
    "tests/faults/test_tls.py",
    "tests/faults/test_two_nodes.py",
    "tests/http/test_raw_sockets.py",
    "tests/http/test_request_buffering.py",
    "tests/maintenance/test_concurrent_runs.py",
    "tests/mcp/test_claude_code.py",
    "tests/mcp/test_oauth_clients.py",
    "tests/mcp/test_python_client.py",
    "tests/mcp/test_stdio.py",
    "tests/mcp/test_typescript_client.py",
    "tests/ops/test_copying.py",
    "tests/ops/test_drafts.py",
    "tests/plugin/test_claude_code.py",
    "tests/plugin/test_other_agents.py",
    "tests/package/",
    "tests/recorded/",
)

# It runs first: at the end, the other processes would wait for it.
_LONGEST_TEST = "test_every_page.py::test_every_page_passes_all_checks"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of served processes, and those that were measured to be slow."""
    items.sort(key=lambda item: not item.nodeid.endswith(_LONGEST_TEST))
    slow = slow_tests.read()
    for item in items:
        if item.nodeid.startswith(_SERVED) or "served" in getattr(item, "fixturenames", ()):
            item.add_marker("served")
        of_sqlite = item.get_closest_marker("sqlite") or "own_store" in getattr(item, "fixturenames", ())
        if POSTGRES and of_sqlite:
            item.add_marker(pytest.mark.skip(reason="of SQLite's files"))
        if slow_tests.function_of(item.nodeid) in slow:
            item.add_marker("slow")


def pytest_collectstart() -> None:
    """Collect no garbage while tests are collected; not called where others collect them (pytest-xdist)."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, and collect less often: a tenth of the time."""
    gc.freeze()  # with what little garbage there is: to collect it first takes half a second
    gc.enable()
    gc.set_threshold(100_000, 20, 100)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(
    report: pytest.TestReport | pytest.CollectReport,
) -> Generator[None, Any, Any]:
    """Send no keywords of passed tests to the main process, which does not use them."""
    data = yield
    if isinstance(report, pytest.TestReport) and report.passed:
        data["keywords"] = {}
    return data
