"""Every object has an address: facts, journal rows, injections, entries of a session, tokens."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryhub import memories
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Event, Fact, Injection, JournalEntry, Session
from memoryhub.stats.timeline import TimelineEntry
from memoryhub.web.sessions import views
from tests.cases import each


@pytest.fixture
def fact(actor: Any) -> Fact:
    made, _ = services.create_fact(FactDraft(subject="zebra", predicate="eats", object="oats"), actor)
    return made


@pytest.fixture
def night(remember: Any) -> Session:
    """Two hundred events in one night, two at each moment."""
    began = timezone.now() - timedelta(hours=8)
    remember("fed the zebra", session_id="night", project="zoo", created_at=began)
    session = Session.objects.get()
    Event.objects.bulk_create(
        Event(
            session=session,
            at=began + timedelta(seconds=number // 2),
            event="tool:post",
            tool_name=f"Tool{number}",
        )
        for number in range(200)
    )
    return session


def anchors(page: str) -> list[str]:
    return re.findall(r'<li class="is-[^"]*"(?: data-key| id)="([^"]+)"', page)


def links(page: str) -> list[str]:
    found = re.findall(r'<a class="timeline-at" href="([^"]+)"', page)
    return [one.replace("&amp;", "&") for one in found]


class TestPagesOfOne:
    def test_the_table_links_to_each_fact_and_the_fact_to_its_objects(
        self, visitor: Client, fact: Fact
    ) -> None:
        assert f'href="/facts/{fact.uid}/"' in visitor.get("/facts/").content.decode()
        page = visitor.get(f"/facts/{fact.uid}/").content.decode()
        assert '<p class="back"><a href="/facts/" data-back>' in page
        assert "zebra" in page
        assert "/facts/?subject=zebra&amp;predicate=eats&amp;state=all" in page

    def test_the_journal_links_each_row_and_its_neighbours(self, overseer: Client, remember: Any) -> None:
        for number in range(3):
            remember(f"zebra {number}")
        first, middle, last = JournalEntry.objects.order_by("seq").values_list("seq", flat=True)[:3]
        assert f'href="/journal/{middle}/"' in overseer.get("/journal/").content.decode()
        page = overseer.get(f"/journal/{middle}/").content.decode()
        assert "zebra 1" in page
        assert f'href="/journal/{first}/"' in page
        assert f'href="/journal/{last}/"' in page

    def test_the_list_links_to_each_injection(self, visitor: Client, night: Session) -> None:
        made = Injection.objects.create(session=night, project="zoo", prompt_preview="zebra?", took_ms=1)
        assert f'href="/injections/{made.uid}/"' in visitor.get("/injections/").content.decode()
        page = visitor.get(f"/injections/{made.uid}/").content.decode()
        assert "zebra?" in page
        assert f"entry=injection-{made.uid}#injection-{made.uid}" in page

    @each("path", ["/facts/none/", "/journal/0/", "/journal/99999999999999999999/"])
    def test_missing_rows_are_not_found(self, visitor: Client, path: str) -> None:
        assert visitor.get(path).status_code == 404
        assert visitor.get("/injections/none/").status_code == 404

    def test_rows_above_the_clearance_are_not_found(
        self, visitor: Client, sign_in: Any, actor: Any, remember: Any
    ) -> None:
        insider = sign_in("view_private", "view_secret", on=["secret"], name="insider")
        remember("hush", sensitivity="secret")
        hidden, _ = services.create_fact(
            FactDraft(subject="a", predicate="b", object="c", sensitivity="secret"), actor
        )
        made = Injection.objects.create(sensitivity="secret", prompt_preview="hush?", took_ms=1)
        row = JournalEntry.objects.filter(sensitivity="secret").first()
        assert row
        for path in (f"/facts/{hidden.uid}/", f"/injections/{made.uid}/", f"/journal/{row.seq}/"):
            assert visitor.get(path).status_code == 404
            assert insider.get(path).status_code == 200


class TestEntriesOfASession:
    def test_each_has_a_name_of_its_own_on_its_page(self, visitor: Client, night: Session) -> None:
        page = visitor.get("/sessions/night/?project=zoo").content.decode()
        found = anchors(page)
        assert len(found) == len(set(found)) == views.ENTRIES_PER_PAGE

    @pytest.mark.slow
    @pytest.mark.parametrize("order", ["", "&order=newest"])
    def test_address_of_an_entry_opens_its_part_of_the_list(
        self, visitor: Client, night: Session, order: str
    ) -> None:
        cursor, seen = "", set()
        for _ in range(10):
            page = visitor.get(f"/sessions/night/?project=zoo{order}{cursor}").content.decode()
            for name, address in zip(anchors(page), links(page), strict=True):
                assert address.endswith(f"#{name}")
                seen.add(name)
            following = re.search(r'rel="next" href="[^"]*(cursor=[^"&]+)', page)
            if not following:
                break
            cursor = f"&{following[1]}"
        assert len(seen) == 202
        for name in sorted(seen)[::67]:
            page = visitor.get(f"/sessions/night/?project=zoo{order}&entry={name}").content.decode()
            assert name in anchors(page)
            assert "is not here" not in page

    def test_some_earlier_entries_are_above_it(self, visitor: Client, night: Session) -> None:
        event = Event.objects.get(tool_name="Tool150")
        anchor = TimelineEntry(event.at, "event", event).anchor
        page = visitor.get(f"/sessions/night/?project=zoo&entry={anchor}").content.decode()
        assert anchors(page).index(anchor) == 5
        assert "Session timeline</a>" in page

    def test_the_timeline_links_into_the_sessions(self, visitor: Client, night: Session) -> None:
        address = links(visitor.get("/timeline/entries/").content.decode())[0]
        assert address.startswith("/sessions/night/?project=zoo&entry=event-")
        page = visitor.get(address.partition("#")[0]).content.decode()
        assert address.partition("#")[2] in anchors(page)

    @pytest.mark.slow
    def test_an_address_of_a_missing_entry_is_reported(self, visitor: Client, remember: Any) -> None:
        remember("the only entry", session_id="night", project="zoo")
        for name in (
            *("nothing", "event-1-1", "event-x-y", "event--", "event-99999999999999999999-1", "memory-none"),
            *("session-x", "'\"<", "event-\u0661-1", "x" * 3000),
        ):
            response = visitor.get("/sessions/night/", {"project": "zoo", "entry": name})
            assert response.status_code == 200, name
            assert "There is no entry at this address" in response.content.decode(), name

    def test_an_entry_above_the_clearance_has_no_link(
        self, visitor: Client, night: Session, remember: Any
    ) -> None:
        hidden = remember("hush", session_id="night", project="zoo", sensitivity="secret")
        page = visitor.get(f"/sessions/night/?project=zoo&entry=memory-{hidden.uid}").content.decode()
        assert "There is no entry at this address" in page
        assert "hush" not in page

    def test_a_trashed_memory_has_no_link(
        self, visitor: Client, night: Session, remember: Any, actor: Any
    ) -> None:
        gone = remember("gone", session_id="night", project="zoo")
        memories.trash_memories([gone.uid], actor)
        page = visitor.get(f"/sessions/night/?project=zoo&entry=memory-{gone.uid}").content.decode()
        assert "There is no entry at this address" in page
