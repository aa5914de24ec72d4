"""Cross-site forms have no effect, and redirects stay on this site."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from memoryhub.models import Memory
from tests.cases import each
from tests.http.url_walk import enter, patterns

ELSEWHERE = [
    "https://evil.example/",
    "//evil.example/",
    "///evil.example/",
    "/\\evil.example/",
    "\\\\evil.example/",
    "http:evil.example",
    "https:///evil.example",
    "javascript" + ":alert(1)",
    "data:text/html,evil",
    " //evil.example",
    "/\t/evil.example",
    "\x01https://evil.example",
    "//testserver@evil.example/",
    "https://testserver.evil.example/",
]
# Their callers send a token, or the check follows once the size of the file is known.
EXEMPT = ("api/v1/", "^mcp", "transfer/import/")
LEADING = ("Location", "HX-Redirect", "HX-Location", "HX-Push-Url", "HX-Replace-Url")


@pytest.fixture
def boss(db):
    return User.objects.create_superuser("boss", password="a good password")


def addresses(value="1"):
    """Return every URL with values for its arguments."""
    for address, pattern in patterns():
        path = re.sub(r"<[^>]+>", value, re.sub(r"<int:[^>]+>", "1", address))
        if not re.search(r"[(?*]", path):
            yield "/" + path.strip("^$"), address, pattern


def test_only_agent_endpoints_are_csrf_exempt():
    exempt = {address for address, pattern in patterns() if getattr(pattern.callback, "csrf_exempt", False)}
    assert {one for one in exempt if not one.startswith(EXEMPT)} <= {"healthz", "readyz"}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["post", "delete"])
def test_cross_site_form_is_refused_on_every_page(boss, remember, method):
    memory = remember("hay")
    client = Client(enforce_csrf_checks=True)
    client.force_login(boss)
    asked = 0
    for path, address, _ in addresses(memory.uid):
        if address.startswith(("api/v1/", "healthz", "readyz")):
            continue
        asked += 1
        response = getattr(client, method)(
            path, {"uid": memory.uid, "act": "trash"} if method == "post" else ""
        )
        assert response.status_code in (403, 405), (path, response.status_code)
        assert response.status_code == 403 or method != "post" or path == "/transfer/import/", path
    assert asked > 60
    assert Memory.objects.live().count() == 1


def test_browser_session_does_not_authenticate_agent_endpoints(boss):
    """Otherwise a cross-site form, which sends the cookie, would have an effect."""
    client = enter(boss)
    for path, address, _ in addresses():
        if address.startswith("api/v1/") and not address.endswith(
            ("healthz", "readyz", "openapi.json", "docs")
        ):
            for method in ("get", "post", "patch", "delete"):
                response = getattr(client, method)(path)
                assert response.status_code in (401, 404, 405), (method, path, response.status_code)
    assert client.post("/mcp/letsgo", "{}", content_type="application/json").status_code == 401


def test_form_of_this_site_is_accepted(boss):
    client = Client(enforce_csrf_checks=True)
    client.force_login(boss)
    page = client.get("/").content.decode()
    [token, *_] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    sent = {"level": "secret", "on": "1", "csrfmiddlewaretoken": token}
    assert client.post("/switch/", sent).status_code == 302
    foreign = client.post("/switch/", sent, headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403


def stays_here(response):
    for name in LEADING:
        where = response.headers.get(name, "")
        parts = urlsplit(where.strip())
        assert parts.scheme in ("", "http", "https"), where
        assert parts.netloc in ("", "testserver"), where
        assert not re.match(r"[\s\x00-\x1f]*[/\\][\s\x00-\x1f]*[/\\]", where), where
    return True


@pytest.mark.slow
def test_no_redirect_points_to_another_site(boss, remember):
    """The second address is sent only to URLs that lead somewhere with the first."""
    memory = remember("hay")
    paths = [path for path, _, _ in addresses(memory.uid) if not path.startswith(("/api/", "/admin/"))]
    for client in (enter(boss), Client()):
        leading = paths
        for elsewhere in ("//evil.example/", "/\\evil.example/"):
            params = dict.fromkeys(("next", "back", "url", "redirect", "return_to", "from"), elsewhere)
            headers = {"HX-Current-URL": elsewhere, "HX-Request": "true"}
            responses = {path: client.get(path, params, headers=headers) for path in leading}
            assert all(stays_here(response) for response in responses.values())
            leading = [path for path, response in responses.items() if any(map(response.has_header, LEADING))]
            assert leading


@each("elsewhere", ELSEWHERE)
def test_next_parameter_must_be_a_page_of_this_hub(boss, remember, elsewhere):
    forms = [
        ("switch", {"level": "private", "on": "1"}),
        ("act", {"act": "trash"}),
        ("duplicates-decide", {"decision": "apart"}),
        ("duplicates-undo", {}),
        ("fact-decide", {}),
        ("fact-undo", {}),
    ]
    client = enter(boss)
    led = 0
    for name, fields in forms:
        memory = remember(f"hay for {name}")
        response = client.post(reverse(name), {**fields, "uid": memory.uid, "next": elsewhere})
        assert response.status_code < 500
        assert stays_here(response), name
        led += "Location" in response
    assert led >= 2
    entering = Client().post(f"/login/?next={elsewhere}", {"username": "boss", "password": "a good password"})
    assert entering.status_code == 302
    assert stays_here(entering)
    assert stays_here(client.post("/logout/", {"next": elsewhere}))


@each(
    "path",
    [
        "//evil.example",
        "//evil.example/memories",
        "/%5Cevil.example",
        "/\\evil.example",
        "///evil.example/..",
    ],
)
def test_missing_slash_redirects_within_the_site(boss, path):
    for client in (enter(boss), Client()):
        assert stays_here(client.get(path))
