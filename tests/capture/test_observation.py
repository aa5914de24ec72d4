"""Test the parsing of tool calls: observations, shell commands and statements in text."""

from __future__ import annotations

import time

import pytest

from memoryhub.capture.classification import extract_paragraphs, extract_prose, last_error
from memoryhub.capture.events import reduce_call
from memoryhub.capture.observation import (
    MAX_OUTPUT,
    is_display_only,
    is_status_check,
    main_program,
    observe,
    parse_commit_message,
    project_folder,
    tool_kind,
)
from tests.cost import cost_ratio, ordinary_text, repeat


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
def test_tool_kind_is_detected_by_name(tool, kind):
    assert tool_kind(tool) == kind
    assert tool_kind(f"mcp__server__{tool}") == kind


def test_files_are_relative_to_the_working_folder():
    seen = observe(
        "Edit", {"file_path": "/home/ada/shop/src/tax.py", "new_string": "x"}, {}, "/home/ada/shop"
    )
    assert seen.files_modified == ("src/tax.py",)
    assert observe("Read", {"file_path": "a.py"}, "text").files_read == ("a.py",)


@pytest.mark.parametrize(
    ("path", "cwd", "expected"),
    [
        ("/home/ada/shop//src/./tax.py", "/home/ada/shop", "src/tax.py"),
        ("/home/ada/shop/lib/../src/tax.py", "/home/ada/shop", "src/tax.py"),
        ("./src/tax.py", "", "src/tax.py"),
        ("tax.py", "/home/ada/shop/src", "src/tax.py"),
        ("/home/ada/shop/tests/tax.py", "/home/ada/shop/src", "tests/tax.py"),
        ("../other/tax.py", "/home/ada/shop", "../other/tax.py"),
        ("/usr/lib/tax.py", "/home/ada/shop", "/usr/lib/tax.py"),
        ("~/.config/tax.py", "/home/ada/shop", "~/.config/tax.py"),
        ("https://example.org//tax.py", "/home/ada/shop", "https://example.org//tax.py"),
    ],
)
def test_paths_of_one_file_are_the_same(path, cwd, expected):
    root = project_folder(cwd, "/home/ada/shop") if cwd else ""
    assert observe("Read", {"file_path": path}, "", cwd, root).files_read == (expected,)


def test_paths_of_windows_are_relative_with_slashes():
    given = {"file_path": r"C:\work\shop\src\tax.py"}
    assert observe("Edit", given, {}, r"C:\work\shop").files_modified == ("src/tax.py",)


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [
        ("", "/repo"),
        ("/repo/src", "/repo"),
        ("/repository", "/repository"),
        ("/tmp", "/tmp"),
        ("/repo/.worktrees/fix", "/repo/.worktrees/fix"),
    ],
)
def test_paths_are_relative_to_the_folder_of_the_session(cwd, expected):
    assert project_folder(cwd, "/repo") == expected


def test_paths_in_an_output_are_relative_to_the_working_folder():
    output = "/home/ada/shop/src/tax.py:3: error in /srv/home/ada/shop/x and /home/ada/shopping/y"
    seen = observe("Bash", {"command": "make"}, {"stdout": output}, "/home/ada/shop")
    assert seen.output == "src/tax.py:3: error in /srv/home/ada/shop/x and /home/ada/shopping/y"


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
def test_commit_message_is_parsed_without_trailers(command):
    assert parse_commit_message(command) == "Round once per rate\n\nBecause cents got lost."


@pytest.mark.parametrize(
    "command",
    [
        "git -C commit commit -m 'Round once'",
        "git -C 'my repo' commit -m 'Round once'",
        'git --git-dir="my repo/.git" -c user.name="Ada L" commit -m "Round once"',
        r"git -C my\ repo commit -m 'Round once'",
        'git --git-dir "my repo/.git" --work-tree my\\ repo commit -m "Round once"',
        "git --namespace shop --no-pager commit -m 'Round once'",
        r"""git -C "a\"b c" commit -m 'Round once'""",
    ],
)
def test_values_of_options_before_commit_may_be_quoted(command):
    assert parse_commit_message(command) == "Round once"


@pytest.mark.parametrize(
    "command",
    [
        "git -C commit -m x",
        "git -C 'a commit -m x",
        "git log --grep=' commit -m x'",
        "git help commit -m x",
        r"git -C a\ commit -m x",
        "git --git-dir commit -m x",
        r"""git -C "a\" commit -m x""",
    ],
)
def test_other_git_commands_are_no_commit(command):
    """``git -C commit -m x`` fails: "commit" is its folder, and -m is no option of git."""
    assert parse_commit_message(command) == ""


@pytest.mark.parametrize("part", ["-c ", '-C "git ', r"-C \\ ", '--git-dir "', r"git -C \"", "git -C 'a'"])
def test_many_options_before_commit_take_little_time(part):
    start = time.thread_time()
    assert parse_commit_message("git " + part * 5000) == ""
    assert time.thread_time() - start < 0.5


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
def test_command_is_display_only_if_all_programs_are(command, shown):
    assert is_display_only(command) is shown


