"""The size of a page: its own bytes and those of everything it loads, with an empty browser cache."""

from __future__ import annotations

from playwright.sync_api import Page

MAX_PAGE_BYTES = 250_000
MAX_FIRST_VISIT_BYTES = 120_000  # of Home and the sign-in page of the demo
MAX_REQUESTS = 12
# The size of a body as it was sent, whether it came from the hub or from the cache.
LOADED_RESOURCES = """() => ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
  .map((one) => [one.name, one.encodedBodySize])"""


def loaded_bytes(page: Page) -> dict[str, int]:
    """Return the bytes of each address, as the hub sent them."""
    return dict(page.evaluate(LOADED_RESOURCES))
