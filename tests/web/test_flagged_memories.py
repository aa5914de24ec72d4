"""Flagged memories: links are text until approved, and the review queue marks the instructions."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from memoryhub import memories
from memoryhub.models import Memory
from memoryhub.security.prompt_injection import Finding
from memoryhub.web.base.markdown import render
from memoryhub.web.review import mark_findings
from tests.web.markup import PAYLOADS, Page, find_dangers, main
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

    @pytest.mark.parametrize("payload", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'])
    def test_url_with_markup_is_escaped(self, payload: str) -> None:
        assert find_dangers(render(f"[x](<https://a.example/{payload}>)", links=False)) == []


def find(text: str, words: str, kind: str = "override") -> Finding:
    return Finding(kind, text.index(words), text.index(words) + len(words), "test")


class TestMarks:
    def test_instructions_are_marked_with_their_kind(self) -> None:
        text = "We ship. Ignore it. Done."
        html = '<p class="as-stored">We ship. <mark title="replaces instructions">Ignore it.</mark> Done.</p>'
        assert mark_findings(text, [find(text, "Ignore it.")]) == html

    def test_markdown_is_shown_as_stored(self) -> None:
        text = "# Begin\n\n- Ignore **this**\n- and <https://a.example>\n\n    | [it](https://b.example) |"
        page = Page(mark_findings(text, [find(text, "**this**\n- and"), find(text, "[it](https://b")]))
        assert page.words == text
        assert page.links() == []

    def test_second_of_two_overlapping_findings_starts_after_the_first(self) -> None:
        html = mark_findings("Ignore it all", [Finding("leak", 0, 9, ""), Finding("override", 7, 13, "")])
        assert re.findall('title="(.*?)">(.*?)</mark>', html) == [
            ("asks for hidden text", "Ignore it"),
            ("replaces instructions", " all"),
        ]

    def test_finding_within_another_is_marked_once(self) -> None:
        html = mark_findings("Ignore it all", [Finding("leak", 0, 13, ""), Finding("override", 7, 9, "")])
        assert re.findall("<mark[^>]*>(.*?)</mark>", html) == ["Ignore it all"]

    @pytest.mark.parametrize("payload", PAYLOADS)
    def test_payloads_do_not_become_markup(self, payload: str) -> None:
        html = mark_findings(f"{payload}{payload}", [Finding(payload, 0, len(payload), "")])
        assert not find_dangers(html)
        assert Page(html).words == f"{payload}{payload}"


class TestPages:
    def test_review_card_has_no_links(self, curator: Client, flagged: Memory) -> None:
        page = Page(get_page(curator, f"/review/cards/{flagged.uid}/?tab=flagged", **HTMX))
        assert foreign(page) == []
        assert TEXT in page.words
        assert "The text is shown as stored, without links." in page.words

    def test_memory_page_has_no_links(self, curator: Client, flagged: Memory) -> None:
        page = main(curator.get(f"/memories/{flagged.uid}/"))
        assert foreign(page) == []
        assert "https://d.example/more" in page.words
        assert "Its links are shown as text until someone approves it." in page.words

    def test_memory_page_leads_to_its_review_card(self, curator: Client, flagged: Memory) -> None:
        link = f"/review/?tab=flagged&at={flagged.uid}"
        assert link in main(curator.get(f"/memories/{flagged.uid}/")).links()
        assert TEXT in main(curator.get(link)).words

    def test_viewer_gets_no_link_to_the_review(self, visitor: Client, flagged: Memory) -> None:
        links = main(visitor.get(f"/memories/{flagged.uid}/")).links()
        assert not [link for link in links if link.startswith("/review/")]

    def test_approved_memory_has_links(self, curator: Client, flagged: Memory) -> None:
        memories.apply_bulk_action("approve", [flagged.uid], EVE)
        page = main(curator.get(f"/memories/{flagged.uid}/"))
        assert "https://collector.example/x?y=1" in foreign(page)
