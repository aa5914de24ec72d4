"""The plugin's files: their shape, and what the hook sender sends, prints and leaves out."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from memoryhub.core.claude_code import (
    ENVIRONMENT_VARIABLE,
    HOOK_PATH,
    session_start_command,
    status_line_command,
)

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "plugin"
SENDER = PLUGIN / "hooks" / "send.sh"
TOKEN = "mh_test"
PROMPT = {
    "hook_event_name": "UserPromptSubmit",
    "session_id": "s1",
    "cwd": "/home/ada/shop",
    "prompt": 'a "b" \\ c',
}


class FakeHub:
    """Records requests. ``answer`` None: never answers."""

    def __init__(self) -> None:
        self.answer: str | None = "{}"
        self.status = 200
        self.late_statuses: list[int] = []  # of spooled events, in turn
        self.requests: list[tuple[str, str, Any]] = []
        self.queries: list[dict[str, str]] = []
        self.waiting: list[str | None] = []
        self.never = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:
                body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
                path, _, query = handler.path.partition("?")
                self.requests.append((path, handler.headers["Authorization"], body))
                self.queries.append(dict(parse_qsl(query)))
                self.waiting.append(handler.headers["X-Memoryhub-Waiting"])
                if self.answer is None:
                    self.never.wait(60)
                    return
                is_next = "late" in self.queries[-1] and self.late_statuses
                handler.send_response(self.late_statuses.pop(0) if is_next else self.status)
                handler.end_headers()
                handler.wfile.write(self.answer.encode())

            def log_message(self, *arguments: Any) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    fake = FakeHub()
    thread = threading.Thread(target=fake.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield fake
    fake.never.set()
    fake.server.shutdown()
    fake.server.server_close()


def send(tmp_path: Path, url: str, event: dict[str, Any], mode: str = "event", **more: str) -> str:
    """Run the sender as Claude Code does; return what it prints. It must succeed without an error text.

    Waits until the processes that it leaves in the background have closed the pipe that they inherit.
    """
    variables = {"CLAUDE_PLUGIN_DATA": str(tmp_path / "data"), "CLAUDE_PLUGIN_OPTION_TOKEN": TOKEN}
    variables |= {"CLAUDE_PLUGIN_OPTION_URL": url, "MEMORYHUB_HOOK_TIMEOUT": "30", **more}
    background, inherited = os.pipe()
    done = subprocess.run(
        ["sh", str(SENDER), mode],
        pass_fds=[inherited],
        input=json.dumps(event),
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    os.close(inherited)
    with os.fdopen(background) as pipe:
        pipe.read()
    return done.stdout


def read(name: str) -> Any:
    return json.loads((ROOT / name).read_text())


def write_transcript(path: Path, *lines: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def said(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"parentUuid": None, "type": role, "message": {"role": role, "content": text}, **more}


def compaction(transcript: Path) -> dict[str, Any]:
    common = {"session_id": "s1", "cwd": "/home/ada/shop", "trigger": "auto"}
    return {"hook_event_name": "PreCompact", "transcript_path": str(transcript), **common}


# --- Files --------------------------------------------------------------------------------------------------


def test_marketplace_offers_the_plugin() -> None:
    [entry] = read(".claude-plugin/marketplace.json")["plugins"]
    manifest = read("plugin/.claude-plugin/plugin.json")
    assert (ROOT / entry["source"]).resolve() == PLUGIN
    assert entry["name"] == manifest["name"] == "memoryhub"


def test_plugin_asks_for_address_and_token() -> None:
    asked = read("plugin/.claude-plugin/plugin.json")["userConfig"]
    assert list(asked) == ["url", "token"]
    assert asked["token"]["sensitive"] is True


def test_plugin_reports_every_hook_that_the_hub_uses_and_no_stop() -> None:
    hooks = read("plugin/hooks/hooks.json")["hooks"]
    used = [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PreCompact",
        "SessionEnd",
    ]
    assert list(hooks) == used
    commands = [hook["command"] for [entry] in hooks.values() for hook in entry["hooks"]]
    event = 'sh "${CLAUDE_PLUGIN_ROOT}/hooks/send.sh" event'
    assert commands.count(event) == len(used)
    assert [one for one in commands if one != event] == [event.replace(" event", " transcript")]


def test_transcript_is_sent_in_the_background() -> None:
    [entry] = read("plugin/hooks/hooks.json")["hooks"]["PreCompact"]
    assert [hook.get("async", False) for hook in entry["hooks"]] == [False, True]


def test_mcp_server_takes_address_and_token_from_the_prompts_or_the_environment() -> None:
    server = read("plugin/.mcp.json")["mcpServers"]["memoryhub"]
    assert server["url"] == "${MEMORYHUB_URL:-${user_config.url}}/mcp/letsgo"
    bearer = f"Bearer ${{{ENVIRONMENT_VARIABLE}:-${{user_config.token}}}}"
    assert server["headers"] == {"Authorization": bearer}


@pytest.mark.parametrize(("command", "tool"), [("search", "search_memories"), ("remember", "store_memory")])
def test_command_calls_its_tool(command: str, tool: str) -> None:
    text = (PLUGIN / "commands" / f"{command}.md").read_text()
    header = text.split("---")[1]
    assert re.search(r"^description: \S", header, re.M)
    assert f"allowed-tools: mcp__plugin_memoryhub_memoryhub__{tool}\n" in header
    assert f"`{tool}`" in text
    assert "$ARGUMENTS" in text


# --- Events -------------------------------------------------------------------------------------------------


def test_event_is_posted_and_its_answer_printed(tmp_path: Path, hub: FakeHub) -> None:
    hub.answer = '{"hookSpecificOutput": {"additionalContext": "a memory"}}'
    assert json.loads(send(tmp_path, hub.url + "/", PROMPT)) == json.loads(hub.answer)
    assert hub.requests == [(HOOK_PATH, f"Bearer {TOKEN}", PROMPT)]
    assert list((tmp_path / "data").iterdir()) == []


def git(folder: Path, *arguments: str) -> str:
    """Run git without the settings of this machine."""
    people = [f"GIT_{role}_{part}" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")]
    who = dict.fromkeys(people, "ada@example.org")
    variables = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        **who,
    }
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, env=variables, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a remote, a subfolder, a worktree and a clone next to it."""
    made = tmp_path / "shop"
    (made / "packages" / "api").mkdir(parents=True)
    git(made, "init", "-q")
    git(made, "commit", "-q", "--allow-empty", "-m", "first")
    git(made, "commit", "-q", "--allow-empty", "-m", "second")
    git(made, "remote", "add", "origin", "https://ada:s3cr@t@example.org/Owner/Shop.git?token=s3cret")
    git(made, "worktree", "add", "-q", str(tmp_path / "shop-feature"))
    git(tmp_path, "clone", "-q", "shop", "clone")
    return made


