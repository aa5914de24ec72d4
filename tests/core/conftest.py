"""What the tests of the core share: property-test settings, actors of less clearance, a corpus."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, settings

from memoryhub import store
from memoryhub.drafts import EntityDraft, MemoryDraft
from memoryhub.models import Memory
from memoryhub.search import schema
from memoryhub.sensitivity import Actor, Clearance
from tests.core.corpus import make_corpus
from tests.core.stepping import five, lifting  # noqa: F401 fixtures

settings.register_profile(
    "core",
    deadline=None,
    max_examples=60,
    derandomize=not os.environ.get(
        "EXPLORE"
    ),  # a suite that is green today is green tomorrow; run with --hypothesis-seed=0 … to look further
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("core")


@contextmanager
def undone() -> Iterator[None]:
    """Whatever is written inside is rolled back: one example leaves nothing to the next."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def low() -> Actor:
    """An agent that sees public memories only."""
    return Actor("token:low", Clearance.up_to("public", owner="lou"))


@pytest.fixture
def stranger() -> Actor:
    """Someone else with full clearance."""
    return Actor("token:stranger", Clearance.up_to("secret", owner="bob"))


@pytest.fixture
def confined() -> Actor:
    """Full clearance, in project ``zoo`` alone."""
    return Actor("token:confined", Clearance.up_to("secret", owner="kim", projects=["zoo"]))


@pytest.fixture
def corpus(db: None, actor: Actor, configure: Callable[..., None]) -> list[Memory]:
    """320 memories about one imagined project."""
    configure(max_memories=0)
    results = store.remember_many([MemoryDraft(**fields) for fields in make_corpus()], actor)
    return [result.memory for result in results]


@pytest.fixture
def three(remember: Callable[..., Memory]) -> list[Memory]:
    """Alike, and different in everything that a merge unites."""
    one = remember(
        "The build cache lives on the runner", tags=["ci"], files_read=["ci.yml"], importance=0.3, trust=0.9
    )
    two = remember(
        "The build cache lives on the runner itself",
        tags=["cache", "ci"],
        concepts=["gotcha"],
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


def raw(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    """Straight to the database, as someone would who bypasses the hub."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall() if cursor.description else []


def index_is_sound() -> bool:
    return not schema.problems(deep=True)
