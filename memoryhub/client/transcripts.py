"""Read past sessions on this machine: transcripts of Claude Code and Codex, and the commits of a repository.

Files are read line by line, so that a large transcript takes little memory.
"""

from __future__ import annotations

import heapq
import json
import math
import os
import re
import shlex
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from memoryhub.client.calls import ConfigurationError
from memoryhub.core.text import strip_private

CLAUDE_CODE, CODEX, GIT = AGENTS = ("claude-code", "codex", "git")
PROMPT, TOOL = "prompt:submit", "tool:post"
MAX_LINE_BYTES = 16 * 1024 * 1024  # longer lines are skipped: they contain images
MAX_TEXT = 20_000  # characters of one text of a tool call; the hub reads no more
MAX_PROMPT = 100_000
MAX_ITEMS, MAX_DEPTH = 200, 20  # of a list, and of nested values
MAX_EVENT_CHARS = 200_000
MAX_ID = 190  # the hub takes 200, with a prefix
MAX_OPEN_CALLS = 1000  # tool calls whose result is still missing
MAX_FILES = 50  # of a commit
MAX_PROBLEMS = 20  # that are listed
_EARLIEST = datetime(1900, 1, 2, tzinfo=UTC)
_HEAD_LINES = 200  # the session is named in one of them
_UNREAD_KEYS = frozenset(
    {"originalFile", "structuredPatch", "gitDiff"}
)  # large, and the hub does not read them
_WRITTEN_BY_PROGRAM = re.compile(
    r"\s*(?:<(?:command-|local-command|bash-|task-notification|system-reminder|environment_context"
    r"|user_instructions|INSTRUCTIONS|turn_aborted|subagent|skill)|\[Request interrupted|Caveat: The messages"
    r"|# AGENTS\.md instructions)"
)
_EXIT_CODE = re.compile(r"^(?:Process exited with code|Exit code:?) (\d+)$", re.M)
_SHELLS = {"shell": "shell", "exec_command": "shell", "shell_command": "shell", "local_shell_call": "shell"}


@dataclass(frozen=True)
class PastEvent:
    """A prompt or a tool call. ``id``: the same each time that the transcript is read."""

    event: str
    id: str
    at: datetime
    data: dict[str, Any]


@dataclass
class ReadReport:
    """Problems of reading: counts by reason, and the first places."""

    skipped: Counter[str] = field(default_factory=Counter)
    places: list[str] = field(default_factory=list)

    def skip(self, reason: str, path: Path | str, line: int = 0) -> None:
        self.skipped[reason] += 1
        if len(self.places) < MAX_PROBLEMS:
            self.places.append(f"{path}{f', line {line}' if line else ''}: {reason}")


@dataclass
class PastSession:
    """A session of an agent, or a day of commits. ``sources``: its files, or the ids of the commits."""

    agent: str
    id: str
    cwd: str
    started_at: datetime
    sources: list[Path] | list[str]

    def events(self, report: ReadReport) -> Iterator[PastEvent]:
        """Yield the prompts and tool calls in order."""
        if self.agent == GIT:
            yield from _commit_events(self.cwd, [str(one) for one in self.sources], report)
            return
        rows = [_rows_with_time(Path(one), report) for one in self.sources]
        merged = heapq.merge(*rows, key=lambda row: row[0])
        reader = _ClaudeCodeReader() if self.agent == CLAUDE_CODE else _CodexReader(self.id)
        for at, number, row in merged:
            for event in reader.read(at, number, row):
                data = _shorten(strip_private(event.data))
                shortened = PastEvent(event.event, event.id[:MAX_ID], event.at, data)
                if not _EARLIEST <= event.at <= datetime.now(UTC):
                    report.skip("time is out of range", str(self.sources[0]), number)
                elif len(json.dumps(shortened.data)) > MAX_EVENT_CHARS:
                    report.skip("event too large", str(self.sources[0]), number)
                else:
                    yield shortened


def default_folders(home: Path) -> dict[str, Path]:
    """Return the folders in which the agents store their transcripts."""
    claude = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = Path(os.environ.get("CODEX_HOME") or home / ".codex")
    return {CLAUDE_CODE: claude / "projects", CODEX: codex / "sessions"}


def find_transcripts(path: Path, report: ReadReport) -> list[PastSession]:
    """Return the sessions of a transcript, or of all transcripts in a folder."""
    paths = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
    sessions: dict[tuple[str, str], PastSession] = {}
    for one in paths:
        if one.exists() and not one.is_file():  # reading a named pipe would never end
            report.skip("not a file", one)
            continue
        try:
            head = _read_head(one)
        except OSError as error:
            report.skip(f"cannot be read ({error.strerror})", one)
            continue
        if head is None:
            report.skip("no session of Claude Code or Codex", one)
            continue
        known = sessions.setdefault((head.agent, head.id), head)
        if known is not head:
            known.sources += head.sources  # type: ignore[operator]
            if head.started_at < known.started_at:
                known.started_at, known.cwd = head.started_at, head.cwd
    return list(sessions.values())


