"""Another store in the place of this one: the index in the process is of the one that is there now."""

from __future__ import annotations

import numpy as np
import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.backends.vector_index import VectorIndex
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Embedding

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_store", "embedding"),
]
WRITER = Actor("token:writer", Clearance.up_to("secret", "ada"))


@pytest.fixture
def held(embedding):
    return VectorIndex(embedding.name, embedding.dimensions)


def remember(*texts: str) -> list[int]:
    return [memories.create_memory(MemoryDraft(content=text), WRITER).memory.pk for text in texts]


def fits(held) -> bool:
    rows = {row.memory_id: bytes(row.vector) for row in Embedding.objects.all()}
    found = held.of(held.view().pks)
    return found.keys() == rows.keys() and all(
        np.allclose(vector, np.frombuffer(rows[pk], "<f2"), atol=0.01) for pk, vector in found.items()
    )


def test_vectors_match_after_an_older_backup_is_restored(run, tmp_path, held):
    remember("of before")
    assert run("backup", tmp_path / "saved.db").code == 0
    after = remember("of after", "and later")
    assert fits(held)
    assert run("restore_backup", tmp_path / "saved.db", "--yes").code == 0
    assert len(held) == 1
    assert fits(held)
    # As many as before, under the same numbers, and they say something else.
    assert remember("quite another", "and one more") == after
    assert fits(held)


def test_vectors_match_after_another_file_is_moved_into_place(own_store, tmp_path, run, held):
    from django.db import connection

    remember("zebra")
    assert run("backup", tmp_path / "saved.db").code == 0
    remember("okapi")
    assert len(held) == 2
    connection.close()
    (tmp_path / "saved.db").replace(own_store)
    assert fits(held)
    assert len(held) == 1
