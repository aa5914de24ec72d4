"""Test that a reindex fixes the index while searches continue."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.db import transaction

from memoryhub import memories
from memoryhub.backends import schema
from memoryhub.backends.sqlite import schema as sqlite_schema
from memoryhub.core.database import is_postgres
from memoryhub.maintenance.operations import OPERATIONS
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import Memory
from tests.database import index_is_sound, run_sql
from tests.maintenance.conftest import whole_store

reindex = OPERATIONS["reindex"]


def steps(actor, now, position=None):
    return reindex.steps(reindex.Params(), actor, now, position)


def found(word):
    return sorted(Memory.objects.search(word).values_list("content", flat=True))


def spoil():
    """Change rows without the triggers that change the index."""
    change = "UPDATE memoryhub_memory SET content = replace(content, 'zebra', 'giraffe')"
    if is_postgres():
        with transaction.atomic():
            run_sql("SET LOCAL session_replication_role = replica")
            run_sql(change)
            run_sql("SET LOCAL session_replication_role = origin")  # the transaction may be that of the test
        return
    schema.drop_triggers()
    run_sql(change)
    for statement in sqlite_schema._triggers().values():
        run_sql(statement)


def object_names():
    """Return the names of tables and indexes, and on SQLite of triggers."""
    return run_sql(f"SELECT {'relname FROM pg_class' if is_postgres() else 'name FROM sqlite_master'}")


@pytest.fixture
def animals(remember_all: Callable[..., list[Memory]]) -> list[Memory]:
    return remember_all(f"zebra number {n}" for n in range(120))


def test_dry_run_reports_a_broken_index_and_changes_nothing(animals, planned):
    before = whole_store()
    assert all("matches the memories" in change.reason for change in planned("reindex"))
    spoil()
    assert all("does not match the memories" in change.reason for change in planned("reindex"))
    assert whole_store()[1] == before[1]
    assert not index_is_sound()


def test_run_fixes_a_broken_index(animals, planned, run):
    spoil()
    assert found("giraffe") == []
    listed = planned("reindex")
    assert run("reindex") == listed
    assert len(found("giraffe")) == 120
    assert index_is_sound()
    assert [
        name for (name,) in object_names() if name.startswith("memoryhub") and re.search("_old|_new", name)
    ] == []


def test_second_run_succeeds(animals, run):
    run("reindex")
    run("reindex")
    assert index_is_sound()
    assert len(found("zebra")) == 120


def test_searches_and_writes_work_between_steps(animals, actor, now, remember, configure):
    configure(maintenance_step_ms=1)
    living = list(animals)
    for n, step in enumerate(steps(actor, now)):
        step.apply("run")
        assert len(found("number")) == len(living)
        remember(f"okapi {n}")
        memories.update_memory(
            living[n % len(living)].uid, MemoryPatch(content=f"okapi number, changed {n}"), actor
        )
        memories.erase_memories([living.pop(-1 - n % 7).uid], actor) if n < 60 else None
    assert n > 10
    assert index_is_sound()
    assert set(found("number")) == set(
        Memory.objects.filter(content__contains="number").values_list("content", flat=True)
    )


def test_interrupted_run_continues(animals, actor, now, configure):
    configure(maintenance_step_ms=1)
    spoil()
    position, done = {}, 0
    while done < 200:
        for step in steps(actor, now, position):
            step.apply("run")
            position, done = step.position, done + 1
            if done % 3 == 0:
                break
        else:
            break
    assert done < 200
    assert index_is_sound()
    assert len(found("giraffe")) == 120


def test_new_run_removes_a_half_built_index(animals, actor, now, configure):
    configure(maintenance_step_ms=1)
    for number, step in enumerate(steps(actor, now)):
        step.apply("first")
        if number == 2:
            break
    rebuilt_beside = [] if is_postgres() else ["memoryhub_text_new"]  # PostgreSQL rebuilds an index in place
    assert schema.leftover_tables("memoryhub_text") == rebuilt_beside
    memory = memories.create_memory(MemoryDraft(content="zebra that came meanwhile"), actor).memory
    first = next(steps(actor, now))
    assert first.chore == bool(rebuilt_beside)
    for step in steps(actor, now):
        step.apply("second")
        memories.erase_memories([memory.uid], actor)
    assert index_is_sound()
    assert len(found("zebra")) == 120
    assert schema.leftover_tables("memoryhub_text") == []


def test_long_texts_are_copied_in_smaller_steps(remember, actor, now):
    for n in range(6):
        remember(f"walrus {n} " + "word " * 15_000)
    sizes = []
    for step in steps(actor, now):
        before = schema.copy_position("memoryhub_text")
        step.apply("run")
        after = schema.copy_position("memoryhub_text")
        if before is not None and after is not None and after > before:
            sizes.append(Memory.objects.filter(pk__gt=before, pk__lte=after).count())
    assert sizes[0] == 1
    assert sum(sizes) == 6
    assert index_is_sound()


def test_migration_during_a_rebuild_aborts_it(animals, actor, now):
    walk = steps(actor, now)
    for _ in range(3):
        next(walk).apply("run")
    schema.drop_triggers()
    schema.install()
    memories.erase_memories([animals[0].uid], actor)
    assert index_is_sound()
    for step in steps(actor, now, {"phase": "build"}):
        step.apply("run")
    assert len(found("zebra")) == 119
    assert index_is_sound()


@pytest.mark.django_db(transaction=True)
def test_a_reindexed_store_passes_all_checks_of_the_schema(animals, run):
    run("reindex")
    assert schema.find_problems(deep=True) == []
    schema.install()
    assert len(found("zebra")) == 120
