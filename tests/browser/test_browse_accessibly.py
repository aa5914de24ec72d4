"""Every page is gone over by axe-core, light on a large screen and dark on a small one."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from memoryhub import facts, store
from memoryhub.drafts import FactDraft
from tests.browser.conftest import DESKTOP, PHONE

HOME = "/"  # asks for a part of itself when it is there
PATHS = [
    HOME,
    "/search/",
    "/search/?q=zebra&min_score=0",
    "/search/?q=nothing+at+all",
    "/search/?q=zebra&since=never",
    "/memories/",
    "/memories/?project=zoo",
    "/trash/",
    "/nowhere/",
    "/sessions/",
    "/timeline/",
    "/timeline/entries/",
    "/injections/",
    "/facts/",
    "/journal/",
]


@pytest.fixture
def things(remember: Any, actor: Any) -> None:
    """Something of every kind for the pages to show."""
    levels = ("public", "private", "secret")
    for level in levels:
        fields = {"sensitivity": level, "project": "zoo", "tags": [level], "session_id": "s1", "ttl_days": 2}
        remember(f"Zebra {level}\n\nFed at six.", type="decision", **fields)
    remember("zebra in town", project="town", tags=["oats"], category="road")
    store.trash([remember("broken chair").uid], actor)
    facts.store_fact(FactDraft(subject="zebra", predicate="eats", object="oats"), actor)


@pytest.mark.parametrize(("theme", "viewport"), [("light", DESKTOP), ("dark", PHONE)], ids=["light", "dark"])
def test_axe_finds_nothing_to_mend(
    open_page: Any, insider: Any, watch: Any, things: None, theme: str, viewport: Any
) -> None:
    watch.expect(404, 422)
    page = open_page("/", insider, color_scheme=theme, viewport=viewport)
    for level in ("private", "secret"):
        page.get_by_role("button", name=f"Show {level}").click()
    found = {}
    for path in PATHS:
        page.goto(path, wait_until="networkidle" if path == HOME else "load")
        page.evaluate("for (const fold of document.querySelectorAll('main details')) fold.open = true")
        found[path] = Axe().run(page).generate_report()
    wrong = {path: report for path, report in found.items() if not report.startswith("Found 0")}
    assert not wrong, "\n\n".join(f"{path}\n{report}" for path, report in wrong.items())


def test_the_login_page_too(open_page: Any) -> None:
    results = Axe().run(open_page("/login/"))
    assert results.violations_count == 0, results.generate_report()
