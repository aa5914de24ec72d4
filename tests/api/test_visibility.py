"""Every endpoint shows only levels that are requested and cleared, and never an unknown level."""

import json
from itertools import product

import pytest

from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit import journal
from memoryhub.models import Event, Fact, FileLink, Label, Memory, Revision, Session
from tests.api.conftest import is_problem
from tests.cases import each

LEVELS = ("public", "private", "secret")
FLAGS = [{}, {"allow_private": True}, {"allow_secret": True}, {"allow_private": True, "allow_secret": True}]
WORDS = {
    "public": "publicwords",
    "private": "privatewords",
    "secret": "secretwords",
    "cosmic": "unknownwords",
}


@pytest.fixture
def zoo(four_levels):
    """Four memories of different levels, with everything attached to them."""
    session = Session.objects.create(session_id="safari", project="zoo")
    for level, memory in four_levels.items():
        words = WORDS[level]
        Memory.objects.filter(pk=memory.pk).update(session_id="safari")
        Label.objects.create(memory=memory, kind="tag", value="stripes")
        Label.objects.create(memory=memory, kind="concept", value="pattern")
        FileLink.objects.create(memory=memory, access="read", path="zoo/zebra.py", basename="zebra.py")
        marks = {"project": "zoo", "sensitivity": level}
        Fact.objects.create(subject="zebra", predicate="has", object=words, memory=memory, **marks)
        Fact.objects.create(subject="horse", predicate="has", object=words, **marks)
        Revision.objects.create(memory=memory, number=1, sensitivity=level, before={"title": words})
        Event.objects.create(session=session, event="tool:post", sensitivity=level, preview=words)
    return four_levels


def seen(response, memories):
    """Return the levels whose words or ids are in a response."""
    assert response.status_code == 200, response.content
    text = response.content.decode()
    return {level for level, memory in memories.items() if WORDS[level] in text or memory.uid in text}


def expected(clearance, flags):
    asked = {"public"} | {name.removeprefix("allow_") for name in flags}
    return asked & set(LEVELS[: LEVELS.index(clearance) + 1])


LIST_ENDPOINTS = {
    "list": ("get", "/memories", {}),
    "list by project": ("get", "/memories", {"project": "zoo"}),
    "list by tag": ("get", "/memories", {"tag": "stripes"}),
    "list by concept": ("get", "/memories", {"concept": "pattern"}),
    "list by file": ("get", "/memories", {"file": "zebra.py"}),
    "list by session": ("get", "/memories", {"session_id": "safari"}),
    "search": ("get", "/search", {"query": "zebra stripes", "min_score": 0}),
    "search by body": ("post", "/search", {"query": "zebra stripes", "min_score": 0}),
    "search by substring": ("get", "/search", {"query": "ebra", "min_score": 0}),
    "timeline": ("get", "/timeline", {}),
    "timeline of a project": ("get", "/timeline", {"project": "zoo"}),
    "timeline of a type": ("get", "/timeline", {"type": "change"}),
    "timeline of a session": ("get", "/timeline", {"session_id": "safari"}),
    "session": ("get", "/sessions/safari", {}),
    "facts": ("get", "/facts", {}),
    "facts of a subject": ("get", "/facts", {"subject": "zebra"}),
    "journal": ("get", "/journal", {}),
    "journal of inserts": ("get", "/journal", {"operation": "insert"}),
    "tool search_memories": (
        "post",
        "/tools/letsgo/search_memories",
        {"query": "zebra stripes", "min_score": 0},
    ),
    "tool list_memories": ("post", "/tools/letsgo/list_memories", {"project": "zoo"}),
    "tool search_by_file": ("post", "/tools/letsgo/search_by_file", {"path": "zoo"}),
    "tool search_by_concept": ("post", "/tools/letsgo/search_by_concept", {"concept": "pattern"}),
    "tool get_timeline": ("post", "/tools/letsgo/get_timeline", {}),
    "tool query_facts": ("post", "/tools/letsgo/query_facts", {"subject": "zebra"}),
}


def request(caller, method, path, arguments):
    return caller.get(path, **arguments) if method == "get" else caller.post(path, arguments)


