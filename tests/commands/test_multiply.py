"""Copies of memories for benchmarks on PostgreSQL."""

from __future__ import annotations

import pytest
from django.db import connection

from memoryhub.backends import INDEXES
from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.backends.postgres.schema import is_index_sound
from memoryhub.core.database import fetch_all
from memoryhub.models import Memory
from memoryhub.search.semantic import find_nearest
from tests.vectors import MODEL, insert_vectors, make_memories, unit
from tools.bench.multiply import multiply

pytestmark = [
    pytest.mark.skipif(not IS_POSTGRES, reason="of PostgreSQL"),
    pytest.mark.django_db(transaction=True),
]


def valid_indexes() -> list[tuple[str]]:
    return fetch_all("SELECT indexname FROM pg_indexes WHERE tablename LIKE 'memoryhub%%' ORDER BY 1", [])


def test_copies_have_words_trigrams_and_vectors_like_their_originals() -> None:
    first, other = make_memories(2)
    insert_vectors([(first, unit(1)), (other, unit(0, 1))])
    before = valid_indexes()
    multiply(connection.connection, 2)
    assert Memory.objects.count() == 6
    assert all(map(is_index_sound, INDEXES))
    assert valid_indexes() == before
    nearest = find_nearest(Memory.objects.all(), unit(1), MODEL, 3, centred=False)
    assert len(nearest) == 3
    assert min(cosine for _, cosine in nearest) > 0.9
    assert len(set(Memory.objects.values_list("uid", flat=True))) == 6