def sent_repository(tmp_path: Path, hub: FakeHub, folder: Path, **more: str) -> Any:
    send(tmp_path, hub.url, {**PROMPT, "tool_input": {"cwd": "/"}, "cwd": str(folder)}, **more)
    body = hub.requests.pop()[2]
    assert body["cwd"] == str(folder)
    return body.get("repository")


def test_folders_of_a_repository_name_the_same_one(tmp_path: Path, hub: FakeHub, repository: Path) -> None:
    git(repository, "remote", "set-url", "origin", "git@example.org:Owner/Shop.git")
    root = git(repository, "rev-list", "--max-parents=0", "HEAD")
    named = {"name": "shop", "remote": "example.org:Owner/Shop.git", "root": root}
    for folder in (repository, repository / "packages" / "api", tmp_path / "shop-feature"):
        assert sent_repository(tmp_path, hub, folder) == named
    assert sent_repository(tmp_path, hub, tmp_path / "clone") == {"name": "clone", "root": root}


@pytest.mark.parametrize(
    ("address", "sent"),
    [
        ("https://ada:s3cr@t@example.org/o/a.git", "https://example.org/o/a.git"),
        ("https://s3cret@example.org/o/a", "https://example.org/o/a"),
        ("https://ada:s3/cret@example.org/o/a", None),
        ("https://example.org/o/a?token=s3cret", None),
        ("ssh://git@example.org:2222/o/a", "ssh://example.org:2222/o/a"),
        ("/home/ada/s3cret", None),
        ('x", "s3cret": "', None),
        ("https://example.org/" + "s3cret" * 200, None),
    ],
)
def test_credentials_of_a_remote_are_not_sent(
    tmp_path: Path, hub: FakeHub, repository: Path, address: str, sent: str | None
) -> None:
    git(repository, "config", "remote.origin.url", address)
    assert sent_repository(tmp_path, hub, repository).get("remote") == sent


