"""How often one caller may come: by token, by address, and by address with what is no token.

Each count is a bucket that fills again all the time: so many requests a second for as long as one likes, and
``burst`` of them at once. It lives in the memory of one process: no request writes anything for it, every
worker of the server counts for itself, and a restart forgets it. A bucket that is full again is forgotten
too, and of very many callers at once those that came least lately.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from django.conf import settings

from memoryhub.core.client_ip import client_network

_ROUNDING_TOLERANCE = 1e-6  # seconds: what adding up fractions may be wrong by
MAX_BUCKETS = 20_000  # buckets of one kind; each takes some 200 bytes


@dataclass(frozen=True)
class RateLimitExceeded(Exception):
    """``seconds`` until the next try is taken; ``setting`` is the tunable whose limit was met."""

    seconds: int
    setting: str


class TokenBuckets:
    """What each caller has used up. Safe in several threads."""

    def __init__(self, most: int = MAX_BUCKETS) -> None:
        self.most = most
        # For each caller, when its bucket is full again (on the monotonic clock); who came latest is last.
        self._full_at: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: str, per_second: float, burst: int, cost: int = 1) -> float:
        """Take ``cost`` out of a bucket; 0 if it was there, else the seconds until it is.

        ``per_second`` 0: without a limit.
        """
        if per_second <= 0:
            return 0
        now = time.monotonic()
        with self._lock:
            full_at = max(self._full_at.get(key, now), now) + cost / per_second
            missing = full_at - now - burst / per_second
            if missing > _ROUNDING_TOLERANCE:
                return missing
            self._full_at[key] = full_at
            self._full_at.move_to_end(key)
            self._forget(now)
        return 0

    def wait(self, key: str, per_second: float, burst: int) -> float:
        """Seconds until one could be taken; nothing is."""
        if per_second <= 0:
            return 0
        now = time.monotonic()
        with self._lock:
            missing = self._full_at.get(key, now) + (1 - burst) / per_second - now
        return missing if missing > _ROUNDING_TOLERANCE else 0

    def _forget(self, now: float) -> None:
        """Some of those that are full again, and whoever is one too many."""
        while self._full_at:
            key, full_at = next(iter(self._full_at.items()))
            if full_at > now and len(self._full_at) <= self.most:
                return
            del self._full_at[key]

    def __len__(self) -> int:
        return len(self._full_at)

    def clear(self) -> None:
        with self._lock:
            self._full_at.clear()


class RecentTokens:
    """The tokens that were good lately: who guesses at the same address does not shut them out."""

    def __init__(self, most: int = MAX_BUCKETS) -> None:
        self.most = most
        self._digests: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, digest: str) -> None:
        with self._lock:
            self._digests[digest] = None
            self._digests.move_to_end(digest)
            if len(self._digests) > self.most:
                self._digests.popitem(last=False)

    def has(self, digest: str) -> bool:
        return digest in self._digests

    def __len__(self) -> int:
        return len(self._digests)

    def clear(self) -> None:
        with self._lock:
            self._digests.clear()


_PER_TOKEN, _PER_ADDRESS, _INVALID_TOKENS, _VALID_TOKENS = (
    TokenBuckets(),
    TokenBuckets(),
    TokenBuckets(),
    RecentTokens(),
)


def count_request_of_address(address: str) -> None:
    """One request from there; :class:`TooOften` where it is one too many. This machine has no limit."""
    if (network := client_network(address)) is not None:
        config = settings.MEMORYHUB
        _raise_if_waiting(
            _PER_ADDRESS.take(network, config.rate_per_address, config.rate_burst_address), "rate_per_address"
        )


def count_request_of_token(uid: str, digest: str) -> None:
    """One request with this token, which is good; :class:`TooOften` where it is one too many."""
    _VALID_TOKENS.add(digest)
    config = settings.MEMORYHUB
    _raise_if_waiting(_PER_TOKEN.take(uid, config.rate_per_token, config.rate_burst_token), "rate_per_token")


def check_token_guesses(address: str, digest: str) -> None:
    """:class:`TooOften` for what nobody here knows as a token, from where too much was sent that is none."""
    network = client_network(address)
    if network is None or _VALID_TOKENS.has(digest):
        return
    per_second, burst = _guess_limit()
    _raise_if_waiting(_INVALID_TOKENS.wait(network, per_second, burst), "refusals_per_minute")


def count_token_guess(address: str) -> None:
    """What came from there was no token that may be used."""
    if (network := client_network(address)) is not None:
        _INVALID_TOKENS.take(network, *_guess_limit())


def reset_limits() -> None:
    """Count anew."""
    for counted in (_PER_TOKEN, _PER_ADDRESS, _INVALID_TOKENS, _VALID_TOKENS):
        counted.clear()


def _guess_limit() -> tuple[float, int]:
    per_minute = settings.MEMORYHUB.refusals_per_minute
    return per_minute / 60, per_minute


def _raise_if_waiting(seconds: float, setting: str) -> None:
    if seconds > 0:
        raise RateLimitExceeded(math.ceil(seconds), setting)
