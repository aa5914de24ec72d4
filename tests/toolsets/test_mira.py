"""Mira's tool with the wording of its document, and its scopes: personal, project and team."""

from __future__ import annotations

import re

import pytest

from memoryhub.models import Embedding, Memory
from tests.api.conftest import is_problem
from tests.cases import each
from tests.toolsets.conftest import id_in, result, run

STRICT = "We use TypeScript strict mode with noImplicitAny"
ERRORS = [
    ({}, "Invalid action: Must be `remember`, `recall`, or `forget`", "action"),
    ({"action": "dance"}, "Invalid action: Must be `remember`, `recall`, or `forget`", "action"),
    ({"action": 5}, "Invalid action: Must be `remember`, `recall`, or `forget`", "action"),
    ({"action": "remember"}, "Missing content: `remember` requires `content`", "content"),
    ({"action": "remember", "content": " "}, "Missing content: `remember` requires `content`", "content"),
    ({"action": "recall"}, "Missing query: `recall` requires `query`", "query"),
    ({"action": "recall", "query": ""}, "Missing query: `recall` requires `query`", "query"),
    ({"action": "forget"}, "Missing id: `forget` requires `id`", "id"),
    (
        {"action": "remember", "content": "x", "confidence": 1.01},
        "Invalid confidence: Must be 0.0–1.0",
        "confidence",
    ),
    (
        {"action": "remember", "content": "x", "confidence": "very"},
        "Invalid confidence: Must be 0.0–1.0",
        "confidence",
    ),
    (
        {"action": "remember", "content": "x", "confidence": True},
        "Invalid confidence: Must be 0.0–1.0",
        "confidence",
    ),
    (
        {"action": "remember", "content": "x", "scope": "galaxy"},
        "Invalid scope: Must be `personal`, `project`, or `team`",
        "scope",
    ),
    (
        {"action": "recall", "query": "x", "fact_type": "rumour"},
        "Invalid fact_type: Must be `preference`, `decision`, `context`, or `general`",
        "fact_type",
    ),
    (
        {"action": "recall", "query": "x", "limit": 0},
        "Invalid limit: Must be a whole number from 1 to 200",
        "limit",
    ),
]


@pytest.mark.conformance(
    "mira-3", "mira-7", "mira-13", "mira-16", "mira-36", "mira-37", "mira-38", "mira-39", "mira-40", "mira-41"
)
@each("arguments, words, field", ERRORS)
def test_refusals_use_the_words_of_the_document(bot, arguments, words, field):
    problem = is_problem(bot.post("/tools/mira/memory", arguments), 422)
    assert problem["detail"] == words
    [error] = problem["errors"]
    assert error["field"] == field
    assert "`" not in error["message"]
    assert not Memory.objects.exists()


def test_every_invalid_field_is_named(bot):
    response = run(bot, "mira", "memory", action="remember", content="x", confidence=7, scope="galaxy")
    problem = is_problem(response, 422)
    assert "Invalid confidence" in problem["detail"]
    assert "Invalid scope" in problem["detail"]
    assert [error["field"] for error in problem["errors"]] == ["confidence", "scope"]


@pytest.mark.conformance("mira-42")
def test_secret_is_refused_without_being_repeated(bot):
    secret = "hunter2" + "hunter2xyz9"
    response = run(bot, "mira", "memory", action="remember", content=f"fine\npassword = {secret}")
    problem = is_problem(response, 422, "secret_detected")
    assert problem["detail"].startswith("Secret detection: line 2 of content")
    assert secret not in response.content.decode()
    assert not Memory.objects.exists()


@pytest.mark.conformance("mira-5", "mira-25")
def test_remember_returns_the_id(mira):
    sentence = mira("remember", content="The team uses builder pattern for config structs")
    assert re.fullmatch(r"Memory stored successfully with ID: \w+", sentence)
    memory = Memory.objects.get()
    assert id_in(sentence) == memory.uid
    defaults = ("general", "general", 0.5, "project", "public", "")
    assert defaults == tuple(
        getattr(memory, name)
        for name in ("type", "category", "confidence", "scope", "sensitivity", "session_id")
    )


