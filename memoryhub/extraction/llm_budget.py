"""Daily budget of the language model: calls and tokens, counted in the database for all processes.

Each request reserves its maximum cost first and replaces it by the actual cost afterwards. So the budget
holds for concurrent requests, and a crashed process has spent its reservation. Days are UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import F, Sum
from django.db.models.functions import Greatest
from django.utils import timezone

from memoryhub.core.database import write_transaction
from memoryhub.llm import Meter, ModelError
from memoryhub.models import ModelUse

__all__ = ["Budget", "BudgetCharge", "DailyUsage", "recent_usage", "usage_on"]


@dataclass(frozen=True)
class DailyUsage:
    """Use of one day, over all models."""

    calls: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass
class BudgetCharge:
    """A running request. ``tokens`` are reserved as prompt tokens until it is settled."""

    day: date
    model: str
    tokens: int

    def settle(self, prompt_tokens: int, completion_tokens: int, *, failed: bool = False) -> None:
        """Replace the reserved tokens by the used ones; the call stays counted."""
        with write_transaction():
            ModelUse.objects.filter(day=self.day, model=self.model).update(
                prompt_tokens=Greatest(F("prompt_tokens") - self.tokens, 0) + prompt_tokens,
                completion_tokens=F("completion_tokens") + completion_tokens,
                failures=F("failures") + failed,
            )


class Budget(Meter):
    """Limits ``llm_daily_calls`` and ``llm_daily_tokens``; 0 means no limit."""

    def __init__(self, clock: Callable[[], datetime] = timezone.now) -> None:
        self._clock = clock

    def reserve(self, model: str, tokens: int) -> BudgetCharge:
        """Reserve a call and tokens for today. Raise ModelError if the budget is exhausted."""
        config = settings.MEMORYHUB
        day = self._clock().astimezone(UTC).date()
        name = model[:200]
        with write_transaction():
            spent = usage_on(day)
            if config.llm_daily_calls and spent.calls >= config.llm_daily_calls:
                raise ModelError(
                    f"the language model's {config.llm_daily_calls:,} calls of today are used up"
                )
            if config.llm_daily_tokens and spent.tokens + tokens > config.llm_daily_tokens:
                raise ModelError(
                    f"the language model's {config.llm_daily_tokens:,} tokens of today do not suffice for "
                    f"{tokens:,} more"
                )
            ModelUse.objects.get_or_create(day=day, model=name)
            ModelUse.objects.filter(day=day, model=name).update(
                calls=F("calls") + 1, prompt_tokens=F("prompt_tokens") + tokens
            )
        return BudgetCharge(day, name, tokens)


def usage_on(day: date | None = None) -> DailyUsage:
    """Return the use of a day (default: today, UTC) over all models."""
    day = day or timezone.now().astimezone(UTC).date()
    return _to_usage(ModelUse.objects.filter(day=day).aggregate(**_SUMS))


def recent_usage(most: int, until: date | None = None) -> list[tuple[date, DailyUsage]]:
    """Return the use of the last days, newest first, including days without use."""
    until = until or timezone.now().astimezone(UTC).date()
    since = until - timedelta(days=most - 1)
    rows = ModelUse.objects.filter(day__gte=since, day__lte=until).order_by().values("day").annotate(**_SUMS)
    found = {row["day"]: _to_usage(row) for row in rows}
    wanted = [until - timedelta(days=back) for back in range(most)]
    return [(day, found.get(day, DailyUsage())) for day in wanted]


_SUMS = {name: Sum(name) for name in ("calls", "failures", "prompt_tokens", "completion_tokens")}


def _to_usage(row: Mapping[str, Any]) -> DailyUsage:
    return DailyUsage(**{name: row[name] or 0 for name in _SUMS})
