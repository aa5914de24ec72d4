"""The report of a session: all visible entries in order.

Also the text that only the printed page of a session shows: that it is a part, and where the report is.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub.models import Event, Memory, Profile, Session
from memoryhub.web.sessions import timeline as timeline_pages
from memoryhub.web.sessions import views
from memoryhub.web.templatetags import pages
from tests.web.markup import PAYLOADS, find_dangers, main

AT = "/reports/sessions/night/?project=zoo"


@pytest.fixture
def night(remember: Any) -> Session:
    """A session of a hundred events, and a memory at its end."""
    begin = timezone.now() - timedelta(hours=5)
    remember("what was learnt", session_id="night", project="zoo", created_at=begin + timedelta(hours=4))
    session = Session.objects.get()
    Event.objects.bulk_create(
        Event(
            session=session,
            event="tool:post",
            tool_name=f"Tool{n}.",
            at=begin + timedelta(minutes=n),
            preview=f"output {n}",
        )
        for n in range(100)
    )
    return session


def test_all_entries_are_on_one_page_oldest_first(visitor: Client, night: Session) -> None:
    words = main(visitor.get(AT)).words
    places = [words.index(f"Tool{n}.") for n in range(100)] + [words.index("what was learnt")]
    assert places == sorted(places)


def test_a_very_long_report_has_several_parts(
    visitor: Client, night: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_pages, "MAX_REPORT_ENTRIES", 60)
    first = main(visitor.get(AT))
    assert "Tool30." in first.words
    assert "Tool90." not in first.words
    [onward] = [link for link in first.links() if "cursor=" in link]
    second = main(visitor.get(f"/reports/sessions/night/{onward}"))
    assert "Tool30." not in second.words
    assert "Tool90." in second.words


@pytest.mark.parametrize(
    ("days", "shown"),
    [((1, 1), "in NDT."), ((170, 170), "in NST."), ((1, 170), "in NDT, later in NST.")],
    ids=["summer", "winter", "both"],
)
def test_it_names_the_time_that_its_zone_had_then(
    visitor: Client, remember: Any, days: tuple[int, int], shown: str
) -> None:
    Profile.objects.update_or_create(
        user_id=visitor.session["_auth_user_id"], defaults={"time_zone": "America/St_Johns"}
    )
    begin = datetime(2024, 7, 14, 12, tzinfo=UTC)
    for number, day in enumerate(days):
        at = begin + timedelta(days=day, minutes=number)
        remember(f"learnt {number}", session_id="night", project="zoo", created_at=at)
    assert f"Oldest first; times {shown}" in main(visitor.get(AT)).words


def test_the_page_of_a_session_links_to_the_report(visitor: Client, remember: Any) -> None:
    remember("words", session_id="a/b?c ..", project="zoo & co")
    links = main(visitor.get("/sessions/a/b%3Fc%20../?project=zoo+%26+co")).links()
    [link] = [link for link in links if link.startswith("/reports/")]
    response = visitor.get(link)
    assert response.status_code == 200
    assert "a/b?c .." in main(response).words


def test_it_shows_visible_entries_only(sign_in: Any, remember: Any, four_levels: dict[str, Memory]) -> None:
    for level, memory in four_levels.items():
        Memory.objects.filter(pk=memory.pk).update(session_id="night")
        shown = "secret" if level == "cosmic" else level
        session, _ = Session.objects.get_or_create(session_id="night", project="zoo")
        Event.objects.create(session=session, event="tool:post", tool_name=f"{level}tool", sensitivity=shown)
    words = main(sign_in("view_private", "view_secret", on=["private"]).get(AT)).words
    assert [level for level in four_levels if f"{level}words" in words] == ["public", "private"]
    assert [level for level in four_levels if f"{level}tool" in words] == ["public", "private"]


@pytest.mark.parametrize("at", ["/reports/sessions/nowhere/", "/reports/sessions/night/?project=other"])
def test_missing_rows_are_not_found(visitor: Client, night: Session, at: str) -> None:
    assert visitor.get(at).status_code == 404


def test_a_session_of_hidden_things_alone_is_not_found(visitor: Client, remember: Any) -> None:
    remember("words", session_id="night", project="zoo", sensitivity="private")
    assert visitor.get(AT).status_code == 404


def test_a_wrong_cursor_is_refused(visitor: Client, night: Session) -> None:
    assert visitor.get(f"{AT}&cursor=nonsense").status_code == 400


def test_stored_texts_cannot_run(visitor: Client, remember: Any) -> None:
    for number, payload in enumerate(PAYLOADS):
        made = remember(f"{payload} {number}", title=payload, session_id="night", project="zoo")
        session = Session.objects.get()
        Event.objects.create(session=session, event="tool:post", tool_name=payload[:40], preview=payload)
    Session.objects.update(summary=made, agent=PAYLOADS[0], cwd=PAYLOADS[1], end_reason=PAYLOADS[2])
    assert find_dangers(visitor.get(AT).content.decode()) == []


def test_it_takes_a_fixed_number_of_queries(visitor: Client, night: Session, remember: Any) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert visitor.get(AT).status_code == 200
        return len(captured)

    few = queries()
    for number in range(5):
        remember(f"more {number}", session_id="night", project="zoo", tags=["t"])
    assert queries() == few


def test_without_a_project_it_is_the_only_one_of_its_name(visitor: Client, night: Session) -> None:
    assert "Tool7." in main(visitor.get("/reports/sessions/night/")).words


def test_without_a_project_several_of_its_name_are_offered(
    visitor: Client, night: Session, remember: Any
) -> None:
    remember("other words", session_id="night", project="zoo & co")
    answer = visitor.get("/reports/sessions/night/")
    assert (answer.status_code, answer["Location"]) == (302, "/sessions/night/")


def test_memories_are_shown_whole(visitor: Client, remember: Any) -> None:
    text = "# Why\n\n" + "A long paragraph that explains. " * 90 + "\n\nThe last word of it."
    remember(text, title="Why", session_id="night", project="zoo")
    page = main(visitor.get(AT))
    assert "The last word of it." in page.words
    assert "…" not in page.words.replace("“…”", "")
    assert page.words.count("Why") == 1


def test_the_omitted_length_of_a_long_text_is_shown(
    visitor: Client, remember: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MAX_TEXT_CHARS", 1000)
    remember("x" * 2234, title="Xs", session_id="night", project="zoo")
    assert "1,234 more characters; the memory's page has the full text" in main(visitor.get(AT)).words


def test_a_secret_is_not_opened_by_a_report(sign_in: Any, remember: Any) -> None:
    made = remember("hidden words", title="a hidden name", session_id="night", project="zoo")
    Memory.objects.filter(pk=made.pk).update(sensitivity="secret")
    words = main(sign_in("view_private", "view_secret", on=["private", "secret"]).get(AT)).words
    assert "Secret memory" in words
    assert "hidden" not in words


def test_the_summary_is_shown_once(visitor: Client, remember: Any) -> None:
    made = remember("All went well in the end.", title="A calm night", session_id="night", project="zoo")
    Session.objects.update(summary=made)
    page = main(visitor.get(AT))
    assert page.words.count("A calm night") == 1
    assert page.words.count("All went well in the end.") == 1
    assert "is at the top of this report" in page.words


def test_each_part_numbers_its_entries_at_its_head_and_its_foot(
    visitor: Client, night: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_pages, "MAX_REPORT_ENTRIES", 60)
    first = main(visitor.get(AT))
    assert first.words.count("Entries 1 to 60 of 102") == 2
    assert "Entry 61 and what happened then are in the next part" in first.words
    [onward] = [link for link in first.links() if "cursor=" in link]
    second = main(visitor.get(f"/reports/sessions/night/{onward}"))
    assert second.words.count("Entries 61 to 102 of 102") == 2
    assert "The report ends here." in second.words


def test_a_report_of_one_part_says_that_it_is_all(visitor: Client, night: Session) -> None:
    assert main(visitor.get(AT)).words.count("All 102 entries") == 2


REPORT = "http://testserver/reports/sessions/night/?project=zoo"


def test_a_part_of_a_session_is_marked_and_links_to_the_whole(
    visitor: Client, remember: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "ENTRIES_PER_PAGE", 2)
    for number in range(3):
        remember(f"words {number}", session_id="night", project="zoo")
    words = main(visitor.get("/sessions/night/")).words
    assert "This is only a part of the session: 2 of its entries, their texts shortened." in words
    assert f"The report contains everything: {REPORT}" in words


def test_a_session_on_one_page_says_where_its_texts_are_whole(visitor: Client, remember: Any) -> None:
    remember("words", session_id="night", project="zoo")
    words = main(visitor.get("/sessions/night/")).words
    assert "a part of the session" not in words
    assert f"The report contains everything: {REPORT}" in words
