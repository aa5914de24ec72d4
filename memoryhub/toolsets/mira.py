"""Mira's tool ``memory`` (remember, recall, forget), with the wording of its document."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sized
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from django.db.models import Q
from django.utils import timezone
from pydantic import BeforeValidator, Field, ValidationError

from memoryhub import memories as store
from memoryhub.access.policy import Sensitivity
from memoryhub.audit.journal import record_reveals
from memoryhub.core.pagination import MAX_LIMIT
from memoryhub.core.vocabulary import MemoryType, Right, Scope
from memoryhub.http.authentication import AccessParams, Caller
from memoryhub.http.problems import Problem, field_error, pydantic_field_errors
from memoryhub.memories import SecretDetected, serializers
from memoryhub.memories.evidence import count_accesses_and_promote
from memoryhub.memories.filters import MemoryFilter, TextFilter, Timestamp
from memoryhub.memories.schemas import (
    MAX_CONTENT,
    Labels,
    MemoryDraft,
    Name,
    PersistentDraft,
    Share,
    TtlDays,
)
from memoryhub.memories.versions import Snapshot, load_snapshot
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.fallback import SimilarMemory, search_earlier, search_with_fallback
from memoryhub.toolsets import base
from memoryhub.toolsets.base import ToolArguments, ToolOutcome, Toolset, int_to_text

DEFAULT_LIMIT = 10
CONFIRMING_SESSIONS = 2  # that remembered a memory; until then it is tentative
_FACT_TYPES = ("preference", "decision", "context")  # the fourth, general, covers all other types
_MAX_SESSION_CHARS = 100
# The arguments that each action uses.
_ARGUMENTS = {
    "remember": frozenset(
        "content key fact_type category confidence scope ttl_days project session_id sensitivity tags".split()
    ),
    "recall": frozenset(
        "query limit fact_type category scope project as_of allow_private allow_secret".split()
    ),
    "forget": frozenset({"id", "hard"}),
}
# Found in every project: team memories, and the reader's own personal ones.
_SHARED_OR_PERSONAL = Q(scope__in=(Scope.TEAM.value, Scope.PERSONAL.value))
_ACTIONS_TEXT = "Must be `remember`, `recall`, or `forget`"
_INVALID_FIELDS = {
    "action": ("Invalid action", _ACTIONS_TEXT),
    "confidence": ("Invalid confidence", "Must be 0.0–1.0"),
    "scope": ("Invalid scope", "Must be `personal`, `project`, or `team`"),
    "fact_type": ("Invalid fact_type", "Must be `preference`, `decision`, `context`, or `general`"),
    "limit": ("Invalid limit", f"Must be a whole number from 1 to {MAX_LIMIT}"),
}


IdText = Annotated[str, BeforeValidator(int_to_text)]


class MemoryArguments(ToolArguments, AccessParams):
    """Arguments of all three actions. Each action checks its required ones."""

    action: Literal["remember", "recall", "forget"] = Field(description="`remember`, `recall`, or `forget`")
    content: Annotated[str, Field(max_length=MAX_CONTENT)] = Field(
        "", description="The factual content to store. Required for remember."
    )
    key: Name = Field("", description="Unique key for upsert (remember), within project, scope and owner.")
    fact_type: Literal["preference", "decision", "context", "general"] = Field(
        "general", description="For remember: sets the type. For recall: filters results by type."
    )
    category: TextFilter = Field(
        None,
        description="Organizational category for grouping. For remember: sets the category. For recall: "
        "filters results by category.",
    )
    confidence: Share = Field(
        0.5, description="0.0–1.0, where it starts; it grows each time another session remembers the same."
    )
    scope: Scope = Field(
        Scope.PROJECT,
        description="personal: the owner's alone; project: that project's; team: shared by all projects. For "
        "recall: filters results by scope, if given.",
    )
    query: str = Field("", description="Search query for semantic similarity. Required for recall.")
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = Field(
        DEFAULT_LIMIT, description="Max results for recall."
    )
    id: IdText = Field("", description="Memory ID to delete. Required for forget.")
    hard: bool = Field(
        False, description="For forget: erase it and its vector. Default: move it to the trash."
    )
    ttl_days: TtlDays | None = Field(None, description="For remember: days until it expires. Default: never.")
    project: Name = Field(
        "",
        description="For remember: the project it belongs to. For recall: this project's memories as well as "
        "the team's, one's own personal ones and those of no project.",
    )
    session_id: Name = Field("", description="The conversation this belongs to: evidence counts sessions.")
    sensitivity: Sensitivity = Field(
        Sensitivity.PUBLIC, description="For remember: public, private or secret."
    )
    tags: Labels = Field(default_factory=list, description="For remember: words to find it by.")
    as_of: Timestamp = Field(
        None, description="For recall: search what was stored at this time, as it was then."
    )


class MiraDraft(PersistentDraft):
    """A draft with Mira's defaults."""

    type: MemoryType = MemoryType.GENERAL