@pytest.mark.conformance("mira-6", "mira-26")
def test_remember_with_a_known_key_updates(mira):
    first = mira("remember", content="We use loose mode", key="ts", fact_type="decision", category="dev")
    again = mira("remember", content=STRICT, key="ts")
    assert again == f"Memory updated successfully (ID: {id_in(first)})"
    memory = Memory.objects.get()
    assert (memory.content, memory.type, memory.category) == (STRICT, "decision", "dev")
    assert memory.revisions.count() == 1


def test_key_is_unique_within_project_and_scope(mira):
    for place in ({}, {"project": "p"}, {"project": "q"}, {"scope": "team"}, {"scope": "personal"}):
        assert "stored" in mira("remember", content=STRICT, key="ts", **place), place
        assert "updated" in mira("remember", content=f"{STRICT}!", key="ts", **place), place
    assert Memory.objects.count() == 5


def test_same_content_updates(mira):
    first = mira("remember", content=STRICT)
    assert mira("remember", content=STRICT) == f"Memory updated successfully (ID: {id_in(first)})"


def test_same_content_takes_over_the_given_fields(mira):
    mira("remember", content=STRICT, category="dev")
    mira("remember", content=STRICT, fact_type="decision", tags=["ts"])
    memory = Memory.objects.get()
    assert (memory.type, memory.category) == ("decision", "dev")
    assert [label.value for label in memory.labels.all()] == ["ts"]


@pytest.mark.conformance("mira-4", "mira-24")
def test_example_of_the_document_is_accepted(bot):
    arguments = {"action": "remember", "content": STRICT, "fact_type": "decision"}
    response = bot.post("/tools/mira", {"name": "memory", "arguments": arguments})
    assert result(response).startswith("Memory stored successfully with ID: ")
    is_problem(bot.post("/tools/mira", {"name": "memories", "arguments": {}}), 404, "unknown_tool")
    is_problem(bot.post("/tools/mira", {"arguments": {}}), 422)
    is_problem(bot.post("/tools/mira", {"name": "memory", "arguments": []}), 422)
    assert "Invalid action" in is_problem(bot.post("/tools/mira", {"name": "memory"}), 422)["detail"]


@pytest.mark.conformance("mira-31")
def test_recall_returns_a_list_with_similarities(mira):
    stored = mira("remember", content=STRICT, key="ts", fact_type="decision", category="dev", confidence=0.8)
    [found] = mira("recall", query="TypeScript strict")
    assert (found["id"], found["content"]) == (id_in(stored), STRICT)
    assert (found["fact_type"], found["category"], found["key"]) == ("decision", "dev", "ts")
    assert (found["confidence"], found["scope"]) == (0.8, "project")
    assert 0 < found["similarity"] <= 1
    assert mira("recall", query="quantum chromodynamics") == []


@pytest.mark.conformance("mira-21", "mira-27")
def test_recall_finds_by_meaning_first(embedding, mira):
    mira("remember", content="Sign-in is done with one-time codes sent by mail", fact_type="decision")
    mira("remember", content="The office plants are watered on Mondays")
    [found] = mira("recall", query="how do users log in")
    assert found["content"].startswith("Sign-in")
    assert found["found_by"] == "semantic"


@pytest.mark.conformance("mira-28")
def test_recall_uses_keywords_without_vectors(configure, mira):
    configure(embeddings="none")
    mira("remember", content="Sign-in is done with one-time codes")
    [found] = mira("recall", query="codes for sign-in")
    assert found["found_by"] == "keyword"


@pytest.mark.conformance("mira-29")
@pytest.mark.parametrize("typed", ["authentcation", "autentication flow", "athentication tokns"])
def test_recall_corrects_misspellings(mira, typed):
    mira("remember", content="Authentication of tokens is done in the flow module")
    mira("remember", content="The office plants are watered on Mondays")
    [found] = mira("recall", query=typed)
    assert found["content"].startswith("Authentication")
    assert found["found_by"] == "fuzzy"


