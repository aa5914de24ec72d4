"""Reading, listing, updating and deleting memories over HTTP."""

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.models import JournalEntry, Memory
from tests.api.conftest import bad_fields, is_problem, stored
from tests.api.full_memory import FIELDS, FULL
from tests.cases import each


@pytest.mark.conformance("pigo-27")
def test_reading_a_memory_counts_an_access_and_does_not_make_it_look_new(bot):
    made = stored(bot)
    bot.get(f"/memories/{made['id']}")
    read = bot.get(f"/memories/{made['id']}").json()
    assert read["accessed_count"] == 2
    assert read["last_accessed_at"]
    assert read["updated_at"] == made["updated_at"]


def test_list_shows_previews_instead_of_long_texts(bot):
    stored(bot, content="word " * 1000)
    [item] = bot.get("/memories").json()["items"]
    assert set(item) == FIELDS - {"content"} | {"preview"}
    assert len(item["preview"]) <= 200


def test_patch_pins_and_unpins_a_memory(bot):
    made = stored(bot)
    assert made["pinned"] is False
    pinned = bot.patch(f"/memories/{made['id']}", {"pinned": True}).json()["memory"]
    assert (pinned["pinned"], pinned["expires_at"]) == (True, None)
    assert bot.patch(f"/memories/{made['id']}", {"pinned": False}).json()["memory"]["pinned"] is False


def test_list_filtered_by_pins_shows_only_pinned_memories(bot):
    pinned = stored(bot, content="Deploy with make ship", pinned=True)
    stored(bot, content="Tests run with pytest")
    assert [one["id"] for one in bot.get("/memories", pinned="true").json()["items"]] == [pinned["id"]]
    assert bot.get("/memories", pinned="false").json()["total"] == 1


def test_search_filtered_by_pins_finds_only_pinned_memories(bot):
    pinned = stored(bot, content="Deploy the shop with make ship", pinned=True)
    other = stored(bot, content="Deploy the docs with make html")
    query = {"query": "deploy", "pinned": True, "min_score": 0}
    assert [one["memory"]["id"] for one in bot.post("/search", query).json()["results"]] == [pinned["id"]]
    bot.patch(f"/memories/{other['id']}", {"pinned": True})
    assert len(bot.post("/search", query).json()["results"]) == 2


def test_token_without_the_right_to_write_cannot_pin(agent, bot):
    made = stored(bot)
    reader = agent(rights=["read"])
    is_problem(reader.patch(f"/memories/{made['id']}", {"pinned": True}), 403)


@each("order", ["-updated_at", "-created_at", "-importance", "-accessed_count"])
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


