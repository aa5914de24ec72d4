"""The commands for memories, sessions and projects, and the parser of all commands."""

from __future__ import annotations

import argparse
import html
import itertools
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any, Unpack

from memoryhub.api.schemas import HitShape, ProjectShape, SearchResults, SessionShape
from memoryhub.client import backfill, connect, page_file, sync
from memoryhub.client.backfill import find_repository
from memoryhub.client.calls import (
    DEFAULT_SERVER,
    SERVER_VARIABLE,
    AuthenticationFailed,
    ConnectionFailed,
    MemoryFields,
    MemoryhubError,
    NewMemory,
    ProjectPart,
    ProjectSettings,
    TimelineEntry,
)
from memoryhub.client.clients import Client
from memoryhub.client.environment import (
    add_json_option,
    find_server,
    format_day,
    format_time,
    make_safe,
    open_client,
    print_json,
    print_table,
)
from memoryhub.client.sync_files import LEVELS
from memoryhub.core.network import is_unencrypted
from memoryhub.core.text import without_title_line
from memoryhub.core.vocabulary import PROJECT_MODES, SCOPES, TYPES


def add_mode_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("project", help="project")
    parser.add_argument("mode", nargs="?", choices=PROJECT_MODES, help="without it, the mode is shown")
    add_json_option(parser)
    parser.set_defaults(run=_mode)


def _mode(options: argparse.Namespace) -> int:
    return _configure(options, mode=options.mode) if options.mode else _configure(options)


def _add_own_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("project", nargs="?", help="default: the project of the current folder")


def add_pause_arguments(parser: argparse.ArgumentParser) -> None:
    _add_own_project(parser)
    parser.add_argument("--hours", type=float, default=1, metavar="N", help="hours from now (default: 1)")
    add_json_option(parser)
    parser.set_defaults(run=lambda options: _configure(options, pause_hours=options.hours))


def add_resume_arguments(parser: argparse.ArgumentParser) -> None:
    _add_own_project(parser)
    add_json_option(parser)
    parser.set_defaults(run=lambda options: _configure(options, pause_hours=0))


def _configure(options: argparse.Namespace, **settings: Unpack[ProjectSettings]) -> int:
    """Change the settings of a project, if any are given, and show its mode."""
    with open_client(options.server) as client:
        project = options.project
        if not project:  # that of the repository of the current folder, as for hooks
            folder = str(Path.cwd())
            repository = find_repository(folder)
            project = client.check_past_session("none", [], cwd=folder, repository=repository).project
        answer = client.project(project)
        if settings:
            answer = client.configure_project(project, **settings)
    if options.json:
        return print_json(answer)
    paused = f", paused until {format_time(answer.paused_until)}" if answer.paused_until else ""
    print(f"{make_safe(answer.name)}: {answer.mode}{paused}")
    for event, count in answer.event_counts.items():
        print(f"  {make_safe(event)}: {count} counted")
    return 0


def add_project_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("project", help="project")
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--rename", metavar="NAME", help="give it a new name")
    change.add_argument("--merge", metavar="PROJECT", help="move everything into another project")
    change.add_argument("--split", metavar="NAME", help="move a part into a new project")
    change.add_argument("--undo", metavar="CHANGE", help="undo a change, by the id that it printed")
    parser.add_argument("--folder", default="", help="split: the sessions of this folder, and its next ones")
    parser.add_argument("--identity", action="append", default=[], help="split: a repository, repeatable")
    parser.add_argument("--tag", help="split: the memories with this tag")
    add_json_option(parser)
    parser.set_defaults(run=_project)


def _project(options: argparse.Namespace) -> int:
    """Rename, merge or split a project, or show its repositories and folders."""
    with open_client(options.server) as client:
        if not (options.rename or options.merge or options.split or options.undo):
            identities = client.project_identities(options.project)
            if options.json:
                return print_json(identities)
            if identities.items:
                print_table(("identity", "agents of"), [(one.key, one.owner) for one in identities.items])
            else:
                print(f"{make_safe(options.project)}: no repository or folder is known")
            return 0
        moved = _change_project(client, options)
    if options.json:
        return print_json(moved)
    undo = f"; undo: memoryhub project {make_safe(moved.name)} --undo {moved.change}" if moved.change else ""
    print(f"{make_safe(moved.name)}: done{undo}")
    return 0


