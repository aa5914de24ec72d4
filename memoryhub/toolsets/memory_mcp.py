"""How Memory MCP shows a memory: under the names of its document, importance on its scale of 0 to 10.

Memory MCP's three tools: store or update, recall in two parts, forget.

Importance is told on its scale of 0 to 10 here, and kept as 0 to 1. The time to live follows from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from django.conf import settings
from django.http import Http404
from pydantic import BeforeValidator, Field, model_validator

from memoryhub import memories as store
from memoryhub import serializers
from memoryhub.access.policy import Sensitivity
from memoryhub.audit.reveals import record_reveals
from memoryhub.backends.schema import TEXT_COLUMNS
from memoryhub.core.pagination import MAX_LIMIT
from memoryhub.core.text import STOP_WORDS, collapse_whitespace, estimate_tokens, words
from memoryhub.core.vocabulary import MemoryType, Right, Scope
from memoryhub.extraction.entities import extract_entities
from memoryhub.extraction.importance import ImportanceScore, score_importance
from memoryhub.http.authentication import AccessParams, Caller
from memoryhub.http.problems import field_error, invalid_fields
from memoryhub.memories import versions
from memoryhub.memories.filters import MemoryFilter, TextFilter
from memoryhub.memories.rows import hash_content, list_values, resolve_owner, resolve_project
from memoryhub.memories.schemas import (
    Content,
    EntityDraft,
    Labels,
    MemoryDraft,
    MemoryPatch,
    Name,
    Text,
    TtlDays,
    Word,
)
from memoryhub.memories.secret_check import journal_refusals, refuse_secrets
from memoryhub.memories.versions import Provenance
from memoryhub.models import JournalEntry, Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import recall
from memoryhub.search.recall import MAX_TOKENS, MIN_TOKENS, RecallRequest, recall_memories
from memoryhub.toolsets import results
from memoryhub.toolsets.base import Id, Tool, ToolArguments, Toolset

IMPORTANCE_SCALE = 10  # of importance


def serialize_stored(shown: dict[str, Any]) -> dict[str, Any]:
    """What storing answers: little, and all that was worked out. Of a hidden memory the id alone."""
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
    """0 to 1 on the scale of 0 to 10, a whole number where it is one."""
    steps = round(importance * IMPORTANCE_SCALE, 1)
    return int(steps) if steps == int(steps) else steps


def index_entry(memory: Memory, words: int) -> dict[str, Any]:
    return {**recall.serialize_entry(memory, words), "importance": round_importance(memory.importance)}


def memory_detail(memory: Memory, score: float, known: Provenance) -> dict[str, Any]:
    """A memory under the names of its document; of the rest only what says something: each costs tokens."""
    rest = {
        "project": memory.project,
        "entities": [one["entity"] for one in list_values(memory, "entities")],
        "tags": list_values(memory, "tags"),
        "provenance": [provenance_row(one) for one in known.rows.get(memory.uid, [])],
    }
    return {
        "id": memory.uid,
        "type": memory.type,
        "content": memory.content,
        "summary": memory.abstract,
        "importance": round_importance(memory.importance),
        "created_at": iso_seconds(memory.created_at),
        "last_accessed": iso_seconds(memory.last_accessed_at),
        "access_count": memory.accessed_count,
        "expires_at": iso_seconds(memory.expires_at),
        **{name: value for name, value in rest.items() if value},
        "score": score,
    }


def memory_summary(memory: Memory, score: float) -> dict[str, Any]:
    """A memory's whole text, and what it takes to use it."""
    return {
        "id": memory.uid,
        "type": memory.type,
        "content": memory.content,
        "importance": round_importance(memory.importance),
        "score": score,
    }


def provenance_row(entry: JournalEntry) -> dict[str, Any]:
    return {
        "operation": entry.operation,
        "timestamp": iso_seconds(entry.at),
        "actor": entry.actor,
    }


def iso_seconds(at: datetime | None) -> str | None:
    """A moment without its fraction: digits are tokens."""
    return serializers.moment(at.replace(microsecond=0)) if at else None


