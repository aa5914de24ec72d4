"""Charts of the statistics page: activity by day, and charts shown in full."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.accounts.tokens import actor_label
from memoryhub.injection.requests import InjectionRequest
from memoryhub.injection.services import inject_context as inject_for
from memoryhub.memories.schemas import MemoryDraft
from tests.cases import each
from tests.web.stats_page import (
    count_listed,
    create_event,
    create_injection,
    section_text,
    table_row,
    text_of,
)

pytestmark = pytest.mark.django_db


class TestDays:
    def test_captured_events_are_shown_with_skipped_ones_by_reason(
        self, visitor: Client, remember: Any
    ) -> None:
        create_event(memory=remember("kept"))
        create_event(reason="below the gate")
        create_event(reason="below the gate")
        create_event(reason="repeats the last")
        create_event()  # no events
        assert "25% of 4 evaluated tool calls" in section_text(visitor, "Stored and skipped")
        assert table_row(visitor, "kept as a memory") == "kept as a memory 1"
        label = "below the memorability threshold"
        assert table_row(visitor, label) == f"{label} 2"

    def test_empty_injections_are_a_series(self, visitor: Client) -> None:
        create_injection()
        create_injection()
        create_injection(shown=0)
        page_text = section_text(visitor, "Injections")
        assert "with memories 2" in page_text
        assert "empty 1" in page_text

    def test_prompt_without_results_counts_as_empty(self, visitor: Client, remember: Any, actor: Any) -> None:
        remember("zebra stripes")
        inject_for(InjectionRequest("thanks, that is fine", session_id="s"), actor)
        page_text = section_text(visitor, "Injections")
        assert "empty 1" in page_text
        assert "with memories" not in page_text

    @pytest.mark.parametrize(("outcome", "count"), [("empty", 1), ("filled", 2)])
    def test_each_number_of_injections_links_to_as_many(
        self, visitor: Client, outcome: str, count: int
    ) -> None:
        create_injection()
        create_injection()
        create_injection(shown=0)
        page = visitor.get("/glance/").content.decode()
        address = re.search(rf'href="(/injections/\?since=[^"]+outcome={outcome})">{count}</a>', page)
        assert address
        found = visitor.get(address[1].replace("&amp;", "&")).content.decode()
        assert found.count('id="injection-') == count

    def test_blocked_secrets_are_counted_by_day_and_kind(self, visitor: Client, actor: Any) -> None:
        with pytest.raises(memories.SecretDetected):
            memories.create_memory(MemoryDraft(content="key AKIA" + "QYLPMN5HHHFPZAM2"), actor)
        page_text = section_text(visitor, "Secrets blocked")
        assert "blocked 1" in page_text
        assert "Kind Blocked" in page_text

    def test_journal_is_counted_by_actor(self, visitor: Client, remember: Any, actor: Any) -> None:
        memories.trash_memories([remember("one").uid], actor)
        label = actor_label(actor.name)
        assert table_row(visitor, label) == f"{label} 1 1 2"

    def test_actor_links_to_their_journal_entries(self, visitor: Client, remember: Any, actor: Any) -> None:
        remember("one")
        page = visitor.get("/glance/").content.decode()
        address = re.search(r'href="(/journal/\?actor=[^"]+)"', page)
        assert address
        listed = text_of(visitor.get(address[1].replace("&amp;", "&")).content.decode())
        assert "tests" in listed
        assert "Stored" in listed

    def test_column_of_blocked_secrets_links_to_their_entries(self, visitor: Client, actor: Any) -> None:
        with pytest.raises(memories.SecretDetected):
            memories.create_memory(MemoryDraft(content="key AKIA" + "QYLPMN5HHHFPZAM2"), actor)
        page = visitor.get("/glance/").content.decode()
        address = re.search(r'href="(/journal/\?operation=secret_blocked[^"]+)"', page)
        assert address
        assert "tests" in text_of(visitor.get(address[1].replace("&amp;", "&")).content.decode())

    def test_activity_before_the_period_is_not_counted(self, visitor: Client) -> None:
        create_injection(days=20)
        assert "with memories 1" in section_text(visitor, "Injections")
        assert "Nothing was put into a prompt" in section_text(visitor, "Injections", "/glance/?days=7")

    def test_chart_includes_days_without_activity(self, visitor: Client) -> None:
        create_injection(days=3)
        page_text = section_text(visitor, "Injections", "/glance/?days=7")
        begin = (timezone.now() - timedelta(days=6)).date()
        assert f"1 from {begin:%Y-%m-%d} on; most, 1," in page_text

    def test_unknown_period_is_refused_and_the_default_shown(self, visitor: Client) -> None:
        response = visitor.get("/glance/?days=8")
        assert response.status_code == 422
        assert "Select one of the choices." in response.content.decode()

    @each("days", ["7", "30", "90", "365", ""])
    def test_every_offered_period_is_accepted(self, visitor: Client, days: str) -> None:
        response = visitor.get(f"/glance/?days={days}")
        assert response.status_code == 200
        assert f'<option value="{days or 30}" selected>' in response.content.decode()

    def test_chart_of_days_has_day_numbers(self, visitor: Client) -> None:
        create_injection()
        page = visitor.get("/glance/?days=7").content.decode()
        drawn = page.split('id="injections-title"')[1].split("</svg>")[0]
        today = timezone.localdate()
        for ago in range(7):
            assert f">{(today - timedelta(days=ago)).day}</text>" in drawn

    @pytest.mark.parametrize("days", [90, 365])  # at most one of them begins on a Monday
    def test_week_links_to_its_rows_within_the_period(self, visitor: Client, days: int) -> None:
        create_injection(days=days - 1)
        create_injection(days=days)
        page = visitor.get(f"/glance/?days={days}").content.decode()
        since = (timezone.localdate() - timedelta(days=days - 1)).isoformat()
        assert re.search(rf'href="/injections/\?since={since}&amp;until=', page)


def _way(markup: str, name: str) -> str:
    """Return the link that shows a chart in full."""
    found = re.search(rf'href="([^"#]*all={name}[^"#]*)#[\w-]+">and', markup)
    return found[1].replace("&amp;", "&") if found else f"no link for {name}"


@pytest.fixture
def many(remember: Any) -> None:
    """Eleven projects, each with a category of its own."""
    for number in range(11):
        remember(f"memory {number}", project=f"project-{number:02}", category=f"category-{number:02}")


@each(
    "page, chart, title",
    [
        ("/", "project", "Projects"),
        ("/glance/", "project", "By project"),
        ("/glance/", "category", "By category"),
    ],
)
def test_omitted_values_are_one_link_away(
    visitor: Client, many: None, page: str, chart: str, title: str
) -> None:
    assert f"{chart}-10" not in section_text(visitor, title, page)
    after = section_text(visitor, f"By {chart}", _way(visitor.get(page).content.decode(), chart))
    assert after.count(f"{chart}-") == 11
    assert "Only the first" in after


def test_chart_of_actors_in_full_keeps_the_period(visitor: Client, remember: Any) -> None:
    for number in range(11):
        remember(f"memory {number}", by=Actor(f"token:agent-{number:02}", Clearance.up_to("public")))
    way = _way(visitor.get("/glance/?days=7").content.decode(), "activity")
    assert "days=7" in way
    assert section_text(visitor, "Changes by author", f"/glance/{way}").count("agent-") == 11


def test_skip_reasons_are_shown_in_full(visitor: Client) -> None:
    for number in range(11):
        create_event(reason=f"reason {number:02}")
    way = _way(visitor.get("/glance/").content.decode(), "capture")
    assert section_text(visitor, "Stored and skipped", f"/glance/{way}").count("reason ") == 11


def test_back_link_keeps_the_filters(visitor: Client, many: None) -> None:
    page = visitor.get("/glance/?days=7&all=project").content.decode()
    back = re.search(r'href="([^"]*)#by-project">Only the first', page)
    assert back
    assert back[1] == "?days=7"


def test_unknown_chart_is_refused(visitor: Client, remember: Any) -> None:
    remember("one")
    response = visitor.get("/glance/?all=bogus")
    assert response.status_code == 422
    assert "Unknown chart" in text_of(response.content.decode())


@pytest.mark.parametrize("page", ["/", "/glance/"])
def test_missing_project_links_to_its_list(visitor: Client, remember: Any, page: str) -> None:
    remember("one")
    remember("two", project="zoo")
    found = re.search(r'href="([^"]+)">no project</a>', visitor.get(page).content.decode())
    assert found
    assert count_listed(visitor, found[1]) == 1


def test_long_names_can_break_and_are_escaped(visitor: Client, remember: Any) -> None:
    create_injection()
    remember("one", by=Actor("token:long_name_<b>token", Clearance.up_to("public")))
    page = visitor.get("/glance/").content.decode()
    assert "long_<wbr>name_" + escape("<b>token") in page
    assert "<b>token" not in page