def _read_head(path: Path) -> PastSession | None:
    """Return the session that the first lines of a transcript name."""
    first: datetime | None = None
    for at, _, row in islice(_rows_with_time(path, ReadReport()), _HEAD_LINES):
        first = first or at
        payload = row.get("payload")
        if row.get("type") == "session_meta" and isinstance(payload, dict):
            return _named_session(CODEX, payload.get("id"), payload.get("cwd"), first, path)
        if "cwd" in row and "sessionId" in row:
            return _named_session(CLAUDE_CODE, row["sessionId"], row["cwd"], first, path)
    return None


def _named_session(agent: str, uid: Any, cwd: Any, at: datetime, path: Path) -> PastSession | None:
    if not isinstance(uid, str) or not 0 < len(uid) <= 200 or not isinstance(cwd, str):
        return None
    return PastSession(agent, uid, cwd[:4000], at, [path])


def _rows_with_time(path: Path, report: ReadReport) -> Iterator[tuple[datetime, int, dict[str, Any]]]:
    """Yield the rows of a file that have a time, with their line numbers. Broken lines are reported."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES):
            number += 1
            if not line.endswith(b"\n") and len(line) == MAX_LINE_BYTES:
                report.skip("line too long", path, number)
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE_BYTES)
                continue
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                report.skip("line is not JSON", path, number)
                continue
            if isinstance(row, dict) and (at := _parse_time(row.get("timestamp"))):
                yield at, number, row


def _parse_time(text: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _shorten(value: Any, depth: int = 0) -> Any:
    """Return a JSON value without the parts that the hub ignores."""
    if isinstance(value, str):
        return value[: MAX_TEXT if depth > 1 else MAX_PROMPT]
    if depth > MAX_DEPTH or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, dict):
        return {key: _shorten(one, depth + 1) for key, one in value.items() if key not in _UNREAD_KEYS}
    if isinstance(value, list):
        return [_shorten(one, depth + 1) for one in value[:MAX_ITEMS]]
    return value


class _ClaudeCodeReader:
    """Pairs the tool calls of a transcript with their results, as the hooks report them."""

    def __init__(self) -> None:
        self.open_calls: dict[str, tuple[str, Any]] = {}

    def read(self, at: datetime, number: int, row: dict[str, Any]) -> Iterator[PastEvent]:
        message = row.get("message")
        if row.get("type") not in ("user", "assistant") or not isinstance(message, dict):
            return
        content = message.get("content")
        parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
        for part in parts:
            if part.get("type") == "tool_use":
                _remember(self.open_calls, part.get("id"), str(part.get("name")), part.get("input"))
            elif part.get("type") == "tool_result":
                yield from self._result(at, row, part)
        text = content if isinstance(content, str) else _join_texts(parts)
        if row["type"] == "user" and text.strip() and not self._is_written_by_program(row, text):
            yield PastEvent(PROMPT, str(row.get("uuid") or f"line-{number}"), at, {"prompt": text})

    def _result(self, at: datetime, row: dict[str, Any], part: dict[str, Any]) -> Iterator[PastEvent]:
        uid = part.get("tool_use_id")
        if not isinstance(uid, str) or uid not in self.open_calls:
            return
        tool, given = self.open_calls.pop(uid)
        response = row.get("toolUseResult") or part.get("content")
        if part.get("is_error"):
            response = {"is_error": True, "error": response}
        data = {"tool_name": tool, "tool_input": given, "tool_response": response}
        yield PastEvent(TOOL, uid, at, data)

    @staticmethod
    def _is_written_by_program(row: dict[str, Any], text: str) -> bool:
        names = ("isMeta", "isCompactSummary", "isSidechain", "isVisibleInTranscriptOnly")
        return any(map(row.get, names)) or bool(_WRITTEN_BY_PROGRAM.match(text))


class _CodexReader:
    """Reads the response items of a rollout: messages, calls of functions and tools, and their output."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.open_calls: dict[str, tuple[str, Any]] = {}

    def read(self, at: datetime, number: int, row: dict[str, Any]) -> Iterator[PastEvent]:
        item = row.get("payload")
        if row.get("type") != "response_item" or not isinstance(item, dict):
            return
        kind = str(item.get("type"))
        if kind == "message" and item.get("role") == "user":
            parts = [part for part in item.get("content") or () if isinstance(part, dict)]
            text = _join_texts(part for part in parts if not _WRITTEN_BY_PROGRAM.match(str(part.get("text"))))
            if text.strip():
                yield PastEvent(PROMPT, f"{self.session_id}:{number}", at, {"prompt": text})
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            tool = str(item.get("name") or kind)
            _remember(self.open_calls, item.get("call_id"), _SHELLS.get(tool, tool), _codex_input(item))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            uid = item.get("call_id")
            if isinstance(uid, str) and uid in self.open_calls:
                tool, given = self.open_calls.pop(uid)
                data = {"tool_name": tool, "tool_input": given, "tool_response": _codex_output(item)}
                yield PastEvent(TOOL, f"{self.session_id}:{uid}", at, data)


