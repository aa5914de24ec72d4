"""Every API error is a problem, whatever layer it comes from; pages keep HTML errors."""

import io
import json

import pytest
from django.core.signals import request_started
from django.core.wsgi import get_wsgi_application
from django.db import OperationalError, close_old_connections
from django.test import Client

from memoryhub import memories
from memoryhub.http.problems import Problem
from tests.api.conftest import Agent, bad_fields, is_problem
from tests.cases import each

BROKEN = {
    "nothing closed": b'{"content": "x"',
    "not json": b"content=x",
    "NaN": b'{"content": "x", "importance": NaN}',
    "Infinity": b'{"content": "x", "importance": -Infinity}',
    "not UTF-8": b'{"content": "\xff\xfe"}',
    "UTF-16": '{"content": "x"}'.encode("utf-16"),
    "lone surrogate": b'{"content": "\\ud800"}',
    "lone surrogate in a name": b'{"content": "x", "\\udfff": 1}',
    "surrogates in the wrong order": b'{"content": "\\udc00\\ud800"}',
    "a name twice": b'{"content": "x", "content": "y"}',
    "a name twice, deeper": b'{"content": "x", "entities": [{"entity": "a", "entity": "b"}]}',
    "bottomless arrays": b"[" * 100_000,
    "bottomless objects": b'{"a":' * 50_000,
    "a number of too many digits": b'{"content": "x", "importance": ' + b"9" * 5000 + b"}",
    "two values": b"{} {}",
    "a comment": b'{"content": "x"} // y',
    "a NUL": b'{"content": "x"}\x00',
}


@each("body", BROKEN.values())
def test_invalid_json_is_400_and_not_repeated(bot, body):
    for path in ("/memories", "/search", "/tools/letsgo/store_memory"):
        problem = is_problem(bot.raw_post(path, body), 400, "not_json")
        assert "content" not in problem["detail"]


@each(
    "body",
    [
        b'{"content": "x", "importance": 1e400}',
        b'{"content": "x", "discovery_tokens": 1e400}',
        b'{"content": "x", "ttl_days": -1e400}',
        b'{"content": "x", "created_at": 1e400}',
        b'{"content": "x", "created_at": -99999999999999}',
    ],
)
def test_number_out_of_range_is_422(bot, body):
    is_problem(bot.raw_post("/memories", body), 422)


CUT = "We decided to cut \ud83d off, as it is long."  # half of an emoji


