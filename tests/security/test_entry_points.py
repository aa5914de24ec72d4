"""Every entry point refuses or redacts a secret, and stores it nowhere."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import Client

from memoryhub.access.policy import Clearance
from memoryhub.models import JournalEntry, Memory
from memoryhub.security.secrets import RedactSecretsFilter
from tests.api.conftest import Agent
from tests.cases import each
from tests.security.conftest import TOKEN, URL

FIELDS = {
    **dict.fromkeys(("content", "title", "subtitle", "abstract", "overview"), f"words {TOKEN}"),
    **dict.fromkeys(("category", "key", "project", "session_id"), TOKEN),
    **{name: ["fine", TOKEN] for name in ("tags", "concepts", "aliases", "files_read", "files_modified")},
    "entities": [{"entity": TOKEN, "entity_type": "thing"}],
}
FACT = {"subject": "ci", "predicate": "uses", "object": "a key"}
REFUSING = [
    *(("/memories", {"content": "words", name: value}) for name, value in FIELDS.items()),
    ("/memories", {"content": f"connect to {URL}"}),
    ("/memories", {"content": f"words {TOKEN}", "deduplicate": True}),
    *(
        ("/facts", FACT | {name: TOKEN})
        for name in ("subject", "predicate", "object", "project", "session_id")
    ),
    ("/tools/letsgo/store_memory", {"content": f"words {TOKEN}"}),
    ("/tools/letsgo/store_memory", {"content": "words", "tags": [TOKEN]}),
    ("/tools/letsgo/store_memory", {"content": "words", "aliases": [TOKEN]}),
    ("/tools/letsgo/store_fact", FACT | {"object": TOKEN}),
    ("/tools/memory-mcp/memory_store", {"content": f"words {TOKEN}"}),
    ("/tools/memory-mcp/memory_store", {"content": "words", "summary": TOKEN}),
    ("/tools/pigo/memory_remember", {"content": f"words {TOKEN}", "category": "preferences"}),
    ("/events", {"event": "session:start", "session_id": TOKEN, "project": "p", "data": {}}),
    ("/events", {"event": "session:start", "session_id": "s", "project": TOKEN, "data": {}}),
    ("/extract", {"messages": [{"role": "user", "content": "we use tabs"}], "project": TOKEN}),
]


@each("path, body", REFUSING)
def test_api_call_is_refused_and_journaled(
    bot: Agent, assert_nowhere: Callable[..., None], path: str, body: dict[str, Any]
) -> None:
    response = bot.post(path, body)
    assert response.status_code == 422, response.content
    assert b"secret_detected" in response.content
    row = JournalEntry.objects.first()
    assert row is not None
    assert row.operation == "secret_blocked"
    assert set(row.detail) <= {"kind", "field", "line", "item", "content_hash"}
    assert_nowhere(response)
    assert_nowhere(token=URL)


ACCEPTED = [
    (
        "/events",
        {"event": "prompt:submit", "session_id": "s", "project": "p", "data": {"prompt": f"use {TOKEN}"}},
    ),
    (
        "/events",
        {
            "event": "tool:post",
            "session_id": "s",
            "project": "p",
            "data": {
                "tool_name": "Bash",
                "tool_input": {"command": f"curl -H 'X-Api-Key: {TOKEN}' https://x.internal"},
                "tool_response": f"We decided to deploy with {TOKEN} because it works",
            },
        },
    ),
    (
        "/events",
        {"event": "tool:post", "session_id": "s", "project": "p", "data": {"tool_name": TOKEN}},
    ),
    (
        "/events",
        {"event": "session:end", "session_id": "s", "project": "p", "data": {"reason": TOKEN}},
    ),
    (
        "/extract",
        {
            "messages": [
                {"role": "user", "content": f"I always prefer tabs. The token is {TOKEN}, remember that."},
                {"role": "assistant", "content": f"We decided to use {TOKEN} for the mirror."},
            ],
            "project": "p",
            "session_id": "s",
        },
    ),
    ("/inject", {"prompt": f"what about {TOKEN}?", "session_id": "s", "project": "p"}),
]


@each("path, body", ACCEPTED)
def test_accepted_call_is_stored_without_the_secret(
    bot: Agent, assert_nowhere: Callable[..., None], path: str, body: dict[str, Any]
) -> None:
    response = bot.post(path, body)
    assert response.status_code in (200, 201, 202), response.content
    assert_nowhere(response)


@each("field", ["content", "project", "tags", "aliases", "entities"])
def test_update_is_refused(bot: Agent, assert_nowhere: Callable[..., None], field: str) -> None:
    uid = bot.post("/memories", {"content": "words"}).json()["memory"]["id"]
    response = bot.patch(f"/memories/{uid}", {field: FIELDS[field]})
    assert response.status_code == 422
    row = JournalEntry.objects.first()
    assert row is not None
    assert (row.operation, row.object_id) == ("secret_blocked", uid)
    assert_nowhere(response)


@pytest.mark.parametrize("body", [{"content": "words"}, None])
def test_replacement_with_a_secret_is_refused_as_unknown(
    bot: Agent, assert_nowhere: Callable[..., None], body: dict[str, Any] | None
) -> None:
    if body:
        response = bot.post("/memories", body | {"superseded_by": TOKEN})
    else:
        uid = bot.post("/memories", {"content": "words"}).json()["memory"]["id"]
        response = bot.patch(f"/memories/{uid}", {"superseded_by": TOKEN})
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "superseded_by"
    assert_nowhere(response)


@pytest.mark.parametrize("field", ["content", "aliases"])
def test_import_of_any_field_is_refused(
    db: None, tmp_path: Path, assert_nowhere: Callable[..., None], field: str
) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text(json.dumps({"content": "one", field: FIELDS[field]}))
    with pytest.raises(CommandError, match="1 line could not be imported"):
        call_command("import_memories", str(path), stdout=StringIO(), stderr=(errors := StringIO()))
    assert not Memory.objects.exists()
    assert_nowhere(errors.getvalue())


def test_mira_answer_does_not_contain_the_secret(bot: Agent, assert_nowhere: Callable[..., None]) -> None:
    body = {"name": "memory", "arguments": {"action": "remember", "content": f"words {TOKEN}"}}
    response = bot.post("/tools/mira", body)
    assert not Memory.objects.exists()
    assert_nowhere(response)


def test_batch_journals_each_refusal(bot: Agent, assert_nowhere: Callable[..., None]) -> None:
    drafts = [{"content": "one"}, {"content": TOKEN}, {"content": "two", "tags": [TOKEN]}]
    response = bot.post("/memories/batch", {"memories": drafts})
    assert JournalEntry.objects.filter(operation="secret_blocked").count() == 2
    assert_nowhere(response)


def test_import_refuses_the_line_and_continues(
    db: None, tmp_path: Path, assert_nowhere: Callable[..., None]
) -> None:
    path = tmp_path / "old.jsonl"
    lines = [{"content": "one"}, {"content": f"two {TOKEN}"}, {"content": "three"}]
    path.write_text("\n".join(map(json.dumps, lines)))
    out, errors = StringIO(), StringIO()
    with pytest.raises(CommandError, match="1 line could not be imported"):
        call_command("import_memories", str(path), stdout=out, stderr=errors)
    assert Memory.objects.count() == 2
    assert JournalEntry.objects.filter(operation="secret_blocked").count() == 1
    assert_nowhere(out.getvalue(), errors.getvalue())


@pytest.mark.parametrize("path", ["/memories/new/"])
def test_form_refuses_it_and_shows_the_kind(
    admin_client: Client, assert_nowhere: Callable[..., None], path: str
) -> None:
    draft = {"content": f"words {TOKEN}", "type": "change", "category": "general", "scope": "project"}
    draft |= {"sensitivity": "public", "importance": "0.5", "trust": "0.5", "confidence": "0.5"}
    response = admin_client.post(path, draft)
    assert "GitHub token" in response.content.decode()
    assert not Memory.objects.exists()
    # Only the form shows the input again.
    assert_nowhere()


def test_error_for_a_broken_request_does_not_repeat_it(
    bot: Agent, assert_nowhere: Callable[..., None]
) -> None:
    responses = [
        bot.raw_post("/memories", f'{{"content": "{TOKEN}"'.encode()),
        bot.post("/memories", {"content": {"x": TOKEN}}),
        bot.post("/memories", {"content": "words", "importance": TOKEN}),
    ]
    assert {response.status_code for response in responses} <= {400, 422}
    assert_nowhere(*responses)


def test_unknown_field_name_is_not_stored(bot: Agent, assert_nowhere: Callable[..., None]) -> None:
    assert bot.post("/memories", {"content": "words", TOKEN: TOKEN}).json()["ignored"] == [TOKEN]
    assert_nowhere()


def test_refusal_is_visible_only_within_the_project(bot: Agent) -> None:
    bot.post("/memories", {"content": TOKEN, "project": "shop"})
    seen = JournalEntry.objects.filter(operation="secret_blocked")
    assert seen.visible_to(Clearance.up_to("public", projects=["shop"])).exists()
    assert not seen.visible_to(Clearance.up_to("secret", projects=["other"])).exists()


def test_log_lines_are_redacted() -> None:
    with_secret = logging.LogRecord(
        "django.server", logging.INFO, "", 0, '"GET /search?query=%s" %s', (TOKEN, 200), None
    )
    plain = logging.LogRecord("django.server", logging.INFO, "", 0, '"GET %s" %s', ("/", 200), None)
    assert all(RedactSecretsFilter().filter(record) for record in (with_secret, plain))
    assert with_secret.getMessage() == '"GET /search?query=[secret removed]" 200'
    assert plain.getMessage() == '"GET /" 200'
    handlers = settings.LOGGING["handlers"].values()
    assert all("without_secrets" in handler["filters"] for handler in handlers)


def test_import_redacts_unknown_field_names(
    db: None, tmp_path: Path, assert_nowhere: Callable[..., None]
) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text(json.dumps({"content": "one", TOKEN: 1}))
    out = StringIO()
    call_command("import_memories", str(path), stdout=out)
    assert Memory.objects.count() == 1
    assert "[secret removed]" in out.getvalue()
    assert_nowhere(out.getvalue())
