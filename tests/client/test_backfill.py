"""``memoryhub backfill``: past sessions of Claude Code and Codex, and commits."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memoryhub.access.policy import system_actor
from memoryhub.capture import projects
from memoryhub.client import Client, backfill, transcripts
from memoryhub.client.backfill import RunFile
from memoryhub.client.calls import ConnectionFailed
from memoryhub.client.config_files import state_folder
from memoryhub.client.transcripts import ReadReport, find_transcripts
from memoryhub.models import Event, JournalEntry, Memory, ProjectIdentity, Session

RECORDED = Path(__file__).parents[2] / "fixtures" / "transcripts"
CLAUDE_ID = "5b1f0c52-7a3e-4d0b-9f5e-2c4f3a8d1e01"
TOOLS = ["Bash", "Edit", "Bash", "AskUserQuestion", "Bash", "Grep"]
LONG_AGO = datetime(2026, 1, 13, tzinfo=UTC).timestamp()
Run = Callable[..., int]


def age(path: Path) -> Path:
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


@pytest.fixture
def claude(home: Path) -> Path:
    """A transcript of Claude Code where it stores them."""
    folder = home / ".claude" / "projects" / "-home-ada-till"
    folder.mkdir(parents=True)
    return age(Path(shutil.copy(RECORDED / "claude-code.jsonl", folder / f"{CLAUDE_ID}.jsonl")))


@pytest.fixture
def codex(home: Path) -> Path:
    folder = home / ".codex" / "sessions" / "2026" / "01" / "12"
    folder.mkdir(parents=True)
    return age(Path(shutil.copy(RECORDED / "codex.jsonl", folder / "rollout-2026-01-12.jsonl")))


@pytest.fixture
def repository(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository without a remote, with two commits on one day and one on another."""
    monkeypatch.setenv("PATH", os.defpath)
    folder = home / "shop"
    folder.mkdir()
    git(folder, "init", "-q")
    for name, day, message in (
        ("cart.py", "2025-11-03T09:00:00+01:00", "feat(cart): add a cart"),
        ("stock rows.py", "2025-11-03T10:00:00+01:00", f"fix(stock): lock the row\n\n{REASON}"),
        (
            "price.py",
            "2025-11-05T10:00:00+01:00",
            "refactor(price): use decimals\n\nFloats lost cents, as taxes add up.",
        ),
    ):
        (folder / name).write_text(name)
        git(folder, "add", name)
        dates = {"GIT_AUTHOR_DATE": day, "GIT_COMMITTER_DATE": day}
        git(
            folder,
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.org",
            "commit",
            "-qm",
            message,
            **dates,
        )
    return folder


AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
REASON = "Two orders took the last item at the same time, because the count was read before the update."


def git(folder: Path, *words: str, **environment: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, env={**os.environ, **environment})


def run_id(output: str) -> str:
    found = re.search(r"--undo (\w+)", output)
    assert found, output
    return found[1]


def read(path: Path, report: ReadReport | None = None) -> list[tuple[str, Any]]:
    report = report or ReadReport()
    [session] = find_transcripts(path, report)
    return [
        (one.data.get("tool_name", "prompt"), one.data.get("prompt") or one.data["tool_input"])
        for one in session.events(report)
    ]


