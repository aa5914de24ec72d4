"""Timeline, sessions, facts, journal and statistics over HTTP."""

import json

import pytest
from django.db import connection

from memoryhub.access.policy import system_actor
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.core.pagination import seal
from memoryhub.models import Event, JournalEntry, Memory, Session
from tests.api.conftest import bad_fields, is_problem
from tests.cases import each
from tests.database import cut_journal, without_journal_triggers


def day(n):
    return f"2024-01-{n:02d}T12:00:00Z"


@pytest.fixture
def busy(bot):
    """Two sessions with memories and events."""
    for n in range(1, 6):
        body = {"content": f"thing {n}", "session_id": f"s{n % 2}", "project": "hub", "created_at": day(n)}
        assert bot.post("/memories", body).status_code == 201
    first = Session.objects.get(session_id="s1")
    Event.objects.create(session=first, at=day(2), event="tool:post", tool_name="Edit", files=["a.py"])
    Event.objects.create(session=first, at=day(3), event="tool:post", boundary=True)
    Session.objects.filter(pk=first.pk).update(ended_at=day(9))
    return bot


@pytest.mark.conformance("guide-32")
def test_timeline_has_every_kind_newest_first(busy):
    body = busy.get("/timeline").json()
    kinds = [item["kind"] for item in body["items"]]
    assert set(kinds) == {"memory", "event", "boundary", "session_start", "session_end"}
    assert kinds[0] == "session_end"
    assert [item["at"] for item in body["items"]] == sorted(
        (item["at"] for item in body["items"]), reverse=True
    )
    assert body["total"] == len(kinds) == 5 + 2 + 2 + 1


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_of_the_timeline_show_every_entry_once(busy, limit):
    seen, cursor = [], None
    while True:
        body = busy.get("/timeline", limit=limit, **({"cursor": cursor} if cursor else {})).json()
        assert body["total"] == 10
        seen += body["items"]
        cursor = body["next_cursor"]
        if not cursor:
            break
    assert seen == busy.get("/timeline").json()["items"]


def test_timeline_filters_by_session_project_time_and_type(busy):
    assert {item["session_id"] for item in busy.get("/timeline", session_id="s0").json()["items"]} == {"s0"}
    assert busy.get("/timeline", project="none").json() == {"items": [], "next_cursor": None, "total": 0}
    within = busy.get("/timeline", since="2024-01-02", until="2024-01-04").json()["items"]
    assert {item["at"][:10] for item in within} == {"2024-01-02", "2024-01-03"}
    assert {item["kind"] for item in busy.get("/timeline", type="change").json()["items"]} == {"memory"}
    assert busy.get("/timeline", type="decision").json()["total"] == 0


def test_sessions_are_latest_first_with_counts(busy):
    body = busy.get("/sessions").json()
    assert [row["session_id"] for row in body["items"]] == ["s1", "s0"]
    assert [(row["memory_count"], row["event_count"]) for row in body["items"]] == [(3, 2), (2, 0)]
    assert body["total"] == 2
    first = busy.get("/sessions", limit=1).json()
    second = busy.get("/sessions", limit=1, cursor=first["next_cursor"]).json()
    assert [row["session_id"] for row in first["items"] + second["items"]] == ["s1", "s0"]
    assert second["next_cursor"] is None


def test_sessions_filter_by_project_and_time(busy):
    busy.post("/memories", {"content": "elsewhere", "session_id": "s9", "project": "other"})
    assert [row["session_id"] for row in busy.get("/sessions", project="other").json()["items"]] == ["s9"]
    assert busy.get("/sessions", until="2024-01-02").json()["total"] == 1
    assert busy.get("/sessions", since="2025-01-01").json()["total"] == 1


def test_session_includes_its_timeline(busy):
    body = busy.get("/sessions/s1", limit=2).json()
    assert body["session"]["memory_count"] == 3
    assert body["timeline"]["total"] == 3 + 2 + 2
    rest = busy.get("/sessions/s1", cursor=body["timeline"]["next_cursor"]).json()
    assert len(body["timeline"]["items"]) + len(rest["timeline"]["items"]) == 7


