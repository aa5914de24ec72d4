"""Dates on pages: language, time zone, and the exact time of every relative one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
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
from memoryhub.web.base import charts
from memoryhub.web.templatetags.hub import when
from tests.cases import created_by_day, each

TEMPLATES = Path(settings.BASE_DIR) / "templates"
# Formats that are the same in every language: ISO, clock times, numbers, names of zones.
NEUTRAL = {"c", "Y-m-d", "Y-m-d H:i", "Y-m-d H:i:s T", "Y-m", "j", "H:i", "H:i:s", ":s", "T"}
NIGHT = datetime(2026, 3, 4, 23, 30, tzinfo=UTC)  # 5 March in Helsinki, 4 March in New York


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    timezone.deactivate()


def read_as(zone: str) -> None:
    dates.activate(Profile(time_zone=zone))


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
    ("how", "text"),
    [
        ("day", "2026-03-05"),
        ("whole", "2026-03-05"),
        ("month", "2026-03"),
        ("minute", "2026-03-05 01:30"),
        ("second", "2026-03-05 01:30:00"),
        ("clock", "01:30"),
        ("dated", "2026-03-05 01:30"),
    ],
)
def test_server_writes_iso_format_in_the_readers_zone(how: str, text: str) -> None:
    read_as("Europe/Helsinki")
    title = 'title="2026-03-05 01:30:00 EET"'
    assert when(NIGHT, how) == (
        f'<time datetime="2026-03-04T23:30:00Z" {title} data-format="{how}">{text}</time>'
    )


def test_date_without_time_is_the_same_in_every_zone() -> None:
    read_as("America/New_York")
    assert when(date(2026, 3, 4), "month") == '<time datetime="2026-03-04" data-format="month">2026-03</time>'


@each(
    "zone, day",
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
    read_as(zone)
    assert created_by_day(Memory.objects.all()) == [(day, "decision", 1)]


def test_time_zones_with_quarter_hours_are_distinguished(remember: Any) -> None:
    for minute in (14, 15):  # midnight in Kathmandu is 18:15 UTC
        remember(f"at {minute}", created_at=datetime(2026, 3, 4, 18, minute, tzinfo=UTC))
    read_as("Asia/Kathmandu")
    found = created_by_day(Memory.objects.all())
    assert [(day, count) for day, _, count in found] == [(date(2026, 3, 4), 1), (date(2026, 3, 5), 1)]


def test_bar_links_to_the_memories_it_counts(reader: Client, remember: Any) -> None:
    now = timezone.now().replace(hour=23, minute=30) - timedelta(days=1)
    remember("late zebra", created_at=now)
    page = reader.get("/").content.decode()
    href = re.search(r'href="(/memories/\?[^"]*since=[^"]+)"', page)
    assert href
    assert "late zebra" in reader.get(href[1].replace("&amp;", "&")).content.decode()


def test_pages_name_the_chosen_language_and_zone_for_the_script(reader: Client) -> None:
    assert 'data-language="de" data-zone="Europe/Helsinki"' in reader.get("/").content.decode()


@pytest.mark.parametrize(
    ("first", "last", "label"),
    [
        (date(2026, 3, 4), date(2026, 3, 4), "2026-03-04"),
        (date(2026, 1, 5), date(2026, 5, 4), "week of 2026-01-05"),
        (date(2024, 1, 5), date(2026, 5, 4), "2024-01"),
        (date(2010, 1, 5), date(2026, 5, 4), "2010"),
    ],
)
def test_bars_are_labelled_in_iso_format(first: date, last: date, label: str) -> None:
    chart = charts.over_time([(first, "change", 1), (last, "change", 1)])
    assert chart
    assert chart.bars[0].label == label


@each(
    "path", ["/timeline/entries/", "/timeline/?month=2026-03", "/sessions/night/", "/reports/sessions/night/"]
)
def test_pages_show_days_in_the_readers_zone(reader: Client, remember: Any, path: str) -> None:
    remember("late", created_at=NIGHT, session_id="night")
    session = Session.objects.get()
    Event.objects.create(session=session, at=NIGHT, event="tool:post", tool_name="Read")
    page = reader.get(path).content.decode()
    assert ">2026-03-05</time>" in page
    assert "01:30" in page or path.startswith("/timeline/?")


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


@each("expected", ["Nowhere/At_all", "Asia/../../etc/passwd", "Asia/Nowhere", "Asia", "Asia/" + "x" * 900])
def test_server_zone_applies_without_a_browser_zone(sign_in: Any, remember: Any, expected: str) -> None:
    remember("words")
    assert shown_by(sign_in("view_private"), expected) == "UTC"


RELATIVE = re.compile(r'data-format="(?:ago|dated)"')
TIME = re.compile(r"<time ([^>]*)>([^<]*)</time>")
EXACT = re.compile(r'title="\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"')
WITH_RELATIVE = [
    "/",
    "/memories/",
    "/memories/?q=zebra&min_score=0",
    "/trash/",
    "/memories/ONE/",
    "/sessions/",
]
WITH_RELATIVE += ["/sessions/night/", "/reports/sessions/night/?project=zoo", "/injections/"]
OTHERS = ["/facts/", "/facts/graph/", "/facts/contradictions/", "/duplicates/", "/timeline/", "/journal/"]
OTHERS += [
    "/timeline/entries/",
    "/connect/codex/snippet/",
    "/transfer/",
    "/glance/",
    "/memories/ONE/history/",
]
OTHERS += ["/memories/ONE/history/", "/maintenance/", "/maintenance/runs/", "/preview/", "/you/"]


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


@pytest.mark.slow
def test_relative_times_have_exact_ones_in_the_title(sign_in: Any, things: Memory) -> None:
    client = sign_in("view_maintenancerun", "add_maintenancerun")
    without, lacking = [], []
    for path in WITH_RELATIVE + OTHERS:
        response = client.get(path.replace("ONE", things.uid))
        assert response.status_code == 200, path
        shown = [how for how, _ in TIME.findall(response.content.decode()) if RELATIVE.search(how)]
        without += [path for how in shown if not EXACT.search(how)]
        if path in WITH_RELATIVE and not shown:
            lacking.append(path)
    assert without == []
    assert lacking == [], "nothing was looked at there"
