"""The vector index in memory always equals the table."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub import backends
from memoryhub.backends import change_log, schema, vector_file, vector_index
from memoryhub.backends.vector_index import VectorIndex
from memoryhub.models import Embedding, Memory
from tests import vectors as made_up
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


@pytest.fixture
def index() -> VectorIndex:
    """An empty index."""
    return VectorIndex(MODEL, SIZE)


def vectors_of(index: VectorIndex) -> dict[int, list[float]]:
    return {pk: vector.tolist() for pk, vector in index.of(index.view().pks).items()}


def equals_table(index: VectorIndex) -> bool:
    """Whether the index has the vectors of the table, the right length and the right scores."""
    wanted = stored_vectors(index.model)
    found = index.of(index.view().pks)
    query = unit(1, 2, 3)
    mean = index.view().mean(list(wanted))
    scores = dict(zip(*map(np.ndarray.tolist, index.view().cosines(query, mean)), strict=True))
    return (
        len(index) == len(wanted) == len(found)
        and all(np.allclose(found[pk], vector, atol=1e-6) for pk, vector in wanted.items())
        and scores == pytest.approx(cosines(query, wanted, list(wanted)), abs=1e-5)
    )


def test_plain_cosines_equal_those_of_the_stored_vectors(db, index):
    insert_vectors(zip(make_memories(30), random_units(30), strict=True))
    pks, found = index.view().cosines(unit(1, -1))
    assert dict(zip(pks.tolist(), found.tolist(), strict=True)) == pytest.approx(
        cosines(unit(1, -1), stored_vectors()), abs=1e-5
    )


def test_mean_is_subtracted_from_both_sides(db, index):
    insert_vectors(zip(make_memories(30), random_units(30), strict=True))
    assert equals_table(index)
    pks, found = index.view().cosines(unit(1), index.view().mean([]))
    assert dict(zip(pks.tolist(), found.tolist(), strict=True)) == pytest.approx(
        cosines(unit(1), stored_vectors()), abs=1e-5
    )


def test_zero_query_has_no_scores(db, index):
    insert_vectors([(make_memories(1)[0], unit(1))])
    assert len(index.view().cosines(np.zeros(SIZE, np.float32)).pks) == 0


@pytest.mark.parametrize("vector", [np.zeros(SIZE), np.full(SIZE, np.nan), np.ones(SIZE - 1)])
def test_invalid_vector_is_left_out(db, index, vector):
    one, other = make_memories(2)
    insert_vectors([(one, vector), (other, unit(1))])
    assert list(vectors_of(index)) == [other.pk]


def test_vectors_of_another_model_are_left_out(db, index):
    one, other = make_memories(2)
    insert_vectors([(one, unit(1))], "another")
    insert_vectors([(other, unit(1))])
    assert list(vectors_of(index)) == [other.pk]


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
class TestBetweenTransactions:
    def test_inserts_and_deletes_are_seen_at_the_next_use(self, index):
        rows = make_memories(20)
        insert_vectors(zip(rows, random_units(20), strict=True))
        assert equals_table(index)
        Embedding.objects.filter(memory__in=rows[5:9]).delete()
        assert equals_table(index)
        insert_vectors(zip(rows[5:7], random_units(2, seed=9), strict=True))
        assert equals_table(index)

    def test_only_new_vectors_are_read(self, index):
        rows = make_memories(50)
        insert_vectors(zip(rows, random_units(50), strict=True))
        assert len(index) == 50
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert len(index) == 50
        assert len(queries) == 1
        Embedding.objects.filter(memory__in=rows[:3]).delete()
        insert_vectors(zip(rows[:2], random_units(2), strict=True))
        with CaptureQueriesContext(connection) as queries:
            assert len(index) == 49
        assert len(queries) == 3

    def test_cached_distances_are_extended_by_those_of_new_vectors(self, index):
        rows = make_memories(30)
        insert_vectors(zip(rows[:20], random_units(20), strict=True))
        query, mean = unit(1, 2), index.view().mean([row.pk for row in rows[:20]])
        index.view().cosines(query, mean)
        insert_vectors(zip(rows[20:], random_units(10, seed=9), strict=True))
        extended = index.view().distances[mean.tobytes()]
        fresh = VectorIndex(MODEL, SIZE).view()
        fresh.cosines(query, mean)
        assert extended.tolist() == pytest.approx(fresh.distances[mean.tobytes()].tolist())

    def test_rollback_leaves_no_row(self, index):
        rows = make_memories(4)
        insert_vectors(zip(rows[:2], random_units(2), strict=True))
        before = vectors_of(index)
        with transaction.atomic():
            Embedding.objects.filter(memory=rows[0]).delete()
            insert_vectors([(rows[2], unit(1)), (rows[0], unit(0, 1))])
            assert equals_table(index)
            transaction.set_rollback(True)
        assert vectors_of(index) == before
        insert_vectors([(rows[3], unit(0, 0, 1))])  # takes the number that was given back
        assert equals_table(index)

    def test_open_transaction_is_invisible_to_other_threads(self, index):
        rows = make_memories(2)
        insert_vectors([(rows[0], unit(1))])
        seen = []

        def look():
            seen.append(list(vectors_of(index)))
            connection.close()

        with transaction.atomic():
            insert_vectors([(rows[1], unit(0, 1))])
            assert len(index) == 2
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
        assert seen == [[rows[0].pk]]
        assert len(index) == 2

    def test_missed_deletions_cause_a_full_reload(self, index, monkeypatch):
        monkeypatch.setattr(change_log, "MAX_LISTED_CHANGES", 5)
        schema.drop_triggers()
        schema.install()
        rows = make_memories(30)
        insert_vectors(zip(rows, random_units(30), strict=True))
        assert equals_table(index)
        Embedding.objects.filter(memory__in=rows[:20]).delete()
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {change_log.CHANGE_TABLE}")
            assert cursor.fetchone()[0] == 5
        assert equals_table(index)
        monkeypatch.undo()
        schema.drop_triggers()
        schema.install()

    def test_deletes_without_triggers_are_noticed(self, index):
        rows = make_memories(3)
        insert_vectors(zip(rows, random_units(3), strict=True))
        assert len(index) == 3
        schema.drop_triggers()
        Embedding.objects.filter(memory=rows[0]).delete()
        assert len(index) == 2
        Embedding.objects.filter(memory=rows[1]).delete()
        assert len(index) == 1
        schema.install()
        assert equals_table(index)

    def test_index_grows_and_shrinks_with_the_table(self, index, monkeypatch):
        monkeypatch.setattr(vector_index, "MIN_DEAD_ROWS", 4)
        monkeypatch.setattr(vector_file, "MIN_SPARE_RECORDS", 4)
        monkeypatch.setattr(vector_index, "PAGE_SIZE", 7)
        rows = make_memories(100)
        for start in range(0, 100, 9):
            insert_vectors(zip(rows[start : start + 9], random_units(9, start), strict=False))
            assert equals_table(index)
        Embedding.objects.filter(memory__in=rows[10:90]).delete()
        assert equals_table(index)
        path = vector_file.path_of(connection.settings_dict["NAME"], MODEL)
        assert path.stat().st_size < 3000

    def test_deleted_vectors_are_overwritten_in_memory(self, index):
        rows = make_memories(5)
        insert_vectors(zip(rows, random_units(5), strict=True))
        before = index.view()
        Embedding.objects.filter(memory=rows[2]).delete()
        index.view()
        assert not before.matrix[2].any()

    def test_thread_can_search_while_another_writes(self, index):
        rows = make_memories(400)
        insert_vectors(zip(rows[:100], random_units(100), strict=True))
        problems: list[Exception] = []
        done = threading.Event()

        def look():
            try:
                while not done.is_set():
                    pks, found = index.view().cosines(unit(1))
                    assert len(set(pks.tolist())) == len(pks) >= 100
                    assert np.isfinite(found).all()
                    assert (np.abs(found) < 1.001).all()
            except Exception as error:  # noqa: BLE001 a thread's own would be lost
                problems.append(error)
            finally:
                connection.close()

        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        for start in range(100, 400, 4):
            insert_vectors(zip(rows[start : start + 4], random_units(4, start), strict=True))
            Embedding.objects.filter(memory=rows[start]).delete()
        done.set()
        for thread in threads:
            thread.join()
        assert problems == []
        assert equals_table(index)


steps = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "text", "other", "look"]), st.integers(0, 9)), max_size=25
)


@pytest.mark.sqlite
@pytest.mark.slow
@settings(max_examples=60)
@given(steps)
def test_index_equals_the_table_after_any_steps(django_db_blocker, vector_rows, steps):
    index, rows = vector_rows
    Embedding.objects.all().delete()
    for number, (step, which) in enumerate(steps):
        row = rows[which]
        if step == "put" and not Embedding.objects.filter(memory=row).exists():
            insert_vectors([(row, random_units(1, number)[0])])
        elif step == "other" and not Embedding.objects.filter(memory=row).exists():
            insert_vectors([(row, random_units(1, number)[0])], "another")
        elif step == "remove":
            Embedding.objects.filter(memory=row).delete()
        elif step == "text":
            Memory.objects.filter(pk=row.pk).update(content=f"another text {number}")
        else:
            assert equals_table(index)
    assert equals_table(index)


@pytest.fixture
def vector_rows(transactional_db):
    return VectorIndex(MODEL, SIZE), make_memories(10)


@pytest.mark.sqlite
def test_process_has_one_index_per_model_and_limits_them():
    one = vector_index.get_index("a", 4)
    assert vector_index.get_index("a", 4) is one
    for name in ("b", "c"):
        vector_index.get_index(name, 4)
    assert vector_index.get_index("a", 4) is not one


@pytest.mark.parametrize("column", backends.EMBEDDED_COLUMNS)
def test_changed_text_deletes_the_vector(db, column):
    [one] = make_memories(1)
    insert_vectors([(one, unit(1))])
    setattr(one, column, "another")
    one.save()
    assert not Embedding.objects.exists()


def test_unchanged_text_keeps_the_vector(db):
    [one] = make_memories(1)
    insert_vectors([(one, unit(1))])
    one.importance = 0.9
    one.save()
    assert Embedding.objects.get().memory_id == one.pk


def test_vector_cannot_be_updated(db):
    [one] = make_memories(1)
    insert_vectors([(one, unit(1))])
    with pytest.raises(Exception, match="deleted and inserted"), transaction.atomic():
        Embedding.objects.update(model="another")
    assert Embedding.objects.get().model == made_up.MODEL
