"""Test the embedding operation and the server's backfill."""

from __future__ import annotations

import logging
from datetime import timedelta

import numpy as np
import pytest
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import system_actor
from memoryhub.embeddings import EmbeddingError
from memoryhub.maintenance import executor, nodes, runs
from memoryhub.maintenance import worker as maintenance_worker
from memoryhub.maintenance.operations import OPERATIONS
from memoryhub.maintenance.operations.reindex import count_missing
from memoryhub.maintenance.worker import EmbeddingBackfill, Worker
from memoryhub.memories import StoreError
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import Embedding, MaintenanceRun, Memory
from memoryhub.search.semantic import find_nearest
from tests.maintenance.conftest import whole_store

Status = MaintenanceRun.Status


class Provider:
    """A provider that counts letters, which is enough to distinguish texts."""

    dimensions = 26

    def __init__(self, name="tests/letters", *, in_process=False):
        self.name, self.in_process = name, in_process
        self.fails, self.asked = False, 0

    def documents(self, texts):
        self.asked += 1
        if self.fails:
            raise EmbeddingError("the endpoint of embeddings does not answer")
        rows = np.array(
            [[text.lower().count(chr(97 + n)) for n in range(26)] for text in texts], np.float32
        ).reshape(len(texts), 26)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)

    def query(self, text, weights=None):
        return self.documents([text])[0]


@pytest.fixture
def choose(monkeypatch):
    """``choose(provider)``: configure a provider; an error is raised, None means no provider."""

    def configured(provider):
        def answer():
            if isinstance(provider, EmbeddingError):
                raise provider
            return provider

        monkeypatch.setattr("memoryhub.embeddings.provider.configured", answer)
        return provider

    return configured


@pytest.fixture
def far(choose):
    """A remote provider, which storing does not wait for."""
    return choose(Provider())


def lacking(name="tests/letters"):
    return count_missing(name)


def of_models():
    return set(Embedding.objects.values_list("model", flat=True))


def test_a_run_gives_every_memory_a_vector_and_says_why(far, remember, planned, run):
    made = [remember(f"zebra number {n}") for n in range(5)]
    listed = planned("embed")
    assert [(change.action, change.uid, change.reason) for change in listed] == [
        ("embed", one.uid, "it has no vector") for one in made
    ]
    assert Embedding.objects.count() == 0
    assert far.asked == 0
    assert run("embed") == listed
    assert lacking() == 0
    assert planned("embed") == []
    assert run("embed") == []


def test_deleted_expired_and_unknown_level_memories_are_embedded(far, four_levels, actor, run):
    memories.trash_memories([four_levels["public"].uid], actor)
    memories.apply_bulk_action("expire", [four_levels["private"].uid], actor)
    run("embed")
    assert Embedding.objects.count() == 4


def test_a_project_alone(far, remember, planned, run):
    remember("zebra", project="p")
    remember("okapi", project="q")
    assert len(planned("embed", project="p")) == len(run("embed", project="p")) == 1
    assert lacking() == 1


def test_memories_and_journal_stay_as_they_are(far, remember, run):
    remember("zebra")
    before = whole_store()
    run("embed")
    assert whole_store() == before


def test_a_vector_of_another_model_is_replaced_and_stays_until_then(choose, far, remember, run, planned):
    for n in range(3):
        remember(f"zebra number {n}")
    run("embed")
    choose(Provider("tests/another"))
    [reason] = {change.reason for change in planned("embed")}
    assert reason == "its vector is of another model, tests/letters"
    assert of_models() == {"tests/letters"}
    run("embed")
    assert of_models() == {"tests/another"}
    assert Embedding.objects.count() == 3


def test_text_changed_during_embedding_gets_no_old_vector(far, remember, actor, now):
    one, other = remember("zebra"), remember("okapi")
    walk = OPERATIONS["embed"].steps(OPERATIONS["embed"].Params(), actor, now)
    next(walk).apply("run")
    step = next(walk)
    memories.update_memory(one.uid, MemoryPatch(content="giraffe"), actor)
    assert step.apply("run") == 1
    assert [row.memory_id for row in Embedding.objects.all()] == [other.pk]
    assert lacking() == 1


def test_memory_erased_during_embedding_gets_no_vector(far, remember, actor, now):
    one = remember("zebra")
    walk = OPERATIONS["embed"].steps(OPERATIONS["embed"].Params(), actor, now)
    next(walk).apply("run")
    step = next(walk)
    Memory.objects.filter(pk=one.pk).delete()
    assert step.apply("run") == 0


