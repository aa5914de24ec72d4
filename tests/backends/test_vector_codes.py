"""Estimated products of vectors, and the cosines of a store that has so many that it uses them."""

from __future__ import annotations

import numpy as np
import pytest

from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.backends import vector_index, vector_view
from memoryhub.backends.vector_index import VectorIndex
from memoryhub.backends.vector_view import VectorCodes
from memoryhub.models import Embedding, Memory
from memoryhub.search.hybrid import search_memories
from memoryhub.search.semantic import find_nearest, row_cosines
from memoryhub.search.visible_rows import load_visible_rows
from tests.backends.test_vectors import equals_table
from tests.vectors import MODEL, SIZE, insert_vectors, make_memories, random_units, unit


def units(rows, dimensions, seed=0):
    found = np.random.default_rng(seed).normal(0, 1, (rows, dimensions)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.mark.parametrize("dimensions", [100, 256, 1024, 4096])
def test_estimates_are_close_to_the_products(dimensions):
    vectors, query = units(500, dimensions), units(1, dimensions, 1)[0]
    vectors[:100] = (vectors[:100] + query) / np.linalg.norm(vectors[:100] + query, axis=1, keepdims=True)
    errors = VectorCodes.of(vectors).multiply(query) - vectors @ query
    assert np.abs(errors).max() < 2 / np.sqrt(dimensions)
    assert abs(errors.mean()) < 0.2 / np.sqrt(dimensions)


def test_estimate_does_not_depend_on_other_vectors():
    vectors, query = units(100, 256), units(1, 256, 1)[0]
    alone = [VectorCodes.of(one[None]).multiply(query)[0] for one in vectors]
    assert VectorCodes.of(vectors).multiply(query).tolist() == alone


def test_product_of_a_zero_vector_is_zero():
    vectors = np.concatenate([units(2, 256), np.zeros((1, 256), np.float32)])
    assert VectorCodes.of(vectors).multiply(units(1, 256, 1)[0])[2] == 0


def test_codes_are_extended_and_erased():
    vectors, query = units(9, 256), units(1, 256, 1)[0]
    codes = VectorCodes.of(vectors[:4]).followed_by(vectors[4:])
    assert codes.multiply(query).tolist() == VectorCodes.of(vectors).multiply(query).tolist()
    codes.erase(np.array([2, 8, 30]))
    assert not codes.planes[:, :, [2, 8]].any()
    assert codes.multiply(query)[[2, 8]].tolist() == [0, 0]


@pytest.fixture
def coded(monkeypatch, transactional_db):
    """Estimate cosines also in a small store."""
    monkeypatch.setattr(vector_view, "MIN_CODED_ROWS", 4)
    monkeypatch.setattr(vector_view, "MAX_UNCODED_ROWS", 3)
    monkeypatch.setattr(vector_view, "MIN_NEAREST", 60)


@pytest.fixture
def many(coded):
    rows = [row for level in (*LEVELS, "cosmic") for row in make_memories(60, sensitivity=level)]
    insert_vectors(zip(rows, random_units(len(rows)), strict=True))
    return rows


def test_index_equals_the_table_with_codes(coded):
    index, rows = VectorIndex(MODEL, SIZE), make_memories(12)
    for number, row in enumerate(rows):
        insert_vectors([(row, random_units(1, number)[0])])
        if number % 4 == 3:
            Embedding.objects.filter(memory=rows[number - 2]).delete()
        assert equals_table(index)
    assert index.view().codes is not None


def test_codes_of_deleted_vectors_are_overwritten(many):
    index = VectorIndex(MODEL, SIZE)
    before = index.view()
    Embedding.objects.filter(memory=many[2]).delete()
    index.view()
    assert not before.codes.planes[:, :, 2].any()


@pytest.mark.sqlite
@pytest.mark.parametrize("clearance", [Clearance(), Clearance.up_to("private"), Clearance.up_to("secret")])
def test_nearest_visible_memories_are_the_same_with_and_without_codes(many, monkeypatch, clearance):
    rows = Memory.objects.visible_to(clearance).live()
    queries = random_units(5, 7)
    estimated = [find_nearest(rows, query, MODEL, 5) for query in queries]
    assert vector_index.get_index(MODEL, SIZE).view().codes is not None
    monkeypatch.setattr(vector_view, "MIN_CODED_ROWS", 10_000)
    vector_index._indexes.clear()
    for query, found in zip(queries, estimated, strict=True):
        exact = find_nearest(rows, query, MODEL, 5)
        assert [pk for pk, _ in found] == [pk for pk, _ in exact]
        assert [cosine for _, cosine in found] == pytest.approx([cosine for _, cosine in exact], abs=1e-5)


@pytest.mark.sqlite
def test_hidden_memories_do_not_change_estimates(many, monkeypatch):
    monkeypatch.setattr(vector_view, "MIN_NEAREST", 10)  # the other visible memories keep estimates
    memories = Memory.objects.visible_to(Clearance()).live()

    def cosines():
        return row_cosines(memories, load_visible_rows(memories), unit(1), MODEL).tolist()

    before = cosines()
    assert vector_index.get_index(MODEL, SIZE).view().codes is not None
    insert_vectors(zip(make_memories(50, sensitivity="secret", copy=1), [unit(1)] * 50, strict=True))
    assert cosines() == before


@pytest.mark.sqlite
def test_results_of_a_search_have_exact_cosines(transactional_db, embedding, corpus, monkeypatch):
    def found():
        return [
            [(hit.memory.pk, hit.components) for hit in search_memories(Memory.objects.all(), text).hits]
            for text in ("webhook", "how are tokens checked", "database")
        ]

    exact = found()
    monkeypatch.setattr(vector_view, "MIN_CODED_ROWS", 1)
    monkeypatch.setattr(vector_view, "MIN_NEAREST", 60)
    vector_index._indexes.clear()
    assert found() == exact
    assert vector_index.get_index(embedding.name, embedding.dimensions).view().codes is not None
