"""LetsGo's tools: the operations of its memory store and memory guide, and ``delete_fact``."""

from __future__ import annotations

from typing import Annotated, Any

from django.conf import settings
from django.http import Http404
from pydantic import BaseModel, Field, model_validator

from memoryhub import memories as store
from memoryhub import serializers
from memoryhub.audit.reveals import record_reveals
from memoryhub.core.vocabulary import MemoryType, Right
from memoryhub.facts import services
from memoryhub.http.authentication import Caller, FactQuery, Limit, Ratio
from memoryhub.maintenance.operations import summarize_old as operations_summarize_old
from memoryhub.memories.filters import MemoryFilter, TextFilter
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch, Word
from memoryhub.memories.temporal import count_accesses_and_promote
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.hybrid import search_memories as search
from memoryhub.stats import timeline
from memoryhub.toolsets import results
from memoryhub.toolsets.base import (
    Id,
    IdArguments,
    ReadArguments,
    Tool,
    ToolArguments,
    Toolset,
    without_nulls,
)


class GetArguments(ReadArguments):
    id: Id


class FilterArguments(ReadArguments):
    category: TextFilter = Field(None, description="Only memories of this category.")
    type: MemoryType | None = Field(None, description="Only memories of this type.")
    project: TextFilter = Field(None, description="Only memories of this project.")
    session_id: TextFilter = Field(None, description="Only memories of this session.")

    def memories(self, caller: Caller) -> MemoryQuerySet:
        filters = MemoryFilter(
            category=self.category, type=self.type, project=self.project, session_id=self.session_id
        )
        return filters.select(self.clearance(caller))


class SearchArguments(FilterArguments):
    query: str = Field(description="Words, a phrase in quotation marks, a name, a part of one.")
    limit: Limit = Field(default_factory=lambda: settings.MEMORYHUB.search_limit)
    min_score: Ratio = Field(
        default_factory=lambda: settings.MEMORYHUB.min_score,
        description="Nothing below this score, 0 to 1; 0.35 unless configured otherwise.",
    )


class ListArguments(FilterArguments):
    limit: Limit = 50


class FileArguments(ReadArguments):
    path: Annotated[Word, Field(max_length=1000)] = Field(
        description="A path, the end of one, a basename or a directory."
    )
    limit: Limit = 50


class ConceptArguments(ReadArguments):
    concept: Annotated[Word, Field(max_length=100)] = Field(
        description="how-it-works, why-it-exists, what-changed, problem-solution, gotcha, pattern, "
        "trade-off, or another word that was used."
    )
    limit: Limit = 50


class TimelineArguments(ReadArguments):
    limit: Limit = 50
    type: MemoryType | None = Field(None, description="Show memories of this type alone.")
    project: TextFilter = Field(None, description="What happened in this project.")
    session_id: TextFilter = Field(None, description="What happened in this session.")


class FactArguments(ToolArguments, FactQuery):
    limit: Limit = 50


class _NullableTtl(BaseModel):
    """Null means absent, except for ``ttl_days``, where it means never."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, data: Any) -> Any:
        return without_nulls(data, but="ttl_days")


class NewMemory(_NullableTtl, MemoryDraft):
    """The arguments of ``store_memory``."""


class NewFact(FactDraft):
    """The arguments of ``store_fact``. Null means absent."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, data: Any) -> Any:
        return without_nulls(data)


class UpdateArguments(_NullableTtl, MemoryPatch):
    """The arguments of ``update_memory``. ``id`` is not one of the fields to set."""

    id: Id

    @property
    def given(self) -> set[str]:
        return super().given - {"id"}


class SummarizeArguments(ToolArguments):
    older_than_days: Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False)] = Field(
        default_factory=lambda: settings.MEMORYHUB.summarize_older_than_days,
        description="Memories not changed for so many days; 30 unless configured otherwise.",
    )
    min_entries: Annotated[int, Field(ge=2, le=10_000)] = Field(
        default_factory=lambda: settings.MEMORYHUB.summarize_min_entries,
        description="Memories that a category needs for a summary; 5 unless configured otherwise.",
    )


def store_memory(caller: Caller, draft: MemoryDraft) -> dict[str, Any]:
    result = store.create_memory(draft, caller.actor)
    return {"id": result.memory.uid, "outcome": result.outcome, **results.write_warnings(result.memory)}


def search_memories(caller: Caller, args: SearchArguments) -> dict[str, Any]:
    found = search(args.memories(caller), args.query, limit=args.limit, min_score=args.min_score)
    record_reveals((hit.memory for hit in found.hits), caller.actor, "letsgo search_memories")
    memories = serializers.memories(hit.memory for hit in found.hits)
    return {
        "results": [
            {**memory, "score": hit.score, "match": hit.components.match}
            for memory, hit in zip(memories, found.hits, strict=True)
        ]
    }


def list_memories(caller: Caller, args: ListArguments) -> dict[str, Any]:
    found = _newest(args.memories(caller), args.limit)
    record_reveals(found, caller.actor, "letsgo list_memories")
    return {"memories": serializers.memories(found, serializers.preview)}


def get_memory(caller: Caller, args: GetArguments) -> dict[str, Any]:
    live: MemoryQuerySet = Memory.objects.visible_to(args.clearance(caller)).live()
    memory = next(iter(live.filter(uid=args.id)), None)
    if memory is None:
        raise Http404
    record_reveals([memory], caller.actor, "letsgo get_memory")
    count_accesses_and_promote([memory])
    return {"memory": serializers.memories([memory])[0]}


