"""``/search``, ``/recall``, ``/timeline`` and ``/sessions``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from django.conf import settings
from django.http import Http404, HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, BeforeValidator, Field

from memoryhub.access.policy import Clearance
from memoryhub.api.schemas import EntryShape, ListOf, RecallShape, SearchResults, SessionShape, documented
from memoryhub.audit.journal import record_reveals
from memoryhub.core.pagination import paginate
from memoryhub.core.vocabulary import MemoryType
from memoryhub.http.authentication import READ, AccessParams, ApiRequest, Caller, Limit, PageParams
from memoryhub.http.problems import json_response, list_response
from memoryhub.memories import serializers
from memoryhub.memories.filters import AS_OF, MemoryFilter, TextFilter, Timestamp
from memoryhub.memories.rows import visible_replacements
from memoryhub.memories.schemas import Share
from memoryhub.memories.versions import load_snapshot
from memoryhub.models import Memory, Session
from memoryhub.search.fallback import search_or_correct
from memoryhub.search.hybrid import Hit, SearchMode, search_snapshot
from memoryhub.search.recall import DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS, Ranking
from memoryhub.search.recall import RecallRequest as Wanted
from memoryhub.search.recall import recall_memories as recall
from memoryhub.stats import timeline
from memoryhub.stats.timeline import serialize_entries, sessions_with_counts

router = Router(auth=READ)


class SearchRequest(MemoryFilter, AccessParams):
    query: str = Field(description="Words, a phrase in quotes, or part of a name. Any text is accepted.")
    limit: Limit = Field(default_factory=lambda: settings.MEMORYHUB.search_limit)
    min_score: Share = Field(default_factory=lambda: settings.MEMORYHUB.min_score)
    mode: SearchMode = "hybrid"
    include_superseded: bool = Field(
        False, description="Also return memories that another memory replaces (`superseded_by`)."
    )
    as_of: Timestamp = AS_OF


class HistoryFilter(AccessParams):
    """Filters by project, session and time."""

    type: Annotated[MemoryType | None, BeforeValidator(lambda value: value or None)] = None
    project: TextFilter = None
    session_id: TextFilter = None
    since: Timestamp = None
    until: Timestamp = None

    def filter(self) -> MemoryFilter:
        return MemoryFilter.model_validate(self.model_dump(exclude={"allow_private", "allow_secret"}))


class TimelineRequest(HistoryFilter, PageParams):
    """A page of a timeline."""


class SessionList(AccessParams, PageParams):
    project: TextFilter = None
    since: Timestamp = Field(None, description="Sessions with activity at or after this time.")
    until: Timestamp = Field(None, description="Sessions with activity before this time.")


class OneSession(AccessParams, PageParams):
    project: TextFilter = Field(None, description="Required if several projects have a session with this id.")


class SessionWithTimeline(BaseModel):
    session: SessionShape
    timeline: ListOf[EntryShape]
    other_projects: list[str]


@router.get(
    "/search",
    response=documented(SearchResults),
    tags=["Search and recall"],
    summary="Search memories",
)
def search_by_query(request: ApiRequest, params: Query[SearchRequest]) -> HttpResponse:
    """Returns the best matches first, each with its score and the components of the score."""
    return _search_response(request, params)


@router.post(
    "/search",
    response=documented(SearchResults),
    tags=["Search and recall"],
    summary="Search memories",
)
def search_by_body(request: ApiRequest, params: SearchRequest) -> HttpResponse:
    """Same as GET, for queries that are too long or too private for a URL."""
    return _search_response(request, params)


def _search_response(request: ApiRequest, params: SearchRequest) -> HttpResponse:
    clearance = params.clearance(request.auth)
    options = {name: getattr(params, name) for name in ("limit", "min_score", "mode", "include_superseded")}
    if params.as_of:
        found = search_snapshot(load_snapshot(params, clearance, params.as_of), params.query, **options)
    else:
        found = search_or_correct(
            params.select(clearance), params.query, known=lambda: MemoryFilter().select(clearance), **options
        )
    record_reveals((hit.memory for hit in found.hits), request.auth.actor, "api search")
    return json_response(
        {
            "results": serialize_hits(found.hits, clearance),
            "total": found.total,
            "total_is_exact": found.exact,
            "min_score": params.min_score,
            "mode": found.mode,
            "took_ms": found.took_ms,
            "suggestions": found.suggestions,
            "corrected": found.is_corrected,
            "dense": {
                "configured": settings.MEMORYHUB.embeddings != "none",
                "used": bool(found.model),
                "model": found.model,
                "detail": found.failure or found.note,
            },
        }
    )


def serialize_hits(hits: Sequence[Hit], clearance: Clearance) -> list[dict[str, Any]]:
    """Return search results in the shape of the wire contract, with one query for all their lists."""
    memories = serializers.memories([hit.memory for hit in hits], clearance)
    return [
        {
            "memory": memory,
            "score": hit.score,
            "components": asdict(hit.components),
            "snippet": hit.snippet,
        }
        for hit, memory in zip(hits, memories, strict=True)
    ]


@router.get(
    "/timeline",
    response=documented(ListOf[EntryShape]),
    tags=["Timeline"],
    summary="Get the timeline",
)
def get_timeline(request: ApiRequest, params: Query[TimelineRequest]) -> HttpResponse:
    """Returns memories, events, boundaries, and starts and ends of sessions, newest first.

    With ``type``, only memories.
    """
    return json_response(
        _timeline_page(request.auth, params.clearance(request.auth), params.filter(), params)
    )


@router.get(
    "/sessions",
    response=documented(ListOf[SessionShape]),
    tags=["Timeline"],
    summary="List sessions",
)
def list_sessions(request: ApiRequest, params: Query[SessionList]) -> HttpResponse:
    """Returns the sessions with visible content, most recent first."""
    bounds = {"project": params.project, "last_seen__gte": params.since, "first_seen__lt": params.until}
    sessions = sessions_with_counts(params.clearance(request.auth))
    sessions = sessions.filter(**{name: value for name, value in bounds.items() if value})
    page = paginate(sessions, "last_seen", params.limit, params.cursor)
    return list_response(map(_serialize_session, page.items), sessions.count(), page.next_cursor)


@router.get(
    "/sessions/{path:session_id}",
    response=documented(SessionWithTimeline, errors=(404,)),
    tags=["Timeline"],
    summary="Get a session with its timeline",
)
def get_session(request: ApiRequest, session_id: str, params: Query[OneSession]) -> HttpResponse:
    """Without ``project``, returns the most recent session with this id."""
    clearance = params.clearance(request.auth)
    sessions = sessions_with_counts(clearance).filter(session_id=session_id).order_by("-last_seen", "-pk")
    rows = list(sessions.filter(project=params.project) if params.project else sessions)
    if not rows:
        raise Http404
    chosen, *others = rows
    return json_response(
        {
            "session": _serialize_session(chosen),
            "timeline": _timeline_page(request.auth, clearance, MemoryFilter(), params, chosen),
            "other_projects": [row.project for row in others],
        }
    )


def _timeline_page(
    caller: Caller, clearance: Clearance, within: MemoryFilter, params: PageParams, of: Session | None = None
) -> dict[str, Any]:
    entries, following = timeline.load_timeline(
        clearance, within, limit=params.limit, cursor=params.cursor, of=of
    )
    record_reveals(timeline.timeline_memories(entries), caller.actor, "api session" if of else "api timeline")
    return {
        "items": serialize_entries(entries, clearance),
        "next_cursor": following,
        "total": timeline.count_entries(clearance, within, of=of),
    }


def _serialize_session(row: Session) -> dict[str, Any]:
    return serializers.session(row, memory_count=row.memory_count, event_count=row.event_count)  # type: ignore[attr-defined]


class RecallRequest(MemoryFilter, AccessParams):
    query: str = Field(description="Words, a phrase in quotes, a name or a question. Any text is accepted.")
    max_tokens: Annotated[int, Field(ge=MIN_TOKENS, le=MAX_TOKENS)] = Field(
        DEFAULT_TOKENS, description="Token budget of the whole response."
    )
    ranking: Ranking = Field(
        Ranking.MEMORY_MCP,
        description="memory-mcp: by match, importance, recency and frequency of use. letsgo: as in /search.",
    )
    min_score: Share | None = Field(
        None, description="Minimum score of a match; default: the configured minimum."
    )
    mode: SearchMode = Field("hybrid", description="Requested mode. The response contains the used mode.")
    as_of: Timestamp = AS_OF


@router.post(
    "/recall",
    response=documented(RecallShape),
    tags=["Search and recall"],
    summary="Recall memories within a token budget",
)
def recall_memories(request: ApiRequest, params: RecallRequest) -> HttpResponse:
    """Returns an index of all matches (20 words each) and as many whole memories as ``max_tokens`` allows.

    Each whole memory counts as one access, except with ``as_of``.
    """
    clearance = params.clearance(request.auth)
    memories = load_snapshot(params, clearance, params.as_of) if params.as_of else params.select(clearance)
    asked = Wanted(params.query, params.max_tokens, params.ranking, params.min_score, params.mode)
    actor = request.auth.actor

    def detail(memory: Memory, score: float) -> dict[str, Any]:
        return {**serializers.memory(memory, visible_replacements([memory], clearance)), "score": score}

    return json_response(
        recall(memories, asked, detail, on_shown=lambda shown: record_reveals(shown, actor, "api recall"))
    )
