"""The nearest memories of a queryset, for any access filter."""

from __future__ import annotations

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.models import Memory
from memoryhub.search import semantic
from memoryhub.search.hybrid import search_memories
from memoryhub.search.semantic import find_nearest
from tests.cases import each
from tests.vectors import MODEL, cosines, insert_vectors, make_memories, random_units, stored_vectors, unit


def by_hand(rows, query, most, *, centred=True):
    """Compute the expected result with a loop."""
    table = stored_vectors()
    among = {pk: table[pk] for pk in rows.values_list("pk", flat=True) if pk in table}
    found = cosines(query, among, list(among) if centred else None)
    return sorted(((pk, score) for pk, score in found.items()), key=lambda one: (-one[1], -one[0]))[:most]


def same(found, wanted):
    return [pk for pk, _ in found] == [pk for pk, _ in wanted] and [score for _, score in found] == (
        pytest.approx([score for _, score in wanted], abs=1e-4)
    )


@pytest.fixture
def many(db):
    """300 memories of three levels and projects, and some with an unknown level."""
    rows = []
    for number, level in enumerate((*LEVELS, "cosmic")):
        for project in ("a", "b", "c"):
            rows += make_memories(25, sensitivity=level, project=project, copy=number)
    insert_vectors(zip(rows, random_units(len(rows)), strict=True))
    return rows


@each("centred", [True, False])
@each(
    "clearance",
    [
        Clearance(),
        Clearance.up_to("private"),
        Clearance.up_to("secret", "ada", ["b"]),
        Clearance.up_to("secret"),
    ],
)
def test_nearest_are_limited_to_visible_memories(many, clearance, centred):
    rows = Memory.objects.visible_to(clearance).live()
    for most in (1, 10, 1000):
        query = random_units(1, most)[0]
        found = find_nearest(rows, query, MODEL, most, centred=centred)
        assert same(found, by_hand(rows, query, most, centred=centred))
        assert len(found) == min(most, rows.count())


def test_hidden_memories_do_not_change_scores(many):
    rows = Memory.objects.visible_to(Clearance()).live()
    before = find_nearest(rows, unit(1), MODEL, 5)
    insert_vectors(zip(make_memories(50, sensitivity="secret"), [unit(1)] * 50, strict=True))
    assert find_nearest(rows, unit(1), MODEL, 5) == before


@each("hidden", [1, 20, 50, 200, 700])
def test_hidden_memories_do_not_change_the_mean_of_a_sample(many, sampled, hidden):
    rows = Memory.objects.visible_to(Clearance()).live()
    before = find_nearest(rows, unit(1), MODEL, 5)
    insert_vectors(zip(make_memories(hidden, sensitivity="secret"), [unit(1)] * hidden, strict=True))
    assert find_nearest(rows, unit(1), MODEL, 5) == before


def test_personal_memories_of_others_are_not_found(db):
    mine, theirs = (
        make_memories(1, scope="personal", owner="ada")[0],
        make_memories(1, scope="personal", owner="bob")[0],
    )
    insert_vectors([(mine, unit(1)), (theirs, unit(1))])
    found = find_nearest(Memory.objects.visible_to(Clearance(owner="ada")).live(), unit(1), MODEL, 9)
    assert [pk for pk, _ in found] == [mine.pk]


def test_queryset_decides_about_trashed_and_expired_memories(many):
    from django.utils import timezone

    Memory.objects.filter(pk__in=[row.pk for row in many[:10]]).update(deleted_at=timezone.now())
    Memory.objects.filter(pk__in=[row.pk for row in many[10:20]]).update(expires_at=timezone.now())
    live = Memory.objects.visible_to(Clearance()).live()
    assert same(find_nearest(live, unit(1), MODEL, 400), by_hand(live, unit(1), 400))
    trashed = Memory.objects.visible_to(Clearance()).trashed()
    assert len(find_nearest(trashed, unit(1), MODEL, 400)) == 10


def test_memories_without_a_vector_are_left_out(db):
    one, _ = make_memories(2)
    insert_vectors([(one, unit(1))])
    assert [pk for pk, _ in find_nearest(Memory.objects.all(), unit(1), MODEL, 9)] == [one.pk]
    assert find_nearest(Memory.objects.all(), unit(1), "another", 9) == []


