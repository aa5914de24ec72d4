"""The server's own reader of conversations: one thread in each process, of which one at a time works."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from django.conf import settings
from django.utils import timezone

from memoryhub.extraction import queue
from memoryhub.lifecycle.worker import Background


class Reader(Background):
    """Whoever holds the lock reads, until its process ends; then another takes over what it left."""

    def __init__(self) -> None:
        super().__init__("extraction", queue.queued)
        self._lock: IO[str] | None = None

    def turn(self) -> bool:
        if self._lock is None and not self._take_over():
            return False
        return queue.work(self.ending.is_set)

    def run(self) -> None:
        try:
            super().run()
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Give the lock back; another may read from now on."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _take_over(self) -> bool:
        """Take the lock, if it is free; nobody can be working on what is running then."""
        file = Path(settings.HOME, "extraction.lock").open("a")  # noqa: SIM115 held for life
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._lock = file
        queue.recover()
        queue.prune(timezone.now())
        return True
