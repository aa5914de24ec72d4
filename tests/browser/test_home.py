"""Sign-in, the home page, the header and the themes."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from memoryhub.accounts import people
from tests.browser.conftest import DESKTOP, PHONE, no_sideways_scrolling

PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 25, 23)"}


def test_someone_signs_in_looks_and_signs_out(open_page: Any, reader: Any, remember: Any) -> None:
    remember("Feed the zebra at six.")
    page = open_page("/memories/")
    page.get_by_label("Username").fill("reader")
    page.get_by_label("Password").fill("a good password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Memories")).to_be_visible()
    page.get_by_role("button", name="Account of reader").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_the_first_page_shows_plot_news_and_the_journals_health(
    open_page: Any, reader: Any, remember: Any
) -> None:
    remember("Feed the zebra at six.", project="zoo")
    page = open_page("/", reader)
    expect(page.get_by_role("link", name="Feed the zebra at six.")).to_be_visible()
    expect(page.get_by_role("img", name="Memories stored in each day")).to_be_visible()
    expect(page.get_by_text("unbroken")).to_be_visible()


def test_the_same_numbers_are_in_a_table(open_page: Any, reader: Any, remember: Any) -> None:
    remember("Feed the zebra at six.", type="decision")
    page = open_page("/", reader)
    page.get_by_text("Show as a table").click()
    expect(page.get_by_role("columnheader", name="Day")).to_be_visible()


def test_the_plot_is_named_by_its_heading_only(open_page: Any, reader: Any, remember: Any) -> None:
    remember("a hedge of hornbeam")
    page = open_page("/", reader)
    expect(page.get_by_role("figure", name="Activity in the last 30 days", exact=True)).to_be_visible()


@pytest.mark.parametrize(("system", "other"), [("light", "dark"), ("dark", "light")])
def test_the_theme_follows_the_system_until_someone_chooses_and_is_remembered(
    open_page: Any, reader: Any, system: str, other: str
) -> None:
    page = open_page("/", reader, color_scheme=system)
    expect(page.locator("body")).to_have_css("background-color", PAPER[system])
    page.get_by_role("button", name="Account of reader").click()
    page.get_by_role("button", name=f"Use the {other} theme").click()
    expect(page.locator("body")).to_have_css("background-color", PAPER[other])
    page.goto("/memories/")
    expect(page.locator("body")).to_have_css("background-color", PAPER[other])
    page.get_by_role("button", name="Account of reader").click()
    expect(page.get_by_role("button", name=f"Use the {system} theme")).to_be_visible()


def test_switches_show_and_hide_what_is_private(open_page: Any, insider: Any, remember: Any) -> None:
    remember("the zebra's real name", sensitivity="private")
    page = open_page("/memories/", insider)
    expect(page.get_by_text("No memories yet")).to_be_visible()
    page.get_by_role("button", name="Visibility: public only").click()
    page.get_by_role("button", name="Show private").click()
    expect(page.get_by_role("link", name="the zebra's real name")).to_be_visible()
    page.get_by_role("button", name="Visibility: private shown").click()
    expect(page.get_by_role("button", name="Show private")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Show private").click()
    expect(page.get_by_text("No memories yet")).to_be_visible()


def test_on_a_phone_the_menu_opens_over_the_page(open_page: Any, reader: Any) -> None:
    page = open_page("/", reader, viewport=PHONE)
    link = page.get_by_role("navigation", name="Main").get_by_role("link", name="Memories")
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    link.click()
    expect(page.get_by_role("heading", name="Memories")).to_be_visible()


def test_on_a_phone_the_other_actions_open_over_the_page(open_page: Any, insider: Any, remember: Any) -> None:
    page = open_page(f"/memories/{remember('zebra').uid}/", insider, viewport=PHONE)
    facts = page.get_by_role("heading", name="Facts")
    before = facts.bounding_box()
    page.locator("summary", has_text="More actions").click()
    expect(page.get_by_role("link", name="Erase")).to_be_in_viewport()
    assert facts.bounding_box() == before


def test_on_a_phone_the_journal_of_a_person_shows_details(open_page: Any, reader: Any) -> None:
    boss = User.objects.create_superuser("boss", password="a good password")
    ada = people.create_account("ada", "another good password", boss)
    people.change_rights(ada, boss, role="curator", level="private", is_active=True, is_staff=False)
    page = open_page("/people/ada/", boss, viewport=PHONE)
    expect(page.locator(".journal-table .details").first).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_on_a_phone_lists_of_the_admin_fit_and_name_their_numbers(
    open_page: Any, reader: Any, remember: Any, scripts: bool
) -> None:
    boss = User.objects.create_superuser("boss", password="a good password")
    remember("zebra " * 12, title="zebra " * 12, project="p" * 100, category="c" * 90)
    for model in ("memory", "journalentry"):
        page = open_page(f"/admin/memoryhub/{model}/", boss, viewport=PHONE, java_script_enabled=scripts)
        results = page.locator("#changelist .results")
        assert results.evaluate("one => one.scrollWidth <= one.clientWidth")
        if model == "memory":
            box, title = page.locator(".action-checkbox input"), page.locator("tbody .field-heading")
            assert _top(title) - 8 <= _top(box) <= _top(title) + 8  # in front of the title, not above it
    label = "getComputedStyle(document.querySelector('#result_list tbody th'), '::before').content"
    assert page.evaluate(label) == '"Row "'


def _top(element: Any) -> float:
    return float(element.bounding_box()["y"])


def test_no_content_makes_a_page_wider_than_its_window(
    open_page: Any, insider: Any, watch: Any, remember: Any
) -> None:
    endless = "zebra" * 40
    remember(f"zebra {endless}", title=endless, project=endless, category=endless[:90], tags=[endless[:90]])
    remember("zebra <script>alert(1)</script>", title="<img src=x onerror=alert(1)>", project="<b>")
    watch.expect(404)
    page = open_page("/", insider)
    for path in ("/", "/memories/?q=zebra&min_score=0", "/memories/", "/trash/", "/nowhere/"):
        page.goto(path)
        for viewport in (DESKTOP, PHONE):
            page.set_viewport_size(viewport)
            assert no_sideways_scrolling(page), (path, viewport)