MIRA = Toolset(
    "mira",
    "Mira's memory: remember, recall and forget in scopes, with evidence.",
    recall=("memory", {"action": "recall"}),
    remember=("memory", {"action": "remember"}),
)


def remember(caller: Caller, args: MemoryArguments) -> ToolOutcome:
    caller.require(Right.WRITE)
    _require_value(args.content, "content", "remember")
    draft = _draft(args)
    try:
        result = store.create_memory_in_session(draft, caller.actor, _session_key(caller, args))
    except SecretDetected as refusal:
        errors = [field_error(refusal.field, refusal.message)]
        raise Problem(422, refusal.code, f"Secret detection: {refusal.message}", errors) from None
    # The confidence and the session are evidence.
    ignored = base.merge_repeat(
        result, draft, caller.actor, replaced={"type", "category", "tags"}, applied={"confidence"}
    )
    names = ["fact_type" if name == "type" else name for name in ignored]
    if result.outcome == "created" or result.revived:  # a forgotten memory counts as new
        return ToolOutcome(f"Memory stored successfully with ID: {result.memory.uid}", names)
    return ToolOutcome(f"Memory updated successfully (ID: {result.memory.uid})", names)


def recall(caller: Caller, args: MemoryArguments) -> list[dict[str, Any]]:
    caller.require(Right.READ)
    _require_value(args.query, "query", "recall")
    if args.as_of:
        found = search_earlier(_load_snapshot(caller, args, args.as_of), args.query, limit=args.limit)
    else:
        visible = MemoryFilter().select(args.clearance(caller))
        memories = _filter_memories(visible, args)
        found = search_with_fallback(memories, args.query, limit=args.limit, known=visible)
        count_accesses_and_promote(one.memory for one in found)
    record_reveals((one.memory for one in found), caller.actor, "mira recall")
    sessions = store.count_sessions([one.memory for one in found])
    return [_serialize_found(one, sessions[one.memory.pk]) for one in found]


def forget(caller: Caller, args: MemoryArguments) -> str:
    caller.require(Right.WRITE)
    _require_value(args.id, "id", "forget")
    ids, actor = [args.id], caller.actor
    removed: Sized = store.erase_memories(ids, actor) if args.hard else store.trash_memories(ids, actor)
    return f"Memory {args.id} deleted." if removed else f"Memory {args.id} not found."