@pytest.mark.slow
@each("clearance", LEVELS)
@each("endpoint", LIST_ENDPOINTS)
def test_list_shows_requested_and_cleared_levels(zoo, agent, endpoint, clearance):
    caller, (method, path, arguments) = agent(clearance), LIST_ENDPOINTS[endpoint]
    for flags in FLAGS:
        response = request(caller, method, path, {**arguments, **flags})
        assert seen(response, zoo) == expected(clearance, flags), flags


@each("clearance", LEVELS)
def test_totals_count_only_listed_rows(zoo, agent, clearance):
    caller = agent(clearance)
    for flags in FLAGS:
        count = len(expected(clearance, flags))
        assert caller.get("/memories", **flags).json()["total"] == count
        assert caller.get("/search", query="zebra", min_score=0, **flags).json()["total"] == count
        assert caller.get("/facts", **flags).json()["total"] == 2 * count
        assert caller.get("/timeline", type="change", **flags).json()["total"] == count
        assert caller.get("/timeline", **flags).json()["total"] == 2 * count + 1  # with the session's start
        assert caller.get("/sessions/safari", **flags).json()["timeline"]["total"] == 2 * count + 1
        [session] = caller.get("/sessions", **flags).json()["items"]
        assert (session["memory_count"], session["event_count"]) == (count, count)
        inserts = caller.get("/journal", operation="insert", object_type="memory", **flags).json()
        assert inserts["total"] == len(inserts["items"]) == count


@each("clearance", LEVELS)
def test_statistics_count_only_visible_rows(zoo, agent, clearance):
    caller = agent(clearance)
    for flags in FLAGS:
        visible = expected(clearance, flags)
        stats = caller.get("/stats", **flags).json()
        assert stats["by_sensitivity"] == dict.fromkeys(visible, 1)
        assert stats["total"] == len(visible)
        assert sum(stats["by_project"].values()) == sum(stats["by_type"].values()) == len(visible)
        assert stats["facts"] == 2 * len(visible)


@each("clearance", LEVELS)
def test_hidden_memory_and_its_history_are_404(zoo, agent, clearance):
    caller = agent(clearance)
    for level, flags in product(WORDS, FLAGS):
        uid = zoo[level].uid
        answers = [
            caller.get(f"/memories/{uid}", **flags),
            caller.get(f"/memories/{uid}/history", **flags),
            caller.post("/tools/letsgo/get_memory", {"id": uid, **flags}),
        ]
        for answer in answers:
            if level in expected(clearance, flags):
                assert answer.status_code == 200
            else:
                body = is_problem(answer, 404, "not_found")
                absent = is_problem(caller.get("/memories/nothere", **flags), 404)
                assert {**body, "request_id": ""} == {**absent, "request_id": ""}


@each("level", WORDS)
@each("clearance", LEVELS)
def test_writes_cover_the_clearance_without_flags(zoo, agent, clearance, level):
    caller, uid = agent(clearance), zoo[level].uid
    fact = Fact.objects.get(subject="horse", sensitivity=level)
    answers = [
        caller.patch(f"/memories/{uid}", {"title": "changed"}),
        caller.delete(f"/memories/{uid}"),
        caller.post(f"/memories/{uid}/restore"),
        caller.post("/tools/letsgo/update_memory", {"id": uid, "title": "again"}),
        caller.post("/tools/letsgo/delete_memory", {"id": uid}),
        caller.delete(f"/memories/{uid}", hard=True),
        caller.delete(f"/facts/{fact.uid}"),
    ]
    if level in LEVELS[: LEVELS.index(clearance) + 1]:
        assert {answer.status_code for answer in answers} == {200}
    else:
        for answer in answers:
            is_problem(answer, 404, "not_found")
        assert Memory.objects.get(uid=uid).title == zoo[level].title
        assert Fact.objects.filter(pk=fact.pk).exists()


@each("word", ["privatewords", "secretwords", "unknownwords", "cretwor"])
def test_word_of_hidden_memories_finds_nothing(zoo, agent, word):
    answer = agent("public").get("/search", query=word, min_score=0, **FLAGS[3]).json()
    assert (answer["results"], answer["total"]) == ([], 0)


