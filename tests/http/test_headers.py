"""Security headers of every response."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders
from django.test import Client

from memoryhub.http.middleware import SECURITY_HEADERS
from tests.cases import each
from tests.csp import parse_policy
from tests.http.url_walk import patterns

ROOT = str(django_settings.BASE_DIR)


@pytest.fixture
def boss(db):
    return User.objects.create_superuser("boss", password="a good password")


def is_guarded(response):
    for close in response._resource_closers:  # files; response.close() would end the test's transaction too
        close()
    return has_headers(response.headers)


def has_headers(headers):
    for name in SECURITY_HEADERS:
        assert headers.get(name), f"no {name}"
    allowed = parse_policy(headers)
    assert allowed["default-src"] == allowed["base-uri"] == allowed["frame-ancestors"] == ["'none'"]
    for name, sources in allowed.items():
        assert set(sources) <= {"'none'", "'self'", "data:"}, (name, sources)
        assert "data:" not in sources or name == "img-src"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Opener-Policy"] == headers["Cross-Origin-Resource-Policy"] == "same-origin"
    return True


def not_kept(response):
    return "no-store" in response["Cache-Control"]


@each("method", ["get", "post", "put", "delete", "head", "options", "trace"])
def test_every_url_has_headers_for_anonymous_visitors(db, method):
    client = Client(raise_request_exception=False)
    for address, pattern in patterns():
        if pattern.pattern.converters or "(" in address or "<" in address:
            continue
        response = getattr(client, method)("/" + address.strip("^$"))
        assert response.status_code < 500, address
        assert is_guarded(response), address
        assert not_kept(response), address


@each(
    "path, status",
    [
        ("/nowhere/", 404),
        ("/memories", 301),
        ("/memories/", 302),
        ("/memories/nothing/", 302),
        ("/api/v1/nothing", 404),
        ("/api/v1/memories", 401),
        ("/mcp/letsgo", 405),
        ("/healthz", 200),
        ("/static/nothing.js", 404),
        ("/admin/", 302),
        ("/favicon.ico", 404),
        ("//evil.example/%2e%2e", 404),
    ],
)
def test_errors_and_redirects_have_headers(db, path, status):
    response = Client().get(path)
    assert response.status_code in (status, 302 if status == 301 else status)
    assert is_guarded(response)
    assert not_kept(response)


def test_bad_host_csrf_failure_and_server_error_have_headers(boss, monkeypatch):
    assert is_guarded(Client().get("/", headers={"Host": "evil.example"}))
    strict = Client(enforce_csrf_checks=True, raise_request_exception=False)
    strict.force_login(boss)
    refused = strict.post("/switch/", {"level": "secret"})
    assert refused.status_code == 403
    assert is_guarded(refused)
    monkeypatch.setattr("memoryhub.web.memories.views.search_memories", None)
    broken = strict.get("/memories/?q=x")
    assert broken.status_code == 500
    assert is_guarded(broken)


def test_static_files_have_headers_and_may_be_cached(db):
    for path in ("css/base.css", "js/hub.js", "img/icon.svg", "fonts/literata-latin-400-700.woff2"):
        assert finders.find(path)
        response = Client().get(f"/static/{path}")
        assert response.status_code == 200
        assert is_guarded(response)
        assert "max-age" in response["Cache-Control"]
        assert parse_policy(response) == {**parse_policy(response), "form-action": ["'none'"]}


def test_pages_load_only_from_the_hub_and_run_no_inline_script(db):
    allowed = parse_policy(Client().get("/login/"))
    assert allowed["script-src"] == allowed["style-src"] == allowed["connect-src"] == ["'self'"]
    assert allowed["form-action"] == ["'self'"]
    assert not {"object-src", "frame-src", "worker-src", "media-src"} & set(allowed)  # so 'none', by default


def test_policy_of_pages_has_its_directives_in_the_order_of_the_settings(db, settings):
    shown = list(parse_policy(Client().get("/login/")))
    assert shown == [name for name in settings.CONTENT_SECURITY_POLICY["DIRECTIVES"] if name in shown]
    assert len(shown) == 10
    assert list(parse_policy(Client().get("/nowhere/"))) == shown


def test_other_responses_may_load_nothing(db):
    for path in ("/static/img/icon.svg", "/static/css/base.css", "/healthz", "/api/v1/memories"):
        response = Client().get(path)
        assert is_guarded(response)
        assert set(map(tuple, parse_policy(response).values())) == {("'none'",)}


def started(code, **environment):
    """Return the JSON output of a new process with these settings."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MEMORYHUB_", "LETSGO_", "DJANGO_"))}
    environ = {**clean, "DJANGO_SETTINGS_MODULE": "memoryhub.settings", **environment}
    done = subprocess.run(
        [sys.executable, "-c", f"import django, json; django.setup(); {code}"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_cookies_are_secure_and_host_only_behind_tls(migrated_home):
    names = "SESSION_COOKIE_SECURE CSRF_COOKIE_SECURE SESSION_COOKIE_HTTPONLY CSRF_COOKIE_HTTPONLY"
    code = (
        "from django.conf import settings as s; from django.test import Client;"
        "s.PASSWORD_HASHERS = ['django.contrib.auth.hashers.MD5PasswordHasher'];"  # a second less
        "from django.core.management import call_command; call_command('migrate', verbosity=0);"
        "from django.contrib.auth.models import User; User.objects.create_user('ada', password='pw');"
        "c = Client(headers={'host': 'hub.example', 'x-forwarded-proto': 'https'});"
        "page = c.get('/login/'); entered = c.post('/login/', {'username': 'ada', 'password': 'pw'});"
        "plain = Client(headers={'host': 'hub.example'}).get('/login/');"
        "cookies = [one.OutputString() for r in (page, entered) for one in r.cookies.values()];"
        "print(json.dumps({'cookies': cookies, 'plain': [plain.status_code, plain['Location']],"
        "'hsts': page['Strict-Transport-Security'], 'csp': page['Content-Security-Policy'],"
        f"'flags': [getattr(s, n) for n in '{names}'.split()]}}))"
    )
    output = started(
        code,
        LETSGO_HOME=str(migrated_home),
        MEMORYHUB_EMBEDDINGS="none",
        MEMORYHUB_HTTPS="1",
        MEMORYHUB_BEHIND_PROXY="1",
        MEMORYHUB_ALLOWED_HOSTS="hub.example",
    )
    assert output["flags"] == [True] * 4
    assert output["plain"] == [301, "https://hub.example/login/"]
    assert output["hsts"] == "max-age=31536000; includeSubDomains; preload"
    assert "upgrade-insecure-requests" in output["csp"]
    assert {cookie.partition("=")[0] for cookie in output["cookies"]} == {
        "__Host-csrftoken",
        "__Host-sessionid",
    }
    for cookie in output["cookies"]:
        attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert {"secure", "httponly", "path=/", "samesite=lax"} <= attributes, cookie
        assert not any(part.startswith("domain") for part in attributes)


def test_cookies_work_on_loopback_without_tls(db):
    response = Client().get("/login/")
    assert "Strict-Transport-Security" not in response
    assert "upgrade-insecure-requests" not in response["Content-Security-Policy"]
    cookie = response.cookies["csrftoken"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert not cookie["secure"]