def test_interrupted_run_continues(far, remember, actor, now, monkeypatch):
    monkeypatch.setattr("memoryhub.maintenance.operations.reindex._FIRST_SIZE", 2)
    for n in range(7):
        remember(f"zebra number {n}")
    walk = OPERATIONS["embed"].steps(OPERATIONS["embed"].Params(), actor, now)
    next(walk).apply("run")
    step = next(walk)
    step.apply("run")
    assert lacking() == 5
    for later in OPERATIONS["embed"].steps(OPERATIONS["embed"].Params(), actor, now, step.position):
        later.apply("run")
    assert lacking() == 0


def test_failing_provider_ends_the_run_and_keeps_finished_steps(far, remember, actor, monkeypatch):
    monkeypatch.setattr("memoryhub.maintenance.operations.reindex._FIRST_SIZE", 2)
    for n in range(6):
        remember(f"zebra number {n}")
    run = runs.enqueue("embed", {}, actor)

    def fail(_):
        far.fails = far.asked >= 1

    assert executor.execute(run, watcher=fail)
    assert (run.status, run.cause) == (Status.FAILED, "error")
    assert run.error == "the endpoint of embeddings does not answer"
    assert 0 < lacking() < 6
    far.fails = False
    runs.resume(run.uid, actor)
    run.refresh_from_db()
    executor.execute(run)
    assert run.status == Status.DONE
    assert lacking() == 0


def test_without_a_provider_there_is_nothing_to_do(choose, remember, planned, run):
    choose(None)
    remember("zebra")
    assert planned("embed") == run("embed") == []


def test_the_daily_maintenance_embeds_where_there_is_a_provider(db, configure):
    configure(embeddings="wordllama")
    assert "embed" in runs.daily_operations()
    configure(embeddings="none")
    assert "embed" not in runs.daily_operations()


def test_unloadable_provider_is_reported(choose, remember, planned):
    choose(EmbeddingError("wordllama cannot be loaded"))
    remember("zebra")
    with pytest.raises(StoreError, match="wordllama cannot be loaded"):
        planned("embed")


@pytest.mark.conformance("pigo-15", "pigo-52")
def test_a_provider_in_this_process_embeds_with_the_store(choose, remember, actor):
    choose(Provider(in_process=True))
    one = remember("zebra")
    assert Embedding.objects.get().memory_id == one.pk
    before = bytes(Embedding.objects.get().vector)
    memories.update_memory(one.uid, MemoryPatch(content="giraffe"), actor)
    assert bytes(Embedding.objects.get().vector) != before


@pytest.mark.parametrize("given", [{"content": "giraffe"}, {"title": "A long-necked one"}])
def test_a_changed_text_is_embedded_again_and_other_changes_keep_the_vector(choose, remember, actor, given):
    choose(Provider(in_process=True))
    one = remember("zebra")
    first = Embedding.objects.get().pk
    memories.update_memory(one.uid, MemoryPatch(importance=0.9, tags=["x"]), actor)
    assert Embedding.objects.get().pk == first
    memories.update_memory(one.uid, MemoryPatch(**given), actor)
    assert Embedding.objects.get().pk > first


def test_an_upsert_by_key_embeds_the_new_text(choose, remember):
    provider = choose(Provider(in_process=True))
    remember("zebra", key="k")
    remember("giraffe", key="k")
    [found] = find_nearest(Memory.objects.all(), provider.query("giraffe"), provider.name, 5, centred=False)
    assert found[1] == pytest.approx(1, abs=1e-3)


def test_merge_and_undo_embed_the_new_text(choose, remember, actor):
    provider = choose(Provider(in_process=True))
    one, other = remember("zebra"), remember("okapi")

    def says(text):
        found = dict(
            find_nearest(Memory.objects.all(), provider.query(text), provider.name, 5, centred=False)
        )
        return found[one.pk] == pytest.approx(1, abs=1e-3)

    merged = memories.merge_memories(one.uid, [other.uid], actor, content="giraffe")
    assert says("giraffe")
    memories.undo_merge(merged.uid, actor)
    assert says("zebra")