def test_memory_above_the_clearance_cannot_be_read_back(agent):
    low = agent("public")
    made = low.post("/memories", {"content": "quagmire", "sensitivity": "secret"})
    assert made.status_code == 201
    uid = made.json()["memory"]["id"]
    asking = {"allow_private": True, "allow_secret": True}
    is_problem(low.get(f"/memories/{uid}", **asking), 404)
    is_problem(low.patch(f"/memories/{uid}", {"title": "t"}), 404)
    assert low.get("/memories", **asking).json()["total"] == 0
    assert agent("secret").get(f"/memories/{uid}", allow_secret=True).status_code == 200


def test_writer_below_the_level_does_not_get_a_curators_words(agent):
    low = agent("public", "writer")
    body = {"content": "quagmire", "sensitivity": "secret", "key": "k"}
    uid = low.post("/memories", body).json()["memory"]["id"]
    agent("secret", "curator").patch(f"/memories/{uid}", {"title": "hidden title", "tags": ["hiddentag"]})
    for again in (body, {**body, "content": "quagmire two"}):
        response = low.post("/memories", again)
        assert response.json()["memory"]["id"] != uid
        assert b"hidden" not in response.content


def test_same_content_above_the_clearance_is_one_memory_and_reveals_nothing(agent):
    low, boss = agent("public", "writer"), agent("secret", "reader")
    body = {"content": "quagmire", "sensitivity": "secret"}
    uid = low.post("/memories", body).json()["memory"]["id"]
    boss.get(f"/memories/{uid}", allow_secret=True)
    again = low.post("/memories", body)
    assert (again.status_code, again.json()["outcome"]) == (200, "refreshed")
    assert set(again.json()["memory"]) == {"id", "project", "scope", "content_hash"}
    assert again.json()["memory"]["id"] == uid


def test_hidden_copy_is_not_revealed_to_another_writer(zoo, agent):
    low = agent("public", "stranger")
    response = low.post(
        "/memories", {"content": zoo["secret"].content, "project": "zoo", "sensitivity": "secret"}
    )
    assert response.status_code == 201
    assert response.json()["memory"]["id"] != zoo["secret"].uid


def test_hidden_fact_looks_like_a_new_one(zoo, agent):
    low = agent("public", "stranger")
    triple = {"subject": "horse", "predicate": "has", "object": "secretwords", "project": "zoo"}
    known = low.post("/facts", {**triple, "sensitivity": "secret", "confidence": 0.4})
    fresh = low.post("/facts", {**triple, "object": "new words", "sensitivity": "secret"})
    again = low.post("/facts", {**triple, "object": "new words", "sensitivity": "secret"})
    assert known.status_code == fresh.status_code == 201
    assert known.json()["outcome"] == fresh.json()["outcome"] == "created"
    assert set(known.json()["fact"]) == set(fresh.json()["fact"])
    assert Fact.objects.filter(**{**triple, "sensitivity": "secret"}).count() == 2, (
        "one's own beside the hidden"
    )
    assert again.json()["outcome"] == "created"


def test_fact_of_a_hidden_memory_is_hidden(zoo, agent):
    Fact.objects.create(subject="lion", predicate="has", object="a mane", memory=zoo["secret"], project="zoo")
    assert agent("public").get("/facts", subject="lion").json()["total"] == 0
    assert agent("secret").get("/facts", subject="lion").json()["total"] == 0
    assert agent("secret").get("/facts", subject="lion", allow_secret=True).json()["total"] == 1


def test_fact_cannot_refer_to_a_hidden_memory(zoo, agent):
    body = {"subject": "s", "predicate": "p", "object": "o", "memory_id": zoo["secret"].uid}
    problem = is_problem(agent("private").post("/facts", body), 422)
    assert [error["field"] for error in problem["errors"]] == ["memory_id"]
    assert zoo["secret"].uid not in json.dumps(problem)


def test_secret_version_stays_secret(agent):
    boss = agent("secret")
    uid = boss.post("/memories", {"content": "the password", "sensitivity": "secret"}).json()["memory"]["id"]
    boss.patch(f"/memories/{uid}", {"content": "nothing much", "sensitivity": "public"})
    boss.patch(f"/memories/{uid}", {"content": "nothing at all"})
    shown = agent("public").get(f"/memories/{uid}/history")
    assert [row["before"]["content"] for row in shown.json()["revisions"]] == ["nothing much"]
    assert b"password" not in shown.content
    assert b"password" not in boss.get(f"/memories/{uid}/history").content
    assert b"password" in boss.get(f"/memories/{uid}/history", allow_secret=True).content


