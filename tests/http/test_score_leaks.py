"""Scores, results and their order do not show which words are in hidden memories.

The attack: store enough memories with a guessed word to put its frequency at a threshold, so that one more
hidden memory would change the score of another memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.injection import candidates
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.lexical import count_terms
from tests.api.conftest import Agent, agent
from tests.cases import each

__all__ = ["agent"]

GUESS = "krasmodel"
PAST = "2021-01-01T00:00:00Z"  # so long ago that recency does not change between two calls
QUERY = f"{GUESS} quokka"
ATTACKERS: dict[str, dict[str, Any]] = {
    "public token": {},
    "token confined to a project": {"projects": ["a"]},
}
HIDDEN: dict[str, dict[str, Any]] = {
    "public token": {"sensitivity": "secret", "project": "a"},
    "token confined to a project": {"project": "b"},
}
CALLS: dict[str, Callable[[Agent], Any]] = {
    "lexical search": lambda bot: bot.get("/search", query=QUERY, mode="lexical", min_score=0, limit=50),
    "hybrid search": lambda bot: bot.get("/search", query=QUERY, mode="hybrid", min_score=0, limit=50),
    "recall": lambda bot: bot.post("/recall", {"query": QUERY, "max_tokens": 5000}),
    "inject": lambda bot: bot.post("/inject", {"prompt": QUERY}),
    "memory-mcp": lambda bot: bot.post("/tools/memory-mcp/memory_recall", {"query": QUERY}),
    "letsgo": lambda bot: bot.post("/tools/letsgo/search_memories", {"query": QUERY}),
}


@pytest.fixture(autouse=True)
def _room(configure: Callable[..., None]) -> None:
    configure(max_memories=0, injection_deadline_ms=20_000, embeddings="wordllama")


def store_many(actor: Actor, count: int, **fields: Any) -> None:
    texts = (f"{GUESS} note {n:05}" for n in range(count))
    drafts = [MemoryDraft(content=text, created_at=PAST, **fields) for text in texts]
    memories.create_memories(drafts, actor)


def public() -> MemoryQuerySet:
    rows: MemoryQuerySet = Memory.objects.visible_to(Clearance()).live()
    return rows


def answer(call: Callable[[Agent], Any], bot: Agent) -> Any:
    """The response without clock times; what the call writes is rolled back."""
    with transaction.atomic():
        response = call(bot)
        transaction.set_rollback(True)
    assert response.status_code == 200, response.content
    return _without_times(response.json())


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(one) for key, one in value.items() if not key.endswith(("_ms", "_at"))}
    return [_without_times(one) for one in value] if isinstance(value, list) else value


@each("count", [256, 512])
@each("attacker", ATTACKERS)
@each("call", CALLS)
def test_hidden_memory_does_not_change_answer(agent, remember, actor, call, attacker, count):
    hidden = remember(f"the launch of {GUESS}", created_at=PAST, **HIDDEN[attacker])
    remember("quokka habitat", created_at=PAST, importance=1.0, project="a")
    store_many(actor, count, project="a")
    bot = agent("public", **ATTACKERS[attacker])
    with_hidden = answer(CALLS[call], bot)
    assert "quokka habitat" in str(with_hidden)
    Memory.objects.filter(pk=hidden.pk).delete()
    assert answer(CALLS[call], bot) == with_hidden


CONTROL = "brontosnap"
CROWDED_CALLS: dict[str, Callable[[Agent], Any]] = {
    "lexical search": lambda bot: bot.get(
        "/search", query=f"{GUESS} {CONTROL}", mode="lexical", min_score=0, limit=200
    ),
    "hybrid search": lambda bot: bot.get("/search", query=f"{GUESS} {CONTROL}", min_score=0, limit=50),
    "recall": lambda bot: bot.post("/recall", {"query": f"{GUESS} {CONTROL}", "max_tokens": 9000}),
    "letsgo": lambda bot: bot.post(
        "/tools/letsgo/search_memories", {"query": f"{GUESS} {CONTROL}", "limit": 50}
    ),
    "memory-mcp": lambda bot: bot.post("/tools/memory-mcp/memory_recall", {"query": f"{GUESS} {CONTROL}"}),
    "mira": lambda bot: bot.post(
        "/tools/mira/memory", {"action": "recall", "query": f"{GUESS} {CONTROL}", "limit": 50}
    ),
    "pigo": lambda bot: bot.post("/tools/pigo/memory_recall", {"query": f"{GUESS} {CONTROL}"}),
}


@pytest.mark.parametrize("attacker", ATTACKERS)
@pytest.mark.parametrize("call", CROWDED_CALLS)
def test_hidden_memory_does_not_choose_among_more_matches_than_are_compared(
    agent, remember, actor, call, attacker
):
    """Two words are in equally many visible memories; a hidden memory makes one of them more common.

    Injection is not among the calls: it ignores words that so many memories contain.
    """
    hidden = remember(f"the launch of {GUESS}", created_at=PAST, **HIDDEN[attacker])
    texts = [f"{word} note {n:05}" for n in range(230) for word in (GUESS, CONTROL)]
    drafts = [MemoryDraft(content=one, created_at=PAST, project="a", importance=1.0) for one in texts]
    memories.create_memories(drafts, actor)
    bot = agent("public", **ATTACKERS[attacker])
    with_hidden = answer(CROWDED_CALLS[call], bot)
    assert " note 00" in str(with_hidden)
    Memory.objects.filter(pk=hidden.pk).delete()
    assert answer(CROWDED_CALLS[call], bot) == with_hidden


@pytest.mark.parametrize("count", [0, 1, 64, 65, 257, 512])
def test_frequency_is_the_number_of_visible_memories_with_the_word(remember, actor, count):
    remember("quokka habitat")
    store_many(actor, count)
    for n in range(2):
        counted = count_terms(public(), [GUESS, "quokka"])
        assert (counted.of(GUESS), counted.of("quokka"), counted.total) == (count, 1, count + 1)
        store_many(actor, 65, sensitivity="secret", project=f"hidden{n}")


def test_hidden_memory_about_a_file_does_not_change_injection(remember, monkeypatch):
    monkeypatch.setattr(candidates, "MAX_MEMORIES_PER_FILE", 3)
    for n in range(2):
        remember(f"quokka {n}", files_read=["src/zoo.py"], created_at=PAST)

    def scores():
        found = candidates.find_candidates(public(), "what is wrong in src/zoo.py and quokka", timezone.now())
        return [(one.memory.pk, one.score) for one in found]

    before = scores()
    assert len(before) == 2
    remember("elsewhere", files_read=["src/zoo.py"], sensitivity="secret")
    assert scores() == before
