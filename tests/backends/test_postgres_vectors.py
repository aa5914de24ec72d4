"""Search in the vectors with pgvector: the same rows as by comparing all, for any access filter."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub import memories
from memoryhub.access.policy import LEVELS, Clearance, system_actor
from memoryhub.backends import schema, vector_index
from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.backends.postgres import vectors
from memoryhub.core.database import Deadline
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Embedding, Memory
from memoryhub.ops import checks
from memoryhub.search.hybrid import search_memories
from memoryhub.search.related import find_related
from memoryhub.search.semantic import available_embedder, find_nearest
from tests.vectors import (
    MODEL,
    SIZE,
    cosines,
    insert_vectors,
    make_memories,
    random_units,
    stored_vectors,
    unit,
)

pytestmark = [pytest.mark.skipif(not IS_POSTGRES, reason="of PostgreSQL"), pytest.mark.django_db]
CALLERS = [Clearance(), Clearance.up_to("private"), Clearance.up_to("secret", "ada", ["b"])]


@pytest.fixture
def through_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the HNSW index however few the memories are."""
    monkeypatch.setattr(vectors, "MAX_EXACT_ROWS", 0)
    monkeypatch.setattr(vectors.TableVectors, "_known", lambda self, pks: None)
    vector_index.get_index(MODEL, SIZE).prepare()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_sort = off")


