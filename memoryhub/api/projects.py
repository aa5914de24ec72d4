"""``/projects``: the settings of a project, and the status line of a session."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from django.utils import timezone
from ninja import Body, Query, Router
from pydantic import BaseModel, ConfigDict, Field

from memoryhub.api.events import hook_project
from memoryhub.api.schemas import CorrectedShape, IdentitiesShape, PageShape, ProjectShape, documented
from memoryhub.capture import project_changes, projects
from memoryhub.capture.ignored_paths import MAX_PATTERNS_CHARS
from memoryhub.capture.page_corrections import Action, Correction, correct_page
from memoryhub.capture.projects import text_field
from memoryhub.capture.summaries import status_line
from memoryhub.core.dates import format_iso
from memoryhub.core.text import estimate_tokens
from memoryhub.core.vocabulary import ProjectMode, Right
from memoryhub.http.authentication import MAINTAIN, READ, WRITE, AccessParams, ApiRequest
from memoryhub.http.problems import json_response
from memoryhub.injection.project_page import SECTIONS, PageEntry, build_page, record_page_reveals
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.rows import resolve_project
from memoryhub.memories.schemas import Name, Text, Word
from memoryhub.models import Project

router = Router(tags=["Projects"])


class ProjectPatch(BaseModel):
    """The settings to change. All but ``pause_hours`` require the right ``maintain``."""

    model_config = ConfigDict(extra="forbid")

    mode: ProjectMode | None = Field(None, description="off, observe, approve or automatic.")
    pause_hours: Annotated[float, Field(ge=0, le=projects.MAX_PAUSE_HOURS, allow_inf_nan=False)] | None = (
        Field(None, description="Number of hours to pause from now; 0 ends the pause.")
    )
    ignored_paths: Annotated[Text, Field(max_length=MAX_PATTERNS_CHARS)] | None = Field(
        None, description="Patterns of files, one on each line, in the syntax of .gitignore."
    )
    sends_page: bool | None = Field(
        None, description="Whether the project's page opens the sessions of agents."
    )
    max_memories: Annotated[int, Field(ge=0, le=projects.MAX_CAP)] | None = Field(
        None, description="Maximum number of live memories of an owner; 0: no cap; null: as configured."
    )


class ProjectMoveIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    project: Annotated[Word, Field(max_length=200)]
    into: Annotated[Word, Field(max_length=200, description="Name of the other project, or the new name.")]


class ProjectSplitIn(ProjectMoveIn):
    folder: Annotated[Text, Field(max_length=1000)] = Field(
        "",
        description="Sessions of this folder, with their memories and facts, and its next events.",
    )
    identities: Annotated[list[Word], Field(max_length=100)] = Field(
        default_factory=list, description="Keys of repositories whose next sessions are in the new project."
    )
    memories: MemoryFilter | None = Field(None, description="The filters of a list of memories.")


class StatusShape(BaseModel):
    line: str


class PageParams(AccessParams):
    """The levels of the lines besides public."""


class PageCorrection(AccessParams):
    """A correction. ``add`` takes a section and a text, ``reword`` an id and a text, the others an id."""

    action: Action
    kind: Literal["memory", "fact"] = "memory"
    id: Name = ""
    section: Name = ""
    text: Annotated[Text, Field(max_length=10_000)] = ""


# These two come first: the name of a project may contain slashes.
@router.get(
    "/projects/{path:name}/page",
    summary="Get the page of a project",
    auth=READ,
    response=documented(PageShape, errors=(404,)),
)
def project_page(request: ApiRequest, name: str, params: Query[PageParams]) -> HttpResponse:
    """Returns the page of a project, which says in at most 800 tokens what a new agent or colleague should
    know."""
    project = projects.get_project(name, request.auth.actor)
    page = build_page(name, params.clearance(request.auth), timezone.now())
    record_page_reveals(page.entries, request.auth.actor, "api project page")
    markdown = page.to_markdown()
    sections = [
        {"key": section.key, "title": section.title, "entries": list(map(_serialize_line, entries))}
        for section, entries in page.sections()
    ]
    withheld = [{"kind": one.kind, "id": one.uid, "reason": reason} for one, reason in page.withheld]
    return json_response(
        {
            "project": name,
            "sent": project.sends_page,
            "tokens": estimate_tokens(markdown),
            "markdown": markdown,
            "section_titles": {one.key: one.title for one in SECTIONS},
            "sections": sections,
            "withheld": withheld,
        }
    )


def _serialize_line(entry: PageEntry) -> dict[str, Any]:
    names = ("kind", "line", "reason", "sensitivity", "pinned")
    return {"id": entry.uid, **{name: getattr(entry, name) for name in names}}


@router.post(
    "/projects/{path:name}/page/corrections",
    summary="Correct the page of a project",
    auth=WRITE,
    response=documented(CorrectedShape, errors=(404, 409)),
)
def correct_project_page(request: ApiRequest, name: str, correction: PageCorrection) -> HttpResponse:
    """Changes the memory or ends the fact that a line comes from, or adds a line as a pinned memory.

    leave_out takes a memory off the page; not_true moves it to the trash.
    """
    projects.get_project(name, request.auth.actor)
    actor = replace(request.auth.actor, clearance=correction.clearance(request.auth))
    wanted = Correction(
        correction.action, correction.kind, correction.id, correction.section, correction.text
    )
    done = correct_page(name, wanted, actor)
    return json_response({"action": correction.action, "memory_id": done.memory.uid if done.memory else ""})


@router.get(
    "/projects/{path:name}",
    summary="Get the settings of a project",
    auth=READ,
    response=documented(ProjectShape, errors=(404,)),
)
def project(request: ApiRequest, name: str) -> HttpResponse:
    """Returns the settings of a project. A project that no one has configured has the defaults."""
    return json_response(_serialize(projects.get_project(name, request.auth.actor)))


@router.patch(
    "/projects/{path:name}",
    summary="Change the settings of a project",
    auth=WRITE,
    response=documented(ProjectShape, errors=(404,)),
)
def update_project(request: ApiRequest, name: str, patch: ProjectPatch) -> HttpResponse:
    """Changes the given settings. A pause requires the right ``write``, everything else ``maintain``."""
    changes = patch.model_dump(exclude_none=True)
    if projects.CAP in patch.model_fields_set:
        changes[projects.CAP] = patch.max_memories  # null means as configured
    if changes.keys() - {"pause_hours"}:
        request.auth.require(Right.MAINTAIN)
    changed = projects.configure_project(name, request.auth.actor, **changes)
    return _with_change(changed)


@router.post(
    "/project-changes/{change}/undo",
    summary="Undo a rename, merge or split of projects",
    auth=MAINTAIN,
    response=documented(ProjectShape, errors=(404, 409)),
)
def undo_project_change(request: ApiRequest, change: str) -> HttpResponse:
    """Restores the settings from before a change, unless they were changed again since. Undoes a rename, a
    merge or a split; what was stored since stays where it is."""
    return json_response(_serialize(project_changes.undo_project_change(change, request.auth.actor)))


@router.get(
    "/project-identities/{path:name}",
    summary="List the repositories and folders of a project",
    auth=READ,
    response=documented(IdentitiesShape, errors=(404,)),
)
def project_identities(request: ApiRequest, name: str) -> HttpResponse:
    """Returns what the project is recognised by: remotes and root commits of repositories, former names."""
    rows = projects.list_identities(name, request.auth.actor)
    items = [{"key": one.key, "owner": one.owner, "since": format_iso(one.created_at)} for one in rows]
    return json_response({"items": items})


@router.post(
    "/project-renames",
    summary="Rename a project",
    auth=MAINTAIN,
    response=documented(ProjectShape, errors=(403, 404, 409)),
)
def rename_project(request: ApiRequest, move: ProjectMoveIn) -> HttpResponse:
    """Renames a project. Memberships, the projects of tokens and saved searches follow. Requires access to
    every project and level."""
    return _with_change(project_changes.rename_project(move.project, move.into, request.auth.actor))


@router.post(
    "/project-merges",
    summary="Merge two projects",
    auth=MAINTAIN,
    response=documented(ProjectShape, errors=(403, 404, 409)),
)
def merge_projects(request: ApiRequest, move: ProjectMoveIn) -> HttpResponse:
    """Moves everything of a project into another one. Refused while someone may read that one alone.
    Requires access to every project and level."""
    return _with_change(project_changes.merge_projects(move.project, move.into, request.auth.actor))


@router.post(
    "/project-splits",
    summary="Split a project",
    auth=MAINTAIN,
    response=documented(ProjectShape, errors=(403, 404, 409)),
)
def split_project(request: ApiRequest, split: ProjectSplitIn) -> HttpResponse:
    """Moves a part of a project into a new one, at least one of: the sessions of a folder, repositories,
    memories. Requires access to every project and level."""
    chosen = split.memories and split.memories.model_copy(update={"project": split.project})
    changed = project_changes.split_project(
        split.project,
        split.into,
        request.auth.actor,
        folder=split.folder,
        identities=split.identities,
        chosen=chosen,
    )
    return _with_change(changed)


@router.post(
    "/hooks/claude-code/status",
    summary="Get the text of Claude Code's status line",
    auth=READ,
    response=documented(StatusShape),
)
def claude_code_status(request: ApiRequest, status: Body[dict[str, Any]]) -> HttpResponse:
    """Accepts the JSON that Claude Code sends to the command of its status line, and returns the line."""
    actor = request.auth.actor
    project = Project.named(resolve_project(hook_project(status, request.auth), actor))
    return json_response(
        {"line": status_line(text_field(status, "session_id"), project, actor, timezone.now())}
    )


def _with_change(changed: projects.ProjectChange) -> HttpResponse:
    """Respond with the project and the uid of the change, which undoes it."""
    return json_response({**_serialize(changed.project), "change": changed.undo})


def _serialize(one: Project) -> dict[str, Any]:
    return {
        "name": one.name,
        "mode": one.mode,
        "paused_until": format_iso(one.paused_until)
        if one.paused_until and one.is_paused(timezone.now())
        else None,
        "ignored_paths": one.ignored_paths,
        "max_memories": one.max_memories,
        "note": projects.mode_note(one),
        "event_counts": projects.count_events(one),
        "change": "",
    }