@pytest.mark.parametrize(
    ("command", "survey"),
    [("git status --short", True), ("ls -la src", True), ("cat src/a.py", False), ("pytest -q", False)],
)
def test_reading_text_is_no_status_check(command, survey):
    assert is_status_check(command) is survey


def test_main_program_ignores_prefixes():
    assert main_program("cd shop && TZ=UTC python3 -m pytest -q tests") == "pytest"
    assert main_program("npm test -- --watch") == "npm test"


def test_plans_and_status_checks_are_detected():
    assert reduce_call(
        observe("TodoWrite", {"todos": [{"content": "fix the tax"}]}, {}, ""), 300
    ).shows_status
    assert reduce_call(observe("Bash", {"command": "git status"}, {"stdout": "clean"}, ""), 300).shows_status
    assert not reduce_call(
        observe("Read", {"file_path": "a.py"}, {"file": {"content": "x"}}, ""), 300
    ).shows_status


def test_words_of_file_names_are_keywords():
    call = reduce_call(
        observe("Edit", {"file_path": "src/tax_rates.py", "new_string": "one = two"}, {}, ""), 300
    )
    assert {"src", "tax", "rates"} <= set(call.keywords)


def test_wrapped_lines_form_one_paragraph():
    text = "# 2. One file\n\nStatus: accepted\n\nWe keep one file rather than many, since one\nis enough.\n"
    text += "\n```\ncode that runs on and on and on, too\n```\n"
    assert (
        extract_paragraphs(text) == "# 2. One file\nWe keep one file rather than many, since one is enough."
    )


def test_last_error_line_is_returned():
    assert last_error("ValueError: first\nsome text\nKeyError: 'second'") == "KeyError: 'second'"
    assert last_error("all is well") == ""


def test_prose_excludes_logs_and_code():
    text = (
        "2026-01-01 10:00 INFO started\nfor x in y: {\nThe cache is cleared whenever a token is revoked.\na=1"
    )
    assert extract_prose(text) == "The cache is cleared whenever a token is revoked."


def test_pytest_error_is_complete_and_names_the_test():
    output = (
        "E       AssertionError: assert ['harbour', 'attic', 'nordic'] == ['attic', 'harbour', 'nordic']\n"
        "E         Use -v to get more diff\ntests/test_report.py:30: AssertionError\n"
        "FAILED tests/test_report.py::test_top[a b-1] - AssertionError: assert ['harbour', ...\n1 failed"
    )
    error = "AssertionError: assert ['harbour', 'attic', 'nordic'] == ['attic', 'harbour', 'nordic']"
    assert last_error(output) == f"{error} in tests/test_report.py::test_top[a b-1]"


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("\x1b[31m\x1b[1mE   KeyError: 'x'\x1b[0m", "E   KeyError: 'x'"),
        ("\x1b[38;2;255;0;0mred\x1b[m\x1b[K", "red"),
        ("\x1b]8;;file:///a.py\x07a.py\x1b]8;;\x07:1", "a.py:1"),
        ("\x1b]0;title\x1b\\KeyError\x1b(B", "KeyError"),
        ("\r\x1b[2K10%\r\x1b[2K20%\rKeyError\r\nmore\r\n", "KeyError\r\nmore\r\n"),
        ("a\rb\rc\nd\re", "c\ne"),
        ("\x1b]unclosed", "unclosed"),
    ],
)
def test_output_is_read_without_codes_of_a_terminal(output, shown):
    assert observe("Bash", {"command": "make"}, output).output == shown


@pytest.mark.parametrize("part", ["\x1b]", "\x1b[", "\x1b[;;;;", "\x1b]x", "\r", "a\r", "\n\r", "\x1b "])
def test_codes_of_a_terminal_take_linear_time(part):
    def run(text):
        observe("Bash", {"command": "make"}, {"stdout": text})

    assert cost_ratio(run, repeat(part, 200_000), ordinary_text(200_000), 10) < 30


@pytest.mark.parametrize("response", [str, lambda text: {"stdout": "noise\n" * 9000, "stderr": text}])
def test_end_of_a_long_output_of_a_command_is_read(response):
    output = "Exit code 1\n" + "collecting\n" * 30_000 + "E   KeyError: 'x'\n"
    seen = observe("Bash", {"command": "pytest"}, response(output))
    assert last_error(seen.output) == "KeyError: 'x'"
    assert len(seen.output) <= MAX_OUTPUT
    assert "KeyError" not in observe("Read", {"file_path": "a.log"}, output).output


def test_rest_of_a_key_or_line_that_was_cut_is_not_read():
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "quincewort\n" * 2000 + "-----END RSA PRIVATE KEY-----\n"
    seen = observe("Bash", {"command": "make"}, "a\n" * 9000 + key + "done\n")
    assert seen.output.endswith("\n…\ndone\n")
    assert "quince" not in observe("Bash", {"command": "make"}, "a\n" * 9000 + "quince" * 9000).output
