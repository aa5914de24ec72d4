"""``/facts``, ``/journal`` and ``/stats``."""

from __future__ import annotations

from dataclasses import asdict, replace

from django.http import HttpResponse
from ninja import Query, Router

from memoryhub import serializers
from memoryhub.api.parameters import Asking, FactList, JournalList
from memoryhub.api.schemas import (
    Ended,
    FactShape,
    JournalShape,
    ListOf,
    Statistics,
    StoredFact,
    VerificationShape,
    documented,
)
from memoryhub.audit import journal
from memoryhub.core.pagination import paginate
from memoryhub.facts import services
from memoryhub.http.authentication import READ, WRITE, ApiRequest
from memoryhub.http.json import json_response
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import JournalEntry
from memoryhub.stats.counts import database_sizes, store_statistics, vector_statistics
from memoryhub.toolsets import results

router = Router()


@router.post(
    "/facts",
    auth=WRITE,
    response={201: StoredFact, **documented(StoredFact)},
    tags=["facts"],
    summary="Store a fact",
)
def store_fact(request: ApiRequest, draft: FactDraft) -> HttpResponse:
    """201 ``created``; 200 ``updated`` when the triple was there: its confidence is now this one."""
    done = results.store_fact_with_outcome(draft, request.auth.actor)
    body = {**done, "ignored": sorted(draft.model_extra or {})}
    return json_response(body, 201 if done["outcome"] == "created" else 200)


@router.get(
    "/facts", auth=READ, response=documented(ListOf[FactShape]), tags=["facts"], summary="Query facts"
)
def query_facts(request: ApiRequest, wanted: Query[FactList]) -> HttpResponse:
    """Facts that fit every filter given, newest first."""
    rows = wanted.facts(request.auth)
    found = paginate(rows, "updated_at", wanted.limit, wanted.cursor)
    return json_response(
        {
            "items": [serializers.fact(row) for row in found.items],
            "next_cursor": found.next_cursor,
            "total": rows.count(),
        }
    )


@router.delete(
    "/facts/{id}",
    auth=WRITE,
    response=documented(Ended, errors=(404,)),
    tags=["facts"],
    summary="Delete a fact",
)
def delete_fact(request: ApiRequest, id: str) -> HttpResponse:
    """Removes it; the journal keeps that it was there."""
    services.delete_fact(id, request.auth.actor)
    return json_response({"outcome": "deleted", "id": id})


@router.get(
    "/journal",
    auth=READ,
    response=documented(ListOf[JournalShape]),
    tags=["journal"],
    summary="Read the journal",
)
def read_journal(request: ApiRequest, wanted: Query[JournalList]) -> HttpResponse:
    """Changes to what the token may see, newest first."""
    rows = JournalEntry.objects.visible_to(wanted.clearance(request.auth))
    rows = rows.between("at", wanted.since, wanted.until)
    named = {name: getattr(wanted, name) for name in ("operation", "object_type", "object_id")}
    rows = rows.filter(**{name: value for name, value in named.items() if value})
    found = paginate(rows, "seq", wanted.limit, wanted.cursor)
    return json_response(
        {
            "items": [journal.to_line(row) for row in found.items],
            "next_cursor": found.next_cursor,
            "total": rows.count(),
        }
    )


@router.get(
    "/journal/verify",
    auth=READ,
    response=documented(VerificationShape),
    tags=["journal"],
    summary="Check the journal's chain",
)
def verify_journal(request: ApiRequest) -> HttpResponse:
    """Recomputes every hash; ``first_bad_seq`` is the first row that is missing or not as it was written.

    ``loss`` names rows that were lost, until an administrator acknowledges that. It is null for a token that
    does not see every level of every project; ``ok`` is false for every token.
    """
    found = journal.verify()
    if not request.auth.actor.clearance.is_whole:
        found = replace(found, loss=None)
    return json_response(asdict(found))


@router.get("/stats", auth=READ, response=documented(Statistics), tags=["stats"], summary="Counts and sizes")
def get_statistics(request: ApiRequest, wanted: Query[Asking]) -> HttpResponse:
    """Counts of what the token may see and asks for; sizes of the whole store."""
    clearance = wanted.clearance(request.auth)
    return json_response(
        {**store_statistics(clearance), **database_sizes(clearance), **vector_statistics(clearance)}
    )
