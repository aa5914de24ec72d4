"""Names in camel case and the same words with spaces find each other, in searches and prompts."""

from __future__ import annotations

import re

import pytest

from memoryhub.access.policy import Clearance
from memoryhub.models import Memory
from memoryhub.search.hybrid import search_memories
from tests.cases import each

CASES = [
    ("how are foreignKeys checked?", "SQLite checks foreign keys only after a pragma"),
    ("how are foreign keys checked?", "The option foreignKeys turns the checks of SQLite on"),
    ("what is maxConnectionPool?", "The max connection pool of the gateway has twelve entries"),
    ("what is the max connection pool", "maxConnectionPool of the gateway is twelve"),
]


@pytest.fixture(autouse=True)
def others(remember):
    """Store memories with some of the words."""
    for text in (
        "The keys of the office",
        "A foreign account",
        "Pool of cars",
        "A connection to Rome",
    ):
        remember(text)


@each("prompt, content", CASES)
@each("is_prompt", [False, True])
def test_search_finds_the_other_spelling_first(remember, prompt, content, is_prompt):
    remember(content)
    memories = Memory.objects.visible_to(Clearance()).live()
    for mode in ("hybrid", "lexical"):
        found = search_memories(memories, prompt, mode=mode, is_prompt=is_prompt).hits
        assert found[0].memory.content == content
        assert found[0].components.match > 0.4


@each("prompt, content", CASES)
def test_injection_brings_the_other_spelling(remember, ask, prompt, content):
    made = remember(content)
    assert made.uid in [one.uid for one in ask(prompt).injected]


@pytest.mark.parametrize(("typed", "content"), [("foreignKeys", CASES[0][1]), ("foreign keys", CASES[1][1])])
def test_other_spelling_is_highlighted(remember, typed, content):
    remember(content)
    memories = Memory.objects.visible_to(Clearance()).live()
    best = search_memories(memories, typed).hits[0]
    assert best.memory.content == content
    assert re.findall("<mark>(.*?)</mark>", best.snippet) in (["foreign keys"], ["foreignKeys"])
