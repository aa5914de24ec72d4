"""LetsGo's tools: the operations of its memory store and memory guide, and ``delete_fact``."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from django.conf import settings
from django.shortcuts import get_object_or_404
from pydantic import BaseModel, Field, model_validator

from memoryhub import memories as store
from memoryhub.audit.journal import record_reveals
from memoryhub.core.vocabulary import MemoryType, Right
from memoryhub.facts import services
from memoryhub.http.authentication import Caller, FactQuery, Limit
from memoryhub.maintenance.operations.summarize_old import summarise_old
from memoryhub.memories import serializers
from memoryhub.memories.evidence import count_accesses_and_promote
from memoryhub.memories.filters import AS_OF, MemoryFilter, TextFilter, Timestamp
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch, Share, Word
from memoryhub.memories.versions import load_snapshot
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.hybrid import search_memories as search
from memoryhub.search.hybrid import search_snapshot
from memoryhub.stats import timeline
from memoryhub.stats.timeline import serialize_entries
from memoryhub.toolsets import base
from memoryhub.toolsets.base import (
    Id,
    IdArguments,
    ReadArguments,
    ToolArguments,
    ToolOutcome,
    Toolset,
    without_nulls,
)

_NEWEST_FIRST = "-updated_at"
# Arguments of LetsGo's own tool whose names differ here.
_UPSTREAM_NAMES = {
    "file_path": "path",
    "object_value": "object",
    "source_entry_id": "memory_id",
    "memory_id": "id",
    "fact_id": "id",
    "max_age_days": "older_than_days",
}


class UpstreamNames(BaseModel):
    """Accepts the argument names of LetsGo's own tool where this tool has no argument of that name."""

    other_names: ClassVar = frozenset(_UPSTREAM_NAMES)

    @model_validator(mode="before")
    @classmethod
    def _rename(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        renamed = {
            name: new
            for name, new in _UPSTREAM_NAMES.items()
            if name not in cls.model_fields and new in cls.model_fields and new not in data
        }
        return {renamed.get(name, name): value for name, value in data.items()}


class GetArguments(UpstreamNames, ReadArguments):
    id: Id


class FilterArguments(ReadArguments):
    category: TextFilter = Field(None, description="Only memories of this category.")
    type: MemoryType | None = Field(None, description="Only memories of this type.")
    project: TextFilter = Field(None, description="Only memories of this project.")
    session_id: TextFilter = Field(None, description="Only memories of this session.")

    def filter(self) -> MemoryFilter:
        return MemoryFilter(
            category=self.category, type=self.type, project=self.project, session_id=self.session_id
        )


class SearchArguments(FilterArguments):
    query: str = Field(description="Words, a phrase in quotation marks, or part of a name.")
    limit: Limit = Field(default_factory=lambda: settings.MEMORYHUB.search_limit)
    min_score: Share = Field(
        default_factory=lambda: settings.MEMORYHUB.min_score,
        description="Minimum score, 0 to 1; default: 0.35 unless configured otherwise.",
    )
    as_of: Timestamp = AS_OF


class ListArguments(FilterArguments):
    limit: Limit = 50
    offset: Annotated[int, Field(ge=0, le=1_000_000_000)] = Field(
        0, description="Number of memories to skip."
    )


class FileArguments(UpstreamNames, ReadArguments):
    path: Annotated[Word, Field(max_length=1000)] = Field(
        description="A path, the end of one, a basename or a directory."
    )
    limit: Limit = 50


class ConceptArguments(ReadArguments):
    concept: Annotated[Word, Field(max_length=100)] = Field(
        description="how-it-works, why-it-exists, what-changed, problem-solution, gotcha, pattern, "
        "trade-off, or another concept."
    )
    limit: Limit = 50


class TimelineArguments(ReadArguments):
    limit: Limit = 50
    type: MemoryType | None = Field(None, description="Only memories of this type.")
    project: TextFilter = Field(None, description="Only entries of this project.")
    session_id: TextFilter = Field(None, description="Only entries of this session.")


class FactArguments(UpstreamNames, ToolArguments, FactQuery):
    limit: Limit = 50


class _NullableTtl(BaseModel):
    """Null means absent, except for ``ttl_days``, where it means never."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, data: Any) -> Any:
        return without_nulls(data, keep="ttl_days")


class NewMemory(_NullableTtl, MemoryDraft):
    """The arguments of ``store_memory``."""


class NewFact(UpstreamNames, FactDraft):
    """The arguments of ``store_fact``. Null means absent."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, data: Any) -> Any:
        return without_nulls(data)


class UpdateArguments(UpstreamNames, _NullableTtl, MemoryPatch):
    """The arguments of ``update_memory``. ``id`` is not one of the fields to set."""

    id: Id

    @property
    def given(self) -> set[str]:
        return super().given - {"id"}


class TargetArguments(UpstreamNames, IdArguments):
    """The arguments of the tools that delete."""


class SummarizeArguments(UpstreamNames, ToolArguments):
    older_than_days: Annotated[float, Field(ge=0, le=36_500, allow_inf_nan=False)] = Field(
        default_factory=lambda: settings.MEMORYHUB.summarize_older_than_days,
        description="Minimum number of days since the last change; default: 30 unless configured otherwise.",
    )
    min_entries: Annotated[int, Field(ge=2, le=10_000)] = Field(
        default_factory=lambda: settings.MEMORYHUB.summarize_min_entries,
        description="Minimum number of memories in a category; default: 5 unless configured otherwise.",
    )


LETSGO = Toolset(
    "letsgo",
    "LetsGo's memory store: memories, facts, timeline and maintenance.",
    recall=("search_memories", {}),
    remember=("store_memory", {}),
)


@LETSGO.tool(Right.WRITE, idempotent=True)
def store_memory(caller: Caller, draft: NewMemory) -> ToolOutcome:
    """Store knowledge for later sessions: a decision, a discovery, a fix, or a change and its reason. Do not
    store what files or their history already say. Storing the same content again refreshes the memory, adds
    list items and may raise the importance.
    """
    result = store.create_memory(draft, caller.actor)
    ignored = base.merge_repeat(result, draft, caller.actor)
    answer = {"id": result.memory.uid, "outcome": result.outcome, **serializers.write_warnings(result.memory)}
    return ToolOutcome(answer, sorted({*ignored, *draft.ignored}))


@LETSGO.tool(Right.READ)
def search_memories(caller: Caller, args: SearchArguments) -> dict[str, Any]:
    """Search memories by words. Use it before deciding what may have been decided before, and when a task
    sounds familiar. Returns whole memories, best matches first, each with its score. Weaker matches than
    min_score are left out.
    """
    clearance = args.clearance(caller)
    options: dict[str, Any] = {"limit": args.limit, "min_score": args.min_score}
    if args.as_of:
        found = search_snapshot(load_snapshot(args.filter(), clearance, args.as_of), args.query, **options)
    else:
        found = search(args.filter().select(clearance), args.query, **options)
    record_reveals((hit.memory for hit in found.hits), caller.actor, "letsgo search_memories")
    memories = serializers.memories((hit.memory for hit in found.hits), clearance)
    return {
        "results": [
            {**memory, "score": hit.score, "match": hit.components.match}
            for memory, hit in zip(memories, found.hits, strict=True)
        ],
        "total": found.total,
        "order": "-score",
        "min_score": args.min_score,
    }


@LETSGO.tool(Right.READ)
def list_memories(caller: Caller, args: ListArguments) -> dict[str, Any]:
    """List the newest memories with previews, to browse without a search. Filter by category, type, project
    or session. Continue with offset while has_more is true; get_memory returns the whole text.
    """
    found = _newest(args.filter().select(args.clearance(caller)), args.limit + 1, args.offset)
    page = found[: args.limit]
    record_reveals(page, caller.actor, "letsgo list_memories")
    previews = serializers.memories(page, args.clearance(caller), serializers.preview)
    return {"memories": previews, "has_more": len(found) > args.limit, "order": _NEWEST_FIRST}


@LETSGO.tool(Right.READ)
def get_memory(caller: Caller, args: GetArguments) -> dict[str, Any]:
    """Get one whole memory by its id, for example after list_memories. Counts as one access."""
    memory = get_object_or_404(Memory.objects.visible_to(args.clearance(caller)).live(), uid=args.id)
    record_reveals([memory], caller.actor, "letsgo get_memory")
    count_accesses_and_promote([memory])
    return {"memory": serializers.memories([memory], args.clearance(caller))[0]}


@LETSGO.tool(Right.WRITE, idempotent=True)
def update_memory(caller: Caller, change: UpdateArguments) -> dict[str, Any]:
    """Correct or complete a memory: set its content, metadata or tags. Fields that are not given stay. The
    previous values are saved as a revision.
    """
    memory, outcome = base.update_with_outcome(change.id, change, caller.actor)
    return {"id": memory.uid, "outcome": outcome, **serializers.write_warnings(memory)}


@LETSGO.tool(Right.WRITE, destructive=True)
def delete_memory(caller: Caller, args: TargetArguments) -> dict[str, Any]:
    """Delete a memory that is wrong or outdated. It moves to the trash, where a person can restore it."""
    return base.trash_memory(args.id, caller.actor)


@LETSGO.tool(Right.READ)
def search_by_file(caller: Caller, args: FileArguments) -> dict[str, Any]:
    """List memories about a file or a directory, newest first. Use it before you change a file."""
    return _list_newest(caller, args, MemoryFilter(file=args.path), "search_by_file")


@LETSGO.tool(Right.READ)
def search_by_concept(caller: Caller, args: ConceptArguments) -> dict[str, Any]:
    """List memories about one kind of knowledge (how-it-works, gotcha, trade-off, …), newest first."""
    return _list_newest(caller, args, MemoryFilter(concept=args.concept), "search_by_concept")


@LETSGO.tool(Right.READ)
def get_timeline(caller: Caller, args: TimelineArguments) -> dict[str, Any]:
    """List memories, events and sessions in order of time, newest first, to see what happened recently."""
    within = MemoryFilter(type=args.type, project=args.project, session_id=args.session_id)
    entries, _ = timeline.load_timeline(args.clearance(caller), within, limit=args.limit)
    record_reveals(timeline.timeline_memories(entries), caller.actor, "letsgo get_timeline")
    return {"timeline": serialize_entries(entries, args.clearance(caller))}


@LETSGO.tool(Right.WRITE, idempotent=True)
def store_fact(caller: Caller, draft: NewFact) -> dict[str, Any]:
    """Store a short fact as a subject, predicate and object, such as hub / runs on / port 8000. Storing it
    again updates its confidence.
    """
    result = base.store_fact_with_outcome(draft, caller.actor)
    return {"id": result["id"], "outcome": result["outcome"]}


@LETSGO.tool(Right.READ)
def query_facts(caller: Caller, args: FactArguments) -> dict[str, Any]:
    """List the facts that hold now and match all given filters, newest first."""
    return {"facts": [serializers.fact(row) for row in args.facts(caller)[: args.limit]]}


@LETSGO.tool(Right.WRITE, destructive=True)
def delete_fact(caller: Caller, args: TargetArguments) -> dict[str, Any]:
    """Delete a fact that is wrong. To replace it, delete it and store the new one."""
    services.delete_fact(args.id, caller.actor)
    return {"id": args.id, "outcome": "deleted"}


@LETSGO.tool(Right.WRITE, destructive=True, idempotent=True)
def purge_expired(caller: Caller, nothing: ToolArguments) -> dict[str, Any]:
    """Delete expired memories permanently. Searches leave them out already; use it only to free space."""
    return {"purged": store.purge_expired(caller.actor)}


@LETSGO.tool(Right.WRITE, destructive=True, idempotent=True)
def summarize_old(caller: Caller, args: SummarizeArguments) -> dict[str, Any]:
    """Condense old memories: each category gets one summary, and the originals move to the trash."""
    counts = summarise_old(caller.actor, older_than_days=args.older_than_days, min_entries=args.min_entries)
    return {"summarized": counts.summarised, "created": counts.created}


def _list_newest(
    caller: Caller, args: FileArguments | ConceptArguments, filters: MemoryFilter, tool: str
) -> dict[str, Any]:
    clearance = args.clearance(caller)
    found = _newest(filters.select(clearance), args.limit + 1)
    page = found[: args.limit]
    record_reveals(page, caller.actor, f"letsgo {tool}")
    return {
        "results": serializers.memories(page, clearance),
        "has_more": len(found) > args.limit,
        "order": _NEWEST_FIRST,
    }


def _newest(memories: MemoryQuerySet, limit: int, offset: int = 0) -> list[Memory]:
    return list(memories.order_by(_NEWEST_FIRST, "-pk")[offset : offset + limit])


class OperationArguments(ToolArguments):
    """The arguments of ``memory``: the operation, and the arguments of the tool of that name."""

    other_names: ClassVar = frozenset(_UPSTREAM_NAMES).union(
        *(tool.input_schema["properties"] for tool in LETSGO.tools)
    )

    operation: Literal[tuple(tool.name for tool in LETSGO.tools)] = Field(  # type: ignore[valid-type]
        description="The tool to run."
    )


@LETSGO.tool(None, destructive=True)
def memory(caller: Caller, args: OperationArguments) -> ToolOutcome:
    """Run one of the other tools: name it in operation and put its arguments next to operation."""
    [tool] = [tool for tool in LETSGO.tools if tool.name == args.operation]
    return tool.run(caller, args.model_extra or {})