@each(
    "path, body",
    [
        (
            "/hooks/codex",
            {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": CUT},
        ),
        ("/events", {"event": "prompt:submit", "session_id": "s", "data": {"prompt": CUT}}),
        (
            "/extract",
            {"messages": [{"role": "user", "content": CUT}]},
        ),
    ],
)
def test_text_that_an_agent_cut_inside_of_a_character_is_accepted(bot, path, body):
    assert bot.raw_post(path, json.dumps(body).encode()).status_code == 200


def test_surrogate_pair_is_a_character(bot):
    assert bot.raw_post("/memories", b'{"content": "\\ud83e\\udd93"}').json()["memory"]["content"] == "🦓"


@each(
    "content_type",
    [
        *(
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "application/xml",
        ),
        *("application/json; charset=latin-1", "application/jsonp", ""),
    ],
)
def test_body_of_another_type_is_415(bot, content_type):
    is_problem(bot.raw_post("/memories", b'{"content": "x"}', content_type), 415, "unsupported_media_type")


@each("content_type", ["application/json; charset=UTF-8", "Application/JSON", "application/vnd.hub+json"])
def test_json_with_other_media_types_is_accepted(bot, content_type):
    assert bot.raw_post("/memories", b'{"content": "x"}', content_type).status_code == 201


@each(
    "path",
    [
        *("/api", "/api/", "/api/v1", "/api/v1/", "/api/v2/memories", "/api/v1/nothing", "/api/v1/memories/"),
        *("/api/v1/memories/x/", "/api/v1/memories/x/history/", "/api/v1//memories", "/api/v1/tools/letsgo/"),
        *("/api/v1/search/", "/mcp/letsgo/nothing", "/api/v1/a%00b", "/api/<script>"),
    ],
)
def test_an_unknown_path_is_404(bot, path):
    problem = is_problem(bot.http.get(path), 404)
    assert "script" not in json.dumps(problem)


@each(
    "method, path, allowed",
    [
        ("PUT", "/memories", "GET, HEAD, POST"),
        ("DELETE", "/memories", "GET, HEAD, POST"),
        ("PUT", "/memories/x", "DELETE, GET, HEAD, PATCH"),
        ("GET", "/memories/batch", "POST"),
        ("GET", "/memories/x/restore", "POST"),
        ("POST", "/stats", "GET, HEAD"),
        ("PATCH", "/facts", "GET, HEAD, POST"),
        ("DELETE", "/journal", "GET, HEAD"),
        ("OPTIONS", "/search", "GET, HEAD, POST"),
        ("TRACE", "/search", "GET, HEAD, POST"),
        ("BREW", "/timeline", "GET, HEAD"),
        ("GET", "/tools/letsgo/store_memory", "POST"),
        ("POST", "/healthz", "GET, HEAD"),
        ("POST", "/openapi.json", "GET, HEAD"),
    ],
)
def test_method_not_allowed_is_405_with_the_allowed_ones(bot, method, path, allowed):
    response = bot.http.generic(method, f"/api/v1{path}")
    is_problem(response, 405, "method_not_allowed")
    assert ", ".join(sorted(response["Allow"].split(", "))) == allowed


def test_a_body_over_the_limit_is_413(bot, configure):
    configure(max_body_bytes=1024)
    is_problem(bot.post("/memories", {"content": "x" * 1100}), 413, "body_too_large")
    assert bot.post("/memories", {"content": "x" * 900}).status_code == 201


def through_wsgi(bot, body, **environment):
    """Send a request through WSGI, for requests that the test client cannot make."""
    answer = {}
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/api/v1/memories",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "HTTP_HOST": "localhost",
        "HTTP_AUTHORIZATION": f"Bearer {bot.raw}",
        "CONTENT_TYPE": "application/json",
        "wsgi.input": io.BytesIO(body),
        "wsgi.url_scheme": "http",
        **environment,
    }
    request_started.disconnect(close_old_connections)  # it would end the test's transaction
    try:
        response = get_wsgi_application()(environ, lambda status, headers: answer.update(status=status))
    finally:
        request_started.connect(close_old_connections)
    content = b"".join(response)
    return int(answer["status"].split()[0]), json.loads(content)


CHUNKED = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}


def test_chunked_body_is_read(bot):
    status, body = through_wsgi(bot, b'{"content": "in chunks"}', **CHUNKED)
    assert (status, body["memory"]["content"]) == (201, "in chunks")


def test_chunked_body_over_the_limit_is_413(bot, configure):
    configure(max_body_bytes=1024)
    status, body = through_wsgi(bot, json.dumps({"content": "x" * 1100}).encode(), **CHUNKED)
    assert (status, body["code"]) == (413, "body_too_large")


def test_incomplete_body_is_400(bot):
    class Broken(io.BytesIO):
        def read(self, *args):
            raise OSError("the client is gone")

    for extra in (CHUNKED, {"CONTENT_LENGTH": "50"}):
        status, body = through_wsgi(bot, b"", **{**extra, "wsgi.input": Broken()})
        assert (status, body["code"]) == (400, "unreadable_body")


def test_an_unknown_host_is_400(bot):
    problem = is_problem(bot.http.get("/api/v1/memories", headers={"Host": "evil.example"}), 400)
    assert "evil" not in json.dumps(problem)


@pytest.mark.parametrize("message", ["database is locked", "database table is locked", "SQLITE_BUSY: busy"])
def test_busy_database_is_503_with_retry_after(bot, monkeypatch, message):
    def locked(*args, **kwargs):
        raise OperationalError(message)

    monkeypatch.setattr(memories, "create_memory", locked)
    response = bot.post("/memories", {"content": "x"})
    is_problem(response, 503, "database_busy")
    assert int(response["Retry-After"]) >= 1


