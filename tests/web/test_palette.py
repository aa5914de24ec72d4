"""The command palette: matching entries that the user may see."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub import memories as store
from memoryhub.capture.segments import BOUNDARY_PREDICATE
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Memory, Session
from tests.cases import each
from tests.web.markup import PAYLOADS, Page, find_dangers

GATED = ["zebra stripes", "zebra str", "ebra strip", "zoo"]


def offered(client: Client, typed: str = "") -> Page:
    response = client.get("/palette/", {"q": typed})
    assert response.status_code == 200
    return Page(response.content.decode())


def memories(page: Page) -> list[str]:
    return [
        link.split("/")[2] for link in page.links() if link.startswith("/memories/") and link.count("/") == 3
    ]


@pytest.mark.slow
def test_every_page_that_is_offered_opens(sign_in: Any) -> None:
    for client in (
        sign_in(name="bare"),
        sign_in("add_memory", "view_maintenancerun", name="more"),
    ):
        links = offered(client).links()
        assert "/journal/" in links
        assert {link: client.get(link).status_code for link in links} == dict.fromkeys(links, 200)


def test_pages_that_need_a_permission_are_offered_to_who_has_it(sign_in: Any) -> None:
    assert "/memories/new/" not in offered(sign_in(name="bare")).links()
    assert "/memories/new/" in offered(sign_in("add_memory", name="more")).links()


def test_a_page_is_found_by_the_beginnings_of_its_words_and_of_others(visitor: Client) -> None:
    assert offered(visitor, "JOUR").links()[0] == "/journal/"
    assert offered(visitor, "agent conn").links()[0] == "/connect/"


@each("typed", ["feeding", "feed", "FEEDING TIM", "runni", "eeding t", "running"])
def test_a_memory_is_found_by_words_and_parts_of_its_title(
    visitor: Client, remember: Any, typed: str
) -> None:
    made = remember("words", title="Feeding times while running")
    remember("feeding and running are in the content alone", title="Other")
    assert memories(offered(visitor, typed)) == [made.uid]


@each("typed", ['"', "title:", "AND", "a" * 500, "*", "\x00", "C++", "動物", "%", "x) OR (y"])
def test_anything_may_be_typed(visitor: Client, remember: Any, typed: str) -> None:
    remember("words", title="A title")
    offered(visitor, typed)


@pytest.mark.parametrize("typed", GATED)
@pytest.mark.parametrize("levels", [[], ["private"], ["secret"], ["private", "secret"]], ids="-".join)
def test_hidden_memories_are_not_offered_and_not_counted(
    sign_in: Any, four_levels: dict[str, Memory], typed: str, levels: list[str]
) -> None:
    page = offered(sign_in("view_private", "view_secret", on=levels), typed)
    seen = {four_levels[level].uid for level in ("public", *levels)}
    if typed == "zoo":
        assert f"{len(seen)} memor" in page.words
    else:
        assert set(memories(page)) == seen


def test_a_project_of_hidden_memories_alone_is_not_offered(visitor: Client, remember: Any) -> None:
    remember("words", project="vault", sensitivity="private")
    assert not [link for link in offered(visitor, "vault").links() if link.startswith("/memories/?project")]


def test_a_trashed_memory_is_not_offered(visitor: Client, remember: Any, actor: Any) -> None:
    made = remember("words", title="Feeding", project="barn")
    store.trash_memories([made.uid], actor)
    page = offered(visitor, "feeding")
    assert memories(page) == []
    assert "barn" not in offered(visitor, "barn").words.replace("“barn”", "")


def test_titles_cannot_run(insider: Client, remember: Any) -> None:
    for number, payload in enumerate(PAYLOADS):
        remember(f"text {number}", title=f"zebra {payload}", project=payload[:60])
    for typed in ("zebra", "script", "<", "onerror=alert"):
        assert find_dangers(offered(insider, typed).html) == []


def test_a_list_takes_a_fixed_number_of_queries(visitor: Client, remember: Any) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            offered(visitor, "zebra")
        return len(captured)

    remember("words", title="zebra 0", project="zebras 0")
    few = queries()
    for number in range(1, 6):
        remember(f"words {number}", title=f"zebra {number}", project=f"zebras {number}")
    assert queries() == few


def test_it_asks_for_a_login(client: Client, db: None) -> None:
    response = client.get("/palette/")
    assert (response.status_code, response["Location"]) == (302, "/login/?next=/palette/")


def test_commands_are_found_by_their_words(visitor: Client, db: None) -> None:
    assert "Sign out" in offered(visitor, "sign out").words
    assert "Switch between light and dark" in offered(visitor, "theme").words


def test_a_session_is_found_by_a_part_of_its_id(visitor: Client, remember: Any) -> None:
    remember("words", session_id="fresh2-long", project="zoo")
    remember("words unseen", session_id="fresh2-hidden", project="zoo", sensitivity="private")
    links = offered(visitor, "resh2-").links()
    assert "/sessions/fresh2-long/?project=zoo" in links
    assert not any("hidden" in link for link in links)


def test_session_is_found_by_its_title_if_the_summary_is_visible(visitor: Client, remember: Any) -> None:
    for level, words in (("public", "Feed the zebra"), ("private", "Sell the zebra")):
        summary = remember(words, title=words, session_id=f"s-{level}", project="zoo", sensitivity=level)
        Session.objects.filter(session_id=f"s-{level}").update(summary=summary)
    page = offered(visitor, "the zebra")
    assert "/sessions/s-public/?project=zoo" in page.links()
    assert "/sessions/s-private/?project=zoo" not in page.links()
    assert "Feed the zebra" in page.words


def test_a_thing_of_facts_is_found_and_one_that_may_not_be_seen_is_not(
    visitor: Client, actor: Any, db: None
) -> None:
    services.create_fact(FactDraft(subject="Holmen", predicate="lies in", object="Oslo fjord"), actor)
    services.create_fact(
        FactDraft(subject="Holmen two", predicate="lies in", object="x", sensitivity="private"), actor
    )
    assert "Holmen" in offered(visitor, "olme").words
    assert "Holmen two" not in offered(visitor, "olme").words
    assert any(link.startswith("/things/?name=") for link in offered(visitor, "fjord").links())


def test_the_hubs_own_notes_of_subjects_are_no_things(visitor: Client, actor: Any, db: None) -> None:
    draft = FactDraft(subject="session:zebra", predicate=BOUNDARY_PREDICATE, object="zebra stripes")
    services.create_fact(draft, actor)
    assert not any("node=" in link for link in offered(visitor, "zebra").links())
