"""The application as granian's workers load it (``ops/serving.py`` starts them).

Granian ends its workers with SIGTERM. A Ctrl-C in the terminal reaches them too, so they ignore SIGINT: a
worker that is still importing would crash with a traceback. When granian's main process is killed, no signal
comes, so each worker checks for that itself.

Each process also runs background threads: maintenance, extraction, and the inspection of new memories for
prompt injection.
"""

import gc
import logging
import os
import signal
import threading

# Until granian sets its handler, this process has its parent's, which would swallow the signal.
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

from memoryhub.ops import serving  # noqa: E402

serving.end_with_main_process()  # first, since the main process may end while the rest loads

from django.db import connections  # noqa: E402

from memoryhub import wsgi  # noqa: E402
from memoryhub.http.request_buffering import RequestBuffer  # noqa: E402

application = RequestBuffer(
    wsgi.application, int(os.environ.get(serving.THREADS_VARIABLE, "2")), leave=connections.close_all
)

__all__ = ["application"]

from django.urls import get_resolver  # noqa: E402

from memoryhub import embeddings  # noqa: E402 once the apps are loaded
from memoryhub.capture.flagging_worker import FlaggingWorker  # noqa: E402
from memoryhub.extraction.queue import ExtractionWorker  # noqa: E402
from memoryhub.maintenance import worker  # noqa: E402
from memoryhub.security import secrets  # noqa: E402

logger = logging.getLogger(__name__)

len(get_resolver().url_patterns)  # load the views before the first request


def _warm_up() -> None:
    """Load rules and the embedding model, so that the first hook and search do not wait for them."""
    import memoryhub.extraction.rules.extractor
    import memoryhub.security.prompt_injection.detector  # noqa: F401

    secrets.compile_rules()
    try:
        embeddings.configured()
    except embeddings.EmbeddingError as error:
        logger.warning("the hub starts without vectors: %s", error)
    except Exception:
        logger.exception("the hub starts without vectors")
    # Freeze loaded objects: a full garbage collection would scan them and block all threads for some 50 ms.
    gc.collect()
    gc.freeze()


# In a thread, so that the server answers a second earlier. Not a daemon: the interpreter would abort if it
# ended while compiled libraries load.
threading.Thread(target=_warm_up, name="warm-up").start()
worker.start_workers(ExtractionWorker(), FlaggingWorker())
