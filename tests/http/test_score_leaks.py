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
from memoryhub.search import term_frequencies
from memoryhub.search.term_frequencies import load_term_frequencies
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
    term_frequencies.clear_cache()
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


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 63, 64, 65, 66, 255, 256, 257, 511, 512, 513])
def test_frequency_is_a_function_of_the_visible_memories_with_the_word(remember, actor, count):
    remember("quokka habitat")
    store_many(actor, count)
    expected = count if count <= 64 else next(1 << n for n in range(11) if 1 << n >= count)
    for n in range(3):
        counted = load_term_frequencies(public(), [GUESS, "quokka"])
        assert (counted.of(GUESS), counted.of("quokka")) == (expected, 1)
        assert count < counted.total <= 2 * (count + 1)
        term_frequencies.clear_cache()
        store_many(actor, 65, sensitivity="secret", project=f"hidden{n}")


@pytest.mark.parametrize("count", [5, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300])
def test_estimated_frequency_does_not_depend_on_hidden_memories(remember, actor, monkeypatch, count):
    monkeypatch.setattr(term_frequencies, "MAX_EXACT_COUNT", 32)
    monkeypatch.setattr(term_frequencies, "MIN_SAMPLE", 64)
    store_many(actor, count)
    memories.create_memories([MemoryDraft(content=f"quokka {n}") for n in range(400 - count)], actor)
    before = load_term_frequencies(public(), [GUESS, "quokka"])
    store_many(actor, 70, sensitivity="secret", project="hidden")
    term_frequencies.clear_cache()
    assert load_term_frequencies(public(), [GUESS, "quokka"]) == before
    assert before.of(GUESS) == pytest.approx(count, rel=1.0)


def test_cached_frequency_does_not_depend_on_hidden_memories(actor, monkeypatch, db):
    monkeypatch.setattr(term_frequencies, "MIN_CACHED_ROWS", 100)
    store_many(actor, 100)
    before = load_term_frequencies(public(), [GUESS, "quokka"])
    store_many(actor, 70, sensitivity="secret", project="hidden")
    assert load_term_frequencies(public(), [GUESS, "quokka"]) == before


def test_new_word_is_counted_while_common_words_are_cached(remember, actor, monkeypatch):
    monkeypatch.setattr(term_frequencies, "MIN_CACHED_ROWS", 100)
    store_many(actor, 100)
    assert load_term_frequencies(public(), [GUESS, "quokka"]).of("quokka") == 0
    remember("quokka habitat")
    assert load_term_frequencies(public(), [GUESS, "quokka"]).of("quokka") == 1


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