class TestReading:
    def test_claude_code_transcript_gives_prompts_and_tool_calls(self) -> None:
        found = read(RECORDED / "claude-code.jsonl")
        assert [name for name, _ in found] == [
            "prompt",
            "Bash",
            "Edit",
            "Bash",
            "AskUserQuestion",
            "Bash",
            "Grep",
        ]
        assert "Quincewort" not in found[0][1]

    def test_failed_tool_call_is_an_error_as_in_a_hook(self) -> None:
        [session] = find_transcripts(RECORDED / "claude-code.jsonl", ReadReport())
        responses = [one.data.get("tool_response") for one in session.events(ReadReport())]
        assert responses[1]["is_error"]
        assert "ValueError" in responses[1]["error"]
        assert responses[2] == {"filePath": "/home/ada/till/till/importer.py"}

    def test_codex_rollout_gives_prompts_and_tool_calls(self) -> None:
        found = read(RECORDED / "codex.jsonl")
        assert [name for name, _ in found] == ["prompt", "shell", "apply_patch", "shell", "shell"]
        assert found[3][1]["command"] == "pytest tests/test_export.py"

    def test_broken_and_long_lines_are_skipped_and_counted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(transcripts, "MAX_LINE_BYTES", 4000)
        path = tmp_path / "broken.jsonl"
        rows = (RECORDED / "claude-code.jsonl").read_text()
        path.write_text(rows + '{"type": "user", \n' + "[" * 3000 + "\n" + "x" * 9000 + "\n\xff\n" + "[]\n")
        report = ReadReport()
        assert len(read(path, report)) == 7
        assert report.skipped == {"line is not JSON": 3, "line too long": 1}
        assert report.places[0].endswith("broken.jsonl, line 19: line is not JSON")

    def test_named_pipe_and_folder_are_skipped(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.jsonl")
        (tmp_path / "folder.jsonl").mkdir()
        report = ReadReport()
        assert find_transcripts(tmp_path, report) == []
        assert report.skipped == {"not a file": 2}

    def test_event_at_an_impossible_time_is_skipped_and_numbers_that_are_no_json_too(
        self, tmp_path: Path
    ) -> None:
        place = {"sessionId": "s1", "cwd": "/home/ada/till", "type": "user"}
        path = tmp_path / "odd.jsonl"
        call = {"type": "tool_use", "id": "t" * 300, "name": "Bash", "input": {"n": float("nan"), "m": 1}}
        rows = [
            {**place, "timestamp": time, "message": {"content": f"prompt at {time}"}}
            for time in ("0001-01-01T00:00:00+14:00", "2026-01-12T10:00:00Z", "9999-12-31T23:00:00-02:00")
        ]
        rows += [
            {**rows[1], "type": "assistant", "message": {"content": [call]}},
            {**rows[1], "message": {"content": [{"type": "tool_result", "tool_use_id": call["id"]}]}},
        ]
        path.write_text("\n".join(map(json.dumps, rows)))
        report = ReadReport()
        [session] = find_transcripts(path, report)
        prompt, tool = session.events(report)
        assert prompt.data == {"prompt": "prompt at 2026-01-12T10:00:00Z"}
        assert (tool.id, tool.data["tool_input"]) == ("t" * 190, {"n": None, "m": 1})
        assert report.skipped == {"time is out of range": 2}

    def test_large_transcript_takes_little_memory(self, tmp_path: Path) -> None:
        import tracemalloc

        path = tmp_path / "large.jsonl"
        rows = (RECORDED / "claude-code.jsonl").read_text().splitlines(keepends=True)
        with path.open("w") as file:
            file.writelines(rows)
            for number in range(60):  # 30 MB
                uid = f"toolu_{number}"
                call = json.loads(rows[5])
                call["message"]["content"][0]["id"] = uid
                result = json.loads(rows[6])
                result["message"]["content"][0] |= {"tool_use_id": uid, "content": "y" * 250_000}
                result["toolUseResult"] = {"stdout": "y" * 250_000}
                file.write(f"{json.dumps(call)}\n{json.dumps(result)}\n")
        [session] = find_transcripts(path, ReadReport())
        tracemalloc.start()
        assert sum(1 for _ in session.events(ReadReport())) == 67
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8_000_000

    def test_subagents_belong_to_their_session(self, claude: Path) -> None:
        folder = claude.with_suffix("") / "subagents"
        folder.mkdir(parents=True)
        rows = [json.loads(line) for line in claude.read_text().splitlines()]
        for row in rows:
            row["isSidechain"] = True
            row["message"] = json.loads(json.dumps(row.get("message")).replace("toolu_", "toolu_sub"))
        (folder / "agent-1.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        [session] = find_transcripts(claude.parent, ReadReport())
        kinds = [one.event for one in session.events(ReadReport())]
        assert (kinds.count("prompt:submit"), kinds.count("tool:post")) == (1, 12)


class TestSending:
    def test_sessions_become_memories_of_their_time(self, run: Run, claude: Path, codex: Path) -> None:
        assert run("backfill") == 0
        spans = Session.objects.order_by("started_at").values_list("started_at", "ended_at")
        assert [(f"{first:%d %H:%M:%S}", f"{last:%d %H:%M:%S}") for first, last in spans if last] == [
            ("10 09:00:01", "10 09:06:10"),
            ("12 10:00:03", "12 10:04:01"),
        ]
        assert set(Session.objects.values_list("project", flat=True)) == {"till"}
        texts = "\n".join(Memory.objects.exclude(type="session_summary").values_list("content", flat=True))
        assert "parse German amounts" in texts
        assert "in tests/test_import.py::test_totals" in texts
        assert "Decision of the user: Postgres" in texts
        assert "fix(export): write each row once\n" in texts

    def test_second_run_sends_nothing(
        self, run: Run, claude: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run("backfill")
        before = Event.objects.count(), Memory.objects.count()
        capsys.readouterr()
        assert run("backfill") == 0
        assert "Left out: 1 session, stored before." in capsys.readouterr().out
        assert (Event.objects.count(), Memory.objects.count()) == before

    def test_dry_run_counts_and_stores_nothing(
        self, run: Run, claude: Path, codex: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run("backfill", "--dry-run") == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert ["all", "2", "2", "10", "0"] in rows
        assert not Session.objects.exists()

    def test_interrupted_run_continues_as_the_same_run(
        self,
        run: Run,
        claude: Path,
        codex: Path,
        client: Client,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(backfill, "MAX_EVENTS", 4)
        store, sent = Client.store_past_events, []

        def fail_third(self: Client, run: str, events: Any) -> Any:
            sent.append(run)
            if len(sent) == 2:
                raise ConnectionFailed("the hub is away", sent=False)
            return store(self, run, events)

        monkeypatch.setattr(Client, "store_past_events", fail_third)
        assert run("backfill") == 1
        assert "Run the same command again to continue" in capsys.readouterr().err
        assert Event.objects.count() == 4
        assert run("backfill") == 0
        assert Event.objects.count() == 16
        assert len(set(sent)) == 1
        assert run("backfill", "--undo", sent[0]) == 0
        assert not Session.objects.exists()

    def test_undo_removes_everything_and_allows_another_run(
        self, run: Run, claude: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run("backfill")
        found = Memory.objects.live().count()
        assert run("backfill", "--undo", run_id(capsys.readouterr().out)) == 0
        assert capsys.readouterr().out.startswith(f"Undone: {found} memories are in the trash; 1 sessions")
        assert not Memory.objects.live().exists()
        run("backfill")
        assert Memory.objects.live().count() == found

    def test_run_with_a_refused_session_ends_too(
        self, run: Run, claude: Path, codex: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        changed = claude.stat().st_mtime
        token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
        claude.write_text(claude.read_text().replace("/home/ada/till", f"/home/ada/{token}"))
        os.utime(claude, (changed, changed))
        assert run("backfill") == 1
        assert "Failed: 1 session: 422" in capsys.readouterr().err
        assert Event.objects.exists()
        assert list(state_folder().glob("backfill-*")) == []

    def test_state_that_cannot_be_written_is_reported(
        self, run: Run, claude: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(claude))
        assert run("backfill") == 1
        assert f"memoryhub: cannot use {claude}" in capsys.readouterr().err
        assert not Event.objects.exists()

    def test_state_folder_may_begin_with_a_tilde(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", "~/state")
        path = RunFile.of("http://localhost:8000", "token").path
        assert path.is_relative_to(Path.home() / "state" / "memoryhub")

    def test_unknown_run_cannot_be_undone(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("backfill", "--undo", "a" * 32) == 1
        assert "no such run of yours" in capsys.readouterr().err

    def test_second_command_at_the_same_time_is_refused(
        self, run: Run, claude: Path, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store, nested = Client.store_past_events, []

        def run_another(self: Client, run_id: str, events: Any) -> Any:
            if not nested:
                nested.append(run("backfill", str(claude)))
                assert run("backfill", "--dry-run") == 0
            return store(self, run_id, events)

        monkeypatch.setattr(Client, "store_past_events", run_another)
        assert run("backfill") == 0
        assert nested == [1]
        assert JournalEntry.objects.filter(operation="backfill").values("object_id").distinct().count() == 1

    def test_grown_transcript_is_continued(self, run: Run, claude: Path) -> None:
        whole = claude.read_text().splitlines(keepends=True)
        claude.write_text("".join(whole[:9]))
        age(claude)
        run("backfill")
        claude.write_text("".join(whole))
        age(claude)
        run("backfill")
        calls = Event.objects.filter(event="tool:post").order_by("pk")
        assert list(calls.values_list("tool_name", flat=True)) == [*TOOLS]
        assert Session.objects.get().ended_at == datetime(2026, 1, 10, 9, 6, 10, tzinfo=UTC)

    def test_events_that_a_resumed_session_copied_are_sent_once(self, run: Run, claude: Path) -> None:
        other = claude.with_name("resumed.jsonl")
        copied = claude.read_text().replace(CLAUDE_ID, "resumed").replace("2026-01-10", "2026-01-11")
        added = json.loads(copied.splitlines()[2]) | {"uuid": "new", "timestamp": "2026-01-11T12:00:00Z"}
        other.write_text(copied + json.dumps(added) + "\n")
        age(other)
        run("backfill")
        assert Session.objects.get(session_id="resumed").events.filter(event="prompt:submit").count() == 1

    def test_running_session_is_left_out(
        self, run: Run, claude: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        claude.touch()
        assert run("backfill") == 0
        assert "still in use" in capsys.readouterr().out
        assert not Session.objects.exists()

    def test_mode_of_the_project_is_respected(
        self, run: Run, claude: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        projects.configure_project("till", system_actor("tests"), mode="off")
        assert run("backfill") == 0
        assert "Left out: 1 session, project is off." in capsys.readouterr().out
        assert not Session.objects.exists()


class TestFilters:
    @pytest.mark.parametrize(
        ("words", "count"),
        [
            (["--agent", "codex"], 1),
            (["--project", "till"], 2),
            (["--project", "shop"], 0),
            (["--since", "2026-01-12"], 1),
            (["--agent", "claude-code", "--agent", "codex"], 2),
        ],
    )
    def test_filter_limits_the_sessions(
        self, run: Run, claude: Path, codex: Path, words: list[str], count: int
    ) -> None:
        assert run("backfill", *words) == 0
        assert Session.objects.count() == count

    def test_path_names_one_transcript(self, run: Run, claude: Path, codex: Path) -> None:
        assert run("backfill", str(codex)) == 0
        assert Session.objects.count() == 1

    @pytest.mark.parametrize("content", [None, "", "no JSON\n", '{"type": "other"}\n'])
    def test_path_without_a_session_is_an_error(
        self, run: Run, home: Path, capsys: pytest.CaptureFixture[str], content: str | None
    ) -> None:
        path = home / "notes.jsonl"
        if content is not None:
            path.write_text(content)
        assert run("backfill", str(path)) == 1
        assert "notes.jsonl" in capsys.readouterr().err

    def test_date_that_is_none_is_refused(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            run("backfill", "--since", "yesterday")
        assert "must be a date" in capsys.readouterr().err


class TestCommits:
    def test_commits_become_sessions_of_days(self, run: Run, repository: Path) -> None:
        assert run("backfill", str(repository)) == 0
        found = Session.objects.order_by("started_at")
        assert [one.session_id[-10:] for one in found] == ["2025-11-03", "2025-11-05"]
        fix = Memory.objects.get(type="bugfix")
        assert REASON in fix.content
        assert list(fix.files.values_list("path", flat=True)) == ["stock rows.py"]
        assert fix.created_at == datetime(2025, 11, 3, 9, tzinfo=UTC)

    def test_pause_without_a_project_pauses_that_of_the_repository(
        self, run: Run, repository: Path, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another repository in a folder of this name has reported a session before."""
        git(repository, "remote", "add", "origin", "https://example.org/ada/tool.git")
        other = {"name": repository.name, "remote": "https://example.org/bob/tool", "root": "b" * 40}
        client.report_event("session:start", "s1", cwd=f"/home/bob/{repository.name}", repository=other)
        folder = repository / "src"
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        backfill.find_repository.cache_clear()
        assert run("pause", "--hours", "2") == 0
        assert client.project("ada/tool").paused_until
        assert client.project(repository.name).paused_until is None
        assert run("resume") == 0
        assert client.project("ada/tool").paused_until is None

    def test_worktree_and_repository_are_one_project(self, run: Run, repository: Path) -> None:
        git(repository, "remote", "add", "origin", "https://ada:s3cr@t@example.org/Owner/Shop.git")
        worktree = repository.parent / "shop-feature"
        git(repository, "worktree", "add", "-q", str(worktree))
        (worktree / "tax.py").write_text("tax")
        git(worktree, "add", "tax.py")
        git(worktree, *AUTHOR, "commit", "-qm", f"fix(tax): round up\n\n{REASON}")
        assert run("backfill", str(repository)) == 0
        assert run("backfill", str(worktree)) == 0
        assert set(Session.objects.values_list("project", flat=True)) == {"shop"}
        keys = ProjectIdentity.objects.values_list("key", flat=True)
        assert "remote:example.org/owner/shop" in keys

    @pytest.mark.parametrize(
        "url", ["https://example.org/shop.git?token=s3cret", "/srv/git/shop.git", "file:///srv/git/shop.git"]
    )
    def test_unusable_remote_is_not_sent(self, repository: Path, url: str) -> None:
        git(repository, "remote", "add", "origin", url)
        found = backfill.find_repository(str(repository))
        assert found is not None
        assert (found["name"], found["remote"], len(found["root"])) == ("shop", "", 40)

    def test_second_run_adds_only_new_commits(
        self, run: Run, repository: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run("backfill", "--since", "2025-11-04", str(repository)) == 0
        assert Event.objects.filter(event="tool:post").count() == 1
        assert run("backfill", str(repository)) == 0
        assert Event.objects.filter(event="tool:post").count() == 3

    def test_repository_without_commits_is_an_error(
        self, run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("PATH", os.defpath)
        git(home, "init", "-q")
        assert run("backfill", str(home)) == 1
        assert "has no commits yet" in capsys.readouterr().err

    def test_folder_outside_of_a_repository_is_an_error(
        self, run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("PATH", os.defpath)
        monkeypatch.chdir(home)
        assert run("backfill", "--agent", "git") == 1
        assert "git cannot read" in capsys.readouterr().err
