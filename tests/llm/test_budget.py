"""The daily budget: enforced before each request, shared by all models, settled by the actual cost."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

import pytest
from django.db import connection

from memoryhub.extraction import services
from memoryhub.extraction.services import DailyUsage, reserve_in_budget
from memoryhub.llm import ModelError, Reserve
from memoryhub.models import ModelUse

DAY = date(2026, 3, 1)


@pytest.fixture
def reserve(db: None) -> Reserve:
    return partial(reserve_in_budget, now=datetime(2026, 3, 1, 12, tzinfo=UTC))


def test_reservation_is_replaced_by_the_use(reserve: Reserve) -> None:
    settle = reserve("tiny", 1000)
    assert services.usage_on(DAY) == DailyUsage(1, 0, 1000, 0)
    settle(40, 5)
    assert services.usage_on(DAY) == DailyUsage(1, 0, 40, 5)


def test_failure_is_counted(reserve: Reserve) -> None:
    settle = reserve("tiny", 1000)
    settle(0, 0, failed=True)
    assert services.usage_on(DAY) == DailyUsage(1, 1, 0, 0)


def test_call_limit_is_enforced(reserve: Reserve, configure: Any) -> None:
    configure(llm_daily_calls=2)
    for _ in range(2):
        settle = reserve("tiny", 10)
        settle(1, 1)
    with pytest.raises(ModelError, match="2 calls of today are used up"):
        reserve("tiny", 10)
    assert services.usage_on(DAY).calls == 2


def test_token_limit_is_enforced(reserve: Reserve, configure: Any) -> None:
    configure(llm_daily_tokens=1000)
    reserve("tiny", 900)
    with pytest.raises(ModelError, match="are not enough for 200 more"):
        reserve("tiny", 200)
    reserve("tiny", 100)


def test_budget_is_shared_by_all_models(reserve: Reserve, configure: Any) -> None:
    configure(llm_daily_calls=1)
    reserve("one", 10)
    with pytest.raises(ModelError):
        reserve("other", 10)


def test_zero_is_no_limit(reserve: Reserve, configure: Any) -> None:
    configure(llm_daily_calls=0, llm_daily_tokens=0)
    for _ in range(3):
        reserve("tiny", 10**9)


def test_next_day_starts_at_zero(db: None, configure: Any) -> None:
    configure(llm_daily_calls=1)
    reserve_in_budget("tiny", 10, datetime(2026, 3, 1, 23, 59, tzinfo=UTC))
    reserve_in_budget("tiny", 10, datetime(2026, 3, 2, 0, 0, tzinfo=UTC))
    assert [spent.calls for _, spent in services.recent_usage(3, date(2026, 3, 2))] == [1, 1, 0]


def test_settling_after_midnight_counts_for_the_day_before(reserve: Reserve) -> None:
    settle = reserve("tiny", 10)
    settle(3, 4)
    assert ModelUse.objects.get().day == DAY


@pytest.mark.django_db(transaction=True)
def test_concurrent_requests_respect_the_budget(configure: Any) -> None:
    configure(llm_daily_calls=5)
    refused = []

    def ask() -> None:
        try:
            reserve_in_budget("tiny", 10)
        except ModelError:
            refused.append(1)
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (services.usage_on().calls, len(refused)) == (5, 7)
