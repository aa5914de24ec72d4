"""Related memories, near-duplicates, and merging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Query, Router
from pydantic import BaseModel, Field

from memoryhub import duplicates
from memoryhub import memories as store
from memoryhub.access.policy import Actor, Clearance
from memoryhub.api.memories import make_etag
from memoryhub.api.schemas import ListOf, MemoryShape, PreviewShape, documented
from memoryhub.audit.journal import record_reveals
from memoryhub.core.pagination import parse_offset
from memoryhub.duplicates import Cluster
from memoryhub.http.authentication import READ, WRITE, AccessParams, ApiRequest, Limit, PageParams
from memoryhub.http.problems import json_response, list_response
from memoryhub.memories import serializers
from memoryhub.memories.filters import TextFilter
from memoryhub.memories.merge import MAX_MERGED
from memoryhub.memories.schemas import Content, Share
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import related

router = Router(tags=["Related memories"])


class RelatedTo(AccessParams):
    limit: Limit = related.MAX_RELATED


class DuplicateList(AccessParams, PageParams):
    project: TextFilter = None
    category: TextFilter = None
    similarity: Share | None = Field(
        None, description="Minimum similarity; default: near_duplicate_similarity."
    )


class MergeRequest(BaseModel):
    others: Annotated[list[str], Field(min_length=1, max_length=MAX_MERGED)] = Field(
        description="Ids of the memories to merge into the one in the path. They are moved to the trash."
    )
    content: Content | None = Field(
        None, description="New content of the remaining memory; default: unchanged."
    )


class RelatedShape(BaseModel):
    """``similarity``: cosine of the vectors, null without vectors. ``reasons``: texts for people."""

    memory: PreviewShape
    score: float
    similarity: float | None
    reasons: list[str]


class RelatedList(ListOf[RelatedShape]):
    """``note``: the sources that were not available."""

    note: str


class NearShape(BaseModel):
    memory: PreviewShape
    similarity: float


class ClusterShape(BaseModel):
    """``keep``: the memory with the highest value. ``why``: the reason.

    ``numbers_differ``: the texts differ in a number or a "not", so check them before merging. ``profile``:
    parts of one profile, which belong together although their contents differ; listed last.
    """

    keep: PreviewShape
    why: str
    similarity: float
    numbers_differ: bool
    profile: bool
    others: list[NearShape]


class ClusterList(ListOf[ClusterShape]):
    """``complete``: all near-duplicates are included; otherwise ``notes`` names what was not compared."""

    complete: bool
    compared: int
    memories: int
    notes: list[str]


class MergedShape(BaseModel):
    """``merge``: the id for ``POST /merges/{id}/undo``."""

    outcome: str
    merge: str
    memory: MemoryShape
    others: list[str]


@router.get(
    "/memories/{id}/related",
    auth=READ,
    response=documented(RelatedList, errors=(404,)),
    summary="List related memories",
)
def get_related(request: ApiRequest, id: str, params: Query[RelatedTo]) -> HttpResponse:
    """Finds related memories by vectors, shared files and labels. Does not count as access."""
    clearance = params.clearance(request.auth)
    memory = get_object_or_404(Memory.objects.visible_to(clearance).live().with_details(), uid=id)
    found = related.find_related(memory, clearance, params.limit)
    record_reveals((one.memory for one in found.items), request.auth.actor, "api related")
    shown = serializers.memories((one.memory for one in found.items), clearance, serializers.preview)
    items = [
        {"memory": row, "score": one.score, "similarity": one.likeness, "reasons": list(one.reasons)}
        for row, one in zip(shown, found.items, strict=True)
    ]
    return list_response(items, note=found.note)


@router.get("/duplicates", auth=READ, response=documented(ClusterList), summary="List near-duplicates")
def list_duplicates(request: ApiRequest, params: Query[DuplicateList]) -> HttpResponse:
    """Returns clusters of memories with nearly the same content, most similar first."""
    start = parse_offset(params.cursor)
    clearance = params.clearance(request.auth)
    memories = Memory.objects.visible_to(clearance).live()
    filters = {name: value for name in ("project", "category") if (value := getattr(params, name))}
    found = duplicates.find_clusters(memories.filter(**filters), clearance, similarity=params.similarity)
    end = start + params.limit
    return list_response(
        _serialize_clusters(found.clusters[start:end], memories, clearance, request.auth.actor),
        len(found.clusters),
        str(end) if end < len(found.clusters) else None,
        complete=found.complete,
        compared=found.compared,
        memories=found.total,
        notes=list(found.notes),
    )


@router.post(
    "/memories/{id}/merge",
    auth=WRITE,
    response=documented(MergedShape, errors=(404, 409)),
    summary="Merge memories",
)
def merge_memories(request: ApiRequest, id: str, body: MergeRequest) -> HttpResponse:
    """Moves the others to the trash. Combines the lists of all and uses the highest level."""
    merge = store.merge_memories(id, body.others, request.auth.actor, content=body.content or "")
    return _merge_response("merged", merge, request.auth.actor)


@router.post(
    "/merges/{id}/undo",
    auth=WRITE,
    response=documented(MergedShape, errors=(404, 409)),
    summary="Undo a merge",
)
def undo_merge(request: ApiRequest, id: str) -> HttpResponse:
    """Restores the merged memories. Returns 409 if one of them has changed since."""
    return _merge_response("undone", store.undo_merge(id, request.auth.actor), request.auth.actor)


def _merge_response(outcome: str, merge: store.MergeResult, actor: Actor) -> HttpResponse:
    memory = Memory.objects.get(pk=merge.memory.pk)
    body = {
        "outcome": outcome,
        "merge": merge.uid,
        "memory": serializers.memories([memory], actor.clearance)[0],
        "others": [other.uid for other in merge.others],
    }
    return json_response(body, headers={"ETag": make_etag(memory)})


def _serialize_clusters(
    clusters: Sequence[Cluster], memories: MemoryQuerySet, clearance: Clearance, actor: Actor
) -> list[dict[str, Any]]:
    """Return clusters with previews of their memories, without memories that are gone meanwhile."""
    params = [pk for one in clusters for pk in (one.keep, *(pk for pk, _ in one.others))]
    rows = list(memories.filter(pk__in=params))
    record_reveals(rows, actor, "api duplicates")
    shown = serializers.memories(rows, clearance, serializers.preview)
    previews = dict(zip((row.pk for row in rows), shown, strict=True))
    items = []
    for one in clusters:
        others = [
            {"memory": previews[pk], "similarity": likeness} for pk, likeness in one.others if pk in previews
        ]
        if one.keep in previews and others:
            likeness = min(other["similarity"] for other in others)
            reasons = {"why": one.why, "numbers_differ": one.differs, "profile": one.by_rule}
            items.append({"keep": previews[one.keep], **reasons, "similarity": likeness, "others": others})
    return items
