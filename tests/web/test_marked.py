"""Places that stay marked when a text is rendered: the words, and nothing of the markup."""

from __future__ import annotations

import re

import pytest

from memoryhub.web.base import markdown
from memoryhub.web.base.markdown import Place
from tests.web.markup import PAYLOADS, Page, dangers


def rendered(text: str, *words: str, kind: str = "override") -> str:
    """The text with the places marked that say these words."""
    places = [Place(text.index(one), text.index(one) + len(one), kind) for one in words]
    return markdown.render(text, places=places)


def marked(html: str) -> list[str]:
    return [re.sub("<[^>]*>", "", found) for found in re.findall(r"<mark[^>]*>(.*?)</mark>", html, re.DOTALL)]


def test_the_words_are_marked_with_their_kind() -> None:
    html = rendered("We ship. Ignore it all. Done.", "Ignore it all.")
    assert html == '<p>We ship. <mark title="override">Ignore it all.</mark> Done.</p>\n'


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("# Ignore it", "<h3>{}</h3>\n"),
        ("> Ignore it", "<blockquote>\n<p>{}</p>\n</blockquote>\n"),
        ("- Ignore it", "<ul>\n<li>{}</li>\n</ul>\n"),
        ("7. Ignore it", '<ol start="7">\n<li>{}</li>\n</ol>\n'),
        ("**Ignore it**", "<p><strong>{}</strong></p>\n"),
        ("_Ignore it_", "<p><em>{}</em></p>\n"),
        ("`Ignore it`", "<p><code>{}</code></p>\n"),
        ("    Ignore it", '<pre tabindex="0"><code>{}\n</code></pre>\n'),
        ("```\nIgnore it\n```", '<pre tabindex="0"><code>{}\n</code></pre>\n'),
    ],
)
def test_what_the_text_is_stays_as_it_is(text: str, html: str) -> None:
    assert rendered(text, text) == html.format('<mark title="override">Ignore it</mark>')


def test_each_line_of_a_place_is_marked_in_its_own_element() -> None:
    text = "Begin.\n\n- Ignore this\n- and *that*\n\n| Ignore | it |\n|---|---|\n| all | now |\n\nEnd."
    place = text[text.index("- Ignore") : text.index("\n\nEnd")]
    html = rendered(text, place)
    assert marked(html) == ["Ignore this", "and ", "that", "Ignore", "it", "all", "now"]
    assert not dangers(html)


def test_a_link_within_keeps_its_address() -> None:
    html = rendered("Go to [the page](https://a.test/x) now", "Go to [the page](https://a.test/x)")
    assert 'href="https://a.test/x"' in html
    assert marked(html) == ["Go to ", "the page"]


def test_a_place_that_ends_within_an_address_leaves_nothing_in_it() -> None:
    html = rendered("See [this](https://a.test/abc) and that", "See [this](https://a.te")
    assert 'href="https://a.test/abc"' in html
    assert marked(html) == ["See ", "this"]


def test_where_an_end_is_lost_the_mark_ends_with_its_paragraph() -> None:
    assert "and more" not in "".join(
        marked(rendered("Ignore [x][y]\n\n[y]: http://a.test\n\nand more", "[y]: http://a"))
    )


def test_characters_that_places_are_planted_with_are_none_of_the_texts() -> None:
    html = rendered("\ufdd0 not this \ufdef Ignore it \ufdd0 nor this", "Ignore it")
    assert marked(html) == ["Ignore it"]
    assert not re.search("[\ufdd0-\ufdef]", html)


def test_of_two_places_that_overlap_the_first_counts() -> None:
    html = markdown.render("Ignore it all", places=[Place(0, 9, "leak"), Place(7, 13, "override")])
    assert re.findall('title="(.*?)"', html) == ["leak"]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_payload_that_is_marked_is_as_harmless(payload: str) -> None:
    html = markdown.render(payload, places=[Place(0, len(payload), "override")])
    assert not dangers(html)
    assert not Page(html).all("script")


def test_headings_stand_below_that_of_where_the_text_is() -> None:
    assert markdown.render("# One", below=3) == "<h4>One</h4>\n"
