"""Counts by day in time zones whose offset has changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from memoryhub.models import Memory
from tests.cases import created_by_day, each


@pytest.mark.django_db
@each(
    "zone, moment, day",
    [
        # Half an hour behind and ahead of the offset that the zone has now.
        ("Asia/Pyongyang", datetime(2018, 4, 8, 15, 15, tzinfo=UTC), date(2018, 4, 8)),
        ("Asia/Pyongyang", datetime(2018, 4, 8, 15, 45, tzinfo=UTC), date(2018, 4, 9)),
        # An hour ahead in that year, and now at UTC.
        ("Africa/Sao_Tome", datetime(2018, 6, 1, 23, 30, tzinfo=UTC), date(2018, 6, 2)),
        # The nights when the clocks change.
        ("America/St_Johns", datetime(2026, 3, 8, 3, 15, tzinfo=UTC), date(2026, 3, 7)),
        ("America/St_Johns", datetime(2026, 3, 9, 2, 45, tzinfo=UTC), date(2026, 3, 9)),
    ],
)
def test_time_counts_on_the_day_by_the_offset_at_that_time(
    remember: Callable[..., Any], zone: str, moment: datetime, day: date
) -> None:
    remember("zebra", created_at=moment)
    with timezone.override(ZoneInfo(zone)):
        counted = created_by_day(Memory.objects.all())
        assert [at for at, _, _ in counted] == [day] == [timezone.localtime(moment).date()]
