"""Answers that are kept: as long as nothing changes, and longer the more they cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.core.cache import cache

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
    """Each answer that is made is another number."""
    made = iter(range(100))
    return lambda about="", cost=0.0: caching.cached("question", about, lambda: work(next(made), cost))


def work(answer: int, seconds: float) -> int:
    """Of processor time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return answer


def test_it_is_told_again_while_nothing_changes(ask: Any) -> None:
    assert [ask(), ask()] == [0, 0]


def test_a_change_of_the_store_asks_anew(ask: Any, remember: Remember) -> None:
    ask()
    remember("a change")
    assert ask() == 1


def test_a_dear_one_outlasts_a_change_for_a_moment(ask: Any, remember: Remember) -> None:
    ask(cost=2 * caching.CHEAP_SECONDS)
    remember("a change")
    assert ask() == 0


def test_other_eyes_have_an_answer_of_their_own(ask: Any) -> None:
    opened = [
        Clearance.up_to("public"),
        Clearance.up_to("secret"),
        Clearance.up_to("secret", owner="ada"),
        Clearance.up_to("secret", projects=["p"]),
        Clearance.up_to("public", projects=["p"]),
    ]
    assert [ask(clearance_key(one)) for one in opened] == list(range(len(opened)))


def test_nothing_is_told_of_lately_where_nothing_was_asked(ask: Any, remember: Remember) -> None:
    assert caching.cached_value("question", "") is None
    ask()
    remember("a change")
    assert caching.cached_value("question", "") == 0
