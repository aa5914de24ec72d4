"""Rate limits of agents, and the responses above them."""

from __future__ import annotations

import json
import threading

import pytest
from django.db import OperationalError, connection
from django.test import Client

from memoryhub.backends.postgres import rates
from memoryhub.core.network import client_network
from memoryhub.http import authentication
from memoryhub.http.authentication import RecentTokens, TokenBuckets

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
HOOK = {"hook_event_name": "SessionStart", "session_id": "s"}
FAR, FARTHER = "203.0.113.7", "203.0.113.8"


def ask(raw, path="/api/v1/memories", address="127.0.0.1", **headers):
    client = Client(REMOTE_ADDR=address, headers={"Authorization": f"Bearer {raw}"} if raw else {})
    return client.get(path, headers=headers)


def post(raw, path, body):
    headers = {"Authorization": f"Bearer {raw}"}
    return Client(headers=headers).post(path, json.dumps(body), content_type="application/json")


def is_too_often(response, setting):
    assert response.status_code == 429, response.content
    assert response["Content-Type"] == "application/problem+json"
    assert int(response["Retry-After"]) >= 1
    problem = response.json()
    assert problem["code"] == "too_many_requests"
    assert setting in problem["detail"]
    assert problem["request_id"] == response["X-Request-ID"]
    return True


@pytest.fixture
def clock(monkeypatch):
    """``clock.now += 5`` advances the time of the buckets only."""

    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    mine = Clock()
    monkeypatch.setattr(authentication, "time", mine)
    return mine


def test_token_over_its_limit_waits(token, configure, clock):
    configure(rate_per_token=2, rate_burst_token=3)
    raw = token()
    assert [ask(raw).status_code for _ in range(3)] == [200] * 3
    is_too_often(ask(raw), "rate_per_token")
    clock.now += 0.5
    assert ask(raw).status_code == 200
    is_too_often(ask(raw), "rate_per_token")


def test_refused_request_is_not_counted(token, configure, clock):
    configure(rate_per_token=1, rate_burst_token=1)
    raw = token()
    assert ask(raw).status_code == 200
    for _ in range(20):
        is_too_often(ask(raw), "rate_per_token")
    clock.now += 1
    assert ask(raw).status_code == 200


def test_reported_wait_is_long_enough(token, configure, clock):
    configure(rate_per_token=0.1, rate_burst_token=1)
    raw = token()
    ask(raw)
    clock.now += int(ask(raw)["Retry-After"])
    assert ask(raw).status_code == 200


def test_each_token_is_counted_separately(token, configure):
    configure(rate_per_token=0.01, rate_burst_token=1)
    one, other = token("one"), token("other")
    assert ask(one).status_code == ask(other).status_code == 200
    is_too_often(ask(one), "rate_per_token")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/memories", {"content": "x"}),
        ("/api/v1/tools/letsgo/memory_stats", {}),
        ("/api/v1/hooks/claude-code", HOOK),
        ("/mcp", PING),
        ("/mcp/letsgo", PING),
    ],
)
def test_every_endpoint_counts_the_same_token(token, configure, path, body):
    configure(rate_per_token=0.01, rate_burst_token=2)
    raw = token()
    ask(raw)
    assert post(raw, path, body).status_code != 429
    is_too_often(post(raw, path, body), "rate_per_token")


def test_both_headers_count_the_same_token(token, configure):
    configure(rate_per_token=0.01, rate_burst_token=1)
    raw = token()
    assert ask("", **{"X-API-Key": raw}).status_code == 200
    is_too_often(ask(raw), "rate_per_token")


def test_one_request_is_counted_once(token, configure):
    configure(rate_per_token=0.01, rate_burst_token=4)
    raw = token()
    assert [ask(raw, **{"X-API-Key": raw}).status_code for _ in range(5)] == [200] * 4 + [429]


def test_address_over_its_limit_waits_on_every_path(token, configure):
    configure(rate_per_address=0.01, rate_burst_address=2)
    raw = token()
    assert ask(raw, address=FAR).status_code == 200
    assert ask("", address=FAR).status_code == 401
    is_too_often(ask(raw, address=FAR), "rate_per_address")
    is_too_often(ask("", "/api/v1/nothing", address=FAR), "rate_per_address")
    is_too_often(ask(raw, "/mcp/letsgo", address=FAR), "rate_per_address")
    assert ask(raw, address=FARTHER).status_code == 200


def test_loopback_has_no_address_limit(token, configure):
    configure(rate_per_address=0.01, rate_burst_address=1, refusals_per_minute=1)
    raw = token()
    for address in ("127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1", ""):
        assert [ask(raw, address=address).status_code for _ in range(3)] == [200] * 3
        assert [ask("mh_wrong", address=address).status_code for _ in range(3)] == [401] * 3


def test_health_checks_are_never_limited(db, configure):
    configure(rate_per_address=0.01, rate_burst_address=1)
    assert [ask("", "/healthz", address=FAR).status_code for _ in range(3)] == [200] * 3


