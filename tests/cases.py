"""``each``: many cases of a test on one store; numbers of examples; and counts of the memories in it."""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.core.cache import cache
from django.db import transaction
from django.db.models import F, QuerySet

from memoryhub.api import health
from memoryhub.backends import statements
from memoryhub.core import dates
from memoryhub.models import querysets
from memoryhub.search import visible_rows
from memoryhub.stats import counts
from memoryhub.stats.usage import DailyCounts, count_each_by_day


@contextmanager
def rolled_back() -> Iterator[None]:
    """Roll back all writes in this context, so that one example does not affect the next."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def wait_until_loaded() -> None:
    """Wait for the thread that loads rows after an injection that was late, perhaps of an earlier test."""
    for thread in threading.enumerate():
        if thread.name == "visible-rows":
            thread.join(120)
            assert not thread.is_alive(), "the rows were not loaded"


def clear_caches() -> None:
    wait_until_loaded()
    visible_rows.clear_cache()
    querysets._live_memories.cache_clear()
    counts._cache.clear()
    statements._rooms.clear()
    cache.clear()
    dates.set_lead(timedelta(0))
    health._written_at.clear()


@contextmanager
def in_case(case: object) -> Iterator[None]:
    """Name the case of a test in its failure."""
    try:
        yield
    except Exception as error:
        error.add_note(f"Case: {case!r}")
        raise


def examples(usual: int, exploring: int) -> int:
    """Return how many examples a costly property gets: more with EXPLORE=1 (see ``tests/conftest.py``)."""
    return exploring if os.environ.get("EXPLORE") else usual


def each(names: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like ``pytest.mark.parametrize``, but all cases share the fixtures of one test.

    Creating the store costs more than most cases. The writes of a case are rolled back before the next.
    """
    keys = [name.strip() for name in names.split(",")]
    cases = [dict(zip(keys, value if len(keys) > 1 else [value], strict=True)) for value in values]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run_cases(*args: Any, **fixtures: Any) -> None:
            assert cases, "no cases"
            for case in cases:
                clear_caches()
                with rolled_back(), in_case(case):
                    test(*args, **fixtures, **case)

        signature = inspect.signature(test)
        kept = [one for name, one in signature.parameters.items() if name not in keys]
        run_cases.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run_cases

    return decorate


def created_by_day(memories: QuerySet[Any]) -> DailyCounts:
    """Return the memories created on each day by type."""
    return count_each_by_day(rows=(memories, "created_at", F("type")))["rows"]
