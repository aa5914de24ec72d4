"""Memory MCP's three tools: store or update, recall in two parts, forget.

They use the field names of its document. Importance is 0 to 10 here and 0 to 1 in the store: 8 to 10 is
critical and permanent, 4 to 7 important, 1 to 3 temporary. The time to live depends on it. If it is omitted,
the type gives the base score, and each matching sign (``importance.toml``) changes it once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from django.conf import settings
from django.http import Http404
from pydantic import BeforeValidator, Field, model_validator

from memoryhub import memories as store
from memoryhub.access.policy import Clearance, Sensitivity
from memoryhub.audit.journal import record_reveals
from memoryhub.backends import TEXT_COLUMNS
from memoryhub.capture.classification import salience
from memoryhub.core.pagination import MAX_LIMIT
from memoryhub.core.rule_files import PatternFile, Regex, RuleSchema, load_rule_file
from memoryhub.core.text import CJK, STOP_WORDS, collapse_whitespace, estimate_tokens, terms, words
from memoryhub.core.vocabulary import MemoryType, Right, Scope
from memoryhub.extraction.entities import extract_entities
from memoryhub.http.authentication import AccessParams, Caller
from memoryhub.http.problems import field_error, invalid_fields
from memoryhub.memories import serializers, versions
from memoryhub.memories.filters import AS_OF, MemoryFilter, TextFilter, Timestamp
from memoryhub.memories.rows import hash_content, list_values, make_abstract, resolve_owner, resolve_project
from memoryhub.memories.schemas import (
    Content,
    EntityDraft,
    Labels,
    MemoryDraft,
    MemoryPatch,
    Name,
    NotBoolean,
    Text,
    TtlDays,
    Word,
)
from memoryhub.memories.secret_check import journal_refusals, refuse_secrets
from memoryhub.memories.versions import Provenance, Snapshot, load_snapshot
from memoryhub.models import JournalEntry, Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import recall
from memoryhub.search.recall import MAX_TOKENS, MIN_TOKENS, RecallRequest, recall_memories
from memoryhub.toolsets import base
from memoryhub.toolsets.base import Id, ToolArguments, ToolOutcome, Toolset, unknown_arguments

BASE_IMPORTANCE: dict[str, int] = {
    MemoryType.SELF: 6,
    MemoryType.RELATIONSHIP: 5,
    MemoryType.FACT: 5,
    MemoryType.ENTITY: 4,
}
DEFAULT_IMPORTANCE = 5
MIN_IMPORTANCE, MAX_IMPORTANCE = 1, 10
_FEW_TERMS, _MANY_TERMS = 4, 25
_SALIENCE_THRESHOLD = 0.5
_MANY_NAMES = 3


class ImportanceSign(RuleSchema):
    """A change of the score by the words of a text, with its reason."""

    change: int
    why: str
    regex: Regex


class ImportanceFile(PatternFile):
    signs: tuple[ImportanceSign, ...]


_SIGNS = load_rule_file(Path(__file__).with_name("importance.toml"), ImportanceFile).signs


@dataclass(frozen=True)
class ImportanceScore:
    """A score from 1 to 10 and its reasons, the type first."""

    importance: float
    reasons: tuple[str, ...]


def score_importance(text: str, kind: str, names: int = 0) -> ImportanceScore:
    """Score a text of the given type. ``names`` is the number of names in it."""
    base = BASE_IMPORTANCE.get(kind, DEFAULT_IMPORTANCE)
    found = [(base, f"a memory of type {kind}")]
    found += [(sign.change, sign.why) for sign in _SIGNS if sign.regex.search(text)]
    if salience(text) >= _SALIENCE_THRESHOLD:
        found.append((1, "says why, or what went wrong"))
    if names >= _MANY_NAMES:
        found.append((1, "names several people, places or things"))
    term_count = len(terms(text))
    if term_count < _FEW_TERMS and not CJK.search(text):
        found.append((-1, "says little"))
    elif term_count >= _MANY_TERMS:
        found.append((1, "says a lot"))
    total = sum(step for step, _ in found)
    reasons = tuple(f"{why} ({step:+d})" if at else f"{why} ({step})" for at, (step, why) in enumerate(found))
    return ImportanceScore(min(max(total, MIN_IMPORTANCE), MAX_IMPORTANCE), reasons)


MIN_QUOTED_WORDS = 4  # consecutive words of a memory in a reason that count as a quotation
MAX_PROVENANCE_ROWS = 1  # journal rows per detail; memory_forget returns all


def _to_entity(value: object) -> object:
    """Return an entity from a name, or from an object with ``name`` and ``type``."""
    if isinstance(value, str):
        return {"entity": value}
    if isinstance(value, dict) and "entity" not in value and "name" in value:
        kind = value.get("type") or value.get("entity_type") or "concept"
        return {"entity": value["name"], "entity_type": kind}
    return value


IMPORTANCE_SCALE = 10
Importance = Annotated[float, Field(ge=0, le=IMPORTANCE_SCALE, allow_inf_nan=False), NotBoolean]
NamedEntity = Annotated[EntityDraft, BeforeValidator(_to_entity, json_schema_input_type=str | EntityDraft)]


class StoreArguments(ToolArguments):
    """With ``id``, an update."""

    content: Content | None = Field(None, description="Full text of the memory. Required unless id is given.")
    id: Id | None = Field(None, description="Id of the memory to update; omit it to create one.")
    type: Literal["fact", "entity", "relationship", "self"] = Field(
        "fact",
        description="fact: general information; entity: a person, place, thing or concept; relationship: a "
        "connection between entities; self: preferences and personal information of the user.",
    )
    importance: Importance | None = Field(
        None,
        description="8-10 critical, 4-7 important, 1-3 temporary; it lives importance x 30 days. Worked out "
        "from the text when left out.",
    )
    summary: Annotated[Text, Field(max_length=2000)] = Field(
        "", description="Summary in one line; default: the first 20 words of the content."
    )
    entities: Annotated[list[NamedEntity], Field(max_length=100)] | None = Field(
        None,
        description="Names, or objects with entity and entity_type; extracted from the content when left "
        "out.",
    )
    tags: Labels = Field(default_factory=list, description="Words to find it by.")
    title: Annotated[Text, Field(max_length=500)] = Field(
        "", description="Short title; default: made from the content."
    )
    category: Annotated[Word, Field(max_length=100)] = Field("general", description="Category, any word.")
    sensitivity: Sensitivity = Field(Sensitivity.PUBLIC, description="Level: public, private or secret.")
    scope: Scope = Field(Scope.PROJECT, description="Scope: personal, project or team.")
    project: Name = Field("", description="Project it belongs to, such as the name of a repository.")
    session_id: Name = Field("", description="Session in which it was created.")
    ttl_days: TtlDays | None = Field(None, description="Days to live; default: importance x 30; 0: forever.")

    @model_validator(mode="after")
    def _has_something(self) -> Self:
        if self.id and not self.model_fields_set - {"id"} & set(type(self).model_fields):
            raise ValueError("sets no field; give content, or another field to change")
        return self


class RecallArguments(ToolArguments, AccessParams):
    query: str = Field(description="Words, a phrase in quotation marks, a name, a question.")
    max_tokens: Annotated[int, Field(ge=MIN_TOKENS, le=MAX_TOKENS)] = Field(
        default_factory=lambda: settings.MEMORYHUB.recall_max_tokens,
        description="Token budget of the whole response.",
    )
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = Field(
        20, description="Maximum number of whole memories; the index lists all matches."
    )
    type: MemoryType | None = Field(None, description="Only memories of this type.")
    entities: Annotated[list[Word], Field(max_length=20)] = Field(
        default_factory=list, description="Only memories with all of these entities."
    )
    category: TextFilter = Field(None, description="Only memories of this category.")
    tag: TextFilter = Field(None, description="Only memories with this tag.")
    project: TextFilter = Field(None, description="Only memories of this project.")
    session_id: TextFilter = Field(None, description="Only memories of this session.")
    scope: Scope | None = Field(None, description="Only memories of this scope.")
    times: bool = Field(False, description="Include created_at, last_accessed, access_count and expires_at.")
    provenance: bool = Field(False, description="Include who changed each memory last, and when.")
    as_of: Timestamp = AS_OF

    def memories(self, caller: Caller) -> MemoryQuerySet | Snapshot:
        names = ("type", "category", "tag", "project", "session_id", "scope")
        filters = MemoryFilter(**{name: getattr(self, name) for name in names})
        if self.as_of:
            snapshot = load_snapshot(filters, self.clearance(caller), self.as_of)
            return reduce(Snapshot.narrow, (MemoryFilter(entity=one) for one in self.entities), snapshot)
        found = filters.select(self.clearance(caller))
        for entity in self.entities:
            found = found.about_entity(entity)
        return found


class ForgetArguments(ToolArguments):
    id: Id
    hard: bool = Field(
        False, description="False: move it to the trash, where a person can restore it. True: erase it."
    )
    reason: Annotated[Text, Field(max_length=500)] = Field(
        "", description="Reason, for the provenance. Do not repeat the memory's text."
    )


# Arguments that storing the same content again applies. The others are its place and its level.
_REPEATABLE_FIELDS = frozenset("type importance summary entities tags title category ttl_days".split())
_ARGUMENT_OF_FIELD = {"abstract": "summary"}

MEMORY_MCP = Toolset(
    "memory-mcp",
    "Memory MCP: store with entities and importance, recall in two parts, forget.",
    recall=("memory_recall", {}),
    remember=("memory_store", {}),
)


@MEMORY_MCP.tool(Right.WRITE, idempotent=True)
def memory_store(caller: Caller, args: StoreArguments) -> ToolOutcome:
    """Store something worth knowing later, or update the memory with the given id. Entities, a summary of
    20 words and the importance are derived from the content if omitted. A memory lives importance x 30 days;
    from importance 4 on, each recall renews this. Storing the same content again updates the given fields.
    """
    if args.id:
        return ToolOutcome(_update(caller, args, args.id), unknown_arguments(args))
    if args.content is None:
        raise invalid_fields(
            [field_error("content", "is required to store a memory; to update one, send its id")]
        )
    known = _find_copy(caller, args, args.content)
    entities = _extract_entities(args.content) if args.entities is None else args.entities
    score = _judge_importance(args, args.content, len(entities), known)
    values = _shared_fields(args) | {
        "content": args.content,
        "importance": score.importance / IMPORTANCE_SCALE,
        "ttl_days": _ttl_days(args, score.importance),
        "entities": entities,
        "type": args.type,
    }
    draft = MemoryDraft.model_validate(values)
    result = store.create_memory(draft, caller.actor)
    ignored = sorted({*_ignored_repeat(caller, args, draft, result, known), *unknown_arguments(args)})
    given = _REPEATABLE_FIELDS & args.model_fields_set
    if known and result.outcome == "refreshed" and given:
        patch = StoreArguments.model_validate(
            {"id": result.memory.uid, **{name: getattr(args, name) for name in given}}
        )
        answer = {**_update(caller, patch, result.memory.uid), "outcome": result.outcome}
        return ToolOutcome(answer, ignored)
    stored = serializers.serialize_written_memory(result, draft, caller.actor)
    reasons = {"importance_reasons": list(score.reasons)} if score.reasons else {}
    more = (reasons if result.outcome == "created" else {}) | serializers.write_warnings(result.memory)
    return ToolOutcome({"outcome": result.outcome, **serialize_stored(stored), **more}, ignored)


def _ignored_repeat(
    caller: Caller, args: StoreArguments, draft: MemoryDraft, result: store.StoreResult, known: Memory | None
) -> set[str]:
    """Return the names of the given arguments that storing the same content again does not apply."""
    names = {name: _ARGUMENT_OF_FIELD.get(name, name) for name in draft.given}
    applied = {name for name, argument in names.items() if known and argument in _REPEATABLE_FIELDS}
    ignored = base.merge_repeat(result, draft, caller.actor, applied=applied)
    return {names[name] for name in ignored} & args.model_fields_set


def _update(caller: Caller, args: StoreArguments, uid: str) -> dict[str, Any]:
    values = _shared_fields(args)
    if args.content is not None:
        values["content"] = args.content
        if args.entities is None and (entities := _renewed_entities(caller, uid, args.content)) is not None:
            values["entities"] = entities
    if args.entities is not None:
        values["entities"] = args.entities
    if "type" in args.model_fields_set:
        values["type"] = args.type
    if args.importance is not None:
        values["importance"] = args.importance / IMPORTANCE_SCALE
        values["ttl_days"] = _ttl_days(args, args.importance)
    elif args.ttl_days is not None:
        values["ttl_days"] = args.ttl_days
    memory, outcome = base.update_with_outcome(uid, MemoryPatch.model_validate(values), caller.actor)
    if outcome == "unchanged":  # the journal has a row for a change
        record_reveals([memory], caller.actor, "memory-mcp memory_store")
    return {
        "outcome": outcome,
        **serialize_stored(serializers.serialize_memory(memory, caller.actor)),
        **serializers.write_warnings(memory),
    }


@MEMORY_MCP.tool(Right.READ)
def memory_recall(caller: Caller, args: RecallArguments) -> dict[str, Any]:
    """Search memories before you ask the user or decide what may have been decided before. Returns two
    parts within max_tokens: index, with a summary of at most 20 words for each match, and details, with the
    best matches in full. For more, use a larger budget or a narrower query.
    """
    clearance = args.clearance(caller)
    provenance = versions.Provenance(clearance, MAX_PROVENANCE_ROWS) if args.provenance else None
    around = min(_envelope_tokens(args), args.max_tokens // 2)
    request = RecallRequest(args.query, args.max_tokens - around, most_details=args.limit, whole_index=True)
    answer = recall_memories(
        args.memories(caller),
        request,
        lambda memory, score: memory_detail(
            memory, score, clearance, times=args.times, provenance=provenance
        ),
        entry=index_entry,
        short_detail=memory_summary,
        prepare=provenance.read if provenance else None,
        on_shown=lambda memories: record_reveals(memories, caller.actor, "memory-mcp memory_recall"),
    )
    answer["tokens_used"] += around
    if args.as_of:
        return answer
    renewed = store.renew_expiry(
        [detail["id"] for detail in answer["details"]], settings.MEMORYHUB.mcp_renew_importance
    )
    for detail in answer["details"]:
        if "expires_at" in detail and detail["id"] in renewed:
            detail["expires_at"] = iso_seconds(renewed[detail["id"]])
    return answer


def _envelope_tokens(args: RecallArguments) -> int:
    """Return the tokens of the response around the result; the budget covers the whole response."""
    ignored = unknown_arguments(args)
    suggestions = {"suggestions": dict.fromkeys(ignored, "allow_private")} if ignored else {}
    return estimate_tokens(json.dumps({"result": 0, "ignored": ignored, **suggestions}, ensure_ascii=False))


@MEMORY_MCP.tool(Right.WRITE, destructive=True)
def memory_forget(caller: Caller, args: ForgetArguments) -> ToolOutcome:
    """Delete a memory that is wrong or outdated, by its id. By default a person can restore it from the
    trash; hard erases it permanently. Returns its provenance.
    """
    with journal_refusals(args, caller.actor):
        refuse_secrets(args, ["reason"])
    memory = _find_visible(caller, args.id)
    if memory is None:
        raise Http404
    run = 1 if args.hard else MIN_QUOTED_WORDS
    reason = "" if _quotes_memory(args.reason, memory, run) else collapse_whitespace(args.reason)
    removed: Sequence[object] = (
        store.erase_memories([args.id], caller.actor, why=reason)
        if args.hard
        else store.trash_memories([args.id], caller.actor, why=reason)
    )
    if not removed:
        raise Http404
    rows = versions.journal_by_uid(args.id, caller.actor.clearance)
    answer = {
        "id": args.id,
        "outcome": "erased" if args.hard else "trashed",
        "reason": reason,
        "provenance": [{**provenance_row(row), "metadata": row.detail} for row in rows],
    }
    dropped = ["reason"] if args.reason and not reason else []
    return ToolOutcome(answer, sorted({*dropped, *unknown_arguments(args)}))


def _find_visible(caller: Caller, uid: str) -> Memory | None:
    return Memory.objects.visible_to(caller.actor.clearance).filter(uid=uid).first()


def _quotes_memory(reason: str, memory: Memory, run: int) -> bool:
    """Return whether a reason quotes ``run`` consecutive words of a memory, which the journal must not
    contain.

    For an erased memory, ``run`` is 1, without stop words.
    """
    reason_words = [word for word in words(reason) if run > 1 or word not in STOP_WORDS]
    for name in TEXT_COLUMNS:
        text = words(getattr(memory, name))
        length = max(min(run, len(text)), 1)
        runs = {tuple(text[at : at + length]) for at in range(len(text) - length + 1)}
        if any(tuple(reason_words[at : at + length]) in runs for at in range(len(reason_words) - length + 1)):
            return True
    return False


def _shared_fields(args: StoreArguments) -> dict[str, Any]:
    """Return the given fields that have the same meaning in the store."""
    names = ("tags", "title", "category", "sensitivity", "scope", "project", "session_id")
    values = {name: getattr(args, name) for name in names if name in args.model_fields_set}
    return values | ({"abstract": args.summary} if "summary" in args.model_fields_set else {})


def _find_copy(caller: Caller, args: StoreArguments, content: str) -> Memory | None:
    """Return the visible memory with the same content and place: storing will refresh it."""
    place = {
        "content_hash": hash_content(content),
        "project": resolve_project(args.project, caller.actor),
        "scope": args.scope.value,
        "owner": resolve_owner(args.scope.value, caller.actor),
    }
    return Memory.objects.visible_to(caller.actor.clearance).filter(**place).first()


def _judge_importance(
    args: StoreArguments, content: str, names: int, known: Memory | None
) -> ImportanceScore:
    if args.importance is not None:
        return ImportanceScore(args.importance, ())
    if known is not None:
        return ImportanceScore(round_importance(known.importance), ())
    return score_importance(content, args.type, names)


def _ttl_days(args: StoreArguments, importance: float) -> float:
    """Return the days to live; at least one for importance 0, because 0 would mean forever."""
    if args.ttl_days is not None:
        return args.ttl_days
    return importance * settings.MEMORYHUB.mcp_ttl_days_per_importance or 1


def _extract_entities(content: str) -> list[EntityDraft]:
    return [EntityDraft(entity=name, entity_type=kind) for name, kind in extract_entities(content)]


def _renewed_entities(caller: Caller, uid: str, content: str) -> list[EntityDraft] | None:
    """Return the entities of the new content; None if the current ones were not extracted but chosen."""
    memory = _find_visible(caller, uid)
    if memory is None:
        return None
    before = {(one.entity, one.entity_type) for one in _extract_entities(memory.content)}
    current = {(one["entity"], one["entity_type"]) for one in list_values(memory, "entities")}
    return _extract_entities(content) if current <= before else None


def serialize_stored(shown: dict[str, Any]) -> dict[str, Any]:
    """Return a short description of a stored memory; of a hidden one only the id."""
    if "content" not in shown:
        return {"id": shown["id"]}
    return {
        "id": shown["id"],
        "type": shown["type"],
        "summary": shown["abstract"],
        "importance": round_importance(shown["importance"]),
        "expires_at": shown["expires_at"],
        "entities": shown["entities"],
        "tags": shown["tags"],
    }


def round_importance(importance: float) -> float:
    """Convert from the scale 0 to 1 to 0 to 10; an int if it is whole."""
    steps = round(importance * IMPORTANCE_SCALE, 1)
    return int(steps) if steps == int(steps) else steps


def index_entry(memory: Memory, words: int) -> dict[str, Any]:
    """Return a line of the index; with a shortened summary only the id and the summary."""
    entry = recall.serialize_entry(memory, words)
    if words < recall.SUMMARY_WORDS:
        return {"id": entry["id"], "summary": entry["summary"]}
    return {**entry, "importance": round_importance(memory.importance)}


def memory_detail(
    memory: Memory, score: float, clearance: Clearance, *, times: bool, provenance: Provenance | None
) -> dict[str, Any]:
    """Return a whole memory. Empty fields are omitted, because each costs tokens."""
    is_written = memory.abstract != make_abstract(memory.content)
    rest = {
        "summary": memory.abstract if is_written else "",
        "project": memory.project,
        "entities": [one["entity"] for one in list_values(memory, "entities")],
        "tags": list_values(memory, "tags"),
        "aliases": list_values(memory, "aliases"),
        "superseded_by": versions.current_value(memory, "superseded_by", clearance),
        "pinned": memory.pinned,
        "may_be_outdated": memory.may_be_outdated,
        "provenance": [provenance_row(one) for one in provenance.rows.get(memory.uid, [])]
        if provenance
        else [],
    }
    return {
        **memory_summary(memory, score),
        **{name: value for name, value in rest.items() if value},
        **(_times(memory) if times else {}),
    }


def _times(memory: Memory) -> dict[str, Any]:
    return {
        "created_at": iso_seconds(memory.created_at),
        "last_accessed": iso_seconds(memory.last_accessed_at),
        "access_count": memory.accessed_count,
        "expires_at": iso_seconds(memory.expires_at),
    }


def memory_summary(memory: Memory, score: float) -> dict[str, Any]:
    """Return the content of a memory with its most important fields."""
    return {
        "id": memory.uid,
        "type": memory.type,
        "content": memory.content,
        "importance": round_importance(memory.importance),
        "score": score,
    }


def provenance_row(entry: JournalEntry) -> dict[str, Any]:
    return {"operation": entry.operation, "timestamp": iso_seconds(entry.at), "actor": entry.actor}


def iso_seconds(at: datetime | None) -> str | None:
    """Format a time without fractional seconds, to save tokens."""
    return serializers.moment(at.replace(microsecond=0)) if at else None
