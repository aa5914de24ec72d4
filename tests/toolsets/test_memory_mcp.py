"""Memory MCP's tools, as its document and docs/tools.md describe them."""

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub.core.text import estimate_tokens
from memoryhub.models import JournalEntry, Memory
from tests.api.conftest import bad_fields, is_problem
from tests.toolsets.conftest import run

LONG = "Ingrid moved the nightly export from cron to the job queue because two runs overlapped on Sundays "


def days_left(memory: Memory) -> float:
    assert memory.expires_at
    return (memory.expires_at - timezone.now()) / timedelta(days=1)


@pytest.mark.conformance("mcp-9")
def test_memory_store_creates_without_an_id(mcp):
    made = mcp("store", content="The staging database is in Oslo", type="fact", importance=8, tags=["db"])
    memory = Memory.objects.get()
    assert (made["id"], made["outcome"]) == (memory.uid, "created")
    assert (memory.type, memory.importance) == ("fact", 0.8)
    assert (made["importance"], made["tags"]) == (8, ["db"])


@pytest.mark.conformance("mcp-10")
def test_memory_store_updates_with_an_id(mcp):
    made = mcp("store", content="The staging database is in Oslo")
    again = mcp("store", id=made["id"], content="The staging database is in Bergen", type="entity")
    assert (again["id"], again["outcome"], again["type"]) == (made["id"], "updated", "entity")
    memory = Memory.objects.get()
    assert memory.content == "The staging database is in Bergen"
    assert memory.revisions.count() == 1


def test_update_needs_no_content(mcp):
    made = mcp("store", content="The staging database is in Oslo", importance=5)
    assert mcp("store", id=made["id"], importance=9)["importance"] == 9
    memory = Memory.objects.get()
    assert memory.content == "The staging database is in Oslo"
    assert days_left(memory) == pytest.approx(270, abs=0.01)


def test_update_keeps_other_fields(mcp):
    made = mcp("store", content="Ada likes tea", type="self", importance=3, tags=["drink"])
    mcp("store", id=made["id"], content="Ada likes green tea")
    memory = Memory.objects.get()
    assert (memory.type, memory.importance) == ("self", 0.3)
    assert [label.value for label in memory.labels.all()] == ["drink"]


@pytest.mark.conformance("mcp-22", "mcp-23", "mcp-24", "mcp-28")
@pytest.mark.parametrize("importance", [1, 4, 8, 10, 2.5])
def test_ttl_is_importance_times_thirty_days(mcp, importance):
    mcp("store", content="x is y", importance=importance)
    memory = Memory.objects.get()
    assert memory.ttl_days == importance * 30
    assert days_left(memory) == pytest.approx(importance * 30, abs=0.01)


@pytest.mark.conformance("mcp-21")
def test_importance_zero_lives_one_day(mcp):
    mcp("store", content="x is y", importance=0)
    assert days_left(Memory.objects.get()) == pytest.approx(1, abs=0.01)


def test_missing_importance_is_computed_and_explained(mcp):
    grave = mcp("store", content="Ada is allergic to peanuts; never order satay", type="self")
    light = mcp("store", content="We are testing the blue theme today")
    assert grave["importance"] >= 8 > 3 >= light["importance"]
    assert any("critical" in reason for reason in grave["importance_reasons"])
    assert Memory.objects.get(uid=light["id"]).ttl_days == light["importance"] * 30


def test_given_importance_is_not_explained(mcp):
    assert "importance_reasons" not in mcp("store", content="x is y", importance=5)


@pytest.mark.conformance("mcp-5", "mcp-43")
def test_missing_entities_are_extracted(mcp):
    made = mcp("store", content="Grace Hopper works at Acme Corp in Berlin and uses PostgreSQL.")
    assert {(one["entity"], one["entity_type"]) for one in made["entities"]} == {
        ("Grace Hopper", "person"),
        ("Acme Corp", "organization"),
        ("Berlin", "place"),
        ("PostgreSQL", "tool"),
    }


def test_given_entities_are_kept(mcp):
    given = ["the export", {"entity": "Oslo", "entity_type": "place"}, {"name": "Ada", "type": "person"}]
    made = mcp("store", content="Grace Hopper works in Berlin", entities=given)
    assert {(one["entity"], one["entity_type"]) for one in made["entities"]} == {
        ("the export", "concept"),
        ("Oslo", "place"),
        ("Ada", "person"),
    }
    assert mcp("store", content="Grace Hopper lives in Paris", entities=[])["entities"] == []


