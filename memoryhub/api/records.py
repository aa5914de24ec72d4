"""``/facts``, ``/journal`` and ``/stats``."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel

from memoryhub.api.schemas import Ended, FactShape, ListOf, Statistics, StoredFact, documented
from memoryhub.audit import journal
from memoryhub.core.pagination import paginate
from memoryhub.facts import services
from memoryhub.http.authentication import READ, WRITE, AccessParams, ApiRequest, FactQuery, PageParams
from memoryhub.http.problems import json_response, list_response
from memoryhub.memories import serializers
from memoryhub.memories.filters import TextFilter, Timestamp
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import JournalEntry
from memoryhub.stats.counts import database_sizes, store_statistics, vector_statistics
from memoryhub.toolsets import base

router = Router()


class FactList(FactQuery, PageParams):
    """A page of facts."""


class JournalList(AccessParams, PageParams):
    operation: TextFilter = None
    object_type: TextFilter = None
    object_id: TextFilter = None
    since: Timestamp = None
    until: Timestamp = None


class Asking(AccessParams):  # the name is part of the OpenAPI document
    """The levels to include besides public. The token needs clearance for them."""


class JournalShape(BaseModel):
    seq: int | None  # null, like the hash, for tokens that do not see every row
    at: datetime
    actor: str
    operation: str
    object_type: str
    object_id: str
    detail: dict[str, Any]
    hash: str | None


class LossShape(BaseModel):
    recorded_in: int
    first_seq: int
    last_seq: int
    rows: int
    files: list[str]


class VerificationShape(BaseModel):
    ok: bool
    rows: int | None  # null, like all below, for tokens that do not see every row
    first_bad_seq: int | None
    loss: LossShape | None


@router.post(
    "/facts",
    auth=WRITE,
    response={201: StoredFact, **documented(StoredFact)},
    tags=["Facts"],
    summary="Store a fact",
)
def store_fact(request: ApiRequest, draft: FactDraft) -> HttpResponse:
    """Returns 201 with ``created``, or 200 with ``updated`` after a change of the confidence."""
    stored = base.store_fact_with_outcome(draft, request.auth.actor)
    body = {**stored, "ignored": sorted(draft.model_extra or {})}
    return json_response(body, 201 if stored["outcome"] == "created" else 200)


@router.get(
    "/facts", auth=READ, response=documented(ListOf[FactShape]), tags=["Facts"], summary="Query facts"
)
def query_facts(request: ApiRequest, params: Query[FactList]) -> HttpResponse:
    """Returns the facts that match all filters, newest first."""
    rows = params.facts(request.auth)
    page = paginate(rows, "updated_at", params.limit, params.cursor)
    return list_response(map(serializers.fact, page.items), rows.count(), page.next_cursor)


@router.delete(
    "/facts/{id}",
    auth=WRITE,
    response=documented(Ended, errors=(404,)),
    tags=["Facts"],
    summary="Delete a fact",
)
def delete_fact(request: ApiRequest, id: str) -> HttpResponse:
    """Deletes the fact. The journal records the deletion."""
    services.delete_fact(id, request.auth.actor)
    return json_response({"outcome": "deleted", "id": id})


@router.get(
    "/journal",
    auth=READ,
    response=documented(ListOf[JournalShape]),
    tags=["Journal and statistics"],
    summary="List journal entries",
)
def read_journal(request: ApiRequest, params: Query[JournalList]) -> HttpResponse:
    """Returns the changes that the token may see, newest first.

    ``seq`` and ``hash`` are null for a token that does not see every level of every project.
    """
    rows = JournalEntry.objects.visible_to(params.clearance(request.auth))
    rows = rows.between("at", params.since, params.until)
    filters = {name: getattr(params, name) for name in ("operation", "object_type", "object_id")}
    rows = rows.filter(**{name: value for name, value in filters.items() if value})
    page = paginate(rows, "seq", params.limit, params.cursor)
    items = [journal.to_visible_line(row, request.auth.actor.clearance) for row in page.items]
    return list_response(items, rows.count(), page.next_cursor)


@router.get(
    "/journal/verify",
    auth=READ,
    response=documented(VerificationShape),
    tags=["Journal and statistics"],
    summary="Verify the journal",
)
def verify_journal(request: ApiRequest) -> HttpResponse:
    """Recomputes every hash. ``first_bad_seq`` is the first row that is missing or was changed.

    ``loss`` describes lost rows until an administrator acknowledges the loss; ``ok`` is false until then.
    All but ``ok`` is null for a token that does not see every level of every project.
    """
    result = asdict(journal.verify())
    if not request.auth.actor.clearance.is_whole:
        result = {name: value if name == "ok" else None for name, value in result.items()}
    return json_response(result)


@router.get(
    "/stats",
    auth=READ,
    response=documented(Statistics),
    tags=["Journal and statistics"],
    summary="Get statistics",
)
def get_statistics(request: ApiRequest, params: Query[Asking]) -> HttpResponse:
    """Returns counts of the requested levels that the token may see, and the sizes of the store.

    The sizes are null for a token that does not see every level of every project.
    """
    clearance = params.clearance(request.auth)
    sizes = database_sizes(request.auth.actor.clearance)
    return json_response({**store_statistics(clearance), **vector_statistics(clearance), **sizes})