def update_memory(caller: Caller, change: UpdateArguments) -> dict[str, Any]:
    memory, outcome = results.update_with_outcome(change.id, change, caller.actor)
    return {"id": memory.uid, "outcome": outcome, **results.write_warnings(memory)}


def delete_memory(caller: Caller, args: IdArguments) -> dict[str, Any]:
    if not store.trash_memories([args.id], caller.actor):
        raise Http404
    return {"id": args.id, "outcome": "trashed"}


def search_by_file(caller: Caller, args: FileArguments) -> dict[str, Any]:
    found = _newest(MemoryFilter(file=args.path).select(args.clearance(caller)), args.limit)
    record_reveals(found, caller.actor, "letsgo search_by_file")
    return {"results": serializers.memories(found)}


def search_by_concept(caller: Caller, args: ConceptArguments) -> dict[str, Any]:
    found = _newest(MemoryFilter(concept=args.concept).select(args.clearance(caller)), args.limit)
    record_reveals(found, caller.actor, "letsgo search_by_concept")
    return {"results": serializers.memories(found)}


def get_timeline(caller: Caller, args: TimelineArguments) -> dict[str, Any]:
    within = MemoryFilter(type=args.type, project=args.project, session_id=args.session_id)
    entries, _ = timeline.load_timeline(args.clearance(caller), within, limit=args.limit)
    record_reveals(timeline.timeline_memories(entries), caller.actor, "letsgo get_timeline")
    return {"timeline": [serializers.entry(entry) for entry in entries]}


def store_fact(caller: Caller, draft: FactDraft) -> dict[str, Any]:
    result = results.store_fact_with_outcome(draft, caller.actor)
    return {"id": result["id"], "outcome": result["outcome"]}


def query_facts(caller: Caller, args: FactArguments) -> dict[str, Any]:
    return {"facts": [serializers.fact(row) for row in args.facts(caller)[: args.limit]]}


def delete_fact(caller: Caller, args: IdArguments) -> dict[str, Any]:
    services.delete_fact(args.id, caller.actor)
    return {"id": args.id, "outcome": "deleted"}


def purge_expired(caller: Caller, nothing: ToolArguments) -> dict[str, Any]:
    return {"purged": store.purge_expired(caller.actor)}


def summarize_old(caller: Caller, args: SummarizeArguments) -> dict[str, Any]:
    counts = operations_summarize_old.summarise_old(
        caller.actor, older_than_days=args.older_than_days, min_entries=args.min_entries
    )
    return {"summarized": counts.summarised, "created": counts.created}


def _newest(memories: MemoryQuerySet, limit: int) -> list[Memory]:
    return list(memories.order_by("-updated_at", "-pk")[:limit])


_TOOLS: tuple[Tool[Any], ...] = (
    Tool(
        "store_memory",
        "Remember something: a decision, a discovery, what was changed and why. The same content again "
        "refreshes the memory that is there.",
        NewMemory,
        store_memory,
        Right.WRITE,
        idempotent=True,
    ),
    Tool(
        "search_memories",
        "Full-text search, best first: each result with its score and how well it matches.",
        SearchArguments,
        search_memories,
        Right.READ,
    ),
    Tool(
        "list_memories",
        "The newest memories with a preview of each, narrowed by category, type, project or session.",
        ListArguments,
        list_memories,
        Right.READ,
    ),
    Tool("get_memory", "One whole memory by its id; counts an access.", GetArguments, get_memory, Right.READ),
    Tool(
        "update_memory",
        "Change fields of a memory in place; what they were is kept as a revision.",
        UpdateArguments,
        update_memory,
        Right.WRITE,
        idempotent=True,
    ),
    Tool(
        "delete_memory",
        "Move a memory to the trash, from where a person can restore it.",
        IdArguments,
        delete_memory,
        Right.WRITE,
        destructive=True,
    ),
    Tool(
        "search_by_file",
        "Memories about a file or a directory, newest first.",
        FileArguments,
        search_by_file,
        Right.READ,
    ),
    Tool(
        "search_by_concept",
        "Memories of a knowledge category (how-it-works, gotcha, trade-off, …), newest first.",
        ConceptArguments,
        search_by_concept,
        Right.READ,
    ),
    Tool(
        "get_timeline",
        "What happened when, newest first: memories, events, sessions.",
        TimelineArguments,
        get_timeline,
        Right.READ,
    ),
    Tool(
        "store_fact",
        "Store a subject/predicate/object triple; the same one again updates its confidence.",
        NewFact,
        store_fact,
        Right.WRITE,
        idempotent=True,
    ),
    Tool("query_facts", "Facts that fit every part that is given.", FactArguments, query_facts, Right.READ),
    Tool("delete_fact", "Remove a fact.", IdArguments, delete_fact, Right.WRITE, destructive=True),
    Tool(
        "purge_expired",
        "Remove for good the memories that are past their time.",
        ToolArguments,
        purge_expired,
        Right.MAINTAIN,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "summarize_old",
        "Condense old memories of one category into a summary; the originals go to the trash.",
        SummarizeArguments,
        summarize_old,
        Right.MAINTAIN,
        destructive=True,
        idempotent=True,
    ),
)
LETSGO = Toolset("letsgo", "LetsGo's memory store: memories, facts, timeline and upkeep.", _TOOLS)
