"""The tabs of the review queue for what is compared: near-duplicates and contradictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Memory
from tests.web.conftest import SignIn
from tests.web.markup import Page
from tests.web.reviewing import EVE, HTMX, shown

Remember = Callable[..., Memory]
pytestmark = pytest.mark.usefixtures("fresh_cache")


class TestNearDuplicates:
    def test_they_come_as_a_part_of_the_page(
        self, embedding: Any, curator: Client, alike: list[Memory]
    ) -> None:
        page = shown(curator, "/review/alike/", **HTMX)
        assert all(memory.uid in page for memory in alike)
        assert 'data-key="m"' in page

    def test_without_scripts_a_link_shows_them(
        self, embedding: Any, curator: Client, alike: list[Memory]
    ) -> None:
        assert "Compare them now" in shown(curator, "/review/?tab=alike")
        assert alike[0].uid in shown(curator, "/review/?tab=alike&look=1")

    def test_what_was_decided_a_moment_ago_is_left_out(
        self, embedding: Any, curator: Client, alike: list[Memory]
    ) -> None:
        shown(curator, "/review/alike/", **HTMX)
        memories.not_duplicates([memory.uid for memory in alike], EVE)
        assert "No near-duplicates" in shown(curator, "/review/alike/", **HTMX)

    def test_merging_from_a_card_offers_what_is_like_it(
        self, embedding: Any, curator: Client, alike: list[Memory]
    ) -> None:
        page = shown(curator, f"/review/cards/{alike[0].uid}/merge/?tab=new")
        assert alike[1].uid in page
        assert "Merge the ticked into one" in page

    def test_what_hardly_resembles_it_is_neither_ticked_nor_the_one_that_it_goes_into(
        self, embedding: Any, curator: Client, remember: Remember, settings: Any
    ) -> None:
        one = remember("the cache of the runner is emptied", project="p")
        longer = "the cache of the browser has a size of its own, and the runner knows nothing of it"
        other = remember(longer, project="p", importance=1.0)
        page = Page(shown(curator, f"/review/cards/{one.uid}/merge/"))
        boxes = page.all("input")
        assert [box["value"] for box in boxes if box.get("name") == "keep" and "checked" in box] == [one.uid]
        assert [
            ("checked" in box) for box in boxes if box.get("name") == "uid" and box["value"] == other.uid
        ] == [False]

    def test_where_nothing_is_like_it_that_is_said(self, curator: Client, unsure: Memory) -> None:
        assert "No memory of the same place is like" in shown(curator, f"/review/cards/{unsure.uid}/merge/")

    def test_what_is_of_another_project_is_not_offered(self, curator: Client, remember: Remember) -> None:
        one = remember("the build cache of the runner is emptied", project="p")
        remember("the build cache of the runner is emptied", project="q")
        assert "No memory of the same place" in shown(curator, f"/review/cards/{one.uid}/merge/")

    def test_a_merge_leads_back_to_the_queue(self, curator: Client, alike: list[Memory]) -> None:
        keep, other = alike
        fields = {"do": "merge", "keep": keep.uid, "uid": other.uid, "next": "/review/?tab=alike"}
        assert curator.post("/duplicates/decide/", fields)["Location"] == "/review/?tab=alike"


class TestContradictions:
    @pytest.fixture
    def clash(self, db: None, actor: Actor) -> list[str]:
        drafts = [FactDraft(subject="ada", predicate="works at", object=name) for name in ("Acme", "Brick")]
        return [services.store_fact(draft, actor)[0].uid for draft in drafts]

    def test_they_are_a_tab_with_keys(self, sign_in: SignIn, clash: list[str]) -> None:
        client = sign_in("change_fact")
        page = shown(client, "/review/?tab=clashes")
        assert "Acme" in page
        assert "Brick" in page
        assert 'data-key="m"' in page
        assert 'data-key="a"' in page

    def test_deciding_leads_back_to_the_queue(self, sign_in: SignIn, clash: list[str]) -> None:
        client = sign_in("change_fact")
        fields = {"fact": clash, "keep": clash[1], "next": "/review/?tab=clashes"}
        page = client.post("/facts/contradictions/decide/", fields, follow=True)
        assert page.redirect_chain == [("/review/?tab=clashes", 302)]
        assert "No facts contradict each other" in page.content.decode()
