"""Repairs that no commit describes, the reasons in comments, and routine work that is not stored."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from memoryhub.models import Memory
from tests.capture.conftest import AgentSession

LINKER = "/usr/bin/ld: cannot find -lssl: No such file or directory\nmake: *** [Makefile:3: app] Error 1"


def run(session: AgentSession, command: str, output: Any = "") -> str:
    response = output if isinstance(output, dict) else {"stdout": output, "stderr": ""}
    return session.tool("Bash", {"command": command}, response).skip_reason


def edit(session: AgentSession, path: str, new: str = "x = 1", old: str = "y") -> str:
    given = {"file_path": path, "old_string": old, "new_string": new}
    return session.tool("Edit", given, {"filePath": path}).skip_reason


@pytest.mark.parametrize(
    ("command", "error", "remedy"),
    [
        ("make", LINKER, "apt-get install libssl-dev"),
        ("python app.py", "ModuleNotFoundError: No module named yaml", "pip install pyyaml"),
        (
            "pip install lxml",
            {"error": "ERROR: Please make sure the libxml2 packages are installed."},
            "apt-get install libxml2-dev",
        ),
        (
            "python manage.py report",
            "sqlite3.OperationalError: no such table: report_row",
            "python manage.py migrate",
        ),
    ],
)
def test_repair_by_a_command_is_stored(agent_session, command, error, remedy):
    assert run(agent_session, command, error) == "failure noted"
    run(agent_session, remedy, "Setting up the package ...")
    assert run(agent_session, command, "gcc -o app app.o -lssl") == "repair noted"
    run(agent_session, "git commit -qam wip")
    agent_session.end()
    [memory] = agent_session.memories("bugfix")
    assert memory.content.endswith(f"`{command}` passes again after `{remedy}`.")
    assert agent_session.memories("session_summary")


def test_repair_of_a_failure_in_colour_after_a_long_output_is_stored(agent_session):
    output = "Exit code 1\n" + "collecting\n" * 4000 + "\x1b[31m\x1b[1mE   KeyError: 'rates'\x1b[0m\n"
    assert run(agent_session, "pytest tests/test_tax.py", output) == "failure noted"
    edit(agent_session, "src/tax.py", "rates = {}")
    assert run(agent_session, "pytest tests/test_tax.py", "1 passed") == "repair noted"
    agent_session.end()
    [memory] = agent_session.memories("bugfix")
    assert memory.title == "Fixed: KeyError: 'rates'"


@pytest.mark.parametrize("key", ["exit_code", "exitCode", "returncode"])
def test_command_with_an_exit_code_was_not_repaired(agent_session, key):
    assert run(agent_session, "make", LINKER) == "failure noted"
    edit(agent_session, "Makefile")
    assert run(agent_session, "make", {"stdout": "interrupted by the watchdog", key: 3}) == "routine"


def test_event_with_an_error_instead_of_a_response_is_a_failed_call(agent_session):
    event = agent_session.tool("Bash", {"command": "make"}, extra={"error": LINKER})
    assert event.skip_reason == "failure noted"


def test_repair_by_an_edit_survives_a_commit_without_a_message(agent_session):
    assert (
        run(agent_session, "python -m ingest.run", "KeyError: 'tz' is missing in row 17") == "failure noted"
    )
    edit(agent_session, "ingest/rows.py")
    assert run(agent_session, "python -m ingest.run", "loaded 20 rows") == "repair noted"
    run(agent_session, "git commit -qam wip")
    agent_session.end()
    [memory] = agent_session.memories("bugfix")
    assert "KeyError: 'tz'" in memory.content
    assert "ingest/rows.py" in memory.content


def test_command_that_passes_without_a_change_was_not_repaired(agent_session):
    run(agent_session, "python app.py", "ConnectionError: the broker refused the connection")
    assert run(agent_session, "python app.py", "serving the shop") == "routine"
    agent_session.end()
    assert agent_session.memories("bugfix") == []


def test_document_written_before_the_failure_is_not_its_repair(agent_session):
    edit(agent_session, "docs/adr/early.md")
    run(
        agent_session,
        "pytest tests/test_parser.py",
        "E   ValueError: the date of row 4 has no zone\n1 failed",
    )
    edit(agent_session, "src/parser.py")
    run(agent_session, "pytest tests/test_parser.py", "4 passed")
    agent_session.end()
    [memory] = agent_session.memories("bugfix")
    assert "parser.py" in memory.content
    assert "early" not in memory.content
    assert [file.path for file in memory.files.filter(access="modified")] == ["src/parser.py"]


def test_repair_of_a_javascript_test_contains_expected_and_received(agent_session):
    output = "FAIL tests/checkout.test.ts\n  ● applies the coupon\n Expected: 1071\n Received: 1081"
    run(agent_session, "npx jest", output)
    edit(agent_session, "src/checkout.ts")
    run(agent_session, "npx jest", "Tests: 4 passed")
    agent_session.end()
    [memory] = agent_session.memories("bugfix")
    for part in ("applies the coupon", "Expected: 1071", "Received: 1081"):
        assert part in memory.content


def test_decision_record_is_a_decision(agent_session):
    text = (
        "# Keep the database on the local disk\n\nStatus: accepted\n\nWe keep the database on the local disk,"
        " not on NFS, because SQLite needs locks that NFS does not provide."
    )
    given = {"file_path": "docs/decisions/0003-local-disk.md", "content": text}
    assert agent_session.tool("Write", given, {"filePath": "x"}).memory.type == "decision"


@pytest.mark.parametrize(
    "comment",
    [
        "The coupon lowers the taxable amount: the tax office counts it as a discount, not as a payment.",
        "Adyen answers 202 for pending payments; poll until it is final, webhooks arrive out of order.",
        "WAL lets readers go on while the nightly import writes; without it the import fails with"
        " 'database is locked'.",
        "Poll every 20 s: the vendor bans clients that ask more often than 4 times a minute.",
    ],
)
def test_comment_that_gives_a_reason_by_its_form_is_stored(agent_session, comment):
    assert edit(agent_session, "shop/rules.py", f"# {comment}\nx = 1") == "reason noted"
    agent_session.end()
    assert [memory.content for memory in agent_session.memories("discovery", "decision")] == [comment]


@pytest.mark.parametrize(
    "comment",
    [
        "Returns: the list of users that signed in during the last week.",
        "Parse the date and add it to the list of rows of the report.",
        "Usage: the first argument is the path of the file to read.",
    ],
)
def test_comment_that_describes_code_is_routine(agent_session, comment):
    assert edit(agent_session, "shop/rules.py", f"# {comment}\nx = 1") == "routine"


def test_description_of_an_option_is_not_the_reason_of_the_user(agent_session):
    option = {"label": "Adyen", "description": "Cheaper in Europe"}
    question = {"question": "Which payment provider should the shop use?", "options": [option]}
    answer = {"answers": {question["question"]: "Adyen"}}
    memory = agent_session.tool("AskUserQuestion", {"questions": [question]}, answer).memory
    assert "Reason" not in memory.content
    assert "The chosen option reads: Cheaper in Europe." in memory.content


def test_count_of_lint_errors_is_routine(agent_session):
    assert run(agent_session, "make lint", "Fixed 2 errors (2 fixed, 0 remaining).") == "routine"


def test_failure_with_its_cause_and_fix_is_stored(agent_session):
    said = (
        "Failed: the cache key lacked the tenant id, so tenants saw each other. Fixed by adding the tenant to"
        " the key."
    )
    run(agent_session, "./deploy.sh", said)
    assert [memory.content for memory in agent_session.memories("bugfix")] == [said]


REPORT = (
    "ValueError: could not convert '12,50'. Cause: German invoices use a decimal comma. "
    "Fix: replace the comma with a point before Decimal() reads the amount."
)


def test_commit_and_the_failure_that_it_fixes_become_one_memory(agent_session):
    run(agent_session, "python check.py", REPORT)
    [failure] = agent_session.memories("bugfix")
    edit(agent_session, "amounts.py")
    run(agent_session, "python check.py", "3 passed")
    run(agent_session, "git commit -qam 'Fix invoice import: accept the decimal comma of invoices'")
    [memory] = agent_session.memories("bugfix")
    assert memory.title == "Fix invoice import: accept the decimal comma of invoices"
    assert memory.content.endswith(REPORT)
    assert [file.path for file in memory.files.all()] == ["amounts.py"]
    failure.refresh_from_db()
    assert (failure.merged_into, failure.trash_reason) == (memory, "merged")
    agent_session.end()
    assert agent_session.memories("bugfix") == [memory]


@pytest.mark.parametrize(
    "message", ["Fix the colour of the login button", "Add decimal comma of invoices to the glossary"]
)
def test_commit_about_something_else_leaves_the_failure(agent_session, message):
    run(agent_session, "python check.py", REPORT)
    edit(agent_session, "amounts.py")
    run(agent_session, f"git commit -qam '{message}'")
    assert REPORT in [memory.content for memory in agent_session.memories()]


@pytest.mark.parametrize(
    "change", [{"pinned_at": timezone.now()}, {"sensitivity": "private"}, {"session_id": "other"}]
)
def test_failure_that_is_pinned_or_from_elsewhere_is_not_replaced(agent_session, change):
    run(agent_session, "python check.py", REPORT)
    Memory.objects.update(**change)
    edit(agent_session, "amounts.py")
    run(agent_session, "git commit -qam 'Fix invoice import: accept the decimal comma of invoices'")
    assert Memory.objects.live().filter(content=REPORT).exists()
    assert not Memory.objects.live().exclude(content=REPORT).filter(content__contains="Cause:").exists()


@pytest.mark.parametrize(
    "line",
    [
        "Removed the legacy SOAP endpoint.",
        "Switched from npm to pnpm.",
        "Added column tz to exports",
        "Changed the retry limit from 3 to 5 for uploads.",
        "Changed the timeout from 30 to 60 seconds",
    ],
)
def test_short_report_of_a_change_is_stored(agent_session, line):
    run(agent_session, "./apply.sh", line)
    assert [memory.content for memory in agent_session.memories()] == [line]


@pytest.mark.parametrize("line", ["Switched to branch main", "Created the output folder.", "Updated it."])
def test_short_progress_line_is_routine(agent_session, line):
    assert run(agent_session, "./apply.sh", line) == "routine"