@pytest.mark.conformance("mira-10", "mira-11", "mira-12", "mira-30")
def test_recall_filters_before_the_limit(mira):
    for n in range(30):
        mira("remember", content=f"login page note {n}: login login login", fact_type="context")
    mira("remember", content="The login page was decided to be plain", fact_type="decision", category="ui")
    for narrowed in ({"fact_type": "decision"}, {"category": "ui"}):
        [found] = mira("recall", query="login page", limit=1, **narrowed)
        assert "decided" in found["content"]
    assert mira("recall", query="login page", fact_type="preference") == []


@pytest.mark.conformance("mira-22")
def test_recall_limit_defaults_to_ten(mira):
    for n in range(12):
        mira("remember", content=f"login page note {n}")
    assert len(mira("recall", query="login page")) == 10
    assert len(mira("recall", query="login page", limit=3)) == 3


@pytest.mark.conformance("mira-10")
def test_other_types_are_general(mira, remember):
    remember("the login page was fixed", type="bugfix")
    [found] = mira("recall", query="login page", fact_type="general")
    assert found["fact_type"] == "general"
    assert mira("recall", query="login page", fact_type="decision") == []


def test_recall_counts_an_access(mira):
    mira("remember", content="The login page is plain")
    mira("recall", query="login page")
    assert Memory.objects.get().accessed_count == 1


@pytest.mark.conformance("mira-23", "mira-32", "mira-34", "mira-35")
def test_forget_reports_the_outcome(mira):
    uid = id_in(mira("remember", content="The login page is plain"))
    assert mira("forget", id=uid) == f"Memory {uid} deleted."
    assert mira("forget", id=uid) == f"Memory {uid} not found."
    assert mira("recall", query="login page") == []
    assert mira("forget", id="42") == "Memory 42 not found."
    assert mira("forget", id=42) == "Memory 42 not found."


@pytest.mark.parametrize("key", ["ts", ""])
def test_forgotten_memory_is_stored_again(mira, key):
    uid = id_in(mira("remember", content=STRICT, key=key))
    mira("forget", id=uid)
    assert mira("remember", content=STRICT, key=key) == f"Memory stored successfully with ID: {uid}"
    assert mira("remember", content=STRICT, key=key) == f"Memory updated successfully (ID: {uid})"
    assert [one["id"] for one in mira("recall", query=STRICT)] == [uid]


@each("rights, allowed", [(["read"], {"recall"}), (["write"], {"remember", "forget"}), (["maintain"], set())])
def test_each_action_needs_its_right(agent, rights, allowed):
    caller = agent(rights=rights)
    calls = {
        "remember": {"content": "The login page is plain"},
        "recall": {"query": "login"},
        "forget": {"id": "42"},
    }
    for action, arguments in calls.items():
        response = run(caller, "mira", "memory", action=action, **arguments)
        if action in allowed:
            assert response.status_code == 200
        else:
            is_problem(response, 403, "missing_right")


def test_null_means_absent(mira):
    nothing = dict.fromkeys(("key", "fact_type", "category", "confidence", "scope", "query", "limit", "id"))
    assert "stored" in mira("remember", content="The login page is plain", **nothing)
    assert len(mira("recall", **{**nothing, "query": "login page"}, content=None)) == 1


def remember(caller, **arguments):
    return id_in(result(run(caller, "mira", "memory", action="remember", **arguments)))


def found(caller, **arguments):
    rows = result(run(caller, "mira", "memory", action="recall", query="login page", **arguments))
    return {row["id"] for row in rows}


@pytest.fixture
def ada(agent):
    return agent(name="ada-bot", owner="ada")


@pytest.fixture
def bob(agent):
    return agent(name="bob-bot", owner="bob")


