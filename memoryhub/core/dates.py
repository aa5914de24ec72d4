"""The languages and time zones of dates, ISO 8601, and the moment up to which memories have expired."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any

from django.utils import timezone

LANGUAGES = {
    "": "Same as the browser",
    "en": "English",
    "en-gb": "English (British)",
    "cs": "čeština",
    "da": "dansk",
    "de": "Deutsch",
    "es": "español",
    "fi": "suomi",
    "fr": "français",
    "it": "italiano",
    "ja": "日本語",
    "ko": "한국어",
    "nb": "norsk bokmål",
    "nl": "Nederlands",
    "pl": "polski",
    "pt": "português",
    "pt-br": "português do Brasil",
    "ru": "русский",
    "sv": "svenska",
    "tr": "Türkçe",
    "uk": "українська",
    "zh-hans": "简体中文",
}
_ZONE_PREFIXES = (
    "Africa/",
    "America/",
    "Antarctica/",
    "Asia/",
    "Atlantic/",
    "Australia/",
    "Europe/",
    "Indian/",
    "Pacific/",
)


def format_iso(at: datetime) -> str:
    """Return ISO 8601 in UTC, as in ``2026-05-04T13:30:00Z``."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_moment(text: str | None) -> datetime | None:
    """Parse a stored ISO 8601 moment. Empty text is no moment."""
    return datetime.fromisoformat(text) if text else None


def start_of_day(day: date) -> datetime:
    """Return midnight in the current time zone."""
    return timezone.make_aware(datetime.combine(day, time.min))


def next_month(day: date) -> date:
    """Return the first day of the month after the one that begins on ``day``."""
    return (day + timedelta(days=31)).replace(day=1)


@cache
def time_zones() -> tuple[str, ...]:
    """Return UTC and the zones of the continents and oceans, sorted by name."""
    names = zoneinfo.available_timezones()  # reads hundreds of files
    return ("UTC", *sorted(name for name in names if name.startswith(_ZONE_PREFIXES)))


def activate(profile: Any | None, browser_zone: str = "") -> None:
    """Use the time zone of this person for the rest of the request. Ignore unknown zones.

    ``browser_zone``: the unchecked zone of the browser, used if the person has chosen none.
    """
    is_zone = browser_zone.startswith(_ZONE_PREFIXES) or browser_zone == "UTC"
    chosen = (profile.time_zone if profile else "") or (browser_zone if is_zone else "")
    try:
        timezone.activate(zoneinfo.ZoneInfo(chosen))
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        timezone.deactivate()


_lead = timedelta(0)


def set_lead(lead: timedelta) -> None:
    """Set how far the wall clock is ahead of the time that this process counts for expiry."""
    global _lead
    _lead = lead


def unconfirmed_lead() -> timedelta:
    """Return how far the wall clock is ahead without confirmation."""
    return _lead


def expiry_time(now: datetime) -> datetime:
    """Return the moment up to which memories have expired: ``now`` without an unconfirmed jump."""
    return now - _lead


def is_in_doubt() -> bool:
    """Whether the wall clock is ahead without confirmation."""
    return bool(_lead)
