"""Test which tool calls become candidates, and the reasons to skip others."""

import pytest

from memoryhub.capture.classification import classify
from memoryhub.capture.distillation import MAX_NOTE_AGE, Candidate, OpenWork, distill
from memoryhub.capture.observation import observe
from memoryhub.search.prompts import strip_injected_context
from tests.cost import cost_ratio, ordinary_text, repeat

FAILING = "tests/test_a.py F\nE   AssertionError: assert 1 == 2\n1 failed in 0.2s"


def run(command, output, work=None):
    return distill(observe("Bash", {"command": command}, {"stdout": output}), work or OpenWork())


def test_read_and_search_calls_are_routine():
    assert (
        distill(observe("Read", {"file_path": "a.py"}, "We decided to rewrite it all."), OpenWork())
        == "routine"
    )
    assert run("ls -la", "total 12\ndrwxr-xr-x 3 root root 4096 Nov 20 09:54 .") == "routine"


def test_fix_of_a_failure_becomes_a_note():
    work = OpenWork()
    assert run("pytest -q", FAILING, work) == "failure noted"
    distill(observe("Edit", {"file_path": "src/tax.py", "new_string": "round(x)"}, {}), work)
    assert run("pytest -q tests", "3 passed in 0.2s", work) == "repair noted"
    assert not work.failure
    [candidate] = work.take_due_notes(everything=True)
    assert candidate.source == "recovery"
    assert "AssertionError: assert 1 == 2" in candidate.text
    assert candidate.files_modified == ("src/tax.py",)
    assert not work.take_due_notes(everything=True)


def test_commit_after_a_fix_includes_the_problem_once():
    work = OpenWork()
    run("pytest -q", FAILING, work)
    run("pytest -q", "3 passed in 0.2s", work)
    candidate = run("git commit -m 'fix: round once'", "[main 1]", work)
    assert candidate.text == "fix: round once\n\nProblem: AssertionError: assert 1 == 2"
    assert not work.take_due_notes(everything=True)


def test_test_that_failed_before_its_feature_is_no_problem():
    work = OpenWork()
    run("pytest -q", FAILING, work)
    run("pytest -q", "3 passed in 0.2s", work)
    candidate = run("git commit -m 'feat: taxes by country'", "[main 1]", work)
    assert candidate.text == "feat: taxes by country"
    assert not work.take_due_notes(everything=True)


def test_success_of_another_program_is_no_fix():
    work = OpenWork()
    run("pytest -q", FAILING, work)
    assert run("ruff check", "OK (all passed) 3 passed", work) == "routine"
    assert work.failure


def test_commit_after_a_failure_includes_the_problem():
    work = OpenWork()
    run("pytest -q", FAILING, work)
    candidate = run("git commit -m 'Round once'", "[main 1] Round once", work)
    assert candidate.text == "Round once\n\nProblem: AssertionError: assert 1 == 2"
    assert work == OpenWork(calls=2)


REASON = "x = 1\n# read the size first, because the writer truncates the file in place\ny = 2"


def edit(new, old="", path="a.py", work=None):
    given = {"file_path": path, "old_string": old, "new_string": new}
    return distill(observe("Edit", given, {}), work or OpenWork())


def test_comment_with_a_reason_becomes_a_note():
    work = OpenWork()
    assert edit(REASON, "x = 1", work=work) == "reason noted"
    assert edit("x = 1  # one") == "routine"
    assert edit("# Changelog, because everybody must have one of these", path="CHANGELOG.md") == "routine"
    [candidate] = work.take_due_notes(everything=True)
    assert candidate.text == "read the size first, because the writer truncates the file in place"
    assert candidate.files_modified == ("a.py",)


@pytest.mark.parametrize(
    "comment",
    [
        "// Bewusst ohne Datum, weil sonst die Zeitzone des Rechners mitspielt",
        "# 行番号がずれるので、空行は必ず残しておくこと",
        "-- jamais en heure locale, car le serveur change de fuseau",
    ],
)
def test_reasons_are_detected_in_other_languages(comment):
    assert edit(comment) == "reason noted"


def test_note_covered_by_the_commit_is_dropped():
    work = OpenWork()
    edit(REASON, work=work)
    run("git commit -m 'fix: read the size before the writer truncates the file in place'", "", work)
    assert not work.take_due_notes(everything=True)


