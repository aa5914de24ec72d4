"""``/backfills``: past sessions that a client reads from transcripts, stored under one run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpResponse
from ninja import Path, Router
from pydantic import BaseModel, Field

from memoryhub.access.policy import Sensitivity
from memoryhub.api.events import REPOSITORY, EventBody, check_data, working_project
from memoryhub.api.schemas import BackfillResult, BackfillUndo, PastSessionShape, documented
from memoryhub.capture import HookEvent, backfill
from memoryhub.http.authentication import WRITE, ApiRequest
from memoryhub.http.problems import json_response
from memoryhub.memories.schemas import Moment, Name, Text, Word

router = Router(tags=["Hooks and past sessions"], auth=WRITE)
MAX_EVENTS = 100  # in one request
MAX_IDS = 5000
EventId = Annotated[str, Field(min_length=1, max_length=200)]
RunId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{16,64}$", description="An id that the client chose.")]


class PastEvent(EventBody):
    """An event of a past session. Without a project, the working directory names it."""

    at: Moment = Field(description="When it happened.")
    id: EventId = Field(description="Identifies a repeated delivery, for example the id in the transcript.")
    session_id: Annotated[Word, Field(max_length=200)]


class PastEvents(BaseModel):
    events: Annotated[list[PastEvent], Field(min_length=1, max_length=MAX_EVENTS)]


class EventName(BaseModel):
    event: Literal["session:start", "tool:post", "prompt:submit", "session:end"]
    id: EventId


class SessionQuestion(BaseModel):
    """A past session, and the ids of its events."""

    session_id: Annotated[Word, Field(max_length=200)]
    project: Name = ""
    cwd: Annotated[Text, Field(max_length=4000)] = ""
    repository: dict[str, Any] | None = Field(None, description=REPOSITORY)
    events: Annotated[list[EventName], Field(max_length=MAX_IDS)] = []


@router.post("/backfills/check", response=documented(PastSessionShape), summary="Check a past session")
def check_past_session(request: ApiRequest, question: SessionQuestion) -> HttpResponse:
    """Returns its project, whether it can be backfilled, and which events are stored. Changes nothing.

    ``state``: ``new``; ``live`` if an agent reported it when it happened; otherwise why nothing is stored."""
    place = question.session_id, question.cwd, question.repository
    found = backfill.check_session(
        question.session_id,
        question.project or working_project(*place, request.auth),
        [(one.event, one.id) for one in question.events],
        request.auth.actor,
    )
    return json_response({"project": found.project, "state": found.state, "known": sorted(found.known)})


@router.post(
    "/backfills/{run}/events",
    response=documented(BackfillResult, errors=(409,)),
    summary="Store events of past sessions",
)
def store_past_events(request: ApiRequest, run: Path[RunId], body: PastEvents) -> HttpResponse:
    """Runs the capture rules for each event, in order, and injects nothing.

    An outcome each: ``stored`` (a memory was made of it), ``recorded``, ``known`` (delivered before),
    ``live``, ``ignored`` (only ignored files), or the mode that leaves it out. ``memories``: the new ones.
    """
    hook_events = []
    for one in body.events:
        check_data(one)
        hook_events.append(_to_hook_event(one, request))
    outcomes, memories = backfill.store_events(run, hook_events, request.auth.actor)
    return json_response({"outcomes": outcomes, "memories": memories})


def _to_hook_event(one: PastEvent, request: ApiRequest) -> HookEvent:
    place = one.session_id, one.cwd, one.repository
    return HookEvent(
        event=one.event,
        session_id=one.session_id,
        project=one.project or working_project(*place, request.auth, record=True),
        cwd=one.cwd,
        repository=one.repository,
        at=one.at,
        data=one.data,
        sensitivity=Sensitivity(one.sensitivity).value,
        delivery_id=one.id,
    )


@router.delete(
    "/backfills/{run}",
    response=documented(BackfillUndo, errors=(404,)),
    summary="Undo a backfill",
)
def undo_backfill(request: ApiRequest, run: Path[RunId]) -> HttpResponse:
    """Moves the memories of a run to the trash and deletes its events and sessions.

    Memories that are pinned, or that someone else changed, stay."""
    counts = backfill.undo_backfill(run, request.auth.actor)
    return json_response({name: counts[name] for name in BackfillUndo.model_fields})