def test_other_database_failure_is_503_without_its_message(bot, monkeypatch):
    def broken(*args, **kwargs):
        raise OperationalError("no such table: memoryhub_memory")

    monkeypatch.setattr(memories, "create_memory", broken)
    problem = is_problem(bot.post("/memories", {"content": "x"}), 503, "database_unavailable")
    assert "table" not in problem["detail"]
    assert "manage.py doctor" in problem["detail"]


def test_line_break_in_a_path_begins_no_line_of_the_log(bot, monkeypatch, caplog):
    def broken(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr("memoryhub.api.memories._find_memory", broken)
    assert bot.get("/memories/a%0A2026-01-01 ERROR forged").status_code == 500
    [record] = [one for one in caplog.records if one.name == "memoryhub.http.problems"]
    assert "\n" not in record.getMessage()


@pytest.mark.parametrize("debug", [False, True])
def test_unexpected_exception_is_hidden_and_logged(bot, monkeypatch, settings, caplog, debug):
    def broken(*args, **kwargs):
        raise ZeroDivisionError("hunter2")

    settings.DEBUG = debug
    monkeypatch.setattr(memories, "create_memory", broken)
    response = bot.post("/memories", {"content": "x"})
    problem = is_problem(response, 500, "internal_error")
    assert "hunter2" not in response.content.decode()
    assert problem["request_id"] in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_exception_in_middleware_is_a_problem(bot, settings):
    problems = "memoryhub.http.middleware.ApiProblemMiddleware"
    outer = settings.MIDDLEWARE[: settings.MIDDLEWARE.index(problems) + 1]
    settings.MIDDLEWARE = [*outer, f"{__name__}.failing_middleware"]
    is_problem(Agent(bot.raw).get("/memories"), 500, "internal_error")


def failing_middleware(get_response):
    def fail(request):
        raise ZeroDivisionError

    return fail


def test_valid_request_id_of_the_caller_is_kept(bot):
    assert (
        bot.http.get("/api/v1/healthz", headers={"X-Request-ID": "abc-1.2_3"})["X-Request-ID"] == "abc-1.2_3"
    )
    for odd in ("a b", "x" * 65, "<script>", "a\tb"):
        made = bot.http.get("/api/v1/healthz", headers={"X-Request-ID": odd})["X-Request-ID"]
        assert len(made) == 32
    one, other = bot.get("/healthz"), bot.get("/healthz")
    assert one["X-Request-ID"] != other["X-Request-ID"]


def test_api_responses_are_not_cached(bot):
    for path in ("/memories", "/openapi.json", "/healthz", "/nothing"):
        assert bot.get(path)["Cache-Control"] == "no-store"


def test_responses_are_json_in_utf_8(bot):
    response = bot.post("/memories", {"content": "größe 日本"})
    assert response["Content-Type"] == "application/json"
    assert "größe 日本" in response.content.decode("utf-8")


def test_missing_page_stays_a_page(client):
    response = client.get("/no/such/page")
    assert response["Content-Type"].startswith("text/html")
    assert "X-Request-ID" not in response
    assert client.get("/apiary").status_code in (302, 404)
    assert not client.get("/apiary")["Content-Type"].endswith("json")


def test_problem_has_the_standard_title_of_its_status():
    assert Problem(422, "invalid", "d").as_dict("r")["title"] == "Unprocessable Entity"


def test_fields_are_named_as_the_caller_wrote_them(bot):
    body = {"content": "x", "entities": [{"entity": "a"}, {"entity_type": "b"}], "tags": ["ok", ""]}
    assert bad_fields(bot.post("/memories", body)) == {"entities.1.entity", "tags.1"}
    assert bad_fields(bot.post("/tools/letsgo/search_memories", {"limit": 0})) == {"limit", "query"}


def test_no_session_or_cookie_is_set(bot):
    response = bot.get("/memories")
    assert not response.cookies
    assert "Vary" not in response or "Cookie" not in response["Vary"]


def test_browser_cookies_do_not_authenticate(client, admin_user):
    client.force_login(admin_user)
    assert client.get("/api/v1/memories").status_code == 401
    assert Client(enforce_csrf_checks=True).post("/api/v1/memories").status_code == 401
