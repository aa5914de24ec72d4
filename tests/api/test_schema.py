"""Random requests generated from the OpenAPI document get documented responses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, settings
from schemathesis import checks

from tests.api.conftest import Agent

CHECKS = (
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
)
schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application())


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


@pytest.mark.slow
@schema.parametrize()
@settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_any_request_is_answered_as_documented(case: schemathesis.Case, busy: Agent) -> None:
    response = case.call(headers={"Authorization": f"Bearer {busy.raw}"})
    case.validate_response(response, checks=CHECKS)
