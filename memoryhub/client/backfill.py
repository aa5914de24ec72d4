"""``memoryhub backfill``: send the past sessions of this machine to a hub."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import IO
from uuid import uuid4

from memoryhub.client.calls import ApiError, ConfigurationError, MemoryhubError, RateLimited, ServerError
from memoryhub.client.clients import Client
from memoryhub.client.config_files import state_folder
from memoryhub.client.environment import find_token, make_safe, print_table
from memoryhub.client.transcripts import (
    AGENTS,
    GIT,
    PROMPT,
    PastEvent,
    PastSession,
    ReadReport,
    default_folders,
    find_commits,
    find_transcripts,
    run_git,
)
from memoryhub.core.text import format_count

if sys.platform != "win32":
    import fcntl

IN_USE_SECONDS = 600  # a transcript that was written to since may belong to a running session
UNDO_SECONDS = 600.0
MAX_EVENTS, MAX_CHARS, MAX_IDS = 100, 500_000, 5000  # of one request
_USABLE_REMOTE = re.compile(r"(?!file:)[A-Za-z0-9][A-Za-z0-9._~/:+%-]*")
_CREDENTIALS = re.compile(r"^([^:/]*://)?[^/]*@")
_TOO_OLD = "empty or too old"
_STATES = {
    "live": "reported live before",
    "off": "project is off",
    "observe": "project is only observed",
    "paused": "memory is paused in the project",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="transcript, folder of transcripts, or git repository (default: the transcripts of this "
        "machine, and the repository of the current folder)",
    )
    parser.add_argument("--agent", action="append", choices=AGENTS, help="only this source; repeatable")
    parser.add_argument("--project", help="only sessions of this project")
    parser.add_argument(
        "--since", type=_date, metavar="DATE", help="only sessions that were active since then"
    )
    parser.add_argument("--dry-run", action="store_true", help="count what would be sent, and send nothing")
    parser.add_argument("--undo", metavar="RUN", help="undo a whole run")
    parser.set_defaults(run=run)


def _date(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be a date, such as 2026-03-31") from None
    return at.astimezone(UTC)


def run(options: argparse.Namespace) -> int:
    token = find_token(options.server)
    state = RunFile.of(options.server, token)
    if options.undo:
        return _undo(options, token, state)
    report = ReadReport()
    sessions = sorted(_find_sessions(options, report), key=lambda one: one.started_at)
    begun = nullcontext("") if options.dry_run else state.begin()
    with Client(options.server, token) as client, begun as run_id:
        return Backfill(client, run_id, options, report).run_all(sessions, state)


def _undo(options: argparse.Namespace, token: str, state: RunFile) -> int:
    with Client(options.server, token, timeout=UNDO_SECONDS) as client:
        undone = client.undo_backfill(options.undo)
    state.end(options.undo)
    print(
        f"Undone: {undone.memories} memories are in the trash; "
        f"{undone.sessions} sessions with {undone.events} events are deleted."
    )
    return 0


def _find_sessions(options: argparse.Namespace, report: ReadReport) -> Iterator[PastSession]:
    agents = options.agent or AGENTS
    for path in options.paths:
        yield from _find_in_path(path, agents, options.since, report)
    if options.paths:
        return
    for agent, folder in default_folders(Path.home()).items():
        if agent in agents and folder.is_dir():
            yield from (one for one in find_transcripts(folder, report) if one.agent == agent)
    if GIT in agents:
        try:
            yield from find_commits(Path.cwd(), options.since)
        except ConfigurationError:
            if options.agent:
                raise


def _find_in_path(
    path: Path, agents: Sequence[str], since: datetime | None, report: ReadReport
) -> Iterator[PastSession]:
    if not path.exists():
        raise ConfigurationError(f"{path} does not exist.")
    if path.is_dir() and (path / ".git").exists():
        if GIT in agents:
            yield from find_commits(path, since)
        return
    sessions = find_transcripts(path, report)
    if not sessions:
        reason = report.places[-1] if report.places else f"{path} contains no .jsonl files"
        raise ConfigurationError(f"Nothing to read: {reason}. It is not a git repository either.")
    yield from (one for one in sessions if one.agent in agents)


@dataclass
class RunFile:
    """The file with the id of an unfinished run, which the next command continues."""

    path: Path

    @classmethod
    def of(cls, server: str, token: str) -> RunFile:
        digest = hashlib.sha256(f"{server}\n{token}".encode()).hexdigest()[:16]
        return cls(state_folder() / f"backfill-{digest}")

    @contextmanager
    def begin(self) -> Iterator[str]:
        """Yield the id of the unfinished run, or of a new one.

        Raise ConfigurationError if another command works on it: each would count, continue and undo the
        events of the other.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+", encoding="ascii") as file:
            if not _lock(file):
                raise ConfigurationError("Another backfill to this hub is running. Wait until it ends.")
            file.seek(0)
            if not (run := file.read().strip()):
                run = uuid4().hex
                file.write(run)
                file.flush()
            yield run

    def end(self, run: str) -> None:
        with suppress(OSError):
            if self.path.read_text("ascii").strip() == run:
                self.path.unlink()