def _draft(args: MemoryArguments) -> MemoryDraft:
    """Return a draft of the given values only: an upsert by key leaves the others unchanged."""
    names = "content key category confidence scope project sensitivity tags ttl_days".split()
    values = {name: getattr(args, name) for name in names if name in args.model_fields_set}
    if "fact_type" in args.model_fields_set:
        values["type"] = args.fact_type
    if args.session_id:
        values["session_id"] = args.session_id
    try:
        draft = MiraDraft.model_validate({name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        raise to_argument_problem(error) from None
    # Not part of the upsert: an existing memory keeps its first session.
    draft.model_fields_set.discard("session_id")
    return draft


def _session_key(caller: Caller, args: MemoryArguments) -> str:
    """Return what distinguishes this conversation: its session, or else a day of one token."""
    session = args.session_id or caller.session
    if not session:
        return f"{caller.actor.name} {timezone.now():%Y-%m-%d}"
    if len(session) > _MAX_SESSION_CHARS:  # as generated by MCP clients
        return hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()
    return session


def _filter_memories(memories: MemoryQuerySet, args: MemoryArguments) -> MemoryQuerySet:
    """Apply scopes and filters before any limit."""
    if args.project:
        memories = memories.filter(Q(project__in=(args.project, "")) | _SHARED_OR_PERSONAL)
    if "scope" in args.model_fields_set:
        memories = memories.filter(scope=args.scope.value)
    if args.category:
        memories = memories.filter(category=args.category)
    if "fact_type" not in args.model_fields_set:
        return memories
    if args.fact_type in _FACT_TYPES:
        return memories.filter(type=args.fact_type)
    return memories.exclude(type__in=_FACT_TYPES)


def _load_snapshot(caller: Caller, args: MemoryArguments, moment: datetime) -> Snapshot:
    snapshot = load_snapshot(MemoryFilter(), args.clearance(caller), moment)
    versions = [one for one in snapshot.versions if _matches(one, args)]
    return replace(snapshot, rows=_filter_memories(snapshot.rows, args), versions=versions)


def _matches(version: Memory, args: MemoryArguments) -> bool:
    """Whether an earlier version matches what :func:`_filter_memories` compares."""
    is_shared = version.scope in (Scope.TEAM.value, Scope.PERSONAL.value)
    fact_type = version.type if version.type in _FACT_TYPES else "general"
    given = args.model_fields_set
    return (
        (not args.project or version.project in (args.project, "") or is_shared)
        and ("scope" not in given or version.scope == args.scope.value)
        and (not args.category or version.category == args.category)
        and ("fact_type" not in given or fact_type == args.fact_type)
    )


def _serialize_found(result: SimilarMemory, sessions: int) -> dict[str, Any]:
    row: Memory = result.memory
    return {
        "id": row.uid,
        "content": row.content,
        "similarity": result.similarity,
        "fact_type": row.type if row.type in _FACT_TYPES else "general",
        "category": row.category,
        "confidence": row.confidence,
        "status": "confirmed" if sessions >= CONFIRMING_SESSIONS else "tentative",
        "sessions": sessions,
        "key": row.key,
        "scope": row.scope,
        "project": row.project,
        "found_by": result.how.value,
        "updated_at": serializers.moment(row.updated_at),
    }


def _require_value(value: str, name: str, action: str) -> None:
    if not value.strip():
        raise _problem({name: (f"Missing {name}", f"`{action}` requires `{name}`")}, f"missing_{name}")


def _problem(messages: dict[str, tuple[str, str]], code: str) -> Problem:
    """Return a problem from the title and the hint of each field."""
    detail = "; ".join(f"{title}: {hint}" for title, hint in messages.values())
    # Like the messages of other fields: no backquotes, lower case.
    hints = {name: hint.replace("`", "") for name, (_, hint) in messages.items()}
    errors = [field_error(name, hint[:1].lower() + hint[1:]) for name, hint in hints.items()]
    return Problem(422, code, detail, errors)


def to_argument_problem(error: ValidationError) -> Problem:
    """Return the problem for invalid arguments, in Mira's wording where it has one, naming every field."""
    messages: dict[str, tuple[str, str]] = {}
    for one in pydantic_field_errors(error.errors(include_url=False, include_input=False)):
        name = one["field"].partition(".")[0]
        messages.setdefault(name, _INVALID_FIELDS.get(name, (f"Invalid {name}", one["message"])))
    return _problem(messages, f"invalid_{next(iter(messages))}")


@MIRA.tool(None, destructive=True, refusal=to_argument_problem)
def memory(caller: Caller, args: MemoryArguments) -> ToolOutcome:
    """Manage persistent memories. `remember` stores a fact, decision or preference; the same key updates
    it. `recall` searches by meaning and tolerates misspellings; use it before deciding what may have been
    decided before. `forget` deletes by ID.
    """
    actions: dict[str, Callable[[Caller, MemoryArguments], Any]]
    actions = {"remember": remember, "recall": recall, "forget": forget}
    result = actions[args.action](caller, args)
    outcome = result if isinstance(result, ToolOutcome) else ToolOutcome(result, [])
    unused = args.model_fields_set - {"action"} - _ARGUMENTS[args.action]
    return replace(outcome, ignored=sorted({*outcome.ignored, *unused}))