def test_failing_provider_does_not_prevent_storing(choose, remember, actor, caplog):
    provider = choose(Provider(in_process=True))
    provider.fails = True
    with caplog.at_level(logging.WARNING):
        done = memories.create_memories([MemoryDraft(content=f"zebra {n}") for n in range(3)], actor)
    assert [one.outcome for one in done] == ["created"] * 3
    assert Embedding.objects.count() == 0
    assert "does not answer" in caplog.text
    provider.fails = False
    EmbeddingBackfill().check()
    assert lacking() == 0


def test_unloadable_provider_does_not_prevent_storing(choose, remember):
    choose(EmbeddingError("wordllama cannot be loaded"))
    assert remember("zebra").pk
    assert Embedding.objects.count() == 0


def test_the_server_embeds_a_few_without_a_run(far, remember):
    remember("zebra")
    Worker(dry_runs=False).run_once()
    assert lacking() == 0
    assert MaintenanceRun.objects.count() == 0


def test_the_server_queues_a_run_for_many_and_works_on_it(far, remember, monkeypatch):
    monkeypatch.setattr(maintenance_worker, "MAX_INLINE_EMBEDDINGS", 2)
    for n in range(5):
        remember(f"zebra number {n}")
    worker = Worker(dry_runs=False)
    assert worker.run_once()
    run = MaintenanceRun.objects.get()
    assert (run.operation, run.status, run.actor) == ("embed", Status.DONE, "system:embedder")
    assert run.result["counts"] == {"embed": 5}
    assert lacking() == 0
    worker.run_once()
    assert MaintenanceRun.objects.count() == 1


def test_the_server_embeds_all_memories_again_after_a_change_of_the_model(choose, far, remember):
    remember("zebra")
    EmbeddingBackfill().check()
    choose(Provider("tests/another"))
    EmbeddingBackfill().check()
    assert of_models() == {"tests/another"}


def test_failing_provider_is_retried_with_growing_pauses(far, remember, monkeypatch, caplog):
    clock = [1000.0]
    monkeypatch.setattr("memoryhub.maintenance.worker.time.monotonic", lambda: clock[0])
    far.fails = True
    remember("zebra")
    backfill = EmbeddingBackfill()
    asked = []
    for _ in range(200):
        before = far.asked
        backfill.check()
        if far.asked > before:
            asked.append(clock[0])
        clock[0] += 5
    assert np.diff(asked).tolist() == [15, 60, 600]
    assert MaintenanceRun.objects.count() == 0
    far.fails = False
    clock[0] += 600
    backfill.check()
    assert lacking() == 0


def test_many_do_not_become_a_run_while_the_provider_fails(far, remember, monkeypatch):
    monkeypatch.setattr(maintenance_worker, "MAX_INLINE_EMBEDDINGS", 0)
    far.fails = True
    remember("zebra")
    EmbeddingBackfill().check()
    assert MaintenanceRun.objects.count() == 0


def test_stopped_run_is_not_queued_again_automatically(far, remember, monkeypatch, actor):
    monkeypatch.setattr(maintenance_worker, "MAX_INLINE_EMBEDDINGS", 0)
    remember("zebra")
    EmbeddingBackfill().check()
    run = MaintenanceRun.objects.get()
    runs.stop(run.uid, system_actor("tests"))
    EmbeddingBackfill().check()
    assert MaintenanceRun.objects.count() == 1
    MaintenanceRun.objects.update(finished_at=timezone.now() - timedelta(days=2))
    EmbeddingBackfill().check()
    assert MaintenanceRun.objects.count() == 2


def test_backfill_does_nothing_during_a_run(far, remember, actor):
    remember("zebra")
    runs.enqueue("embed", {}, actor)
    EmbeddingBackfill().check()
    assert lacking() == 1


def test_two_servers_do_not_embed_the_same_at_once(far, remember):
    remember("zebra")
    other = f"{nodes.process_id()}/other"
    assert nodes.take_lease(nodes.SCHEDULER, other)
    EmbeddingBackfill().check()
    assert lacking() == 1
    nodes.release_lease(nodes.SCHEDULER, other)
    EmbeddingBackfill().check()
    assert lacking() == 0


@pytest.mark.parametrize("provider", [None, EmbeddingError("wordllama cannot be loaded")])
def test_without_a_provider_the_worker_continues_its_runs(choose, remember, actor, provider):
    choose(provider)
    remember("zebra")
    runs.enqueue("reindex", {}, actor)
    assert Worker(dry_runs=False).run_once()
    assert MaintenanceRun.objects.get().status == Status.DONE
