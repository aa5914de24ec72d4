"""``/extract``: memories from a conversation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.conf import settings
from django.http import Http404, HttpResponse
from django.utils import timezone
from ninja import Router
from pydantic import BaseModel, ConfigDict, Field, model_validator

from memoryhub.access.policy import Sensitivity
from memoryhub.api.events import REPOSITORY, working_project
from memoryhub.api.schemas import documented
from memoryhub.core.vocabulary import Scope
from memoryhub.extraction import services
from memoryhub.extraction.comparison import Destination
from memoryhub.extraction.conversation import parse_turns, unwrap_claude_code
from memoryhub.http.authentication import WRITE, ApiRequest, Caller
from memoryhub.http.problems import field_error, invalid_fields, json_response
from memoryhub.memories import TooCostlyToCheck
from memoryhub.memories.schemas import Name, Text
from memoryhub.models import Extraction, Project
from memoryhub.security.secrets import CheckTooCostly

router = Router(tags=["Memories"], auth=WRITE)


class MessageIn(BaseModel):
    """One message, or a line of Claude Code's transcript, which nests it. Other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    role: str = Field(description="Only messages of user and assistant are read.")
    content: str | list[dict[str, Any]] | None = Field(
        description="A text, or a list of parts whose texts are read. Null if the message only calls tools."
    )

    @model_validator(mode="before")
    @classmethod
    def _unwrap(cls, row: Any) -> Any:
        nested = isinstance(row, dict) and "role" not in row and isinstance(row.get("message"), dict)
        return unwrap_claude_code(row) if nested else row


class Conversation(BaseModel):
    """A conversation, and the values for its memories."""

    messages: Annotated[list[MessageIn], Field(description="The messages in order.")]
    project: Name = ""
    session_id: Name = ""
    scope: Scope = Scope.PROJECT
    sensitivity: Sensitivity = Sensitivity.PUBLIC
    cwd: Annotated[Text, Field(max_length=4000)] = Field(
        "", description="Working directory of the agent. Its name is the project if none is given."
    )
    repository: dict[str, Any] | None = Field(None, description=REPOSITORY)

    def place(self, caller: Caller) -> Destination:
        project = self.project or working_project(
            self.session_id, self.cwd, self.repository, caller, record=True
        )
        return Destination(project, self.session_id, self.scope.value, self.sensitivity.value)


class ExtractedShape(BaseModel):
    """The outcome of one candidate: created, merged, skipped, refreshed, waiting (a person approves it), or
    refused with ``code`` and ``detail``. ``why``: the reasons for the candidate. ``warnings`` contains
    ``over_cap`` if the project has more than ``max_memories`` of the agent now."""

    outcome: str
    id: str | None
    category: str
    abstract: str = ""
    why: str = ""
    code: str = ""
    detail: str = ""
    warnings: list[Literal["over_cap"]] = []


class ExtractionShape(BaseModel):
    """``extractor``: rules, model, or model and rules. ``notes``: deviations from the configuration."""

    id: str | None
    status: str
    extractor: str
    results: list[ExtractedShape]
    notes: list[str]


@router.post(
    "/extract",
    response={202: ExtractionShape, **documented(ExtractionShape, errors=(409,))},
    summary="Extract memories from a conversation",
)
def extract(request: ApiRequest, conversation: Conversation) -> HttpResponse:
    """Extracts candidates and deduplicates them. Returns one outcome for each candidate.

    200 with the results if rules extract them. 202 if a language model does so in the background; poll
    ``GET /extract/{id}``. Until then, the messages are stored without credentials.
    """
    limit = settings.MEMORYHUB.max_extract_messages
    if len(conversation.messages) > limit:
        raise invalid_fields([field_error("messages", f"has more than {limit} items; send them in parts")])
    actor = request.auth.actor
    place = services.resolve_destination(conversation.place(request.auth), actor)
    try:
        turns = parse_turns(message.model_dump() for message in conversation.messages)
    except CheckTooCostly:
        raise TooCostlyToCheck("messages") from None
    turns, reason = services.permitted_turns(turns, Project.named(place.project), timezone.now())
    if reason:
        return json_response(_extraction_body(None, "done", services.RULES, [], [reason]))
    if not services.will_use_model(place):
        result = services.extract_by_model(turns, place, actor)
        return json_response(_extraction_body(None, "done", result.extractor, result.results, result.notes))
    row = services.enqueue(turns, place, actor)
    return json_response(_serialize_extraction(row, []), 202, {"Location": f"{request.path}/{row.uid}"})


@router.get(
    "/extract/{id}",
    response=documented(ExtractionShape, errors=(404,)),
    summary="Get the results of an extraction",
)
def extraction(request: ApiRequest, id: str) -> HttpResponse:
    """``status``: queued, running, done or failed. Visible only to the token that sent the conversation."""
    row = services.get_extraction(id, request.auth.actor)
    if row is None:
        raise Http404
    return json_response(_serialize_extraction(row, services.visible_results(row, request.auth.actor)))


def _serialize_extraction(row: Extraction, results: list[dict[str, Any]]) -> dict[str, Any]:
    notes = row.error.split("; ") if row.error else []
    return _extraction_body(row.uid, row.status, row.extractor, results, notes)


def _extraction_body(
    uid: str | None, status: str, extractor: str, results: list[dict[str, Any]], notes: list[str]
) -> dict[str, Any]:
    return {"id": uid, "status": status, "extractor": extractor, "results": results, "notes": notes}