def test_note_not_covered_by_the_commit_is_due():
    work = OpenWork()
    edit(REASON, work=work)
    run("git commit -m 'feat: a table of contents'", "", work)
    assert [one.source for one in work.take_due_notes()] == ["comment"]


def test_note_is_due_after_its_maximum_age():
    work = OpenWork()
    edit(REASON, work=work)
    for _ in range(MAX_NOTE_AGE - 1):
        run("ls", "a.py", work)
    assert not work.take_due_notes()
    run("ls", "a.py", work)
    assert len(work.take_due_notes()) == 1


def test_comment_with_a_secret_is_not_noted():
    work = OpenWork()
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    assert edit(f"# never use the key {key} here, because it is revoked", work=work) == "secret"
    assert not work.notes


def test_commit_with_an_empty_message_keeps_the_work_open():
    work = OpenWork()
    edit("y = 2", path="b.py", work=work)
    run("git commit -qm 'feat: one' b.py", "", work)
    edit("x = 2", work=work)
    assert run("git commit -qam wip", "", work) == "routine"
    candidate = run("git commit --amend -m 'feat: two of everything'", "", work)
    assert candidate.files_modified == ("a.py",)


def test_amended_commit_includes_files_of_both_commits():
    work = OpenWork()
    edit("x = 2", work=work)
    run("git commit -qam 'feat: two'", "", work)
    edit("y = 2", path="b.py", work=work)
    assert run("git commit --amend -am 'feat: two of all'", "", work).files_modified == ("a.py", "b.py")


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("git log --oneline -5", "b65569e fix: a tool laid by for one member must never go to another."),
        ("cat docs/why.md | head -20", "We keep one file because the treasurer opens it in an editor."),
        ("cd api && git diff HEAD~2", "+ We never retry a payment because the bank counts it twice."),
        ("node --test test/", "# Subtest: a tool is never lent twice because of a lapsed offer"),
    ],
)
def test_display_command_is_routine(command, output):
    assert run(command, output) == "routine"


def test_output_sentence_with_a_reason_is_a_candidate():
    said = "The cache was stale because the token had been revoked before it was read."
    assert run("python diagnose.py", f"checked 12\n{said}\n0x12 0x14 0x16").text == said
    assert run("python diagnose.py", "The cache holds twelve entries of the user.") == "routine"


def test_answer_with_a_reason_is_a_candidate():
    url = {"url": "https://example.com", "prompt": "When are rates published?"}
    candidate = distill(
        observe("WebFetch", url, {"result": "Never on Sundays, because markets are closed."}), OpenWork()
    )
    assert candidate.text == (
        "Never on Sundays, because markets are closed.\n\nAsked: When are rates published?"
    )
    plain = {"result": "The valid forms of the function are NFC, NFD, NFKC and NFKD."}
    assert distill(observe("WebFetch", url, plain), OpenWork()) == "routine"


def test_decision_in_a_document_is_a_candidate():
    text = "# 4. One database\n\nWe keep SQLite rather than PostgreSQL, since one machine is enough for us.\n"
    candidate = distill(observe("Write", {"file_path": "docs/adr/0004.md", "content": text}, {}), OpenWork())
    assert classify(candidate.text).type == "decision"


def test_injected_context_is_never_a_candidate():
    block = "<memory-context>\nWe decided to use tabs in every file of the project.\n</memory-context>"
    assert strip_injected_context(f"before {block} after") == "before  after"
    assert strip_injected_context("<memory-context> never closed, and on it goes") == ""
    assert distill(observe("Task", {"prompt": "?"}, block), OpenWork()) == "routine"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a <memory-context>b <memory-context>c</memory-context> d</memory-context> e", "a  e"),
        ("a <memory-context>b</memory-context> c <memory-context>d</memory-context> e", "a  c  e"),
        ("a < Memory-Context id='1' >b</ memory-context > c", "a  c"),
        ("a </memory-context> b", "a  b"),
        ("a </memory-context <memory-context>b</memory-context> c", "a  c"),
    ],
)
def test_nested_injected_blocks_are_stripped(text, kept):
    assert strip_injected_context(text) == kept


