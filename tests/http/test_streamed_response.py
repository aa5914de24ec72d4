"""A streamed response that fails before anything was sent is a problem, not an empty 500."""

from __future__ import annotations

import json
import sqlite3

from django.db import DatabaseError

from memoryhub.http.rsgi import StreamedResponse


class Protocol:
    """Records what granian is asked to send."""

    def response_bytes(self, status, headers, body):
        self.status, self.headers, self.body = status, dict(headers), body


def failing_chunks(error):
    yield b"a line\n"
    raise error


def send(error) -> Protocol:
    protocol = Protocol()
    headers = [("Content-Type", "text/plain"), ("Content-Disposition", "x"), ("X-Request-ID", "abc")]
    StreamedResponse(protocol, ("127.0.0.1", "1"), 200, headers, failing_chunks(error)).send()
    return protocol


def test_damaged_page_is_503_with_advice():
    cause = sqlite3.DatabaseError("database disk image is malformed")
    cause.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    error = DatabaseError("database disk image is malformed")
    error.__cause__ = cause
    sent = send(error)
    assert (sent.status, sent.headers["content-type"]) == (503, "application/problem+json")
    assert "content-disposition" not in sent.headers
    problem = json.loads(sent.body)
    assert (problem["code"], problem["request_id"]) == ("store_damaged", "abc")


def test_unexpected_error_is_a_problem():
    sent = send(RuntimeError("x"))
    assert (sent.status, json.loads(sent.body)["code"]) == (500, "internal_error")