def _change_project(client: Client, options: argparse.Namespace) -> ProjectShape:
    if options.undo:
        return client.undo_project_change(options.undo)
    if options.rename:
        return client.rename_project(options.project, options.rename)
    if options.merge:
        return client.merge_projects(options.project, options.merge)
    chosen: ProjectPart = {"folder": options.folder, "identities": options.identity}
    if options.tag:
        chosen["memories"] = {"tag": options.tag}
    return client.split_project(options.project, options.split, **chosen)


def run(argv: Sequence[str]) -> int:
    """Run a client command and return its exit status. ``argv`` is like ``sys.argv``."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a character
            stream.reconfigure(errors="backslashreplace")
    options = _parser(PurePath(argv[0]).name, argv[1]).parse_args(argv[2:])
    try:
        options.server = find_server(options.server)
        if is_unencrypted(options.server):
            print(f"Warning: {options.server} receives the token unencrypted. Use https.", file=sys.stderr)
        status: int = options.run(options)
    except MemoryhubError as error:
        print(f"memoryhub: {make_safe(_explain(error, options.server))}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of the output is gone
        raise
    except OSError as error:  # of a file: errors of the network are MemoryhubErrors
        print(
            f"memoryhub: cannot use {make_safe(str(error.filename or 'a file'))}: {error.strerror}",
            file=sys.stderr,
        )
        return 1
    return status


def _explain(error: MemoryhubError, server: str | None) -> str:
    if isinstance(error, ConnectionFailed):
        advice = f"Is the hub running? Set its address with --server or {SERVER_VARIABLE}."
        return f"cannot reach {server}: {error}. {advice}"
    if isinstance(error, AuthenticationFailed):
        return f"{server} does not accept the token. It may be revoked or expired; create a new one."
    return str(error)


def _parser(program: str, command: str) -> argparse.ArgumentParser:
    add_arguments, description = _COMMANDS[command]
    parser = argparse.ArgumentParser(f"{program} {command}", description=description)
    parser.add_argument(
        "--server", metavar="URL", help=f"address of the hub (default: {SERVER_VARIABLE} or {DEFAULT_SERVER})"
    )
    add_arguments(parser)
    return parser


def _add_filters(parser: argparse.ArgumentParser) -> None:
    add_json_option(parser)
    parser.add_argument("--project", help="only this project")
    parser.add_argument("--private", action="store_true", help="include private memories")
    parser.add_argument("--secret", action="store_true", help="include secret memories")


def _add_as_of(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--as-of", metavar="TIME", help="answer from what was stored then, for example 2026-03-31"
    )


def _filters(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the given filters, as the client takes them."""
    given = {name: getattr(options, name) for name in ("project", *names) if getattr(options, name)}
    levels = {"allow_private": options.private or options.secret, "allow_secret": options.secret}
    return given | {name: True for name, asked in levels.items() if asked}


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _share(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError("must be a number from 0 to 1")
    return number


def _add_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", nargs="+", help="words, a phrase in quotes, or part of a name")
    parser.add_argument(
        "--limit", type=_count, default=10, metavar="N", help="number of results (default: 10)"
    )
    parser.add_argument(
        "--min-score", type=_share, metavar="SCORE", help="lowest score, 0 to 1 (default: that of the hub)"
    )
    parser.add_argument("--type", choices=TYPES, metavar="TYPE", help=f"one of: {', '.join(TYPES)}")
    parser.add_argument("--tag", help="only memories with this tag")
    parser.add_argument("--file", help="only memories about this file or folder")
    _add_as_of(parser)
    _add_filters(parser)
    parser.set_defaults(run=_search)


def _search(options: argparse.Namespace) -> int:
    with open_client(options.server) as client:
        filters = _filters(options, "type", "tag", "file", "as_of", "min_score")
        answer = client.search(" ".join(options.query), limit=options.limit, **filters)
    if options.json:
        return print_json(answer)
    if answer.corrected and answer.results:
        print(f"No memory matches. These match “{make_safe(answer.suggestions[0])}”:\n")
    if not answer.results:
        print("No memory matches.")
    else:
        rows = [_hit_row(hit) for hit in answer.results]
        print_table(("score", "type", "project", "updated", "id", "memory"), rows)
    if end := _explain_end(answer):
        print(end, file=sys.stderr)
    return 0


def _explain_end(answer: SearchResults) -> str:
    """Describe the order of the results, and why there are no more. Not a part of the table."""
    shown, total = len(answer.results), answer.total
    words = [f"{shown} of {total:,} results, best first."] if shown else []
    if shown < total:
        words.append("Raise --limit to see more.")
    if answer.min_score and shown == total:
        words.append(f"Scores below {answer.min_score:g} are left out; a lower --min-score may find more.")
    return " ".join(words)


def _hit_row(hit: HitShape) -> tuple[str, ...]:
    memory, text = hit.memory, _plain(hit.snippet)
    if not text.startswith(memory.title):
        text = f"{memory.title}: {text}" if text else memory.title
    return (f"{hit.score:.2f}", memory.type, memory.project, format_day(memory.updated_at), memory.id, text)


def _add_recall(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", nargs="+", help="what to recall")
    parser.add_argument(
        "--max-tokens", type=_count, default=1000, metavar="N", help="budget of the answer (default: 1000)"
    )
    _add_as_of(parser)
    _add_filters(parser)
    parser.set_defaults(run=_recall)


def _recall(options: argparse.Namespace) -> int:
    with open_client(options.server) as client:
        answer = client.recall(
            " ".join(options.query), max_tokens=options.max_tokens, **_filters(options, "as_of")
        )
    if options.json:
        return print_json(answer)
    for memory in answer.details:
        where = ", ".join(
            part for part in (memory.type, memory.project, format_day(memory.updated_at)) if part
        )
        print(f"{make_safe(memory.title)}  [{make_safe(where)}, {make_safe(memory.id)}]")
        if text := without_title_line(memory.content, memory.title):
            print(make_safe(text))
        print()
    whole = {memory.id for memory in answer.details}
    rows = [(line.id, line.type, line.summary) for line in answer.index if line.id not in whole]
    if rows:
        print_table(("id", "type", "also matching" if whole else "matching"), rows)
    if not answer.total_count:
        print("No memory matches.")
    elif answer.has_more:
        print(f"\nMore memories match ({answer.total_count}). Raise --max-tokens to see them.")
    return 0


def _add_remember(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="*", help="text of the memory; without it, or with -, standard input")
    parser.add_argument("--title", help="default: made from the text")
    parser.add_argument("--type", choices=TYPES, metavar="TYPE", help=f"one of: {', '.join(TYPES)}")
    parser.add_argument("--project", help="project")
    parser.add_argument("--category", help="category (default: general)")
    parser.add_argument("--tag", action="append", dest="tags", help="tag; repeatable")
    parser.add_argument("--importance", type=float, metavar="0..1", help="importance (default: 0.5)")
    parser.add_argument("--sensitivity", choices=LEVELS, help="default: public")
    parser.add_argument("--scope", choices=SCOPES, help="default: project")
    parser.add_argument("--key", help="storing the same key again replaces the memory")
    parser.add_argument(
        "--ttl", type=_ttl, dest="ttl_days", metavar="DAYS", help="days until it expires, or never"
    )
    parser.add_argument(
        "--pin",
        action="store_true",
        default=None,
        dest="pinned",
        help="open every session of its project with it; it never expires",
    )
    add_json_option(parser)
    parser.set_defaults(run=_remember)


def _ttl(text: str) -> float:
    try:
        return 0.0 if text == "never" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be a number of days, or never") from None


def _remember(options: argparse.Namespace) -> int:
    text = " ".join(options.text)
    if text in ("", "-"):
        if sys.stdin.isatty():
            print("Type the text of the memory, then Ctrl-D.", file=sys.stderr)
        text = sys.stdin.read()
    names = [name for name in MemoryFields.__annotations__ if getattr(options, name, None) is not None]
    fields: NewMemory = {name: getattr(options, name) for name in names}  # type: ignore[assignment]
    with open_client(options.server) as client:
        stored = client.remember(text, **fields)
    if options.json:
        return print_json(stored)
    print(f"{stored.outcome}: {make_safe(stored.memory.id)}")
    if stored.warnings:
        print("Warning: the project has more memories than max_memories allows.", file=sys.stderr)
    return 0


def _add_sessions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", help="id of a session, to show what happened in it")
    parser.add_argument("--limit", type=_count, default=20, metavar="N", help="number of rows (default: 20)")
    _add_filters(parser)
    parser.set_defaults(run=_sessions)


def _sessions(options: argparse.Namespace) -> int:
    filters = _filters(options)
    with open_client(options.server) as client:
        if options.session:
            return _show_session(client, options, filters)
        rows = list(itertools.islice(client.sessions(**filters), options.limit))
    if options.json:
        return print_json(rows)
    if not rows:
        print("No sessions yet. memoryhub connect sets up the agents of this machine.")
        return 0
    heads = ("session", "project", "agent", "started", "last", "memories", "events")
    print_table(heads, [_session_row(session) for session in rows])
    return 0


def _session_row(session: SessionShape) -> tuple[str, ...]:
    times = (format_time(session.started_at), format_time(session.last_at))
    counts = (str(session.memory_count), str(session.event_count))
    return (session.session_id, session.project, session.agent.removeprefix("token:"), *times, *counts)


def _show_session(client: Client, options: argparse.Namespace, filters: dict[str, Any]) -> int:
    answer = client.session(options.session, **filters)
    if options.json:
        return print_json(answer)
    session = answer.session
    where = f"project {session.project or '–'}, agent {session.agent.removeprefix('token:') or '–'}"
    print(f"{make_safe(session.session_id)}  {make_safe(where)}\n")
    rows = [(format_time(entry.at), entry.kind, _describe_entry(entry)) for entry in answer.timeline.items]
    if rows:
        print_table(("time", "kind", "what"), rows[: options.limit])
    return 0


def _describe_entry(entry: TimelineEntry) -> str:
    more = entry.model_extra or {}
    memory = more.get("memory")
    if isinstance(memory, dict):
        return f"{memory.get('type')}: {memory.get('title')} ({memory.get('id')})"
    return " ".join(str(more.get(name) or "") for name in ("event", "tool_name", "preview")).strip()


_COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "search": (_add_search, "Search the memories of a hub."),
    "remember": (_add_remember, "Store a memory in a hub."),
    "recall": (_add_recall, "Show the memories about a subject, within a budget of tokens."),
    "sessions": (_add_sessions, "List the sessions of agents, or show what happened in one."),
    "sync": (sync.add_arguments, "Synchronize a project and a folder of Markdown files, in both directions."),
    "backfill": (
        backfill.add_arguments,
        "Send past sessions of Claude Code and Codex, and the commits of a repository, to a hub.",
    ),
    "project-page": (
        page_file.add_arguments,
        "Show a project's page, or keep it in a block of AGENTS.md or CLAUDE.md.",
    ),
    "mode": (
        add_mode_arguments,
        "Show or set the mode of a project: what the hub stores from its agents' sessions.",
    ),
    "project": (
        add_project_arguments,
        "Rename, merge or split a project, or show its repositories and folders.",
    ),
    "pause": (add_pause_arguments, "Pause memory in a project: agents store and receive nothing."),
    "resume": (add_resume_arguments, "Resume memory in a project."),
    "connect": (connect.add_arguments, "Connect the agents of this machine to a hub."),
}


def _plain(snippet: str) -> str:
    """Return the text of a snippet, which is HTML with marked hits."""
    return html.unescape(re.sub(r"</?mark>", "", snippet))