@pytest.mark.parametrize(
    ("command", "taken"),
    [
        (
            "git add tests && git commit -m 'test: one more of them because it broke twice'",
            ("tests/test_b.py",),
        ),
        ("git commit -m 'docs: why a; b is so because of c' -- a.py && git log", ("a.py",)),
        ("git add a.py\ngit commit -F - <<'END'\nchore: it's never needed\nEND", ("a.py",)),
        ("git -C /home/ada/shop add a.py && git -C /home/ada/shop commit -m 'style: never a tab'", ("a.py",)),
        ("git -C tests add test_b.py && git commit -m 'style: never a tab'", ("tests/test_b.py",)),
        ("git -C tests/.. add ./a.py && git commit -m 'style: never a tab'", ("a.py",)),
        ("git add /home/ada/shop/tests && git commit -m 'style: never a tab'", ("tests/test_b.py",)),
        ("git -C tests commit -m 'style: never a tab' -- test_b.py", ("tests/test_b.py",)),
        ("git add a.py && git add -A && git commit -m 'style: never a tab'", ("a.py", "tests/test_b.py")),
        ("git add a.py && git commit -am 'style: never a tab'", ("a.py", "tests/test_b.py")),
        ("git commit -m 'style: never a tab'", ("a.py", "tests/test_b.py")),
    ],
)
def test_commit_includes_the_files_that_it_names(command, taken):
    work = OpenWork()
    edit("x = 2", work=work)
    edit("y = 2", path="tests/test_b.py", work=work)
    assert run(command, "", work).files_modified == taken


def test_partial_commit_leaves_the_failure_open():
    work = OpenWork()
    edit("def test_a(): ...", path="tests/test_a.py", work=work)
    run("pytest -q", FAILING, work)
    edit("x = 2", work=work)
    run("pytest -q", "3 passed in 0.2s", work)
    run("git add tests && git commit -m 'test: of a'", "", work)
    candidate = run("git add -A && git commit -m 'fix: two'", "", work)
    assert "Problem: AssertionError: assert 1 == 2" in candidate.text
    assert candidate.files_modified == ("a.py",)


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("test: a batch that fails halfway is saved once", False),
        ("style: run the formatter", False),
        ("chore: version 0.8 instead of 1.0 because the API still moves", True),
        ("docs: usage\n\nThe example showed an option that is gone.", True),
        ("fix: round once", True),
        ("Round once at the end", True),
    ],
)
def test_routine_commit_without_reason_is_routine(message, kept):
    assert isinstance(run(f"git commit -m '{message}'", ""), Candidate) is kept


@pytest.mark.parametrize(
    ("written", "heading"),
    [
        ("# Gotchas\n\n## Numbers that look alike\n\n{}", "## Numbers that look alike"),
        ("# 3. Keep the oldest row\n\n## Context\n\n{}", "# 3. Keep the oldest row"),
        ("# Gotchas\n\n{}", "# Gotchas"),
    ],
)
def test_document_heading_has_more_than_one_word(written, heading):
    said = "Always pass numbers through order_number() before they are compared."
    path = "docs/decisions/0001.md"
    candidate = distill(
        observe("Write", {"file_path": path, "content": written.format(said)}, {}), OpenWork()
    )
    assert candidate.text == f"{heading}\n{said}"


def test_short_document_change_needs_a_reason():
    def added(line):
        return distill(observe("Edit", {"file_path": "CLAUDE.md", "new_string": line}, {}), OpenWork())

    assert added("- Read the gotchas before touching the parser.") == "routine"
    assert isinstance(added("- Never touch the parser before reading."), Candidate)


def test_removed_file_is_not_listed_as_modified():
    work = OpenWork()
    for path in ("a.py", "try/b.py", "c.py"):
        edit("x = 2", path=path, work=work)
    run("python try/b.py && rm -r ./try c.py; ls", "", work)
    assert run("git commit -am 'fix: two'", "", work).files_modified == ("a.py",)


def test_file_that_is_removed_elsewhere_stays_modified():
    work = OpenWork()
    edit("x = 2", path="src/a.py", work=work)
    run("rm -rf /tmp/src", "", work)
    assert run("git commit -am 'fix: two'", "", work).files_modified == ("src/a.py",)


