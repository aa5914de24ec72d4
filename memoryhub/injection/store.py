"""The object of the capability ``memory.store``: the memory store for Python code in the same process."""

from __future__ import annotations

from typing import Any

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.audit.journal import record_reveals
from memoryhub.facts import queries
from memoryhub.facts import services as facts
from memoryhub.injection.requests import InjectionRequest, InjectionResult
from memoryhub.injection.services import inject_context
from memoryhub.memories import serializers
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.rows import visible_replacements
from memoryhub.memories.schemas import FactDraft, MemoryDraft
from memoryhub.models import Fact, Memory
from memoryhub.models.querysets import FactQuerySet, MemoryQuerySet
from memoryhub.search.hybrid import SearchResults, search_memories
from memoryhub.search.recall import RecallRequest, recall_memories


class MemoryStore:
    """Store, find and delete memories and facts.

    Each method takes the actor: the name for the journal, and the clearance. An actor never sees or changes
    a row outside of its clearance. Refusals are raised as ``memoryhub.memories.StoreError``.
    """

    def store(self, actor: Actor, content: str, **fields: Any) -> memories.StoreResult:
        """Store a memory; ``fields`` are those of ``POST /memories``. The result has outcome and memory."""
        return memories.create_memory(MemoryDraft(content=content, **fields), actor)

    def memories(self, actor: Actor, **filters: Any) -> MemoryQuerySet:
        """Return a queryset of visible live memories; ``filters`` are those of ``GET /memories``."""
        return MemoryFilter(**filters).select(actor.clearance)

    def search(
        self, actor: Actor, query: str, limit: int = 10, min_score: float | None = None, **filters: Any
    ) -> SearchResults:
        """Search visible memories; ``hits`` have the memory, its score and the snippet, best first."""
        found = search_memories(self.memories(actor, **filters), query, limit=limit, min_score=min_score)
        record_reveals((hit.memory for hit in found.hits), actor, "python search")
        return found

    def recall(self, actor: Actor, query: str, max_tokens: int = 1000, **filters: Any) -> dict[str, Any]:
        """Return an index and details of matches within a token budget, like ``POST /recall``."""

        def detail(memory: Memory, score: float) -> dict[str, Any]:
            replacements = visible_replacements([memory], actor.clearance)
            return {**serializers.memory(memory, replacements), "score": score}

        return recall_memories(
            self.memories(actor, **filters),
            RecallRequest(query, max_tokens),
            detail,
            on_shown=lambda shown: record_reveals(shown, actor, "python recall"),
        )

    def inject(self, actor: Actor, prompt: str, **options: Any) -> InjectionResult:
        """Return the context block for a prompt; ``options`` are those of ``POST /inject``."""
        return inject_context(InjectionRequest(prompt, **options), actor)

    def delete(self, actor: Actor, uid: str) -> bool:
        """Move a memory to the trash; return whether it was there."""
        return bool(memories.trash_memories([uid], actor))

    def store_fact(self, actor: Actor, subject: str, predicate: str, object: str, **fields: Any) -> Fact:
        """Store a fact, or update the confidence of the same one."""
        draft = FactDraft(subject=subject, predicate=predicate, object=object, **fields)
        return facts.create_fact(draft, actor)[0]

    def facts(self, actor: Actor, **filters: Any) -> FactQuerySet:
        """Return visible facts, newest first; ``filters`` are those of ``GET /facts``."""
        return queries.query_facts(actor.clearance, **filters)


STORE = MemoryStore()
