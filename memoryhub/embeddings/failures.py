"""Failures of a provider in the log: now and then, for one that is down fails with each search and store."""

from __future__ import annotations

import time
from logging import Logger

from memoryhub.embeddings.protocol import EmbeddingError

SECONDS_BETWEEN_WARNINGS = 60.0
_warned: dict[str, tuple[str, float]] = {}  # by consequence the failure last told, and when


def warn(logger: Logger, consequence: str, error: EmbeddingError) -> None:
    """Log what follows from a failure and the failure, unless the same was just told."""
    now, words = time.monotonic(), str(error)
    told, at = _warned.get(consequence, ("", 0.0))
    if words != told or now - at >= SECONDS_BETWEEN_WARNINGS:
        _warned[consequence] = words, now
        logger.warning("%s: %s", consequence, error)
