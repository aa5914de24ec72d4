"""Shared fixtures: actors with different clearances, stored memories, and a corpus to search."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings as django_settings

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.core import database
from memoryhub.embeddings import Embedder, provider
from memoryhub.embeddings.provider import StaticEmbedder
from memoryhub.memories.schemas import EntityDraft, MemoryDraft
from memoryhub.models import Memory
from tests.cases import clear_caches
from tests.search.corpus import make_corpus
from tests.settings import HOME_OF_TESTS

pytest_plugins = [
    "tests.client_patches",
    "tests.database_setup",
    "tests.maintenance.fixtures",
    "tests.selection",
]

# Each run has the same examples. With EXPLORE=1, ``--hypothesis-seed=0`` and other seeds find further ones.
# How long an example takes depends on other work on the machine. Settings of a test keep these health checks.
hypothesis.settings.register_profile(
    "memoryhub",
    deadline=None,
    max_examples=60,
    derandomize=not os.environ.get("EXPLORE"),
    suppress_health_check=[
        hypothesis.HealthCheck.function_scoped_fixture,
        hypothesis.HealthCheck.too_slow,
    ],
)
hypothesis.settings.load_profile("memoryhub")

# The model takes 40 MB and a tenth of a second. The hub loads it again whenever a test changes the provider.
StaticEmbedder.load = functools.cache(StaticEmbedder.load)  # type: ignore[method-assign, assignment]

# A test may be one transaction, and a busy machine may interrupt it for longer: no limit.
database.WRITER_IDLE_SECONDS = 0

ALL_LEVELS = Clearance.up_to("secret", owner="ada")


@pytest.fixture
def actor() -> Actor:
    """An actor who sees everything except other people's personal memories."""
    return Actor("token:tests", ALL_LEVELS)


@pytest.fixture
def configure(settings: Any) -> Callable[..., None]:
    """``configure(max_memories=5)`` changes tunables for one test."""

    def change(**values: Any) -> None:
        settings.MEMORYHUB = django_settings.MEMORYHUB.model_copy(update=values)

    return change


@pytest.fixture
def embedding(configure: Callable[..., None]) -> Embedder:
    """Turn embeddings on, with the built-in provider."""
    configure(embeddings="wordllama")
    embedder = provider.configured()
    assert embedder is not None
    return embedder


@pytest.fixture
def remember(db: None, actor: Actor) -> Callable[..., Memory]:
    """``remember("text", project="p")`` stores a memory and returns it."""

    def store_one(content: str = "a memory", by: Actor | None = None, **fields: Any) -> Memory:
        return memories.create_memory(MemoryDraft(content=content, **fields), by or actor).memory

    return store_one


@pytest.fixture
def remember_all(db: None, actor: Actor) -> Callable[..., list[Memory]]:
    """``remember_all(["a", "b"], project="p")`` stores memories together, in a fifth of the time."""

    def store_all(contents: Iterable[str], **fields: Any) -> list[Memory]:
        drafts = [MemoryDraft(content=content, **fields) for content in contents]
        return [result.memory for result in memories.create_memories(drafts, actor)]

    return store_all


@pytest.fixture
def four_levels(remember: Callable[..., Memory]) -> dict[str, Memory]:
    """A memory of each level and one of an unknown level, about the same subject."""
    levels = ("public", "private", "secret")
    made = {
        level: remember(f"zebra stripes {level}words", sensitivity=level, project="zoo") for level in levels
    }
    odd = remember("zebra stripes unknownwords", project="zoo")
    Memory.objects.filter(pk=odd.pk).update(sensitivity="cosmic")
    odd.refresh_from_db()
    return {**made, "cosmic": odd}


@pytest.fixture(autouse=True)
def _empty_caches() -> None:
    """Clear what other tests have cached: each test has its own store."""
    clear_caches()


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def journal_mirror() -> Iterator[Path]:
    """A mirror for each test, without ``tmp_path``, which would create and later delete a folder for each.

    The fixture ``settings`` would send two signals for each test.
    """
    before = django_settings.MEMORY_LOG
    mirror = Path(HOME_OF_TESTS, "logs", str(next(_numbers)), "memory-journal.jsonl")
    django_settings.MEMORY_LOG = mirror
    yield mirror
    django_settings.MEMORY_LOG = before


@pytest.fixture
def low() -> Actor:
    """An agent that sees only public memories."""
    return Actor("token:low", Clearance.up_to("public", owner="lou"))


@pytest.fixture
def stranger() -> Actor:
    """Another person with full clearance."""
    return Actor("token:stranger", Clearance.up_to("secret", owner="bob"))


@pytest.fixture
def confined() -> Actor:
    """Full clearance, but only in the project ``zoo``."""
    return Actor("token:confined", Clearance.up_to("secret", owner="kim", projects=["zoo"]))


@pytest.fixture
def corpus(db: None, actor: Actor, configure: Callable[..., None]) -> list[Memory]:
    """320 memories about a fictional project."""
    configure(max_memories=0)
    results = memories.create_memories([MemoryDraft(**fields) for fields in make_corpus()], actor)
    return [result.memory for result in results]


@pytest.fixture
def three(remember: Callable[..., Memory]) -> list[Memory]:
    """Three similar memories that differ in every field that a merge combines."""
    one = remember(
        "The build cache lives on the runner",
        tags=["ci"],
        aliases=["CI", "runner"],
        files_read=["ci.yml"],
        importance=0.3,
        trust=0.9,
    )
    two = remember(
        "The build cache lives on the runner itself",
        tags=["cache", "ci"],
        concepts=["gotcha"],
        aliases=["ci"],
        files_modified=["Dockerfile"],
        entities=[EntityDraft(entity="runner")],
        sensitivity="private",
        importance=0.8,
        confidence=0.7,
        ttl_days=None,
    )
    three = remember("The build cache is on the runner", sensitivity="secret", category="ops")
    for memory, count in ((one, 2), (two, 3), (three, 4)):
        Memory.objects.filter(pk=memory.pk).update(
            accessed_count=count,
            consolidated_accesses=1,
            last_accessed_at=datetime(2026, 1, count, tzinfo=UTC),
            updated_at=datetime(2026, 2, count, tzinfo=UTC),
        )
        memory.refresh_from_db()
    return [one, two, three]
