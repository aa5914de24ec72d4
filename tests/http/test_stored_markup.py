"""Stored text stays text in every page, fragment and download, whatever its field.

``tests/browser/test_stored_markup.py`` opens the same store in a real browser.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, override_settings
from django.urls import reverse

from memoryhub.models import Memory
from tests.http import hostile_store, payloads
from tests.http.test_headers import has_headers, not_kept
from tests.http.url_walk import INVITED, PARAMETERS, Walk, body, enter

pytestmark = [pytest.mark.long, pytest.mark.django_db]

HTML = "text/html"
TEXTS = ("application/json", "application/x-ndjson", "text/markdown", "text/plain", "text/javascript")


@dataclass
class Opened:
    """The responses that the administrator of the hostile store can open: headers and faults."""

    client: Client
    kinds: dict[str, Any] = field(default_factory=dict)
    wrong: dict[str, list[str]] = field(default_factory=dict)
    unopened: list[str] = field(default_factory=list)
    fragments: set[str] = field(default_factory=set)

    def look(self, address: str, response: Any) -> None:
        self.kinds[address] = response.headers
        if found := wrong_with(response):
            self.wrong[address] = found[:3]


@pytest.fixture(scope="module")
def opened(
    tmp_path_factory: pytest.TempPathFactory,
    django_db_setup: None,
    migrated_store: Path,
    django_db_blocker: Any,
) -> Iterator[Opened]:
    """The hostile store in a database of its own, and its responses; no test changes it."""
    home = tmp_path_factory.mktemp("hostile")
    before = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = str(home / "memory.db")
    with (
        django_db_blocker.unblock(),
        override_settings(MEMORY_LOG=home / "journal.jsonl", MEMORYHUB=hostile_store.configuration()),
    ):
        shutil.copyfile(migrated_store, connection.settings_dict["NAME"])
        try:
            found = Opened(enter(hostile_store.fill()))
            walk = Walk(found.client, found.look)
            walk.pages()
            walk.admin()
            found.unopened, found.fragments = walk.unopened, walk.fragments
            yield found
        finally:
            connection.close()
            connection.settings_dict["NAME"] = before


class _Text(HTMLParser):
    """Finds the elements and attributes that only a payload creates."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            value = (value or "").strip().lower()
            if name.startswith("on") or name in ("style", "srcdoc", "background", "ping", "http-equiv"):
                self.found.append(f"<{tag} {name}={value!r}>")
            if name in ("href", "src", "action", "formaction", "xlink:href", "data", "poster"):
                self._judge_address(tag, name, value)
            if name.startswith("hx-") and "evil" in value and not value.startswith("/"):
                self.found.append(f"<{tag} {name}={value!r}>")
        if tag in ("xss-probe", "base", "iframe", "object", "embed", "math", "marquee", "plaintext", "xmp"):
            self.found.append(f"<{tag}>")

    def _judge_address(self, tag: str, name: str, value: str) -> None:
        is_link = tag == "a" and name == "href" and value.startswith(("http://", "https://", "mailto:"))
        is_own = value.startswith(("/", "#", "?", "data:image/")) and not value.startswith(("//", "/\\"))
        is_relative = tag == "a" and ":" not in value.partition("?")[0] and not value.startswith(("//", "\\"))
        if value and not (is_link or is_own or is_relative):
            self.found.append(f"<{tag} {name}={value!r}>")


def wrong_with(response: Any) -> list[str]:
    """Return what of the store became markup in this response."""
    if not response["Content-Type"].startswith(HTML):
        return []
    html = body(response)
    return [*[one for one in payloads.RAW if one in html], *_Text(html).found]


def test_every_text_field_of_every_table_contains_a_payload(opened):
    for model, name in hostile_store.texts():
        values = model._default_manager.values_list(name, flat=True)
        assert any("evil" in str(value) for value in values), f"no payload in {model.__name__}.{name}"


def test_every_payload_is_in_the_store(opened):
    assert len(set(payloads.PAYLOADS)) == len(payloads.PAYLOADS) >= 60
    everything = body(opened.client.get("/transfer/export/?whole=on"))
    for one in payloads.PAYLOADS:
        assert json.dumps(one.strip())[1:-1] in everything or json.dumps(one.strip(), ensure_ascii=False)[
            1:-1
        ] in (everything), one


def test_every_page_is_opened(opened):
    assert not opened.unopened, "no object of the hostile store opens these"
    assert len(opened.kinds) > 200


def test_no_page_renders_stored_markup(opened):
    assert not opened.wrong


def test_no_fragment_renders_stored_markup(opened):
    for page in plain(opened):
        for target in ("results", "list", "main"):
            htmx = {"HX-Request": "true", "HX-Target": target}
            assert not wrong_with(opened.client.get(page, headers=htmx)), page


def test_every_page_fragment_and_download_has_headers_and_is_not_cached(opened):
    redirects = {address: opened.client.get(address).headers for address in opened.fragments}
    for address, headers in (*opened.kinds.items(), *redirects.items()):
        assert has_headers(headers), address
        assert not_kept(headers) or address == reverse("admin:jsi18n"), address


def test_review_card_does_not_render_stored_markup(opened):
    uid = Memory.objects.live().get(title=hostile_store.EVERYTHING_TITLE).uid
    address = reverse("review-card", args=[uid])
    htmx = {"HX-Request": "true"}
    cut, whole = (opened.client.get(address, mentions, headers=htmx) for mentions in ({}, {"whole": "1"}))
    assert "evil" in body(cut)
    assert len(body(cut)) < len(body(whole))
    assert not wrong_with(cut)
    assert not wrong_with(whole)


def test_sign_in_page_does_not_render_stored_markup(opened, settings):
    settings.OIDC_ISSUER = "https://login.example/"
    mentions = []
    for user in User.objects.exclude(username__in=(hostile_store.OWNER, INVITED)):
        for client, page in (
            (enter(user), reverse("you")),
            (opened.client, reverse("person", args=[user.username])),
        ):
            response = client.get(page)
            assert response.status_code == 200
            assert not wrong_with(response), page
            mentions.append("your organisation" in body(response).lower())
    assert len(mentions) == 8
    assert all(mentions)


def plain(opened):
    """Return URLs without an object."""
    return [page for page in opened.kinds if page.count("/") <= 3 and not re.search(r"\d", page)]


def test_no_page_renders_markup_of_its_query_string(opened):
    """One value has a payload for text and one for each kind of quotation mark."""
    typed = dict.fromkeys(PARAMETERS, " ".join(map(payloads.payload, (0, 46, 47))))
    assert len(plain(opened)) > 25
    for page in plain(opened):
        for query in ({"q": typed["q"]}, typed):
            response = opened.client.get(page, query)
            assert response.status_code < 500, page
            assert not wrong_with(response), page


def test_downloads_and_json_are_never_rendered_as_pages(opened):
    others = {
        page: headers
        for page, headers in opened.kinds.items()
        if not headers["Content-Type"].startswith(HTML)
    }
    assert others
    for headers in others.values():
        assert headers["X-Content-Type-Options"] == "nosniff"
        kind = headers["Content-Type"].partition(";")[0]
        assert kind in TEXTS


def test_page_without_escaping_is_detected(opened):
    """Shows that the test above can fail."""
    client = opened.client
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.template.base.conditional_escape", str)
        patch.setattr("django.template.defaulttags.conditional_escape", str, raising=False)
        assert wrong_with(client.get("/memories/"))
        assert wrong_with(client.get("/sessions/"))
        assert wrong_with(client.get("/facts/"))
    assert not wrong_with(client.get("/memories/"))
