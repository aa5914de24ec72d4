"""Memories without vectors are counted in the statistics and by the doctor."""

from __future__ import annotations

import pytest

from memoryhub.access.policy import Clearance
from memoryhub.embeddings import EmbeddingError, provider
from memoryhub.models import Embedding
from memoryhub.ops.doctor import Status
from memoryhub.ops.doctor import content as doctor
from memoryhub.stats.counts import database_sizes, vector_statistics


def test_statistics_count_visible_memories_without_vector(embedding, four_levels):
    assert vector_statistics(Clearance()) == {"embedding_model": embedding.name, "embedding_missing": 0}
    assert database_sizes(Clearance.up_to("secret"))["vector_bytes"] == 4 * 512
    Embedding.objects.all().delete()
    assert vector_statistics(Clearance())["embedding_missing"] == 1
    assert vector_statistics(Clearance.up_to("private"))["embedding_missing"] == 2
    assert vector_statistics(Clearance.up_to("secret"))["embedding_missing"] == 3


def test_no_vector_is_missing_without_a_provider(remember):
    remember("zebra")
    assert vector_statistics(Clearance()) == {"embedding_model": "", "embedding_missing": 0}
    assert database_sizes(Clearance.up_to("secret"))["vector_bytes"] == 0


def test_statistics_work_without_a_loadable_provider(db, monkeypatch):
    def fail():
        raise EmbeddingError("wordllama cannot be loaded")

    monkeypatch.setattr(provider, "configured", fail)
    assert vector_statistics(Clearance())["embedding_model"] == ""


def test_doctor_counts_vectors_and_memories_without_one(embedding, remember):
    remember("zebra")
    [found] = doctor.vectors.findings()
    assert (found.status, found.text) == (Status.OK, f"1 of {embedding.name}, 0.0 MB")
    Embedding.objects.all().delete()
    [found] = doctor.vectors.findings()
    assert found.status == Status.WARN
    assert found.text.startswith("1 memories have no vector")
    assert "manage.py maintain embed" in found.hint


@pytest.mark.parametrize("count", [0, 1])
def test_doctor_is_silent_without_a_provider(remember, count):
    for _ in range(count):
        remember("zebra")
    [found] = doctor.vectors.findings()
    assert found.status == Status.OK


def test_missing_provider_does_not_fail_readiness(client, remember, monkeypatch):
    def fail():
        raise EmbeddingError("wordllama cannot be loaded")

    monkeypatch.setattr(provider, "configured", fail)
    remember("zebra")
    assert client.get("/readyz").status_code == 200
