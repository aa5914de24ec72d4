"""Parts of one profile: offered for merging, but not counted as near-duplicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub.models import Memory
from tests.web.markup import main
from tests.web.review_page import HTMX, get_page

pytestmark = pytest.mark.usefixtures("embedding", "fresh_cache")


@pytest.fixture
def pieces(remember: Callable[..., Memory]) -> list[Memory]:
    texts = ("I work in a terminal with large letters", "No questions before nine in the morning")
    return [remember(text, project="p", category="profile") for text in texts]


def test_page_lists_them_separately_with_a_reason(curator: Client, pieces: list[Memory], alike: Any) -> None:
    page = main(curator.get("/duplicates/")).words
    assert "1 cluster among 4 memories" in page
    assert "At the end 1 profile in pieces." in page
    assert page.index("Profiles in pieces") > page.index("Kept: it says the most.")
    assert "They say different things; what is known of one thing belongs in one text." in page
    assert "is about something alike" not in page


def test_page_with_only_profile_parts_reports_no_cluster(curator: Client, pieces: list[Memory]) -> None:
    page = main(curator.get("/duplicates/")).words
    assert "No two among 2 memories nearly say the same." in page
    assert pieces[0].content in page


def test_health_report_does_not_count_them(visitor: Client, pieces: list[Memory]) -> None:
    assert "none" in visitor.get("/glance/duplicates/").content.decode()


def test_review_links_to_them(curator: Client, pieces: list[Memory]) -> None:
    page = get_page(curator, "/review/alike/?project=p", **HTMX)
    assert "No near-duplicates" in page
    assert '<a href="/duplicates/?category=profile&amp;project=p">1 profile in pieces</a>' in page


def test_review_tab_does_not_count_them(curator: Client, pieces: list[Memory], alike: Any) -> None:
    get_page(curator, "/review/alike/", **HTMX)
    tabs = main(curator.get("/review/?tab=new")).words
    assert "Near-duplicates 1" in " ".join(tabs.split())
