"""The server sees to it by itself that memories get their vectors.

A few are embedded at once, without a run of their own: with a provider that is far away that happens after
every store. Many (the model was changed, history was imported) become a run of ``embed``, to be watched and
stopped like any other.
"""

from __future__ import annotations

import fcntl
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from memoryhub import embeddings
from memoryhub.embeddings import Embedder, EmbeddingError
from memoryhub.lifecycle import runs
from memoryhub.lifecycle.embedding import Embed, missing
from memoryhub.lifecycle.operations import run_now
from memoryhub.models import MaintenanceRun
from memoryhub.search import vectors
from memoryhub.sensitivity import system
from memoryhub.store import StoreError

logger = logging.getLogger(__name__)
EMBEDDER = system("embedder")
FEW = 500  # memories that are embedded without a run
# Looking takes some milliseconds in a large store: that much more time passes before the next look.
REST = 100
PAUSES = (15.0, 60.0, 600.0)  # seconds that a provider that fails is left alone
STOPPED_FOR = timedelta(days=1)  # what somebody stopped does not begin again by itself any earlier
FAILED_FOR = timedelta(minutes=10)
Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause


class CatchUp:
    """One for each worker; :meth:`look` is called between its runs, as often as it likes."""

    def __init__(self) -> None:
        self._due = 0.0  # on the monotonic clock
        self._failures = 0

    def look(self) -> None:
        """Embed what lacks a vector, or queue a run for it, when it is time to look again.

        This process's index is brought up to date too: the first search need not wait for it, and what was
        erased leaves the memory of a process that nobody asks.
        """
        vectors.refresh_all()
        began = time.monotonic()
        if began < self._due:
            return
        try:
            embedder = embeddings.configured()
            if embedder and embedder.dimensions:
                vectors.index(embedder.name, embedder.dimensions).view()
            counted = time.monotonic()
            lacking = missing(embedder.name) if embedder else 0
            self._due = began + REST * (time.monotonic() - counted)
            if embedder and lacking:
                self._tend(embedder, lacking)
            self._failures = 0
        except (EmbeddingError, StoreError) as error:
            self._fail(error)

    def _tend(self, embedder: Embedder, lacking: int) -> None:
        with _alone() as alone:
            if not alone or not _is_free():
                return
            if lacking <= FEW:
                if not run_now(Embed.name, {}, EMBEDDER).changed:
                    self._due = time.monotonic() + PAUSES[0]
                return
            embedder.documents(["Is anybody there?"])  # or every attempt would leave a run that failed
            runs.start(Embed.name, {}, EMBEDDER, may_wait=True)

    def _fail(self, error: EmbeddingError | StoreError) -> None:
        pause = PAUSES[min(self._failures, len(PAUSES) - 1)]
        self._failures += 1
        self._due = time.monotonic() + pause
        logger.warning("embedding waits %.0f seconds: %s", pause, error)


def _is_free() -> bool:
    """Whether nobody is at it, or has had it stopped, or has just failed."""
    now = timezone.now()
    of_embed = MaintenanceRun.objects.filter(operation=Embed.name, dry_run=False)
    lately = Q(cause=Cause.STOPPED, finished_at__gt=now - STOPPED_FOR)
    lately |= Q(cause=Cause.ERROR, finished_at__gt=now - FAILED_FOR)
    newest = of_embed.order_by("-pk")[:1].values("pk")
    held_up = of_embed.filter(lately, status=Status.FAILED, pk__in=newest)
    return not of_embed.filter(status__in=runs.PENDING).exists() and not held_up.exists()


@contextmanager
def _alone() -> Iterator[bool]:
    """Whether no other process of this store is at it: each of the server's has a worker."""
    with Path(settings.HOME, "embedding.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
