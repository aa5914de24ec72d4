"""Moments as a reader likes them: in their time zone, and in the language of dates that they chose."""

from __future__ import annotations

import zoneinfo
from contextvars import ContextVar
from datetime import datetime
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
_AREAS = (
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
    return ["UTC", *sorted(name for name in zoneinfo.available_timezones() if name.startswith(_AREAS))]


def begin(profile: Any) -> None:
    """From here on this request shows moments as this person likes them; a zone that is gone is left out."""
    _language.set(profile.language if profile.language in LANGUAGES else "")
    try:
        timezone.activate(zoneinfo.ZoneInfo(profile.time_zone))
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        timezone.deactivate()


def end() -> None:
    """What comes next in this thread is another reader's."""
    _language.set("")
    timezone.deactivate()


def exact(here: datetime) -> str:
    """A local moment to the second with its zone, in the reader's language of dates."""
    zone = here.tzname()
    if not _language.get():
        return f"{here:%Y-%m-%d %H:%M:%S} {zone}"
    with translation.override(_language.get()):
        return f"{date_format(here, 'DATE_FORMAT')} {here:%H:%M:%S} {zone}"


def day(here: datetime) -> str:
    """The day of a local moment, short."""
    if not _language.get():
        return f"{here.day} {here:%b %Y}"
    with translation.override(_language.get()):
        return date_format(here, "DATE_FORMAT")
