"""Searches while someone types, in Chromium: ``python -m tools.bench.typed HOME``.

Types words out of titles of the store, a letter every 40 ms, and waits for the results after each word.
Prints p50 and p95 of the time from the request that typing starts to painted results, and of its part until
the response arrived. The wait for the next letter (``delay`` in ``search.html``) comes before. Needs
Playwright and Chromium (requirements-dev.txt).
"""

from __future__ import annotations

import argparse
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page

from tools.bench.figures import spread
from tools.bench.hub import server, sign_in, store_environment
from tools.bench.workloads import make_queries
from tools.screenshots.chromium import started

SAMPLE, SEED = 500, 7
LETTER_MS = 40
# A message that is posted in an animation frame arrives after the frame is painted.
_WATCH = """() => {
  window.typed = [];
  let sent = 0, arrived = 0;
  document.addEventListener('htmx:beforeSend', () => { sent = performance.now(); });
  document.addEventListener('htmx:beforeSwap', () => { arrived = performance.now(); });
  document.addEventListener('htmx:afterSettle', (event) => {
    const query = new URL(event.detail.xhr.responseURL).searchParams.get('q');
    const times = [sent, arrived];
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => window.typed.push([query, times[1] - times[0], performance.now() - times[0]]);
      port2.postMessage('');
    });
  });
}"""


class Search(NamedTuple):
    """A query and the milliseconds from its request to the response and to painted results."""

    query: str
    response: float
    painted: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("home", type=Path, help="a migrated store; an administrator is created in it")
    parser.add_argument("--queries", type=int, default=40, help="queries of one to four words")
    options = parser.parse_args()
    environment = store_environment(options.home)
    with server(environment) as hub, started() as chromium:
        base_url = f"http://127.0.0.1:{hub.port}"
        name, _, value = sign_in(environment).partition("=")
        context = chromium.new_context(base_url=base_url, bypass_csp=True)  # wait_for_function evaluates text
        context.add_cookies([{"name": name, "value": value, "url": base_url}])
        page = context.new_page()
        page.goto("/memories/")
        page.evaluate(_WATCH)
        queries = read_queries(options.home, options.queries)
        for query in queries[: len(queries) // 4]:  # warm up
            type_query(page, query)
        searches = [search for query in queries for search in type_query(page, query)]
    print(f"{len(searches)} searches, p50 / p95 in ms")
    print(f"response: {spread([one.response for one in searches])}")
    print(f"painted: {spread([one.painted for one in searches])}")


def read_queries(home: Path, count: int) -> list[str]:
    """Return queries out of titles of the store."""
    with closing(sqlite3.connect(f"file:{home / 'memory.db'}?mode=ro", uri=True)) as store:
        rows = store.execute(
            "SELECT title FROM memoryhub_memory WHERE title <> '' ORDER BY uid LIMIT ?", [SAMPLE]
        )
        return make_queries([{"title": title} for (title,) in rows], count, SEED)


def type_query(page: Page, query: str) -> list[Search]:
    """Type a query into an empty field, and return the searches that it started."""
    field = page.locator("#by_q")
    if field.input_value():
        page.evaluate("window.typed = []")
        field.fill("")
        page.wait_for_function("window.typed.length")
    page.evaluate("window.typed = []")
    words = query.split()
    for number, word in enumerate(words):
        field.press_sequentially(f" {word}" if number else word, delay=LETTER_MS)
        typed = " ".join(words[: number + 1])
        page.wait_for_function("query => window.typed.some((one) => one[0] === query)", arg=typed)
    found: list[Search] = [Search(*one) for one in page.evaluate("window.typed")]
    return found


if __name__ == "__main__":
    main()
