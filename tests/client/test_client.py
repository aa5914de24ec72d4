"""The clients: results, errors, pages and retries."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from memoryhub import client as package
from memoryhub.api.events import EventBody
from memoryhub.api.injection import InjectionRequest
from memoryhub.api.search import HistoryFilter, SearchRequest, SessionList
from memoryhub.client import (
    ApiError,
    AsyncClient,
    AuthenticationFailed,
    Client,
    ConfigurationError,
    Conflict,
    ConnectionFailed,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    RateLimited,
    ServerError,
    UnexpectedAnswer,
    calls,
)
from memoryhub.http.authentication import FactQuery
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from tests.client.conftest import Script, problem

ENDED = {"outcome": "trashed", "id": "m1"}
STORED = {
    "outcome": "created",
    "memory": {"id": "m1", "project": "", "scope": "project", "content_hash": "0"},
    "ignored": [],
}
EVENT = {"event": "tool:post", "handlers": [], "context": ""}
LOST = httpx2.ReadError("connection reset")
REFUSED = httpx2.ConnectError("connection refused")


def ok(body: Any, **headers: str) -> httpx2.Response:
    return httpx2.Response(200, json=body, headers=headers)


class TestWithTheApp:
    """Against the real API in this process."""

    def test_stored_memory_is_found(self, client: Client) -> None:
        stored = client.remember("We deploy on Tuesdays", tags=["ops"], ttl_days=0)
        [hit] = client.search("deploy Tuesdays", min_score=0.0).results
        assert (stored.outcome, hit.memory.id, hit.memory.tags) == ("created", stored.memory.id, ["ops"])

    def test_repeated_memory_is_recognised(self, client: Client) -> None:
        first, second = client.remember("the same text"), client.remember("the same text")
        assert (second.outcome, second.memory.id) == ("refreshed", first.memory.id)

    def test_memory_has_typed_fields(self, client: Client) -> None:
        memory = client.get(client.remember("typed", created_at=datetime(2026, 1, 2, tzinfo=UTC)).memory.id)
        assert memory.created_at == datetime(2026, 1, 2, tzinfo=UTC)

    def test_recall_stays_within_its_budget(self, client: Client) -> None:
        client.remember("We deploy on Tuesdays")
        found = client.recall("deploy", max_tokens=500)
        assert found.tokens_used <= 500
        assert found.total_count == 1

    def test_batch_reports_each_memory(self, client: Client) -> None:
        results = client.remember_many([{"content": "one"}, {"content": ""}]).results
        assert results[0].outcome == "created"
        assert results[1].error is not None

    def test_change_of_an_older_version_is_a_conflict(self, client: Client) -> None:
        memory = client.get(client.remember("version").memory.id)
        client.update(memory.id, title="Version 2", if_match=memory.etag)
        with pytest.raises(Conflict) as refused:
            client.update(memory.id, title="Version 3", if_match=memory.etag)
        assert (refused.value.status, refused.value.code) == (412, "precondition_failed")

    def test_forgotten_memory_is_restored(self, client: Client) -> None:
        id = client.remember("trash me").memory.id
        assert client.forget(id).outcome == "trashed"
        with pytest.raises(NotFound):
            client.get(id)
        assert client.restore(id).outcome == "restored"

    def test_facts_are_stored_listed_and_deleted(self, client: Client) -> None:
        fact = client.add_fact("hub", "runs on", "Linux", confidence=0.9).fact
        assert [(one.subject, one.confidence) for one in client.facts()] == [("hub", 0.9)]
        client.delete_fact(fact.id)
        assert list(client.facts()) == []

    def test_session_shows_reported_events(self, client: Client) -> None:
        client.report_event("session:start", "s/1", project="web")
        client.report_event("prompt:submit", "s/1", {"prompt": "when do we deploy?"}, project="web")
        found = client.session("s/1", project="web")
        assert [one.session_id for one in client.sessions()] == ["s/1"]
        assert {entry.kind for entry in found.timeline.items} >= {"event", "session_start"}
        assert len(list(client.timeline(session_id="s/1"))) == len(found.timeline.items)

    def test_event_with_a_repeated_idempotency_key_is_ignored(self, client: Client) -> None:
        for _ in range(2):
            data = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_response": "done"}
            client.report_event("tool:post", "s1", data, idempotency_key="call-1")
        [session] = client.sessions()
        assert session.event_count == 1

    def test_tool_returns_its_result_and_ignored_arguments(self, client: Client) -> None:
        found = client.call_tool("letsgo", "store_memory", content="by tool", colour="red")
        assert found.result["outcome"] == "created"
        assert found.ignored == ["colour"]

    def test_injection_is_a_context_block(self, client: Client, configure: Callable[..., None]) -> None:
        configure(injection_deadline_ms=20_000)
        client.remember("We deploy on Tuesdays", importance=0.9)
        assert "Tuesdays" in client.inject("when do we deploy on Tuesdays?").context

    def test_statistics_count_visible_memories(self, client: Client) -> None:
        client.remember("We deploy on Tuesdays", sensitivity="private")
        assert (client.statistics().total, client.statistics(allow_private=True).total) == (0, 1)

    def test_iterator_follows_all_pages(self, client: Client) -> None:
        client.remember_many([{"content": f"memory {n}"} for n in range(203)])
        assert len({memory.id for memory in client.memories(order="-created_at")}) == 203

    def test_every_invalid_field_is_named(self, client: Client) -> None:
        with pytest.raises(InvalidRequest, match="422 invalid") as refused:
            client.remember("x", importance=2, trust=-1)
        assert {error.field for error in refused.value.errors} == {"importance", "trust"}
        assert refused.value.request_id


@pytest.mark.parametrize(
    ("typed", "model", "others"),
    [
        (calls.NewMemory, MemoryDraft, {"deduplicate", "content"}),
        (calls.MemoryPatch, MemoryPatch, set()),
        (calls.SearchOptions, SearchRequest, {"query"}),
        (calls.FactFilters, FactQuery, set()),
        (calls.FactFields, FactDraft, {"subject", "predicate", "object"}),
        (calls.SessionFilters, SessionList, {"limit", "cursor"}),
        (calls.History, HistoryFilter, set()),
        (calls.InjectOptions, InjectionRequest, {"prompt"}),
        (calls.EventFields, EventBody, {"event", "session_id", "data"}),
    ],
)
def test_typed_fields_are_those_of_the_api(typed: type, model: Any, others: set[str]) -> None:
    assert set(typed.__annotations__) ^ set(model.model_fields) == others


class TestErrors:
    @pytest.mark.parametrize(
        ("status", "expected"),
        [
            (400, InvalidRequest),
            (401, AuthenticationFailed),
            (403, PermissionDenied),
            (404, NotFound),
            (409, Conflict),
            (413, InvalidRequest),
            (500, ServerError),
            (405, ApiError),
        ],
    )
    def test_problem_becomes_an_exception(self, script: Script, status: int, expected: type) -> None:
        with pytest.raises(expected, match=f"{status} some_code: what is wrong") as refused:
            script.call("get", "m1", answers=[problem(status, "some_code", "what is wrong")])
        assert type(refused.value) is expected

    def test_page_of_another_server_is_no_hub(self, script: Script) -> None:
        with pytest.raises(UnexpectedAnswer, match="Check the address"):
            script.call("get", "m1", answers=[httpx2.Response(404, html="<html>")])

    def test_redirect_is_not_followed(self, script: Script) -> None:
        moved = httpx2.Response(301, headers={"Location": "https://hub/api/v1/memories/m1"})
        with pytest.raises(UnexpectedAnswer, match="redirects to https://hub/api"):
            script.call("get", "m1", answers=[moved])

    @pytest.mark.parametrize("body", [httpx2.Response(200, text="hello"), ok({"id": "m1"}), ok([])])
    def test_answer_of_another_shape_is_unexpected(self, script: Script, body: httpx2.Response) -> None:
        with pytest.raises(UnexpectedAnswer, match="does not answer like a hub"):
            script.call("get", "m1", answers=[body])

    def test_missing_token_names_the_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("MEMORYHUB_TOKEN", raising=False)
        with pytest.raises(ConfigurationError, match="MEMORYHUB_TOKEN"):
            Client()

    @pytest.mark.parametrize(
        "server", ["hub:8000", "ftp://hub", "http://", "http://u:p@hub", "http://hub?x=1"]
    )
    def test_address_of_no_hub_is_refused(self, server: str) -> None:
        with pytest.raises(ConfigurationError, match="not the address of a hub"):
            AsyncClient(server, "mh_t")

    def test_token_with_a_line_break_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="line break"):
            Client("http://hub", "mh_t\n")

    def test_server_and_token_come_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MEMORYHUB_URL", "https://hub.example.org/api/v1/")
        monkeypatch.setenv("MEMORYHUB_TOKEN", "mh_env")
        with Client() as client:
            assert client.server == "https://hub.example.org"

    def test_unknown_name_of_the_package_is_an_attribute_error(self) -> None:
        with pytest.raises(AttributeError, match="nothing"):
            _ = package.nothing


class TestRetries:
    @pytest.mark.parametrize(
        "failure",
        [
            LOST,
            REFUSED,
            httpx2.ReadTimeout("slow"),
            problem(503, "database_busy", headers={"Retry-After": "0"}),
            problem(503, "outcome_unknown", headers={"Retry-After": "0"}),
            problem(429, "too_many_requests", headers={"Retry-After": "0"}),
            httpx2.Response(502, text="bad gateway"),
        ],
    )
    def test_store_is_repeated_with_the_same_body(self, script: Script, failure: Any) -> None:
        stored = script.call("remember", "text", answers=[failure, ok(STORED)])
        assert stored.memory.id == "m1"
        assert script.sent[0].content == script.sent[1].content

    def test_event_is_repeated_with_the_same_idempotency_key(self, script: Script) -> None:
        script.call("report_event", "session:end", "s1", answers=[LOST, ok(EVENT)])
        first, second = (body["data"]["tool_use_id"] for body in script.bodies())
        assert first == second != ""

    @pytest.mark.parametrize(
        ("method", "arguments"),
        [("forget", ["m1"]), ("delete_fact", ["f1"]), ("call_tool", ["mira", "memory"])],
    )
    def test_call_that_cannot_be_recognised_is_not_repeated(
        self, script: Script, method: str, arguments: list[str]
    ) -> None:
        with pytest.raises(ConnectionFailed) as failed:
            script.call(method, *arguments, answers=[LOST])
        assert failed.value.sent

    def test_call_whose_outcome_is_unknown_is_not_repeated_if_it_could_be_done_twice(
        self, script: Script
    ) -> None:
        with pytest.raises(ServerError):
            script.call(
                "forget", "m1", answers=[problem(503, "outcome_unknown", headers={"Retry-After": "0"})]
            )

    def test_call_that_was_never_sent_is_repeated(self, script: Script) -> None:
        assert script.call("forget", "m1", answers=[REFUSED, ok(ENDED)]).outcome == "trashed"

    def test_conditional_change_is_not_repeated(self, script: Script) -> None:
        with pytest.raises(ConnectionFailed):
            script.call("update", "m1", title="t", if_match='"1"', answers=[LOST])

    def test_injection_of_a_session_is_not_repeated(self, script: Script) -> None:
        with pytest.raises(ConnectionFailed):
            script.call("inject", "p", session_id="s1", answers=[LOST])

    @pytest.mark.parametrize(
        "failure",
        [
            problem(422, "invalid"),
            problem(500, "internal_error"),
            problem(503, "store_damaged", headers={"Retry-After": "0"}),
            problem(429, "too_many_requests", headers={"Retry-After": "3600"}),
        ],
    )
    def test_lasting_failure_is_reported_at_once(self, script: Script, failure: httpx2.Response) -> None:
        with pytest.raises(ApiError):
            script.call("remember", "text", answers=[failure])

    def test_last_failure_is_raised_after_four_tries(self, script: Script) -> None:
        busy = problem(429, "too_many_requests", headers={"Retry-After": "0"})
        with pytest.raises(RateLimited):
            script.call("remember", "text", answers=[busy] * 4)
        assert len(script.sent) == 4

    def test_iterator_asks_for_the_next_page_with_its_cursor(self, script: Script) -> None:
        fact = {
            **dict.fromkeys(("id", "subject", "predicate", "object", "project", "session_id"), "x"),
            "confidence": 1,
            "sensitivity": "public",
            "memory_id": None,
        }
        pages = [ok({"items": [fact], "next_cursor": cursor, "total": 2}) for cursor in ("c1", None)]
        assert len(script.call("facts", subject="x", answers=pages)) == 2
        assert [request.url.params.get("cursor") for request in script.sent] == [None, "c1"]
        assert script.sent[1].url.params["subject"] == "x"

    def test_id_cannot_change_the_path(self, script: Script) -> None:
        with pytest.raises(NotFound):
            script.call("get", "../stats?x", answers=[problem(404, "not_found")])
        assert script.sent[0].url.raw_path.startswith(b"/api/v1/memories/..%2Fstats%3Fx")
