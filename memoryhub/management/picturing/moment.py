"""One moment at which all pictures are taken, so that a picture differs only where its page does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from unittest.mock import patch

from memoryhub.models import fields

NOW = datetime(2026, 6, 18, 14, 20, tzinfo=UTC)
_SEED = 11


@contextmanager
def standing_still(at: datetime = NOW) -> Iterator[None]:
    """Within, it is this moment for whoever asks Django's clock."""
    with patch("django.utils.timezone.now", lambda: at):
        yield


@contextmanager
def same_ids() -> Iterator[None]:
    """Within, what is stored gets the same ids each time."""
    chance = SimpleNamespace(urandom=random.Random(_SEED).randbytes)  # noqa: S311 nothing is to be guessed
    with patch.object(fields, "os", chance):
        yield
