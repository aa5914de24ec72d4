"""The chat client: requests, retries, charges and misbehaving endpoints."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from memoryhub.core import network
from memoryhub.llm import Message, ModelError
from tests.llm import servers
from tests.llm.conftest import KEY, MODEL, Ledger
from tests.llm.servers import only_form, raw, saying, status, whole

MESSAGES = [Message("system", "Be brief."), Message("user", "Is anybody there?")]


@pytest.fixture(autouse=True)
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds slept between retries, without sleeping."""
    slept: list[float] = []
    monkeypatch.setattr(network.time, "sleep", slept.append)
    return slept


def test_it_posts_model_messages_and_limit_with_the_key(endpoint: Any, chat: Any) -> None:
    assert chat().ask(MESSAGES, 100).text == "fine"
    [(path, headers, body)] = endpoint.asked
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body == {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Is anybody there?"},
        ],
        "max_tokens": 100,
        "temperature": 0,
    }


def test_proxy_variables_are_ignored(chat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, servers.unused_url())
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert chat().ask(MESSAGES, 100).text == "fine"


def test_refusal_at_every_address_of_a_host_is_reported(chat: Any) -> None:
    url = servers.unused_url().replace("127.0.0.1", "localhost")
    with pytest.raises(ModelError, match="cannot be reached: Connection refused"):
        chat(url=url, tries=1).ask(MESSAGES, 100)


def test_requests_are_not_logged(chat: Any, caplog: pytest.LogCaptureFixture) -> None:
    chat().ask(MESSAGES, 100)
    assert caplog.text == ""


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_supported_request_form_is_found(endpoint: Any, chat: Any, limit: str) -> None:
    endpoint.usual = only_form(limit)
    assert chat().ask(MESSAGES, 100).text == "fine"


def test_endpoint_that_refuses_all_forms_is_reported_with_a_fix(endpoint: Any, chat: Any) -> None:
    endpoint.usual = status(400, "no")
    with pytest.raises(ModelError, match="check llm_url and llm_model"):
        chat().ask(MESSAGES, 100)


@pytest.mark.parametrize("code", [408, 429, 500, 503])
def test_temporary_error_is_retried_and_each_try_is_a_call(
    endpoint: Any, chat: Any, ledger: Ledger, sleeps: list[float], code: int
) -> None:
    endpoint.script = [status(code), status(code)]
    assert chat().ask(MESSAGES, 100).text == "fine"
    assert len(endpoint.asked) == len(ledger.charges) == 3
    assert [row[3] for row in ledger.charges] == [True, True, False]
    assert len(sleeps) == 2


def test_retry_after_is_honoured(endpoint: Any, chat: Any, sleeps: list[float]) -> None:
    endpoint.script = [status(429, Retry_After="3")]
    assert chat().ask(MESSAGES, 100).text == "fine"
    assert sleeps == [3.0]


def test_number_of_tries_is_limited(endpoint: Any, chat: Any) -> None:
    endpoint.usual = status(503)
    with pytest.raises(ModelError, match="status 503"):
        chat(tries=2).ask(MESSAGES, 100)
    assert len(endpoint.asked) == 2


def test_requests_pause_after_a_failure(endpoint: Any, chat: Any) -> None:
    endpoint.usual = status(503)
    model = chat(tries=1)
    for words in ("status 503", "next try is in 30 seconds"):
        with pytest.raises(ModelError, match=words):
            model.ask(MESSAGES, 100)
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize(
    ("code", "fix"),
    [(401, "MEMORYHUB_LLM_KEY"), (403, "MEMORYHUB_LLM_KEY"), (404, "llm_model"), (302, "llm_url")],
)
def test_permanent_error_is_not_retried_and_names_the_fix(
    endpoint: Any, chat: Any, code: int, fix: str
) -> None:
    endpoint.usual = status(code, KEY, Location="http://127.0.0.1:1/")
    with pytest.raises(ModelError, match=fix) as caught:
        chat().ask(MESSAGES, 100)
    assert KEY not in str(caught.value)
    assert len(endpoint.asked) == 1


def test_budget_is_checked_before_each_try(endpoint: Any, chat: Any, ledger: Ledger) -> None:
    ledger.most = 1
    endpoint.usual = status(503)
    with pytest.raises(ModelError, match="no more calls"):
        chat().ask(MESSAGES, 100)
    assert len(endpoint.asked) == 1