def test_extracted_entities_follow_new_content_and_given_ones_stay(mcp):
    made = mcp("store", content="Grace Hopper lives in Berlin")
    changed = mcp("store", id=made["id"], content="Grace Hopper lives in Lisbon")
    assert {one["entity"] for one in changed["entities"]} == {"Grace Hopper", "Lisbon"}
    chosen = mcp("store", content="The export runs at night", entities=["export"])
    kept = mcp("store", id=chosen["id"], content="Grace Hopper starts the export")
    assert [one["entity"] for one in kept["entities"]] == ["export"]


@pytest.mark.conformance("mcp-42")
def test_summary_has_twenty_words_unless_given(mcp):
    assert len(mcp("store", content=LONG * 3)["summary"].split()) == 20
    assert mcp("store", content=LONG * 2, summary="Exports moved")["summary"] == "Exports moved"


def test_same_content_refreshes(mcp):
    first = mcp("store", content="x is y", importance=2)
    again = mcp("store", content="x is y", importance=6)
    assert (again["id"], again["outcome"]) == (first["id"], "refreshed")


def test_same_content_with_another_importance_gets_another_expiry(mcp):
    mcp("store", content="x is y", importance=2)
    assert mcp("store", content="x is y", importance=6)["importance"] == 6
    assert Memory.objects.get().ttl_days == 180


def test_same_content_never_lowers_the_level(mcp):
    mcp("store", content="x is y", importance=2, sensitivity="secret")
    mcp("store", content="x is y", importance=6, sensitivity="public")
    memory = Memory.objects.get()
    assert (memory.sensitivity, memory.importance) == ("secret", 0.6)


def test_same_content_without_importance_keeps_its_own(mcp):
    mcp("store", content="x is y", importance=9)
    Memory.objects.update(expires_at=timezone.now() + timedelta(days=1))
    again = mcp("store", content="x is y")
    assert (again["importance"], Memory.objects.get().ttl_days) == (9, 270)
    assert days_left(Memory.objects.get()) == pytest.approx(270, abs=0.01)


@pytest.mark.conformance("mcp-20", "mcp-21")
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "content"),
        ({"content": " "}, "content"),
        ({"content": "x", "type": "banana"}, "type"),
        ({"content": "x", "importance": 11}, "importance"),
        ({"content": "x", "importance": -1}, "importance"),
        ({"content": "x", "importance": "high"}, "importance"),
        ({"content": "x", "importance": True}, "importance"),
        ({"content": "x", "sensitivity": "cosmic"}, "sensitivity"),
    ],
)
def test_invalid_memory_is_refused_with_its_field(bot, arguments, field):
    assert bad_fields(run(bot, "memory-mcp", "memory_store", **arguments)) == {field}
    assert not Memory.objects.exists()


def test_empty_update_or_unknown_id_is_refused(bot, mcp):
    made = mcp("store", content="x is y")
    is_problem(run(bot, "memory-mcp", "memory_store", id=made["id"]), 422)
    is_problem(run(bot, "memory-mcp", "memory_store", id="nothere", content="z"), 404, "not_found")


@pytest.mark.conformance("mcp-16")
def test_null_means_absent(mcp):
    made = mcp("store", content="x is y", id=None, type=None, importance=None, entities=None, summary=None)
    assert (made["outcome"], made["type"]) == ("created", "fact")


@pytest.mark.conformance("mcp-1", "mcp-11", "mcp-30", "mcp-32")
def test_recall_returns_index_and_details(mcp):
    for place in ("Oslo", "Rome", "Lima"):
        mcp("store", content=f"The cluster in {place} runs the nightly export. " * 2, importance=7)
    answer = mcp("recall", query="nightly export cluster", max_tokens=5000, times=True, provenance=True)
    assert {*answer} >= {"index", "details", "total_count", "has_more", "tokens_used", "query"}
    assert len(answer["index"]) == len(answer["details"]) == answer["total_count"] == 3
    assert all(set(one) == {"id", "type", "summary", "importance"} for one in answer["index"])
    assert all(one["importance"] == 7 for one in answer["index"])
    assert all(len(one["summary"].split()) <= 20 for one in answer["index"])
    detail = answer["details"][0]
    columns = {"id", "content", "type", "importance", "created_at", "last_accessed"}
    assert {*detail} >= columns | {"access_count", "expires_at", "entities", "provenance", "score"}
    assert not {"project", "tags"} & {*detail}, "what is empty says nothing"
    assert (detail["importance"], detail["type"]) == (7, "fact")


