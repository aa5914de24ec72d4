"""The repository that hooks name, for every kind of working folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from memoryhub.core.agent_hooks import (
    session_start_command,
)
from tests.plugin.sender import (
    PROMPT,
    FakeHub,
    compaction,
    said,
    send,
    write_transcript,
)
from tests.plugin.test_spool import recover


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
        subfolder = "packages/api" if folder.name == "api" else ""
        assert sent_repository(tmp_path, hub, folder) == {**named, "subfolder": subfolder}
    clone = {"name": "clone", "root": root, "subfolder": ""}
    assert sent_repository(tmp_path, hub, tmp_path / "clone") == clone


@pytest.mark.parametrize(
    ("name", "sent"),
    [("Größe & Maß", "Größe & Maß"), ('a"b', None), ("a\\", None), ("a\nb", None), ("link", None)],
)
def test_subfolder_is_sent_if_the_working_folder_ends_in_it(
    tmp_path: Path, hub: FakeHub, repository: Path, name: str, sent: str | None
) -> None:
    folder = repository / name
    folder.symlink_to("packages/api") if name == "link" else folder.mkdir()
    assert (sent_repository(tmp_path, hub, folder) or {}).get("subfolder") == sent


@pytest.mark.parametrize("name", ["shop/link", "link"])
def test_link_to_a_subfolder_names_the_repository(
    tmp_path: Path, hub: FakeHub, repository: Path, name: str
) -> None:
    (tmp_path / name).symlink_to(repository / "packages" / "api")
    root = git(repository, "rev-list", "--max-parents=0", "HEAD")
    assert sent_repository(tmp_path, hub, tmp_path / name) == {"name": "shop", "root": root}


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("Größe", "Größe"),
        ("店", "店"),
        ("R&D (old)", "R&D (old)"),
        ('a"b', None),
        ("a\\", None),
        ("a\nb", None),
    ],
)
def test_unusual_name_is_sent_if_it_needs_no_escape(
    tmp_path: Path, hub: FakeHub, name: str, sent: str | None
) -> None:
    git(tmp_path, "init", "-q", name)
    folder = tmp_path / name / "src"
    folder.mkdir()
    assert (sent_repository(tmp_path, hub, folder) or {}).get("name") == sent


def test_folders_that_the_shell_searches_are_ignored(tmp_path: Path, hub: FakeHub, repository: Path) -> None:
    git(tmp_path, "init", "-q", "home")
    assert sent_repository(tmp_path, hub, repository, CDPATH=str(tmp_path / "home"))["name"] == "shop"


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
    for program in ("sh", "awk", "sed", "cat", "head", "curl", "mktemp", "od", "date", "mkdir", "rm", "grep"):
        (tmp_path / program).symlink_to(shutil.which(program) or "")
    assert sent_repository(tmp_path, hub, repository, PATH=str(tmp_path)) is None


def test_repository_without_commits_or_with_some_of_them_has_no_root(
    tmp_path: Path, hub: FakeHub, repository: Path
) -> None:
    git(tmp_path, "init", "-q", "new")
    assert sent_repository(tmp_path, hub, tmp_path / "new") == {"name": "new", "root": "", "subfolder": ""}
    git(tmp_path, "clone", "-q", "--depth=1", repository.as_uri(), "shallow")
    assert sent_repository(tmp_path, hub, tmp_path / "shallow")["root"] == ""


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
    named = {"remote": sent, "root": root, "subfolder": "packages/"}
    assert body == {**PROMPT, "repository": named}