def test_endpoints_token_count_is_charged(chat: Any, ledger: Ledger) -> None:
    chat().ask(MESSAGES, 100)
    [[reserved, *settled]] = ledger.charges
    assert reserved > 100
    assert settled == [40, 5, False]


@pytest.mark.parametrize(
    "usage", [None, {}, [], {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": -5},
              {"prompt_tokens": 10**18, "completion_tokens": "9"}, {"prompt_tokens": True}],
    ids=str,
)  # fmt: skip
def test_implausible_counts_are_estimated(endpoint: Any, chat: Any, ledger: Ledger, usage: Any) -> None:
    endpoint.usual = whole({**servers.completion("a" * 400), "usage": usage})
    chat().ask(MESSAGES, 100)
    [[_, prompt, completion, failed]] = ledger.charges
    assert 10 <= prompt <= 60
    assert 50 <= completion <= 400
    assert not failed


def test_refused_connection_costs_no_tokens(chat: Any, ledger: Ledger) -> None:
    with pytest.raises(ModelError, match="cannot be reached"):
        chat(url=servers.unused_url(), tries=1).ask(MESSAGES, 100)
    assert ledger.charges[0][1:] == [0, 0, True]


def test_request_to_a_silent_model_is_charged(endpoint: Any, chat: Any, ledger: Ledger) -> None:
    endpoint.usual = servers.silent
    with pytest.raises(ModelError, match="in time"):
        chat(timeout_seconds=0.3, tries=1).ask(MESSAGES, 100)
    assert ledger.charges[0][1] > 0


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (servers.silent, "in time"),
        (servers.trickling, "in time"),
        (servers.endless, "bytes that an answer can have|in time"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_misbehaving_server_times_out(endpoint: Any, chat: Any, behaviour: Any, words: str) -> None:
    endpoint.usual = behaviour
    began = time.monotonic()
    with pytest.raises(ModelError, match=words):
        chat(timeout_seconds=0.5, tries=1).ask(MESSAGES, 100)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (servers.hanging_up, "does not speak HTTP|cannot be reached"),
        (servers.no_http, "does not speak HTTP"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_server_that_does_not_speak_http_is_reported(
    endpoint: Any, chat: Any, behaviour: Any, words: str
) -> None:
    endpoint.usual = behaviour
    with pytest.raises(ModelError, match=words):
        chat(timeout_seconds=120, tries=1).ask(MESSAGES, 100)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>no</html>", b"[]", b"{}", b"null", b'{"choices": []}', b'{"choices": [{}]}',
     b'{"choices": [{"message": 7}]}', b'{"choices": [{"message": {"content": 7}}]}',
     b'{"choices": {"0": 1}}', b"[" * 100_000, b"\xff\xfe", b'{"choices": [{"message": {"content": ["'],
    ids=lambda body: repr(body[:30]),
)  # fmt: skip
def test_invalid_completion_is_refused_and_charged_once(
    endpoint: Any, chat: Any, ledger: Ledger, body: bytes
) -> None:
    endpoint.usual = raw(body)
    with pytest.raises(ModelError, match="not return a chat completion"):
        chat().ask(MESSAGES, 100)
    assert len(endpoint.asked) == 1
    assert ledger.charges[0][3] is True


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (saying(None), "empty"),
        (saying("  \n"), "empty"),
        (saying(None, message={"content": None, "refusal": "I cannot"}), "refuses"),
        (saying("some", finish_reason="content_filter"), "refuses"),
        (saying([{"type": "image_url"}]), "empty"),
    ],
)
def test_refusal_and_empty_answer_are_reported(endpoint: Any, chat: Any, behaviour: Any, words: str) -> None:
    endpoint.usual = behaviour
    with pytest.raises(ModelError, match=words):
        chat().ask(MESSAGES, 100)


def test_answer_in_parts_is_joined(endpoint: Any, chat: Callable[..., Any]) -> None:
    endpoint.usual = saying([{"type": "text", "text": "one "}, {"type": "text", "text": "two"}])
    assert chat().ask(MESSAGES, 100).text == "one two"


def test_public_name_with_a_private_address_gets_no_request(
    endpoint: Any, chat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_up(host: Any, port: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    url = endpoint.url.replace("127.0.0.1", "llm.example.com")
    with pytest.raises(ModelError, match="endpoint_private_names"):
        chat(url=url).ask(MESSAGES, 10)
    assert endpoint.asked == []
    assert chat(url=url, private_names=True).ask(MESSAGES, 10).text == "fine"
