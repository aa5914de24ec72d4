"""How long somebody who failed is left alone."""

from __future__ import annotations

import threading
import time


class Pause:
    """While all is well everybody may ask; after a failure nobody, then one at a time; shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: float | None = None  # None: all is well

    def left(self, trial_seconds: float) -> float:
        """Seconds until asking makes sense again; 0: ask now.

        Who is the first to hear 0 after a failure has ``trial_seconds`` to find out; the others wait for it.
        """
        with self._lock:
            if self._until is None:
                return 0.0
            now = time.monotonic()
            if now >= self._until:
                self._until = now + trial_seconds
                return 0.0
            return self._until - now

    def begin(self, seconds: float) -> None:
        """After a failure; a longer pause that is under way stays."""
        with self._lock:
            self._until = max(self._until or 0.0, time.monotonic() + seconds)

    def end(self) -> None:
        """After a success."""
        with self._lock:
            self._until = None
