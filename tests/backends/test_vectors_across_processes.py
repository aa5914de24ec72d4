"""Vector indexes of several processes: writes are found at once, erased vectors are gone everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.backends import vector_index
from memoryhub.embeddings import Embedder
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Embedding, Memory
from memoryhub.search.semantic import find_nearest
from tests import disk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("embedding")]
OTHER = """
import json, os, sys
import django
from django.conf import settings
django.setup()
settings.DATABASES["default"]["NAME"] = os.environ["TEST_DB"]
settings.MEMORY_LOG = os.environ["TEST_LOG"]
settings.MEMORYHUB = settings.MEMORYHUB.model_copy(update={"embeddings": "wordllama"})
from memoryhub import memories as store
from memoryhub.memories.schemas import MemoryDraft; from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Memory
from memoryhub.access.policy import system_actor as system
from tests.backends.test_vectors_across_processes import found
actor = system("other")
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
"""
SEEN = Clearance.up_to("secret", owner="ada")


def found(question: str) -> list[str]:
    """Return the contents of the live memories nearest to a question in this process."""
    from memoryhub.embeddings import provider

    embedder = provider.configured()
    assert embedder
    near = find_nearest(
        Memory.objects.visible_to(SEEN).live(), embedder.query(question), embedder.name, 5, centred=False
    )
    said = Memory.objects.in_bulk([pk for pk, _ in near])
    return [said[pk].content for pk, _ in near]


@pytest.fixture
def other(journal_mirror) -> Iterator[Callable[[str], Any]]:
    """``other("expression")`` evaluates an expression in another process with the same store."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "TEST_DB": str(connection.settings_dict["NAME"]),
        "TEST_LOG": str(journal_mirror),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER],
        env=environment,
        cwd=django_settings.BASE_DIR,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask(expression: str) -> Any:
        process.stdin.write(expression + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield ask
    process.stdin.close()
    process.stdout.close()
    process.kill()
    process.wait()


@pytest.mark.slow
def test_writes_of_another_process_are_found_at_once(other, remember):
    remember("zebras have stripes")
    assert found("striped horses of Africa") == ["zebras have stripes"]
    uid = other("store.create_memory(MemoryDraft(content='the invoice is due on Friday'), actor).memory.uid")
    assert found("when must the bill be paid") == ["the invoice is due on Friday", "zebras have stripes"]
    other(f"store.update_memory('{uid}', MemoryPatch(content='kettles boil water'), actor).uid")
    assert found("boiling water in a kettle") == ["kettles boil water", "zebras have stripes"]
    other(f"len(store.trash_memories(['{uid}'], actor))")
    assert found("boiling water in a kettle") == ["zebras have stripes"]
    other(f"len(store.restore_memories(['{uid}'], actor))")
    assert found("boiling water in a kettle")[0] == "kettles boil water"
    other(f"store.erase_memories(['{uid}'], actor)")
    assert found("boiling water in a kettle") == ["zebras have stripes"]


@pytest.mark.slow
def test_another_process_finds_our_writes(other, remember, actor):
    assert other("found('zebras')") == []
    one = remember("zebras have stripes")
    assert other("found('zebras')") == ["zebras have stripes"]
    memories.update_memory(one.uid, MemoryPatch(content="kettles boil water"), actor)
    assert other("found('zebras')") == ["kettles boil water"]
    memories.erase_memories([one.uid], actor)
    assert other("found('zebras')") == []


@pytest.mark.slow
def test_purge_by_another_process_is_noticed(other, remember):
    remember("zebras have stripes", ttl_days=1)
    assert found("zebras") == ["zebras have stripes"]
    Memory.objects.update(expires_at=timezone.now())
    assert other("store.purge_expired(actor)") == 1
    assert found("zebras") == []
    assert not Embedding.objects.exists()


@pytest.mark.sqlite
def test_erased_memory_leaves_no_byte_of_its_vector(remember, actor, embedding: Embedder):
    kept, one = remember("kettles boil water"), remember("zebras have stripes")
    index = vector_index.get_index(embedding.name, embedding.dimensions)
    assert set(index.of([kept.pk, one.pk])) == {kept.pk, one.pk}
    view, stored = index.view(), bytes(Embedding.objects.get(memory=one).vector)
    assert stored in disk.read_store_bytes(connection.settings_dict["NAME"])
    shared = np.frombuffer(stored, "<f2").astype("<f4")
    shared = (shared / np.linalg.norm(shared)).tobytes()
    assert shared in disk.read_store_bytes(connection.settings_dict["NAME"])
    memories.erase_memories([one.uid], actor)
    assert stored not in disk.read_store_bytes(connection.settings_dict["NAME"])
    assert shared not in disk.read_store_bytes(connection.settings_dict["NAME"])
    assert set(index.of([kept.pk, one.pk])) == {kept.pk}
    erased = np.frombuffer(stored, "<f2").astype(np.float32)
    assert not any(np.allclose(row, erased, atol=0.01) for row in view.matrix)


def test_nearest_memories_respect_access(four_levels, remember):
    stranger = Actor("token:stranger", Clearance.up_to("secret", owner="bob"))
    remember("zebra stripes of somebody else", by=stranger, scope="personal")
    remember("zebra stripes elsewhere", project="elsewhere")
    from memoryhub.embeddings import provider

    embedder = provider.configured()

    def seen(clearance: Clearance) -> set[str]:
        rows = Memory.objects.visible_to(clearance).live()
        near = find_nearest(rows, embedder.query("zebra stripes"), embedder.name, 50)
        return set(Memory.objects.filter(pk__in=dict(near)).values_list("content", flat=True))

    word = "zebra stripes {}words".format
    shared = "zebra stripes elsewhere"
    assert Embedding.objects.count() == 6
    assert seen(Clearance()) == {word("public"), shared}
    assert seen(Clearance.up_to("private")) == {word("public"), word("private"), shared}
    assert seen(Clearance.up_to("secret", "ada", ["zoo"])) == {
        word("public"),
        word("private"),
        word("secret"),
    }
    everything = {word("public"), word("private"), word("secret"), shared, "zebra stripes of somebody else"}
    assert seen(system_actor("tests").clearance) == everything
