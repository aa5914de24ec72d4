"""At a glance, the rows that are left out at first: what leads to them, and what has no name."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape

from memoryhub.access.policy import Actor, Clearance
from memoryhub.core.vocabulary import TYPES
from tests.web.glancing import happen, inject, listed, part, words

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_cache")]


def _way(markup: str, name: str) -> str:
    """Where the link leads that shows all of a chart."""
    found = re.search(rf'href="([^"#]*all={name}[^"#]*)#[\w-]+">and', markup)
    return found[1].replace("&amp;", "&") if found else f"no link for {name}"


@pytest.fixture
def many(remember: Any) -> None:
    """Eleven projects, each with a category of its own."""
    for number in range(11):
        remember(f"memory {number}", project=f"project-{number:02}", category=f"category-{number:02}")


@pytest.mark.parametrize("page", ["/", "/glance/"])
@pytest.mark.parametrize("chart", ["project", "category"])
def test_what_is_left_out_of_a_breakdown_is_one_link_away(
    visitor: Client, many: None, page: str, chart: str
) -> None:
    assert f"{chart}-10" not in part(visitor, f"By {chart}", page)
    after = part(visitor, f"By {chart}", _way(visitor.get(page).content.decode(), chart))
    assert after.count(f"{chart}-") == 11
    assert "Only the first" in after


def test_types_left_out_of_the_first_page_stand_in_the_chart_of_their_use(
    visitor: Client, remember: Any
) -> None:
    for kind in TYPES:
        remember(f"one {kind}", type=kind)
    way = _way(visitor.get("/").content.decode(), "use")
    told = part(visitor, "Used and never used", way)
    assert all(kind.replace("_", " ") in told for kind in TYPES)


def test_a_chart_of_actors_is_shown_in_full_within_the_same_days(visitor: Client, remember: Any) -> None:
    for number in range(11):
        remember(f"memory {number}", by=Actor(f"token:agent-{number:02}", Clearance.up_to("public")))
    way = _way(visitor.get("/glance/?days=7").content.decode(), "activity")
    assert "days=7" in way
    assert part(visitor, "Changes by whom", f"/glance/{way}").count("token:agent-") == 11


def test_reasons_of_what_was_skipped_are_shown_in_full(visitor: Client) -> None:
    for number in range(11):
        happen(reason=f"reason {number:02}")
    way = _way(visitor.get("/glance/").content.decode(), "capture")
    assert part(visitor, "Kept and skipped", f"/glance/{way}").count("reason ") == 11


def test_the_way_back_keeps_the_other_filters(visitor: Client, many: None) -> None:
    page = visitor.get("/glance/?days=7&all=project").content.decode()
    back = re.search(r'href="([^"]*)#by-project">Only the first', page)
    assert back
    assert back[1] == "?days=7"


def test_a_chart_that_is_not_there_is_refused_by_name(visitor: Client, remember: Any) -> None:
    remember("one")
    response = visitor.get("/glance/?all=bogus")
    assert response.status_code == 422
    assert "all: there is no such chart" in words(response.content.decode())


@pytest.mark.parametrize("page", ["/", "/glance/"])
def test_what_has_no_project_leads_to_its_list(visitor: Client, remember: Any, page: str) -> None:
    remember("one")
    remember("two", project="zoo")
    found = re.search(r'href="([^"]+)">none</a>', visitor.get(page).content.decode())
    assert found
    assert listed(visitor, found[1]) == 1


def test_a_name_breaks_behind_its_marks_and_stays_text(visitor: Client, remember: Any) -> None:
    inject()
    remember("one", by=Actor("system:create_<b>token", Clearance.up_to("public")))
    page = visitor.get("/glance/").content.decode()
    assert "system:<wbr>create_" + escape("<b>token") in page
    assert "<b>token" not in page
