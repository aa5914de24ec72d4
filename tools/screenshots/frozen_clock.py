"""One moment at which all pictures are taken, so that a picture differs only where its page does."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from django.apps import apps
from django.db.models import Field
from django.utils import timezone

from memoryhub.core import text

NOW = datetime(2026, 6, 18, 14, 20, tzinfo=UTC)
_SEED = 11
_CLOCK = timezone.now


@contextmanager
def standing_still(at: datetime = NOW) -> Iterator[None]:
    """Within, it is this moment for all who ask Django's clock, and for the columns whose default it is."""
    with ExitStack() as stack:
        for field in _fields_with_clock():
            stack.enter_context(patch.object(field, "_get_default", lambda: at))
        stack.enter_context(patch("django.utils.timezone.now", lambda: at))
        yield


@cache
def _fields_with_clock() -> list[Field[Any, Any]]:
    """The columns whose default is the present: they keep the function itself, not its name."""
    every = (field for model in apps.get_models() for field in model._meta.concrete_fields)
    return [field for field in every if field.default is _CLOCK]


@contextmanager
def same_ids() -> Iterator[None]:
    """Within, what is stored gets the same ids each time, and tokens the same beginnings."""
    chance = random.Random(_SEED)
    with ExitStack() as stack:
        stack.enter_context(patch.object(text, "os", SimpleNamespace(urandom=chance.randbytes)))
        stack.enter_context(
            patch("memoryhub.accounts.tokens.secrets", SimpleNamespace(token_urlsafe=_urlsafe(chance)))
        )
        yield


def _urlsafe(chance: random.Random) -> Callable[[int], str]:
    return lambda size: base64.urlsafe_b64encode(chance.randbytes(size)).rstrip(b"=").decode()
