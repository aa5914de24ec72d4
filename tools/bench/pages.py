"""First paint and weight of the pages in Chromium: ``python -m tools.bench.pages HOME``.

Each page is opened again and again by a browser that keeps nothing (a first visit) and by one that keeps what
it may (the next). First paint is the browser's own first-contentful-paint, counted from the click; weight is
what came over the wire, with headers, until the network was quiet: page, styles, scripts, fonts, fragments.
Needs Playwright and Chromium (requirements-dev.txt).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, BrowserContext, Page

from tools.bench.figures import percentile
from tools.bench.hub import NAME, PASSWORD, make_account, manage, server, store_environment
from tools.screenshots.chromium import started

SEARCH = "/search/?q=index+of+the+tests"
PAGES = (
    "/",
    SEARCH,
    "/memories/",
    "/timeline/",
    "/sessions/",
    "/journal/",
    "/facts/",
    "/facts/graph/",
    "/facts/contradictions/",
    "/glance/",
    "/review/",
    "/duplicates/",
    "/trash/",
    "/injections/",
    "/maintenance/",
    "/preview/",
    "/transfer/",
    "/people/",
    "/you/",
)
# Lists of which the first item's page is measured too: the list, the part of its addresses that tells it.
FIRST_OF = (("/memories/", "main a[href^='/memories/']"), ("/sessions/", "main a[href^='/sessions/']"))
HEAD = "  page: first paint at a first visit and at the next (ms), weight of the first"
MOST_KB, MOST_MS = 250, 500  # what a page may weigh; within which home and search have painted
_PAINT = """() => {
  const [paint] = performance.getEntriesByName('first-contentful-paint');
  const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
  return {paint: paint ? paint.startTime : null, requests: all.length,
    answer: performance.getEntriesByType('navigation')[0].responseEnd,
    bytes: all.reduce((sum, one) => sum + one.transferSize, 0)};
}"""


class Visit(NamedTuple):
    """Milliseconds until the page had come and until something was painted; what was loaded, in bytes."""

    answer: float
    paint: float
    bytes: int
    requests: int


class Figures(NamedTuple):
    """Of one page; each of the visits of one kind."""

    address: str
    first: list[Visit]
    again: list[Visit]

    @property
    def kilobytes(self) -> float:
        return max(visit.bytes for visit in self.first) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("home", type=Path, help="a migrated store of nobody's; an account is made in it")
    parser.add_argument("--visits", type=int, default=10, help="of each page, with and without a cache")
    parser.add_argument("--only", action="append", help="this address alone; may be given again")
    parser.add_argument("--write", action="store_true", help="a memory is stored before each first visit")
    options = parser.parse_args()
    environment = store_environment(options.home)
    with server(environment) as hub:
        print(HEAD)
        for one in measure(environment, hub.port, options.visits, options.only, write=options.write):
            report(one)


def measure(
    environment: dict[str, str], port: int, visits: int, only: list[str] | None = None, *, write: bool = False
) -> Iterator[Figures]:
    """Every page of a server that runs, by an account of an administrator.

    ``write``: a memory is stored before each first visit, so that nothing that was counted holds any more.
    """
    make_account(environment)
    with started() as chromium:
        context = chromium.new_context(base_url=f"http://127.0.0.1:{port}")
        kept = signed_in(context)
        addresses = only or [*PAGES, *first_items(kept)]
        state = context.storage_state()
        for address in addresses:
            first = []
            for _ in range(visits):
                if write:
                    store_one(environment)
                first.append(fresh(chromium, port, state, address))
            yield Figures(address, first, [visit(kept, address) for _ in range(visits)])


def store_one(environment: dict[str, str]) -> None:
    """A memory more; then time for what the hub does with what is new."""
    code = (
        "from memoryhub import memories as store\nfrom memoryhub.memories.schemas import MemoryDraft\n"
        "from memoryhub.models.fields import new_uid\nfrom memoryhub.access.policy import system_actor\n"
        "store.create_memory(MemoryDraft(content=f'benchmark {new_uid()}'), system_actor('bench'))"
    )
    manage(environment, "shell", "--no-imports", "-c", code)
    time.sleep(1.5)


def signed_in(context: BrowserContext) -> Page:
    page = context.new_page()
    page.goto("/login/")
    page.fill("[name=username]", NAME)
    page.fill("[name=password]", PASSWORD)
    page.click("main [type=submit]")
    page.wait_for_url("**/")
    return page


def first_items(page: Page) -> Iterator[str]:
    for address, links in FIRST_OF:
        page.goto(address)
        found = [str(link.get_attribute("href")) for link in page.locator(links).all()]
        yield from [one for one in found if one.count("/") == 3 and not one.endswith("/new/")][:1]


def fresh(chromium: Browser, port: int, state: Any, address: str) -> Visit:
    """A first visit: nothing is cached but that one is signed in."""
    context = chromium.new_context(base_url=f"http://127.0.0.1:{port}", storage_state=state)
    try:
        return visit(context.new_page(), address)
    finally:
        context.close()


def visit(page: Page, address: str) -> Visit:
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
    found = page.evaluate(_PAINT)
    return Visit(found["answer"], found["paint"], found["bytes"], found["requests"])


def report(one: Figures) -> None:
    """A line; what is beyond an aim has a mark."""
    first, again = [
        [percentile([visit.paint for visit in visits], share) for share in (0.5, 0.95)]
        for visits in (one.first, one.again)
    ]
    answer = statistics.median(visit.answer for visit in one.first)
    late = one.address in ("/", SEARCH) and first[0] > MOST_MS
    mark = " SLOW" * late + " HEAVY" * (one.kilobytes > MOST_KB)
    print(
        f"  {one.address[:34]:34} p50 {first[0]:5.0f} p95 {first[1]:5.0f}   again p50 {again[0]:5.0f}"
        f" p95 {again[1]:5.0f}   the page itself {answer:5.0f}   {one.kilobytes:4.0f} kB in"
        f" {one.first[0].requests:2} requests{mark}",
        flush=True,
    )


if __name__ == "__main__":
    main()
