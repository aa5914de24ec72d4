"""First paint and weight of the pages in Chromium: ``python -m tools.bench.pages HOME``.

Prints a Markdown table. A first visit has an empty cache, the next visits have a warm one. First paint is
first-contentful-paint, counted from the click. Weight is everything that a first visit transfers until the
network is quiet. Needs Playwright and Chromium (requirements-dev.txt).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import BrowserContext, Page

from tools.bench.figures import spread
from tools.bench.hub import server, sign_in, store_environment
from tools.bench.workloads import PAGES
from tools.screenshots.chromium import started

MORE_PAGES = tuple(
    "/timeline/ /sessions/ /journal/ /facts/ /facts/graph/ /facts/contradictions/ /trash/ /injections/"
    " /maintenance/ /preview/ /transfer/ /people/ /you/".split()
)
# Lists whose first item is measured too, and the selector of the links to their items.
LISTS = (("/memories/", "main a[href^='/memories/']"), ("/sessions/", "main a[href^='/sessions/']"))
HEAD = "| page | first visit p50 / p95, ms | next p50 / p95, ms | weight | requests |\n|---|---|---|---|---|"
_MEASURE = """() => {
  const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
  return [performance.getEntriesByName('first-contentful-paint')[0].startTime,
    all.reduce((sum, one) => sum + one.transferSize, 0), all.length];
}"""


class Visit(NamedTuple):
    """Milliseconds until first paint, bytes and requests."""

    paint: float
    bytes: int
    requests: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("home", type=Path, help="a migrated store; an administrator is created in it")
    parser.add_argument("--visits", type=int, default=10, help="visits of each page and kind")
    parser.add_argument("--only", action="append", help="only this address; repeatable")
    options = parser.parse_args()
    environment = store_environment(options.home)
    with server(environment) as hub:
        print(HEAD)
        for line in measure(hub.port, sign_in(environment), options.visits, options.only):
            print(line, flush=True)


def measure(port: int, cookie: str, visits: int, only: list[str] | None = None) -> Iterator[str]:
    """Return a line of the table for each page."""
    name, _, value = cookie.partition("=")
    base_url = f"http://127.0.0.1:{port}"

    with started() as chromium:

        def new_context() -> BrowserContext:
            context = chromium.new_context(base_url=base_url)
            context.add_cookies([{"name": name, "value": value, "url": base_url}])
            return context

        warm = new_context().new_page()
        for address in only or [*PAGES.values(), *MORE_PAGES, *first_items(warm)]:
            first = []
            for _ in range(visits):
                context = new_context()
                first.append(visit(context.new_page(), address))
                context.close()
            yield row(address, first, [visit(warm, address) for _ in range(visits)])


def first_items(page: Page) -> Iterator[str]:
    """Return the address of the first item of each list."""
    for address, links in LISTS:
        page.goto(address)
        found = [str(link.get_attribute("href")) for link in page.locator(links).all()]
        yield from [one for one in found if one.count("/") == 3 and not one.endswith("/new/")][:1]


def visit(page: Page, address: str) -> Visit:
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length")
    found: Any = page.evaluate(_MEASURE)
    return Visit(*found)


def row(address: str, first: list[Visit], after: list[Visit]) -> str:
    times = [spread([one.paint for one in visits]) for visits in (first, after)]
    weight = max(one.bytes for one in first) / 1000
    return f"| {address} | {times[0]} | {times[1]} | {weight:.0f} kB | {first[0].requests} |"


if __name__ == "__main__":
    main()
