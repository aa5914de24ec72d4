"""Test the recorder: it executes the steps, and its transcripts are deterministic."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.recorded.conftest import SESSIONS

pytestmark = pytest.mark.skipif(not (shutil.which("git") and shutil.which("bash")), reason="needs git, bash")
CODE = "def total(prices):\n    return sum(prices)\n"
TEST = "from shop import total\n\n\ndef test_total():\n    assert total([1, 2]) == 4\n"
TRANSCRIPTS = ("debugging", "feature", "kiosk", "refactor")


@pytest.fixture(scope="module")
def recording() -> Any:
    sys.path.insert(0, str(SESSIONS))
    try:
        from recorder import Recording
    finally:
        sys.path.remove(str(SESSIONS))
    return Recording


@pytest.fixture
def record(recording: Any) -> Callable[[], list[dict[str, Any]]]:
    def play() -> list[dict[str, Any]]:
        files = {"shop.py": CODE, "test_shop.py": TEST, "pyproject.toml": "[tool.pytest.ini_options]\n"}
        s = recording("small", "shop", "2026-03-03T09:12:00", files)
        s.given({}, "git init -q && git add -A && git commit -qm 'Start'", days_ago=12)
        s.start()
        s.prompt("The test fails.")
        s.read("shop.py", 1, 1)
        s.bash("python -m pytest -q 2>&1 | tail -30", "Run the tests")
        s.edit("test_shop.py", "== 4", "== 3")
        s.bash("ls -la && pwd")
        s.bash("git commit -qam 'test: three' && git log --format='%H %an %ad'", "Commit")
        s.bash("python -m pytest -q -k none", fails=True)
        s.grep("total", content=True)
        s.end()
        return [json.loads(line) for line in s.lines()]

    return play


def outputs(rows: list[dict[str, Any]]) -> list[str]:
    hooks = [row["hook"] for row in rows]
    ran = [hook for hook in hooks if hook.get("tool_name") == "Bash"]
    return [hook["tool_response"]["stdout"] for hook in ran if hook["hook_event_name"] == "PostToolUse"]


def test_the_same_script_gives_the_same_transcript(record):
    first = record()
    time.sleep(1.1)  # the clock must show other seconds
    assert record() == first


def test_recorded_steps_are_executed(record):
    rows = record()
    failed, listed, logged = outputs(rows)
    assert "assert 3 == 4" in failed
    assert "1 failed in 0.21s" in failed
    assert listed.endswith("/home/dev/shop")
    assert re.search(r"-rw-r--r-- 1 dev dev +\d+ 2026-03-03 09:\d\d test_shop.py", listed)
    assert re.match(r"[0-9a-f]{40} Robin Vale Tue Mar 3 09:\d\d:\d\d 2026 \+0000\n", logged)
    read = rows[2]["hook"]["tool_response"]["file"]
    assert (read["content"], read["totalLines"]) == ("def total(prices):", 2)
    assert rows[4]["hook"]["tool_response"]["structuredPatch"][0]["lines"][-2:] == [
        "-    assert total([1, 2]) == 4",
        "+    assert total([1, 2]) == 3",
    ]


def test_a_command_that_fails_is_recorded_as_a_failure(record):
    [hook] = [row["hook"] for row in record() if row["hook"]["hook_event_name"] == "PostToolUseFailure"]
    assert hook["tool_input"] == {"command": "python -m pytest -q -k none"}
    assert hook["error"] == "Exit code 5\n\n1 deselected in 0.21s"
    assert hook["is_interrupt"] is False
    assert hook["tool_use_id"].startswith("toolu_01")
    assert "tool_response" not in hook


def test_long_error_keeps_both_ends(recording):
    s = recording("long", "shop", "2026-03-03T09:12:00")
    s.bash("seq 5000; exit 3", fails=True)
    [row] = [json.loads(line) for line in s.lines()]
    error = row["hook"]["error"]
    assert error.startswith("Exit code 3\n1\n2\n")
    assert error.endswith("\n4999\n5000")
    assert len(error) < 10_100
    assert "characters truncated" in error


def test_a_step_that_cannot_be_done_is_an_error(recording):
    s = recording("broken", "shop", "2026-03-03T09:12:00", {"shop.py": CODE})
    with pytest.raises(SystemExit, match="0 times in the file"):
        s.edit("shop.py", "not there", "")
    with pytest.raises(SystemExit, match="ended with 1"):
        s.bash("false")
    list(s.lines())


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_transcript_is_long_and_free_of_machine_details(name):
    text = (SESSIONS / f"{name}.jsonl").read_text("utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert len(rows) >= 200
    assert sum(row["hook"]["hook_event_name"] == "PostToolUseFailure" for row in rows) >= 2
    assert len(text.encode()) < 600_000
    offsets = [row["offset"] for row in rows]
    assert offsets == sorted(offsets)
    assert {row["hook"]["cwd"].split("/")[1] for row in rows} == {"home"}
    found = re.findall(r"/(?:root|work|opt|private|Users|var/folders)/[\w./-]*|/tmp/session-\w+", text)
    assert found == []
