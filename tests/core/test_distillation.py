"""From tool calls to what is worth telling: candidates and reasons to skip."""

import pytest

from memoryhub.encoding.classification import classify
from memoryhub.encoding.distillation import Candidate, Work, distill, error_of, prose, without_injections
from memoryhub.encoding.observation import commit_message, kind_of, observe

FAILING = "tests/test_a.py F\nE   AssertionError: assert 1 == 2\n1 failed in 0.2s"


def run(command, output, work=None):
    return distill(observe("Bash", {"command": command}, {"stdout": output}), work or Work())


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        ("Read", "read"),
        ("Edit", "write"),
        ("Bash", "run"),
        ("Grep", "search"),
        ("WebFetch", "ask"),
        ("Odd", "other"),
    ],
)
def test_tools_are_known_by_name(tool, kind):
    assert kind_of(tool) == kind
    assert kind_of(f"mcp__server__{tool}") == kind


def test_files_are_read_from_the_input_and_relative_to_the_folder():
    seen = observe(
        "Edit", {"file_path": "/home/ada/shop/src/tax.py", "new_string": "x"}, {}, "/home/ada/shop"
    )
    assert seen.files_modified == ("src/tax.py",)
    assert observe("Read", {"file_path": "a.py"}, "text").files_read == ("a.py",)


def test_reading_and_listing_are_routine():
    assert (
        distill(observe("Read", {"file_path": "a.py"}, "We decided to rewrite it all."), Work()) == "routine"
    )
    assert run("ls -la", "total 12\ndrwxr-xr-x 3 root root 4096 Nov 20 09:54 .") == "routine"


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m 'Round once per rate' -m 'Because cents got lost.'",
        "git add -A && git commit -m 'Round once per rate' -m 'Because cents got lost.'",
        "git commit -F - <<'END'\nRound once per rate\n\nBecause cents got lost.\nEND",
        "git add . && git commit -qF - <<'X' && git log\nRound once per rate\n\nBecause cents got lost.\nX",
        "cat > a <<'EOF'\nText\nEOF\ngit -C a commit -qam 'Round once per rate' -m 'Because cents got lost.'",
        "git commit -qm 'Round once per rate' -m 'Because cents got lost.' && python -m pytest",
        "git commit -m 'Round once per rate' -m 'Because cents got lost.' && cat > a <<END\nText\nEND",
        "git commit -m \"$(cat <<'EOF'\nRound once per rate\n\nBecause cents got lost.\n\n"
        'Co-Authored-By: A Model <a@example.org>\nEOF\n)"',
    ],
)
def test_a_commit_message_is_what_its_author_wanted_to_tell(command):
    assert commit_message(command) == "Round once per rate\n\nBecause cents got lost."


def test_a_failure_is_noted_and_its_repair_is_told():
    work = Work()
    assert run("pytest -q", FAILING, work) == "failure noted"
    distill(observe("Edit", {"file_path": "src/tax.py", "new_string": "round(x)"}, {}), work)
    told = run("pytest -q tests", "3 passed in 0.2s", work)
    assert isinstance(told, Candidate)
    assert told.resolves
    assert "AssertionError: assert 1 == 2" in told.text
    assert told.files_modified == ("src/tax.py",)
    assert not work.failure


def test_another_program_that_passes_mends_no_failure():
    work = Work()
    run("pytest -q", FAILING, work)
    assert run("ruff check", "OK (all passed) 3 passed", work) == "routine"
    assert work.failure


def test_a_commit_after_a_failure_tells_the_problem_too():
    work = Work()
    run("pytest -q", FAILING, work)
    told = run("git commit -m 'Round once'", "[main 1] Round once", work)
    assert told.text == "Round once\n\nProblem: AssertionError: assert 1 == 2"
    assert work == Work()


def test_a_comment_that_gives_a_reason_is_told_and_other_code_is_not():
    reason = "x = 1\n# read the size first, because the writer truncates the file in place\ny = 2"
    told = distill(
        observe("Edit", {"file_path": "a.py", "old_string": "x = 1", "new_string": reason}, {}), Work()
    )
    assert told.text == "read the size first, because the writer truncates the file in place"
    assert (
        distill(observe("Edit", {"file_path": "a.py", "new_string": "x = 1  # one"}, {}), Work()) == "routine"
    )


def test_a_decision_in_a_document_is_told():
    text = "# 4. One database\n\nWe keep SQLite rather than PostgreSQL, since one machine is enough for us.\n"
    told = distill(observe("Write", {"file_path": "docs/adr/0004.md", "content": text}, {}), Work())
    assert classify(told.text).type == "decision"


def test_what_was_injected_is_never_captured_back():
    block = "<memory-context>\nWe decided to use tabs in every file of the project.\n</memory-context>"
    assert without_injections(f"before {block} after") == "before  after"
    assert without_injections("<memory-context> never closed, and on it goes") == ""
    assert distill(observe("Task", {"prompt": "?"}, block), Work()) == "routine"


def test_the_last_error_line_names_the_failure():
    assert error_of("ValueError: first\nsome text\nKeyError: 'second'") == "KeyError: 'second'"
    assert error_of("all is well") == ""


def test_prose_is_kept_and_logs_and_code_are_not():
    text = (
        "2026-01-01 10:00 INFO started\nfor x in y: {\nThe cache is cleared whenever a token is revoked.\na=1"
    )
    assert prose(text) == "The cache is cleared whenever a token is revoked."


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("fix(api): refuse NUL characters", "bugfix"),
        ("feat: dark mode", "feature"),
        ("We decided to use SQLite instead of PostgreSQL", "decision"),
        ("Rename store.put to store.remember; no behaviour change", "refactor"),
        ("Turns out the index flushes at each savepoint", "discovery"),
        ("Bump the version to 1.2", "change"),
    ],
)
def test_all_six_types_are_told_apart(text, kind):
    assert classify(text).type == kind


def test_a_title_loses_its_commit_prefix_and_ends_without_a_full_stop():
    assert classify("fix(api): refuse NUL characters.").title == "Refuse NUL characters"
