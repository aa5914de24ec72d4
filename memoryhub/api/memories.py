"""``/memories``: store, list, read, change, delete, restore, history; related memories and duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.http import parse_etags
from ninja import Query, Router
from pydantic import BaseModel, Field, ValidationError

from memoryhub import duplicates
from memoryhub import memories as store
from memoryhub.access.policy import Actor, Clearance
from memoryhub.api.records import JournalShape
from memoryhub.api.schemas import (
    BatchResults,
    Changed,
    Ended,
    ListOf,
    MemoryShape,
    PreviewShape,
    Stored,
    documented,
)
from memoryhub.audit.journal import record_reveals, to_visible_line
from memoryhub.core.pagination import paginate, parse_offset
from memoryhub.duplicates import Cluster
from memoryhub.extraction.deduplication import create_deduplicated
from memoryhub.http.authentication import READ, WRITE, AccessParams, ApiRequest, Caller, Limit, PageParams
from memoryhub.http.problems import (
    Problem,
    field_error,
    invalid_fields,
    json_response,
    list_response,
    to_problem,
)
from memoryhub.memories import serializers, versions
from memoryhub.memories.evidence import count_accesses_and_promote
from memoryhub.memories.filters import MemoryFilter, Order, TextFilter
from memoryhub.memories.merge import MAX_MERGED
from memoryhub.memories.schemas import Content, MemoryDraft, MemoryPatch, Share
from memoryhub.models import JournalEntry, Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import related
from memoryhub.search.visible_rows import count_rows
from memoryhub.toolsets import base as toolsets_results

router = Router(tags=["Memories"])


class OneMemory(AccessParams):
    trashed: bool = Field(False, description="Look for the memory in the trash.")


class MemoryList(MemoryFilter, AccessParams, PageParams):
    order: Order = "-updated_at"


class RevisionShape(BaseModel):
    number: int
    at: datetime
    actor: str
    reason: str
    sensitivity: str
    before: dict[str, Any]


class History(BaseModel):
    revisions: list[RevisionShape]
    journal: list[JournalShape]


MAX_RATINGS = 100  # of one memory that are searched for one to undo
_ETAG_FORMAT = "%Y%m%dT%H%M%S%f"


class Batch(BaseModel):
    memories: list[Any] = Field(description="At most 1000 items, each like the body of POST /memories.")


class NewMemory(MemoryDraft):
    """A memory to store."""

    deduplicate: bool = Field(
        default=False, description="Compare it with similar memories, then create it, merge it or skip it."
    )


@router.post(
    "/memories",
    auth=WRITE,
    response={201: Stored, **documented(Stored, errors=(409,))},
    summary="Store a memory",
)
def store_memory(request: ApiRequest, draft: NewMemory) -> HttpResponse:
    """Returns 201 with ``created``, or 200 with ``refreshed`` (same content) or ``updated`` (same key).

    With ``deduplicate``, the outcome can also be ``merged`` (it adds to a similar memory) or ``skipped`` (a
    similar memory already contains it); ``memory`` is then that memory. ``warnings`` contains ``over_cap`` if
    the owner has more than ``max_memories`` in the project and too few of them can be moved to the trash.
    """
    store_draft = create_deduplicated if draft.deduplicate else store.create_memory
    result = store_draft(draft, request.auth.actor)
    memory = serializers.serialize_written_memory(result, draft, request.auth.actor)
    body = {"outcome": result.outcome, "memory": memory, "ignored": draft.ignored}
    body |= serializers.write_warnings(result.memory)
    return json_response(
        body, 201 if result.outcome == "created" else 200, {"ETag": make_etag(result.memory)}
    )


@router.post("/memories/batch", auth=WRITE, response=documented(BatchResults), summary="Store many memories")
def store_memories(request: ApiRequest, batch: Batch) -> HttpResponse:
    """Returns one result for each memory, in order. A refused memory does not affect the others."""
    limit = settings.MEMORYHUB.max_batch
    if len(batch.memories) > limit:
        raise invalid_fields([field_error("memories", f"has more than {limit} items; send them in parts")])
    parsed = [_parse_draft(item) for item in batch.memories]
    drafts = [draft for draft in parsed if isinstance(draft, MemoryDraft)]
    stored = iter(store.create_memories(drafts, request.auth.actor))
    results = [next(stored) if isinstance(draft, MemoryDraft) else draft for draft in parsed]
    return json_response({"results": [_serialize_batch_result(result) for result in results]})


@router.get("/memories", auth=READ, response=documented(ListOf[PreviewShape]), summary="List memories")
def list_memories(request: ApiRequest, params: Query[MemoryList]) -> HttpResponse:
    """Returns the memories that match all filters. ``file`` and ``concept`` replace search_by_file and
    search_by_concept.
    """
    memories = params.select(params.clearance(request.auth))
    page = paginate(memories, params.order.removeprefix("-"), params.limit, params.cursor)
    record_reveals(page.items, request.auth.actor, "api list")
    items = serializers.memories(page.items, params.clearance(request.auth), serializers.preview)
    total = count_rows(memories) if params.cursor or page.next_cursor else len(page.items)
    return list_response(items, total, page.next_cursor)


@router.get(
    "/memories/{id}", auth=READ, response=documented(MemoryShape, errors=(404,)), summary="Get a memory"
)
def get_memory(request: ApiRequest, id: str, params: Query[OneMemory]) -> HttpResponse:
    """Returns the whole memory. Counts as one access."""
    memory = _find_memory(id, params, request.auth)
    record_reveals([memory], request.auth.actor, "api")
    if not params.trashed:
        count_accesses_and_promote([memory])
    shown = serializers.memories([memory], params.clearance(request.auth))[0]
    return json_response(shown, headers={"ETag": make_etag(memory)})


@router.patch(
    "/memories/{id}",
    auth=WRITE,
    response=documented(Changed, errors=(404, 409, 412)),
    summary="Update a memory",
    openapi_extra={
        "parameters": [
            {
                "in": "header",
                "name": "If-Match",
                "schema": {"type": "string"},
                "description": "ETag of the version to change. 412 if the memory has changed since.",
            }
        ]
    },
)
def update_memory(request: ApiRequest, id: str, patch: MemoryPatch) -> HttpResponse:
    """Sets the given fields. The previous values are saved as a revision."""
    expected = _expected_version(request, id)
    try:
        memory, outcome = toolsets_results.update_with_outcome(id, patch, request.auth.actor, expected)
    except store.Conflict as conflict:
        if conflict.field == "updated_at":
            raise _precondition_failed() from None
        raise
    if outcome == "unchanged":  # the journal has a row for a change
        record_reveals([memory], request.auth.actor, "api change")
    shown = serializers.serialize_memory(memory, request.auth.actor)
    body = {"outcome": outcome, "memory": shown, "ignored": patch.ignored}
    body |= serializers.write_warnings(memory)
    return json_response(body, headers={"ETag": make_etag(memory)})


@router.delete(
    "/memories/{id}", auth=WRITE, response=documented(Ended, errors=(404,)), summary="Delete a memory"
)
def delete_memory(request: ApiRequest, id: str, hard: bool = False) -> HttpResponse:
    """Moves the memory to the trash. ``hard=true`` erases it; only a hash remains, in the
    stored journal, and no answer shows it."""
    deleted: list[Any] = (store.erase_memories if hard else store.trash_memories)([id], request.auth.actor)
    if not deleted:
        raise Http404
    return json_response({"outcome": "erased" if hard else "trashed", "id": id})


class Rating(BaseModel):
    useful: bool = Field(description="Whether the memory helped when it was last shown to an agent.")


class Rated(BaseModel):
    """``helped_count``: in how many of the ``shown_count`` injections the memory helped."""

    outcome: Literal["shown", "updated", "unchanged", "undone"]
    id: str
    shown_count: int
    helped_count: int


@router.get(
    "/memories/{id}/rating",
    auth=READ,
    response=documented(Rated, errors=(404,)),
    summary="Get the ratings of a memory",
)
def get_rating(request: ApiRequest, id: str, params: Query[OneMemory]) -> HttpResponse:
    """Counts only injections that each reader of the memory may see. Does not count as access."""
    return _rating_response("shown", _find_memory(id, params, request.auth))


@router.post(
    "/memories/{id}/rating",
    auth=WRITE,
    response=documented(Rated, errors=(404, 409)),
    summary="Rate whether a memory helped",
)
def rate_memory(request: ApiRequest, id: str, rating: Rating) -> HttpResponse:
    """Rates the last injection that shows the memory. A later rating replaces this one. Both are journaled.

    Returns 409 if the memory was not shown to an agent yet.
    """
    _find_rated(id, request.auth)
    kind = "useful" if rating.useful else "not_useful"
    return _rated_response(
        store.apply_bulk_action(kind, [id], request.auth.actor), id, "updated", request.auth
    )


@router.delete(
    "/memories/{id}/rating",
    auth=WRITE,
    response=documented(Rated, errors=(404, 409)),
    summary="Undo the last rating",
)
def undo_rating(request: ApiRequest, id: str) -> HttpResponse:
    """Restores the outcome from before the last rating by this token. Returns 404 without one."""
    actor = request.auth.actor
    _find_rated(id, request.auth)
    rows = JournalEntry.objects.filter(
        object_id=id, object_type="memory", operation__in=("rate", "undo_rate")
    )
    found = list(rows.order_by("-seq")[:MAX_RATINGS])
    undone = {row.detail.get("undoes") for row in found}
    own = (row for row in found if row.operation == "rate" and row.actor == actor.name)
    row = next((row for row in own if row.detail.get("act") not in undone), None)
    if row is None:
        raise Http404
    acted = store.undo_bulk_action(row.detail["act"], actor, row.seq, row.seq)
    return _rated_response(acted, id, "undone", request.auth)


def _find_rated(id: str, caller: Caller) -> Memory:
    memory: Memory = get_object_or_404(_writable_memories(caller).live(), uid=id)
    return memory


def _rated_response(acted: store.BulkResult, id: str, outcome: str, caller: Caller) -> HttpResponse:
    if acted.refused:
        raise store.Conflict(acted.refused[0][1], "useful")
    return _rating_response(outcome if acted.done else "unchanged", _find_rated(id, caller))


def _rating_response(outcome: str, memory: Memory) -> HttpResponse:
    counts = {"shown_count": memory.shown_count, "helped_count": memory.helped_count}
    return json_response({"outcome": outcome, "id": memory.uid, **counts})


@router.post(
    "/memories/{id}/restore",
    auth=WRITE,
    response=documented(Changed, errors=(404,)),
    summary="Restore a memory from the trash",
)
def restore_memory(request: ApiRequest, id: str) -> HttpResponse:
    """Also restores an expired memory; its lifetime starts again."""
    restored = store.restore_memories([id], request.auth.actor)
    memory = get_object_or_404(_writable_memories(request.auth).with_details(), uid=id)
    if not restored:
        record_reveals([memory], request.auth.actor, "api restore")
    shown = serializers.serialize_memory(memory, request.auth.actor)
    return json_response({"outcome": "restored" if restored else "unchanged", "memory": shown})


@router.get(
    "/memories/{id}/history",
    auth=READ,
    response=documented(History, errors=(404,)),
    summary="Get the history of a memory",
)
def get_history(request: ApiRequest, id: str, params: Query[OneMemory]) -> HttpResponse:
    """Returns the earlier versions and the journal rows that the token may see, newest first."""
    memory = _find_memory(id, params, request.auth)
    record_reveals([memory], request.auth.actor, "api history")
    clearance = params.clearance(request.auth)
    return json_response(
        {
            "revisions": [serializers.revision(row) for row in versions.visible_revisions(memory, clearance)],
            "journal": [
                to_visible_line(row, request.auth.actor.clearance)
                for row in versions.memory_journal(memory, clearance)
            ],
        }
    )


def make_etag(memory: Memory) -> str:
    """Return an ETag that changes with every change of the memory, but not when it is read."""
    return f'"{memory.updated_at.astimezone(UTC).strftime(_ETAG_FORMAT)}"'


def _expected_version(request: ApiRequest, uid: str) -> datetime | None:
    """Return the ``updated_at`` that If-Match requires; None if it does not matter."""
    required = request.headers.get("If-Match", "").strip()
    if required in ("", "*"):
        return None
    memory: Memory = get_object_or_404(_writable_memories(request.auth), uid=uid)
    # A header that is not an entity tag has no tags, so it never matches: the client asked for protection.
    if make_etag(memory) not in parse_etags(required):
        raise _precondition_failed()
    return memory.updated_at


def _precondition_failed() -> Problem:
    return Problem(412, "precondition_failed", "the memory has changed since that version; read it again")


def _find_memory(uid: str, params: OneMemory, caller: Caller) -> Memory:
    memories = Memory.objects.visible_to(params.clearance(caller))
    memories = memories.trashed() if params.trashed else memories.live()
    memory: Memory = get_object_or_404(memories, uid=uid)
    return memory


def _writable_memories(caller: Caller) -> MemoryQuerySet:
    """Return all memories that the token may see: writes need not ask for levels."""
    return Memory.objects.visible_to(caller.actor.clearance)


def _parse_draft(item: Any) -> MemoryDraft | Problem:
    try:
        return MemoryDraft.model_validate(item)
    except ValidationError as error:
        return to_problem(error)


def _serialize_batch_result(result: store.StoreResult | Exception) -> dict[str, Any]:
    if isinstance(result, store.StoreResult):
        return {
            "outcome": result.outcome,
            "id": result.memory.uid,
            **serializers.write_warnings(result.memory),
        }
    problem = to_problem(result)
    return {"error": {"code": problem.code, "detail": problem.detail, "errors": problem.errors}}


related_router = Router(tags=["Related memories"])


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


@related_router.get(
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


@related_router.get(
    "/duplicates", auth=READ, response=documented(ClusterList), summary="List near-duplicates"
)
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


@related_router.post(
    "/memories/{id}/merge",
    auth=WRITE,
    response=documented(MergedShape, errors=(404, 409)),
    summary="Merge memories",
)
def merge_memories(request: ApiRequest, id: str, body: MergeRequest) -> HttpResponse:
    """Moves the others to the trash. Combines the lists of all and uses the highest level."""
    merge = store.merge_memories(id, body.others, request.auth.actor, content=body.content or "")
    return _merge_response("merged", merge, request.auth.actor)


@related_router.post(
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
