"""Hidden memories do not affect the scores of visible ones."""

from memoryhub import memories
from memoryhub.access.policy import Clearance
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Memory
from memoryhub.search.hybrid import search_memories


def public():
    return Memory.objects.visible_to(Clearance()).live()


def matches(typed):
    return [
        (hit.memory.uid, hit.components.match, hit.snippet)
        for hit in search_memories(public(), typed, min_score=0).hits
    ]


def test_word_of_a_secret_memory_does_not_change_public_scores(remember):
    for n in range(20):
        remember(f"quokka habitat report number {n}")
    before = matches("quokka habitat swordfish9")
    assert before
    remember("the password hint is swordfish9", sensitivity="secret")
    assert matches("quokka habitat swordfish9") == before


def test_hidden_word_is_searched_inside_visible_words(remember):
    remember("the superswordfish9x release")
    before = matches("swordfish9")
    remember("swordfish9", sensitivity="secret")
    assert matches("swordfish9") == before
    assert before


def test_frequency_in_hidden_memories_does_not_count(remember, actor, configure):
    configure(max_memories=0)
    for n in range(20):
        remember(f"quokka habitat report number {n}")
    remember("krasmodel quokka")
    before = matches("quokka krasmodel")
    assert before
    drafts = [MemoryDraft(content=f"krasmodel {n} is launched", sensitivity="secret") for n in range(100)]
    memories.create_memories(drafts, actor)
    assert matches("quokka krasmodel") == before


def test_word_of_only_hidden_memories_is_unknown(remember, actor, configure):
    configure(max_memories=0)
    for n in range(20):
        remember(f"quokka habitat report number {n}")
    before = matches("quokka habitat krasmodel")
    assert before
    drafts = [MemoryDraft(content=f"krasmodel {n} is launched", sensitivity="secret") for n in range(1200)]
    memories.create_memories(drafts, actor)
    assert matches("quokka habitat krasmodel") == before


def test_visible_memory_is_found_below_hundreds_of_newer_hidden_ones(remember, actor, configure):
    configure(max_memories=0)
    old = remember("three turtles were counted", created_at="2021-01-01")
    drafts = [MemoryDraft(content=f"a turtle {n}", sensitivity="secret") for n in range(1200)]
    memories.create_memories(drafts, actor)
    assert [uid for uid, _, _ in matches("turtle")] == [old.uid]
