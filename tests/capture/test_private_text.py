"""Private text and ignored files: they are stored and logged nowhere."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from memoryhub.access.policy import system_actor
from memoryhub.audit import mirror
from memoryhub.backends.dialect import sql
from memoryhub.capture import projects
from memoryhub.capture.ignored_paths import IgnoredPaths
from memoryhub.capture.observation import TOOLS, observe
from memoryhub.models import Event, Injection
from tests.capture.conftest import FIX, AgentSession
from tests.cost import cost_ratio, ordinary_text, repeat

ADMIN = system_actor("tests")
MATCHES_WORD = sql.MATCH(index="memoryhub_text", expression="%s")
WORD = "quincewort"  # a word that no other text of these tests has


def stored_anywhere(word: str) -> list[str]:
    """Return the tables that contain the word, full-text indexes included."""
    with connection.cursor() as cursor:
        found = []
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            if any(word in repr(row).lower() for row in cursor.fetchall()):
                found.append(table)
        if word.isalpha():
            cursor.execute(f"SELECT count(*) FROM memoryhub_text WHERE {MATCHES_WORD}", [word])
            found += ["index"] if cursor.fetchone()[0] else []
    return found


@pytest.fixture
def everywhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, configure: Callable[..., None]
) -> Callable[[str], list[str]]:
    """Return where a word is stored or logged: tables, indexes, the mirror of the journal, log messages."""
    caplog.set_level(logging.DEBUG)

    def find(word: str) -> list[str]:
        path = mirror.mirror_path()
        text = path.read_text() if path and path.exists() else ""
        places = {"mirror": text, "log": caplog.text}
        return stored_anywhere(word) + [name for name, one in places.items() if word in one.lower()]

    return find


# Private text


@pytest.mark.parametrize(
    "block",
    [
        f"<private>{WORD}</private>",
        f"<PRIVATE>\n{WORD}\n</Private>",
        f"<private>a <private>b</private> {WORD}</private>",
        f'<private reason="x">{WORD}',
    ],
)
def test_private_text_is_stored_nowhere(
    agent_session: AgentSession, everywhere: Callable[[str], list[str]], block: str
) -> None:
    prompt = f"Please fix the importer of the ledger. {block}"
    agent_session.ok("prompt:submit", {"prompt": prompt})
    agent_session.ok("prompt:submit", {"prompt": prompt}, at=timezone.now().isoformat())
    agent_session.agent.post("/inject", {"prompt": prompt, "project": "shop", "session_id": "s1"})
    agent_session.tool("Bash", {"command": "make test"}, {"stdout": f"Error: {block}"})
    agent_session.tool("Edit", {"file_path": "a.py", "new_string": f"# Because {block}"}, {})
    agent_session.tool(
        "Edit", {"file_path": "a.py"}, {"lines": [f"<private>{WORD}", WORD, "</private>", "x"]}
    )
    agent_session.commit(FIX)
    agent_session.commit(f"Cut the cache key, because it was stale. {block}")
    agent_session.end()
    says = {"role": "user", "content": f"We decided to deploy on Tuesdays, because of this. {block}"}
    agent_session.agent.post("/extract", {"messages": [says], "project": "shop"})
    assert agent_session.memories("bugfix")
    assert everywhere(WORD) == []


def test_text_around_private_blocks_is_stored(agent_session: AgentSession) -> None:
    agent_session.ok("prompt:submit", {"prompt": f"before <private>{WORD}</private> &lt;private&gt; after"})
    assert Event.objects.get().preview == "before &lt;private&gt; after"


# Ignored files


def ignore(*patterns: str) -> None:
    projects.configure_project("shop", ADMIN, ignored_paths="\n".join(patterns))


@pytest.mark.parametrize(
    ("tool", "given", "response"),
    [
        ("Read", {"file_path": f"/home/ada/shop/vault/{WORD}.txt"}, {"content": WORD}),
        ("Write", {"file_path": f"/home/ada/shop/vault/{WORD}.txt", "content": WORD}, {}),
        ("Edit", {"file_path": f"src/{WORD}.pem", "new_string": WORD}, {}),
        ("Bash", {"command": f"cat vault/{WORD}.txt"}, {"stdout": WORD}),
        ("Bash", {"command": f"cat {WORD}_rsa"}, {"stdout": WORD}),
        ("Bash", {"command": "grep -r password vault"}, {"stdout": WORD}),
        ("Bash", {"command": "cd vault && cat a.txt"}, {"stdout": WORD}),
        ("Bash", {"command": "cat vault*/a.txt"}, {"stdout": WORD}),
        ("Grep", {"pattern": "password", "path": "vault"}, {"content": WORD}),
        ("Grep", {"pattern": "password", "glob": "vault/**"}, {"content": WORD}),
        ("Bash", {"command": "cat 'my box/a.txt'"}, {"stdout": WORD}),
        ("Bash", {"command": "cat my\\ box/a.txt"}, {"stdout": WORD}),
        ("Bash", {"command": "cd 'my box'"}, {"stdout": WORD}),
        ("Bash", {"command": 'cat "vault"/a.txt'}, {"stdout": WORD}),
        ("Bash", {"command": "cat {vault,src}/a"}, {"stdout": WORD}),
        ("Bash", {"command": "cat 'app/(admin)/page.tsx' | head"}, {"stdout": WORD}),
        ("shell", {"command": ["bash", "-lc", "cat vault/a.txt"]}, {"output": WORD}),
        ("shell", {"command": ["cat", "vault/a.txt"]}, {"output": WORD}),
        ("read_many_files", {"paths": ["vault/a.txt"]}, {"content": WORD}),
        ("read_file", {"absolute_path": "/home/ada/shop/vault/a.txt"}, {"content": WORD}),
        ("mcp__fs__move_file", {"source": "vault/a.txt", "destination": "b.txt"}, {"content": WORD}),
        ("mcp__fs__list", {"directory": "vault"}, {"content": WORD}),
        ("mcp__fs__read", {"uri": "file:///home/ada/shop/vault/a.txt"}, {"content": WORD}),
        ("MultiEdit", {"edits": [{"file_path": "vault/a", "new_string": WORD}]}, {}),
    ],
)
def test_event_about_ignored_files_is_not_stored(
    agent_session: AgentSession,
    everywhere: Callable[[str], list[str]],
    tool: str,
    given: Any,
    response: Any,
) -> None:
    ignore("vault/", "*.pem", "*_rsa", "my box/", "app/(admin)/")
    data = {"tool_name": tool, "tool_input": given, "tool_response": response}
    agent_session.ok("tool:post", data, cwd="/home/ada/shop")
    assert not Event.objects.exists()
    assert everywhere(WORD) == []


@pytest.mark.parametrize(
    ("tool", "given", "response"),
    [
        ("Bash", {"command": "git diff"}, {"stdout": f"+++ b/vault/a.txt\n+{WORD}"}),
        ("Grep", {"pattern": "x"}, {"content": f"src/a.py:1:x\nvault/a.txt-12-{WORD}"}),
        ("Grep", {"pattern": "x"}, {"content": f"src/a.py:1:x\nmy box/vault/a.txt:12:{WORD}"}),
        ("exec_command", {"cmd": "cat vault/a.txt"}, {"output": WORD}),
        ("apply_patch", {"input": f"*** Update File: src/a.py\n*** Update File: vault/a.txt\n+{WORD}"}, "ok"),
    ],
)
def test_event_with_other_files_is_stored_without_the_ignored_ones(
    agent_session: AgentSession,
    everywhere: Callable[[str], list[str]],
    tool: str,
    given: Any,
    response: Any,
) -> None:
    ignore("vault/", "my box/")
    event = agent_session.tool(tool, given, response, cwd="/home/ada/shop")
    assert not any("vault" in path for path in event.files)
    assert everywhere(WORD) == []
    assert everywhere("vault/a") == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Look at my box/plan.txt and src/plan.txt.", "Look at [ignored path] and src/plan.txt."),
        ("Put 'my box' into my boxes", "Put '[ignored path]' into my boxes"),
        ("Read secret key.txt.", "Read [ignored path]."),
        ("(see app/(admin)/[id].tsx, src/a,b.py)", "(see [ignored path], src/a,b.py)"),
        ("vault/a,src/b.py", "[ignored path],src/b.py"),
    ],
)
def test_ignored_path_with_a_space_or_bracket_is_removed(text: str, shown: str) -> None:
    patterns = "# my notes\nmy box/\nsecret\\ key.txt\napp/(admin)/\nvault/"
    assert IgnoredPaths(patterns, "shop").redact(text) == shown


@pytest.mark.parametrize("part", ["a", "a/", "a[(,", "my box", "/", ".", "'", "{a,b}"])
def test_hostile_text_takes_linear_time(part: str) -> None:
    ignored = IgnoredPaths("vault/\n*.pem\nmy box/", "shop", ("/home/ada/shop",))

    def run(text: str) -> None:
        ignored.redact(text)
        ignored.filter(observe("Bash", {"command": text}, {"stdout": text}), {"command": text})

    assert cost_ratio(run, repeat(part, 20_000), ordinary_text(20_000), 10) < 20


def test_end_of_a_long_output_is_not_kept_where_files_are_ignored() -> None:
    # The name of the ignored file is in the middle, which was cut.
    output = "a\n" * 20_000 + "==> vault/plan.txt <==\n" + "quincewort\n" * 1500
    seen = observe("Bash", {"command": "tail -n +1 **"}, output)
    assert "quincewort" in seen.output
    kept = IgnoredPaths("vault/", "shop", ("/home/ada/shop",)).filter(seen)
    assert kept is not None
    assert kept.output.startswith("a\na\n")
    assert "quincewort" not in kept.output


def test_ignored_path_in_a_prompt_is_removed(agent_session: AgentSession) -> None:
    ignore("vault/")
    agent_session.ok("prompt:submit", {"prompt": "Look at vault/plan.txt and src/plan.txt."})
    assert Event.objects.get().preview == "Look at [ignored path] and src/plan.txt."
    agent_session.agent.post("/inject", {"prompt": "Look at vault/plan.txt", "project": "shop"})
    assert not any("vault" in row.prompt_preview for row in Injection.objects.all())


@pytest.mark.parametrize(
    ("path", "ignored"),
    [
        ("vault/a", True),
        ("/home/ada/shop/vault/a", True),
        ("deep/vault/a", True),
        ("src/keep.pem", False),
        ("src/drop.pem", True),
        ("build/x", True),
        ("src/build/x", False),
        ("/home/ada/shop/sub/../build/x", True),
        ("C:\\Users\\ada\\shop\\build\\x", True),
        ("/elsewhere/shop/build/x", True),
        ("/home/ada/build/x", False),
    ],
)
def test_patterns_match_like_gitignore(path: str, ignored: bool) -> None:
    found = IgnoredPaths("vault/\n*.pem\n!keep.pem\n/build\n# comment", "shop", ("/home/ada/shop",))
    assert found.matches(path) is ignored


@pytest.mark.parametrize("pattern", ["secrets/", "/config/prod/", "*.pem"])
@pytest.mark.parametrize("root", ["", "/home/ada/shop/"])
def test_beginning_and_end_of_a_long_path_are_matched(pattern: str, root: str) -> None:
    start = pattern.strip("/") if "/" in pattern else "keys"
    path = f"{root}{start}/{'/'.join(['x' * 200] * 5)}/key.pem"
    found = IgnoredPaths(pattern, "shop", ("/home/ada/shop",))
    assert found.matches(path)
    assert not found.matches(path.replace(start, "src").replace(".pem", ".txt"))


@pytest.mark.parametrize("name", ["vault", "deep/vault", "key.pem"])
def test_middle_of_a_long_path_is_matched(name: str) -> None:
    half = "/".join(["x" * 200] * 9)
    found = IgnoredPaths("vault/\n*.pem", "shop", ("/home/ada/shop",))
    assert found.matches(f"{half}/{name}/{half}")
    assert found.matches(f"{'a/' * 700}{name}/{'a/' * 700}b")
    assert not found.matches(f"{half}/src/{half}")


def test_file_with_a_path_that_is_too_long_counts_as_ignored() -> None:
    """A pattern such as ``/src/**/plan.txt`` cannot be matched against parts of a path."""
    path = f"src/{'/'.join(['x' * 200] * 12)}/plan.txt"
    given = {"file_path": path, "content": "the plan"}
    found = IgnoredPaths("/src/**/plan.txt", "shop", ("/home/ada/shop",))
    assert found.filter(observe("Write", given, {}), given) is None


@pytest.mark.parametrize("key", ["profile", "direction", "global", "file", "notes_file"])
def test_long_prose_is_no_ignored_file(key: str) -> None:
    given = {"command": "make", key: "word " * 250}
    seen = observe("Bash", given, {"stdout": "done"})
    assert IgnoredPaths("*.pem", "shop", ("/home/ada/shop",)).filter(seen, given) == seen


@pytest.mark.parametrize("key", ["profile", "direction", "global", "Profile"])
def test_word_under_a_key_that_only_contains_file_is_no_path(key: str) -> None:
    given = {"command": "make", key: "vault"}
    seen = observe("Bash", given, {"stdout": "done"})
    assert IgnoredPaths("vault/", "shop", ("/home/ada/shop",)).filter(seen, given) == seen


@pytest.mark.parametrize(
    "key",
    [
        *TOOLS.path_keys,
        "filePath",
        "source-dir",
        "FILE_PATH",
        "URLPath",
        "paths",
        "workdir",
        "glob",
        "keyfile",
    ],
)
def test_word_under_a_key_of_files_is_a_path(key: str) -> None:
    given = {"command": "make", key: "vault"}
    seen = observe("Bash", given, {"stdout": "done"})
    assert IgnoredPaths("vault/", "shop", ("/home/ada/shop",)).filter(seen, given) is None


def test_long_text_is_no_path_and_the_end_of_a_deep_path_counts() -> None:
    found = IgnoredPaths("*a*a*b\n**/a/**/a/**/x\n*.pem", "shop", ("/home/ada/shop",))
    assert not found.matches("a" * 100_000 + ".pem")
    assert not found.matches("a/" * 10_000 + "y")
    assert found.matches("a/" * 10_000 + "key.pem")


def test_after_the_time_limit_of_a_call_any_path_counts_as_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(step=0.6)
    monkeypatch.setattr("memoryhub.capture.ignored_paths.time.thread_time", lambda: next(clock))
    patterns = "*.pem"
    found = IgnoredPaths(patterns, "shop", ("/home/ada/shop",))
    assert [found.matches(path) for path in ("a.py", "b.py", "c.py")] == [False, False, True]
    assert found.redact("Read d.py again") == "Read [ignored path] again"
    assert not IgnoredPaths(patterns, "shop", ("/home/ada/shop",)).matches("c.py")


def test_path_below_a_subfolder_is_matched_from_the_project(agent_session: AgentSession) -> None:
    ignore("config/keys.yaml")
    agent_session.ok("session:start", {"source": "startup"}, cwd="/home/ada/shop")
    data = {"tool_name": "Read", "tool_input": {"file_path": "keys.yaml"}, "tool_response": WORD}
    agent_session.ok("tool:post", data, cwd="/home/ada/shop/config")
    assert Event.objects.filter(event="tool:post").count() == 0
