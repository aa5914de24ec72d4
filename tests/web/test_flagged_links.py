"""Links of flagged memories are shown as text until approved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from memoryhub import memories
from memoryhub.models import Memory
from memoryhub.web.base.markdown import render
from memoryhub.web.base.marked_spans import MarkedSpan
from tests.web.markup import Page, find_dangers, main
from tests.web.review_page import EVE, HTMX, get_page

TEXT = "See [the offer](https://collector.example/x?y=1) and <https://b.example> and ![a chart](https://c.example/p.png)"


@pytest.fixture
def flagged(remember: Callable[..., Memory]) -> Memory:
    memory = remember(TEXT, title="An offer", overview="More at https://d.example/more.")
    Memory.objects.update(flags=["governor:override"])
    return memory


def foreign(page: Page) -> list[str]:
    return [link for link in page.links() if "://" in link]


class TestText:
    def test_links_and_images_become_text_with_their_urls(self) -> None:
        page = Page(render(TEXT, links=False))
        assert page.links() == []
        assert page.words.strip() == (
            "See the offer (https://collector.example/x?y=1) and https://b.example"
            " and a chart (https://c.example/p.png)"
        )

    def test_bare_url_is_shown_once(self) -> None:
        assert Page(render("at https://a.example/ä now", links=False)).words.count("a.example") == 1

    def test_link_text_that_is_another_url_shows_both(self) -> None:
        words = Page(render("[https://good.example](https://bad.example)", links=False)).words
        assert words.strip() == "https://good.example (https://bad.example)"

    def test_marks_cross_a_link_and_end_where_they_should(self) -> None:
        text = "go to [the offer](https://a.example) now, then home"
        html = render(text, spans=[MarkedSpan(3, text.index(","), "order")], links=False)
        marked = "".join(part.partition("</mark>")[0] for part in html.split('<mark title="order">')[1:])
        assert marked == "to the offer (https://a.example) now"
        assert "%EF" not in html

    @pytest.mark.parametrize("payload", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'])
    def test_url_with_markup_is_escaped(self, payload: str) -> None:
        assert find_dangers(render(f"[x](<https://a.example/{payload}>)", links=False)) == []


class TestPages:
    def test_review_card_has_no_links(self, curator: Client, flagged: Memory) -> None:
        page = Page(get_page(curator, f"/review/cards/{flagged.uid}/?tab=flagged", **HTMX))
        assert foreign(page) == []
        assert "the offer (https://collector.example/x?y=1)" in page.words
        assert "Its links are shown as text." in page.words

    def test_memory_page_has_no_links(self, curator: Client, flagged: Memory) -> None:
        page = main(curator.get(f"/memories/{flagged.uid}/"))
        assert foreign(page) == []
        assert "https://d.example/more" in page.words
        assert "Its links are shown as text until someone approves it." in page.words

    def test_approved_memory_has_links(self, curator: Client, flagged: Memory) -> None:
        memories.apply_bulk_action("approve", [flagged.uid], EVE)
        page = main(curator.get(f"/memories/{flagged.uid}/"))
        assert "https://collector.example/x?y=1" in foreign(page)
