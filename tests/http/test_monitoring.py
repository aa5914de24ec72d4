"""``/metrics`` and the log lines of requests."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from django.db import OperationalError, ProgrammingError, connection, transaction
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.core.logs import JsonFormatter
from tests.api.conftest import is_problem
from tests.cases import each

TOKEN = "a-token-for-prometheus"


@pytest.fixture(autouse=True)
def enabled(settings):
    settings.METRICS_TOKEN = TOKEN


def scrape(**headers: str) -> Any:
    return Client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}", **headers})


def figures() -> dict[str, dict[tuple[str, ...], float]]:
    """Return the samples by name and by the values of their labels."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(scrape().content.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


class TestAccess:
    def test_metrics_are_off_by_default(self, db, settings):
        settings.METRICS_TOKEN = ""
        assert scrape().status_code == 404

    @each("sent", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
    def test_other_tokens_are_refused(self, db, sent):
        problem = is_problem(scrape(Authorization=sent), 401, "unauthenticated")
        assert "MEMORYHUB_METRICS_TOKEN" in problem["detail"]

    def test_token_of_an_agent_is_refused(self, agent):
        assert scrape(Authorization=f"Bearer {agent().raw}").status_code == 401

    def test_guesses_from_one_address_are_limited(self, db, settings):
        guess = {"Authorization": "Bearer wrong"}
        statuses = {
            Client(REMOTE_ADDR="203.0.113.7").get("/metrics", headers=guess).status_code for _ in range(200)
        }
        assert statuses == {401, 429}

    def test_metrics_token_opens_nothing_else(self, db):
        answer = Client().get("/api/v1/memories", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 401


class TestFigures:
    def test_requests_are_counted_by_route_and_status(self, agent):
        client = agent().http
        before = figures()["memoryhub_requests_total"]
        for _ in range(3):
            client.get("/api/v1/memories")
        counted = figures()
        key = ("GET", "api/v1/memories", "200")
        assert counted["memoryhub_requests_total"][key] == before.get(key, 0) + 3
        assert counted["memoryhub_request_seconds_count"][("api/v1/memories",)] >= 3
        assert counted["memoryhub_database_statements_total"][()] > 0

    def test_mcp_calls_are_counted_by_tool(self, agent):
        client = agent().http
        call = {"name": "search_memories", "arguments": {"query": "deploy"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        client.post("/mcp/letsgo", body, content_type="application/json")
        counted = figures()["memoryhub_requests_total"]
        assert counted[("POST", "mcp/letsgo/search_memories", "200")] >= 1

    def test_paths_queries_and_unknown_tools_are_no_labels(self, agent):
        client = agent().http
        client.get("/memories/?q=hunting")
        client.get("/nowhere/hunting")
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hunting"}}
        client.post("/mcp/letsgo", body, content_type="application/json")
        client.generic("HUNTING", "/api/v1/memories")
        assert "hunting" not in scrape().content.decode().lower()

    def test_memories_are_counted_by_state(self, remember):
        before = figures()["memoryhub_memories"]
        remember("one")
        assert figures()["memoryhub_memories"][("live",)] == before[("live",)] + 1

    def test_every_status_of_a_queue_is_listed(self, db):
        assert figures()["memoryhub_extractions"][("queued",)] == 0

    def test_failed_statements_are_counted(self, db, monkeypatch):
        error = ProgrammingError if IS_POSTGRES else OperationalError
        labels = (error.__name__,)
        before = figures().get("memoryhub_database_errors_total", {}).get(labels, 0)

        def fail(*args: Any, **kwargs: Any) -> Any:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT missing FROM memoryhub_memory")

        monkeypatch.setattr("memoryhub.api.health.find_store_errors", fail)
        with pytest.raises(error):
            Client().get("/readyz")
        assert figures()["memoryhub_database_errors_total"][labels] == before + 1


class TestLogs:
    @pytest.fixture
    def lines(self, settings, caplog):
        settings.LOG_FORMAT = "json"
        caplog.set_level(logging.INFO, "memoryhub.request")

        def read() -> list[dict[str, Any]]:
            return [json.loads(JsonFormatter().format(record)) for record in caplog.records]

        return read

    def test_each_request_is_one_line_with_its_id(self, db, lines):
        answer = Client().get("/api/v1/memories?q=hunting", headers={"X-Request-ID": "abc-1"})
        [line] = lines()
        assert (line["method"], line["route"], line["status"]) == ("GET", "api/v1/memories", 401)
        assert answer["X-Request-ID"] == "abc-1"
        assert "hunting" not in json.dumps(line)

    def test_lines_of_a_request_have_its_id(self, db, lines, monkeypatch):
        written = []

        def note(request: Any) -> Any:
            record = logging.LogRecord("x", logging.INFO, "", 0, "during %s", ("it",), None)
            written.append(json.loads(JsonFormatter().format(record)))
            return []

        monkeypatch.setattr("memoryhub.api.health.find_store_errors", lambda: note(None))
        Client().get("/readyz", headers={"X-Request-ID": "abc-2"})
        assert [(line["message"], line["request_id"]) for line in written] == [("during it", "abc-2")]

    def test_line_outside_a_request_has_no_id(self):
        record = logging.LogRecord("x", logging.ERROR, "", 0, "alone\nhere", (), None)
        text = JsonFormatter().format(record)
        assert "\n" not in text
        assert "request_id" not in json.loads(text)

    def test_exception_is_in_the_same_line(self):
        try:
            raise ValueError("a cause")
        except ValueError as error:
            info = (type(error), error, error.__traceback__)
        text = JsonFormatter().format(logging.LogRecord("x", logging.ERROR, "", 0, "failed", (), info))
        assert "ValueError: a cause" in json.loads(text)["exception"]
        assert "\n" not in text

    def test_plain_logs_have_no_line_for_a_request(self, db, lines, settings):
        settings.LOG_FORMAT = "plain"
        Client().get("/healthz")
        assert lines() == []
