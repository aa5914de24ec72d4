"""``/memories``: store, list, read, change, delete, restore, history."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.http import Http404, HttpResponse
from django.utils.http import parse_etags
from ninja import Query, Router
from pydantic import BaseModel, Field, ValidationError

from memoryhub import memories as store
from memoryhub import serializers
from memoryhub.api.parameters import MemoryList, OneMemory
from memoryhub.api.schemas import (
    BatchResults,
    Changed,
    Ended,
    History,
    ListOf,
    MemoryShape,
    PreviewShape,
    Stored,
    documented,
)
from memoryhub.audit.journal import as_line
from memoryhub.audit.reveals import note_reveals
from memoryhub.core.pagination import page
from memoryhub.extraction.deduplication import remember_deduplicated
from memoryhub.http.authentication import READ, WRITE, ApiRequest, Caller
from memoryhub.http.error_responses import problem_of
from memoryhub.http.json import answer
from memoryhub.http.problems import Problem, field_error, invalid
from memoryhub.memories import history
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.memories.temporal import count_access
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.toolsets import results as toolsets_results

router = Router(tags=["memory"])
_ETAG_FORMAT = "%Y%m%dT%H%M%S%f"


class Batch(BaseModel):
    memories: list[Any] = Field(description="At most 1000, each like the body of POST /memories.")


class NewMemory(MemoryDraft):
    """A memory to be stored, and how."""

    deduplicate: bool = Field(
        default=False,
        description="Compare it with memories that are nearly the same: merged, skipped or created.",
    )


@router.post(
    "/memories",
    auth=WRITE,
    response={201: Stored, **documented(Stored, errors=(409,))},
    summary="Store a memory",
)
def store_memory(request: ApiRequest, draft: NewMemory) -> HttpResponse:
    """201 ``created``; 200 ``refreshed`` for the same content, ``updated`` for the same key.

    With ``deduplicate`` also 200 ``merged`` into a memory that it adds to, or ``skipped`` because all is
    known; ``memory`` is that memory then. ``warnings`` has ``over_cap`` when its owner has more than
    ``max_memories`` in the project and too few of them may be moved to the trash.
    """
    keep = remember_deduplicated if draft.deduplicate else store.remember
    done = keep(draft, request.auth.actor)
    shown = toolsets_results.written_memory(done, draft, request.auth.actor)
    body = {"outcome": done.outcome, "memory": shown, "ignored": draft.ignored}
    body |= toolsets_results.warnings(done.memory)
    return answer(body, 201 if done.outcome == "created" else 200, {"ETag": etag(done.memory)})


@router.post("/memories/batch", auth=WRITE, response=documented(BatchResults), summary="Store many memories")
def store_memories(request: ApiRequest, batch: Batch) -> HttpResponse:
    """One result for each, in order; one that is refused does not lose the others."""
    most = settings.MEMORYHUB.max_batch
    if len(batch.memories) > most:
        raise invalid([field_error("memories", f"holds more than {most}; send them in parts")])
    read = [_draft(item) for item in batch.memories]
    drafts = [draft for draft in read if isinstance(draft, MemoryDraft)]
    done = iter(store.remember_many(drafts, request.auth.actor))
    results = [next(done) if isinstance(draft, MemoryDraft) else draft for draft in read]
    return answer({"results": [_batch_result(result) for result in results]})


@router.get("/memories", auth=READ, response=documented(ListOf[PreviewShape]), summary="List memories")
def list_memories(request: ApiRequest, wanted: Query[MemoryList]) -> HttpResponse:
    """By any of the filters together; ``file`` is search_by_file, ``concept`` is search_by_concept."""
    memories = wanted.select(wanted.clearance(request.auth))
    found = page(memories, wanted.order.removeprefix("-"), wanted.limit, wanted.cursor)
    note_reveals(found.items, request.auth.actor, "api list")
    return answer(
        {
            "items": serializers.memories(found.items, serializers.preview),
            "next_cursor": found.next_cursor,
            "total": memories.count(),
        }
    )


@router.get(
    "/memories/{id}", auth=READ, response=documented(MemoryShape, errors=(404,)), summary="Read a memory"
)
def get_memory(request: ApiRequest, id: str, wanted: Query[OneMemory]) -> HttpResponse:
    """The whole memory; counts one access."""
    memory = _find(id, wanted, request.auth)
    note_reveals([memory], request.auth.actor, "api")
    if not wanted.trashed:
        count_access([memory])
    [shown] = serializers.memories([memory])
    return answer(shown, headers={"ETag": etag(memory)})


@router.patch(
    "/memories/{id}",
    auth=WRITE,
    response=documented(Changed, errors=(404, 409, 412)),
    summary="Change a memory",
    openapi_extra={
        "parameters": [
            {
                "in": "header",
                "name": "If-Match",
                "schema": {"type": "string"},
                "description": "The ETag that the change starts from; 412 if someone else was quicker.",
            }
        ]
    },
)
def update_memory(request: ApiRequest, id: str, patch: MemoryPatch) -> HttpResponse:
    """Sets the fields that are given; what they were becomes a revision."""
    expected = _expected(request, id)
    try:
        memory, outcome = toolsets_results.update_memory(id, patch, request.auth.actor, expected)
    except store.Conflict as conflict:
        if conflict.field == "updated_at":
            raise _outdated() from None
        raise
    if outcome == "unchanged":  # a change has a row of its own
        note_reveals([memory], request.auth.actor, "api change")
    body = {"outcome": outcome, "memory": serializers.memory(memory), "ignored": patch.ignored}
    body |= toolsets_results.warnings(memory)
    return answer(body, headers={"ETag": etag(memory)})


@router.delete(
    "/memories/{id}", auth=WRITE, response=documented(Ended, errors=(404,)), summary="Delete a memory"
)
def delete_memory(request: ApiRequest, id: str, hard: bool = False) -> HttpResponse:
    """To the trash; ``hard=true`` erases it so that nothing but a hash in the journal is left."""
    done: list[Any] = (store.erase if hard else store.trash)([id], request.auth.actor)
    if not done:
        raise Http404
    return answer({"outcome": "erased" if hard else "trashed", "id": id})


@router.post(
    "/memories/{id}/restore",
    auth=WRITE,
    response=documented(Changed, errors=(404,)),
    summary="Take a memory out of the trash",
)
def restore_memory(request: ApiRequest, id: str) -> HttpResponse:
    """Revives an expired memory too; its time begins anew."""
    restored = store.restore([id], request.auth.actor)
    memory = _reach(request.auth).filter(uid=id).with_details().first()
    if memory is None:
        raise Http404
    if not restored:
        note_reveals([memory], request.auth.actor, "api restore")
    return answer({"outcome": "restored" if restored else "unchanged", "memory": serializers.memory(memory)})


@router.get(
    "/memories/{id}/history",
    auth=READ,
    response=documented(History, errors=(404,)),
    summary="What became of it",
)
def get_history(request: ApiRequest, id: str, wanted: Query[OneMemory]) -> HttpResponse:
    """Earlier versions and journal rows, newest first, as far as the token may see them."""
    memory = _find(id, wanted, request.auth)
    note_reveals([memory], request.auth.actor, "api history")
    clearance = wanted.clearance(request.auth)
    return answer(
        {
            "revisions": [serializers.revision(row) for row in history.revisions(memory, clearance)],
            "journal": [as_line(row) for row in history.journal_of(memory, clearance)],
        }
    )


def etag(memory: Memory) -> str:
    """Changes with each change of the memory, and not when it is read."""
    return f'"{memory.updated_at.astimezone(UTC).strftime(_ETAG_FORMAT)}"'


def _expected(request: ApiRequest, uid: str) -> datetime | None:
    """The ``updated_at`` that If-Match stands for; ``None`` where it does not matter."""
    tags = parse_etags(request.headers.get("If-Match", ""))
    if not tags or tags == ["*"]:
        return None
    memory: Memory | None = _reach(request.auth).filter(uid=uid).first()
    if memory is None:
        raise Http404
    if etag(memory) not in tags:
        raise _outdated()
    return memory.updated_at


def _outdated() -> Problem:
    return Problem(412, "precondition_failed", "the memory was changed since that version; read it again")


def _find(uid: str, wanted: OneMemory, caller: Caller) -> Memory:
    memories: MemoryQuerySet = Memory.objects.visible_to(wanted.clearance(caller)).filter(uid=uid)
    memories = memories.trashed() if wanted.trashed else memories.live()
    memory: Memory | None = next(iter(memories), None)
    if memory is None:
        raise Http404
    return memory


def _reach(caller: Caller) -> MemoryQuerySet:
    """All that the token may see: writes need not ask."""
    memories: MemoryQuerySet = Memory.objects.visible_to(caller.actor.clearance)
    return memories


def _draft(item: Any) -> MemoryDraft | Problem:
    try:
        return MemoryDraft.model_validate(item)
    except ValidationError as error:
        return problem_of(error)


def _batch_result(result: store.Outcome | Exception) -> dict[str, Any]:
    if isinstance(result, store.Outcome):
        return {
            "outcome": result.outcome,
            "id": result.memory.uid,
            **toolsets_results.warnings(result.memory),
        }
    problem = problem_of(result)
    return {"error": {"code": problem.code, "detail": problem.detail, "errors": problem.errors}}
