"""What is best by the whole score is found, however many memories match."""

import pytest

from memoryhub.access.policy import Clearance
from memoryhub.memories import remember_many
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Memory
from memoryhub.search.hybrid import search


def public():
    return Memory.objects.visible_to(Clearance()).live()


@pytest.fixture
def many_old(db, actor):
    """More memories about tables than are scored, all old, all with the word in their titles."""
    texts = (f"Table number {n}\n\nA note." for n in range(320))
    drafts = [MemoryDraft(content=text, created_at="2019-01-01T00:00:00Z") for text in texts]
    remember_many(drafts, actor)


def test_a_new_and_important_memory_beats_many_with_a_better_match(many_old, remember):
    long = "Something else entirely is told here at length, word after word after word. " * 20
    best = remember(f"{long} One sentence about a table. {long}", importance=1.0, trust=1.0)
    assert search(public(), "table").hits[0].memory == best


def test_a_total_that_counts_only_the_scored_says_so(many_old):
    results = search(public(), "table")
    assert not results.exact
    assert search(public(), "number 17").exact


def test_a_hit_outside_the_content_is_marked_in_the_snippet(remember):
    remember("body says nothing", title="Quokkaname heading")
    [hit] = search(public(), "quokkaname").hits
    assert hit.snippet == "<mark>Quokkaname</mark> heading"


def test_a_fragment_that_stands_there_as_typed_is_found(remember):
    remember("the renamed database lives elsewhere", created_at="2019-01-01T00:00:00Z")
    for n in range(30):
        remember(f"other database notes {n}", created_at="2019-01-01T00:00:00Z")
    assert search(public(), "amed data").hits[0].memory.content.startswith("the renamed")