@pytest.fixture
def without_extension(embedding: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Drop the extension until the end of the test, and let no one create it."""
    monkeypatch.setattr(vectors, "create_extension", vectors.has_extension)
    with connection.cursor() as cursor:
        cursor.execute("DROP EXTENSION vector CASCADE")
    vectors.forget_obstacle()
    yield
    vectors.forget_obstacle()


def rows_of_table() -> dict[int, list[float] | None]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT memory_id, vector::real[] FROM {vectors.TABLE}")
        return {pk: vector and np.array(vector, np.float16).tolist() for pk, vector in cursor.fetchall()}


def valid_indexes() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON oid = indexrelid WHERE"
            " indisvalid AND relam = (SELECT oid FROM pg_am WHERE amname = 'hnsw')"
        )
        return [name for (name,) in cursor.fetchall()]


def test_vectors_are_copied_exactly() -> None:
    rows = make_memories(50)
    insert_vectors(zip(rows, 3 * random_units(50), strict=True))
    stored = {one.memory_id: np.frombuffer(one.vector, "<f2").tolist() for one in Embedding.objects.all()}
    assert len(stored) == 50
    assert rows_of_table() == stored


@pytest.mark.parametrize("vector", [np.zeros(SIZE), np.full(SIZE, np.nan), np.full(SIZE, np.inf)])
def test_vector_without_direction_is_stored_and_never_found(vector: vector_index.Vectors) -> None:
    one, other = make_memories(2)
    insert_vectors([(one, vector.astype(np.float32)), (other, unit(1))])
    assert rows_of_table()[one.pk] is None
    assert [pk for pk, _ in find_nearest(Memory.objects.all(), unit(1), MODEL, 9)] == [other.pk]


def test_vector_without_numbers_is_stored_and_never_found() -> None:
    one, other = make_memories(2)
    insert_vectors([(other, unit(1))])
    Embedding.objects.create(memory=one, model=MODEL, vector=b"")
    assert rows_of_table()[one.pk] is None
    assert [pk for pk, _ in find_nearest(Memory.objects.all(), unit(1), MODEL, 9)] == [other.pk]


def test_smallest_numbers_of_16_bits_are_copied() -> None:
    [one] = make_memories(1)
    vector = np.array([3e-7, -6e-6, 0, 7e-5, -1, 0.333, 65504, 0], np.float16)
    insert_vectors([(one, vector.astype(np.float32))])
    assert rows_of_table()[one.pk] == vector.tolist()


@pytest.mark.parametrize("change", ["vector", "memory", "text"])
def test_vector_is_removed_with_its_row(change: str) -> None:
    one, other = make_memories(2)
    insert_vectors([(one, unit(1)), (other, unit(0, 1))])
    if change == "vector":
        Embedding.objects.filter(memory=one).delete()
    elif change == "memory":
        one.delete()
    else:
        Memory.objects.filter(pk=one.pk).update(content="another text")
    assert list(rows_of_table()) == [other.pk]


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.usefixtures("through_index")
def test_index_finds_the_nearest_visible_memories(caller: Clearance, centred: bool) -> None:
    rows = []
    for number, level in enumerate((*LEVELS, "cosmic")):
        for project in ("a", "b", "c"):
            rows += make_memories(25, sensitivity=level, project=project, copy=number)
    insert_vectors(zip(rows, random_units(len(rows)), strict=True))
    visible = Memory.objects.visible_to(caller).live()
    query, table = random_units(1, 7)[0], stored_vectors()
    among = {pk: table[pk] for pk in visible.values_list("pk", flat=True)}
    wanted = cosines(query, among, list(among) if centred else None)
    found = find_nearest(visible, query, MODEL, 10, centred=centred)
    assert [pk for pk, _ in found] == sorted(wanted, key=lambda pk: (-wanted[pk], -pk))[:10]
    assert [score for _, score in found] == pytest.approx(sorted(wanted.values())[:-11:-1], abs=2e-3)


def test_vectors_of_few_memories_are_read_once() -> None:
    rows = make_memories(30)
    insert_vectors(zip(rows, random_units(30), strict=True))
    query, table = random_units(1, 7)[0], stored_vectors()
    wanted = cosines(query, table, list(table))
    with CaptureQueriesContext(connection) as captured:
        found = find_nearest(Memory.objects.all(), query, MODEL, 10)
    assert len([row for row in captured if "SELECT memory_id, vector" in row["sql"]]) == 1
    assert dict(found) == pytest.approx({pk: wanted[pk] for pk, _ in found}, abs=2e-3)
    assert [pk for pk, _ in found] == sorted(wanted, key=lambda pk: (-wanted[pk], -pk))[:10]


@pytest.mark.usefixtures("through_index")
def test_caller_who_sees_few_memories_gets_ten_although_thousands_are_nearer() -> None:
    hidden = make_memories(1500, sensitivity="secret", project="a")
    shown = make_memories(12, sensitivity="public", project="b", copy=2)
    noise = np.random.default_rng(1).normal(0, 0.1, (1512, SIZE)).astype(np.float32)
    insert_vectors(zip(hidden, unit(1) + noise[:1500], strict=True))
    insert_vectors(zip(shown, unit(0, 1) + noise[1500:], strict=True))
    with CaptureQueriesContext(
        connection,
    ) as captured:
        found = find_nearest(Memory.objects.visible_to(Clearance()).live(), unit(1), MODEL, 10, centred=False)
    assert {pk for pk, _ in found} <= {one.pk for one in shown}
    assert len(found) == 10
    [search] = [one["sql"] for one in captured if "<=>" in one["sql"]]
    with connection.cursor() as cursor:
        settings, nearest = search.split("; ")
        cursor.execute(f"{settings}; EXPLAIN {nearest}")
        cursor.nextset()
        assert any(f"Index Scan using {vectors.TABLE}_" in line for (line,) in cursor.fetchall())


@pytest.mark.usefixtures("through_index")
def test_index_finds_the_same_under_a_deadline() -> None:
    """The statement for the time limit and that for the limits of the index come before the search."""
    rows = make_memories(30)
    insert_vectors(zip(rows, random_units(30), strict=True))
    visible, query = Memory.objects.visible_to(Clearance()).live(), random_units(1, 7)[0]
    wanted = find_nearest(visible, query, MODEL, 10)
    with Deadline(60_000).reading():
        found = find_nearest(visible, query, MODEL, 10)
    assert len(found) == 10
    assert found == wanted


@pytest.mark.usefixtures("embedding", "corpus")
@pytest.mark.parametrize("caller", CALLERS)
def test_search_through_the_index_finds_what_the_comparison_finds(
    caller: Clearance, monkeypatch: pytest.MonkeyPatch
) -> None:
    visible = Memory.objects.visible_to(caller).live()
    wanted = search_memories(visible, "how do webhooks retry")
    monkeypatch.setattr(vectors, "MAX_EXACT_ROWS", 0)
    found = search_memories(visible, "how do webhooks retry")
    assert found.mode == "hybrid"
    assert found.ids == wanted.ids


def test_index_is_made_once_for_each_model() -> None:
    before = valid_indexes()
    for _ in range(2):
        vector_index.get_index(MODEL, SIZE).prepare()
        vector_index.get_index('another\'s "model"', SIZE).prepare()
    assert len(valid_indexes()) == len(before) + 2


def test_index_that_a_killed_process_left_unfinished_is_rebuilt() -> None:
    vector_index.get_index(MODEL, SIZE).prepare()
    [name] = [one for one in valid_indexes() if one.startswith(vectors.TABLE)]
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", [name])
    assert name not in valid_indexes()
    vector_index.get_index(MODEL, SIZE).prepare()
    assert name in valid_indexes()


def test_vectors_of_another_size_do_not_disturb_the_index() -> None:
    one, other = make_memories(2)
    insert_vectors([(one, unit(1)), (other, np.ones(SIZE + 1, np.float32))])
    vector_index.get_index(MODEL, SIZE).prepare()
    assert [pk for pk, _ in find_nearest(Memory.objects.all(), unit(1), MODEL, 9)] == [one.pk]


def test_vectors_that_no_trigger_copied_are_reported_and_copied() -> None:
    [one] = make_memories(1)
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {vectors.TABLE}_insert ON memoryhub_embedding")
    insert_vectors([(one, unit(1))])
    problems = schema.find_problems()
    assert f"trigger {vectors.TABLE}_insert is missing" in problems
    assert f"index {vectors.TABLE} does not hold as many rows as its table" in problems
    schema.install()
    assert schema.find_problems() == []
    assert list(rows_of_table()) == [one.pk]


@pytest.mark.usefixtures("without_extension")
def test_without_the_extension_search_goes_by_words() -> None:
    assert f"trigger {vectors.TABLE}_insert needs the extension vector" in schema.find_problems()
    schema.install()
    assert schema.find_problems() == []
    result = memories.create_memory(MemoryDraft(content="The webhook retries"), system_actor("tests"))
    found = search_memories(Memory.objects.visible_to(Clearance()), "webhook")
    assert [hit.memory.pk for hit in found.hits] == [result.memory.pk]
    assert found.mode == "lexical"
    assert "no extension vector" in found.failure
    assert "no extension vector" in find_related(result.memory, Clearance()).note
    assert available_embedder()[0] is None
    [warning] = checks.postgres_is_able()
    assert warning.id == "memoryhub.W011"


@pytest.mark.usefixtures("without_extension")
def test_vectors_stored_without_the_extension_are_copied_once_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema.install()
    [one] = make_memories(1)
    insert_vectors([(one, unit(1))])
    monkeypatch.undo()
    schema.install()
    vectors.forget_obstacle()
    assert [pk for pk, _ in find_nearest(Memory.objects.all(), unit(1), MODEL, 9)] == [one.pk]
