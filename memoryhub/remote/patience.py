"""Trying again what may pass, within a limit of time; what a refusal means, in words without the other's."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeVar

from memoryhub.remote.transport import Answer

PAUSE_SECONDS = 30.0  # after a failure; a Retry-After may ask for more
LONGEST_PAUSE_SECONDS = 3600.0
MOST_TRIES = 5
FIRST_WAIT_SECONDS = 0.5  # doubled with each try, and up to as much again by chance
_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}

Result = TypeVar("Result")


class Failed(Exception):
    """It did not work. ``passes``: it may the next time. ``wait``: what the other asked for, seconds."""

    def __init__(self, why: str, *, passes: bool = False, wait: float | None = None) -> None:
        self.passes, self.wait = passes, wait
        super().__init__(why)

    @property
    def pause(self) -> float:
        """For how long the other is left alone after this, seconds."""
        return min(max(self.wait or 0.0, PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)


def with_patience(ask: Callable[[float], Result], until: float, most_tries: int = MOST_TRIES) -> Result:
    """Call ``ask`` with the seconds that are left until a moment of the monotonic clock.

    :class:`Failed` of the last try, when it does not pass, or when there is no time left to wait for another.
    """
    tries = 0
    while True:
        tries += 1
        try:
            return ask(until - time.monotonic())
        except Failed as error:
            wait = _backoff(tries) if error.wait is None else error.wait
            if not error.passes or tries >= most_tries or time.monotonic() + wait >= until:
                raise
            time.sleep(wait)


def refusal(answer: Answer, who: str, mends: Mapping[int, str]) -> Failed:
    """What an answer other than 200 means; never in its own words, that may repeat the key.

    ``mends``: what to do by status; 300 stands for every redirect, 400 for whatever else does not pass.
    """
    status = answer.status
    why = f"{who} answers with status {status}"
    if status >= 500 or status in _PASSING:
        return Failed(why, passes=True, wait=seconds_to_wait(answer.retry_after, datetime.now(UTC)))
    mend = mends[300] if 300 <= status < 400 else mends.get(status, mends[400])
    return Failed(f"{why}: {mend}")


def seconds_to_wait(header: str, now: datetime) -> float | None:
    """What a Retry-After header asks for, in seconds or as a date; None when it says nothing."""
    written = header.strip()
    if written.isascii() and written.isdigit():
        return float(written[:9])
    try:
        moment = parsedate_to_datetime(written)
    except (ValueError, TypeError, IndexError):
        return None
    if moment.tzinfo is None:  # "-0000": UTC without a place
        moment = moment.replace(tzinfo=now.tzinfo)
    return max((moment - now).total_seconds(), 0.0)


def _backoff(tries: int) -> float:
    return FIRST_WAIT_SECONDS * 2.0 ** (tries - 1) * (1 + random.random())  # noqa: S311 no secret
