"""pigo's three tools: memories in three layers and six categories, deduplicated."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, Field

from memoryhub.access.policy import Sensitivity
from memoryhub.audit.journal import record_reveals
from memoryhub.core.pagination import MAX_LIMIT
from memoryhub.core.vocabulary import Right, Scope
from memoryhub.extraction.services import create_by_model
from memoryhub.http.authentication import AccessParams, Caller
from memoryhub.memories import serializers
from memoryhub.memories.evidence import count_accesses_and_promote
from memoryhub.memories.filters import AS_OF, MemoryFilter, TextFilter, Timestamp
from memoryhub.memories.schemas import Content, Labels, Name, PersistentDraft, Text, TtlDays
from memoryhub.memories.versions import load_snapshot
from memoryhub.search.fallback import SimilarMemory, search_earlier, search_with_fallback
from memoryhub.toolsets import base
from memoryhub.toolsets.base import IdArguments, ToolArguments, ToolOutcome, Toolset, unknown_arguments
from memoryhub.transfer.formats.pigo import TYPE_BY_CATEGORY

DEFAULT_TOP_K = 5
Category = Literal["profile", "preferences", "entities", "events", "cases", "patterns"]
_DECISIONS = {
    "created": "CREATE",
    "merged": "MERGE",
    "skipped": "SKIP",
    "refreshed": "SKIP",
    "updated": "MERGE",
}


class RecallArguments(ToolArguments, AccessParams):
    other_names: ClassVar = frozenset({"limit"})

    query: str = Field(description="Search query to find relevant memories.")
    category: Category | None = Field(None, description="Only memories of this category.")
    top_k: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = Field(
        DEFAULT_TOP_K,
        validation_alias=AliasChoices("top_k", "limit"),
        description="Maximum number of memories to return.",
    )
    project: TextFilter = Field(None, description="Only memories of this project.")
    session_id: TextFilter = Field(None, description="Only memories of this session.")
    as_of: Timestamp = AS_OF

    def filter(self) -> MemoryFilter:
        return MemoryFilter(category=self.category, project=self.project, session_id=self.session_id)


class RememberArguments(ToolArguments):
    category: Category = Field(
        description="profile (user identity), preferences (user preferences), entities (named things), "
        "events (things that happened), cases (problem and solution), patterns (reusable processes)."
    )
    content: Content = Field(description="L2: the full detail.")
    abstract: Annotated[Text, Field(max_length=2000)] = Field(
        "", description="L0: one line; default: made from the content."
    )
    overview: Annotated[Text, Field(max_length=20_000)] = Field(
        "", description="L1: a paragraph; default: the abstract."
    )
    tags: Labels = Field(default_factory=list, description="Words to find it by.")
    project: Name = Field("", description="Project it belongs to, such as the name of a repository.")
    scope: Scope = Field(Scope.PROJECT, description="Scope: personal, project or team.")
    sensitivity: Sensitivity = Field(Sensitivity.PUBLIC, description="Level: public, private or secret.")
    session_id: Name = Field("", description="Session in which it was created.")
    ttl_days: TtlDays | None = Field(None, description="Days until it expires; default: never.")


PIGO = Toolset(
    "pigo",
    "pigo's memory: three layers in six categories, deduplicated.",
    recall=("memory_recall", {}),
    remember=("memory_remember", {}),
)


@PIGO.tool(Right.READ)
def memory_recall(caller: Caller, args: RecallArguments) -> dict[str, Any]:
    """Search memories by meaning, or by keywords if that finds nothing. Use it before deciding what may have
    been decided before. Each result has an abstract, an overview and the content, and counts as one access,
    except with as_of.
    """
    clearance = args.clearance(caller)
    if args.as_of:
        found = search_earlier(
            load_snapshot(args.filter(), clearance, args.as_of), args.query, limit=args.top_k
        )
    else:
        known = MemoryFilter().select(clearance)
        memories = args.filter().select(clearance)
        found = search_with_fallback(memories, args.query, limit=args.top_k, known=known)
        count_accesses_and_promote(one.memory for one in found)
    record_reveals((one.memory for one in found), caller.actor, "pigo memory_recall")
    return {"results": [_serialize_found(one) for one in found]}


@PIGO.tool(Right.WRITE, idempotent=True)
def memory_remember(caller: Caller, args: RememberArguments) -> ToolOutcome:
    """Save something worth knowing in later sessions as a long-term memory. Known content is skipped, and
    additions are merged into the existing memory (profile always, events and cases never). The decision
    says which: CREATE, MERGE or SKIP.
    """
    values = {
        name: getattr(args, name) for name in args.model_fields_set & set(RememberArguments.model_fields)
    }
    values |= {"type": TYPE_BY_CATEGORY[args.category], "overview": args.overview or args.abstract}
    draft = PersistentDraft.model_validate(values)
    result = create_by_model(draft, caller.actor)
    layers = {"abstract", "overview"} & args.model_fields_set
    refreshed = result.outcome == "refreshed"  # otherwise, the merge has added to the layers
    ignored = base.merge_repeat(
        result,
        draft,
        caller.actor,
        replaced={"category"} | layers,
        applied={"type", "overview"} - layers if refreshed else {"type", "abstract", "overview"},
    )
    stored = serializers.serialize_written_memory(result, draft, caller.actor)
    decision = "CREATE" if result.revived else _DECISIONS[result.outcome]
    response: dict[str, Any] = {"id": result.memory.uid, "outcome": result.outcome, "decision": decision}
    response |= serializers.write_warnings(result.memory)
    response |= {name: stored[name] for name in ("category", "abstract") if name in stored}
    return ToolOutcome(response, sorted({*ignored, *unknown_arguments(args)}))


@PIGO.tool(Right.WRITE, destructive=True)
def memory_forget(caller: Caller, args: IdArguments) -> dict[str, Any]:
    """Delete a memory by its id, when it is outdated or wrong. A person can restore it from the trash."""
    return base.trash_memory(args.id, caller.actor)


def _serialize_found(result: SimilarMemory) -> dict[str, Any]:
    row = result.memory
    return {
        "id": row.uid,
        "category": row.category,
        "abstract": row.abstract,
        "overview": row.overview or row.abstract,
        "content": row.content,
        "similarity": result.similarity,
        "found_by": result.how.value,
        "accessed_count": row.accessed_count,
        "created_at": serializers.moment(row.created_at),
        "updated_at": serializers.moment(row.updated_at),
    }
