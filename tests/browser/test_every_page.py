"""Every page in both themes and at all widths: axe-core, console, requests, width and focus."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.db import OperationalError, connection
from django.db.models import Count
from django.test import Client
from playwright.sync_api import Page, expect

from memoryhub.models import Event, MaintenanceRun, Session
from memoryhub.transfer import jobs
from memoryhub.web import stats
from tests.accounts.passkey import confirm_session
from tests.browser import full_store, page_weight
from tests.browser.conftest import OpenPage, Watch
from tests.browser.page_checks import (
    PHONE,
    WIDE,
    PageChecks,
    Requests,
    axe_on_each_page,
    find_excess_height,
    find_state_problems,
    load_axe,
    unfold,
)
from tests.browser.site_walk import NOT_FOUND, SiteWalk
from tests.clients import signed_in_client

HERE = ""  # the page that is open
CHECKS = PageChecks()  # of all tests here: text that looks the same is compared once
LONG = "a-name-without-any-blank-" * 8
MAKE_LABELS_FAINT = """(where) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`${where} { label { color: #777 !important; background: #666 !important } }`);
  document.adoptedStyleSheets = [sheet];
}"""
LAY_TEXT_OVER_WHITE = """() => {
  for (const [name, text, ground] of [["under", "", "#fff"], ["over", "over it", "transparent"]]) {
    const added = document.body.appendChild(document.createElement("p"));
    Object.assign(added, { id: name, textContent: text });
    added.style.cssText = `position: fixed; inset: 0 auto auto 0; width: 9rem; height: 2rem; margin: 0;
      z-index: 99; color: #555; background-color: ${ground}`;
  }
}"""
DARKEN_WHAT_IS_UNDER = """() => { document.getElementById("under").style.backgroundColor = "#666" }"""
# A button without a name, which one size shows, and a link that loses its name there.
HIDE_NAMES = """(size) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`.lost { display: inline-block } .added { display: none }
    .lost, .added { inline-size: 5rem; block-size: 3rem }
    @media (width: ${size}px) { .added { display: block } .lost span { display: none } }`);
  document.adoptedStyleSheets = [sheet];
  document.querySelector("main").insertAdjacentHTML("beforeend",
    '<button class="added"></button><p><a class="lost" href="/"><span>Home</span></a></p>');
}"""
NAME_THEM = """() => {
  for (const one of document.querySelectorAll(".added, .lost")) one.setAttribute("aria-label", "Home");
}"""
# Rows of large buttons. The third one shrinks, with two more in it; or no row shows that it has the focus.
ADD_ROWS = """() => {
  const row = (number) => `<li><button type="button">Row ${number}</button></li>`;
  document.querySelector("main").insertAdjacentHTML("beforeend",
    `<ul class="rows">${[1, 2, 3, 4, 5].map(row).join("")}</ul>`);
  for (const one of document.querySelectorAll(".rows button")) {
    Object.assign(one.style, { display: "block", inlineSize: "9rem", blockSize: "3rem" });
  }
}"""
SHRINK_THE_THIRD = """() => {
  const row = document.querySelector(".rows li:nth-child(3)");
  for (const name of ["One", "Two"]) {
    row.insertAdjacentHTML("beforeend", `<button type="button">${name}</button>`);
  }
  for (const one of row.querySelectorAll("button")) {
    Object.assign(one.style, { display: "block", blockSize: "10px", minBlockSize: "0", padding: "0" });
  }
}"""
HIDE_THE_RINGS = """() => {
  for (const one of document.querySelectorAll(".rows button")) one.style.outline = "none";
}"""
LISTS = (
    *("/", "/memories/", "/memories/?q=tide", "/trash/", "/review/", "/review/?tab=contradictions"),
    *("/duplicates/", "/sessions/", "/timeline/", "/timeline/entries/", "/injections/", "/facts/"),
    *("/facts/contradictions/", "/facts/graph/", "/journal/", "/maintenance/", "/maintenance/runs/"),
    *("/agents/", "/people/", "/transfer/", "/glance/", "/preview/", "/you/"),
    *("/connect/", "/connect/codex/", "/connect/codex/snippet/", "/memories/new/"),
    *("/api/v1/docs", "/api/v1/docs/search_by_query", "/api/v1/docs/store_memory"),
    *("/admin/memoryhub/memory/", "/admin/memoryhub/journalentry/"),
)


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> None:
    """The demo goes into one folder, with its database and its mirror."""
    settings.HOME = Path(connection.settings_dict["NAME"]).parent
    settings.MEMORY_LOG = settings.HOME / tmp_path.name / "memory-journal.jsonl"


def look_at(page: Page, addresses: Iterable[str]) -> None:
    """Fail with the problems and their pages."""
    requests = Requests(page)
    page.keyboard.press("Tab")  # from here on the focus shows
    wrong: dict[str, list[str]] = defaultdict(list)
    with axe_on_each_page(page):
        for address in addresses:
            if address != HERE:
                page.goto(address)
                if urlsplit(page.url).path != urlsplit(address).path:
                    wrong[f"redirects to {page.url}"].append(address)
            unfold(page)
            requests.settle()
            for one in CHECKS.find_problems(page):
                wrong[one].append(address)
    assert not wrong, "\n" + "\n".join(f"{what}\n    on {places}" for what, places in wrong.items())


@pytest.mark.long
@pytest.mark.usefixtures("embedding")
def test_every_page_passes_all_checks(
    open_page: OpenPage, live_server: Any, watch: Watch, settings: Any
) -> None:
    """One walk: a second process would fill another store, and compare the same text again."""
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 24 * 3600  # on a busy machine, the walk takes minutes
    watch.expect(404, 422)
    boss = full_store.fill_store()
    client = confirm_session(signed_in_client(boss, "private", "secret"), boss)
    page = open_page(NOT_FOUND)
    page.context.add_cookies(
        [{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}]
    )
    look_at(page, SiteWalk(client, boss).addresses())


@pytest.mark.long
@pytest.mark.usefixtures("embedding")
def test_pages_of_the_demo_load_little_and_are_short_on_a_phone(open_page: OpenPage) -> None:
    full_store.run_demo()
    boss = User.objects.create_superuser(full_store.OWNER, password="a good password")
    _check_weight_of_first_visits(open_page, boss)
    page = open_page("/", boss, viewport=PHONE)
    runs = MaintenanceRun.objects.exclude(operation=jobs.OPERATION_NAME).values_list("uid", flat=True)
    sessions = Session.objects.values_list("session_id", flat=True)
    by_events = Event.objects.values_list("session__session_id").annotate(n=Count("pk"))
    longest = by_events.order_by("-n")[0][0]
    paths = [
        *LISTS,
        *(f"/maintenance/runs/{uid}/" for uid in runs),
        *(f"/sessions/{one}/" for one in sessions),
        *(f"/sessions/{longest}/?kind={kind}" for kind in ("injection", "kept")),
    ]
    wrong = []
    for path in paths:
        page.goto(path)
        wrong += [f"{path} {problem}" for problem in find_excess_height(page)]
    assert not wrong, "\n".join(wrong)


def _check_weight_of_first_visits(open_page: OpenPage, boss: User) -> None:
    new_window = {"permissions": ["clipboard-read"]}  # such a window is not one that other tests have used
    for page in (open_page("/login/", **new_window), open_page("/", boss, **new_window)):
        page.wait_for_load_state("networkidle")
        weights = page_weight.loaded_bytes(page)
        assert sum(weights.values()) <= page_weight.MAX_FIRST_VISIT_BYTES, weights
        assert len(weights) <= page_weight.MAX_REQUESTS


def test_pages_of_a_member_of_two_projects_pass_all_checks(open_page: OpenPage, watch: Watch) -> None:
    """A user whose pages show limits of rights, which the administrator never sees."""
    look_at(open_page("/you/", full_store.create_people()), [HERE])


def test_pages_of_single_sign_on_pass_all_checks(
    open_page: OpenPage, watch: Watch, person: Any, settings: Any
) -> None:
    """Bound to one of its people, known to it by an address only, and unknown to it."""
    settings.OIDC_ISSUER, settings.OIDC_NAME = "http://127.0.0.1:9", "Example & Sons"
    look_at(open_page("/login/"), [HERE])
    boss = User.objects.create_superuser("boss", password="a good password")
    bound, known = person("bound"), person("known")
    SocialAccount.objects.create(user=bound, provider="https://login.example.org/realms/" + LONG, uid=LONG)
    User.objects.filter(pk__in=(bound.pk, known.pk)).update(email=LONG[:60] + "@example.org")
    look_at(open_page("/people/bound/", boss), [HERE, "/people/known/", "/people/boss/"])
    for user in (bound, known):
        page = open_page("/you/", user)
        expect(page.get_by_text("Example & Sons").first).to_be_visible()
        look_at(page, [HERE])


def test_review_card_with_its_whole_text_passes_all_checks(
    open_page: OpenPage, person: Any, watch: Watch, remember: Any
) -> None:
    remember(full_store.MARKDOWN * 10)
    page = open_page("/review/?tab=new", person("eve", "change_fact"))
    page.get_by_role("link", name="Show all").click()
    expect(page.locator(".review-card h4")).to_have_count(9)  # the first says the title again
    look_at(page, [HERE])


@pytest.mark.long
def test_pages_of_an_empty_store_pass_all_checks(open_page: OpenPage, reader: User, watch: Watch) -> None:
    """Also for a user without any permission."""
    watch.expect(404, 422)
    client = Client()
    client.force_login(reader)
    plain = [one for one in SiteWalk(client, reader).plain() if "?" not in one]
    look_at(open_page(NOT_FOUND, reader), plain)


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (RuntimeError("out of paint"), 500),
        (OperationalError("database is locked"), 503),
        (BadRequest("which one?"), 400),
    ],
)
def test_error_pages_pass_all_checks(
    open_page: OpenPage, reader: User, watch: Watch, monkeypatch: Any, caplog: Any, raised: Any, status: int
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise raised

    monkeypatch.setattr(stats, "render", fail)
    caplog.set_level(logging.CRITICAL)
    watch.expect(status)
    look_at(open_page("/glance/", reader), [HERE])


def test_address_that_shows_another_page_is_found(open_page: OpenPage, watch: Watch) -> None:
    with pytest.raises(AssertionError, match=r"redirects to .*/login/"):
        look_at(open_page("/login/"), ["/memories/"])


def test_page_of_an_unknown_host_passes_all_checks(
    open_page: OpenPage, live_server: Any, watch: Watch
) -> None:
    watch.expect(400)
    watch.host = f"strange.localhost:{urlsplit(live_server.url).port}"
    page = open_page(f"http://{watch.host}/")
    expect(page.get_by_text("MEMORYHUB_ALLOWED_HOSTS")).to_be_in_viewport()  # under an emblem of its size
    look_at(page, [HERE])


def test_page_of_an_address_that_only_takes_forms_passes_all_checks(
    open_page: OpenPage, reader: User, watch: Watch
) -> None:
    watch.expect(405)
    look_at(open_page("/acts/", reader), [HERE])


def test_pages_of_refusals_pass_all_checks(open_page: OpenPage, reader: User, watch: Watch) -> None:
    watch.expect(403)
    look_at(open_page("/login/"), [HERE])
    look_at(open_page("/people/", reader), [HERE])
    page = open_page("/login/")
    page.get_by_label("Username").fill("reader")
    page.get_by_label("Password").fill("not it")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").first.wait_for()
    look_at(page, [HERE])
    page.evaluate("document.querySelector('main form [name=csrfmiddlewaretoken]').remove()")
    page.get_by_label("Password").fill("nor this")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("main form")).to_have_count(0)
    look_at(page, [HERE])


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=lambda one: str(one["width"]))
def test_text_that_is_faint_in_one_theme_and_width_is_found(
    open_page: OpenPage, watch: Watch, viewport: Any, theme: str
) -> None:
    """Also after pages with the same text, which are not compared again."""
    page, checks = open_page("/login/"), PageChecks()
    assert not list(checks.find_problems(page))
    faint = f"@media (width: {viewport['width']}px) and (prefers-color-scheme: {theme})"
    page.evaluate(MAKE_LABELS_FAINT, faint)
    [found] = checks.find_problems(page)
    assert found.startswith(f"{theme}, {viewport['width']} px: color-contrast (")


def test_name_that_is_missing_at_one_size_is_found(open_page: OpenPage, watch: Watch) -> None:
    """Also after pages with the same elements, which have names."""
    page, checks = open_page("/login/"), PageChecks()
    page.evaluate(HIDE_NAMES, PHONE["width"])
    page.evaluate(NAME_THEM)
    assert not list(checks.find_problems(page))
    page.reload()
    page.evaluate(HIDE_NAMES, PHONE["width"])
    found = [one for one in checks.find_problems(page) if one.startswith(f"dark, {PHONE['width']} px: ")]
    assert any("button-name" in one for one in found)
    assert any("link-name" in one for one in found)


def test_defects_of_rows_are_found(open_page: OpenPage, watch: Watch) -> None:
    """The size of each small target counts; of large ones and for the focus, the first and the last row."""
    page, checks = open_page("/login/"), PageChecks()
    page.keyboard.press("Tab")
    page.evaluate(ADD_ROWS)
    assert not list(checks.find_problems(page))
    page.evaluate(SHRINK_THE_THIRD)
    [wide, narrow] = checks.find_problems(page)
    for problem in (wide, narrow):
        assert "target-size (3): " in problem
        assert "li:nth-child(3)" in problem
    page.evaluate(HIDE_THE_RINGS)
    found = [one for one in checks.find_problems(page) if "no ring: button" in one]
    assert {one.rpartition(" ")[2] for one in found} >= {"1", "5"}


def test_state_problems_are_found_in_text_that_was_compared(open_page: OpenPage, watch: Watch) -> None:
    page = open_page("/login/")
    assert not find_state_problems(page)
    page.evaluate(MAKE_LABELS_FAINT, "@media all")
    found = find_state_problems(page)
    assert [one.partition(" (")[0] for one in found] == [
        "light, 1280 px: color-contrast",
        "dark, 390 px: color-contrast",
    ]


def test_contrast_is_checked_again_over_another_background(open_page: OpenPage, watch: Watch) -> None:
    page, checks = open_page("/login/"), PageChecks()
    load_axe(page)
    page.evaluate(LAY_TEXT_OVER_WHITE)
    assert not list(checks.find_faint_text(page, "light"))
    page.evaluate(DARKEN_WHAT_IS_UNDER)
    [found] = checks.find_faint_text(page, "light")
    assert "#over" in found