def test_pages_are_not_counted(db, configure, client):
    configure(rate_per_address=0.01, rate_burst_address=1)
    assert [client.get("/login/", REMOTE_ADDR=FAR).status_code for _ in range(3)] == [200] * 3


def test_token_guessing_is_limited(token, configure, clock):
    configure(refusals_per_minute=3)
    raw = token()
    assert [ask(f"mh_guess{n}", address=FAR).status_code for n in range(3)] == [401] * 3
    is_too_often(ask("mh_guess4", address=FAR), "refusals_per_minute")
    is_too_often(ask("", address=FAR, **{"X-API-Key": "mh_guess5"}), "refusals_per_minute")
    is_too_often(ask("mh_guess6", "/api/v1/export", address=FAR), "refusals_per_minute")
    # A correct guess looks like a wrong one.
    is_too_often(ask(raw, address=FAR), "refusals_per_minute")
    clock.now += 60
    assert ask(raw, address=FAR).status_code == 200


def test_guessing_does_not_lock_out_valid_tokens_at_the_same_address(token, configure):
    configure(refusals_per_minute=1)
    raw = token()
    assert ask(raw, address=FAR).status_code == 200
    ask("mh_guess", address=FAR)
    is_too_often(ask("mh_guess", address=FAR), "refusals_per_minute")
    assert ask(raw, address=FAR).status_code == 200


def test_limited_guess_is_not_looked_up(token, configure, django_assert_num_queries):
    configure(refusals_per_minute=1)
    ask("mh_guess", address=FAR)
    with django_assert_num_queries(0):
        ask("mh_guess", address=FAR)


def test_limit_of_zero_means_none(token, configure):
    configure(rate_per_token=0, rate_per_address=0, refusals_per_minute=0)
    raw = token()
    assert {ask(raw, address=FAR).status_code for _ in range(5)} == {200}
    assert {ask("mh_guess", address=FAR).status_code for _ in range(5)} == {401}


def test_counting_writes_nothing_to_the_database(token, django_assert_num_queries):
    raw = token()
    ask(raw)
    with django_assert_num_queries(1):  # the token itself
        ask(raw, "/api/v1/tools")


def test_client_address_behind_a_proxy_is_counted(token, configure, settings):
    configure(rate_per_address=0.01, rate_burst_address=1)
    raw = token()
    settings.BEHIND_PROXY = True
    assert ask(raw, **{"X-Forwarded-For": f"9.9.9.9, {FAR}"}).status_code == 200
    is_too_often(ask(raw, **{"X-Forwarded-For": f"1.1.1.1, {FAR}"}), "rate_per_address")
    is_too_often(ask(raw, **{"X-Forwarded-For": f"{FAR}:51234"}), "rate_per_address")
    assert ask(raw, **{"X-Forwarded-For": FARTHER}).status_code == 200


def test_forwarded_header_is_ignored_without_a_proxy(token, configure):
    configure(rate_per_address=0.01, rate_burst_address=1)
    raw = token()
    ask(raw, address=FAR)
    is_too_often(ask(raw, address=FAR, **{"X-Forwarded-For": "127.0.0.1"}), "rate_per_address")


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("no address", "no address"),
        ("::1", None),
        ("127.0.0.9", None),
        ("", None),
    ],
)
def test_ipv6_network_is_counted_as_one(address, network):
    assert client_network(address) == network


def test_memory_use_is_bounded(clock):
    buckets, recent = TokenBuckets(max_size=100), RecentTokens(max_size=100)
    for n in range(1000):
        assert buckets.take(f"caller {n}", 1, 5) == 0
        recent.add(f"token {n}")
    assert len(buckets) == len(recent) == 100
    clock.now += 10
    buckets.take("one more", 1, 5)
    assert len(buckets) == 1


def test_least_recently_seen_caller_is_dropped_first(clock):
    buckets = TokenBuckets(max_size=2)
    for key in ("a", "b", "a", "c"):
        buckets.take(key, 1, 2)
    assert buckets.wait("a", 1, 2) > 0
    assert buckets.wait("b", 1, 2) == 0


def test_threads_together_take_no_more_than_the_burst(clock):
    buckets, taken = TokenBuckets(), []

    def take():
        taken.extend(buckets.take("one", 1, 500) == 0 for _ in range(100))

    threads = [threading.Thread(target=take) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 500


def test_default_limits_are_far_above_normal_use(token):
    """Ten thousand requests at once, and a hundred per second continuously."""
    raw = token()
    for _ in range(10_000):
        authentication.count_request_of_token("an agent", raw)
        authentication.count_request_of_address(FAR)
    assert ask(raw).status_code == 200


@pytest.mark.django_db
def test_requests_are_counted_in_the_process_if_the_database_cannot(monkeypatch):
    def fail(*arguments):
        raise OperationalError("could not extend file: No space left on device")

    monkeypatch.setattr(authentication, "IS_POSTGRES", True)
    monkeypatch.setattr(rates, "take", fail)
    buckets = TokenBuckets(shared_as="token")
    connection.ensure_connection()
    assert [buckets.take("one", 0.001, 2) == 0 for _ in range(3)] == [True, True, False]