def test_folder_without_a_repository_names_none(tmp_path: Path, hub: FakeHub, repository: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert sent_repository(tmp_path, hub, tmp_path / "notes") is None
    assert sent_repository(tmp_path, hub, tmp_path / "gone") is None
    for program in ("sh", "awk", "sed", "cat", "curl", "mktemp", "od", "date", "mkdir", "rm", "grep"):
        (tmp_path / program).symlink_to(shutil.which(program) or "")
    assert sent_repository(tmp_path, hub, repository, PATH=str(tmp_path)) is None


def test_repository_without_commits_or_with_some_of_them_has_no_root(
    tmp_path: Path, hub: FakeHub, repository: Path
) -> None:
    git(tmp_path, "init", "-q", "new")
    assert sent_repository(tmp_path, hub, tmp_path / "new") == {"name": "new", "root": ""}
    git(tmp_path, "clone", "-q", "--depth=1", repository.as_uri(), "shallow")
    assert sent_repository(tmp_path, hub, tmp_path / "shallow") == {"name": "shallow", "root": ""}


def test_spooled_event_names_the_repository(tmp_path: Path, hub: FakeHub, repository: Path) -> None:
    hub.status = 503
    sent_repository(tmp_path, hub, repository, MEMORYHUB_SPOOL=str(tmp_path / "spool"))
    hub.status = 200
    recover(tmp_path, hub)
    assert hub.requests[1][2]["repository"]["name"] == "shop"


def test_transcript_names_the_repository(tmp_path: Path, hub: FakeHub, repository: Path) -> None:
    transcript = tmp_path / "t.jsonl"
    write_transcript(transcript, said("Use one table"))
    send(tmp_path, hub.url, {**compaction(transcript), "cwd": str(repository)}, "transcript")
    [(_, _, body)] = hub.requests
    assert body["repository"]["name"] == "shop"
    assert len(body["messages"]) == 1


@pytest.mark.parametrize(
    ("address", "sent"),
    [
        ("https://ada:s3cr@t@example.org/o/a.git", "https://example.org/o/a.git"),
        ("git@example.org:o/a", "example.org:o/a"),
        ("https://ada:s3/cret@example.org/o/a", ""),
        ('x|s3cret", "y": "', ""),
        ("/home/ada/s3cret", ""),
    ],
)
def test_settings_without_the_plugin_name_the_repository(
    hub: FakeHub, repository: Path, address: str, sent: str
) -> None:
    git(repository, "config", "remote.origin.url", address)
    subprocess.run(
        ["sh", "-c", session_start_command(hub.url)],
        cwd=repository / "packages",
        input=json.dumps(PROMPT),
        text=True,
        check=True,
    )
    [(_, _, body)] = hub.requests
    root = git(repository, "rev-list", "--max-parents=0", "HEAD")
    assert body == {**PROMPT, "repository": {"remote": sent, "root": root}}


def test_environment_overrides_the_prompts(tmp_path: Path, hub: FakeHub) -> None:
    send(tmp_path, "http://127.0.0.1:9", PROMPT, MEMORYHUB_URL=hub.url, MEMORYHUB_TOKEN="mh_other")
    assert [token for _, token, _ in hub.requests] == ["Bearer mh_other"]


def test_large_event_is_posted_whole(tmp_path: Path, hub: FakeHub) -> None:
    event = {**PROMPT, "prompt": "word\n" * 150_000}
    send(tmp_path, hub.url, event)
    assert hub.requests[0][2] == event


def test_empty_answer_prints_nothing(tmp_path: Path, hub: FakeHub) -> None:
    assert send(tmp_path, hub.url, PROMPT) == ""


def test_refused_event_prints_nothing(tmp_path: Path, hub: FakeHub) -> None:
    hub.status, hub.answer = 401, '{"detail": "no token"}'
    assert send(tmp_path, hub.url, PROMPT) == ""


def test_sender_gives_up_on_a_hub_that_does_not_answer(tmp_path: Path, hub: FakeHub) -> None:
    hub.answer = None
    assert send(tmp_path, hub.url, PROMPT, MEMORYHUB_HOOK_TIMEOUT="") == ""


def test_sender_waits_less_than_300_milliseconds() -> None:
    [seconds] = re.findall(r"MEMORYHUB_HOOK_TIMEOUT:-([0-9.]+)\}", SENDER.read_text())
    assert float(seconds) < 0.3


def test_absent_hub_prints_nothing(tmp_path: Path) -> None:
    assert send(tmp_path, "http://127.0.0.1:9", PROMPT) == ""


def test_nothing_is_sent_without_a_token(tmp_path: Path, hub: FakeHub) -> None:
    assert send(tmp_path, hub.url, PROMPT, CLAUDE_PLUGIN_OPTION_TOKEN="") == ""
    assert hub.requests == []


# --- Spool --------------------------------------------------------------------------------------------------

ABSENT = "http://127.0.0.1:9"


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def spooled(spool: Path) -> list[Path]:
    """Return the events in the spool."""
    return sorted(spool.glob("*/20*"))


def keep(tmp_path: Path, hub: FakeHub, *prompts: str, **more: str) -> list[Path]:
    """Send prompts that a hub without room refuses for now; return the files that wait."""
    was, hub.status = hub.status, 503
    variables = {"MEMORYHUB_SPOOL": str(tmp_path / "spool"), **more}
    for prompt in prompts:
        assert send(tmp_path, hub.url, {**PROMPT, "prompt": prompt}, **variables) == ""
    hub.status = was
    hub.requests.clear()
    hub.queries.clear()
    hub.waiting.clear()
    return spooled(tmp_path / "spool")


def recover(tmp_path: Path, hub: FakeHub) -> list[str]:
    """Send one more prompt; return the prompts that the hub got."""
    send(tmp_path, hub.url, {**PROMPT, "prompt": "now"}, MEMORYHUB_SPOOL=str(tmp_path / "spool"))
    return [body["prompt"] for _, _, body in hub.requests]


def test_spooled_events_are_sent_in_order_with_their_ids_and_times(tmp_path: Path, hub: FakeHub) -> None:
    files = keep(tmp_path, hub, "first", "second", "third")
    assert recover(tmp_path, hub) == ["now", "first", "second", "third"]
    assert spooled(tmp_path / "spool") == []
    assert hub.waiting == ["3", "2", "1", "0"]
    for file, query in zip(files, hub.queries[1:], strict=True):
        at = f"{file.name[:10]}T{file.name[11:20].replace('-', ':')}"
        assert query == {"event_id": file.name[-16:], "at": at, "late": "true"}


def test_event_is_sent_again_with_the_id_of_its_first_delivery(tmp_path: Path, hub: FakeHub) -> None:
    hub.answer = None
    send(tmp_path, hub.url, PROMPT, MEMORYHUB_HOOK_TIMEOUT="", MEMORYHUB_SPOOL=str(tmp_path / "spool"))
    [file] = spooled(tmp_path / "spool")
    assert hub.queries == [{"event_id": file.name[-16:]}]


def test_spool_is_private_and_has_no_plain_text(tmp_path: Path, hub: FakeHub, spool: Path) -> None:
    [file] = keep(tmp_path, hub, "password hunter2-hunter2")
    assert b"hunter2" not in file.read_bytes()
    assert [path.stat().st_mode & 0o777 for path in (spool, file.parent, file)] == [0o700, 0o700, 0o600]
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("status", [401, 403, 413, 422])
def test_event_that_the_hub_refuses_for_good_is_dropped(tmp_path: Path, hub: FakeHub, status: int) -> None:
    hub.status = status
    send(tmp_path, hub.url, PROMPT, MEMORYHUB_SPOOL=str(tmp_path / "spool"))
    assert not list(tmp_path.glob("spool/*/*"))


@pytest.mark.parametrize("status", [302, 408, 429, 500])
def test_event_that_the_hub_could_not_take_waits(tmp_path: Path, hub: FakeHub, status: int) -> None:
    hub.status = status
    send(tmp_path, hub.url, PROMPT, MEMORYHUB_SPOOL=str(tmp_path / "spool"))
    assert len(spooled(tmp_path / "spool")) == 1


def test_spooled_event_that_the_hub_refuses_is_deleted(tmp_path: Path, hub: FakeHub) -> None:
    keep(tmp_path, hub, "refused", "kept")
    hub.late_statuses = [422, 200]
    assert recover(tmp_path, hub) == ["now", "refused", "kept"]
    assert spooled(tmp_path / "spool") == []


def test_sending_stops_at_the_first_event_that_the_hub_does_not_take(tmp_path: Path, hub: FakeHub) -> None:
    files = keep(tmp_path, hub, "first", "second", "third")
    hub.late_statuses = [200, 503]
    assert recover(tmp_path, hub) == ["now", "first", "second"]
    assert spooled(tmp_path / "spool") == files[1:]


def test_question_before_a_tool_is_not_spooled(tmp_path: Path, hub: FakeHub, spool: Path) -> None:
    send(tmp_path, ABSENT, {**PROMPT, "hook_event_name": "PreToolUse"}, MEMORYHUB_SPOOL=str(spool))
    assert not spool.exists()


def test_broken_files_are_deleted_and_do_not_hold_up_the_rest(tmp_path: Path, hub: FakeHub) -> None:
    first, second, _ = keep(tmp_path, hub, "broken", "cut", "whole")
    first.write_bytes(b"\x00\xff nonsense")
    second.write_bytes(second.read_bytes()[:40])
    second.with_name("2026-01-01T00-00-00Z-x&late=false-0000000000000000").touch()
    assert recover(tmp_path, hub) == ["now", "whole"]
    assert spooled(tmp_path / "spool") == []


def test_events_of_another_token_wait_for_it(tmp_path: Path, hub: FakeHub) -> None:
    files = keep(tmp_path, hub, "theirs", MEMORYHUB_TOKEN="mh_other")
    assert recover(tmp_path, hub) == ["now"]
    assert spooled(tmp_path / "spool") == files


def test_full_spool_loses_its_oldest_events(tmp_path: Path, hub: FakeHub) -> None:
    [file] = keep(tmp_path, hub, "first")
    for number in (1, 2):
        old = file.with_name(f"2026-01-0{number}T00-00-00Z-000001-0000000000000000")
        old.write_bytes(bytes(6 * 2**20))
    names = [path.name[:10] for path in keep(tmp_path, hub, "second")]
    assert names == ["2026-01-02", file.name[:10], file.name[:10]]


def test_old_events_are_deleted_and_other_files_are_not(tmp_path: Path, hub: FakeHub) -> None:
    [file] = keep(tmp_path, hub, "old")
    other = file.with_name("2026-notes")
    other.touch()
    for path in (file, other):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    assert recover(tmp_path, hub) == ["now"]
    assert (file.exists(), other.exists()) == (False, True)


def test_one_sender_at_a_time_empties_the_spool(tmp_path: Path, hub: FakeHub) -> None:
    [file] = keep(tmp_path, hub, "first")
    lock = file.parent / "lock"
    lock.mkdir()
    assert recover(tmp_path, hub) == ["now"]
    os.utime(lock, (1_600_000_000, 1_600_000_000))  # its sender was killed
    assert recover(tmp_path, hub) == ["now", "now", "first"]


def test_two_senders_at_once_keep_both_events(tmp_path: Path, hub: FakeHub) -> None:
    hub.status = 503
    variables = {"MEMORYHUB_SPOOL": str(tmp_path / "spool")}
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: send(tmp_path, hub.url, PROMPT, **variables), range(2)))
    assert len(spooled(tmp_path / "spool")) == 2


