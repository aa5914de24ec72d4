"""What a shell command is for."""

import pytest

from memoryhub.capture.event_preview import read_call
from memoryhub.capture.shell_commands import is_display, is_survey, program


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("git log --oneline | head -5", True),
        ("cd api && git diff HEAD~2", True),
        ("LANG=C ls -la", True),
        ("cat a.md; python run.py", False),
        ("node --test test/ 2>&1 | tail -8", False),
        ("", False),
    ],
)
def test_a_command_only_shows_when_all_its_programs_do(command, shown):
    assert is_display(command) is shown


@pytest.mark.parametrize(
    ("command", "survey"),
    [("git status --short", True), ("ls -la src", True), ("cat src/a.py", False), ("pytest -q", False)],
)
def test_reading_a_text_is_no_look_around(command, survey):
    assert is_survey(command) is survey


def test_the_program_is_known_whatever_stands_before_it():
    assert program("cd shop && TZ=UTC python3 -m pytest -q tests") == "pytest"
    assert program("npm test -- --watch") == "npm test"


def test_a_plan_and_a_look_around_are_told_apart_from_work():
    assert read_call("TodoWrite", {"todos": [{"content": "mend the tax"}]}, {}, "", 300).looks_around
    assert read_call("Bash", {"command": "git status"}, {"stdout": "clean"}, "", 300).looks_around
    assert not read_call("Read", {"file_path": "a.py"}, {"file": {"content": "x"}}, "", 300).looks_around


def test_the_words_of_a_file_name_are_keywords_of_what_is_done_to_it():
    call = read_call("Edit", {"file_path": "src/tax_rates.py", "new_string": "one = two"}, {}, "", 300)
    assert {"src", "tax", "rates"} <= set(call.keywords)