def _remember(calls: dict[str, tuple[str, Any]], uid: Any, tool: str, given: Any) -> None:
    if isinstance(uid, str):
        calls[uid] = (tool, _shorten(strip_private(given), 1))
        if len(calls) > MAX_OPEN_CALLS:
            del calls[next(iter(calls))]


def _join_texts(parts: Iterable[dict[str, Any]]) -> str:
    texts = [part.get("text") for part in parts if part.get("type") in ("text", "input_text")]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _codex_input(item: dict[str, Any]) -> dict[str, Any]:
    given = item.get("arguments", item.get("input", item.get("action")))
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return {"input": given}
    if not isinstance(given, dict):
        return {"input": given}
    command = given.get("command", given.get("cmd"))
    if isinstance(command, list):  # ["bash", "-lc", "the command"]
        words = [str(word) for word in command]
        command = words[-1] if len(words) > 2 and words[1] in ("-c", "-lc") else shlex.join(words)
    return {**given, "command": command} if command else given


def _codex_output(item: dict[str, Any]) -> Any:
    """Return the output of a call, as an error if the command failed."""
    output, code = item.get("output"), 0
    if isinstance(output, list):
        output = _join_texts(part for part in output if isinstance(part, dict))
    if isinstance(output, str):
        try:
            nested = json.loads(output) if output.startswith("{") else None
        except ValueError:
            nested = None
        if isinstance(nested, dict) and isinstance(nested.get("output"), str):
            output, meta = nested["output"], nested.get("metadata")
            code = meta.get("exit_code") or 0 if isinstance(meta, dict) else 0
        else:
            head, mark, rest = output.partition("Output:\n")
            if match := _EXIT_CODE.search(head):
                output, code = rest if mark else output, int(match[1])
    return {"is_error": True, "error": output} if code else output


def find_commits(path: Path, since: datetime | None) -> list[PastSession]:
    """Return a session for each day with commits on the current branch, without merges."""
    top = run_git(path, "rev-parse", "--show-toplevel").strip()
    if not top:
        raise ConfigurationError(f"{path} is not in a git repository with files.")
    try:
        root = run_git(path, "rev-list", "--max-parents=0", "HEAD").split()[-1]
    except ConfigurationError:
        raise ConfigurationError(f"The repository {top} has no commits yet.") from None
    days: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
    for line in run_git(path, "log", "--reverse", "--no-merges", "--format=%H %aI").splitlines():
        commit, _, text = line.partition(" ")
        at = _parse_time(text)
        if at and (since is None or at >= since):
            days[text[:10]].append((at, commit))
    sessions = []
    for day, dated in sorted(days.items()):
        dated.sort(key=lambda one: one[0])  # stable: commits of the same second keep their order
        commits = [commit for _, commit in dated]
        sessions.append(PastSession(GIT, f"git-{root[:12]}-{day}", top, dated[0][0], commits))
    return sessions


def _commit_events(folder: str, commits: Sequence[str], report: ReadReport) -> Iterator[PastEvent]:
    """Yield each commit as the command of an agent that made it, with the names of its files."""
    form = "--format=%x1e%H%x1f%aI%x1f%B%x1f"
    log = run_git(
        Path(folder),
        "log",
        "--no-walk=unsorted",
        "--stdin",
        "--name-only",
        "-z",
        form,
        text="\n".join(commits),
    )
    for record in log.split("\x1e")[1:]:
        parts = record.split("\x1f")
        at = _parse_time(parts[1]) if len(parts) == 4 else None
        if at is None:
            report.skip("commit cannot be read", folder)
            continue
        message = strip_private(parts[2]).strip()[:MAX_TEXT]
        names = [name.strip("\n") for name in parts[3].split("\0")]
        files = [name for name in names if name and name.isprintable() and '"' not in name][:MAX_FILES]
        yield PastEvent(TOOL, parts[0], at, _commit_call(parts[0], message, files))


def _commit_call(commit: str, message: str, files: Iterable[str]) -> dict[str, Any]:
    end = f"END-{commit[:12]}"
    quoted = (f'"{name}"' if " " in name else name for name in files)  # as git status does
    status = "".join(f" M {name}\n" for name in quoted)
    return {
        "tool_name": "Bash",
        "tool_input": {"command": f"git status --short && git commit -F - <<'{end}'\n{message}\n{end}"},
        "tool_response": f"{status}[{commit[:12]}]",
    }


def run_git(folder: Path, *words: str, text: str = "") -> str:
    """Return the output of a git command, without programs that the repository configures."""
    options = ["-c", "core.fsmonitor=false", "-c", "log.showSignature=false", "-c", "core.quotePath=false"]
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *options, *words],
            input=text.encode(),
            capture_output=True,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": "cat", "LC_ALL": "C"},
        )
    except OSError as error:
        raise ConfigurationError(f"git cannot be run: {error}") from None
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ConfigurationError(f"git cannot read {folder}: {reason[-1] if reason else done.returncode}")
    return done.stdout.decode("utf-8", "replace")