def test_spool_is_in_the_home_folder_and_nowhere_without_one(tmp_path: Path) -> None:
    send(tmp_path, ABSENT, PROMPT)
    send(tmp_path, ABSENT, PROMPT, MEMORYHUB_SPOOL="relative")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    send(tmp_path, ABSENT, PROMPT, HOME=str(tmp_path))
    assert len(spooled(tmp_path / ".local/state/memoryhub/spool")) == 1


def test_without_openssl_nothing_is_kept(tmp_path: Path, spool: Path) -> None:
    broken = tmp_path / "bin" / "openssl"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o700)
    path = f"{broken.parent}:{os.environ['PATH']}"
    send(tmp_path, ABSENT, PROMPT, MEMORYHUB_SPOOL=str(spool), PATH=path)
    assert spooled(spool) == []


# --- Status line --------------------------------------------------------------------------------------------

STATUS = {"hook_event_name": "Status", "session_id": "s1", "cwd": "/home/ada/shop"}


def status_line(url: str, **variables: str) -> str:
    done = subprocess.run(
        ["sh", str(PLUGIN / "statusline.sh")],
        input=json.dumps(STATUS),
        env={"PATH": os.environ["PATH"], "MEMORYHUB_URL": url, "MEMORYHUB_TOKEN": TOKEN, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_status_line_is_that_of_the_hub(hub: FakeHub) -> None:
    hub.answer = '{"line":"memoryhub: 3 memories shown, 2 kept"}'
    assert status_line(hub.url).strip() == "memoryhub: 3 memories shown, 2 kept"
    assert hub.requests == [(f"{HOOK_PATH}/status", f"Bearer {TOKEN}", STATUS)]


def test_status_line_is_empty_without_an_answer_in_time(hub: FakeHub) -> None:
    hub.answer = None
    assert status_line(hub.url) == ""
    assert status_line("http://127.0.0.1:9") == ""
    assert status_line(hub.url, MEMORYHUB_TOKEN="") == ""


def test_status_line_of_the_settings_prints_the_same(hub: FakeHub) -> None:
    hub.answer = '{"line":"memoryhub: off"}'
    done = subprocess.run(
        ["sh", "-c", status_line_command(hub.url)],
        input=json.dumps(STATUS),
        env={"PATH": os.environ["PATH"], "MEMORYHUB_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("memoryhub: off", "")
    assert hub.requests == [(f"{HOOK_PATH}/status", f"Bearer {TOKEN}", STATUS)]


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_command_of_the_hub_says_what_to_do_without_an_answer(command: str) -> None:
    text = (PLUGIN / "commands" / f"{command}.md").read_text()
    assert re.search(r"^description: \S", text.split("---")[1], re.M)
    assert f"`memoryhub {command} PROJECT" in text


def test_rating_command_says_what_to_do_without_an_answer() -> None:
    text = (PLUGIN / "commands" / "useful.md").read_text()
    assert re.search(r"^description: \S", text.split("---")[1], re.M)
    assert "“Not useful”" in text


# --- Transcripts --------------------------------------------------------------------------------------------


def test_transcript_is_sent_without_tool_results_and_other_lines(tmp_path: Path, hub: FakeHub) -> None:
    transcript = tmp_path / "s1.jsonl"
    result = {"type": "tool_result", "content": "much output"}
    spoken = [said("We use Postgres."), said("Noted.", "assistant")]
    tool = {"type": "user", "message": {"role": "user", "content": [result]}}
    write_transcript(transcript, spoken[0], {"type": "queue-operation"}, tool, spoken[1])
    assert send(tmp_path, hub.url, compaction(transcript), "transcript") == ""
    body = {"session_id": "s1", "cwd": "/home/ada/shop", "messages": spoken}
    assert hub.requests == [("/api/v1/extract", f"Bearer {TOKEN}", body)]


def test_second_compaction_sends_the_new_part_alone(tmp_path: Path, hub: FakeHub) -> None:
    transcript = tmp_path / "s1.jsonl"
    for text in ("first", "second"):
        write_transcript(transcript, said(text))
        send(tmp_path, hub.url, compaction(transcript), "transcript")
    send(tmp_path, hub.url, compaction(transcript), "transcript")
    assert [body["messages"] for _, _, body in hub.requests] == [[said("first")], [said("second")]]


def test_refused_part_is_sent_again(tmp_path: Path, hub: FakeHub) -> None:
    transcript = tmp_path / "s1.jsonl"
    write_transcript(transcript, said("first"))
    for hub.status in (503, 200):
        send(tmp_path, hub.url, compaction(transcript), "transcript")
    assert [body["messages"] for _, _, body in hub.requests] == [[said("first")]] * 2


def test_transcript_is_cut_to_its_newest_mebibyte(tmp_path: Path, hub: FakeHub) -> None:
    transcript = tmp_path / "s1.jsonl"
    write_transcript(transcript, *(said(f"{number} " + "ü" * 5000) for number in range(80)))
    send(tmp_path, hub.url, compaction(transcript), "transcript")
    [(_, _, body)] = hub.requests
    numbers = [int(message["message"]["content"].split()[0]) for message in body["messages"]]
    assert numbers == list(range(numbers[0], 80))
    assert 900_000 < len(json.dumps(body, separators=(",", ":"))) <= 2**20


def test_missing_transcript_sends_nothing(tmp_path: Path, hub: FakeHub) -> None:
    assert send(tmp_path, hub.url, compaction(tmp_path / "absent"), "transcript") == ""
    assert hub.requests == []