def test_journal_of_a_memory_made_secret_is_hidden(agent):
    boss = agent("secret")
    uid = boss.post("/memories", {"content": "open"}).json()["memory"]["id"]
    low = agent("public")
    assert low.get("/journal", object_id=uid).json()["total"] == 1
    boss.patch(f"/memories/{uid}", {"sensitivity": "secret"})
    assert low.get("/journal", object_id=uid).json()["total"] == 0
    assert boss.get("/journal", object_id=uid, allow_secret=True).json()["total"] == 2


def test_session_with_only_hidden_events_is_404(zoo, agent):
    night = Session.objects.create(session_id="night", project="zoo")
    Event.objects.create(session=night, event="tool:post", memory=zoo["secret"])
    is_problem(agent("public").get("/sessions/night"), 404)
    assert agent("secret").get("/sessions/night", allow_secret=True).status_code == 200


def test_maintenance_covers_what_the_token_clears(zoo, agent):
    Memory.objects.update(expires_at="2020-01-01T00:00:00Z")
    assert agent("private").tool("purge_expired") == {"purged": 2}
    assert set(Memory.objects.values_list("sensitivity", flat=True)) == {"secret", "cosmic"}


class TestConfinement:
    """A token of one project sees no other project."""

    @pytest.fixture
    def confined(self, agent, remember, four_levels):
        self.inside = remember("zebra in the farm", project="farm", session_id="day")
        remember("zebra at large", session_id="wild")
        Fact.objects.create(subject="zebra", predicate="lives", object="in the zoo", project="zoo")
        return agent("secret", "farmer", projects=["farm"])

    @each("endpoint", [d for d in LIST_ENDPOINTS if d not in ("session", "list by project")])
    def test_other_projects_are_hidden(self, confined, four_levels, endpoint):
        method, path, arguments = LIST_ENDPOINTS[endpoint]
        response = request(confined, method, path, {**arguments, **FLAGS[3]})
        assert seen(response, four_levels) == set()
        assert b"at large" not in response.content

    def test_own_project_is_visible(self, confined):
        assert [item["id"] for item in confined.get("/memories").json()["items"]] == [self.inside.uid]
        assert confined.get("/stats").json()["by_project"] == {"farm": 1}
        assert [row["session_id"] for row in confined.get("/sessions").json()["items"]] == ["day"]

    def test_memory_of_another_project_is_404_for_every_method(self, confined, four_levels):
        uid = four_levels["public"].uid
        is_problem(confined.get(f"/memories/{uid}"), 404)
        is_problem(confined.patch(f"/memories/{uid}", {"title": "t"}), 404)
        is_problem(confined.delete(f"/memories/{uid}"), 404)
        is_problem(confined.post(f"/memories/{uid}/restore"), 404)

    def test_memory_without_project_is_stored_in_the_tokens_own(self, confined):
        assert confined.post("/memories", {"content": "hay"}).json()["memory"]["project"] == "farm"

    def test_writing_to_another_project_is_403_with_the_allowed_ones(self, confined):
        problem = is_problem(confined.post("/memories", {"content": "x", "project": "zoo"}), 403, "forbidden")
        assert [error["field"] for error in problem["errors"]] == ["project"]
        assert "farm" in problem["detail"]
        fact = {"subject": "s", "predicate": "p", "object": "o", "project": "zoo"}
        is_problem(confined.post("/facts", fact), 403)
        is_problem(confined.patch(f"/memories/{self.inside.uid}", {"project": "zoo"}), 403)


def test_token_of_an_unknown_clearance_sees_nothing(zoo, agent):
    from memoryhub.models import AgentToken

    odd = agent("public", "odd")
    AgentToken.objects.filter(name="odd").update(clearance="cosmic")
    assert odd.get("/memories", **FLAGS[3]).json()["total"] == 0
    assert odd.get("/stats", **FLAGS[3]).json()["total"] == 0


def test_journal_hides_rows_of_an_unknown_level(four_levels, agent, actor, db):
    from django.db import transaction

    with transaction.atomic():
        journal.record(
            Actor("test", Clearance()), [journal.Change("insert", "memory", "gone", sensitivity="cosmic")]
        )
    assert agent("secret").get("/journal", object_id="gone", **FLAGS[3]).json()["total"] == 0
