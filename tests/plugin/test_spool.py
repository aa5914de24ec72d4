"""Events that the hub did not take wait in a spool, and are sent later."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.plugin.sender import (
    PROMPT,
    SENDER,
    TOKEN,
    FakeHub,
    send,
)

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
    hub.answer, hub.hangs_up = None, True
    send(tmp_path, hub.url, PROMPT, MEMORYHUB_SPOOL=str(tmp_path / "spool"))
    assert spooled(tmp_path / "spool") == []
    first, second = hub.queries
    assert second == {**first, "at": second["at"], "late": "true"}


def test_spool_is_private_and_has_no_plain_text(tmp_path: Path, hub: FakeHub, spool: Path) -> None:
    [file] = keep(tmp_path, hub, "password hunter2-hunter2")
    assert b"hunter2" not in file.read_bytes()
    assert [path.stat().st_mode & 0o777 for path in (spool, file.parent, file)] == [0o700, 0o700, 0o600]
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("status", [401, 403, 413, 422])
def test_event_that_the_hub_refuses_permanently_is_dropped(tmp_path: Path, hub: FakeHub, status: int) -> None:
    hub.status = status
    send(tmp_path, hub.url, PROMPT, MEMORYHUB_SPOOL=str(tmp_path / "spool"))
    assert not list(tmp_path.glob("spool/*/*"))


@pytest.mark.parametrize("status", [302, 408, 429, 500])
def test_event_that_the_hub_could_not_take_waits(tmp_path: Path, hub: FakeHub, status: int) -> None:
    hub.status = status
    send(tmp_path, hub.url, PROMPT, MEMORYHUB_SPOOL=str(tmp_path / "spool"))
    assert len(spooled(tmp_path / "spool")) == 1


def test_page_of_a_network_that_wants_a_login_is_not_printed_and_the_event_waits(
    tmp_path: Path, hub: FakeHub, spool: Path
) -> None:
    hub.answer = "<html>Sign in to this network</html>"
    assert send(tmp_path, hub.url, PROMPT, MEMORYHUB_SPOOL=str(spool)) == ""
    assert len(spooled(spool)) == 1


def test_event_is_sent_if_no_file_can_be_written(tmp_path: Path, hub: FakeHub) -> None:
    (tmp_path / "file").touch()
    variables = {"CLAUDE_PLUGIN_DATA": str(tmp_path / "file" / "data"), "HOME": str(tmp_path / "file")}
    hub.answer = '{"systemMessage":"x"}'
    assert send(tmp_path, hub.url, PROMPT, **variables) == '{"systemMessage":"x"}\n'
    assert send(tmp_path, ABSENT, PROMPT, **variables) == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_killed_sender_leaves_no_plain_text(tmp_path: Path, hub: FakeHub, spool: Path) -> None:
    hub.answer = None
    variables = {"CLAUDE_PLUGIN_DATA": str(tmp_path / "data"), "MEMORYHUB_TOKEN": TOKEN}
    variables |= {"MEMORYHUB_URL": hub.url, "MEMORYHUB_SPOOL": str(spool), "MEMORYHUB_HOOK_TIMEOUT": "30"}
    with subprocess.Popen(
        ["sh", str(SENDER), "event"],
        stdin=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], **variables},
        text=True,
    ) as sender:
        assert sender.stdin
        sender.stdin.write(json.dumps({**PROMPT, "prompt": "hunter2"}))
        sender.stdin.close()
        hub.arrived.acquire()
        sender.kill()
    assert not any("hunter2" in path.read_text("latin-1") for path in tmp_path.rglob("*") if path.is_file())


def test_spooled_event_that_the_hub_refuses_is_deleted(tmp_path: Path, hub: FakeHub) -> None:
    keep(tmp_path, hub, "refused", "kept")
    hub.late_answers = [(422, "{}"), (200, "{}")]
    assert recover(tmp_path, hub) == ["now", "refused", "kept"]
    assert spooled(tmp_path / "spool") == []


def test_sending_stops_at_the_first_event_that_the_hub_does_not_take(tmp_path: Path, hub: FakeHub) -> None:
    files = keep(tmp_path, hub, "first", "second", "third")
    hub.late_answers = [(200, "{}"), (503, "{}")]
    assert recover(tmp_path, hub) == ["now", "first", "second"]
    assert spooled(tmp_path / "spool") == files[1:]


@pytest.mark.parametrize("name", ["PostToolUse", "PostToolUseFailure", "PreCompact", "SessionEnd"])
def test_report_waits_for_the_events_before_it(tmp_path: Path, hub: FakeHub, name: str) -> None:
    keep(tmp_path, hub, "first", "second")
    variables = {"MEMORYHUB_SPOOL": str(tmp_path / "spool")}
    send(tmp_path, hub.url, {**PROMPT, "hook_event_name": name, "prompt": "last"}, **variables)
    assert [body["prompt"] for _, _, body in hub.requests] == ["first", "second", "last"]
    assert spooled(tmp_path / "spool") == []


def test_report_is_sent_at_once_if_it_cannot_be_stored(tmp_path: Path, hub: FakeHub) -> None:
    keep(tmp_path, hub, "first")
    broken = tmp_path / "bin" / "openssl"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o700)
    variables = {"MEMORYHUB_SPOOL": str(tmp_path / "spool"), "PATH": f"{broken.parent}:{os.environ['PATH']}"}
    send(tmp_path, hub.url, {**PROMPT, "hook_event_name": "SessionEnd", "prompt": "last"}, **variables)
    assert [body["prompt"] for _, _, body in hub.requests] == ["last"]


@pytest.mark.parametrize("status", [200, 302, 502])
def test_spooled_event_waits_if_another_server_answers(tmp_path: Path, hub: FakeHub, status: int) -> None:
    files = keep(tmp_path, hub, "first", "second")
    hub.late_answers = [(status, "<html>Sign in to this network</html>")]
    assert recover(tmp_path, hub) == ["now", "first"]
    assert spooled(tmp_path / "spool") == files


@pytest.mark.parametrize("status", [403, 404])
def test_event_that_a_proxy_refuses_waits_and_does_not_block_the_others(
    tmp_path: Path, hub: FakeHub, status: int
) -> None:
    files = keep(tmp_path, hub, "first", "second")
    hub.late_answers = [(status, "<html>Blocked</html>")]
    assert recover(tmp_path, hub) == ["now", "first", "second"]
    assert spooled(tmp_path / "spool") == files[:1]


def test_order_does_not_change_if_the_clock_is_set_back(tmp_path: Path, hub: FakeHub) -> None:
    [file] = keep(tmp_path, hub, "first")
    file.rename(file.with_name(f"2090-01-01T00-00-00Z{file.name[20:]}"))
    keep(tmp_path, hub, "second")
    assert recover(tmp_path, hub) == ["now", "first", "second"]


def test_question_before_a_tool_is_not_spooled(tmp_path: Path, hub: FakeHub, spool: Path) -> None:
    send(tmp_path, ABSENT, {**PROMPT, "hook_event_name": "PreToolUse"}, MEMORYHUB_SPOOL=str(spool))
    assert not spool.exists()


def test_broken_files_are_deleted_and_do_not_block_the_others(tmp_path: Path, hub: FakeHub) -> None:
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
