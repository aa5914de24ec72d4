"""The client for OpenAI-compatible embedding endpoints: requests, retries and refusals."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from unittest.mock import Mock

import pytest

from memoryhub.core import network
from memoryhub.core.network import CircuitBreaker, seconds_to_wait
from memoryhub.embeddings import EmbeddingError
from memoryhub.embeddings import endpoint as module
from tests.embeddings import servers
from tests.embeddings.conftest import KEY, MODEL
from tests.embeddings.servers import changed, fine, picky, status


@pytest.fixture(autouse=True)
def sleeps(monkeypatch) -> list[float]:
    """Seconds slept by the provider, without sleeping."""
    slept: list[float] = []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    return slept


# Requests


def test_it_posts_model_and_texts_with_the_key(endpoint, remote):
    remote().documents(["zebra", "stripes"])
    [(path, headers, body)] = endpoint.asked
    assert path == "/v1/embeddings"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body == {"model": MODEL, "input": ["zebra", "stripes"]}


def test_no_header_is_sent_without_a_key(endpoint, remote):
    remote(key="").documents(["zebra"])
    assert "Authorization" not in endpoint.asked[0][1]


@pytest.mark.parametrize(
    ("tail", "path"),
    [
        ("", "/v1/embeddings"),
        ("/", "/v1/embeddings"),
        ("/embeddings", "/v1/embeddings"),
        ("/embeddings/", "/v1/embeddings"),
        ("?api-version=3", "/v1/embeddings?api-version=3"),
    ],
)
def test_url_may_be_written_in_several_ways(endpoint, remote, tail, path):
    remote(url=endpoint.url + tail).documents(["zebra"])
    assert endpoint.asked[0][0] == path


def test_texts_are_batched_without_empty_ones(endpoint, remote):
    rows = remote(batch=2).documents(["a", "", "b", "c", "  ", "d", "e"])
    assert [body["input"] for _, _, body in endpoint.asked] == [["a", "b"], ["c", "d"], ["e"]]
    assert rows.shape == (7, servers.DIMENSIONS)


def test_answer_is_sorted_by_index(endpoint, remote):
    straight = remote().documents(["zebra", "money"])
    endpoint.script = [changed(lambda data: data[::-1])]
    assert (remote().documents(["zebra", "money"]) == straight).all()


def test_answer_without_indexes_is_in_order(endpoint, remote):
    straight = remote().documents(["zebra", "money"])
    endpoint.script = [changed(lambda data: [{"embedding": one["embedding"]} for one in data])]
    assert (remote().documents(["zebra", "money"]) == straight).all()


def test_name_and_dimensions_are_known_after_the_first_answer(remote):
    provider = remote()
    assert (provider.name, provider.dimensions) == (f"openai/{MODEL}", 0)
    provider.documents(["zebra"])
    assert (provider.name, provider.dimensions) == (f"openai/{MODEL}", servers.DIMENSIONS)
    assert not provider.in_process


# Temporary errors


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 529])
def test_temporary_errors_are_retried(endpoint, remote, sleeps, code):
    endpoint.script = [status(code), status(code), fine]
    assert remote().documents(["zebra"]).any()
    assert len(endpoint.asked) == 3
    first, second = sleeps
    assert 0.5 <= first <= 1.0 <= second <= 2.0


def test_retry_after_in_seconds_is_honoured(endpoint, remote, sleeps):
    endpoint.script = [status(429, Retry_After="3"), fine]
    assert remote().documents(["zebra"]).any()
    assert sleeps == [3.0]


def test_retry_after_as_a_date_is_honoured(endpoint, remote, sleeps, monkeypatch):
    noon = datetime(2026, 5, 4, 12, tzinfo=UTC)
    monkeypatch.setattr(network, "datetime", Mock(now=lambda zone: noon))
    when = format_datetime(noon + timedelta(seconds=6), usegmt=True)
    endpoint.script = [status(503, Retry_After=when), fine]
    assert remote().documents(["zebra"]).any()
    assert sleeps == [6.0]


def test_long_retry_after_becomes_a_pause(endpoint, remote, sleeps):
    endpoint.script = [status(429, Retry_After="120")]
    provider = remote(timeout_seconds=10)
    with pytest.raises(EmbeddingError, match="status 429"):
        provider.documents(["zebra"])
    assert sleeps == []
    for ask in (lambda: provider.documents(["stripes"]), lambda: provider.query("stripes")):
        with pytest.raises(EmbeddingError, match="next try is in 120 seconds"):
            ask()
    assert len(endpoint.asked) == 1


def test_it_gives_up_after_five_tries(endpoint, remote):
    endpoint.usual = status(500)
    with pytest.raises(EmbeddingError, match="status 500"):
        remote(timeout_seconds=100).documents(["zebra"])
    assert len(endpoint.asked) == 5


@pytest.mark.parametrize("behaviour", [servers.hanging_up, servers.no_http])
def test_broken_connection_is_retried(endpoint, remote, behaviour):
    endpoint.script = [behaviour, fine]
    assert remote().documents(["zebra"]).any()


# Permanent errors


@pytest.mark.parametrize(
    ("code", "fix"),
    [
        (401, "MEMORYHUB_EMBEDDINGS_KEY"),
        (403, "MEMORYHUB_EMBEDDINGS_KEY"),
        (404, "embeddings_model"),
        (405, "embeddings_url"),
        (204, "embeddings_url"),
    ],
)
def test_permanent_error_is_not_retried_and_names_the_fix(endpoint, remote, sleeps, code, fix):
    endpoint.usual = status(code, "")
    with pytest.raises(EmbeddingError, match=f"status {code}.*{fix}"):
        remote().documents(["zebra"])
    assert len(endpoint.asked) == 1
    assert sleeps == []


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed_with_the_key(endpoint, remote, code):
    with servers.serving() as other:
        endpoint.usual = status(code, Location=f"{other.url}/embeddings")
        with pytest.raises(EmbeddingError, match="redirects are not followed"):
            remote().documents(["zebra"])
        assert other.asked == []
    assert len(endpoint.asked) == 1


def test_unreachable_address_is_reported(remote):
    with pytest.raises(EmbeddingError, match="cannot be reached: Connection refused"):
        remote(url=servers.unused_url()).documents(["zebra"])


def test_unresolvable_host_is_reported(remote, monkeypatch):
    def unknown(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(EmbeddingError, match="cannot be reached: Name or service not known"):
        remote(url="http://nobody.invalid/v1").documents(["zebra"])


def test_endpoint_without_tls_is_reported_for_https(endpoint, remote):
    with pytest.raises(EmbeddingError, match="cannot be reached over TLS"):
        remote(url=endpoint.url.replace("http:", "https:"), timeout_seconds=60).documents(["zebra"])


@pytest.mark.parametrize(
    "behaviour",
    [
        servers.raw(b"<html>Welcome</html>"),
        servers.raw(b""),
        servers.raw(b"\xff\xfe\xff"),
        servers.raw(b"[" * 100_000),
        servers.raw(b"null"),
        servers.raw(b"[]"),
        servers.raw(b'{"error": "sorry"}'),
        servers.raw(b'{"data": {"0": 1}}'),
        servers.raw(b'{"data": [1, 2]}'),
        changed(lambda data: data[:1]),
        changed(lambda data: data * 2),
        changed(lambda data: [data[0], data[0]]),
        changed(lambda data: [{**one, "index": one["index"] + 1} for one in data]),
        changed(lambda data: [{**one, "index": [0]} for one in data]),
        changed(lambda data: [data[0], {**data[1], "embedding": data[1]["embedding"][:-1]}]),
        changed(lambda data: [{**one, "embedding": []} for one in data]),
        changed(lambda data: [{**one, "embedding": "AAAAgD8="} for one in data]),
        changed(lambda data: [{**one, "embedding": [True, False]} for one in data]),
        changed(lambda data: [{**one, "embedding": ["1", "2"]} for one in data]),
        changed(lambda data: [{**one, "embedding": [[1.0], [2.0]]} for one in data]),
        changed(lambda data: [{**one, "embedding": [1.0, float("nan")]} for one in data]),
        changed(lambda data: [{**one, "embedding": [1.0, float("inf")]} for one in data]),
        changed(lambda data: [{**one, "embedding": [1.0, 1e300]} for one in data]),
        changed(lambda data: [{**one, "embedding": [1, 10**400]} for one in data]),
    ],
)
def test_invalid_answer_is_refused(endpoint, remote, behaviour):
    endpoint.usual = behaviour
    provider = remote()
    with pytest.raises(EmbeddingError, match="embeddings endpoint's"):
        provider.documents(["zebra", "stripes"])
    assert provider.dimensions == 0


def test_vectors_of_another_length_are_refused(endpoint, remote):
    provider = remote()
    provider.documents(["zebra"])
    endpoint.script = [changed(lambda data: [{**one, "embedding": [1.0, 2.0]} for one in data])]
    with pytest.raises(EmbeddingError, match="have 2 numbers, and had 24"):
        provider.documents(["stripes"])


def test_endless_answer_is_cut_off(endpoint, remote):
    endpoint.usual = servers.endless
    with pytest.raises(EmbeddingError, match="more than the 1,200,000 bytes"):
        remote().query("zebra")


# Timeouts


@pytest.mark.parametrize("behaviour", [servers.silent, servers.trickling, servers.endless])
def test_slow_answer_times_out(endpoint, remote, behaviour, monkeypatch):
    monkeypatch.setattr(module, "_BASE_RESPONSE_BYTES", 10**12)
    endpoint.usual = behaviour
    with pytest.raises(EmbeddingError, match="did not answer in time"):
        remote(timeout_seconds=0.3).documents(["zebra"])


def test_question_is_sent_once_with_a_short_timeout(endpoint, remote, sleeps, monkeypatch):
    monkeypatch.setattr(module, "QUERY_SECONDS", 0.3)
    endpoint.usual = servers.silent
    with pytest.raises(EmbeddingError, match="did not answer in time"):
        remote(timeout_seconds=600).query("zebra")
    assert len(endpoint.asked) == 1
    assert sleeps == []


def test_requests_pause_after_a_failed_question(endpoint, remote):
    endpoint.script = [status(500)]
    provider = remote()
    with pytest.raises(EmbeddingError, match="status 500"):
        provider.query("zebra")
    with pytest.raises(EmbeddingError, match="next try is in 30 seconds"):
        provider.query("zebra")
    assert len(endpoint.asked) == 1


def test_requests_resume_after_the_pause(endpoint, remote, monkeypatch):
    monkeypatch.setattr(network, "PAUSE_SECONDS", 0.0)
    endpoint.script = [status(500)]
    provider = remote()
    with pytest.raises(EmbeddingError):
        provider.query("zebra")
    assert provider.query("zebra").any()
    assert provider.query("stripes").any()


def test_one_request_probes_after_a_pause():
    pause = CircuitBreaker()
    assert [pause.left(5), pause.left(5)] == [0, 0]  # recovered
    pause.begin(0)
    assert pause.left(5) == 0
    assert 4 < pause.left(5) <= 5
    pause.end()
    assert pause.left(5) == 0
    assert pause.left(5) == 0


def test_question_is_cached_regardless_of_weights(endpoint, remote):
    provider = remote()
    first = provider.query("zebra", {"zebra": 0.5})
    assert provider.query("zebra", {"zebra": 0.7}) is first
    assert len(endpoint.asked) == 1


# Refused texts


def test_refused_batch_is_halved(endpoint, remote):
    endpoint.usual = picky(10_000, most_texts=1)
    texts = ["zebra", "stripes", "money"]
    rows = remote().documents(texts)
    endpoint.usual = fine
    assert (rows == remote().documents(texts)).all()


def test_too_long_text_is_cut(endpoint, remote):
    endpoint.usual = picky(1000)
    rows = remote().documents(["zebra " * 900, "money"])
    assert rows[0] == pytest.approx(remote().documents(["zebra"])[0], abs=0.05)


def test_endpoint_that_refuses_everything_is_reported_after_few_tries(endpoint, remote):
    endpoint.usual = status(400)
    with pytest.raises(EmbeddingError, match="rejects the texts"):
        remote(batch=64).documents(["zebra " * 900] * 64)
    assert len(endpoint.asked) < 15


# The key


def test_errors_do_not_contain_the_key(endpoint, remote, caplog):
    said = f"Incorrect API key provided: {KEY}"
    behaviours = [status(code, said, X_Key=KEY) for code in (301, 400, 401, 404, 429, 500)]
    behaviours += [servers.raw(said.encode()), servers.hanging_up]
    for behaviour in behaviours:
        endpoint.usual = behaviour
        with pytest.raises(EmbeddingError) as caught:
            remote().documents(["zebra"])
        error: BaseException | None = caught.value
        while error is not None:
            assert KEY not in f"{error} {error!r}"
            error = error.__cause__
    assert KEY not in caplog.text


@pytest.mark.parametrize("key", ["sk-1\r\nX-Other: 1", "sk-ü", "sk-\x00"])
def test_invalid_key_is_refused_without_repeating_it(remote, key):
    with pytest.raises(EmbeddingError, match="MEMORYHUB_EMBEDDINGS_KEY") as caught:
        remote(key=key)
    assert "sk-" not in str(caught.value)


# Retry-After

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0),
        (" 17 ", 17),
        ("Fri, 20 Nov 2026 12:01:00 GMT", 60),
        ("Fri, 20 Nov 2026 12:01:00 -0000", 60),
        ("Fri, 20 Nov 2026 11:00:00 GMT", 0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("9" * 400, 999_999_999),
    ],
)
def test_retry_after_is_parsed(header, seconds):
    assert seconds_to_wait(header, NOW) == seconds