@pytest.mark.conformance("mcp-12", "mcp-34", "mcp-45")
@pytest.mark.parametrize("most", [100, 150, 400, 1000, 3000])
def test_whole_response_fits_the_budget(bot, mcp, most):
    for n in range(30):
        mcp("store", content=f"{LONG} number {n} “ß” 漢字 {'word ' * n}", importance=5)
    Memory.objects.update(expires_at=timezone.now().replace(microsecond=0) + timedelta(days=2))
    response = run(bot, "memory-mcp", "memory_recall", query="nightly export queue", max_tokens=most)
    answer = response.json()["result"]
    assert estimate_tokens(response.content.decode()) <= answer["tokens_used"] <= most
    assert answer["total_count"] == 30
    assert answer["has_more"] is (len(answer["index"]) < 30)
    assert answer["index"] or most < 150


def test_budget_covers_the_names_of_ignored_arguments(bot, mcp):
    for n in range(30):
        mcp("store", content=f"{LONG} number {n}")
    unknown = {f"limit{n}": 1 for n in range(20)}
    response = run(
        bot, "memory-mcp", "memory_recall", query="nightly export queue", max_tokens=900, **unknown
    )
    assert len(response.json()["suggestions"]) == 20
    assert estimate_tokens(response.content.decode()) <= response.json()["result"]["tokens_used"] <= 900