MIN_QUOTED_WORDS = 4  # words of a memory in a row: a reason that holds them repeats it
MAX_PROVENANCE_ROWS = 1  # rows in each detail; forgetting tells all
# What stands around the result on the wire, in tokens: the budget is the whole answer's.
ENVELOPE_TOKENS = estimate_tokens(json.dumps({"result": 0, "ignored": []}))


def _to_entity(value: object) -> object:
    """An entity may come as a bare name, or with ``name`` and ``type``."""
    if isinstance(value, str):
        return {"entity": value}
    if isinstance(value, dict) and "entity" not in value and "name" in value:
        kind = value.get("type") or value.get("entity_type") or "concept"
        return {"entity": value["name"], "entity_type": kind}
    return value


Importance = Annotated[float, Field(ge=0, le=IMPORTANCE_SCALE, allow_inf_nan=False)]
NamedEntity = Annotated[EntityDraft, BeforeValidator(_to_entity, json_schema_input_type=str | EntityDraft)]


class StoreArguments(ToolArguments):
    """``id`` makes it an update."""

    content: Content | None = Field(
        None, description="What to remember, in full. Needed unless id names a memory to update."
    )
    id: Id | None = Field(None, description="Leave out to create; name a memory to update it.")
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
        "", description="One line; the first 20 words of the content when left out."
    )
    entities: Annotated[list[NamedEntity], Field(max_length=100)] | None = Field(
        None,
        description="Names, or objects with entity and entity_type; extracted from the content when left "
        "out.",
    )
    tags: Labels = Field(default_factory=list, description="Words to find it by.")
    title: Annotated[Text, Field(max_length=500)] = Field(
        "", description="A short title; made when left out."
    )
    category: Annotated[Word, Field(max_length=100)] = Field("general", description="To group it by.")
    sensitivity: Sensitivity = Field(
        Sensitivity.PUBLIC, description="Who may read it: public, private or secret."
    )
    scope: Scope = Field(Scope.PROJECT, description="Who shares it: personal, project or team.")
    project: Name = Field("", description="The project it belongs to.")
    session_id: Name = Field("", description="The session it comes from.")
    ttl_days: TtlDays | None = Field(
        None, description="Days to live; importance x 30 when left out; 0: for ever."
    )

    @model_validator(mode="after")
    def _has_something(self) -> Self:
        if self.id and not self.model_fields_set - {"id"} & set(type(self).model_fields):
            raise ValueError("sets no field; give content, or another field to change")
        return self


class RecallArguments(ToolArguments, AccessParams):
    query: str = Field(description="Words, a phrase in quotation marks, a name, a question.")
    max_tokens: Annotated[int, Field(ge=MIN_TOKENS, le=MAX_TOKENS)] = Field(
        default_factory=lambda: settings.MEMORYHUB.recall_max_tokens,
        description="Budget of the whole answer, in tokens.",
    )
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = Field(
        20, description="Most memories shown whole; the index names all that match."
    )
    type: MemoryType | None = Field(None, description="Only memories of this type.")
    entities: Annotated[list[Word], Field(max_length=20)] = Field(
        default_factory=list, description="Only memories that name each of these."
    )
    category: TextFilter = Field(None, description="Only memories of this category.")
    tag: TextFilter = Field(None, description="Only memories with this tag.")
    project: TextFilter = Field(None, description="Only memories of this project.")
    session_id: TextFilter = Field(None, description="Only memories of this session.")
    scope: Scope | None = Field(None, description="Only memories of this scope.")

    def memories(self, caller: Caller) -> MemoryQuerySet:
        names = ("type", "category", "tag", "project", "session_id", "scope")
        wanted = MemoryFilter(**{name: getattr(self, name) for name in names})
        found = wanted.select(self.clearance(caller))
        for entity in self.entities:
            found = found.about_entity(entity)
        return found


class ForgetArguments(ToolArguments):
    id: Id
    hard: bool = Field(
        False,
        description="False: to the trash, from where a person can restore it. True: erased for good.",
    )
    reason: Annotated[Text, Field(max_length=500)] = Field(
        "", description="Why, for the provenance. Do not repeat the memory's text here."
    )


