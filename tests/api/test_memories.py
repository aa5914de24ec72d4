"""Storing, reading, changing and ending memories over HTTP."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.models import JournalEntry, Memory
from tests.api.conftest import bad_fields, is_problem

FIELDS = {
    *("id", "content", "title", "subtitle", "abstract", "overview", "category", "type", "concepts", "tags"),
    *("importance", "trust", "confidence", "sensitivity", "scope", "project", "session_id", "key"),
    *("files_read", "files_modified", "discovery_tokens", "accessed_count", "created_at", "updated_at"),
    *("last_accessed_at", "expires_at", "deleted_at", "content_hash", "entities"),
}
FULL = {
    "content": "Use WAL",
    "title": "A title",
    "subtitle": "A subtitle",
    "abstract": "One line",
    "overview": "A paragraph",
    "category": "database",
    "type": "decision",
    "concepts": ["trade-off", "gotcha"],
    "tags": ["wal", "sqlite"],
    "importance": 0.9,
    "trust": 0.8,
    "confidence": 0.7,
    "sensitivity": "private",
    "scope": "team",
    "project": "hub",
    "session_id": "s1",
    "key": "journal-mode",
    "files_read": ["a.py"],
    "files_modified": ["src/c.py", "src/b.py"],
    "discovery_tokens": 12,
    "entities": [{"entity": "SQLite", "entity_type": "tool"}],
}


def stored(bot, **fields):
    return bot.post("/memories", {"content": "something", **fields}).json()["memory"]


def test_storing_answers_201_with_the_whole_memory_and_its_defaults(bot):
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


def test_every_settable_field_is_kept_and_read_back_the_same(bot):
    made = bot.post("/memories", FULL).json()["memory"]
    read = bot.get(f"/memories/{made['id']}", allow_private=True).json()
    for name, value in FULL.items():
        assert read[name] == (sorted(value) if name in ("tags", "concepts", "files_modified") else value), (
            name
        )
    changing = {"accessed_count", "last_accessed_at"}
    assert {k: v for k, v in made.items() if k not in changing} == {
        k: v for k, v in read.items() if k not in changing
    }


def test_the_same_content_again_is_refreshed_with_the_same_id(bot):
    first = stored(bot, content="twice")
    response = bot.post("/memories", {"content": "twice"})
    assert response.status_code == 200
    assert response.json()["outcome"] == "refreshed"
    assert response.json()["memory"]["id"] == first["id"]


def test_the_same_key_again_is_updated(bot):
    first = stored(bot, content="one", key="k")
    response = bot.post("/memories", {"content": "two", "key": "k"})
    assert (response.status_code, response.json()["outcome"]) == (200, "updated")
    assert response.json()["memory"]["id"] == first["id"]
    assert response.json()["memory"]["content"] == "two"


def test_fields_that_mean_nothing_are_named_and_not_refused(bot):
    response = bot.post("/memories", {"content": "x", "colour": "red", "id": "mine"})
    assert response.json()["ignored"] == ["colour", "id"]


@pytest.mark.parametrize(("ttl", "days"), [(3, 3), (0, None), (None, None), ("absent", 90)])
def test_a_ttl_sets_the_expiry(bot, ttl, days):
    body = {"content": "x"} if ttl == "absent" else {"content": "x", "ttl_days": ttl}
    expires = bot.post("/memories", body).json()["memory"]["expires_at"]
    if days is None:
        assert expires is None
    else:
        assert abs(timezone.datetime.fromisoformat(expires) - timezone.now() - timedelta(days)) < timedelta(
            minutes=1
        )


def test_history_can_be_imported_with_its_date(bot):
    made = stored(bot, created_at="2017-10-22T17:41:19-07:00")
    assert made["created_at"] == made["updated_at"] == "2017-10-23T00:41:19Z"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("content", bad) for bad in ("", "  ", None, 1, [], "x" * 100_001, "nul\x00")],
        *[(name, bad) for name in ("importance", "trust", "confidence") for bad in (-0.1, 1.1, "high", None)],
        ("type", "poem"),
        ("sensitivity", "cosmic"),
        ("scope", "galaxy"),
        ("tags", "one"),
        ("tags", [""]),
        ("tags", ["x" * 101]),
        ("files_read", [1]),
        ("ttl_days", -1),
        ("ttl_days", 1e300),
        ("discovery_tokens", -1),
        ("discovery_tokens", 10**30),
        ("created_at", "yesterday"),
        ("created_at", "0001-01-01T00:00:00+23:59"),
        ("created_at", "9999-12-31"),
        ("created_at", 1e300),
        ("entities", [{"entity": ""}]),
        ("title", "x" * 501),
        ("project", "x" * 201),
    ],
)
def test_a_bad_value_is_422_and_names_its_field(bot, field, value):
    [named] = {
        name.split(".")[0] for name in bad_fields(bot.post("/memories", {"content": "x", field: value}))
    }
    assert named == field
    assert not Memory.objects.exists()


def test_every_bad_field_is_named_at_once(bot):
    response = bot.post("/memories", {"importance": 2, "type": "poem", "tags": ["ok", 5]})
    assert bad_fields(response) == {"content", "importance", "type", "tags.1"}


def test_an_error_never_repeats_a_value(bot):
    secret = "hunter2-" * 5
    for body in (
        {"content": "x", "type": secret},
        {"content": "x", "importance": secret},
        {"content": [secret]},
    ):
        assert b"hunter2" not in bot.post("/memories", body).content
    for body in ({"subject": "s", "predicate": "p", "object": "o", "memory_id": secret},):
        assert b"hunter2" not in bot.post("/facts", body).content


@pytest.mark.parametrize("body", [[], "text", 5, None, True])
def test_a_body_that_is_no_object_is_422(bot, body):
    is_problem(bot.raw_post("/memories", json.dumps(body).encode()), 422)


def test_an_empty_body_is_422(bot):
    is_problem(bot.post("/memories"), 422)


def test_the_longest_content_is_kept_whole(bot):
    content = "€" * 100_000
    assert stored(bot, content=content)["content"] == content


def test_a_batch_answers_in_order_and_one_bad_item_does_not_lose_the_others(bot):
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


def test_a_batch_holds_a_thousand_and_no_more(bot):
    items = [{"content": f"memory {n}"} for n in range(1000)]
    results = bot.post("/memories/batch", {"memories": items}).json()["results"]
    assert {result["outcome"] for result in results} == {"created"}
    assert bad_fields(bot.post("/memories/batch", {"memories": [*items, {"content": "x"}]})) == {"memories"}


def test_in_a_batch_a_closed_project_refuses_its_item_alone(agent):
    confined = agent(projects=["open"])
    items = [{"content": "a", "project": "open"}, {"content": "b", "project": "closed"}]
    good, bad = confined.post("/memories/batch", {"memories": items}).json()["results"]
    assert good["outcome"] == "created"
    assert bad["error"]["code"] == "forbidden"


def test_reading_a_memory_counts_an_access_and_does_not_make_it_look_new(bot):
    made = stored(bot)
    bot.get(f"/memories/{made['id']}")
    read = bot.get(f"/memories/{made['id']}").json()
    assert read["accessed_count"] == 2
    assert read["last_accessed_at"]
    assert read["updated_at"] == made["updated_at"]


def test_a_list_shows_previews_in_the_place_of_long_texts(bot):
    stored(bot, content="word " * 1000)
    [item] = bot.get("/memories").json()["items"]
    assert set(item) == FIELDS - {"content"} | {"preview"}
    assert len(item["preview"]) <= 200


@pytest.mark.parametrize("order", ["-updated_at", "-created_at", "-importance", "-accessed_count"])
def test_pages_show_every_memory_once_in_any_order(bot, order):
    for n in range(11):
        made = stored(bot, content=f"number {n}", importance=n % 3 / 10)
        for _ in range(n % 4):
            bot.get(f"/memories/{made['id']}")
    seen, cursor = [], None
    while True:
        query = {"limit": 4, "order": order} | ({"cursor": cursor} if cursor else {})
        page = bot.get("/memories", **query).json()
        assert page["total"] == 11
        seen += page["items"]
        cursor = page["next_cursor"]
        if not cursor:
            break
    column = order.removeprefix("-")
    assert len({item["id"] for item in seen}) == len(seen) == 11
    assert [item[column] for item in seen] == sorted((item[column] for item in seen), reverse=True)


@pytest.mark.parametrize(
    "filters",
    [
        {"project": "hub"},
        {"session_id": "s1"},
        {"type": "decision"},
        {"category": "database"},
        {"concept": "gotcha"},
        {"tag": "wal"},
        {"file": "src/c.py"},
        {"file": "c.py"},
        {"file": "src"},
        {"file": "a.py"},
        {"sensitivity": "private"},
        {"scope": "team"},
        {"since": "2020-01-01", "until": "2020-01-03"},
        {"project": "hub", "tag": "wal", "type": "decision"},
    ],
)
def test_each_filter_narrows_the_list(bot, filters):
    wanted = stored(bot, **FULL, created_at="2020-01-02T00:00:00Z")
    stored(bot, content="another thing", files_read=["lib/other.py"])
    found = bot.get("/memories", allow_private=1, **filters).json()
    assert [item["id"] for item in found["items"]] == [wanted["id"]]
    assert found["total"] == 1


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": -1}, "limit"),
        ({"limit": 201}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"limit": 10**40}, "limit"),
        ({"order": "title"}, "order"),
        ({"type": "poem"}, "type"),
        ({"sensitivity": "cosmic"}, "sensitivity"),
        ({"since": "soon"}, "since"),
        ({"since": "0001-01-01T00:00:00+23:59"}, "since"),
        ({"until": "9999-12-31T23:59:59-23:59"}, "until"),
        ({"project": "a\x00b"}, "project"),
        ({"tag": "x" * 1001}, "tag"),
        ({"allow_private": "perhaps"}, "allow_private"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"cursor": "é"}, "cursor"),
    ],
)
def test_a_bad_parameter_is_422_and_names_itself(bot, query, field):
    assert bad_fields(bot.get("/memories", **query)) == {field}


def test_a_change_sets_what_is_given_and_writes_a_revision(bot):
    made = stored(bot, content="before", tags=["old"])
    response = bot.patch(f"/memories/{made['id']}", {"content": "after", "tags": ["new"], "importance": 0.9})
    assert response.json()["outcome"] == "updated"
    memory = response.json()["memory"]
    assert (memory["content"], memory["tags"], memory["importance"]) == ("after", ["new"], 0.9)
    [revision] = bot.get(f"/memories/{made['id']}/history").json()["revisions"]
    assert revision["before"]["content"] == "before"
    assert revision["before"]["tags"] == ["old"]
    assert revision["actor"] == "token:bot"


def test_a_change_to_what_is_there_already_is_unchanged(bot):
    made = stored(bot, tags=["a"])
    response = bot.patch(f"/memories/{made['id']}", {"tags": ["a"], "project": "", "hue": 1})
    assert (response.json()["outcome"], response.json()["ignored"]) == ("unchanged", ["hue"])
    assert response.json()["memory"]["updated_at"] == made["updated_at"]


@pytest.mark.parametrize(
    "change", [{"importance": 1.5}, {"trust": -1}, {"confidence": 7}, {"content": ""}, {"type": None}, {}]
)
def test_a_bad_change_is_422_and_changes_nothing(bot, change):
    made = stored(bot)
    is_problem(bot.patch(f"/memories/{made['id']}", change), 422)
    assert bot.get(f"/memories/{made['id']}").json()["content"] == made["content"]


def test_a_change_to_what_another_memory_says_is_a_conflict(bot):
    stored(bot, content="taken")
    made = stored(bot, content="free")
    is_problem(bot.patch(f"/memories/{made['id']}", {"content": "taken"}), 409, "conflict")


def test_a_memory_in_the_trash_cannot_be_changed(bot):
    made = stored(bot)
    bot.delete(f"/memories/{made['id']}")
    is_problem(bot.patch(f"/memories/{made['id']}", {"title": "t"}), 409)


def test_a_change_from_an_outdated_version_is_412(bot):
    made = stored(bot)
    old = bot.get(f"/memories/{made['id']}")["ETag"]
    fresh = bot.patch(f"/memories/{made['id']}", {"title": "first"}, If_Match=old)
    assert fresh.status_code == 200
    is_problem(
        bot.patch(f"/memories/{made['id']}", {"title": "second"}, If_Match=old), 412, "precondition_failed"
    )
    assert (
        bot.patch(f"/memories/{made['id']}", {"title": "second"}, If_Match=fresh["ETag"]).status_code == 200
    )


def test_if_match_takes_any_of_several_and_a_star(bot):
    made = stored(bot)
    tag = bot.get(f"/memories/{made['id']}")["ETag"]
    for matching in (f'"other", {tag}', "*"):
        assert bot.patch(f"/memories/{made['id']}", {"title": matching}, If_Match=matching).status_code == 200
        tag = bot.get(f"/memories/{made['id']}")["ETag"]
    is_problem(bot.patch(f"/memories/{made['id']}", {"title": "x"}, If_Match='"0"'), 412)
    is_problem(bot.patch("/memories/nothere", {"title": "x"}, If_Match=tag), 404)


def test_reading_does_not_change_the_etag(bot):
    made = stored(bot)
    tags = {bot.get(f"/memories/{made['id']}")["ETag"] for _ in range(3)}
    assert len(tags) == 1


def test_a_deleted_memory_is_in_the_trash_alone_and_comes_back(bot):
    made = stored(bot, content="quagmire")
    response = bot.delete(f"/memories/{made['id']}")
    assert (response.status_code, response.json()["outcome"]) == (200, "trashed")
    is_problem(bot.get(f"/memories/{made['id']}"), 404)
    is_problem(bot.get(f"/memories/{made['id']}/history"), 404)
    assert bot.get("/memories").json()["total"] == 0
    assert bot.get("/search", query="quagmire").json()["results"] == []
    assert bot.get("/memories", trashed=True).json()["total"] == 1
    assert bot.get(f"/memories/{made['id']}", trashed=True).json()["deleted_at"]
    is_problem(bot.delete(f"/memories/{made['id']}"), 404)
    restored = bot.post(f"/memories/{made['id']}/restore")
    assert (restored.status_code, restored.json()["outcome"]) == (200, "restored")
    assert bot.get(f"/memories/{made['id']}").status_code == 200
    assert bot.post(f"/memories/{made['id']}/restore").json()["outcome"] == "unchanged"


def test_looking_into_the_trash_counts_no_access(bot):
    made = stored(bot)
    bot.delete(f"/memories/{made['id']}")
    bot.get(f"/memories/{made['id']}", trashed=True)
    assert Memory.objects.get().accessed_count == 0


def test_an_erased_memory_leaves_only_its_journal(bot):
    made = stored(bot, content="quagmire")
    bot.delete(f"/memories/{made['id']}")
    response = bot.delete(f"/memories/{made['id']}", hard="true")
    assert response.json()["outcome"] == "erased"
    assert not Memory.objects.exists()
    is_problem(bot.post(f"/memories/{made['id']}/restore"), 404)
    assert JournalEntry.objects.filter(operation="erase", object_id=made["id"]).exists()


def test_an_expired_memory_is_invisible_until_it_is_revived(bot):
    made = stored(bot, content="quagmire")
    Memory.objects.update(expires_at=timezone.now() - timedelta(days=1))
    is_problem(bot.get(f"/memories/{made['id']}"), 404)
    assert bot.get("/memories").json()["total"] == 0
    assert bot.get("/search", query="quagmire").json()["total"] == 0
    assert bot.post(f"/memories/{made['id']}/restore").json()["outcome"] == "restored"
    assert bot.get(f"/memories/{made['id']}").status_code == 200


@pytest.mark.parametrize("uid", ["nothere", "a%00b", "%F0%9F%A6%93", "..", "x" * 5000, "%ED%A0%80"])
def test_an_id_that_is_not_there_is_404_by_every_method(bot, uid):
    is_problem(bot.http.get(f"/api/v1/memories/{uid}"), 404)
    is_problem(bot.http.get(f"/api/v1/memories/{uid}/history"), 404)
    is_problem(bot.patch(f"/memories/{uid}", {"title": "t"}), 404)
    is_problem(bot.delete(f"/memories/{uid}"), 404)
    is_problem(bot.delete(f"/memories/{uid}", hard=True), 404)
    is_problem(bot.post(f"/memories/{uid}/restore"), 404)


def test_the_history_tells_what_happened_newest_first(bot):
    made = stored(bot)
    bot.patch(f"/memories/{made['id']}", {"title": "one"})
    bot.patch(f"/memories/{made['id']}", {"title": "two"})
    history = bot.get(f"/memories/{made['id']}/history").json()
    assert [row["number"] for row in history["revisions"]] == [2, 1]
    assert [row["operation"] for row in history["journal"]] == ["update", "update", "insert"]


def test_a_list_shows_the_overview_and_previews_the_content_alone(bot):
    bot.post("/memories", {"content": "long " * 100, "overview": "a paragraph"})
    [item] = bot.get("/memories").json()["items"]
    [line] = bot.get("/timeline").json()["items"]
    [tooled] = bot.tool("list_memories")["memories"]
    for shown in (item, line["memory"], tooled):
        assert shown["overview"] == "a paragraph"
        assert "content" not in shown
        assert len(shown["preview"]) <= 200
