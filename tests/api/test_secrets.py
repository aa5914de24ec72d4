"""Credentials are refused over HTTP by kind, field and line, and never repeated."""

from __future__ import annotations

import json
from datetime import timedelta

from django.utils import timezone

from memoryhub.maintenance.operations.summarize_old import summarise_old
from memoryhub.models import Fact, JournalEntry, Memory
from tests.api.conftest import is_problem
from tests.cases import each

TOKEN = "gh" + "p_" + "aB3dE6gH9jK2mN5pQ8rS1tV4wX7yZ0cF" + "aB3d"
MESSAGE = "line 2 of content contains what looks like a GitHub token; remove it and store again"
DRAFT = {"content": f"deploy with\n{TOKEN}"}


def test_credential_is_refused_by_kind_and_line(bot):
    response = bot.post("/memories", DRAFT)
    problem = is_problem(response, 422, "secret_detected")
    assert problem["errors"] == [{"field": "content", "message": MESSAGE}]
    assert not Memory.objects.exists()


def test_credential_is_in_neither_response_nor_log_nor_journal(bot, caplog):
    issued = JournalEntry.objects.count()
    with caplog.at_level("DEBUG"):
        responses = [
            bot.post("/memories", DRAFT),
            bot.post("/memories/batch", {"memories": [DRAFT]}),
            bot.post("/tools/letsgo/store_memory", DRAFT),
            bot.post("/facts", {"subject": "ci", "predicate": "uses", "object": TOKEN}),
        ]
    assert all(b"secret_detected" in response.content for response in responses)
    assert all(TOKEN.encode() not in response.content for response in responses)
    assert TOKEN not in caplog.text
    noted = JournalEntry.objects.all()[: JournalEntry.objects.count() - issued]
    assert [row.operation for row in noted] == ["secret_blocked"] * 4
    assert all(TOKEN not in json.dumps([row.object_id, row.project, row.detail]) for row in noted)


def test_batch_refuses_only_the_item_with_a_credential(bot):
    body = bot.post("/memories/batch", {"memories": [{"content": "one"}, DRAFT, {"content": "two"}]}).json()
    assert [result.get("outcome") for result in body["results"]] == ["created", None, "created"]
    error = body["results"][1]["error"]
    assert (error["code"], error["errors"]) == ("secret_detected", [{"field": "content", "message": MESSAGE}])
    assert Memory.objects.count() == 2


def test_update_with_a_credential_is_refused(bot):
    uid = bot.post("/memories", {"content": "words"}).json()["memory"]["id"]
    response = bot.patch(f"/memories/{uid}", {"tags": ["fine", TOKEN]})
    problem = is_problem(response, 422, "secret_detected")
    message = problem["errors"][0]["message"]
    assert message.startswith("item 2 of tags contains what looks like a GitHub token")
    assert Memory.objects.get().content == "words"


def test_every_tool_refuses_a_credential(bot):
    problem = is_problem(bot.post("/tools/letsgo/store_memory", DRAFT), 422, "secret_detected")
    assert problem["detail"] == MESSAGE


@each("field", ["subject", "predicate", "object"])
def test_fact_with_a_credential_is_refused(bot, field):
    response = bot.post("/facts", {"subject": "a", "predicate": "b", "object": "c", field: TOKEN})
    assert is_problem(response, 422, "secret_detected")["errors"][0]["field"] == field
    assert not Fact.objects.exists()


def test_token_of_this_hub_is_a_credential(bot):
    response = bot.post("/memories", {"content": f"the bot's token is {bot.raw}"})
    assert bot.raw not in json.dumps(is_problem(response, 422, "secret_detected"))


def test_detection_can_be_turned_off(bot, configure):
    configure(block_secrets=False)
    assert bot.post("/memories", DRAFT).status_code == 201


def test_credentials_stored_while_off_do_not_stop_maintenance(bot, actor, configure):
    configure(block_secrets=False)
    then = (timezone.now() - timedelta(days=60)).isoformat()
    for number in range(5):
        bot.post("/memories", {"content": f"{TOKEN} {number}", "created_at": then})
    configure(block_secrets=True)
    assert summarise_old(actor).summarised == 5


COSTLY = "password=" * 11_111
TOO_COSTLY = "content is too costly to check for secrets. Shorten it or split it."


def test_text_too_costly_to_check_is_refused(bot):
    problem = is_problem(bot.post("/memories", {"content": COSTLY}), 422, "too_costly_to_check")
    assert problem["errors"] == [{"field": "content", "message": TOO_COSTLY}]
    assert not Memory.objects.exists()


def test_batch_refuses_only_the_item_too_costly_to_check(bot):
    body = bot.post("/memories/batch", {"memories": [{"content": "one"}, {"content": COSTLY}]}).json()
    assert body["results"][0]["outcome"] == "created"
    assert body["results"][1]["error"]["code"] == "too_costly_to_check"
    assert Memory.objects.count() == 1


def test_update_too_costly_to_check_is_refused(bot):
    made = bot.post("/memories", {"content": "one"}).json()["memory"]
    response = bot.patch(f"/memories/{made['id']}", {"content": COSTLY})
    is_problem(response, 422, "too_costly_to_check")
    assert Memory.objects.get().content == "one"


def test_conversation_too_costly_to_check_is_refused(bot):
    messages = [{"role": "user", "content": COSTLY}]
    problem = is_problem(bot.post("/extract", {"messages": messages}), 422, "too_costly_to_check")
    assert problem["errors"][0]["field"] == "messages"