def memory_store(caller: Caller, given: StoreArguments) -> dict[str, Any]:
    if given.id:
        return _update(caller, given, given.id)
    if given.content is None:
        raise invalid_fields(
            [field_error("content", "is needed to store; or name a memory to update with id")]
        )
    known = _find_copy(caller, given, given.content)
    entities = _entities(given, given.content)
    judged = _judge_importance(given, given.content, len(entities), known)
    values = _shared_fields(given) | {
        "content": given.content,
        "importance": judged.importance / IMPORTANCE_SCALE,
        "ttl_days": _ttl_days(given, judged.importance),
        "entities": entities,
        "type": given.type,
    }
    draft = MemoryDraft.model_validate(values)
    done = store.create_memory(draft, caller.actor)
    if known and done.outcome == "refreshed" and given.importance is not None:
        # Said again, and of another importance perhaps; nothing else of it changes.
        weight = StoreArguments(id=done.memory.uid, importance=given.importance, ttl_days=given.ttl_days)
        return {**_update(caller, weight, done.memory.uid), "outcome": done.outcome}
    made = results.serialize_written_memory(done, draft, caller.actor)
    why = {"importance_reasons": list(judged.reasons)} if judged.reasons else {}
    more = (why if done.outcome == "created" else {}) | results.write_warnings(done.memory)
    return {"outcome": done.outcome, **serialize_stored(made), **more}


def _update(caller: Caller, given: StoreArguments, uid: str) -> dict[str, Any]:
    values = _shared_fields(given)
    if given.content is not None:
        values["content"] = given.content
        if given.entities is None and (entities := _renewed_entities(caller, uid, given.content)) is not None:
            values["entities"] = entities
    if given.entities is not None:
        values["entities"] = given.entities
    if "type" in given.model_fields_set:
        values["type"] = given.type
    if given.importance is not None:
        values["importance"] = given.importance / IMPORTANCE_SCALE
        values["ttl_days"] = _ttl_days(given, given.importance)
    elif given.ttl_days is not None:
        values["ttl_days"] = given.ttl_days
    memory, outcome = results.update_with_outcome(uid, MemoryPatch.model_validate(values), caller.actor)
    if outcome == "unchanged":  # a change has a row of its own
        record_reveals([memory], caller.actor, "memory-mcp memory_store")
    return {
        "outcome": outcome,
        **serialize_stored(serializers.memory(memory)),
        **results.write_warnings(memory),
    }


def memory_recall(caller: Caller, given: RecallArguments) -> dict[str, Any]:
    clearance = given.clearance(caller)
    rows = versions.Provenance(clearance, MAX_PROVENANCE_ROWS)
    wanted = RecallRequest(given.query, given.max_tokens - ENVELOPE_TOKENS, most_details=given.limit)
    answer = recall_memories(
        given.memories(caller),
        wanted,
        lambda memory, score: memory_detail(memory, score, rows),
        entry=index_entry,
        brief=memory_summary,
        prepare=rows.read,
        told=lambda memories: record_reveals(memories, caller.actor, "memory-mcp memory_recall"),
    )
    answer["tokens_used"] += ENVELOPE_TOKENS
    least = settings.MEMORYHUB.mcp_renew_importance
    renewed = store.renew_expiry([detail["id"] for detail in answer["details"]], least)
    for detail in answer["details"]:
        if "expires_at" in detail and detail["id"] in renewed:
            detail["expires_at"] = iso_seconds(renewed[detail["id"]])
    return answer


def memory_forget(caller: Caller, given: ForgetArguments) -> dict[str, Any]:
    with journal_refusals(given, caller.actor):
        refuse_secrets(given, ["reason"])
    visible: MemoryQuerySet = Memory.objects.visible_to(caller.actor.clearance)
    memory = visible.filter(uid=given.id).first()
    if memory is None:
        raise Http404
    why = (
        ""
        if _quotes_memory(given.reason, memory, 1 if given.hard else MIN_QUOTED_WORDS)
        else collapse_whitespace(given.reason)
    )
    forget: Callable[..., list[Any]] = store.erase_memories if given.hard else store.trash_memories
    if not forget([given.id], caller.actor, why=why):
        raise Http404
    rows = versions.journal_by_uid(given.id, caller.actor.clearance)
    return {
        "id": given.id,
        "outcome": "erased" if given.hard else "trashed",
        "reason": why,
        "provenance": [{**provenance_row(row), "metadata": row.detail} for row in rows],
    }


