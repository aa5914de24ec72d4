"""Format dates and times in the reader's time zone and language, and as ISO 8601."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, date, datetime, time
from typing import Any

from django.utils import timezone, translation
from django.utils.formats import date_format

LANGUAGES = {
    "": "Plain: 2026-05-04 13:30:00",
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
_language: ContextVar[str] = ContextVar("language of dates", default="")


def format_iso(at: datetime) -> str:
    """Return ISO 8601 in UTC, as in ``2026-05-04T13:30:00Z``."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_moment(text: str | None) -> datetime | None:
    """Parse a stored ISO 8601 moment. Empty text is no moment."""
    return datetime.fromisoformat(text) if text else None


def start_of_day(day: date) -> datetime:
    """Return midnight in the current time zone."""
    return timezone.make_aware(datetime.combine(day, time.min))


def time_zones() -> list[str]:
    """Return UTC and the zones of the continents and oceans, sorted by name."""
    return [
        "UTC",
        *sorted(name for name in zoneinfo.available_timezones() if name.startswith(_ZONE_PREFIXES)),
    ]


def activate(profile: Any | None, browser_zone: str = "") -> None:
    """Use the time zone and language of this person for the rest of the request. Ignore unknown zones.

    ``browser_zone``: the unchecked zone of the browser, used if the person has chosen none.
    """
    language = profile.language if profile else ""
    _language.set(language if language in LANGUAGES else "")
    is_zone = browser_zone.startswith(_ZONE_PREFIXES) or browser_zone == "UTC"
    chosen = (profile.time_zone if profile else "") or (browser_zone if is_zone else "")
    try:
        timezone.activate(zoneinfo.ZoneInfo(chosen))
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        timezone.deactivate()


def deactivate() -> None:
    """Reset time zone and language at the end of a request."""
    _language.set("")
    timezone.deactivate()


def active_language() -> str:
    """Return the language of dates. Empty for the plain format, which is English."""
    return _language.get()


def format_exact(here: datetime) -> str:
    """Format a local moment to the second with its time zone."""
    return f"{format_date(here, 'second')} {here.tzname()}"


def format_date(here: date, how: str) -> str:
    """Format a day or a local moment in the reader's language.

    ``how``: ``day`` (4 May 2026), ``weekday`` (Mon, 4 May), ``whole`` (Monday, 4 May 2026), ``short`` (4
    May), ``month`` (May 2026) or ``number`` (2026-05-04). For moments also ``minute`` and ``second`` (the day
    with the time) and ``clock`` (only the time). The time has 24 hours in every language. Raise KeyError for
    anything else.
    """
    if how == "clock":
        return f"{here:%H:%M}"
    if how in _CLOCK_FORMATS:
        return f"{format_date(here, 'number')} {here:{_CLOCK_FORMATS[how]}}"
    if not _language.get():
        return _PLAIN_FORMATS[how](here)
    with translation.override(_language.get()):
        return _format_translated(here, how)


def format_day(here: date) -> str:
    """Format a day as ``4 May 2026``."""
    return format_date(here, "day")


_CLOCK_FORMATS = {"minute": "%H:%M", "second": "%H:%M:%S"}
_PLAIN_FORMATS: dict[str, Callable[[date], str]] = {
    "day": lambda at: f"{at.day} {at:%b %Y}",
    "weekday": lambda at: f"{at:%a}, {at.day} {at:%b}",
    "whole": lambda at: f"{at:%A}, {at.day} {at:%B %Y}",
    "short": lambda at: f"{at.day} {at:%b}",
    "month": lambda at: f"{at:%B %Y}",
    "number": lambda at: f"{at:%Y-%m-%d}",
}
_DJANGO_FORMATS = {
    "day": "DATE_FORMAT",
    "weekday": "MONTH_DAY_FORMAT",
    "whole": "DATE_FORMAT",
    "short": "MONTH_DAY_FORMAT",
    "month": "YEAR_MONTH_FORMAT",
    "number": "DATE_FORMAT",
}
_WEEKDAY_FORMATS = {"weekday": "D", "whole": "l"}
_WEEKDAY_LAST = {"ja", "ko", "tr", "zh-hans"}
_WITHOUT_COMMA = {"cs", "da", "fi", "fr", "it", "nb", "nl", "sv"}


def _format_translated(here: date, how: str) -> str:
    """Format a day with Django's formats of the active language."""
    shown = date_format(here, _DJANGO_FORMATS[how])
    if how not in _WEEKDAY_FORMATS:
        return shown
    weekday = date_format(here, _WEEKDAY_FORMATS[how])
    if _language.get() in _WEEKDAY_LAST:
        return f"{shown} {weekday}"
    return f"{weekday} {shown}" if _language.get() in _WITHOUT_COMMA else f"{weekday}, {shown}"