def test_latest_of_several_sessions_with_one_id_is_shown(busy):
    busy.post("/memories", {"content": "later", "session_id": "s1", "project": "other"})
    body = busy.get("/sessions/s1").json()
    assert (body["session"]["project"], body["other_projects"]) == ("other", ["hub"])
    assert busy.get("/sessions/s1", project="hub").json()["session"]["memory_count"] == 3


@pytest.mark.parametrize("session_id", ["a/b", "a b", "日本", "a?b#c", "%41", "..", "x" * 200])
def test_any_session_id_works_in_the_path(bot, session_id):
    from urllib.parse import quote

    bot.post("/memories", {"content": "x", "session_id": session_id})
    assert bot.get(f"/sessions/{quote(session_id, safe='')}").json()["session"]["session_id"] == session_id


@pytest.mark.parametrize("session_id", ["nothere", "a%00b", "%ED%A0%80", "s1/"])
def test_unknown_session_is_404(busy, session_id):
    is_problem(busy.get(f"/sessions/{session_id}"), 404)


@each("path", ["/timeline", "/sessions", "/facts", "/journal", "/memories"])
@each("cursor", ["", "x", "W10", "e30", "bnVsbA", "WyJ1cGRhdGVkX2F0IiwgbnVsbCwgMV0", "é", "A" * 4000])
def test_invalid_cursor_is_422(busy, path, cursor):
    response = busy.get(path, cursor=cursor)
    if cursor:
        assert bad_fields(response) == {"cursor"}
    else:
        assert response.status_code == 200


def forged(*parts):
    return seal(list(parts))


@each(
    "path, cursor",
    [
        ("/memories", forged("updated_at", "2020-01-01", 1)),
        ("/memories", forged("updated_at", "2020-01-01T00:00:00", 1)),
        ("/memories", forged("updated_at", "0001-01-01T00:00:00+23:59", 1)),
        ("/memories", forged("updated_at", {"a": 1}, 1)),
        ("/memories", forged("updated_at", "2020-01-01T00:00:00Z", -1)),
        ("/memories", forged("updated_at", "2020-01-01T00:00:00Z", 2**70)),
        ("/memories", forged("content", "x", 1)),
        ("/memories", forged("importance", 0.5, 1)),
        ("/journal", forged("seq", None, 1)),
        ("/timeline", forged("2020-01-01T00:00:00", 1, 1)),
        ("/timeline", forged("0001-01-01T00:00:00+23:59", 1, 1)),
        ("/timeline", forged("2020-01-01T00:00:00Z", 9, 1)),
        ("/timeline", forged("2020-01-01T00:00:00Z", 1, 2**70)),
        ("/timeline", forged(5, 1, 1)),
    ],
)
def test_a_forged_cursor_is_422(busy, path, cursor):
    assert bad_fields(busy.get(path, cursor=cursor)) == {"cursor"}


def test_a_cursor_with_a_huge_value_is_an_empty_page(busy):
    for path, cursor in (("/journal", forged("seq", -(2**70), 1)), ("/journal", forged("seq", 2**70, 1))):
        assert busy.get(path, cursor=cursor).status_code in (200, 422)


FACT = {"subject": "WAL", "predicate": "allows", "object": "readers beside a writer"}


def test_a_fact_is_created_then_updated(bot):
    first = bot.post("/facts", {**FACT, "project": "hub", "session_id": "s1"})
    assert (first.status_code, first.json()["outcome"]) == (201, "created")
    assert first.json()["fact"]["confidence"] == 1.0
    second = bot.post("/facts", {**FACT, "project": "hub", "confidence": 0.4, "mood": "good"})
    assert (second.status_code, second.json()["outcome"], second.json()["ignored"]) == (
        200,
        "updated",
        ["mood"],
    )
    assert second.json()["id"] == first.json()["id"] == second.json()["fact"]["id"]
    assert second.json()["fact"]["confidence"] == 0.4


