"""Scores, results and their order do not show which words are in hidden memories.

The attack: store enough memories with a guessed word to put its frequency at a threshold, so that one more
hidden memory would change the score of another memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import cycle
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
from tests.cases import each, rolled_back

__all__ = ["agent"]

pytestmark = pytest.mark.slow

GUESS = "krasmodel"
PAST = "2021-01-01T00:00:00Z"  # so long ago that recency does not change between two calls
ATTACKERS: dict[str, dict[str, Any]] = {
    "public token": {},
    "token confined to a project": {"projects": ["a"]},
}
BOB = Actor("token:bob", Clearance.up_to("public", "bob"))
HIDDEN: dict[str, list[dict[str, Any]]] = {
    "public token": [
        {"sensitivity": "secret", "project": "a"},
        {"sensitivity": "private", "project": "a"},
        {"scope": "personal", "project": "a", "by": BOB},
    ],
    "token confined to a project": [{"project": "b"}],
}
SOURCES: dict[str, Callable[[Agent, str], Any]] = {
    **{
        f"{mode} search": lambda bot, query, mode=mode: bot.get(
            "/search", query=query, mode=mode, min_score=0, limit=200
        )
        for mode in ("lexical", "hybrid", "semantic")
    },
    "recall": lambda bot, query: bot.post("/recall", {"query": query, "max_tokens": 9000}),
    "inject": lambda bot, query: bot.post("/inject", {"prompt": query}),
    "letsgo": lambda bot, query: bot.post("/tools/letsgo/search_memories", {"query": query, "limit": 50}),
    "memory-mcp": lambda bot, query: bot.post("/tools/memory-mcp/memory_recall", {"query": query}),
    "mira": lambda bot, query: bot.post(
        "/tools/mira/memory", {"action": "recall", "query": query, "limit": 50}
    ),
    "pigo": lambda bot, query: bot.post("/tools/pigo/memory_recall", {"query": query}),
}
# Ten words that are in hidden memories, and ten that are not.
GUESSES = (
    f"{GUESS} velbrand ostrigon dunmarek phalantis quimbarro zeltforge mirovane haldrexin torvulen".split()
)
CONTROL = "brontosnap"
CONTROLS = (
    f"{CONTROL} gluvarin pexatron wimbolux sarvondel nektabor jurplexi fandrolic ubrenyth cyblomar".split()
)
# The words that the attacker asks for: one of a hidden memory of each kind, and one of none.
ASKED = [*GUESSES[:3], CONTROL]
STEPS = (63, 256, 512)  # numbers of crafted memories


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


Answers = dict[tuple[str, str], Any]


def answers(bot: Agent, queries: Sequence[str], sources: Iterable[str] = SOURCES) -> Answers:
    return {
        (name, query): answer(partial(SOURCES[name], query=query), bot)
        for name in sources
        for query in queries
    }


def different(ask: Callable[[], Answers], hidden: Sequence[Memory]) -> list[Any]:
    """Return the answers that change when the hidden memories have never been stored."""
    having = ask()
    with rolled_back():
        Memory.objects.filter(pk__in=[memory.pk for memory in hidden]).delete()
        without = ask()
    assert having.keys() == without.keys()
    return [key for key in having if having[key] != without[key]]


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_crafted_memories_do_not_show_which_words_are_hidden(agent, remember, actor, attacker):
    """The attacker stores memories with the whole list of words, and asks after each number of them."""
    ways = cycle(HIDDEN[attacker])
    hidden = [remember(f"the launch of {one}", created_at=PAST, **next(ways)) for one in GUESSES]
    probes = [
        remember(f"quokka habitat {one}", created_at=PAST, importance=1.0, project="a").uid
        for one in ("", GUESS, CONTROL)
    ]
    bot = agent("public", **ATTACKERS[attacker])
    words = " ".join([*GUESSES, *CONTROLS])
    stored = 0

    def ask() -> Answers:
        found = answers(bot, [f"{word} quokka" for word in ASKED])
        for uid in probes:
            related = answer(lambda bot, uid=uid: bot.get(f"/memories/{uid}/related", limit=50), bot)
            found["related", uid] = related
        found["duplicates", ""] = answer(lambda bot: bot.get("/duplicates", limit=20), bot)
        return found

    for size in STEPS:
        texts = [f"{words} note {n:05}" for n in range(stored, size)]
        drafts = [MemoryDraft(content=text, created_at=PAST, project="a") for text in texts]
        memories.create_memories(drafts, actor)
        stored = size
        assert different(ask, hidden) == []


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_hidden_memory_does_not_choose_among_more_matches_than_are_compared(agent, remember, actor, attacker):
    """Two words are in equally many visible memories; a hidden memory makes one of them more common.

    An injection ignores words that so many memories contain.
    """
    hidden = remember(f"the launch of {GUESS}", created_at=PAST, **HIDDEN[attacker][0])
    texts = [f"{word} note {n:05}" for n in range(230) for word in (GUESS, CONTROL)]
    drafts = [MemoryDraft(content=one, created_at=PAST, project="a") for one in texts]
    memories.create_memories(drafts, actor)
    bot = agent("public", **ATTACKERS[attacker])

    def ask() -> Answers:
        found = answers(bot, [f"{GUESS} {CONTROL}"], SOURCES)
        assert all(" note 00" in str(one) for (name, _), one in found.items() if name != "inject")
        return found

    assert different(ask, [hidden]) == []


@each("count", [0, 1, 64, 65, 257, 512])
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
