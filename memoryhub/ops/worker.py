"""The application that granian's workers run (``ops/serving.py`` starts them).

The server imports this module before it starts the workers, so that they share its memory and are ready at
once. Nothing here may start a thread or open the database before :func:`create_application`.

Granian ends its workers with SIGTERM. A Ctrl-C in the terminal reaches them too, so they ignore SIGINT. When
granian's main process is killed, no signal comes, so each worker checks for that itself.

Each worker also runs background threads: maintenance, extraction, and the inspection of new memories for
prompt injection.
"""

import ctypes
import gc
import logging
import os
import signal
import threading
from contextlib import suppress

from django.conf import settings
from django.db import connections
from django.urls import get_resolver

from memoryhub import embeddings, wsgi
from memoryhub.capture.flagging_worker import FlaggingWorker
from memoryhub.extraction.queue import ExtractionWorker
from memoryhub.http.request_buffering import RequestBuffer
from memoryhub.maintenance import worker
from memoryhub.ops import serving
from memoryhub.security import secrets

logger = logging.getLogger(__name__)


_is_loaded = False
M_ARENA_MAX = -8  # a parameter of glibc's mallopt


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
        embeddings.configured()
    except embeddings.EmbeddingError as error:
        logger.warning("the hub starts without vectors: %s", error)
    except Exception:
        logger.exception("the hub starts without vectors")


def create_application() -> RequestBuffer:
    """Return the application of a worker process and start its background threads."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    serving.end_with_main_process()
    if not _is_loaded:  # this process was spawned, as on macOS
        load()
    if settings.MEMORYHUB.embeddings != "wordllama":
        # Not a daemon: the interpreter would abort if it ended while compiled libraries load.
        threading.Thread(target=_load_embeddings, name="warm-up").start()
    worker.start_workers(ExtractionWorker(), FlaggingWorker())
    threads = int(os.environ.get(serving.THREADS_VARIABLE, "2"))
    return RequestBuffer(wsgi.application, threads, leave=connections.close_all)
