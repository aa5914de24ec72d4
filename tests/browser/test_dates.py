"""Dates in the viewer's language and time zone, shown by ``dates.js``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import expect

from memoryhub.accounts import people
from memoryhub.core import dates
from tests.browser.conftest import OpenPage

NIGHT = datetime(2026, 3, 4, 23, 30, tzinfo=UTC)  # 5 March in Helsinki


def test_days_are_in_the_chosen_language_and_zone(open_page: OpenPage, insider: User, remember: Any) -> None:
    remember("late", created_at=NIGHT)
    page = open_page("about:blank", insider)
    for language, day, month in (
        ("en-gb", "Thursday,? 5 March 2026", "March 2026"),
        ("de", "Donnerstag, 5. März 2026", "März 2026"),
        ("ja", "2026年3月5日木曜日", "2026年3月"),
    ):
        people.save_preferences(insider, language=language, time_zone="Europe/Helsinki", theme="")
        page.goto("/timeline/entries/")
        expect(page.locator(".timeline-day time")).to_have_text(re.compile(f"^{day}$"))
        expected_language = None if language.startswith("en") else language
        assert page.locator(".timeline-day time").get_attribute("lang") == expected_language
        page.goto("/timeline/?month=2026-03")
        expect(page.locator(".month-head time").first).to_have_text(month)


def test_every_offered_language_is_known_to_the_browser(open_page: OpenPage, insider: User) -> None:
    page = open_page("/", insider)
    offered = [language for language in dates.LANGUAGES if language]
    known = page.evaluate("(names) => Intl.DateTimeFormat.supportedLocalesOf(names)", offered)
    assert [name.lower() for name in known] == offered


def test_relative_times_are_readable(open_page: OpenPage, insider: User, remember: Any) -> None:
    now = timezone.now()
    for age in (timedelta(days=2, minutes=1), timedelta(minutes=5, seconds=5), timedelta(seconds=5)):
        remember(f"words of {age}", created_at=now - age, updated_at=now - age)
    page = open_page("/memories/?order=-created_at", insider)
    times = ["just now", "5\u00a0minutes\u00a0ago", "2\u00a0days\u00a0ago"]
    expect(page.locator(".row time")).to_have_text(times)


def test_time_in_the_future_is_readable(open_page: OpenPage, insider: User, remember: Any) -> None:
    for days in (2.01, 1.99):
        remember(f"words for {days}", ttl_days=days)
    page = open_page("/memories/", insider)
    expect(page.locator(".row .badge time")).to_have_text(["in\u00a02\u00a0days"] * 2)


def test_old_times_are_shown_with_their_date(open_page: OpenPage, insider: User, remember: Any) -> None:
    people.save_preferences(insider, language="en-gb", time_zone="UTC", theme="")
    remember("words", created_at=NIGHT, updated_at=NIGHT)
    page = open_page("/memories/", insider)
    expect(page.locator(".row time").first).to_have_text(
        re.compile(r"^4\u00a0Mar\u00a02026 \(\d+\u00a0months?\u00a0ago\)$")
    )


def test_without_scripts_dates_are_in_iso_format(open_page: OpenPage, insider: User, remember: Any) -> None:
    people.save_preferences(insider, language="de", time_zone="Europe/Helsinki", theme="")
    remember("words", created_at=NIGHT, updated_at=NIGHT)
    page = open_page("/memories/", insider, java_script_enabled=False)
    expect(page.locator(".row time").first).to_have_text("2026-03-05 01:30")
