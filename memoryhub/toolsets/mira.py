"""Mira's one tool, ``memory``: remember, recall, forget; in the words of its document."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Annotated, Any, Literal, NoReturn

from django.db.models import Q
from django.utils import timezone
from pydantic import BeforeValidator, Field, ValidationError

from memoryhub import memories as store
from memoryhub import serializers
from memoryhub.access.policy import Sensitivity
from memoryhub.audit.reveals import record_reveals
from memoryhub.core.pagination import MAX_LIMIT
from memoryhub.core.vocabulary import MemoryType, Right, Scope
from memoryhub.http.authentication import AccessParams, Caller
from memoryhub.http.problems import Problem, field_error, pydantic_field_errors
from memoryhub.memories import NotFound, SecretDetected
from memoryhub.memories.filters import MemoryFilter, TextFilter
from memoryhub.memories.schemas import MAX_CONTENT, Labels, MemoryDraft, MemoryPatch, Name
from memoryhub.memories.temporal import count_accesses_and_promote
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.fallback import SimilarMemory, search_with_fallback
from memoryhub.toolsets.base import Tool, ToolArguments, Toolset

DEFAULT_LIMIT = 10
_FACT_TYPES = ("preference", "decision", "context")  # the fourth, general, stands for all others
_MAX_SESSION_CHARS = 100
# Wherever they were stored: a team shares them, or they are the reader's own.
_SHARED_OR_PERSONAL = Q(scope__in=(Scope.TEAM.value, Scope.PERSONAL.value))
_ACTIONS_TEXT = "Must be `remember`, `recall`, or `forget`"
_INVALID_FIELDS = {
    "action": ("Invalid action", _ACTIONS_TEXT),
    "confidence": ("Invalid confidence", "Must be 0.0–1.0"),
    "scope": ("Invalid scope", "Must be `personal`, `project`, or `team`"),
    "fact_type": ("Invalid fact_type", "Must be `preference`, `decision`, `context`, or `general`"),
    "limit": ("Invalid limit", f"Must be a whole number from 1 to {MAX_LIMIT}"),
}


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


IdText = Annotated[str, BeforeValidator(_as_text)]


class MemoryArguments(ToolArguments, AccessParams):
    """What each action needs is looked at once it is known which it is."""

    action: Literal["remember", "recall", "forget"] = Field(description="`remember`, `recall`, or `forget`")
    content: Annotated[str, Field(max_length=MAX_CONTENT)] = Field(
        "", description="The factual content to store. Required for remember."
    )
    key: Name = Field("", description="Unique key for upsert (remember), within project, scope and owner.")
    fact_type: Literal["preference", "decision", "context", "general"] = Field(
        "general",
        description="For remember: sets the type. For recall: filters results by type.",
    )
    category: TextFilter = Field(
        None,
        description="Organizational category for grouping. For remember: sets the category. For recall: "
        "filters results by category.",
    )
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(
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
    project: Name = Field(
        "",
        description="For remember: the project it belongs to. For recall: this project's memories beside the "
        "team's, one's own personal ones and those of no project.",
    )
    session_id: Name = Field("", description="The conversation this belongs to: evidence counts sessions.")
    sensitivity: Sensitivity = Field(
        Sensitivity.PUBLIC, description="For remember: public, private or secret."
    )
    tags: Labels = Field(default_factory=list, description="For remember: words to find it by.")


class MiraDraft(MemoryDraft):
    """What Mira's document has as defaults."""

    type: MemoryType = MemoryType.GENERAL


def memory(caller: Caller, given: MemoryArguments) -> Any:
    return {"remember": remember, "recall": recall, "forget": forget}[given.action](caller, given)


def remember(caller: Caller, given: MemoryArguments) -> str:
    caller.require(Right.WRITE)
    _require_value(given.content, "content", "remember")
    draft = _draft(given)
    try:
        done = store.create_memory_in_session(draft, caller.actor, _session_key(caller, given))
    except SecretDetected as refusal:
        errors = [field_error(refusal.field, refusal.message)]
        raise Problem(422, refusal.code, f"Secret detection: {refusal.message}", errors) from None
    if done.outcome == "refreshed":
        _update_refreshed(caller, done.memory.uid, draft)
    if done.outcome == "created" or done.revived:  # what was forgotten is new
        return f"Memory stored successfully with ID: {done.memory.uid}"
    return f"Memory updated successfully (ID: {done.memory.uid})"


def recall(caller: Caller, given: MemoryArguments) -> list[dict[str, Any]]:
    caller.require(Right.READ)
    _require_value(given.query, "query", "recall")
    visible = MemoryFilter().select(given.clearance(caller))
    found = search_with_fallback(
        _filter_memories(visible, given), given.query, limit=given.limit, known=visible
    )
    record_reveals((one.memory for one in found), caller.actor, "mira recall")
    count_accesses_and_promote(one.memory for one in found)
    return [_serialize_found(one) for one in found]


