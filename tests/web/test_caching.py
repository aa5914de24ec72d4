"""Results that are cached until the store changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.models import Memory
from memoryhub.web.base import caching
from memoryhub.web.base.caching import clearance_key

Remember = Callable[..., Memory]


@pytest.fixture(autouse=True)
def fresh_cache(db: None) -> None:
    cache.clear()


@pytest.fixture
def ask() -> Callable[..., int]:
    """Each computed result is another number."""
    results = iter(range(100))
    return lambda about="": caching.cached_until_change("question", about, lambda: next(results))


def test_result_is_reused_while_nothing_changes(ask: Any) -> None:
    assert [ask(), ask()] == [0, 0]


def test_change_of_the_store_invalidates_the_result(ask: Any, remember: Remember) -> None:
    ask()
    remember("a change")
    assert ask() == 1


def test_expiry_of_a_memory_invalidates_the_result(
    ask: Any, remember: Remember, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember("for a day", ttl_days=1)
    ask()
    later = timezone.now() + timedelta(days=2)
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert ask() == 1


def test_each_clearance_has_its_own_result(ask: Any) -> None:
    clearances = [
        Clearance.up_to("public"),
        Clearance.up_to("secret"),
        Clearance.up_to("secret", owner="ada"),
        Clearance.up_to("secret", projects=["p"]),
        Clearance.up_to("public", projects=["p"]),
    ]
    assert [ask(clearance_key(one)) for one in clearances] == list(range(len(clearances)))


def test_cached_value_may_be_outdated_or_missing(ask: Any, remember: Remember) -> None:
    assert caching.cached_value("question", "") is None
    ask()
    remember("a change")
    assert caching.cached_value("question", "") == 0
