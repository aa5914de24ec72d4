"""Moments as a reader likes them: in their time zone, and in the language of dates that they chose."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from contextvars import ContextVar
from datetime import date, datetime
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


def time_zones() -> list[str]:
    """UTC and the zones of the continents and oceans, by name."""
    return [
        "UTC",
        *sorted(name for name in zoneinfo.available_timezones() if name.startswith(_ZONE_PREFIXES)),
    ]


def activate(profile: Any | None, browser_zone: str = "") -> None:
    """From here on this request shows moments as this person likes them; a zone that is gone is left out.

    ``browser_zone``: what the browser says its zone is, for who chose none; anything may stand there.
    """
    language = profile.language if profile else ""
    _language.set(language if language in LANGUAGES else "")
    said = browser_zone if browser_zone.startswith(_ZONE_PREFIXES) or browser_zone == "UTC" else ""
    chosen = (profile.time_zone if profile else "") or said
    try:
        timezone.activate(zoneinfo.ZoneInfo(chosen))
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        timezone.deactivate()


def deactivate() -> None:
    """What comes next in this thread is another reader's."""
    _language.set("")
    timezone.deactivate()


def active_language() -> str:
    """The language in which days are told now; empty for plain ones, which are English."""
    return _language.get()


def format_exact(here: datetime) -> str:
    """A local moment to the second with its zone, in the reader's language of dates."""
    return f"{format_date(here, 'second')} {here.tzname()}"


def format_date(here: date, how: str) -> str:
    """A day or a local moment in the reader's language of dates.

    ``how``: ``day`` (4 May 2026), ``weekday`` (Mon, 4 May), ``whole`` (Monday, 4 May 2026), ``short``
    (4 May), ``month`` (May 2026), ``number`` (2026-05-04); of a moment also ``minute`` and ``second``, a day
    with the time, and ``clock``, the time alone; KeyError for anything else. Clocks go to 24 in every
    language.
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
    """A day, short."""
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
    """As Django's formats of the active language say."""
    shown = date_format(here, _DJANGO_FORMATS[how])
    if how not in _WEEKDAY_FORMATS:
        return shown
    weekday = date_format(here, _WEEKDAY_FORMATS[how])
    if _language.get() in _WEEKDAY_LAST:
        return f"{shown} {weekday}"
    return f"{weekday} {shown}" if _language.get() in _WITHOUT_COMMA else f"{weekday}, {shown}"
