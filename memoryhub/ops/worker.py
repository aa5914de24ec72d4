"""The application that granian's workers run (``ops/serving.py`` starts them).

The server imports this module before it starts the workers, so that they share its memory and are ready at
once. Nothing here may start a thread or open the database before :func:`create_application`.

Granian ends its workers with SIGTERM. A Ctrl-C in the terminal reaches them too, so they ignore SIGINT. When
granian's main process is killed, no signal comes, so each worker checks for that itself.

Each worker also runs background threads: maintenance, extraction, and the inspection of new memories for
prompt injection.
"""
# ruff: noqa: E402

import ctypes
import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import DatabaseError, connections
from django.urls import get_resolver

application = get_wsgi_application()  # sets up Django in a spawned worker, before models are imported

from memoryhub import embeddings
from memoryhub.access.policy import system_actor
from memoryhub.audit import clock
from memoryhub.backends import bulk, schema
from memoryhub.core.database import write_transaction
from memoryhub.embeddings import provider
from memoryhub.extraction.services import ExtractionWorker
from memoryhub.http import monitoring
from memoryhub.http.rsgi import RequestBuffer
from memoryhub.injection.selection import injected_fields, usual_share
from memoryhub.maintenance import nodes, worker
from memoryhub.maintenance.worker import BackgroundThread, ExclusiveThread
from memoryhub.memories.rows import ListValues, load_lists
from memoryhub.memories.update import PROMPT_INJECTION_FLAG, flag_memories
from memoryhub.models import JournalEntry, Memory
from memoryhub.security import secrets
from memoryhub.security.prompt_injection import digest_fields, inspect_fields, rules_version
from memoryhub.transfer import import_files

logger = logging.getLogger(__name__)
ACTOR = system_actor(PROMPT_INJECTION_FLAG)
BATCH_SIZE = 50  # journal rows of one turn
REST_FACTOR = 9  # rest after each turn, as a multiple of its CPU time
MAX_FIELD_CHARS = 20_000
_WRITE_OPERATIONS = ("insert", "update", "accept")
_TEXT_FIELDS = ("title", "subtitle", "abstract", "overview", "content")
M_ARENA_MAX = -8  # a parameter of glibc's mallopt
THREADS_VARIABLE = "HUB_THREADS"  # environment variable of a worker process: number of its threads
SECONDS_TO_END = 10  # a worker that has not ended after this time is killed
SECONDS_BETWEEN_CLEANUPS = 600.0
SECONDS_BETWEEN_CHECKS = 1.0  # interval at which a worker checks that its main process is alive
_PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>
_is_loaded = False


class FlaggingWorker(ExclusiveThread):
    """Follows the journal. Its lease has the position of the last row that was read."""

    def __init__(self, rest_factor: float = REST_FACTOR) -> None:
        super().__init__(PROMPT_INJECTION_FLAG, threading.Condition())
        self.rest_factor = rest_factor

    def run_once(self) -> bool:
        """Inspect the memories of the next journal rows; return False if there are none."""
        lease = self.take_lease()
        if lease is None:
            return False
        began = time.thread_time()
        last = flag_next_memories(_parse_position(lease.position))
        if last is None or not nodes.save_position(lease, _describe_position(last)):
            return False
        self.ending.wait(self.rest_factor * (time.thread_time() - began))
        return True


class UploadCleanup(BackgroundThread):
    """Deletes uploaded files that this node no longer needs."""

    def __init__(self) -> None:
        super().__init__("upload-cleanup", threading.Condition())

    def run_once(self) -> bool:
        import_files.delete_old_uploads()
        connections.close_all()
        self.ending.wait(SECONDS_BETWEEN_CLEANUPS)
        return True


def flag_next_memories(after: int) -> int | None:
    """Inspect the memories of the next journal rows; return the number of the last row, None if none."""
    rows = JournalEntry.objects.filter(seq__gt=after, object_type="memory", operation__in=_WRITE_OPERATIONS)
    batch: list[tuple[int, str]] = list(rows.order_by("seq").values_list("seq", "object_id")[:BATCH_SIZE])
    if not batch:
        return None
    memories = list(Memory.objects.visible_to(ACTOR.clearance).filter(uid__in={uid for _, uid in batch}))
    lists = load_lists(memories)
    if flags := find_flags(memories, lists):
        flag_memories(flags, ACTOR)
    store_digests(memories, lists)
    return batch[-1][0]


def store_digests(memories: Iterable[Memory], lists: Mapping[int, ListValues]) -> None:
    """Let injections skip the inspection of memories without findings in their injected texts."""
    digests = []
    for memory in memories:
        fields = injected_fields(memory, lists[memory.pk], usual_share())
        if not inspect_fields(fields).findings:
            digests.append((digest_fields(fields), memory.pk))
    with write_transaction():
        bulk.update(Memory, ["inspected"], digests)


