"""The server's own reader of conversations: one thread in each process, of which one at a time works."""

from __future__ import annotations

from django.utils import timezone

from memoryhub.extraction import queue
from memoryhub.lifecycle.worker import OneAtATime


class Reader(OneAtATime):
    """Reads what waits; whoever takes over goes on with what another left."""

    def __init__(self) -> None:
        super().__init__("extraction", queue.queued)

    def turn(self) -> bool:
        return self.hold() is not None and queue.work(self.ending.is_set)

    def taken_over(self) -> None:
        """Nobody can be working on what is running then."""
        queue.recover()
        queue.prune(timezone.now())