def test_zero_vector_finds_nothing(many):
    assert find_nearest(Memory.objects.all(), np.zeros(8, np.float32), MODEL, 9) == []


def test_newer_of_equal_memories_comes_first(db):
    rows = make_memories(6)
    insert_vectors((row, unit(1, 2)) for row in rows)
    assert [pk for pk, _ in find_nearest(Memory.objects.all(), unit(1), MODEL, 3)] == [
        row.pk for row in reversed(rows[3:])
    ]


@pytest.fixture
def sampled(monkeypatch):
    """Make the sample so small that a few hundred memories are many."""
    monkeypatch.setattr(semantic, "MIN_SAMPLE", 20)


@each("projects", [["a"], ["a", "b", "c"]])
@each("most", [1, 30, 400])
def test_search_is_exact_with_a_sample(many, sampled, projects, most):
    rows = Memory.objects.visible_to(Clearance.up_to("secret", projects=projects))
    query = random_units(1, most)[0]
    found = find_nearest(rows, query, MODEL, most, centred=False)
    assert same(found, by_hand(rows, query, most, centred=False))
    centred = find_nearest(rows, query, MODEL, most)
    assert {pk for pk, _ in centred} <= set(rows.values_list("pk", flat=True))
    assert len(centred) == len(found)


def test_search_is_exact_if_the_visible_memories_are_far(many, sampled):
    """The nearest memories are hidden, so the estimate of the sample is wrong."""
    query = unit(1)
    table = stored_vectors()
    far = sorted(table, key=lambda pk: float(table[pk] @ query))[:150]
    rows = Memory.objects.filter(pk__in=far)
    assert same(find_nearest(rows, query, MODEL, 40, centred=False), by_hand(rows, query, 40, centred=False))


def test_number_of_queries_is_constant(many, sampled):
    def asked(rows, most):
        with CaptureQueriesContext(connection) as queries:
            find_nearest(rows, unit(1), MODEL, most)
        return len([one for one in queries if "memoryhub_memory" in one["sql"]])

    few = Memory.objects.filter(project="a", sensitivity="public")
    for rows in (few, Memory.objects.all(), Memory.objects.none()):
        assert max(asked(rows, most) for most in (1, 50, 5000)) <= 3
    insert_vectors(zip(make_memories(500), random_units(500, 3), strict=True))
    for rows in (few, Memory.objects.all()):
        assert max(asked(rows, most) for most in (1, 50, 5000)) <= 3


@pytest.mark.conformance("pigo-29")
@pytest.mark.slow
@settings(max_examples=80)
@given(
    levels=st.lists(st.sampled_from([*LEVELS, "cosmic"]), min_size=1, max_size=40),
    asked=st.sampled_from(LEVELS),
    projects=st.sampled_from([None, ["a"], ["a", "b"], []]),
    most=st.integers(1, 45),
    centred=st.booleans(),
    seed=st.integers(0, 10_000),
    share=st.integers(1, 40),
)
def test_search_equals_brute_force(empty, levels, asked, projects, most, centred, seed, share):
    Memory.objects.all().delete()
    made = [
        make_memories(1, sensitivity=level, project="abc"[n % 3], copy=n)[0] for n, level in enumerate(levels)
    ]
    insert_vectors(list(zip(made, random_units(len(made), seed), strict=True))[:share])
    rows = Memory.objects.visible_to(Clearance.up_to(asked, "ada", projects)).live()
    query = random_units(1, seed + 1)[0]
    assert same(
        find_nearest(rows, query, MODEL, most, centred=centred), by_hand(rows, query, most, centred=centred)
    )


@pytest.fixture
def empty(db):
    """An empty store, filled by each example."""


@pytest.mark.usefixtures("embedding", "corpus")
def test_search_uses_words_alone_if_the_vectors_cannot_be_read(monkeypatch):
    def refuse(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(semantic, "row_cosines", refuse)
    found = search_memories(Memory.objects.all(), "webhook")
    assert found.hits
    assert found.mode == "lexical"
    assert found.failure.endswith("the vectors cannot be read")
