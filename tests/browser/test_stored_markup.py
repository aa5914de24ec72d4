"""Markup stored by an agent never runs, loads or navigates in a browser, whichever page shows it.

``tests/http/hostile_store.py`` fills every text field of every table; ``tests/http`` checks the same pages on
the server.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from playwright.sync_api import Browser, BrowserContext, Error, Request

from memoryhub.models import Memory
from tests.browser.conftest import HARMLESS
from tests.http import hostile_store, payloads
from tests.http.url_walk import Walk, body, enter

# What only a payload can have put into a page, by the document's own account.
PROBE = """() => {
  const found = [];
  const foreign = (value) => value && new URL(value, location).host !== location.host;
  for (const one of document.querySelectorAll("*")) {
    const tag = one.localName;
    if (/^(xss-probe|base|iframe|object|embed|math|marquee|plaintext|xmp)$/.test(tag)) found.push(tag);
    for (const { name, value } of one.attributes) {
      const found_text = `<${tag} ${name}=${JSON.stringify(value.slice(0, 80))}>`;
      if (name.startsWith("on") || name === "srcdoc" || name === "http-equiv") found.push(found_text);
      if (name === "style" && /evil|url\\(/.test(value)) found.push(found_text);
      if (["src", "action", "formaction", "data", "poster", "background", "ping"].includes(name)
          && foreign(value) && !value.startsWith("data:image/")) found.push(found_text);
      if (/^hx-(get|post|put|patch|delete)$/.test(name) && foreign(value)) found.push(found_text);
      if (name.endsWith("href") && tag !== "a" && foreign(value)) found.push(found_text);
    }
    if (tag === "a" && one.hasAttribute("href")) {
      const to = new URL(one.getAttribute("href"), location);  // an SVG's link has no address of its own
      const found_text = `<a href=${to.href.slice(0, 80)} rel=${one.getAttribute("rel")}>`;
      if (!["http:", "https:", "mailto:"].includes(to.protocol)) found.push(found_text);
      else if (to.protocol !== "mailto:" && to.host !== location.host
          && !/noopener/.test(one.getAttribute("rel"))) found.push(found_text);
    }
  }
  if (document.cookie.includes("evil")) found.push("a cookie");
  return found;
}"""


class Witness:
    """A browser's window that notes whatever a payload might do."""

    def __init__(self, context: BrowserContext, host: str) -> None:
        self.host, self.seen = host, list[str]()
        self.context = context
        # Headers and bodies of pages that were rendered before; the browser shows each of them once.
        self.answers: dict[str, tuple[dict[str, str], str]] = {}
        self.page = context.new_page()
        self.page.on("dialog", self._dialog)
        self.page.on("console", lambda one: self._note(one.text, one.type in ("error", "warning")))
        self.page.on("pageerror", lambda error: self._note(f"script error: {error}"))
        self.page.on("request", self._request)
        self.page.on("popup", lambda popup: self._note(f"popup: {popup.url}"))
        self.page.on("download", lambda one: self._note(f"download: {one.url}"))

    def refuse_foreign_requests(self) -> None:
        """Abort them before a page navigates. A context with routes does not cache scripts and styles."""
        self.context.route(self._is_foreign, lambda route: route.abort())

    def _is_foreign(self, url: str) -> bool:
        return urlsplit(url).scheme in ("http", "https", "ws", "wss") and urlsplit(url).netloc != self.host

    def answer(self, request: HttpRequest) -> HttpResponse | None:
        """Return the rendered page for a navigation."""
        path = _path(request.get_full_path())
        if path not in self.answers or request.headers.get("Sec-Fetch-Mode") != "navigate":
            return None
        headers, body_ = self.answers.pop(path)
        return HttpResponse(body_, headers=headers)

    def _dialog(self, dialog: Any) -> None:
        self._note(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        if self._is_foreign(request.url) or unquote(request.url).endswith("/x"):
            self._note(f"request: {request.url}")

    def _note(self, what: str, counts: bool = True) -> None:
        if counts and not what.startswith(HARMLESS):
            self.seen.append(what[:200])

    def open(self, address: str) -> list[str]:
        """Return the events at this address and the problems of the page."""
        self.seen.clear()
        self.page.goto(address)
        return self.judge(address)

    def judge(self, address: str) -> list[str]:
        if unquote(urlsplit(self.page.url).path) != unquote(urlsplit(address).path):
            self.seen.append(f"led to {self.page.url}")
        return [*self.seen, *self.page.evaluate(PROBE)]


def _path(url: str) -> str:
    """Return the path and the query of an address, as a browser or as Django writes them."""
    return unquote(urlsplit(url)._replace(scheme="", netloc="", fragment="").geturl())


@pytest.fixture
def witness(chromium: Browser, live_server: Any, settings: Any) -> Any:
    """A window in which the administrator of the hostile store is signed in."""
    settings.MEMORYHUB = hostile_store.configuration()
    boss = hostile_store.fill()
    client = enter(boss)
    context = chromium.new_context(base_url=live_server.url, reduced_motion="reduce")
    cookie = client.cookies["sessionid"].value
    context.add_cookies([{"name": "sessionid", "value": cookie, "url": live_server.url}])
    context.set_default_timeout(20_000)
    one = Witness(context, urlsplit(live_server.url).netloc)
    one.client = client
    yield one
    context.close()


def visit(client: Any) -> dict[str, tuple[dict[str, str], str]]:
    """Return headers and bodies by address: every page, some memories and sessions with every payload between
    them, one of each other kind.
    """
    found: dict[str, tuple[dict[str, str], str]] = {}

    def look(address: str, response: Any) -> None:
        is_file = "attachment" in response.headers.get("Content-Disposition", "")
        if response["Content-Type"].startswith("text/html") and not is_file:
            found[address] = dict(response.headers), body(response)

    walk = Walk(client, look)
    walk.pages(most=1)
    walk.admin(most=2)
    walk.opens(reverse("memory", args=[Memory.objects.get(title=hostile_store.EVERYTHING_TITLE).uid]))
    return {address: found[address] for address in found if address not in walk.fragments}


@pytest.mark.long
def test_stored_markup_runs_loads_and_redirects_nothing(witness, monkeypatch):
    _check_every_page(witness, monkeypatch)
    _check_inserted_content(witness)
    _check_that_markup_would_be_found(witness, monkeypatch)


def _check_every_page(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {}
    found = visit(witness.client)
    assert len(found) > 100
    render = WSGIHandler.get_response
    monkeypatch.setattr(
        WSGIHandler, "get_response", lambda hub, request: witness.answer(request) or render(hub, request)
    )
    witness.answers = {_path(address): answer for address, answer in found.items()}
    for address in found:
        try:
            if seen := witness.open(address):
                wrong[address] = seen[:3]
        except Error as error:
            wrong[address] = [str(error)[:200]]
    assert not wrong
    assert not witness.answers, "the browser did not open these pages"


def _check_inserted_content(witness: Witness) -> None:
    """Check what scripts insert into a page: live lists, the palette and typed text."""
    page = witness.page
    for address in ("/memories/", "/facts/graph/", "/memories/"):
        witness.open(address)
        page.keyboard.press("Control+k")
        for typed in ("evil", payloads.payload(4), payloads.payload(46)):
            page.keyboard.type(typed[:20])
            page.wait_for_timeout(400)
            assert not witness.judge(address), (address, typed)
        page.keyboard.press("Escape")
    uid = Memory.objects.get(title=hostile_store.EVERYTHING_TITLE).uid
    address = f"/review/?tab=unsure&at={uid}"
    assert not witness.open(address)
    card = page.locator(f"#m-{uid}")
    card.get_by_role("link", name="Show all").click()
    card.get_by_role("link", name="Show all").wait_for(state="detached")
    assert not witness.judge(address)
    for text in (payloads.payload(0), payloads.payload(46), payloads.payload(66)):
        assert not witness.open(f"/memories/?min_score=0&q={text.replace('&', '%26').replace('#', '%23')}")


def _check_that_markup_would_be_found(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test can fail: the same pages, and what they escape let through."""
    witness.refuse_foreign_requests()
    monkeypatch.setattr("django.template.base.conditional_escape", str)
    for address in ("/memories/", "/sessions/", "/facts/", "/journal/", "/admin/memoryhub/memory/"):
        assert witness.open(address), address
