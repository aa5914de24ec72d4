"""Requirements for all pages: login, no caching, no inline code, accessible structure."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryPatch
from memoryhub.models import Event, Memory, Session
from memoryhub.web.memories.forms import FactForm, MemoryForm
from tests.cases import each
from tests.web.markup import Page, page

PAGES = [
    "/memories/new/",
    "/memories/{uid}/",
    "/memories/{uid}/history/",
    "/memories/{uid}/edit/",
    "/memories/{uid}/erase/",
    "/sessions/",
    "/sessions/s/",
    "/project-settings/p/",
    "/project-page/p/",
    "/project-page/p/preview/",
    "/timeline/",
    "/timeline/entries/",
    "/injections/",
    "/connect/",
    "/connect/claude-code/",
    "/connect/claude-code/snippet/",
    "/facts/",
    "/facts/?add=1",
    "/facts/graph/",
    "/facts/graph/?node=a",
    "/facts/contradictions/",
    "/things/?name=a",
    "/agents/",
    "/journal/",
    "/duplicates/",
    "/duplicates/all/",
]
POSTS = [
    "/memories/{uid}/trash/",
    "/memories/{uid}/restore/",
    "/facts/{fact}/delete/",
    "/facts/contradictions/decide/",
    "/facts/contradictions/undo/",
    "/journal/verify/",
    "/connect/claude-code/snippet/",
    "/project-settings/p/save/",
    "/project-page/p/correct/",
    "/project-page/p/settings/",
    "/project-settings/p/pause/",
    "/duplicates/decide/",
    "/duplicates/undo/",
    "/duplicates/cluster/",
]
RIGHTS = ("add_memory", "change_memory", "delete_memory", "erase_memory", "add_fact", "delete_fact")


@pytest.fixture
def names(remember: Callable[..., Memory], actor: Actor) -> dict[str, str]:
    """Content for each page."""
    memory = remember("one\ntwo", session_id="s", project="p", tags=["t"], files_read=["f.py"], overview="o")
    memories.update_memory(
        memory.uid, MemoryPatch(content="one\ntwo and three", tags=["u"], title="t"), actor
    )
    draft = FactDraft(subject="a", predicate="b", object="c", memory_id=memory.uid)
    fact, _ = services.create_fact(draft, actor)
    session = Session.objects.get(session_id="s")
    Event.objects.create(
        session=session, event="tool:post", tool_name="Edit", at=timezone.now(), files=["f.py"]
    )
    return {"uid": memory.uid, "fact": fact.uid}


@pytest.fixture
def curator(sign_in: Any) -> Client:
    client: Client = sign_in(*RIGHTS)
    return client


class TestLogin:
    def test_pages_require_a_login(self, client: Client, names: dict[str, str]) -> None:
        for path in (*PAGES, "/projects/names/"):
            response = client.get(path.format(**names))
            assert response.status_code == 302, path
            assert response["Location"].startswith("/login/?next="), path

    def test_posts_require_a_login(self, client: Client, names: dict[str, str]) -> None:
        content = "one\ntwo and three"
        for path in (*POSTS, "/facts/", "/memories/new/", "/memories/{uid}/edit/"):
            response = client.post(path.format(**names), {"word": "erase", "content": "x"})
            assert response.status_code == 302, path
            assert Memory.objects.filter(uid=names["uid"], deleted_at=None, content=content).exists(), path
            assert Memory.objects.count() == 1, path

    def test_posts_require_a_csrf_token(self, curator: Client, names: dict[str, str]) -> None:
        curator.handler.enforce_csrf_checks = True
        for path in POSTS:
            assert curator.post(path.format(**names)).status_code == 403, path


@pytest.mark.slow
class TestInvalidRequests:
    ODD = [
        "\x00",
        "'",
        '"><',
        "%",
        "_",
        "\\",
        "𝕏" * 300,
        "9" * 400,
        "-1",
        "null",
        "[]",
        "\u202e",
        " ",
        "\r\nSet-Cookie: a=b",
    ]
    QUERIES = {
        "/memories/new/": "project type session_id",
        "/memories/{uid}/history/": "before",
        "/sessions/": "q project cursor",
        "/sessions/s/": "project kind order cursor tool kept reason",
        "/timeline/": "project month",
        "/timeline/entries/": "project type session_id since until cursor",
        "/injections/": "q project session_id since until cursor",
        "/connect/arrived/": "token",
        "/connect/cursor/snippet/": "token toolset",
        "/facts/": "subject object how min_confidence project session_id cursor add memory_id",
        "/journal/": "operation actor object_id since until cursor",
        "/duplicates/": "project category similarity page",
    }

    @each("path", QUERIES)
    def test_odd_query_strings_do_not_break_pages(
        self, curator: Client, names: dict[str, str], path: str
    ) -> None:
        fields = self.QUERIES[path].split()
        # All parameters at once, and each alone, because a page may stop at the first.
        queries = [dict.fromkeys(fields, odd) for odd in self.ODD]
        queries += [{name: odd} for name in fields for odd in ("\x00", "9" * 400)]
        for query in queries:
            response = curator.get(path.format(**names), query)
            assert response.status_code in (200, 400, 404, 422), query

    def test_odd_session_ids_do_not_break_pages(self, curator: Client) -> None:
        for odd in self.ODD:
            assert curator.get(f"/sessions/{quote(odd, safe='')}/").status_code == 404, odd

    @each("path", ["/memories/new/", "/memories/{uid}/edit/", "/memories/{uid}/erase/", "/facts/"])
    def test_odd_form_values_do_not_break_forms(
        self, curator: Client, names: dict[str, str], path: str
    ) -> None:
        fields = [*MemoryForm.base_fields, *FactForm.base_fields, "word"]
        for odd in self.ODD:
            response = curator.post(path.format(**names), dict.fromkeys(fields, odd))
            assert response.status_code in (302, 422), odd

    @each("path", ["/duplicates/cluster/", "/duplicates/decide/", "/duplicates/undo/"])
    def test_odd_form_values_do_not_break_duplicates(
        self, curator: Client, names: dict[str, str], path: str
    ) -> None:
        form = {"do": "merge", "keep": names["uid"], "uid": "x"}
        fields = "member keep uid warned begun content seen do merge apart next".split()
        changes = [dict.fromkeys(fields, odd) for odd in self.ODD]
        changes += [{name: odd} for name in fields for odd in ("\x00", "9" * 400)]
        for change in changes:
            assert curator.post(path, {**form, **change}).status_code in (302, 404), change

    def test_longest_content_fits_into_a_request(self, curator: Client) -> None:
        curator.post(
            "/memories/new/",
            {"content": "𝕏" * 100_000, "type": "fact", "sensitivity": "public", "scope": "team"},
        )
        assert Memory.objects.get().content == "𝕏" * 100_000


def check_caching(response: Any) -> None:
    """Pages are not stored, least of all in a shared cache."""
    assert "no-store" in response["Cache-Control"]
    assert "private" in response["Cache-Control"]


def check_inline_code(response: Any) -> None:
    """No scripts, styles or handlers in the page."""
    for tag, attributes in page(response).elements:
        assert tag != "style"
        assert tag != "script" or attributes.get("src")
        assert not [name for name in attributes if name == "style" or name.startswith(("on", "hx-on"))]


def check_headings(response: Any) -> None:
    """One first heading, and no level is skipped."""
    levels = [int(tag[1]) for tag, _ in page(response).elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def check_names_of_controls(response: Any) -> None:
    """Each visible control has a label."""
    found = page(response)
    labels = {label.get("for") for label in found.all("label")}
    for tag in ("input", "select", "textarea"):
        for control in found.all(tag):
            if control.get("type") not in ("hidden", "submit"):
                assert control.get("id") in labels or "aria-label" in control, control


def check_ids(response: Any) -> None:
    """Ids are unique."""
    ids = [attributes["id"] for _, attributes in page(response).elements if "id" in attributes]
    assert len(ids) == len(set(ids)), {one for one in ids if ids.count(one) > 1}


def check_tables(response: Any) -> None:
    """Tables have captions and scoped headers."""
    found = page(response)
    assert len(found.all("caption")) == len(found.all("table"))
    assert all(head.get("scope") for head in found.all("th"))


def check_aria_targets(response: Any) -> None:
    """Each description and label that a page refers to exists."""
    elements: Page = page(response)
    ids = {attributes.get("id") for _, attributes in elements.elements}
    for _, attributes in elements.elements:
        for name in ("aria-describedby", "aria-labelledby"):
            assert set(attributes.get(name, "").split()) <= ids


CHECKS = (
    check_caching,
    check_inline_code,
    check_headings,
    check_names_of_controls,
    check_ids,
    check_tables,
    check_aria_targets,
)


@each("path", PAGES)
def test_every_page_is_private_accessible_and_without_inline_code(
    curator: Client, names: dict[str, str], path: str
) -> None:
    response = curator.get(path.format(**names))
    assert response.status_code == 200
    for check in CHECKS:
        check(response)