def test_files_from_git_status_count_as_modified():
    work = OpenWork()
    run(
        "sed -i s/a/b/ src/a.py && git status --short",
        ' M src/a.py\n?? src/new/\nR  "an old.py" -> b.py\n M "my notes.md"\n M .env\n?? inbox.csv',
        work,
    )
    run(
        "git diff --stat | cat",
        " src/c.py     |  4 ++--\n src/d.png | Bin 0 -> 12 bytes\n 2 files changed",
        work,
    )
    run("git diff HEAD~3 --stat", " src/long_ago.py | 2 +-", work)
    candidate = run("git commit -qam 'refactor: a becomes b everywhere'", "", work)
    assert candidate.files_modified == ("src/a.py", "b.py", "my notes.md", "src/c.py", "src/d.png")


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        (
            "Bump black from 21.5b2 to 21.6b0 (#1374)\n\nBumps [black](https://example.org).\n- [Notes](x)",
            False,
        ),
        ("Release 3.23\n\nRefs #79, #363", False),
        ("Fix typo in the README", False),
        ("Added screenshots to the docs of facets, refs #255", False),
        ("Applied Black", False),
        ("Pin httpx below 1.0 because its new client drops our headers", True),
        (
            "Mark test_queries.py as xfail\n\nCanned queries use a permission that has not been moved yet.",
            True,
        ),
        ("Add a docs command that prints all settings", True),
    ],
)
def test_routine_commit_is_detected_without_prefix(message, kept):
    assert isinstance(run(f"git commit -F - <<'END'\n{message}\nEND", ""), Candidate) is kept


ESSAY = "\n\n".join(
    [
        "Certainly! Let's look at this step by step, because it matters.",
        "## Benefits of caching",
        "Caching is always a good idea because it saves time for everybody who waits for an answer. " * 6,
        "- Think about what you need before you begin, since plans change and time is short for us. " * 6,
        "`load()` in src/store.py ignores the version, so an older program must never save it.",
    ]
)


def test_only_concrete_paragraphs_of_an_essay_are_kept():
    candidate = distill(observe("Task", {"prompt": "How?"}, {"content": ESSAY}), OpenWork())
    assert candidate.text == f"{ESSAY.splitlines()[-1]}\n\nAsked: How?"


def test_general_advice_is_routine():
    advice = ESSAY.rpartition("\n")[0]
    assert distill(observe("Task", {"prompt": "How?"}, {"content": advice}), OpenWork()) == "routine"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("npx tsc --noEmit", "src/cart.ts(31,7): error TS2322: Type 'string' is not assignable to 'number'."),
        ("gcc -c cart.c", "cart.c:31:5: error: expected ';' before 'return'"),
        ("make", "cc -c cart.c\ncart.c:3:10: fatal error: tax.h: No such file or directory"),
    ],
)
def test_silent_compiler_after_an_error_is_a_fix(command, output):
    work = OpenWork()
    assert run(command, output, work) == "failure noted"
    assert "error" in work.failure
    assert run("ls", "", work) == "routine", "another command says nothing about it"
    assert run(command, "", work) == "repair noted"
    [candidate] = work.take_due_notes(everything=True)
    assert candidate.source == "recovery"
    assert "cart" in candidate.text


def test_line_number_before_the_word_error_is_no_failure():
    assert run("rg retry", "app.log:31: errors are retried twice") == "routine"


def test_revert_uses_the_headline_of_git_and_keeps_the_work_open():
    work = OpenWork(modified=["src/open.py"], read=["src/read.py"], failure="AssertionError")
    output = '[main 1a2b3c4] Revert "feat: lazy reading"\n Date: today\n 1 file changed, 2 deletions(-)'
    found = run("cd shop && git revert --no-edit HEAD", output, work)
    assert isinstance(found, Candidate)
    assert (found.text, found.source) == ('Revert "feat: lazy reading"', "commit")
    assert found.files_modified == ()
    assert (work.modified, work.failure) == (["src/open.py"], "AssertionError")


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("git revert HEAD", "error: could not revert 1a2b3c4... feat: lazy reading"),
        ("git log --oneline", '[main 1a2b3c4] Revert "feat: lazy reading"'),
        ("git revert --abort", ""),
    ],
)
def test_failed_revert_is_no_candidate(command, output):
    assert not isinstance(run(command, output), Candidate)


@pytest.mark.parametrize("part", ["< ", "<memory-context ", "<memory-context>", "</"])
def test_injected_blocks_are_found_in_linear_time(part):
    hostile = part[:-1] + repeat(part[-1], 20_000) if part.endswith(" ") else repeat(part, 20_000)
    ordinary = repeat("a < b <memory-context>c</memory-context> ", 20_000)
    assert cost_ratio(strip_injected_context, hostile, ordinary, 10) < 40


def test_error_line_of_spaces_takes_linear_time():
    def distil(output):
        run("pytest", output)

    assert cost_ratio(distil, "E" + " " * 19_000, ordinary_text(19_000), 3) < 10
