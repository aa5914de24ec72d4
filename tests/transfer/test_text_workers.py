"""Worker processes that prepare the texts of an import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryhub.embeddings.base import EmbeddingSettings
from memoryhub.memories.rows import local_settings
from memoryhub.models import Embedding, JournalEntry, Memory
from memoryhub.transfer import loader, text_workers
from memoryhub.transfer.records import UnreadableFile
from memoryhub.transfer.text_workers import TextWorkers
from tests.transfer.conftest import Loaded, wipe

SECRET = "the deploy key is ghp_" + "Zb3kQ9xW1mT7vR5sY2nL8cJ4hF6dG0aKpE9u"
LINES: list[dict[str, Any]] = [
    {"content": "The build runs on two machines", "session_id": "s1"},
    {"content": SECRET, "title": "Access"},
    {"content": ""},
    {"content": "Releases are made on Fridays", "tags": ["release"]},
    {"content": "Backups run at night", "tags": ["ops", "password=Xk92hdLqPz81mm"]},
    {"content": "The build runs on two machines"},
    {"kind": "fact", "subject": "build", "predicate": "runs on", "object": "2 machines"},
    {"content": "Logs are deleted after a week"},
]


@pytest.fixture(scope="module")
def pool() -> Iterator[Callable[[EmbeddingSettings | None], TextWorkers]]:
    """``pool(config)``: workers that are ready."""
    made: list[TextWorkers] = []

    def start(config: EmbeddingSettings | None) -> TextWorkers:
        if not made:
            made.append(TextWorkers(1, config))
            made[0].submit([""] * text_workers._TEXTS_WORTH_A_WORKER, [])
            made[0]._ready.result(60)
        return made[0]

    yield start
    for workers in made:
        workers.__exit__(None, None, None)


def snapshot(loaded: Loaded) -> dict[str, Any]:
    uids = dict(Memory.objects.values_list("uid", "content"))
    journal = JournalEntry.objects.order_by("seq").values_list("operation", "object_id", "detail")
    vectors = Embedding.objects.order_by("pk").values_list("memory__content", "model", "vector")
    return {
        "memories": sorted(uids.values()),
        "errors": loaded.errors,
        "outcomes": (loaded.tally.outcomes, loaded.tally.others, loaded.tally.failed),
        "journal": [(name, uids.get(uid, ""), detail) for name, uid, detail in journal],
        "vectors": [(content, model, bytes(vector)) for content, model, vector in vectors],
    }


@pytest.mark.django_db
@pytest.mark.usefixtures("embedding")
@pytest.mark.parametrize("how", [{}, {"dry_run": True}, {"strict": True}])
def test_an_import_with_workers_equals_one_without(bring_in, pool, monkeypatch, how):
    monkeypatch.setattr(loader, "BATCH_SIZE", 2)
    alone = snapshot(bring_in(LINES, **how))
    wipe()
    checked = []
    monkeypatch.setattr(loader.store, "check_drafts", _recording(loader.store.check_drafts, checked))
    assert snapshot(bring_in(LINES, workers=pool(local_settings()), **how)) == alone
    assert {draft.content for draft in checked} <= {SECRET, "Backups run at night"}  # others: by the worker
    assert alone["vectors"] or how


def _recording(check: Callable[..., Any], seen: list[Any]) -> Callable[..., Any]:
    def checking(drafts: Any, histories: Any = None) -> Any:
        seen.extend(drafts)
        return check(drafts, histories)

    return checking


@pytest.mark.django_db
def test_batches_before_an_unreadable_place_are_stored(bring_in, pool, monkeypatch):
    monkeypatch.setattr(loader, "BATCH_SIZE", 2)
    lines = [*({"content": f"memory {n}"} for n in range(4)), {"kind": "memoryhub", "version": 999}]
    with pytest.raises(UnreadableFile):
        bring_in(lines, workers=pool(local_settings()))
    assert Memory.objects.count() == 4


def test_few_texts_start_no_worker():
    with TextWorkers(1, None) as workers:
        assert workers.submit(["text"], []) is None
        assert workers._pool is None


def test_a_worker_starts_with_the_second_thousand_texts():
    with TextWorkers(1, None) as workers:
        workers.submit([""] * 1000, [])
        assert workers._pool is None
        workers.submit([""] * 1000, [])
        assert workers._pool is not None


def test_without_workers_the_caller_prepares_the_texts():
    with TextWorkers(0, None) as workers:
        assert workers.submit(["text"] * 1000, []) is None
        assert workers._pool is None


@pytest.mark.django_db
def test_an_import_continues_when_its_worker_is_killed(bring_in, monkeypatch):
    monkeypatch.setattr(loader, "BATCH_SIZE", 2)
    monkeypatch.setattr(text_workers, "_TEXTS_WORTH_A_WORKER", 1)
    with TextWorkers(1, None) as workers:
        workers.submit(["text"], [])
        workers._ready.result(60)
        task = workers.submit(["text"] * 100_000, [])
        for pid in list(workers._pool._processes):
            os.kill(pid, signal.SIGKILL)
        assert text_workers.take_result(task) is None
        loaded = bring_in([{"content": f"memory {n}"} for n in range(5)], workers=workers)
    assert loaded.tally.stored == 5


PARENT = """
import sys, time
from memoryhub.transfer.text_workers import TextWorkers
if __name__ == "__main__":
    workers = TextWorkers(1, None)
    workers.submit([""] * 2000, [])
    workers._ready.result(60)
    print(*workers._pool._processes, flush=True)
    time.sleep(60)
"""


def test_a_worker_ends_when_the_import_is_killed(tmp_path: Path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    command = [sys.executable, script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        parent.kill()
    for _ in range(600):
        if not _is_running(pid):
            return
        time.sleep(0.05)
    pytest.fail("the worker is still running")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # it has just ended, or the system has no /proc
        return True