def _quotes_memory(reason: str, memory: Memory, run: int) -> bool:
    """Whether a reason holds so many words of a memory in a row: the journal keeps nothing of its text.

    Of one that is erased not one telling word.
    """
    said = [word for word in words(reason) if run > 1 or word not in STOP_WORDS]
    for name in TEXT_COLUMNS:
        text = words(getattr(memory, name))
        length = max(min(run, len(text)), 1)
        runs = {tuple(text[at : at + length]) for at in range(len(text) - length + 1)}
        if any(tuple(said[at : at + length]) in runs for at in range(len(said) - length + 1)):
            return True
    return False


def _shared_fields(given: StoreArguments) -> dict[str, Any]:
    """The fields that mean the same here and there, of those that were given."""
    names = ("tags", "title", "category", "sensitivity", "scope", "project", "session_id")
    values = {name: getattr(given, name) for name in names if name in given.model_fields_set}
    return values | ({"abstract": given.summary} if given.summary else {})


def _find_copy(caller: Caller, given: StoreArguments, content: str) -> Memory | None:
    """A memory that the caller may see with these very words in this place: it will be refreshed."""
    place = {
        "content_hash": hash_content(content),
        "project": resolve_project(given.project, caller.actor),
        "scope": given.scope.value,
        "owner": resolve_owner(given.scope.value, caller.actor),
    }
    found: Memory | None = Memory.objects.visible_to(caller.actor.clearance).filter(**place).first()
    return found


def _judge_importance(
    given: StoreArguments, content: str, names: int, known: Memory | None
) -> ImportanceScore:
    if given.importance is not None:
        return ImportanceScore(given.importance, ())
    if known is not None:
        return ImportanceScore(round_importance(known.importance), ())
    return score_importance(content, given.type, names)


def _ttl_days(given: StoreArguments, importance: float) -> float:
    """Days to live; of no importance at all one day, for 0 would be for ever."""
    if given.ttl_days is not None:
        return given.ttl_days
    return importance * settings.MEMORYHUB.mcp_ttl_days_per_importance or 1


def _entities(given: StoreArguments, content: str) -> list[EntityDraft]:
    return _extract_entities(content) if given.entities is None else given.entities


def _extract_entities(content: str) -> list[EntityDraft]:
    return [EntityDraft(entity=name, entity_type=kind) for name, kind in extract_entities(content)]


def _renewed_entities(caller: Caller, uid: str, content: str) -> list[EntityDraft] | None:
    """Those of the new content, if what is there was extracted too; None: somebody chose them."""
    visible: MemoryQuerySet = Memory.objects.visible_to(caller.actor.clearance)
    memory = visible.filter(uid=uid).first()
    if memory is None:
        return None
    before = {(one.entity, one.entity_type) for one in _extract_entities(memory.content)}
    there = {(one["entity"], one["entity_type"]) for one in list_values(memory, "entities")}
    return _extract_entities(content) if there <= before else None


_TOOLS: tuple[Tool[Any], ...] = (
    Tool(
        "memory_store",
        "Store a memory, or update one: leave out id to create, name it to change that memory. Entities, a "
        "summary of 20 words and the importance are worked out when they are left out. A memory lives "
        "importance x 30 days; being recalled renews that from importance 4 on. The same content again "
        "refreshes the memory that is there.",
        StoreArguments,
        memory_store,
        Right.WRITE,
        idempotent=True,
    ),
    Tool(
        "memory_recall",
        "Search memories. Answers in two parts within max_tokens: index, all matches as summaries of at most "
        "20 words, and details, the best ones whole. Recall again with a larger budget, or a narrower query, "
        "for more.",
        RecallArguments,
        memory_recall,
        Right.READ,
    ),
    Tool(
        "memory_forget",
        "Forget a memory by its id: to the trash (a person can restore it), or with hard erased for good. "
        "Answers with its provenance, all that was done to it.",
        ForgetArguments,
        memory_forget,
        Right.WRITE,
        destructive=True,
    ),
)
MEMORY_MCP = Toolset(
    "memory-mcp", "Memory MCP: store with entities and importance, recall in two parts, forget.", _TOOLS
)