def find_flags(memories: Iterable[Memory], lists: Mapping[int, ListValues]) -> dict[str, list[str]]:
    """Return the flags of those memories that contain injected instructions, one for each kind."""
    flags: dict[str, list[str]] = {}
    for memory in memories:
        fields = {name: getattr(memory, name)[:MAX_FIELD_CHARS] for name in _TEXT_FIELDS}
        labels = {name: _to_texts(values) for name, values in lists[memory.pk].items() if values}
        verdict = inspect_fields({**fields, **labels, "project": memory.project})
        kinds = {found.finding.kind for found in verdict.findings if found.finding.removed}
        if kinds:
            flags[memory.uid] = [f"{PROMPT_INJECTION_FLAG}:{kind}" for kind in sorted(kinds)]
    return flags


def _to_texts(values: list[Any]) -> list[str]:
    """Return the texts of a list field; of an entity, its name."""
    return [value["entity"] if isinstance(value, dict) else value for value in values]


def _parse_position(position: str) -> int:
    """Return the last journal row that was read.

    0 if the journal does not contain it, as after a restore, or if other rules read it.
    """
    seq, digest, version = (position.split() + [""] * 3)[:3]
    if not (seq.isascii() and seq.isdecimal() and len(seq) < 16) or version != rules_version().hex():
        return 0
    return int(seq) if JournalEntry.objects.filter(seq=int(seq), hash=digest).exists() else 0


def _describe_position(seq: int) -> str:
    digest = JournalEntry.objects.values_list("hash", flat=True).get(seq=seq)
    return f"{seq} {digest} {rules_version().hex()}"


def load() -> None:
    """Load rules, views and the embedding model, so that no request waits and all workers share them."""
    global _is_loaded
    _use_one_heap()
    import memoryhub.extraction.rules.extractor
    import memoryhub.security.prompt_injection.detector  # noqa: F401

    len(get_resolver().url_patterns)
    secrets.compile_rules()
    if settings.MEMORYHUB.embeddings == "wordllama":  # other providers have threads or connections
        _load_embeddings()
    # A garbage collection that scanned loaded objects would copy the memory that workers share, and block all
    # threads for some 50 ms.
    gc.freeze()
    _is_loaded = True


def _use_one_heap() -> None:
    """Let all threads allocate from one heap: the heap of a single thread keeps memory that was freed."""
    with suppress(OSError, AttributeError):  # other C libraries have no such heaps
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def _load_embeddings() -> None:
    try:
        provider.configured()
    except embeddings.EmbeddingError as error:
        logger.warning("the hub starts without vectors: %s", error)
    except Exception:
        logger.exception("the hub starts without vectors")


def create_application() -> RequestBuffer:
    """Return the application of a worker process and start its background threads."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    end_with_main_process()
    if not _is_loaded:  # this process was spawned, as on macOS
        load()
    if settings.MEMORYHUB.embeddings != "wordllama":
        # Not a daemon: the interpreter would abort if it ended while compiled libraries load.
        threading.Thread(target=_load_embeddings, name="warm-up").start()
    if settings.METRICS_TOKEN:
        monitoring.WORKERS.set(1)
    read_clock()
    threading.Thread(target=finish_erase, name="finish-erase").start()
    worker.start_threads(worker.Heartbeat())
    worker.start_workers(ExtractionWorker(), FlaggingWorker(), UploadCleanup())
    threads = int(os.environ.get(THREADS_VARIABLE, "2"))
    return RequestBuffer(application, threads, leave=connections.close_all)


def read_clock() -> None:
    """Pause expiry and eviction before the first request if the clock has jumped."""
    try:
        clock.check()
    except DatabaseError:
        logger.exception("the clock could not be compared with the store")
    finally:
        connections.close_all()


def finish_erase() -> None:
    """Complete an erase whose process was killed, in a thread of its own."""
    try:
        schema.finish_erase()
    except DatabaseError:
        logger.exception("the database file still contains bytes of erased memories")
    finally:
        connections.close_all()


def end_with_main_process() -> None:
    """End this worker when the main process ends without stopping it, as after SIGKILL.

    Linux kills it at that moment. SIGTERM would not do: granian may wait for ever with the interpreter lock,
    and only the main process ends such workers. On other systems, and if the main process has already ended,
    a thread stops the worker. Do nothing in a process that multiprocessing did not start.
    """
    main = multiprocessing.parent_process()
    if main is not None and main.pid is not None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        threading.Thread(target=_end_after, args=(main.pid,), name="main-process-watch", daemon=True).start()


def _end_after(main: int) -> None:
    """Stop this worker when ``main`` is no longer its parent. Kill it if it does not stop in time."""
    while os.getppid() == main:
        time.sleep(SECONDS_BETWEEN_CHECKS)
    logger.error(
        "The server's main process %d ended without stopping this worker. The worker ends now.", main
    )
    signal.alarm(SECONDS_TO_END)  # the system ends the process then, without the interpreter lock
    os.kill(os.getpid(), signal.SIGTERM)
