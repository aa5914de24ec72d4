"""Test failed tool calls as Claude Code reports them."""

from __future__ import annotations

from typing import Any

from memoryhub.models import Event, Memory
from tests.capture.conftest import FIX
from tests.capture.test_claude_code import hook, send
from tests.cases import each


def failure(command: str, error: Any, **more: Any) -> dict[str, Any]:
    given = {"tool_name": "Bash", "tool_input": {"command": command}, "error": error, "is_interrupt": False}
    return hook("PostToolUseFailure", **{**given, **more})


def test_fix_of_a_failed_tool_call_is_captured(bot):
    error = "Exit code 1\nE   LedgerError: the planner scanned every partition of the ledger"
    assert send(bot, failure("pytest tests/test_ledger.py", error)) == {}
    assert Event.objects.get().skip_reason == "failure noted"
    edit = {"file_path": "/home/ada/shop/ledger.py", "old_string": "a", "new_string": "b"}
    send(bot, hook("PostToolUse", tool_name="Edit", tool_input=edit, tool_response={}))
    run = {"tool_name": "Bash", "tool_input": {"command": "pytest tests/test_ledger.py"}}
    send(bot, hook("PostToolUse", **run, tool_response={"stdout": "4 passed", "stderr": ""}))
    send(bot, hook("SessionEnd", reason="other"))
    memory = Memory.objects.get(type="bugfix")
    assert "LedgerError: the planner scanned every partition" in memory.content
    assert "ledger.py" in memory.content


def test_interrupted_call_is_no_failure(bot):
    send(bot, failure("pytest", "E   LedgerError: stopped half way", is_interrupt=True))
    event = Event.objects.get()
    assert (event.event, event.skip_reason) == ("tool:post", "routine")


@each("error", [None, 7, [], {"a": [1]}, "", True])
def test_failed_call_accepts_any_error(bot, error):
    assert send(bot, failure("make", error)) == {}
    assert Event.objects.get().skip_reason == "routine"


def test_failed_commit_is_not_captured(bot):
    send(bot, failure(f'git commit -m "{FIX}"', "Exit code 1\nruff.....Failed"))
    assert not Memory.objects.exists()


def test_commit_is_captured_when_a_later_command_fails(bot):
    said = "Exit code 1\n[main 3f2a91c] fix(importer): read each file once\n 1 file changed\nerror: no remote"
    send(bot, failure(f'git commit -m "{FIX}" && git push', said))
    assert Memory.objects.get().type == "bugfix"


def test_failed_write_modifies_no_file(bot):
    reason = "# must stay first, because otherwise the order of imports breaks the plugin"
    edit = {"file_path": "/home/ada/shop/first.py", "old_string": "x", "new_string": reason}
    error = "String to replace not found in file."
    send(bot, failure("", error, tool_name="Edit", tool_input=edit))
    event = Event.objects.get()
    assert (event.files, event.skip_reason) == ([], "routine")
    assert event.preview == "first.py String to replace not found in file."
    send(bot, hook("SessionEnd", reason="other"))
    assert not Memory.objects.exists()


def test_failure_on_a_credential_file_stores_nothing(bot):
    edit = {"file_path": "/home/ada/shop/.env", "old_string": "TOKEN=zebra", "new_string": "TOKEN=yak"}
    send(bot, failure("", "String to replace not found in file: zebra", tool_name="Edit", tool_input=edit))
    event = Event.objects.get()
    assert (event.sensitivity, event.skip_reason, event.preview) == ("private", "secret", ".env")