@pytest.mark.parametrize(("chars", "is_brief"), [(300, False), (1000, True)])
def test_small_budget_shows_the_best_match_whole(mcp, chars, is_brief):
    best = mcp("store", content="The export queue. " + "Lorem ipsum. " * (chars // 13), importance=10)["id"]
    for n in range(20):
        mcp("store", content=f"Export number {n}", importance=1)
    answer = mcp("recall", query="export queue", max_tokens=450, times=True)
    assert (answer["details"][0]["id"], answer["index"][0]["id"]) == (best, best)
    assert answer["tokens_used"] <= 450
    assert ("created_at" not in answer["details"][0]) is is_brief
    assert answer["details"][0]["content"].count("Lorem") == chars // 13


def tokens(value):
    return estimate_tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


@pytest.mark.conformance("mcp-29", "mcp-31")
def test_thousand_tokens_show_the_whole_index_of_thirty_memories(mcp):
    for n in range(30):
        mcp("store", content=f"{LONG} number {n}", importance=5)
    answer = mcp("recall", query="nightly export queue")
    assert (len(answer["index"]), answer["has_more"]) == (30, False)
    assert answer["details"]
    assert sum(tokens(line) for line in answer["index"]) <= 30 * 25


@pytest.mark.conformance("mcp-35")
def test_thousand_tokens_show_several_details(mcp):
    for n in range(4):
        mcp("store", content=f"{LONG * 4} number {n}", importance=5)
    answer = mcp("recall", query="nightly export queue")
    assert (len(answer["index"]), len(answer["details"])) == (4, 4)


@pytest.mark.conformance("mcp-33")
def test_detail_costs_little_beyond_its_text(mcp):
    mcp("store", content=LONG * 3, importance=5, tags=["ops", "cron"], project="hub", summary="Exports moved")
    [detail] = mcp("recall", query="nightly export queue", project="hub")["details"]
    assert detail["summary"] == "Exports moved"
    assert tokens(detail) - tokens(detail["content"]) <= 200


def test_times_and_provenance_are_shown_only_on_request(mcp):
    mcp("store", content="export at dawn")
    [detail] = mcp("recall", query="export")["details"]
    times = {"created_at", "last_accessed", "access_count", "expires_at"}
    assert not {*times, "provenance", "summary"} & {*detail}
    [detail] = mcp("recall", query="export", times=True)["details"]
    assert {*times} <= {*detail}
    assert "provenance" not in detail


def test_empty_summary_makes_it_from_the_content_again(mcp):
    made = mcp("store", content="export at dawn", summary="Dawn.")
    assert mcp("store", id=made["id"], summary="")["summary"] == "export at dawn"


def test_repeat_names_what_it_does_not_change(bot):
    content = {"content": "Ada leads the export team"}
    run(bot, "memory-mcp", "memory_store", **content, session_id="one", sensitivity="private")
    again = {**content, "type": "self", "tags": ["t"], "session_id": "two", "sensitivity": "public"}
    response = run(bot, "memory-mcp", "memory_store", **again, colour="red")
    assert response.json()["ignored"] == ["colour", "sensitivity", "session_id"]
    memory = Memory.objects.get()
    assert (memory.type, memory.session_id, memory.sensitivity) == ("self", "one", "private")


def test_dropped_reason_is_named(bot, mcp):
    made = mcp("store", content="Ada takes lithium every morning")
    response = run(bot, "memory-mcp", "memory_forget", id=made["id"], reason="takes lithium every morning")
    assert response.json()["ignored"] == ["reason"]


def test_default_budget_is_a_thousand_tokens(mcp):
    for n in range(60):
        mcp("store", content=f"{LONG} number {n}")
    assert mcp("recall", query="nightly export")["tokens_used"] <= 1000


def test_limit_applies_to_details_only(mcp):
    for n in range(5):
        mcp("store", content=f"export number {n}", importance=5)
    answer = mcp("recall", query="export", limit=2, max_tokens=5000)
    assert (len(answer["details"]), len(answer["index"])) == (2, 5)


@pytest.mark.conformance("mcp-38")
def test_more_important_comes_first_with_equal_match(mcp):
    light = mcp("store", content="the export runs at noon", importance=1)
    grave = mcp("store", content="the export runs at dawn", importance=10)
    answer = mcp("recall", query="export runs", max_tokens=3000)
    assert [one["id"] for one in answer["details"]] == [grave["id"], light["id"]]


def test_recall_filters(mcp):
    mcp("store", content="Ada likes the export", type="self", project="p", tags=["t"], category="c")
    mcp("store", content="Bo likes the export", type="fact", entities=["Bo"])
    for narrowed in (
        {"type": "self"},
        {"project": "p"},
        {"tag": "t"},
        {"category": "c"},
        {"entities": ["Bo"]},
    ):
        assert mcp("recall", query="likes export", **narrowed)["total_count"] == 1, narrowed
    assert mcp("recall", query="likes export", entities=["Bo", "Ada"])["total_count"] == 0


@pytest.mark.conformance("mcp-27")
def test_only_details_count_as_accessed(mcp):
    for n in range(3):
        mcp("store", content=f"export number {n}", importance=5)
    shown = {one["id"] for one in mcp("recall", query="export", limit=1, max_tokens=3000)["details"]}
    for memory in Memory.objects.all():
        assert memory.accessed_count == (1 if memory.uid in shown else 0)


@pytest.mark.conformance("mcp-24", "mcp-26")
def test_access_renews_the_expiry_of_important_memories(mcp):
    important = mcp("store", content="export at dawn", importance=4)["id"]
    temporary = mcp("store", content="export at noon", importance=3)["id"]
    soon = timezone.now() + timedelta(days=2)
    Memory.objects.update(expires_at=soon)
    shown = mcp("recall", query="export", max_tokens=3000, times=True)["details"]
    assert days_left(Memory.objects.get(uid=important)) == pytest.approx(120, abs=0.01)
    assert Memory.objects.get(uid=temporary).expires_at == soon
    expiry = {one["id"]: one["expires_at"] for one in shown}
    assert expiry[important] > expiry[temporary]


def test_renewal_depends_on_each_importance(mcp):
    made = {n: mcp("store", content=f"export number {n}", importance=n)["id"] for n in (4, 7, 10)}
    Memory.objects.filter(uid=made[10]).update(expires_at=timezone.now() + timedelta(days=250))
    Memory.objects.filter(uid=made[4]).update(expires_at=timezone.now() + timedelta(days=2))
    later = timezone.now() + timedelta(days=400)
    Memory.objects.filter(uid=made[7]).update(expires_at=later)
    mcp("recall", query="export number", max_tokens=5000)
    assert days_left(Memory.objects.get(uid=made[10])) == pytest.approx(300, abs=0.01)
    assert days_left(Memory.objects.get(uid=made[4])) == pytest.approx(120, abs=0.01)
    assert Memory.objects.get(uid=made[7]).expires_at == later


def test_recall_query_count_is_constant(mcp):
    for n in range(3):
        mcp("store", content=f"export number {n}", importance=4 + n % 6)
    Memory.objects.update(expires_at=timezone.now() + timedelta(days=1))
    with CaptureQueriesContext(connection) as few:
        mcp("recall", query="export number", max_tokens=50_000)
    for n in range(30):
        mcp("store", content=f"export number {n} of many", importance=4 + n % 6)
    Memory.objects.update(expires_at=timezone.now() + timedelta(days=1))
    with CaptureQueriesContext(connection) as many:
        mcp("recall", query="export number", max_tokens=50_000, limit=50)
    assert len(many) <= len(few) + 2


@pytest.mark.conformance("mcp-25")
def test_expired_memory_is_neither_found_nor_renewed(mcp):
    mcp("store", content="export at dawn", importance=9)
    past = timezone.now() - timedelta(days=1)
    Memory.objects.update(expires_at=past)
    assert mcp("recall", query="export")["total_count"] == 0
    assert Memory.objects.get().expires_at == past


def test_memory_without_expiry_stays_so(mcp):
    mcp("store", content="export at dawn", importance=9, ttl_days=0)
    mcp("recall", query="export")
    assert Memory.objects.get().expires_at is None


def test_recall_does_not_change_updated_at(mcp):
    mcp("store", content="export at dawn", importance=9)
    before = Memory.objects.get()
    rows = JournalEntry.objects.count()
    mcp("recall", query="export")
    assert Memory.objects.get().updated_at == before.updated_at
    assert JournalEntry.objects.count() == rows


def test_details_include_provenance(mcp):
    made = mcp("store", content="export at dawn")
    mcp("store", id=made["id"], content="export at noon")
    [detail] = mcp("recall", query="export", provenance=True)["details"]
    [row] = detail["provenance"]
    assert (row["operation"], row["actor"]) == ("update", "token:bot")
    assert row["timestamp"].endswith("Z")
    assert "." not in row["timestamp"]


@pytest.mark.conformance("mcp-2", "mcp-6", "mcp-13", "mcp-15")
def test_forget_moves_to_the_trash_with_provenance(bot, mcp):
    made = mcp("store", content="export at dawn")
    gone = mcp("forget", id=made["id"], reason="it was  wrong")
    assert (gone["id"], gone["outcome"], gone["reason"]) == (made["id"], "trashed", "it was wrong")
    assert [row["operation"] for row in gone["provenance"]] == ["delete", "insert"]
    assert gone["provenance"][0]["metadata"]["reason"] == "it was wrong"
    assert Memory.objects.get().deleted_at
    assert mcp("recall", query="export")["total_count"] == 0
    is_problem(run(bot, "memory-mcp", "memory_forget", id=made["id"]), 404, "not_found")


@pytest.mark.conformance("mcp-14", "mcp-15")
@pytest.mark.django_db(transaction=True)
def test_hard_forget_erases_and_keeps_the_provenance(bot, mcp):
    made = mcp("store", content="export at dawn")
    gone = mcp("forget", id=made["id"], hard=True, reason="the owner asked")
    assert gone["outcome"] == "erased"
    assert [row["operation"] for row in gone["provenance"]] == ["erase", "insert"]
    assert gone["provenance"][0]["metadata"]["reason"] == "the owner asked"
    assert not Memory.objects.exists()
    is_problem(run(bot, "memory-mcp", "memory_forget", id=made["id"], hard=True), 404, "not_found")


@pytest.mark.django_db(transaction=True)
def test_reason_with_words_of_an_erased_memory_is_dropped(mcp):
    made = mcp("store", content="Ada takes lithium")
    assert mcp("forget", id=made["id"], hard=True, reason="it said that she takes lithium")["reason"] == ""
    assert "lithium" not in json.dumps(list(JournalEntry.objects.values("detail")))


def test_reason_that_quotes_a_memory_is_dropped(mcp):
    made = mcp("store", content="Ada takes lithium every morning")
    assert mcp("forget", id=made["id"], reason="'takes lithium every morning' is private")["reason"] == ""
    other = mcp("store", content="Ada takes the bus to work")
    assert mcp("forget", id=other["id"], reason="Ada moved house")["reason"] == "Ada moved house"
    assert "lithium" not in json.dumps(list(JournalEntry.objects.values("detail")))


def test_storing_the_same_content_again_updates_the_given_fields(mcp):
    first = mcp("store", content="Ada leads the export team", tags=["people"])
    again = mcp(
        "store", content="Ada leads the export team", type="relationship", tags=["team"], summary="Ada leads."
    )
    assert (again["id"], again["outcome"]) == (first["id"], "refreshed")
    memory = Memory.objects.get()
    assert (memory.type, memory.abstract) == ("relationship", "Ada leads.")
    assert again["tags"] == ["team"]
    assert again["entities"] == first["entities"]


def test_storing_the_same_content_again_updates_the_entities(mcp):
    first = mcp("store", content="Grace Hopper leads the export team")
    again = mcp("store", content="Grace Hopper leads the export team", entities=["exports"])
    assert (again["id"], again["outcome"]) == (first["id"], "refreshed")
    assert [one["entity"] for one in again["entities"]] == ["exports"]


def test_reason_with_a_credential_is_refused(bot, mcp):
    made = mcp("store", content="export at dawn")
    reason = "key AKIA" + "QWERTYUIOP234567"
    is_problem(run(bot, "memory-mcp", "memory_forget", id=made["id"], reason=reason), 422, "secret_detected")
    assert Memory.objects.get().deleted_at is None