@each(
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


@each(
    "query, field",
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
def test_invalid_parameter_is_422_with_its_name(bot, query, field):
    assert bad_fields(bot.get("/memories", **query)) == {field}


def test_update_sets_given_fields_and_writes_a_revision(bot):
    made = stored(bot, content="before", tags=["old"])
    response = bot.patch(f"/memories/{made['id']}", {"content": "after", "tags": ["new"], "importance": 0.9})
    assert response.json()["outcome"] == "updated"
    memory = response.json()["memory"]
    assert (memory["content"], memory["tags"], memory["importance"]) == ("after", ["new"], 0.9)
    [revision] = bot.get(f"/memories/{made['id']}/history").json()["revisions"]
    assert revision["before"]["content"] == "before"
    assert revision["before"]["tags"] == ["old"]
    assert revision["actor"] == "token:bot"


def test_raised_level_raises_what_was_merged_into_the_memory(bot):
    kept, other = stored(bot, content="one text"), stored(bot, content="another text")
    bot.post(f"/memories/{kept['id']}/merge", {"others": [other["id"]]})
    bot.patch(f"/memories/{kept['id']}", {"sensitivity": "secret"})
    assert Memory.objects.get(uid=other["id"]).sensitivity == "secret"


def test_update_to_the_same_values_is_unchanged(bot):
    made = stored(bot, tags=["a"])
    response = bot.patch(f"/memories/{made['id']}", {"tags": ["a"], "project": "", "hue": 1})
    assert (response.json()["outcome"], response.json()["ignored"]) == ("unchanged", ["hue"])
    assert response.json()["memory"]["updated_at"] == made["updated_at"]


@each("change", [{"importance": 1.5}, {"trust": -1}, {"confidence": 7}, {"content": ""}, {"type": None}, {}])
def test_invalid_update_is_422_and_changes_nothing(bot, change):
    made = stored(bot)
    is_problem(bot.patch(f"/memories/{made['id']}", change), 422)
    assert bot.get(f"/memories/{made['id']}").json()["content"] == made["content"]


def test_update_to_the_content_of_another_memory_conflicts(bot):
    stored(bot, content="taken")
    made = stored(bot, content="free")
    is_problem(bot.patch(f"/memories/{made['id']}", {"content": "taken"}), 409, "conflict")


def test_memory_in_the_trash_cannot_be_updated(bot):
    made = stored(bot)
    bot.delete(f"/memories/{made['id']}")
    is_problem(bot.patch(f"/memories/{made['id']}", {"title": "t"}), 409)


def test_update_from_an_outdated_version_is_412(bot):
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


def test_if_match_accepts_several_tags_and_a_star(bot):
    made = stored(bot)
    tag = bot.get(f"/memories/{made['id']}")["ETag"]
    for matching in (f'"other", {tag}', "*"):
        assert bot.patch(f"/memories/{made['id']}", {"title": matching}, If_Match=matching).status_code == 200
        tag = bot.get(f"/memories/{made['id']}")["ETag"]
    is_problem(bot.patch(f"/memories/{made['id']}", {"title": "x"}, If_Match='"0"'), 412)
    is_problem(bot.patch("/memories/nothere", {"title": "x"}, If_Match=tag), 404)


@each("tag", ["not-quoted", "2026-01-01T00:00:00", '"unfinished'])
def test_if_match_that_is_not_a_tag_is_412(bot, tag):
    made = stored(bot)
    is_problem(bot.patch(f"/memories/{made['id']}", {"title": "x"}, If_Match=tag), 412)


def test_reading_does_not_change_the_etag(bot):
    made = stored(bot)
    tags = {bot.get(f"/memories/{made['id']}")["ETag"] for _ in range(3)}
    assert len(tags) == 1


def test_deleted_memory_is_only_in_the_trash_and_can_be_restored(bot):
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


def test_reading_the_trash_counts_no_access(bot):
    made = stored(bot)
    bot.delete(f"/memories/{made['id']}")
    bot.get(f"/memories/{made['id']}", trashed=True)
    assert Memory.objects.get().accessed_count == 0


def test_erased_memory_leaves_only_its_journal(bot):
    made = stored(bot, content="quagmire")
    bot.delete(f"/memories/{made['id']}")
    response = bot.delete(f"/memories/{made['id']}", hard="true")
    assert response.json()["outcome"] == "erased"
    assert not Memory.objects.exists()
    is_problem(bot.post(f"/memories/{made['id']}/restore"), 404)
    assert JournalEntry.objects.filter(operation="erase", object_id=made["id"]).exists()


def test_expired_memory_is_hidden_until_it_is_restored(bot):
    made = stored(bot, content="quagmire")
    Memory.objects.update(expires_at=timezone.now() - timedelta(days=1))
    is_problem(bot.get(f"/memories/{made['id']}"), 404)
    assert bot.get("/memories").json()["total"] == 0
    assert bot.get("/search", query="quagmire").json()["total"] == 0
    assert bot.post(f"/memories/{made['id']}/restore").json()["outcome"] == "restored"
    assert bot.get(f"/memories/{made['id']}").status_code == 200


@each("uid", ["nothere", "a%00b", "%F0%9F%A6%93", "..", "x" * 5000, "%ED%A0%80"])
def test_unknown_id_is_404_for_every_method(bot, uid):
    is_problem(bot.http.get(f"/api/v1/memories/{uid}"), 404)
    is_problem(bot.http.get(f"/api/v1/memories/{uid}/history"), 404)
    is_problem(bot.patch(f"/memories/{uid}", {"title": "t"}), 404)
    is_problem(bot.delete(f"/memories/{uid}"), 404)
    is_problem(bot.delete(f"/memories/{uid}", hard=True), 404)
    is_problem(bot.post(f"/memories/{uid}/restore"), 404)


def test_history_is_newest_first(bot):
    made = stored(bot)
    bot.patch(f"/memories/{made['id']}", {"title": "one"})
    bot.patch(f"/memories/{made['id']}", {"title": "two"})
    history = bot.get(f"/memories/{made['id']}/history").json()
    assert [row["number"] for row in history["revisions"]] == [2, 1]
    assert [row["operation"] for row in history["journal"]] == ["update", "update", "insert"]


def test_list_shows_the_overview_and_previews_only_the_content(bot):
    bot.post("/memories", {"content": "long " * 100, "overview": "a paragraph"})
    [item] = bot.get("/memories").json()["items"]
    [line] = bot.get("/timeline").json()["items"]
    [tooled] = bot.tool("list_memories")["memories"]
    for shown in (item, line["memory"], tooled):
        assert shown["overview"] == "a paragraph"
        assert "content" not in shown
        assert len(shown["preview"]) <= 200
