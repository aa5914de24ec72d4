"""``POST /extract``, ``GET /extract/{id}`` and the ``deduplicate`` option of ``POST /memories``."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.extraction import services
from memoryhub.models import Extraction, Memory
from tests.api.conftest import is_problem
from tests.cases import each
from tests.extraction.conftest import SAID


@pytest.mark.conformance("pigo-49")
def test_rules_answer_at_once(bot: Any) -> None:
    response = bot.post("/extract", {"messages": SAID, "project": "p", "session_id": "s"})
    assert response.status_code == 200
    body = response.json()
    assert (body["id"], body["status"], body["extractor"], body["notes"]) == (None, "done", "rules", [])
    assert {one["category"] for one in body["results"]} == {"events", "preferences", "cases"}
    assert {one["outcome"] for one in body["results"]} == {"created"}
    stored = dict(Memory.objects.values_list("uid", "abstract"))
    assert {one["id"]: one["abstract"] for one in body["results"]} == stored
    assert set(Memory.objects.values_list("project", "session_id")) == {("p", "s")}


def test_repeated_conversation_stores_nothing_new(bot: Any) -> None:
    for _ in range(2):
        body = bot.post("/extract", {"messages": SAID}).json()
    assert {one["outcome"] for one in body["results"]} == {"refreshed"}


def test_model_is_not_called_during_the_request(bot: Any, model: Any) -> None:
    response = bot.post("/extract", {"messages": SAID})
    assert response.status_code == 202
    body = response.json()
    assert body["status"] == "queued"
    assert response["Location"] == f"/api/v1/extract/{body['id']}"
    assert model.asked == []
    assert Memory.objects.count() == 0


def test_result_is_available_after_processing(bot: Any, model: Any) -> None:
    uid = bot.post("/extract", {"messages": SAID}).json()["id"]
    assert bot.get(f"/extract/{uid}").json()["status"] == "queued"
    services.process_next()
    body = bot.get(f"/extract/{uid}").json()
    assert (body["status"], body["extractor"]) == ("done", "model")
    [result] = body["results"]
    assert (result["outcome"], result["category"]) == ("created", "events")
    assert "Postgres" in result["abstract"]


def test_conversation_above_the_model_level_is_read_by_rules(bot: Any, model: Any) -> None:
    response = bot.post("/extract", {"messages": SAID, "sensitivity": "secret"})
    assert response.status_code == 200
    assert response.json()["notes"]
    assert model.asked == []


def test_misconfigured_model_is_reported_and_rules_are_used(bot: Any, configure: Any) -> None:
    configure(llm="openai")
    body = bot.post("/extract", {"messages": SAID}).json()
    assert body["extractor"] == "rules"
    assert "llm_url is empty" in body["notes"][0]


def test_credentials_are_not_queued(bot: Any, model: Any) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    bot.post("/extract", {"messages": [{"role": "user", "content": f"use {secret} please"}]})
    [row] = Extraction.objects.all()
    assert secret not in str(row.messages)
    services.process_next()
    assert secret not in str(model.asked)


def test_credential_becomes_no_memory(bot: Any) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    said = f"We always use the token {secret} for releases. I prefer tea over coffee."
    body = bot.post("/extract", {"messages": [{"role": "user", "content": said}]}).json()
    assert [one["abstract"] for one in body["results"]] == ["I prefer tea over coffee."]
    assert secret not in str(list(Memory.objects.values()))


def test_other_tokens_cannot_see_it(agent: Any, bot: Any, model: Any) -> None:
    uid = bot.post("/extract", {"messages": SAID}).json()["id"]
    is_problem(agent(name="other").get(f"/extract/{uid}"), 404)
    is_problem(bot.get("/extract/nothing"), 404)


def test_write_permission_is_required(agent: Any) -> None:
    reader = agent(rights=("read",))
    is_problem(reader.post("/extract", {"messages": SAID}), 403)
    is_problem(reader.get("/extract/x"), 403)


def test_restricted_token_only_writes_to_its_projects(agent: Any) -> None:
    confined = agent(projects=["zoo"])
    is_problem(confined.post("/extract", {"messages": SAID, "project": "bank"}), 403)
    assert confined.post("/extract", {"messages": SAID}).status_code == 200
    assert set(Memory.objects.values_list("project", flat=True)) == {"zoo"}


def test_personal_memories_belong_to_the_owner(bot: Any) -> None:
    bot.post("/extract", {"messages": SAID, "scope": "personal"})
    assert set(Memory.objects.values_list("scope", "owner")) == {("personal", "ada")}


@each(
    "body, field",
    [
        ({}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"content": "x"}]}, "messages.0.role"),
        ({"messages": [], "scope": "world"}, "scope"),
        ({"messages": [], "sensitivity": "cosmic"}, "sensitivity"),
        ({"messages": [], "project": 7}, "project"),
    ],
)
def test_invalid_field_is_named(bot: Any, body: Any, field: str) -> None:
    problem = is_problem(bot.post("/extract", body), 422)
    assert any(error["field"].startswith(field) for error in problem["errors"])


def test_too_many_messages_are_refused(bot: Any, configure: Any) -> None:
    configure(max_extract_messages=1)
    is_problem(bot.post("/extract", {"messages": SAID}), 422)


def test_other_roles_and_parts_without_text_are_ignored(bot: Any) -> None:
    messages = [
        {"role": "system", "content": "I prefer obedience above all."},
        {"role": "tool", "content": "We decided to delete everything."},
        {
            "role": "user",
            "content": [{"type": "image", "url": "x"}, {"type": "text", "text": "I prefer tea."}],
        },
        {"role": "user", "content": [{"type": "text", "text": 7}, {"text": None}]},
    ]
    body = bot.post("/extract", {"messages": messages}).json()
    assert [one["abstract"] for one in body["results"]] == ["I prefer tea."]


def test_injected_memories_are_not_extracted_again(bot: Any) -> None:
    said = "<memory-context>I prefer tea over coffee.</memory-context> Hello there!"
    assert bot.post("/extract", {"messages": [{"role": "user", "content": said}]}).json()["results"] == []


def test_message_with_only_tool_calls_has_no_content(bot: Any) -> None:
    calls = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1"}]}
    response = bot.post(
        "/extract", {"messages": [SAID[0], calls, {"role": "tool", "content": "We use tabs."}]}
    )
    assert response.status_code == 200
    assert {one["category"] for one in response.json()["results"]} == {"events", "preferences"}


TEXT = "Ada leads the billing team"


def test_without_deduplication_only_identical_content_matches(bot: Any) -> None:
    bot.post("/memories", {"content": TEXT})
    assert bot.post("/memories", {"content": f"{TEXT}!"}).status_code == 201
    assert Memory.objects.count() == 2


@pytest.mark.conformance("pigo-53")
def test_deduplication_skips_known_content(bot: Any) -> None:
    kept = bot.post("/memories", {"content": TEXT}).json()["memory"]["id"]
    response = bot.post("/memories", {"content": f"{TEXT}!", "deduplicate": True})
    assert response.status_code == 200
    body = response.json()
    assert (body["outcome"], body["memory"]["id"], body["ignored"]) == ("skipped", kept, [])


@pytest.mark.conformance("pigo-54")
def test_deduplication_merges_additions(bot: Any) -> None:
    bot.post("/memories", {"content": TEXT})
    body = bot.post("/memories", {"content": f"{TEXT} from Lisbon", "deduplicate": True}).json()
    assert (body["outcome"], body["memory"]["content"]) == ("merged", f"{TEXT} from Lisbon")


@pytest.mark.conformance("pigo-54")
def test_deduplication_creates_new_content(bot: Any) -> None:
    assert bot.post("/memories", {"content": TEXT, "deduplicate": True}).status_code == 201


def test_deduplicate_must_be_a_boolean(bot: Any) -> None:
    response = bot.post("/memories", {"content": TEXT, "deduplicate": "perhaps"})
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "deduplicate"


def test_lines_of_a_claude_code_transcript_are_messages(bot: Any) -> None:
    """What Claude Code writes itself is not what a person said."""

    def line(text: str, **more: Any) -> dict[str, Any]:
        return {"type": "user", "message": {"role": "user", "content": text}, **more}

    lines = [
        line("We decided to keep the queue in Postgres."),
        line("We decided to keep the log in Redis.", isCompactSummary=True),
        line("We decided to keep the files in S3.", isMeta=True),
        line("<local-command-stdout>We decided to keep the mail in Exim.</local-command-stdout>"),
    ]
    response = bot.post("/extract", {"messages": lines, "cwd": "/home/ada/shop"})
    assert response.status_code == 200
    stored = list(Memory.objects.values_list("abstract", "project"))
    assert stored == [("We decided to keep the queue in Postgres.", "shop")]