@pytest.mark.conformance("mira-18")
def test_personal_memory_is_visible_to_its_owner_only(ada, bob):
    uid = remember(ada, content="the login page is ugly", scope="personal")
    assert found(ada) == found(ada, scope="personal") == {uid}
    assert found(bob) == found(bob, scope="personal") == set()
    assert Memory.objects.get().owner == "ada"


def test_personal_memory_is_visible_to_other_agents_of_the_owner(ada, agent):
    uid = remember(ada, content="the login page is ugly", scope="personal", project="p")
    assert found(agent(name="other", owner="ada"), project="q") == {uid}


def test_personal_memory_cannot_be_forgotten_by_others(ada, bob):
    uid = remember(ada, content="the login page is ugly", scope="personal")
    sentence = result(run(bob, "mira", "memory", action="forget", id=uid))
    assert sentence == f"Memory {uid} not found."
    assert Memory.objects.get().deleted_at is None


def test_same_key_of_another_owner_is_another_memory(ada, bob):
    first = remember(ada, content="the login page is ugly", scope="personal", key="login")
    second = remember(bob, content="the login page is nice", scope="personal", key="login")
    assert first != second
    assert found(ada) == {first}
    assert found(bob) == {second}


@pytest.mark.conformance("mira-19")
def test_project_memory_stays_in_its_project(ada, bob):
    uid = remember(ada, content="the login page is plain", project="p")
    assert found(bob, project="p") == {uid}
    assert found(bob, project="q") == set()


@pytest.mark.conformance("mira-20")
def test_team_memory_is_visible_in_every_project(ada, bob):
    uid = remember(ada, content="the login page is plain", scope="team", project="p")
    assert found(bob, project="q") == found(bob, scope="team", project="q") == {uid}
    assert found(bob, scope="project") == set()


def test_memory_without_project_is_visible_in_every_project(ada, bob):
    uid = remember(ada, content="the login page is plain")
    assert found(bob, project="q") == {uid}


def test_confined_token_stays_in_its_projects(ada, agent):
    confined = agent(name="confined", owner="ada", projects=["q"])
    remember(ada, content="the login page is plain", project="p")
    remember(ada, content="the login page is shared", scope="team", project="p")
    remember(ada, content="the login page is mine", scope="personal", project="p")
    own = remember(confined, content="the login page is blue")
    assert found(confined) == found(confined, project="q") == {own}
    assert found(confined, project="p") == set()
    assert Memory.objects.get(uid=own).project == "q"
    refused = run(confined, "mira", "memory", action="remember", content="x", project="p")
    assert refused.status_code == 403


@pytest.mark.conformance("mira-2")
def test_memory_does_not_expire_unless_asked(mira):
    mira("remember", content="We use tabs")
    mira("remember", content="The demo is on Friday", ttl_days=3)
    assert [memory.expires_at is None for memory in Memory.objects.order_by("pk")] == [True, False]


def test_repeated_memory_keeps_its_expiry(mira):
    mira("remember", content="The demo is on Friday", ttl_days=3)
    mira("remember", content="The demo is on Friday")
    assert Memory.objects.get().ttl_days == 3


def test_recall_shows_the_status_and_the_number_of_sessions(mira):
    def status():
        [found] = mira("recall", query="tabs")
        return found["status"], found["sessions"]

    mira("remember", content="We use tabs", session_id="s1")
    mira("remember", content="We use tabs", session_id="s1")
    assert status() == ("tentative", 1)
    mira("remember", content="We use tabs", session_id="s2")
    assert status() == ("confirmed", 2)


@pytest.mark.conformance("mira-33")
def test_hard_forget_erases_the_memory_and_its_vector(embedding, mira):
    uid = id_in(mira("remember", content="We use tabs"))
    assert Embedding.objects.exists()
    assert mira("forget", id=uid, hard=True) == f"Memory {uid} deleted."
    assert not Memory.objects.exists()
    assert not Embedding.objects.exists()
    assert mira("forget", id=uid, hard=True) == f"Memory {uid} not found."
