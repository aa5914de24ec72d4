"""The limit on the work that checking one text may cost."""

from __future__ import annotations

import time

# Ordinary prose, code and logs of more than 2,000 characters use at most 1.3 units per character.
UNITS_PER_CHARACTER = 6
MIN_UNITS = 10_000
UNITS_PER_CANDIDATE = 10  # in addition to one unit per character of the candidate
MAX_CPU_SECONDS = 5.0  # a backstop for slow machines; the units are used up much earlier
_CANDIDATES_PER_CLOCK_CHECK = 64


class CheckTooCostly(Exception):
    """Checking a text for secrets takes more work than its length allows. The text is unchecked."""

    def __init__(self) -> None:
        super().__init__("the text is too costly to check for secrets. Shorten it or split it.")


class Budget:
    """Count the work spent on one text; raise :class:`CheckTooCostly` when it exceeds the limit.

    The count is deterministic: each candidate that a rule examines costs its length plus a constant. The CPU
    time of the thread is a second limit.
    """

    def __init__(self, length: int) -> None:
        self.limit = max(MIN_UNITS, UNITS_PER_CHARACTER * length)
        self.spent = 0
        self._candidates = 0
        self._deadline = time.thread_time() + MAX_CPU_SECONDS

    def spend(self, characters: int) -> None:
        """Count one candidate of this many characters."""
        self.spent += UNITS_PER_CANDIDATE + characters
        if self.spent > self.limit:
            raise CheckTooCostly
        self._candidates += 1
        if self._candidates % _CANDIDATES_PER_CLOCK_CHECK == 0:
            self.check_time()

    def check_time(self) -> None:
        if time.thread_time() > self._deadline:
            raise CheckTooCostly