def forget(caller: Caller, given: MemoryArguments) -> str:
    caller.require(Right.WRITE)
    _require_value(given.id, "id", "forget")
    gone = store.trash_memories([given.id], caller.actor)
    return f"Memory {given.id} deleted." if gone else f"Memory {given.id} not found."


def _draft(given: MemoryArguments) -> MemoryDraft:
    """Only what was given is given: by its key a memory keeps the rest."""
    names = ("content", "key", "category", "confidence", "scope", "project", "sensitivity", "tags")
    values = {name: getattr(given, name) for name in names if name in given.model_fields_set}
    if "fact_type" in given.model_fields_set:
        values["type"] = given.fact_type
    if given.session_id:
        values["session_id"] = given.session_id
    try:
        draft = MiraDraft.model_validate({name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        raise to_argument_problem(error) from None
    # For a new memory alone: one that is said again stays in the session where it was said first.
    draft.model_fields_set.discard("session_id")
    return draft


def _update_refreshed(caller: Caller, uid: str, draft: MemoryDraft) -> None:
    """The same words again with another type, category or tags: these are taken over."""
    values = draft.model_dump(include=draft.given & {"type", "category", "tags"})
    if values:
        with suppress(NotFound):  # above the writer's clearance: it stays as it is
            store.update_memory(uid, MemoryPatch.model_validate(values), caller.actor)


def _session_key(caller: Caller, given: MemoryArguments) -> str:
    """What tells this conversation from others; for who names none, a day of one token."""
    session = given.session_id or caller.session
    if not session:
        return f"{caller.actor.name} {timezone.now():%Y-%m-%d}"
    if len(session) > _MAX_SESSION_CHARS:  # as a door makes them up
        return hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()
    return session


def _filter_memories(memories: MemoryQuerySet, given: MemoryArguments) -> MemoryQuerySet:
    """The scopes isolate here, and the filters work, before any cut."""
    if given.project:
        memories = memories.filter(Q(project__in=(given.project, "")) | _SHARED_OR_PERSONAL)
    if "scope" in given.model_fields_set:
        memories = memories.filter(scope=given.scope.value)
    if given.category:
        memories = memories.filter(category=given.category)
    if "fact_type" not in given.model_fields_set:
        return memories
    if given.fact_type in _FACT_TYPES:
        return memories.filter(type=given.fact_type)
    return memories.exclude(type__in=_FACT_TYPES)


def _serialize_found(found: SimilarMemory) -> dict[str, Any]:
    row: Memory = found.memory
    return {
        "id": row.uid,
        "content": row.content,
        "similarity": found.similarity,
        "fact_type": row.type if row.type in _FACT_TYPES else "general",
        "category": row.category,
        "confidence": row.confidence,
        "key": row.key,
        "scope": row.scope,
        "project": row.project,
        "found_by": found.how.value,
        "updated_at": serializers.moment(row.updated_at),
    }


def _require_value(value: str, name: str, action: str) -> None:
    if not value.strip():
        _refuse({name: (f"Missing {name}", f"`{action}` requires `{name}`")}, f"missing_{name}")


def _refuse(found: dict[str, tuple[str, str]], code: str) -> NoReturn:
    raise _problem(found, code)


def _problem(found: dict[str, tuple[str, str]], code: str) -> Problem:
    detail = "; ".join(f"{title}: {mend}" for title, mend in found.values())
    errors = [field_error(name, _to_field_message(mend)) for name, (_, mend) in found.items()]
    return Problem(422, code, detail, errors)


def _to_field_message(mend: str) -> str:
    """As the messages of fields are: without marks, and no sentence."""
    bare = mend.replace("`", "")
    return bare[:1].lower() + bare[1:]


def to_argument_problem(error: ValidationError) -> Problem:
    """What is wrong with the arguments, in the document's words where it has any; each bad field is named."""
    found: dict[str, tuple[str, str]] = {}
    for one in pydantic_field_errors(error.errors(include_url=False, include_input=False)):
        name = one["field"].partition(".")[0]
        found.setdefault(name, _INVALID_FIELDS.get(name, (f"Invalid {name}", one["message"])))
    return _problem(found, f"invalid_{next(iter(found))}")


_TOOLS: tuple[Tool[Any], ...] = (
    Tool(
        "memory",
        "Manage persistent memories. Actions: `remember` (store; with a key it updates what has that key), "
        "`recall` (search by meaning and past misspellings, with similarities), `forget` (delete).",
        MemoryArguments,
        memory,
        None,
        destructive=True,
        refusal=to_argument_problem,
    ),
)
MIRA = Toolset("mira", "Mira's memory: remember, recall and forget in scopes, with evidence.", _TOOLS)
