"""Random requests generated from the OpenAPI document get documented responses.

Two checks of schemathesis are left out, because what they report is intended:

- ``positive_data_acceptance``: requests that fit the document are refused for rules that it cannot express:
  a cursor of this list, the id of a visible memory, an ``If-Match`` of the current version, a moment between
  1900 and now, more than white space, an operation and a format that exist.
- ``negative_data_rejection``: the API accepts an empty parameter as an absent one (``until=``), numbers and
  booleans in each other's place and moments in Unix time, as lenient agents write them, and an import without
  a body, which is an empty file.

``tests/api/test_auth.py`` asks every operation without a token.
With ``SCHEMA_COVERAGE=1``, as in the CI, twice as many requests are sent, and some at the limits of fields.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, settings
from schemathesis import checks

from tests.api.conftest import Agent

pytestmark = pytest.mark.long
CHECKS = (
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.missing_required_header,
    checks.unsupported_method,
)
# They need an earlier request, or send more of them.
SEQUENCE_CHECKS = (
    *CHECKS,
    checks.ignored_auth,
    checks.use_after_free,
    checks.ensure_resource_availability,
)
schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application())
# Values at the limits of every field: two thirds of the time. A step of the CI asks for them.
THOROUGH = bool(os.environ.get("SCHEMA_COVERAGE"))
schema.config.phases.coverage.enabled = THOROUGH


@pytest.fixture
def busy(bot: Agent) -> Iterator[Agent]:
    """A store with a little of everything, and requests that do not end the test's transaction."""
    for n in range(3):
        bot.post("/memories", {"content": f"memory {n}", "session_id": "s1", "tags": ["a"]})
        bot.post("/facts", {"subject": "s", "predicate": "p", "object": f"o{n}"})
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield bot
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


# The document has no links for these: later requests of a sequence use the id of a stored memory.
FOLLOWING = ("get", "patch", "delete")
_paths = schema.raw_schema["paths"]
_paths["/api/v1/memories"]["post"]["responses"]["201"]["links"] = {
    method: {
        "operationId": _paths["/api/v1/memories/{id}"][method]["operationId"],
        "parameters": {"id": "$response.body#/memory/id"},
    }
    for method in FOLLOWING
}
BOUNDED = settings(
    max_examples=10 if THOROUGH else 5,
    stateful_step_count=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


# Without a fixture, each process of the test run would generate all cases when it collects them.
at_run_time = schemathesis.pytest.from_fixture("documented")


@pytest.fixture
def documented(busy: Agent, request: pytest.FixtureRequest) -> Any:
    request.node._nodeid = request.node.nodeid  # where schemathesis 4 looks, and pytest 9.2 has none
    return schema


@at_run_time.include(method="GET").parametrize()
@BOUNDED
def test_any_read_is_answered_as_documented(case: schemathesis.Case, busy: Agent) -> None:
    case.call_and_validate(headers={"Authorization": f"Bearer {busy.raw}"}, checks=CHECKS)


@at_run_time.exclude(method="GET").parametrize()
@BOUNDED
def test_any_change_is_answered_as_documented(case: schemathesis.Case, busy: Agent) -> None:
    case.call_and_validate(headers={"Authorization": f"Bearer {busy.raw}"}, checks=CHECKS)


def test_any_sequence_of_requests_is_answered_as_documented(busy: Agent) -> None:
    """Later requests use ids from earlier answers: a memory is stored, changed, read and deleted."""
    asked: set[str] = set()
    headers = {"Authorization": f"Bearer {busy.raw}"}

    class Agents(schema.include(path_regex="/memories|/facts").as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            # hypothesis needs the same answers each time: each sequence begins with the same store.
            self.savepoint = transaction.savepoint()

        def teardown(self) -> None:
            transaction.savepoint_rollback(self.savepoint)
            super().teardown()

        def get_call_kwargs(self, case: schemathesis.Case) -> dict[str, Any]:
            return {"headers": headers}

        def validate_response(self, response: Any, case: schemathesis.Case, **options: Any) -> None:
            asked.add(case.operation.label)
            case.validate_response(response, checks=SEQUENCE_CHECKS, headers=headers)

    Agents.run(settings=settings(BOUNDED, max_examples=25))  # enough that each method is asked
    assert {f"{method.upper()} /api/v1/memories/{{id}}" for method in FOLLOWING} <= asked
