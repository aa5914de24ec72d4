"""The commands that show and change a project: ``mode``, ``pause``, ``resume`` and ``project``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Unpack

from memoryhub.api.schemas import ProjectShape
from memoryhub.client.backfill import find_repository
from memoryhub.client.calls import ProjectPart, ProjectSettings
from memoryhub.client.clients import Client
from memoryhub.client.credentials import open_client
from memoryhub.client.terminal import add_json_option, format_time, make_safe, print_json, print_table
from memoryhub.core.vocabulary import PROJECT_MODES


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
