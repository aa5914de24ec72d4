"""Test that a reindex fixes the index while searches continue."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection

from memoryhub import memories
from memoryhub.backends import schema
from memoryhub.backends.sqlite import schema as sqlite_schema
from memoryhub.maintenance.operations import OPERATIONS
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import Memory
from tests.conftest import index_is_sound, run_sql
from tests.maintenance.conftest import whole_store

reindex = OPERATIONS["reindex"]


def steps(actor, now, position=None):
    return reindex.steps(reindex.Params(), actor, now, position)


def found(word):
    return sorted(Memory.objects.search(word).values_list("content", flat=True))


def spoil():
    """Insert rows that the index does not contain."""
    schema.drop_triggers()
    run_sql("UPDATE memoryhub_memory SET content = replace(content, 'zebra', 'giraffe')")
    install_without_rebuild()


def install_without_rebuild():
    with connection.cursor() as cursor:
        for statement in sqlite_schema._triggers().values():
            cursor.execute(statement)


@pytest.fixture
def animals(remember: Callable[..., Memory]) -> list[Memory]:
    return [remember(f"zebra number {n}") for n in range(120)]


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
    assert (
        run_sql("SELECT name FROM sqlite_master WHERE name LIKE '%_old%' OR name LIKE '%\\_new%' ESCAPE '\\'")
        == []
    )


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
    assert schema.leftover_tables("memoryhub_text") == ["memoryhub_text_new"]
    memory = memories.create_memory(MemoryDraft(content="zebra that came meanwhile"), actor).memory
    first = next(steps(actor, now))
    assert first.chore
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
