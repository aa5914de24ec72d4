"""The export page."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from memoryhub.models import JournalEntry, Memory
from tests.web.markup import main

pytestmark = pytest.mark.django_db


def exported(client: Client, **query: Any) -> list[dict[str, Any]]:
    response = client.get("/transfer/export/", query)
    assert response.status_code == 200
    return [json.loads(line) for line in response.getvalue().splitlines()]


def test_export_contains_only_rows_that_the_person_sees(four_levels: Any, sign_in: Any) -> None:
    client = sign_in("view_private")
    assert [line["sensitivity"] for line in exported(client)] == ["public"]
    assert "1 private" in main(client.get("/transfer/")).words
    client.post("/switch/", {"level": "private", "on": "1", "next": "/"})
    assert [line["sensitivity"] for line in exported(client)] == ["public", "private"]
    shown = main(client.get("/transfer/")).words
    assert "2 memories" in shown
    assert "secret" not in shown
    assert "unknown" not in shown


def test_an_exported_secret_is_journaled(four_levels: Any, insider: Client) -> None:
    assert len(exported(insider)) == 3
    row = JournalEntry.objects.get(operation="export")
    secret = Memory.objects.get(sensitivity="secret")
    assert (row.actor, row.detail) == ("user:ada", {"secret": 1, "ids": [secret.uid]})


def test_an_export_is_a_file_that_no_cache_keeps(four_levels: Any, visitor: Client) -> None:
    response = visitor.get("/transfer/export/")
    assert response["Content-Disposition"].startswith('attachment; filename="memories-')
    assert "no-store" in response["Cache-Control"]


def test_history_is_exported_in_the_own_format_only(four_levels: Any, visitor: Client) -> None:
    kinds = {line["kind"] for line in exported(visitor, whole="on", project="zoo")}
    assert {"memoryhub", "memory", "journal"} <= kinds
    response = visitor.get("/transfer/export/", {"whole": "on", "format": "markdown"})
    assert response.status_code == 422
    assert "Only memoryhub" in main(response).words
