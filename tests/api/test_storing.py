"""Storing memories over HTTP, one by one and in batches."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.models import Memory
from tests.api.conftest import bad_fields, is_problem, stored
from tests.api.full_memory import FIELDS, FULL
from tests.cases import each


def test_created_memory_is_returned_whole_with_defaults(bot):
    response = bot.post("/memories", {"content": "# Use WAL\nIt does not block readers."})
    assert response.status_code == 201
    body = response.json()
    memory = body["memory"]
    assert body["outcome"] == "created"
    assert set(memory) == FIELDS
    assert (memory["sensitivity"], memory["scope"], memory["category"], memory["type"]) == (
        *("public", "project", "general", "change"),
    )
    assert (memory["importance"], memory["trust"], memory["confidence"]) == (0.5, 0.5, 0.5)
    assert [memory[name] for name in ("tags", "concepts", "files_read", "files_modified", "entities")] == [
        []
    ] * 5
    assert memory["title"] == "Use WAL"
    assert memory["abstract"]


def test_every_settable_field_is_stored(bot):
    made = bot.post("/memories", FULL).json()["memory"]
    read = bot.get(f"/memories/{made['id']}", allow_private=True).json()
    for name, value in FULL.items():
        is_sorted = name in ("tags", "concepts", "aliases", "files_modified")
        assert read[name] == (sorted(value) if is_sorted else value), name
    changing = {"accessed_count", "last_accessed_at"}
    assert {k: v for k, v in made.items() if k not in changing} == {
        k: v for k, v in read.items() if k not in changing
    }


def test_same_content_is_refreshed_with_the_same_id(bot):
    first = stored(bot, content="twice")
    response = bot.post("/memories", {"content": "twice"})
    assert response.status_code == 200
    assert response.json()["outcome"] == "refreshed"
    assert response.json()["memory"]["id"] == first["id"]


def test_same_key_is_updated(bot):
    first = stored(bot, content="one", key="k")
    response = bot.post("/memories", {"content": "two", "key": "k"})
    assert (response.status_code, response.json()["outcome"]) == (200, "updated")
    assert response.json()["memory"]["id"] == first["id"]
    assert response.json()["memory"]["content"] == "two"


def test_unknown_fields_are_named_and_ignored(bot):
    response = bot.post("/memories", {"content": "x", "colour": "red", "id": "mine"})
    assert response.json()["ignored"] == ["colour", "id"]


@pytest.mark.conformance("store-35")
@each("ttl, days", [(3, 3), (0, None), (None, None), ("absent", 90)])
def test_ttl_sets_the_expiry(bot, ttl, days):
    body = {"content": "x"} if ttl == "absent" else {"content": "x", "ttl_days": ttl}
    expires = bot.post("/memories", body).json()["memory"]["expires_at"]
    if days is None:
        assert expires is None
    else:
        assert abs(timezone.datetime.fromisoformat(expires) - timezone.now() - timedelta(days)) < timedelta(
            minutes=1
        )


def test_past_creation_date_can_be_imported(bot):
    made = stored(bot, created_at="2017-10-22T17:41:19-07:00")
    assert made["created_at"] == made["updated_at"] == "2017-10-23T00:41:19Z"


@each(
    "field, value",
    [
        *[("content", bad) for bad in ("", "  ", None, 1, [], "x" * 100_001, "nul\x00")],
        *[
            (name, bad)
            for name in ("importance", "trust", "confidence")
            for bad in (-0.1, 1.1, "high", None, True)
        ],
        ("type", "poem"),
        ("sensitivity", "cosmic"),
        ("scope", "galaxy"),
        ("aliases", "one"),
        ("aliases", ["x" * 101]),
        ("aliases", [str(n) for n in range(21)]),
        ("superseded_by", 5),
        ("superseded_by", "no-such-id"),
        ("tags", "one"),
        ("tags", [""]),
        ("tags", ["x" * 101]),
        ("files_read", [1]),
        ("ttl_days", -1),
        ("ttl_days", 1e300),
        ("ttl_days", True),
        ("discovery_tokens", -1),
        ("discovery_tokens", 10**30),
        ("discovery_tokens", False),
        ("created_at", "yesterday"),
        ("created_at", "0001-01-01T00:00:00+23:59"),
        ("created_at", "9999-12-31"),
        ("created_at", 1e300),
        ("entities", [{"entity": ""}]),
        ("title", "x" * 501),
        ("project", "x" * 201),
    ],
)
def test_invalid_value_is_422_with_its_field(bot, field, value):
    [named] = {
        name.split(".")[0] for name in bad_fields(bot.post("/memories", {"content": "x", field: value}))
    }
    assert named == field
    assert not Memory.objects.exists()


def test_every_invalid_field_is_named(bot):
    response = bot.post("/memories", {"importance": 2, "type": "poem", "tags": ["ok", 5]})
    assert bad_fields(response) == {"content", "importance", "type", "tags.1"}


def test_error_never_repeats_a_value(bot):
    secret = "hunter2-" * 5
    for body in (
        {"content": "x", "type": secret},
        {"content": "x", "importance": secret},
        {"content": [secret]},
    ):
        assert b"hunter2" not in bot.post("/memories", body).content
    for body in ({"subject": "s", "predicate": "p", "object": "o", "memory_id": secret},):
        assert b"hunter2" not in bot.post("/facts", body).content


@each("body", [[], "text", 5, None, True])
def test_body_other_than_an_object_is_422(bot, body):
    is_problem(bot.raw_post("/memories", json.dumps(body).encode()), 422)


def test_empty_body_is_422(bot):
    is_problem(bot.post("/memories"), 422)


def test_longest_content_is_stored_whole(bot):
    content = "€" * 100_000
    assert stored(bot, content=content)["content"] == content


def test_batch_results_are_in_order_and_independent(bot):
    items = [{"content": "a"}, {"content": ""}, {"content": "a"}, 7, {"content": "b", "importance": 3}]
    response = bot.post("/memories/batch", {"memories": items})
    assert response.status_code == 200
    first, second, third, fourth, fifth = response.json()["results"]
    assert (first["outcome"], third["outcome"]) == ("created", "refreshed")
    assert first["id"] == third["id"]
    assert [error["field"] for error in second["error"]["errors"]] == ["content"]
    assert fourth["error"]["code"] == "invalid"
    assert [error["field"] for error in fifth["error"]["errors"]] == ["importance"]
    assert Memory.objects.count() == 1


def test_batch_has_at_most_a_thousand_items(bot):
    items = [{"content": f"memory {n}"} for n in range(1000)]
    results = bot.post("/memories/batch", {"memories": items}).json()["results"]
    assert {result["outcome"] for result in results} == {"created"}
    assert bad_fields(bot.post("/memories/batch", {"memories": [*items, {"content": "x"}]})) == {"memories"}


def test_batch_refuses_only_the_item_of_a_closed_project(agent):
    confined = agent(projects=["open"])
    items = [{"content": "a", "project": "open"}, {"content": "b", "project": "closed"}]
    good, bad = confined.post("/memories/batch", {"memories": items}).json()["results"]
    assert good["outcome"] == "created"
    assert bad["error"]["code"] == "forbidden"
