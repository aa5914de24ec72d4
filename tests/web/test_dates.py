"""Dates on pages: language, time zone, and the exact time of every relative one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from memoryhub import memories
from memoryhub.accounts import people
from memoryhub.core import dates
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryPatch
from memoryhub.models import Event, Injection, Memory, Profile, Session
from memoryhub.stats import calendar, counts
from memoryhub.web.base import charts
from memoryhub.web.templatetags.hub import moment, when

TEMPLATES = Path(settings.BASE_DIR) / "templates"
# Formats that are the same in every language: ISO, clock times, numbers, names of zones.
NEUTRAL = {"c", "Y-m-d", "Y-m", "j", "H:i", "H:i:s", ":s", "T"}
NIGHT = datetime(2026, 3, 4, 23, 30, tzinfo=UTC)  # 5 March in Helsinki, 4 March in New York


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    dates.deactivate()


def read_as(language: str = "", zone: str = "UTC") -> None:
    dates.activate(Profile(language=language, time_zone=zone))


@pytest.fixture
def reader(sign_in: Any) -> Client:
    """A person who reads German in Helsinki."""
    client: Client = sign_in("view_maintenancerun")
    people.save_preferences(User.objects.get(), language="de", time_zone="Europe/Helsinki", theme="")
    return client


def test_templates_do_not_format_dates_in_the_language_of_the_server() -> None:
    for path in TEMPLATES.rglob("*.html"):
        formats = re.findall(r"\|\s*(?:date|time):\s*[\"']([^\"']*)[\"']", path.read_text())
        assert set(formats) <= NEUTRAL, path


@pytest.mark.parametrize(
    ("how", "plain", "german", "japanese"),
    [
        ("day", "4 Mar 2026", "4. März 2026", "2026年3月4日"),
        ("weekday", "Wed, 4 Mar", "Mi, 4. März", "3月4日 水"),
        ("whole", "Wednesday, 4 March 2026", "Mittwoch, 4. März 2026", "2026年3月4日 水曜日"),
        ("short", "4 Mar", "4. März", "3月4日"),
        ("month", "March 2026", "März 2026", "2026年3月"),
        ("number", "2026-03-04", "4. März 2026", "2026年3月4日"),
        ("minute", "2026-03-04 23:30", "4. März 2026 23:30", "2026年3月4日 23:30"),
        ("second", "2026-03-04 23:30:00", "4. März 2026 23:30:00", "2026年3月4日 23:30:00"),
    ],
)
def test_each_format_in_three_languages(how: str, plain: str, german: str, japanese: str) -> None:
    for language, shown in (("", plain), ("de", german), ("ja", japanese)):
        read_as(language)
        assert dates.format_date(NIGHT, how) == shown


@pytest.mark.parametrize("how", ["day", "weekday", "whole", "short", "month", "minute", "second"])
def test_every_language_has_every_format(how: str) -> None:
    for language in dates.LANGUAGES:
        read_as(language)
        assert "4" in dates.format_date(NIGHT, how) or how == "month", language
        assert dates.format_date(NIGHT, how).strip(", "), language


@pytest.mark.parametrize(
    ("language", "words"),
    [("fr", "mercredi 4 mars 2026"), ("nl", "woensdag 4 maart 2026"), ("tr", "04 Mart 2026 Çarşamba")],
)
def test_weekday_is_placed_as_in_the_language(language: str, words: str) -> None:
    read_as(language)
    assert dates.format_date(date(2026, 3, 4), "whole").lower() == words.lower()


def test_text_in_another_language_is_marked() -> None:
    read_as("de", "Europe/Helsinki")
    assert '<span lang="de">5. März 2026</span>' in when(NIGHT)
    assert '<span lang="de">5. März 2026</span> · ' in moment(NIGHT)
    read_as("en-gb")
    assert "lang=" not in when(NIGHT)
    read_as()
    assert when(NIGHT, "minute") == (
        '<time datetime="2026-03-04T23:30:00Z" title="2026-03-04 23:30:00 UTC">2026-03-04 23:30</time>'
    )


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("UTC", date(2026, 3, 4)),
        ("Europe/Helsinki", date(2026, 3, 5)),
        ("America/New_York", date(2026, 3, 4)),
        ("Asia/Kolkata", date(2026, 3, 5)),
        ("Asia/Kathmandu", date(2026, 3, 5)),
    ],
)
def test_memories_are_counted_on_the_readers_day(remember: Any, zone: str, day: date) -> None:
    remember("late", created_at=NIGHT, type="decision")
    read_as(zone=zone)
    assert counts.count_memories_by_day(Memory.objects.all()) == [(day, "decision", 1)]


def test_time_zones_with_quarter_hours_are_distinguished(remember: Any) -> None:
    for minute in (14, 15):  # midnight in Kathmandu is 18:15 UTC
        remember(f"at {minute}", created_at=datetime(2026, 3, 4, 18, minute, tzinfo=UTC))
    read_as(zone="Asia/Kathmandu")
    found = calendar.count_by_day(Memory.objects.all(), "created_at", "type")
    assert [(day, count) for day, _, count in found] == [(date(2026, 3, 4), 1), (date(2026, 3, 5), 1)]


def test_bar_links_to_the_memories_it_counts(reader: Client, remember: Any) -> None:
    now = timezone.now().replace(hour=23, minute=30)
    remember("late zebra", created_at=now)
    page = reader.get("/").content.decode()
    href = re.search(r'href="(/memories/\?since=[^"]+)"', page)
    assert href
    assert "late zebra" in reader.get(href[1].replace("&amp;", "&")).content.decode()


def test_charts_use_the_readers_language() -> None:
    read_as("de")
    chart = charts.over_time([(date(2026, 3, 4), "change", 1)])
    assert chart
    assert "4. März 2026" in {bar.label for bar in chart.bars}


@pytest.mark.parametrize(
    "path", ["/timeline/entries/", "/timeline/?month=2026-03", "/sessions/night/", "/reports/sessions/night/"]
)
def test_pages_show_days_in_the_readers_zone_and_language(reader: Client, remember: Any, path: str) -> None:
    remember("late", created_at=NIGHT, session_id="night")
    session = Session.objects.get()
    Event.objects.create(session=session, at=NIGHT, event="tool:post", tool_name="Read")
    page = reader.get(path).content.decode()
    assert "5. März" in page
    assert "Donnerstag, 5. März" in page or "Do, 5. März" in page
    assert "March" not in page
    assert "01:30" in page or path.startswith("/timeline/?")


def test_journal_shows_days_in_the_readers_zone_and_language(reader: Client, remember: Any) -> None:
    remember("now")
    page = reader.get("/journal/").content.decode()
    now = timezone.localtime(timezone=timezone.get_default_timezone())
    assert f"{now.year}-{now:%m}" not in re.sub(r'datetime="[^"]*"', "", page).partition("<tbody>")[2]


def shown_by(client: Client, zone: str) -> str:
    """Return the zone shown in the memory list for a browser with this zone."""
    client.cookies["zone"] = zone
    found = re.search(r'title="[\d-]+ [\d:]+ ([^"]+)"', client.get("/memories/").content.decode())
    assert found
    return found[1]


def test_browser_zone_applies_without_a_chosen_one(sign_in: Any, remember: Any) -> None:
    remember("words")
    assert shown_by(sign_in("view_private"), "Asia/Tokyo") == "JST"


def test_chosen_zone_overrides_the_browser(sign_in: Any, remember: Any) -> None:
    remember("words")
    client = sign_in("view_private")
    people.save_preferences(User.objects.get(), language="", time_zone="Africa/Nairobi", theme="")
    assert shown_by(client, "Asia/Tokyo") == "EAT"


@pytest.mark.parametrize(
    "expected", ["Nowhere/At_all", "Asia/../../etc/passwd", "Asia/Nowhere", "Asia", "Asia/" + "x" * 900]
)
def test_server_zone_applies_without_a_browser_zone(sign_in: Any, remember: Any, expected: str) -> None:
    remember("words")
    assert shown_by(sign_in("view_private"), expected) == "UTC"


RELATIVE = re.compile(r"\d+\s(?:second|minute|hour|day|week|month|year)s? ago|just now|in a moment")
TIME = re.compile(r"<time ([^>]*)>([^<]*)</time>")
EXACT = re.compile(r'title="\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"')
WITH_RELATIVE = ["/", "/memories/", "/search/?q=zebra&min_score=0", "/trash/", "/memories/ONE/", "/sessions/"]
WITH_RELATIVE += ["/sessions/night/", "/reports/sessions/night/?project=zoo", "/injections/"]
OTHERS = ["/facts/", "/facts/graph/", "/facts/contradictions/", "/duplicates/", "/timeline/", "/journal/"]
OTHERS += ["/timeline/entries/", "/connect/", "/transfer/", "/glance/", "/memories/ONE/history/"]
OTHERS += ["/maintenance/", "/maintenance/runs/", "/preview/", "/you/"]


@pytest.fixture
def things(remember: Any, actor: Any) -> Memory:
    """Rows of every kind."""
    made: Memory = remember("zebra one", session_id="night", project="zoo", ttl_days=2)
    memories.update_memory(made.uid, MemoryPatch(title="Zebra"), actor)
    session = Session.objects.get()
    Event.objects.create(session=session, event="tool:post", memory=made)
    Injection.objects.create(
        session=session, project="zoo", prompt_preview="zebra?", token_budget=9, took_ms=1
    )
    services.create_fact(FactDraft(subject="zebra", predicate="eats", object="oats"), actor)
    memories.trash_memories([remember("zebra two").uid], actor)
    return made


def test_relative_times_have_exact_ones_in_the_title(sign_in: Any, things: Memory) -> None:
    client = sign_in("view_maintenancerun", "add_maintenancerun")
    without, lacking = [], []
    for path in WITH_RELATIVE + OTHERS:
        response = client.get(path.replace("ONE", things.uid))
        assert response.status_code == 200, path
        page = response.content.decode()
        shown = [(how, text) for how, text in TIME.findall(page) if RELATIVE.search(text)]
        without += [(path, text) for how, text in shown if not EXACT.search(how)]
        without += [(path, text) for text in RELATIVE.findall(TIME.sub("", page))]
        if path in WITH_RELATIVE and not shown:
            lacking.append(path)
    assert without == []
    assert lacking == [], "nothing was looked at there"
