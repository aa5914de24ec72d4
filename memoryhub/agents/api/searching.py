"""``/search`` and ``/timeline``, and sessions."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import Http404, HttpResponse
from ninja import Query, Router

from memoryhub import shapes
from memoryhub.agents.api.parameters import OneSession, Paged, SearchRequest, SessionList, TimelineRequest
from memoryhub.agents.api.schemas import (
    EntryShape,
    ListOf,
    SearchResults,
    SessionShape,
    SessionWithTimeline,
    documented,
)
from memoryhub.agents.api.wire import answer
from memoryhub.agents.auth import READ, ApiRequest, Caller
from memoryhub.models import Session
from memoryhub.retrieval import timeline
from memoryhub.retrieval.filters import MemoryFilter
from memoryhub.retrieval.paging import page
from memoryhub.retrieval.search import search
from memoryhub.retrieval.sessions import with_counts
from memoryhub.sensitivity import Clearance
from memoryhub.store.reveals import note_reveals

router = Router()


@router.get("/search", auth=READ, response=documented(SearchResults), tags=["search"], summary="Search")
def search_by_query(request: ApiRequest, wanted: Query[SearchRequest]) -> HttpResponse:
    """The best first, each with its score and what the score is made of."""
    return _search(request, wanted)


@router.post("/search", auth=READ, response=documented(SearchResults), tags=["search"], summary="Search")
def search_by_body(request: ApiRequest, wanted: SearchRequest) -> HttpResponse:
    """The same as GET, for queries that are too long or too private for a URL."""
    return _search(request, wanted)


def _search(request: ApiRequest, wanted: SearchRequest) -> HttpResponse:
    memories = wanted.select(wanted.clearance(request.auth))
    found = search(memories, wanted.query, limit=wanted.limit, min_score=wanted.min_score, mode=wanted.mode)
    note_reveals((hit.memory for hit in found.hits), request.auth.actor, "api search")
    return answer(
        {
            "results": [shapes.hit(hit) for hit in found.hits],
            "total": found.total,
            "total_is_exact": found.exact,
            "mode": found.mode,
            "took_ms": found.took_ms,
            "dense": {
                "configured": settings.MEMORYHUB.embeddings != "none",
                "used": bool(found.model),
                "model": found.model,
                "detail": found.failure or found.note,
            },
        }
    )


@router.get(
    "/timeline",
    auth=READ,
    response=documented(ListOf[EntryShape]),
    tags=["timeline"],
    summary="What happened when",
)
def get_timeline(request: ApiRequest, wanted: Query[TimelineRequest]) -> HttpResponse:
    """Memories, events, boundaries, starts and ends of sessions, newest first; ``type``: memories only."""
    return answer(_timeline(request.auth, wanted.clearance(request.auth), wanted.filter(), wanted))


@router.get(
    "/sessions",
    auth=READ,
    response=documented(ListOf[SessionShape]),
    tags=["timeline"],
    summary="List sessions",
)
def list_sessions(request: ApiRequest, wanted: Query[SessionList]) -> HttpResponse:
    """Sessions with something in them that may be seen, latest first."""
    bounds = {"project": wanted.project, "last_seen__gte": wanted.since, "first_seen__lt": wanted.until}
    sessions = with_counts(wanted.clearance(request.auth))
    sessions = sessions.filter(**{name: value for name, value in bounds.items() if value})
    found = page(sessions, "last_seen", wanted.limit, wanted.cursor)
    return answer(
        {
            "items": [_session(row) for row in found.items],
            "next_cursor": found.next_cursor,
            "total": sessions.count(),
        }
    )


@router.get(
    "/sessions/{path:session_id}",
    auth=READ,
    response=documented(SessionWithTimeline, errors=(404,)),
    tags=["timeline"],
    summary="One session with its timeline",
)
def get_session(request: ApiRequest, session_id: str, wanted: Query[OneSession]) -> HttpResponse:
    """Of several projects' sessions with this id the latest, unless ``project`` is given."""
    clearance = wanted.clearance(request.auth)
    sessions = with_counts(clearance).filter(session_id=session_id).order_by("-last_seen", "-pk")
    rows = list(sessions.filter(project=wanted.project) if wanted.project else sessions)
    if not rows:
        raise Http404
    chosen, *others = rows
    return answer(
        {
            "session": _session(chosen),
            "timeline": _timeline(request.auth, clearance, MemoryFilter(), wanted, chosen),
            "other_projects": [row.project for row in others],
        }
    )


def _timeline(
    caller: Caller, clearance: Clearance, within: MemoryFilter, wanted: Paged, of: Session | None = None
) -> dict[str, Any]:
    entries, following = timeline.timeline(clearance, within, limit=wanted.limit, cursor=wanted.cursor, of=of)
    note_reveals(timeline.memories_of(entries), caller.actor, "api session" if of else "api timeline")
    return {
        "items": [shapes.entry(entry) for entry in entries],
        "next_cursor": following,
        "total": timeline.count(clearance, within, of=of),
    }


def _session(row: Session) -> dict[str, Any]:
    return shapes.session(row, memory_count=row.memory_count, event_count=row.event_count)  # type: ignore[attr-defined]
