"""The timeline by day: a month of one project or of all, with quiet days folded."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.access.policy import Clearance
from memoryhub.models import Event, Memory, Session
from memoryhub.stats import usage
from memoryhub.web.sessions.timeline import fold_days, make_strip
from tests.cases import each
from tests.web.markup import list_title, main

Remember = Callable[..., Memory]
NOON = datetime(2024, 3, 10, 12, tzinfo=UTC)
ALL = Clearance.up_to("secret", owner="ada")


def page_text(client: Client, **query: str) -> str:
    response = client.get("/timeline/", query)
    assert response.status_code == 200
    return " ".join(main(response).words.partition("Show")[2].split())


class TestMonth:
    @pytest.fixture(autouse=True)
    def world(self, remember: Remember) -> None:
        def note(text: str, kind: str, at: datetime, **fields: Any) -> None:
            remember(text, type=kind, created_at=at, **{"project": "zoo", **fields})

        note("plain change", "change", NOON, importance=0.9)
        note("repaired fence", "bugfix", NOON + timedelta(hours=1))
        note("feed at six", "decision", NOON - timedelta(hours=1), importance=0.1, session_id="s")
        note("so far", "checkpoint", NOON + timedelta(hours=2), importance=1.0)
        note("later that month", "feature", NOON + timedelta(days=5))
        note("by the sea", "decision", NOON, project="sea")
        note("long ago", "discovery", datetime(2023, 1, 5, tzinfo=UTC))
        note("much later", "change", datetime(2025, 6, 5, tzinfo=UTC))
        session = Session.objects.get(session_id="s")
        for n in range(3):
            Event.objects.create(session=session, event="tool:post", at=NOON + timedelta(minutes=n))

    def test_decisions_and_fixes_come_first(self, visitor: Client) -> None:
        words = page_text(visitor, project="zoo", month="2024-03")
        places = [words.index(text) for text in ("feed at six", "repaired fence", "plain change", "so far")]
        assert places == sorted(places)

    def test_a_day_counts_types_events_and_sessions(self, visitor: Client) -> None:
        words = page_text(visitor, project="zoo", month="2024-03")
        for said in ("bugfix 1", "change 1", "3 events", "1 session", "5 memories, 1 session, 3 events"):
            assert said in words

    def test_session_of_a_day_has_the_title_of_its_visible_summary(
        self, visitor: Client, remember: Remember
    ) -> None:
        session = Session.objects.get(session_id="s")
        for level, title in (("public", "Feeding times"), ("private", "Hidden times")):
            summary = remember(title, title=title, session_id="s", project="zoo", sensitivity=level)
            Session.objects.filter(pk=session.pk).update(summary=summary)
            words = page_text(visitor, project="zoo", month="2024-03")
            assert ("Feeding times" in words) == (level == "public")
            assert "Hidden times" not in words

    def test_quiet_days_are_one_line(self, visitor: Client) -> None:
        words = page_text(visitor, project="zoo", month="2024-03")
        assert re.findall(r"[\d-]+ to [\d-]+: no activity", words) == [
            "2024-03-16 to 2024-03-31: no activity",
            "2024-03-11 to 2024-03-14: no activity",
            "2024-03-01 to 2024-03-09: no activity",
        ]

    def test_without_a_project_every_row_names_its_project(self, visitor: Client) -> None:
        words = page_text(visitor, month="2024-03")
        assert "by the sea" in words
        assert "feed at six zoo" in words
        assert "by the sea" not in page_text(visitor, project="zoo", month="2024-03")

    def test_without_a_month_the_newest_one_with_entries_is_shown(self, visitor: Client) -> None:
        assert "2025-06" in page_text(visitor)
        assert "2024-03" in page_text(visitor, project="sea")

    def test_months_link_to_the_nearest_month_with_entries(self, visitor: Client) -> None:
        html = visitor.get("/timeline/", {"project": "zoo", "month": "2024-03"}).content.decode()
        links = re.findall(r'rel="(prev|next)" href="([^"]+)"', html)
        assert [(rel, re.findall(r"month=([\d-]+)", href)) for rel, href in links] == [
            ("prev", ["2023-01"]),
            ("next", ["2025-06"]),
        ]

    def test_a_month_without_entries_shows_an_empty_state(self, visitor: Client) -> None:
        assert "No activity in this month" in page_text(visitor, month="2024-02")

    @each("month", ["yesterday", "2024-13", "2024-03-10", "0001-01", "9999-12"])
    def test_a_wrong_month_is_shown_at_its_field(self, visitor: Client, month: str) -> None:
        response = visitor.get("/timeline/", {"month": month})
        assert response.status_code == 422
        assert "month" in response.context["form"].errors

    def test_a_day_is_one_of_the_hubs_time_zone(self, visitor: Client, settings: Any) -> None:
        settings.TIME_ZONE = "Pacific/Auckland"
        assert "2024-03-11" in page_text(visitor, project="sea")

    def test_a_day_links_to_all_its_entries(self, visitor: Client) -> None:
        [link] = [one for one in main(visitor.get("/timeline/?project=sea")).links() if "since=" in one][:1]
        assert "by the sea" in main(visitor.get(link)).words
        assert "feed at six" not in main(visitor.get(link)).words

    def test_only_a_few_are_named_and_a_link_shows_all(self, visitor: Client, remember: Remember) -> None:
        for n in range(10):
            remember(f"note {n}", project="full", created_at=NOON)
        words = page_text(visitor, project="full")
        assert len(re.findall(r"note \d", words)) == usage.MAX_NAMED_MEMORIES
        assert "All 10 memories" in words

    def test_the_number_of_queries_does_not_grow(self, visitor: Client, remember: Remember) -> None:
        counts = []
        for rows in (1, 25):
            for n in range(rows):
                at = datetime(2022, 5, 1 + n, tzinfo=UTC)
                remember(f"n {rows} {n}", project=f"p{n}", session_id=f"s{n}", created_at=at)
            with CaptureQueriesContext(connection) as queries:
                visitor.get("/timeline/", {"month": "2022-05"})
            counts.append(len(queries))
        assert counts[0] == counts[1]


class TestVisibility:
    def test_each_user_sees_visible_rows_only(self, sign_in: Any, four_levels: dict[str, Memory]) -> None:
        visitor = sign_in("view_private", "view_secret")
        insider = sign_in("view_private", "view_secret", on=["private", "secret"], name="bob")
        for client, levels in ((visitor, {"public"}), (insider, {"public", "private", "secret"})):
            words = page_text(client, project="zoo")
            assert {level for level, memory in four_levels.items() if list_title(memory) in words} == levels
            assert f"change {len(levels)}" in words

    @each("level", ["private", "secret", "cosmic"])
    def test_hidden_things_open_no_month(self, visitor: Client, remember: Remember, level: str) -> None:
        remember("shown", project="p", created_at=NOON)
        for at in (datetime(2020, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)):
            hidden = remember(f"hidden {at}", project="p", session_id="h", created_at=at)
            Memory.objects.filter(pk=hidden.pk).update(sensitivity=level)
            Event.objects.create(
                session=Session.objects.get(session_id="h"), event="tool:post", at=at, sensitivity=level
            )
        response = visitor.get("/timeline/", {"project": "p"})
        assert "2024-03" in main(response).words
        assert 'rel="prev"' not in response.content.decode()
        assert 'rel="next"' not in response.content.decode()


@pytest.mark.django_db
class TestDays:
    def test_the_days_when_clocks_change_have_their_own_ends(self, remember: Remember, settings: Any) -> None:
        settings.TIME_ZONE = "Europe/Berlin"
        remember("summer begins", created_at=datetime(2024, 3, 31, 21, 59, tzinfo=UTC))
        remember("winter begins", created_at=datetime(2024, 10, 27, 22, 59, tzinfo=UTC))
        [spring] = [day for day in usage.load_month(ALL, "", date(2024, 3, 1)) if not day.is_quiet]
        [autumn] = [day for day in usage.load_month(ALL, "", date(2024, 10, 1)) if not day.is_quiet]
        assert (spring.date, autumn.date) == (date(2024, 3, 31), date(2024, 10, 27))

    def test_an_empty_store_has_this_month(self) -> None:
        assert usage.find_latest_month(ALL, "").day == 1
        assert usage.find_adjacent_months(ALL, "", date(2024, 3, 1)) == (None, None)


_types = st.dictionaries(st.sampled_from(["change", "bugfix", "decision"]), st.integers(1, 50))


class TestStrips:
    @given(st.lists(_types, min_size=1, max_size=31), st.integers(1, 31))
    def test_every_day_up_to_today_is_shown_once(self, types: list[dict[str, int]], today: int) -> None:
        month = [usage.CalendarDay(date(2024, 1, n + 1), kinds) for n, kinds in enumerate(types)][::-1]
        shown = fold_days(month, date(2024, 1, today))
        covered = [one.first + timedelta(days=n) for one in shown for n in range(one.quiet or 1)]
        expected = [day.date for day in month if not day.is_quiet or day.date.day <= today]
        assert sorted(covered) == sorted(expected)
        assert not any(not one.day and not two.day for one, two in pairwise(shown)) or (len(types) > today)

    @pytest.mark.slow
    @given(_types)
    def test_parts_are_side_by_side_within_the_strip(self, types: dict[str, int]) -> None:
        parts = make_strip(types, max(sum(types.values()), 1))
        x = 0.0
        for part in parts:
            assert part.x == pytest.approx(x, abs=0.1)
            x = part.x + part.width
        assert x <= 100.1
