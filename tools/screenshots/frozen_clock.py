"""Freeze the clock and the random ids, so that a picture changes only when its page does."""

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


@contextmanager
def freeze_clock(at: datetime = NOW) -> Iterator[None]:
    """Freeze ``timezone.now()`` and the defaults of fields that use it."""
    with ExitStack() as stack:
        for field in _fields_with_clock():
            stack.enter_context(patch.object(field, "_get_default", lambda: at))
        stack.enter_context(patch("django.utils.timezone.now", lambda: at))
        yield


@cache
def _fields_with_clock() -> list[Field[Any, Any]]:
    """Return the fields whose default is ``timezone.now``: patching its module does not change them."""
    fields = (field for model in apps.get_models() for field in model._meta.concrete_fields)
    return [field for field in fields if field.default is timezone.now]


@contextmanager
def fixed_ids() -> Iterator[None]:
    """Give new rows the same ids, and tokens the same text, in each run."""
    generator = random.Random(_SEED)
    with ExitStack() as stack:
        stack.enter_context(patch.object(text, "os", SimpleNamespace(urandom=generator.randbytes)))
        stack.enter_context(
            patch("memoryhub.accounts.tokens.secrets", SimpleNamespace(token_urlsafe=_urlsafe(generator)))
        )
        yield


def _urlsafe(generator: random.Random) -> Callable[[int], str]:
    return lambda size: base64.urlsafe_b64encode(generator.randbytes(size)).rstrip(b"=").decode()
