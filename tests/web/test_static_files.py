"""Static files: compressed if accepted, cached forever under their digest."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.test import Client

from memoryhub.web.base.static_files import file_digest

SHEET = "css/components.css"
BYTES = (Path(settings.BASE_DIR) / "static" / SHEET).read_bytes()


class Sent(NamedTuple):
    """A response that has been read to the end, which closes its file."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def get(client: Client, path: str, query: dict[str, str] | None = None, **headers: str) -> Sent:
    response = client.get(
        f"/static/{path}", query, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    body = b"".join(response.streaming_content)
    return Sent(response.status_code, response.headers, body)


def test_style_sheet_is_compressed_if_accepted(client: Client) -> None:
    sent = get(client, SHEET, accept_encoding="gzip, br")

    assert sent.headers["Content-Encoding"] == "gzip"
    assert int(sent.headers["Content-Length"]) == len(sent.body) < len(BYTES) / 2
    assert gzip.decompress(sent.body) == BYTES
    assert "Accept-Encoding" in sent.headers["Vary"]


def test_style_sheet_is_not_compressed_unless_accepted(client: Client) -> None:
    sent = get(client, SHEET)

    assert "Content-Encoding" not in sent.headers
    assert sent.body == BYTES
    assert "Accept-Encoding" in sent.headers["Vary"]


def test_font_is_not_compressed_again(client: Client) -> None:
    sent = get(client, "fonts/literata-latin-400-700.woff2", accept_encoding="gzip")

    assert "Content-Encoding" not in sent.headers
    assert "immutable" in sent.headers["Cache-Control"]


def test_range_request_returns_uncompressed_bytes(client: Client) -> None:
    sent = get(client, SHEET, accept_encoding="gzip", range="bytes=0-9")

    assert (sent.status, sent.body) == (206, BYTES[:10])


def test_url_with_the_digest_is_cached_forever(client: Client) -> None:
    assert "immutable" in get(client, SHEET, {"v": file_digest(SHEET)}).headers["Cache-Control"]


def test_url_without_a_digest_is_cached_for_an_hour(client: Client) -> None:
    assert get(client, SHEET).headers["Cache-Control"] == "max-age=3600, public"


def test_file_at_the_url_of_another_version_is_not_cached(client: Client) -> None:
    """A node that is not upgraded yet gets requests from pages of those that are."""
    assert get(client, SHEET, {"v": "0123456789"}).headers["Cache-Control"] == "no-cache"


def test_unchanged_file_is_not_sent_again(client: Client) -> None:
    first = get(client, SHEET, accept_encoding="gzip")

    again = get(client, SHEET, accept_encoding="gzip", if_none_match=first.headers["ETag"])

    assert (again.status, again.body) == (304, b"")


def test_page_is_not_compressed(admin_client: Client) -> None:
    response = admin_client.get("/memories/", {"q": "token"}, headers={"accept-encoding": "gzip"})

    assert "Content-Encoding" not in response
