"""The list of sessions, and one session's timeline."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import resolve, reverse
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance
from memoryhub.models import Event, Memory, Session
from memoryhub.web.sessions import views
from tests.cases import each
from tests.web.markup import Page, main

Remember = Callable[..., Memory]


def session_of(memory: Memory) -> Session:
    return Session.objects.get(session_id=memory.session_id, project=memory.project)


def skip(session: Session, level: str) -> None:
    """Add an event that was not kept."""
    Event.objects.create(session=session, event="tool:post", skip_reason="routine", sensitivity=level)


def summarize(session: Session, remember: Remember, level: str = "public", **fields: str) -> None:
    """Give the session a summary memory of this level."""
    summary = remember(fields.pop("content", "What was done"), sensitivity="public", **fields)
    Memory.objects.filter(pk=summary.pk).update(sensitivity=level)
    Session.objects.filter(pk=session.pk).update(summary=summary)


def page_text(response: Any) -> str:
    """The words of the list, below the picture and the chips."""
    return Page(response.content.decode().partition('class="day"')[2]).words


def row(client: Client, session_id: str) -> list[str]:
    """The cells of one row of the list."""
    html = client.get("/sessions/", {"q": session_id}).content.decode()
    cells = re.findall(r"<t[hd] [^>]*data-label=[^>]*>(.*?)</t[hd]>", html, re.S)
    return [re.sub(r"<[^>]+>", "", cell).strip() for cell in cells]


@pytest.fixture
def busy(remember: Remember) -> Session:
    """A session with three memories, two events, a boundary and an end, each an hour after the other."""
    start = timezone.now() - timedelta(hours=10)
    for n in range(3):
        remember(f"memory {n}", session_id="busy", project="p", created_at=start + timedelta(hours=n))
    session = Session.objects.get(session_id="busy")
    for n, boundary in ((3, False), (4, True), (5, False)):
        Event.objects.create(
            session=session,
            event="tool:post",
            tool_name=f"Tool {n}",
            at=start + timedelta(hours=n),
            boundary=boundary,
            preview=f"output {n}",
        )
    session.ended_at, session.end_reason = start + timedelta(hours=6), "logout"
    session.save()
    return session


class TestList:
    def test_it_counts_visible_memories_only(
        self, sign_in: Any, remember: Remember, four_levels: dict[str, Memory]
    ) -> None:
        for level in ("public", "private", "secret"):
            memory = remember(f"{level} words", sensitivity=level, session_id="mixed", project="p")
            skip(session_of(memory), level)
        odd = remember("odd words", session_id="mixed", project="p")
        Memory.objects.filter(pk=odd.pk).update(sensitivity="cosmic")
        skip(session_of(odd), "cosmic")
        visitor, insider = (
            sign_in(),
            sign_in("view_private", "view_secret", on=["private", "secret"], name="bob"),
        )
        assert row(visitor, "mixed")[4:6] == ["1", "1"]
        assert row(insider, "mixed")[4:6] == ["3", "3"]

    @each("level", ["private", "secret", "cosmic"])
    def test_a_session_of_hidden_things_alone_is_hidden(
        self, visitor: Client, remember: Remember, level: str
    ) -> None:
        memory = remember("words", session_id="hidden-one", project="p")
        Memory.objects.filter(pk=memory.pk).update(sensitivity=level)
        Event.objects.create(session=session_of(memory), event="tool:post", sensitivity=level)
        assert "hidden-one" not in main(visitor.get("/sessions/")).words
        assert visitor.get("/sessions/hidden-one/").status_code == 404

    def test_it_finds_a_part_of_an_id_or_of_a_project(self, visitor: Client, remember: Remember) -> None:
        for sid, project in (("alpha-1", "x"), ("beta-2", "moon-alpha"), ("gamma-3", "x")):
            remember(sid, session_id=sid, project=project)
        words = main(visitor.get("/sessions/", {"q": "ALPHA"})).words
        assert "alpha-1" in words
        assert "beta-2" in words
        assert "gamma-3" not in words

    def test_it_narrows_to_a_project(self, visitor: Client, remember: Remember) -> None:
        remember("a", session_id="alpha-1", project="x")
        remember("b", session_id="beta-2", project="xy")
        assert "beta-2" not in main(visitor.get("/sessions/", {"project": "x"})).words

    def test_each_page_starts_after_the_previous_one(
        self, visitor: Client, remember: Remember, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(views, "PAGE_SIZE", 2)
        for n in range(5):
            remember(f"m{n}", session_id=f"session-{n}", project="p")
        seen: list[str] = []
        address = "/sessions/"
        while address:
            response = visitor.get(address)
            seen += re.findall(r"/sessions/(session-\d)/", " ".join(main(response).links()))
            following = [link for link in main(response).links() if "cursor=" in link]
            address = f"/sessions/{following[-1]}" if following else ""
        assert sorted(seen) == [f"session-{n}" for n in range(5)]

    def test_typing_updates_only_the_results(self, visitor: Client, remember: Remember) -> None:
        remember("a", session_id="alpha-1")
        response = visitor.get("/sessions/", {"q": "alp"}, HTTP_HX_REQUEST="true", HTTP_HX_TARGET="results")
        assert "alpha-1" in response.content.decode()
        assert "<html" not in response.content.decode()

    def test_the_number_of_queries_does_not_grow(self, visitor: Client, remember: Remember) -> None:
        counts = []
        for n in range(2):
            for m in range(1 + 12 * n):
                remember(f"m{n}{m}", session_id=f"s-{n}-{m}", project=f"p{m}")
            with CaptureQueriesContext(connection) as queries:
                visitor.get("/sessions/")
            counts.append(len(queries))
        assert counts[0] == counts[1]

    def test_an_empty_list_says_what_a_session_is(self, visitor: Client) -> None:
        empty = main(visitor.get("/sessions/")).words
        assert "No sessions yet" in empty
        assert "Connect an agent" in empty
        assert "No sessions match" in main(visitor.get("/sessions/?q=zzz")).words

    @each("cursor", ["x", "e30", "W10", "ÿ", "W251bGwsbnVsbCxudWxsXQ"])
    def test_an_invalid_cursor_is_refused(self, visitor: Client, cursor: str) -> None:
        assert visitor.get("/sessions/", {"cursor": cursor}).status_code == 400

    @pytest.mark.parametrize("field", ["q", "project"])
    def test_a_filter_that_cannot_be_used_is_named(self, visitor: Client, field: str) -> None:
        response = visitor.get("/sessions/", {field: "x" * 1001})
        assert response.status_code == 422
        assert field in response.context["form"].errors


class TestAddresses:
    IDS = [
        "plain",
        "a/b",
        "/a/",
        "..",
        ".",
        "a/../b",
        "~..",
        "~~.",
        "a?b#c",
        "a b",
        "ü/雪",
        "line\nbreak",
        "%2e%2e",
        "a\\b",
    ]

    @pytest.mark.parametrize("session_id", IDS)
    def test_any_id_has_an_address_that_resolves_to_it(self, session_id: str) -> None:
        address = reverse("session", args=[session_id])
        assert not re.search(r"/\.{1,2}(/|$)", address), "a browser would resolve it away"
        from urllib.parse import unquote

        assert resolve(unquote(address)).kwargs == {"session_id": session_id}

    @pytest.mark.slow
    def test_the_list_links_to_each_page(self, visitor: Client, remember: Remember) -> None:
        for number, session_id in enumerate(self.IDS):
            remember(f"words of session {number}.", session_id=session_id, project="p/q")
        links = [link for link in main(visitor.get("/sessions/")).links() if "project=" in link]
        assert len(links) == len(self.IDS)
        shown = "".join(main(visitor.get(link)).words for link in links)
        for number, session_id in enumerate(self.IDS):
            assert f"words of session {number}." in shown, session_id


class TestTimeline:
    def order(self, client: Client, **query: str) -> list[str]:
        words = page_text(client.get("/sessions/busy/", query))
        return re.findall(r"memory \d|Tool \d|Session began|Session ended", words)

    def test_entries_start_at_the_beginning(self, visitor: Client, busy: Session) -> None:
        assert self.order(visitor) == [
            *(
                "Session began",
                "memory 0",
                "memory 1",
                "memory 2",
                "Tool 3",
                "Tool 4",
                "Tool 5",
                "Session ended",
            )
        ]

    def test_the_order_can_be_reversed(self, visitor: Client, busy: Session) -> None:
        assert self.order(visitor, order="newest") == self.order(visitor)[::-1]

    @each(
        "kind, seen",
        [
            ("memory", ["memory 0", "memory 1", "memory 2"]),
            ("event", ["Tool 3", "Tool 4", "Tool 5"]),
            ("boundary", ["Tool 4"]),
        ],
    )
    def test_it_can_show_one_kind(self, visitor: Client, busy: Session, kind: str, seen: list[str]) -> None:
        assert self.order(visitor, kind=kind) == seen

    @pytest.mark.slow
    @pytest.mark.parametrize("order", ["", "newest"])
    def test_long_sessions_come_in_pages(
        self, visitor: Client, busy: Session, monkeypatch: pytest.MonkeyPatch, order: str
    ) -> None:
        whole = self.order(visitor, order=order)
        monkeypatch.setattr(views, "ENTRIES_PER_PAGE", 3)
        seen: list[str] = []
        address = f"/sessions/busy/?order={order}"
        while address:
            response = visitor.get(address)
            seen += re.findall(r"memory \d|Tool \d|Session began|Session ended", page_text(response))
            following = [link for link in main(response).links() if "cursor=" in link]
            address = f"/sessions/busy/{following[-1]}" if following else ""
        assert seen == whole

    def test_hidden_events_and_memories_stay_out(
        self, sign_in: Any, busy: Session, remember: Remember
    ) -> None:
        for level in ("private", "secret", "cosmic"):
            Event.objects.create(
                session=busy,
                event="tool:post",
                tool_name=f"Tool of {level}",
                preview=f"{level} output",
                sensitivity=level,
            )
            memory = remember(f"memory of {level}", session_id="busy", project="p")
            Memory.objects.filter(pk=memory.pk).update(sensitivity=level)
        visitor = sign_in("view_private", "view_secret")
        words = main(visitor.get("/sessions/busy/")).words
        for level in ("private", "secret", "cosmic"):
            assert f"of {level}" not in words
            assert f"{level} output" not in words
        assert "3 memories" in words
        assert "3 events" in words

    def test_a_visible_summary_is_at_the_top(self, sign_in: Any, busy: Session, remember: Remember) -> None:
        busy.summary = remember("what it came to", sensitivity="private")
        busy.save()
        assert "what it came to" not in main(sign_in().get("/sessions/busy/")).words
        insider = sign_in("view_private", on=["private"], name="bob")
        assert "what it came to" in main(insider.get("/sessions/busy/")).words

    def test_the_same_id_in_two_projects_is_a_choice(self, visitor: Client, remember: Remember) -> None:
        for project in ("moon", "sun"):
            remember(f"about the {project}", session_id="same", project=project)
        page = main(visitor.get("/sessions/same/"))
        assert "/sessions/same/?project=moon" in page.links()
        words = main(visitor.get("/sessions/same/", {"project": "moon"})).words
        assert "about the moon" in words
        assert "about the sun" not in words

    def test_a_session_without_a_project_keeps_to_itself(self, visitor: Client, remember: Remember) -> None:
        remember("of no project", session_id="same")
        remember("of the sun", session_id="same", project="sun")
        words = main(visitor.get("/sessions/same/", {"project": ""})).words
        assert "of no project" in words
        assert "of the sun" not in words

    def test_a_hidden_namesake_is_no_choice(self, visitor: Client, remember: Remember) -> None:
        remember("open", session_id="same", project="moon")
        remember("closed", session_id="same", project="sunflower", sensitivity="secret")
        assert "sunflower" not in visitor.get("/sessions/same/").content.decode().partition("<main")[2]

    def test_someone_elses_personal_memory_stays_out(
        self, visitor: Client, busy: Session, remember: Remember
    ) -> None:
        bob = Actor("user:bob", Clearance.up_to("public", "bob"))
        remember("bob's own", session_id="busy", project="p", scope="personal", by=bob)
        assert "bob's own" not in main(visitor.get("/sessions/busy/")).words

    @each("query", [{"kind": "x"}, {"order": "x"}, {"cursor": "x"}])
    def test_an_invalid_address_is_refused(
        self, visitor: Client, busy: Session, query: dict[str, str]
    ) -> None:
        assert visitor.get("/sessions/busy/", query).status_code == 400

    def test_the_number_of_queries_does_not_grow(
        self, visitor: Client, busy: Session, remember: Remember
    ) -> None:
        def queries() -> int:
            with CaptureQueriesContext(connection) as captured:
                visitor.get("/sessions/busy/")
            return len(captured)

        before = queries()
        for n in range(20):
            memory = remember(f"more {n}", session_id="busy", project="p", tags=["t"], files_read=["f"])
            Event.objects.create(session=busy, event="tool:post", memory=memory)
        assert queries() == before


@each("level", ["public", "private", "secret", "unknown"])
def test_only_a_visible_prompt_makes_its_session_match(visitor: Client, busy: Session, level: str) -> None:
    Event.objects.create(
        session=busy, event="prompt:submit", preview="Repair the zeppelin", sensitivity=level
    )
    found = "No sessions match" not in main(visitor.get("/sessions/", {"q": "ZEPPELIN memory"})).words
    assert found is (level == "public")


@each("query", ["%", "_", "\"' OR NEAR(*", "a\0b", "x " * 5000])
def test_a_hostile_query_does_not_fail(visitor: Client, busy: Session, query: str) -> None:
    assert visitor.get("/sessions/", {"q": query}).status_code in (200, 422)


@each("level", ["public", "private", "secret", "unknown"])
def test_only_a_visible_summary_makes_its_session_match(
    visitor: Client, busy: Session, remember: Remember, level: str
) -> None:
    summarize(busy, remember, level, content="The propeller was replaced")
    found = "No sessions match" not in main(visitor.get("/sessions/", {"q": "propeller"})).words
    assert found is (level == "public")


@each("level", ["public", "private", "secret", "unknown"])
def test_only_a_visible_summary_names_its_session(
    visitor: Client, busy: Session, remember: Remember, level: str
) -> None:
    summarize(busy, remember, level, title="Session: Repair the propeller")
    name = row(visitor, "busy")[0]
    assert name == ("Repair the propeller" if level == "public" else "memory 0")


@each("level", ["private", "secret", "unknown"])
def test_session_without_a_prompt_is_named_by_its_first_visible_memory(
    visitor: Client, remember: Remember, level: str
) -> None:
    hidden = remember("The vault is open", session_id="imported", project="p")
    Memory.objects.filter(pk=hidden.pk).update(sensitivity=level)
    remember("Paint dries in two days", session_id="imported", project="p")
    assert row(visitor, "imported")[0] == "Paint dries in two days"


@each("level", ["public", "private", "secret", "unknown"])
def test_first_visible_prompt_is_shown(visitor: Client, busy: Session, level: str) -> None:
    for words, shown in (("Look at the propeller", level), ("Now paint it", "public")):
        Event.objects.create(session=busy, event="prompt:submit", preview=words, sensitivity=shown)
    words = main(visitor.get("/sessions/")).words
    assert ("Look at the propeller" in words) is (level == "public")
    assert ("Now paint it" in words) is (level != "public")


@each("title, is_shown", [("Look at the propeller", False), ("Look at…", False), ("Paint", True)])
def test_prompt_is_not_shown_below_a_title_that_repeats_it(
    visitor: Client, busy: Session, remember: Remember, title: str, is_shown: bool
) -> None:
    Event.objects.create(session=busy, event="prompt:submit", preview="Look at  the propeller")
    summarize(busy, remember, title=f"Session: {title}")
    page = visitor.get("/sessions/").content.decode()
    assert title in page
    assert ('class="first-prompt"' in page) is is_shown


def test_duration_of_a_session_is_the_time_between_its_visible_rows(visitor: Client, busy: Session) -> None:
    assert row(visitor, "busy")[3] == "6 h"


def test_every_word_must_occur(visitor: Client, busy: Session) -> None:
    assert "No sessions match" in main(visitor.get("/sessions/", {"q": "busy zeppelin"})).words
