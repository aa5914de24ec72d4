"""The size of a page: its own bytes and those of everything it loads, with an empty browser cache."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from django.conf import settings
from django.test import Client
from playwright.sync_api import Page

MAX_PAGE_BYTES = 250_000
# The size of a body as it was sent, whether it came from the hub or from the cache.
LOADED_RESOURCES = """() => ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
  .map((one) => [one.name, one.encodedBodySize])"""


def loaded_bytes(page: Page) -> dict[str, int]:
    """Return the bytes of each address, compressed as the hub serves them (the live server does not)."""
    found = {}
    for address, size in page.evaluate(LOADED_RESOURCES):
        path = urlsplit(address).path
        found[address] = _served_size(path) if path.startswith(settings.STATIC_URL) else size
    return found


@lru_cache
def _served_size(path: str) -> int:
    """Bytes of a static file for a browser that takes it compressed."""
    response = Client().get(path, headers={"accept-encoding": "gzip"})
    assert response.status_code == 200, path
    return len(response.getvalue())