def test_facts_filter_by_every_part(bot):
    bot.post("/facts", {**FACT, "project": "hub", "session_id": "s1", "confidence": 0.9})
    bot.post("/facts", {"subject": "VACUUM", "predicate": "takes", "object": "time", "confidence": 0.2})
    for name, value in {**FACT, "project": "hub", "session_id": "s1", "min_confidence": 0.5}.items():
        body = bot.get("/facts", **{name: value}).json()
        assert [item["subject"] for item in body["items"]] == ["WAL"], name
        assert body["total"] == 1
    assert bot.get("/facts").json()["total"] == 2
    first = bot.get("/facts", limit=1).json()
    assert bot.get("/facts", limit=1, cursor=first["next_cursor"]).json()["items"][0]["subject"] == "WAL"


def test_fact_may_refer_to_a_memory(bot):
    uid = bot.post("/memories", {"content": "x"}).json()["memory"]["id"]
    assert bot.post("/facts", {**FACT, "memory_id": uid}).json()["fact"]["memory_id"] == uid


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"subject": ""}, "subject"),
        ({"predicate": None}, "predicate"),
        ({"object": "x" * 10_001}, "object"),
        ({"confidence": 1.01}, "confidence"),
        ({"sensitivity": "cosmic"}, "sensitivity"),
        ({"subject": "nul\x00"}, "subject"),
    ],
)
def test_invalid_fact_names_its_field(bot, change, field):
    assert bad_fields(bot.post("/facts", {**FACT, **change})) == {field}


def test_a_deleted_fact_is_gone_and_journaled(bot):
    uid = bot.post("/facts", FACT).json()["id"]
    assert bot.delete(f"/facts/{uid}").json() == {"outcome": "deleted", "id": uid}
    is_problem(bot.delete(f"/facts/{uid}"), 404)
    assert bot.get("/facts").json()["total"] == 0
    assert bot.get("/journal", operation="delete", object_id=uid).json()["total"] == 1


def test_the_journal_lists_changes_newest_first(bot):
    uid = bot.post("/memories", {"content": "x"}).json()["memory"]["id"]
    bot.patch(f"/memories/{uid}", {"title": "t"})
    body = bot.get("/journal", object_id=uid).json()
    assert [row["operation"] for row in body["items"]] == ["update", "insert"]
    row = body["items"][0]
    assert set(row) == {"seq", "at", "actor", "operation", "object_type", "object_id", "detail", "hash"}
    assert (row["actor"], row["object_type"], row["detail"]["fields"]) == ("token:bot", "memory", ["title"])
    assert bot.get("/journal", operation="insert").json()["items"][0]["object_id"] == uid
    assert bot.get("/journal", until="2020-01-01").json()["total"] == 0
    assert bot.get("/journal", since="2020-01-01").json()["total"] == JournalEntry.objects.count()


def test_journal_never_contains_the_text_of_a_memory(bot):
    uid = bot.post("/memories", {"content": "quagmire", "title": "mire", "tags": ["bog"]}).json()["memory"][
        "id"
    ]
    bot.patch(f"/memories/{uid}", {"content": "swamp"})
    bot.delete(f"/memories/{uid}")
    shown = bot.get("/journal").content
    assert not any(word in shown for word in (b"quagmire", b"mire", b"bog", b"swamp"))


def test_verification_finds_a_changed_row(bot):
    for n in range(3):
        bot.post("/memories", {"content": f"{n}"})
    rows = JournalEntry.objects.count()
    sound = {"ok": True, "rows": rows, "first_bad_seq": None, "loss": None}
    assert bot.get("/journal/verify").json() == sound
    with without_journal_triggers(), connection.cursor() as cursor:
        cursor.execute("UPDATE memoryhub_journalentry SET actor = 'mallory' WHERE seq = 2")
    assert bot.get("/journal/verify").json() == {**sound, "ok": False, "first_bad_seq": 2}


