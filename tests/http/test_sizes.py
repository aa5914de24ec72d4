"""Input that is too large, too deep or too long is refused before it is processed."""

from __future__ import annotations

import gzip
import json
from io import BytesIO

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.test.client import MULTIPART_CONTENT

from tests.cases import each
from tests.http.url_walk import enter

JSON = "application/json"
ENDPOINTS = ["/api/v1/memories", "/api/v1/search", "/api/v1/tools/letsgo/store_memory", "/mcp/letsgo"]
HOOK = "/api/v1/hooks/claude-code"


@pytest.fixture
def agent(token):
    return Client(headers={"Authorization": f"Bearer {token()}"})


@pytest.fixture
def person(db):
    return enter(User.objects.create_superuser("boss", password="a good password"))


@each("path", [*ENDPOINTS, HOOK])
@each("length", [None, "9" * 5000])
def test_large_body_is_refused_before_it_is_read(agent, path, length):
    class Unread(BytesIO):
        def read(self, *args):
            raise AssertionError("the body was read")

    extra = length or str(settings.MEMORYHUB.max_body_bytes + 1)
    response = agent.generic("POST", path, b"", JSON, CONTENT_LENGTH=extra, **{"wsgi.input": Unread()})
    assert response.status_code == 413
    assert response.json()["code"] == "body_too_large"


@each("path", [*ENDPOINTS, HOOK])
@each("nested", [b"[" * 100_000, b'{"a":' * 50_000 + b"1" + b"}" * 50_000])
def test_deeply_nested_json_is_refused(agent, path, nested):
    assert agent.post(path, nested, JSON).status_code == 400


@each("path", [*ENDPOINTS, HOOK])
def test_compressed_body_is_never_unpacked(agent, path):
    bomb = gzip.compress(b" " * 5_000_000 + b"{}")
    for encoding in ("gzip", "deflate", "br", "zstd", "GZIP, identity"):
        response = agent.post(path, bomb, JSON, headers={"Content-Encoding": encoding})
        assert response.status_code == 415
        assert response.json()["code"] == "unsupported_encoding"
    plain = agent.post(path, b"{}", JSON, headers={"Content-Encoding": "identity"})
    assert plain.status_code != 415


def test_number_with_too_many_digits_is_refused(agent):
    body = b'{"content": "x", "importance": ' + b"9" * 10_000 + b"}"
    assert agent.post("/api/v1/memories", body, JSON).status_code in (400, 422)


def test_list_with_too_many_items_is_refused(agent):
    body = json.dumps({"content": "x", "tags": [str(n) for n in range(1001)]})
    assert agent.post("/api/v1/memories", body, JSON).status_code == 422


@pytest.mark.parametrize("kind", [MULTIPART_CONTENT, "application/x-www-form-urlencoded"])
def test_form_with_too_much_text_is_refused(person, kind):
    body = b"content=" + b"x" * settings.MEMORYHUB.max_body_bytes
    response = person.generic("POST", "/memories/new/", body, kind)
    assert response.status_code == 413
    assert b"<html" in response.content


def test_form_with_too_many_fields_is_refused(person):
    fields = {f"field{n}": "x" for n in range(settings.DATA_UPLOAD_MAX_NUMBER_FIELDS + 1)}
    body = "&".join(f"{name}={value}" for name, value in fields.items())
    response = person.post("/switch/", body, "application/x-www-form-urlencoded")
    assert response.status_code == 400


def test_form_with_too_many_files_is_refused(person):
    files = {f"file{n}": SimpleUploadedFile("a.jsonl", b"x") for n in range(5)}
    assert person.post("/transfer/import/", {"do": "run", **files}).status_code == 400


def test_query_string_with_too_many_fields_is_refused(person):
    assert person.get("/memories/?" + "&".join(["tag=x"] * 5000)).status_code == 400


def test_large_file_is_refused_before_it_is_stored(agent, person, configure):
    configure(max_upload_mb=1)
    extra = {"CONTENT_LENGTH": str(3 * 1024 * 1024), "wsgi.input": BytesIO()}
    assert agent.generic("POST", "/api/v1/import", b"", "application/x-ndjson", **extra).status_code == 413
    assert (
        person.generic(
            "POST", "/transfer/import/", b"", "multipart/form-data; boundary=b", **extra
        ).status_code
        == 413
    )


LARGE_FORM = {"CONTENT_LENGTH": "90000000", "CONTENT_TYPE": "multipart/form-data; boundary=b"}


LARGE_FORM = {"CONTENT_LENGTH": "90000000", "CONTENT_TYPE": "multipart/form-data; boundary=b"}


class Unread(BytesIO):
    """A body that never arrives completely: reading it would block forever."""

    def read(self, size=-1):
        pytest.fail("it is read")


@each(
    "path, refused",
    [
        *((path, [413]) for path in ("/login/", "/memories/new/", "/admin/login/", "/nowhere/")),
        ("/transfer/import/", [302]),  # to the login
    ],
)
def test_large_anonymous_form_is_refused_before_it_is_read(db, path, refused):
    """Even with a CSRF cookie, which anyone can get: the CSRF check would read the form."""
    stranger = Client(enforce_csrf_checks=True)
    stranger.get("/login/")
    assert stranger.generic("POST", path, **LARGE_FORM, **{"wsgi.input": Unread()}).status_code in refused


@pytest.mark.slow
def test_large_form_is_read_only_for_the_import(person):
    extra = {**LARGE_FORM, "wsgi.input": Unread()}
    assert person.generic("POST", "/memories/new/", **extra).status_code == 413
    large = SimpleUploadedFile("a.jsonl", b'{"content": "hay"}\n' + b"\n" * settings.MEMORYHUB.max_body_bytes)
    assert person.post("/transfer/import/", {"file": large, "do": "dry_run"}).status_code == 302


def test_malformed_form_is_refused(person):
    for body in (b"", b"--b", b"--b\r\nContent-Disposition: form-data; name=\r\n\r\n", b"\xff" * 100):
        response = person.generic("POST", "/transfer/import/", body, "multipart/form-data; boundary=b")
        assert 400 <= response.status_code < 500
