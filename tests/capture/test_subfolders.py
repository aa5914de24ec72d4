"""Sessions in a subfolder of a repository store paths from its top."""

from __future__ import annotations

import pytest

from memoryhub.capture.observation import working_subfolder
from tests.capture.conftest import agent_session, bot
from tests.cases import each

__all__ = ["agent_session", "bot"]

CWD = "/home/ada/mono/packages/api"
REPOSITORY = {"root": "a" * 40, "subfolder": "packages/api"}
EDIT = {"file_path": f"{CWD}/src/rates.py", "old_string": "x", "new_string": "y"}


@pytest.mark.parametrize("first", ["session:start", "prompt:submit"])
def test_paths_start_at_the_top_of_the_repository(agent_session, first):
    agent_session.ok(first, {"prompt": "Read the rates once"}, cwd=CWD, repository=REPOSITORY)
    event = agent_session.tool("Edit", EDIT, {"filePath": EDIT["file_path"]}, cwd=CWD)
    assert event.files == ["packages/api/src/rates.py"]
    assert agent_session.row.cwd == CWD  # what people see, and what a split by folder looks for


def test_session_that_began_with_a_memory_gets_its_subfolder_later(agent_session, bot):
    bot.post("/memories", {"content": "Rates are read once", "project": "shop", "session_id": "s1"})
    agent_session.ok("prompt:submit", {"prompt": "Read the rates once"}, cwd=CWD, repository=REPOSITORY)
    event = agent_session.tool("Edit", EDIT, {"filePath": EDIT["file_path"]}, cwd=CWD)
    assert event.files == ["packages/api/src/rates.py"]


def test_session_whose_client_does_not_report_the_subfolder_stores_paths_from_there(agent_session):
    agent_session.ok("session:start", cwd=CWD, repository={"root": "a" * 40})
    event = agent_session.tool("Edit", EDIT, {"filePath": EDIT["file_path"]}, cwd=CWD)
    assert event.files == ["src/rates.py"]


@pytest.mark.parametrize(
    ("cwd", "given", "found"),
    [
        (CWD, "packages/api", "packages/api"),
        (f"{CWD}/", "packages/api/", "packages/api"),
        (r"C:\mono\packages\api", "packages/api", "packages/api"),
        (CWD, "", ""),
        (CWD, "api", "api"),
        (CWD, "es/api", None),
        (CWD, "../api", None),
        (CWD, CWD[1:], None),
        (CWD, CWD, None),
        (CWD, 7, None),
        (CWD, None, None),
        ("", "", None),
    ],
)
def test_subfolder_must_be_the_end_of_the_working_folder(cwd, given, found):
    assert working_subfolder({"subfolder": given}, cwd) == found
    assert working_subfolder([given], cwd) is None


@each("pattern", ["/packages/api/private/", "/private/", "private/"])
def test_ignored_files_are_matched_from_the_top_and_from_the_subfolder(agent_session, bot, pattern):
    assert bot.patch("/projects/shop", {"ignored_paths": pattern}).status_code == 200
    agent_session.ok("session:start", cwd=CWD, repository=REPOSITORY)
    data = {"tool_name": "Read", "tool_input": {"file_path": f"{CWD}/private/a.txt"}, "tool_response": "x"}
    agent_session.ok("tool:post", data, cwd=CWD)
    assert not agent_session.row.events.filter(event="tool:post").exists()