def test_statistics_count_and_measure(bot):
    bot.post("/memories", {"content": "a", "type": "decision", "project": "hub", "ttl_days": 1})
    bot.post("/memories", {"content": "b", "category": "db"})
    gone = bot.post("/memories", {"content": "c"}).json()["memory"]["id"]
    bot.delete(f"/memories/{gone}")
    bot.post("/facts", FACT)
    stats = bot.get("/stats").json()
    assert stats["total"] == 2
    assert stats["by_type"] == {"decision": 1, "change": 1}
    assert stats["by_category"] == {"general": 1, "db": 1}
    assert stats["by_project"] == {"hub": 1, "": 1}
    assert stats["by_sensitivity"] == {"public": 2}
    assert (stats["expiring"], stats["trashed"], stats["facts"]) == (1, 1, 1)
    assert stats["database_bytes"] > 0
    assert stats["index_bytes"] > 0
    assert Memory.objects.count() == 3


LESS_THAN_ALL = [{"clearance": "public"}, {"clearance": "private"}, {"projects": ["farm"]}]


@pytest.mark.parametrize("options", LESS_THAN_ALL)
def test_numbers_that_count_all_rows_are_null_for_callers_who_see_less(bot, agent, options):
    stored = bot.post("/memories", {"content": "a", "project": "farm"}).json()["memory"]
    low = agent(name="low", **options)
    stats = low.get("/stats", allow_private=True, allow_secret=True).json()
    sizes = ("database_bytes", "free_bytes", "index_bytes", "vector_bytes")
    assert (stats["total"], {stats[name] for name in sizes}) == (1, {None})
    verified = low.get("/journal/verify").json()
    assert verified == {"ok": True, "rows": None, "first_bad_seq": None, "loss": None}
    listed = low.get("/journal", object_type="memory").json()["items"]
    of_memory = low.get(f"/memories/{stored['id']}/history").json()["journal"]
    assert len(listed) == len(of_memory) == 1
    assert {(row["seq"], row["hash"]) for row in listed + of_memory} == {(None, None)}
    lines = b"".join(low.get("/export", whole=True).streaming_content).splitlines()
    exported = [line for line in map(json.loads, lines) if line["kind"] == "journal"]
    assert {line["seq"] for line in exported} == {None}
    assert not JournalEntry.objects.filter(hash__in=[line["hash"] for line in exported]).exists()


def test_numbers_that_count_all_rows_do_not_depend_on_the_levels_that_are_asked_for(bot):
    stored = bot.post("/memories", {"content": "a"}).json()["memory"]
    assert all(bot.get("/stats").json()[name] is not None for name in ("free_bytes", "vector_bytes"))
    assert bot.get("/journal/verify").json()["rows"] == JournalEntry.objects.count()
    [row] = bot.get(f"/memories/{stored['id']}/history").json()["journal"]
    stored_row = JournalEntry.objects.get(operation="insert")
    assert (row["seq"], row["hash"]) == (stored_row.seq, stored_row.hash)


def test_too_long_session_id_is_reported_in_characters(bot):
    response = bot.post("/events", {"event": "session:start", "session_id": "s" * 201})
    [error] = is_problem(response, 422)["errors"]
    assert error["field"] == "session_id"
    assert "at most 200 characters" in error["message"]


@pytest.mark.django_db(transaction=True)
class TestLostRows:
    @pytest.fixture
    def lost(self, bot):
        for n in range(3):
            bot.post("/memories", {"content": f"{n}"})
        cut_journal(JournalEntry.objects.count() - 2)
        bot.post("/memories", {"content": "the next"})

    def test_lost_rows_are_reported_after_the_next_write(self, bot, lost):
        body = bot.get("/journal/verify").json()
        assert (body["ok"], body["loss"]["rows"]) == (False, 2)
        assert body["first_bad_seq"] == body["loss"]["first_seq"]

    def test_a_token_that_does_not_see_every_row_gets_no_numbers_of_lost_rows(self, agent, lost):
        for options in ({"clearance": "private"}, {"projects": ["p"]}):
            body = agent(name=f"bot {options}", **options).get("/journal/verify").json()
            assert (body["ok"], body["loss"]) == (False, None)

    def test_the_row_about_the_loss_is_secret(self, agent, lost):
        rows = agent("private", name="other").get("/journal", operation="journal_loss").json()
        assert rows["items"] == []

    def test_an_acknowledged_loss_is_not_reported(self, bot, lost):
        with write_transaction():
            journal.acknowledge_loss(system_actor("tests"))
        assert bot.get("/journal/verify").json()["ok"] is True