def _lock(file: IO[str]) -> bool:
    """Lock a file until it is closed. Return False if another process has locked it, or just deleted it."""
    if sys.platform != "win32":
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return os.fstat(file.fileno()).st_nlink > 0


@dataclass
class Plan:
    """The first reading of a session: its span, and the ids of its events in order."""

    first_at: datetime
    last_at: datetime
    ids: list[tuple[str, str]]
    counts: Counter[str]


@dataclass
class Backfill:
    """One run of the command. ``run`` is empty in a dry run.

    Every session is read twice: to ask which events the hub has, and to send the others.
    """

    client: Client
    run: str
    options: argparse.Namespace
    report: ReadReport
    counts: Counter[str] = field(default_factory=Counter)
    projects: dict[str, Counter[str]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    seen: set[int] = field(default_factory=set)

    def run_all(self, sessions: list[PastSession], state: RunFile) -> int:
        try:
            for number, session in enumerate(sessions, 1):
                self._progress(number, len(sessions))
                self._backfill_session(session)
        except (MemoryhubError, KeyboardInterrupt) as error:
            self._print_summary()
            if self.run:
                advice = f"Run the same command again to continue, or undo with --undo {self.run}."
                print(f"Stopped. {advice}", file=sys.stderr)
            if isinstance(error, KeyboardInterrupt):
                return 130
            raise
        if self.run:
            state.end(self.run)
        self._print_summary()
        return int(bool(self.problems))

    def _progress(self, number: int, total: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{number} of {total} sessions", end="\n" if number == total else "", file=sys.stderr)

    def _backfill_session(self, session: PastSession) -> None:
        """Backfill a session, unless it is in use or too old. Count it if it fails."""
        try:
            changed = [one.stat().st_mtime for one in session.sources if isinstance(one, Path)]
            if changed and time.time() - max(changed) < IN_USE_SECONDS:
                self.left_out["still in use"] += 1
            elif changed and self.options.since and max(changed) < self.options.since.timestamp():
                self.left_out[_TOO_OLD] += 1
            else:
                self._send(session)
        except (RateLimited, ServerError):
            raise
        except ApiError as error:
            self.problems[str(error)] += 1
        except OSError as error:
            self.problems[f"cannot be read: {error}"] += 1

    def _send(self, session: PastSession) -> None:
        plan = self._read_plan(session)
        if plan is None or (self.options.since and plan.last_at < self.options.since):
            self.left_out[_TOO_OLD] += 1
            return
        names = [*plan.ids, ("session:start", "start"), ("session:end", f"end-{plan.ids[-1][1]}")]
        project, state, known = self._ask(session, names)
        if self.options.project is not None and project != self.options.project:
            return
        if state != "new":
            self.left_out[_STATES.get(state, state)] += 1
            return
        fresh = [name for name in names if name[1] not in known]
        if not fresh:
            self.left_out["stored before"] += 1
            return
        self.projects.setdefault(project, Counter()).update({"sessions": 1, **plan.counts})
        if self.run:
            for batch in _batches(self._events(session, plan, {uid for _, uid in fresh})):
                self._store(batch, session)

    def _read_plan(self, session: PastSession) -> Plan | None:
        """Read a session, without the events that a resumed session copied from an earlier one."""
        plan: Plan | None = None
        for event in session.events(self.report):
            if (key := hash((session.agent, event.id))) in self.seen:
                continue
            self.seen.add(key)
            plan = plan or Plan(event.at, event.at, [], Counter())
            plan.first_at, plan.last_at = min(plan.first_at, event.at), max(plan.last_at, event.at)
            plan.ids.append((event.event, event.id))
            kind = "commits" if session.agent == GIT else "prompts" if event.event == PROMPT else "tools"
            plan.counts[kind] += 1
        return plan

    def _ask(self, session: PastSession, names: list[tuple[str, str]]) -> tuple[str, str, set[str]]:
        known: set[str] = set()
        for start in range(0, len(names), MAX_IDS):
            events = [{"event": event, "id": uid} for event, uid in names[start : start + MAX_IDS]]
            answer = self.client.check_past_session(
                session.id, events, cwd=session.cwd, repository=find_repository(session.cwd)
            )
            known |= set(answer.known)
        return answer.project, answer.state, known

    def _events(self, session: PastSession, plan: Plan, wanted: set[str]) -> Iterator[PastEvent]:
        """Yield the events to send: those of the transcript, and a start and an end at its first and last."""
        if "start" in wanted:
            yield PastEvent("session:start", "start", plan.first_at, {"source": "startup"})
        for event in session.events(ReadReport()):
            if event.id in wanted:
                yield event
        end = f"end-{plan.ids[-1][1]}"
        if end in wanted:
            yield PastEvent("session:end", end, plan.last_at, {"reason": "backfilled"})

    def _store(self, batch: list[PastEvent], session: PastSession) -> None:
        events = [
            {
                "event": one.event,
                "id": one.id,
                "at": one.at,
                "session_id": session.id,
                "cwd": session.cwd,
                "repository": find_repository(session.cwd),
                "data": one.data,
            }
            for one in batch
        ]
        result = self.client.store_past_events(self.run, events)
        self.counts.update(result.outcomes)
        self.counts["memories"] += result.memories

    def _print_summary(self) -> None:
        kinds = ("sessions", "prompts", "tools", "commits")
        rows = [
            (name or "–", *(str(counts[kind]) for kind in kinds)) for name, counts in self.projects.items()
        ]
        if rows:
            total = sum(self.projects.values(), Counter[str]())
            all_of = ("all", *(str(total[kind]) for kind in kinds))
            print_table(("project", *kinds), [*sorted(rows), all_of])
        else:
            print("Nothing to send.")
        for reason, count in self.left_out.items():
            print(f"Left out: {format_count(count, 'session')}, {reason}.")
        for reason, count in self.report.skipped.items():
            print(f"Skipped: {count} × {reason}.")
        for place in self.report.places:
            print(make_safe(place), file=sys.stderr)
        for problem, count in self.problems.items():
            print(f"Failed: {format_count(count, 'session')}: {make_safe(problem)}", file=sys.stderr)
        if not self.run:
            print(
                "Dry run: nothing was sent. The hub decides what is worth a memory when it gets the events."
            )
        elif rows:
            stored = self.counts["stored"] + self.counts["recorded"]
            print(f"Sent: {stored} events; the hub made {self.counts['memories']} memories of them.")
            print(f"Undo all of it with: memoryhub backfill --undo {self.run}")


@cache
def find_repository(folder: str) -> dict[str, str] | None:
    """Return name, remote and root commit of the repository that contains a folder, and its path in there.

    The same as the plugin's hooks send: without credentials. None if there is no repository.
    """
    if not Path(folder).is_dir():
        return None
    try:
        shared = Path(_ask_git(folder, "rev-parse", "--path-format=absolute", "--git-common-dir"))
        if ".git/modules/" in shared.as_posix():
            shared = Path(_ask_git(folder, "rev-parse", "--show-toplevel"))
        remotes = _ask_git(folder, "remote").split()
        remote = _ask_git(folder, "remote", "get-url", min(remotes, key="origin".__ne__)) if remotes else ""
        subfolder = _ask_git(folder, "rev-parse", "--show-prefix")
        is_shallow = _ask_git(folder, "rev-parse", "--is-shallow-repository") == "true"
        roots = _ask_git(folder, "rev-list", "--max-parents=0", "--first-parent", "HEAD").split()
    except ConfigurationError:
        return None
    name = shared.parent.name if shared.name in (".git", ".bare") else shared.name.removesuffix(".git")
    remote = _CREDENTIALS.sub(r"\1", remote)
    return {
        "name": name,
        "remote": remote if _USABLE_REMOTE.fullmatch(remote) else "",
        "root": "" if is_shallow else roots[-1],
        "subfolder": subfolder.rstrip("/"),
    }


def _ask_git(folder: str, *words: str) -> str:
    return run_git(Path(folder), *words).strip()


def _batches(events: Iterator[PastEvent]) -> Iterator[list[PastEvent]]:
    """Yield lists of events that fit into one request."""
    batch: list[PastEvent] = []
    size = 0
    for event in events:
        cost = len(json.dumps(event.data)) + 1000
        if batch and (len(batch) == MAX_EVENTS or size + cost > MAX_CHARS):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += cost
    if batch:
        yield batch
