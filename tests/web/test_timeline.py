"""The timeline over all projects, in both orders."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub.access.policy import Clearance
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models import Event, Memory, Session
from memoryhub.stats import timeline
from memoryhub.web.sessions import timeline as view
from tests.cases import each
from tests.web.markup import list_title, main

Remember = Callable[..., Memory]
NOON = datetime(2024, 3, 10, 12, tzinfo=UTC)


def page_text(client: Client, **query: str) -> str:
    response = client.get("/timeline/entries/", query)
    assert response.status_code == 200
    # The form above it names projects and types, too.
    return main(response).words.partition("Show")[2]


class TestVisibility:
    def test_each_user_sees_visible_rows_only(self, sign_in: Any, four_levels: dict[str, Memory]) -> None:
        visitor = sign_in("view_private", "view_secret")
        insider = sign_in("view_private", "view_secret", on=["private", "secret"], name="bob")
        for client, levels in ((visitor, {"public"}), (insider, {"public", "private", "secret"})):
            words = page_text(client)
            assert {level for level, memory in four_levels.items() if list_title(memory) in words} == levels

    def test_events_obey_their_level(self, visitor: Client, remember: Remember) -> None:
        remember("open", session_id="s", project="p")
        session = Session.objects.get()
        for level in ("public", "private", "secret", "cosmic"):
            Event.objects.create(
                session=session, event="tool:post", tool_name=f"Tool-{level}", sensitivity=level
            )
        assert re.findall(r"Tool-\w+", page_text(visitor)) == ["Tool-public"]

    def test_names_of_hidden_projects_are_not_suggested(self, visitor: Client, remember: Remember) -> None:
        remember("open", project="moonbase")
        remember("closed", project="manhattan", sensitivity="secret")
        remember("gone", project="atlantis", ttl_days=1, created_at=NOON)
        Memory.objects.filter(project="atlantis").update(expires_at=NOON)
        html = visitor.get("/projects/names/").content.decode()
        assert re.findall(r'value="(\w+)"', html) == ["moonbase"]


class TestFilters:
    @pytest.fixture(autouse=True)
    def world(self, remember: Remember) -> None:
        remember("moon note", project="moon", type="decision", session_id="m-1", created_at=NOON)
        remember(
            "sun note", project="sun", type="bugfix", session_id="s-1", created_at=NOON + timedelta(days=1)
        )

    @each(
        "query, seen",
        [
            ({}, {"moon", "sun"}),
            ({"project": "moon"}, {"moon"}),
            ({"type": "bugfix"}, {"sun"}),
            ({"session_id": "m-1"}, {"moon"}),
            ({"since": "2024-03-11"}, {"sun"}),
            ({"until": "2024-03-10"}, {"moon"}),
            ({"since": "2024-03-10", "until": "2024-03-11"}, {"moon", "sun"}),
            ({"project": "moon", "type": "bugfix"}, set()),
        ],
    )
    def test_each_narrows(self, visitor: Client, query: dict[str, str], seen: set[str]) -> None:
        words = page_text(visitor, **query)
        assert {name for name in ("moon", "sun") if f"{name} note" in words} == seen

    @each(
        "field, value",
        [
            ("since", "yesterday"),
            ("until", "2024-13-01"),
            ("since", "0001-01-01"),
            ("until", "9999-12-31"),
            ("type", "x"),
        ],
    )
    def test_a_wrong_one_is_shown_at_its_field(self, visitor: Client, field: str, value: str) -> None:
        response = visitor.get("/timeline/entries/", {field: value})
        assert response.status_code == 422
        assert field in response.context["form"].errors
        assert "The filter is invalid" in main(response).words

    def test_days_are_headings_in_order(self, visitor: Client) -> None:
        days = re.findall(r'data-format="whole">([\d-]+)', visitor.get("/timeline/entries/").content.decode())
        assert days == ["2024-03-11", "2024-03-10"]

    def test_a_day_is_one_of_the_hubs_time_zone(self, visitor: Client, settings: Any) -> None:
        settings.TIME_ZONE = "Pacific/Auckland"
        assert "2024-03-11" in page_text(visitor, project="moon")

    def test_an_invalid_cursor_is_refused(self, visitor: Client) -> None:
        assert visitor.get("/timeline/entries/", {"cursor": "zzz"}).status_code == 400


class TestPages:
    def test_each_page_starts_after_the_previous_one_and_keeps_the_filter(
        self, visitor: Client, remember: Remember, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(view, "ENTRIES_PER_PAGE", 2)
        for n in range(5):
            remember(f"note {n}", project="p", created_at=NOON + timedelta(minutes=n))
            remember(f"other {n}", project="q", created_at=NOON + timedelta(minutes=n))
        seen: list[str] = []
        address = "/timeline/entries/?project=p"
        while address:
            response = visitor.get(address)
            seen += re.findall(r"(?:note|other) \d", main(response).words.partition("Show")[2])
            following = [link for link in main(response).links() if "cursor=" in link]
            address = f"/timeline/entries/{following[-1]}" if following else ""
        assert seen == [f"note {n}" for n in reversed(range(5))]

    def test_the_number_of_queries_does_not_grow(self, visitor: Client, remember: Remember) -> None:
        counts = []
        for n in range(2):
            for m in range(1 + 15 * n):
                memory = remember(f"m{n}{m}", session_id=f"s{n}{m}", project="p", tags=["t"])
                session = Session.objects.get(session_id=memory.session_id)
                Event.objects.create(session=session, event="tool:post", memory=memory)
            with CaptureQueriesContext(connection) as queries:
                visitor.get("/timeline/entries/")
            counts.append(len(queries))
        assert counts[0] == counts[1]

    def test_an_empty_timeline_shows_an_empty_state(self, visitor: Client) -> None:
        assert "No activity yet" in page_text(visitor)
        assert "No matches" in page_text(visitor, project="none")


class TestOrder:
    """The timeline in both directions, with many entries at one moment."""

    CLEARANCE = Clearance.up_to("public")

    @pytest.fixture(autouse=True)
    def crowd(self, remember: Remember) -> Session:
        remember("first", session_id="s", project="p", created_at=NOON)
        session = Session.objects.get()
        Session.objects.filter(pk=session.pk).update(started_at=NOON, ended_at=NOON)
        for n in range(3):
            Event.objects.create(session=session, event="tool:post", at=NOON, boundary=n == 1)
            remember(f"memory {n}", session_id="s", project="p", created_at=NOON)
        Event.objects.create(session=session, event="tool:post", at=NOON - timedelta(hours=1))
        return session

    def walk(self, limit: int, **options: Any) -> list[tuple[str, int]]:
        seen, cursor = [], None
        while True:
            entries, cursor = timeline.load_timeline(
                self.CLEARANCE, MemoryFilter(), limit=limit, cursor=cursor, **options
            )
            seen += [(entry.kind, entry.row.pk) for entry in entries]
            if cursor is None:
                return seen

    @pytest.mark.slow
    @pytest.mark.parametrize("limit", [1, 3, 100])
    def test_oldest_first_is_newest_first_reversed(self, limit: int) -> None:
        newest = self.walk(limit)
        assert len(newest) == len(set(newest)) == 10
        assert self.walk(limit, oldest_first=True) == newest[::-1]

    def test_one_kind_only(self) -> None:
        assert [kind for kind, _ in self.walk(2, kinds=("boundary",))] == ["boundary"]
        assert timeline.count_entries(self.CLEARANCE, MemoryFilter(), kinds=("memory",)) == 4

    def test_one_session_only(self, crowd: Session, remember: Remember) -> None:
        remember("elsewhere", session_id="s", project="q")
        [of] = timeline.sessions_with_counts(self.CLEARANCE).filter(pk=crowd.pk)
        newest = self.walk(3, of=of)
        assert len(newest) == 10
        assert self.walk(3, of=of, oldest_first=True) == newest[::-1]
        assert timeline.count_entries(self.CLEARANCE, MemoryFilter(), of=of) == 10
