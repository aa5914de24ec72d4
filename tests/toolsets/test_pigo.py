"""pigo's tools: three layers, six categories, deduplication, a usage counter."""

import pytest

from memoryhub.models import Memory
from tests.api.conftest import bad_fields, is_problem
from tests.cases import each
from tests.llm import servers
from tests.toolsets.conftest import run

CATEGORIES = ["profile", "preferences", "entities", "events", "cases", "patterns"]


@pytest.mark.conformance("pigo-4", "pigo-8", "pigo-9", "pigo-10", "pigo-11", "pigo-12", "pigo-13", "pigo-24")
@pytest.mark.parametrize("category", CATEGORIES)
def test_remember_stores_three_layers_in_each_category(pigo, category):
    layers = {"abstract": "Line", "overview": "A paragraph of it.", "content": "All of it in full detail."}
    made = pigo("remember", category=category, **layers)
    memory = Memory.objects.get()
    assert (made["id"], made["outcome"], made["decision"]) == (memory.uid, "created", "CREATE")
    assert {name: getattr(memory, name) for name in layers} == layers
    assert memory.category == made["category"] == category


def test_missing_layers_are_computed(pigo):
    pigo("remember", category="events", content="The move to Oslo was finished in May.")
    assert Memory.objects.get().abstract == "The move to Oslo was finished in May."
    [found] = pigo("recall", query="move to Oslo")["results"]
    assert found["overview"] == found["abstract"] == "The move to Oslo was finished in May."
    pigo("remember", category="cases", content="All of it", abstract="Line")
    assert Memory.objects.get(category="cases").overview == "Line"


@pytest.mark.conformance("pigo-14", "pigo-39")
@each(
    "arguments, field",
    [
        ({"content": "x", "category": "rumours"}, "category"),
        ({"content": "x"}, "category"),
        ({"category": "events"}, "content"),
        ({"category": "events", "content": " "}, "content"),
        ({"category": "events", "content": "x", "abstract": "x" * 2001}, "abstract"),
    ],
)
def test_remember_validates_its_input(bot, arguments, field):
    assert bad_fields(run(bot, "pigo", "memory_remember", **arguments)) == {field}
    assert not Memory.objects.exists()


@pytest.mark.conformance("pigo-22", "pigo-41")
def test_known_content_is_skipped_and_new_content_is_merged(embedding, pigo):
    text = "The nightly export job writes its files to the bucket in Oslo."
    first = pigo("remember", category="entities", content=text)
    known = pigo("remember", category="entities", content=text.rstrip("."))
    assert (known["id"], known["decision"]) == (first["id"], "SKIP")
    added = pigo("remember", category="entities", content=f"{text} Ingrid looks after it.")
    assert (added["id"], added["decision"]) == (first["id"], "MERGE")
    assert "Ingrid" in Memory.objects.get().content


def test_forgotten_memory_is_created_again(pigo):
    first = pigo("remember", category="entities", content="The bucket is in Oslo.")
    pigo("forget", id=first["id"])
    again = pigo("remember", category="entities", content="The bucket is in Oslo.")
    assert again["decision"] == "CREATE"
    assert Memory.objects.get().deleted_at is None


@pytest.mark.conformance("pigo-46", "pigo-47")
def test_events_and_cases_are_never_merged(embedding, pigo):
    for category in ("events", "cases"):
        text = f"The nightly export of {category} failed because the bucket in Oslo was full."
        first = pigo("remember", category=category, content=text)
        added = pigo("remember", category=category, content=f"{text} Ingrid emptied it.")
        assert added["decision"] == "CREATE"
        assert added["id"] != first["id"]


def test_profile_is_merged(embedding, pigo):
    text = "The user is a backend developer in Oslo."
    first = pigo("remember", category="profile", content=text)
    again = pigo("remember", category="profile", content="The user is a backend developer of Rust in Oslo.")
    assert (again["id"], again["decision"]) == (first["id"], "MERGE")
    assert "Oslo" in Memory.objects.get().content
    assert "Rust" in Memory.objects.get().content


@pytest.mark.conformance("pigo-45")
def test_profile_is_merged_with_the_most_similar_one(embedding, pigo):
    first = pigo("remember", category="profile", content="Maria is a data engineer")
    again = pigo("remember", category="profile", content="Maria lives in Porto")
    assert (again["id"], again["decision"]) == (first["id"], "MERGE")
    assert Memory.objects.get().content == "Maria is a data engineer. Maria lives in Porto"


@pytest.mark.conformance("pigo-5", "pigo-6", "pigo-16", "pigo-38")
def test_recall_returns_the_layers_and_counts_the_use(pigo):
    pigo(
        "remember",
        category="events",
        abstract="Move",
        overview="It moved.",
        content="The move to Oslo ended.",
    )
    for used in (1, 2):
        [found] = pigo("recall", query="move Oslo")["results"]
        assert found["accessed_count"] == Memory.objects.get().accessed_count == used
    layers = ("Move", "It moved.", "The move to Oslo ended.")
    assert (found["abstract"], found["overview"], found["content"]) == layers
    assert found["category"] == "events"
    assert 0 < found["similarity"] <= 1


@pytest.mark.conformance("pigo-19", "pigo-20", "pigo-35", "pigo-37")
def test_recall_finds_by_meaning_and_falls_back_to_keywords(embedding, configure, pigo):
    pigo("remember", category="events", content="Sign-in is done with one-time codes sent by mail")
    assert pigo("recall", query="how do users log in")["results"][0]["found_by"] == "semantic"
    configure(embeddings="none")
    assert pigo("recall", query="codes for sign-in")["results"][0]["found_by"] == "keyword"
    assert pigo("recall", query="how do users log in")["results"] == []


@pytest.mark.conformance("pigo-29", "pigo-36")
def test_recall_filters_by_category_and_limit(pigo):
    for n in range(8):
        pigo("remember", category="events", content=f"The export of day {n} ended well")
    pigo("remember", category="cases", content="The export stopped; a restart helped")
    assert len(pigo("recall", query="export")["results"]) == 5
    assert len(pigo("recall", query="export", top_k=2)["results"]) == 2
    assert len(pigo("recall", query="export", limit=3)["results"]) == 3
    [case] = pigo("recall", query="export", category="cases")["results"]
    assert case["category"] == "cases"


def test_recall_refuses_invalid_values(bot):
    assert bad_fields(run(bot, "pigo", "memory_recall")) == {"query"}
    assert bad_fields(run(bot, "pigo", "memory_recall", query="x", category="rumours")) == {"category"}
    assert bad_fields(run(bot, "pigo", "memory_recall", query="x", top_k=0)) == {"top_k"}


@pytest.mark.conformance("pigo-26", "pigo-42")
def test_forget_deletes_by_id(bot, pigo):
    made = pigo("remember", category="events", content="The move to Oslo ended.")
    assert pigo("forget", id=made["id"]) == {"id": made["id"], "outcome": "trashed"}
    assert pigo("recall", query="Oslo")["results"] == []
    is_problem(run(bot, "pigo", "memory_forget", id=made["id"]), 404, "not_found")


def test_merge_adds_to_the_abstract_and_the_overview(embedding, pigo, bot):
    text = "The nightly export job writes its files to the bucket in Oslo."
    layers = {"abstract": "Who owns exports.", "overview": "The export runs at night."}
    pigo("remember", category="entities", content=text, **layers)
    added = pigo("remember", category="entities", content=f"{text} Ingrid looks after it.")
    assert added["decision"] == "MERGE"
    memory = Memory.objects.get()
    assert memory.abstract == f"Who owns exports. {text} Ingrid looks after it."
    assert "Ingrid" in memory.overview
    assert "Ingrid" in bot.get("/memories/prompt").json()["prompt"]


def test_news_come_first_in_an_abstract_that_is_too_long(embedding, pigo):
    old = "The nightly export job writes the files of every customer to the bucket in Oslo, one folder each."
    pigo(
        "remember", category="entities", content=old, abstract=old + " It began in May with forty customers."
    )
    news = "Since June the export job also writes a manifest with the checksum of each file next to it."
    added = pigo("remember", category="entities", content=f"{old} {news}", abstract=news)
    assert added["decision"] == "MERGE"
    memory = Memory.objects.get()
    assert memory.abstract.startswith(news)
    assert len(memory.abstract) <= 200


def test_skipped_memory_takes_a_new_abstract(embedding, pigo):
    text = "The nightly export job writes its files to the bucket in Oslo."
    pigo("remember", category="entities", content=text, abstract="The export job.")
    known = pigo("remember", category="entities", content=text.rstrip("."), abstract="Ingrid owns the job.")
    assert known["decision"] == "SKIP"
    memory = Memory.objects.get()
    assert (memory.content, memory.abstract) == (text, "The export job. Ingrid owns the job.")


def test_secret_across_merged_summaries_is_refused(embedding, pigo, bot):
    text = "The nightly export job writes its files to the bucket in Oslo."
    pigo("remember", category="entities", content=text, abstract="The password is")
    value = "hunter2" + "hunter2xyz9"
    again = {"category": "entities", "content": text.rstrip("."), "abstract": f"password = {value}"}
    refused = run(bot, "pigo", "memory_remember", **again)
    is_problem(refused, 422, "secret_detected")
    assert Memory.objects.get().abstract == "The password is"


@pytest.mark.conformance("pigo-1")
def test_memory_does_not_expire_unless_asked(pigo):
    pigo("remember", category="events", content="The move to Oslo was finished in May.")
    pigo("remember", category="events", content="The move to Bergen was finished in June.", ttl_days=3)
    assert [memory.expires_at is None for memory in Memory.objects.order_by("pk")] == [True, False]


OLD = "The nightly export job writes its files to the bucket in Oslo."
NEWS = "The nightly export job writes its files to the bucket in Oslo, and Ingrid looks after it."


@pytest.fixture
def model(configure):
    with servers.serving() as server:
        configure(llm="openai", llm_url=server.url, llm_model="tiny", llm_timeout_seconds=60.0, llm_tries=1)
        yield server


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ({"decision": "create"}, "CREATE"),
        ({"decision": "merge", "number": 1, "content": f"{OLD} Ingrid looks after it."}, "MERGE"),
    ],
)
def test_language_model_decides_about_a_similar_memory(embedding, pigo, model, answer, decision):
    pigo("remember", category="entities", content=OLD, abstract="The export job.")
    model.usual = servers.answer_json(answer)
    assert pigo("remember", category="entities", content=NEWS)["decision"] == decision
    assert len(model.asked) == 1


def test_merge_of_the_language_model_rewrites_all_layers(embedding, pigo, model):
    pigo(
        "remember", category="entities", content=OLD, abstract="The export job.", overview="It runs at night."
    )
    united = f"{OLD} Ingrid looks after it."
    model.usual = servers.answer_json({"decision": "merge", "number": 1, "content": united})
    pigo(
        "remember", category="entities", content=NEWS, abstract="Ingrid's job.", overview="She answers mails."
    )
    memory = Memory.objects.get()
    assert memory.content == united
    assert memory.abstract == "The export job. Ingrid's job."
    assert memory.overview == "It runs at night. She answers mails."


def test_failing_language_model_leaves_the_decision_to_the_rules(embedding, pigo, model):
    pigo("remember", category="entities", content=OLD)
    model.usual = servers.saying("no JSON")
    assert pigo("remember", category="entities", content=OLD.rstrip("."))["decision"] == "SKIP"
    assert model.asked


def test_store_does_not_wait_for_a_hanging_language_model(embedding, pigo, model, configure, monkeypatch):
    configure(llm="openai", llm_url=model.url, llm_model="tiny", llm_timeout_seconds=20.0, llm_tries=3)
    monkeypatch.setattr("memoryhub.extraction.services.MAX_STORE_SECONDS", 1.0)
    pigo("remember", category="entities", content=OLD)
    model.usual = servers.silent
    assert pigo("remember", category="entities", content=OLD.rstrip("."))["decision"] == "SKIP"
    assert len(model.asked) == 1


def test_language_model_is_not_asked_about_a_level_that_it_may_not_see(embedding, pigo, model):
    for content in (OLD, NEWS):
        pigo("remember", category="entities", content=content, sensitivity="secret")
    assert not model.asked


def test_overview_of_a_profile_contains_all_facts(embedding, pigo):
    facts = [
        "I work as a nurse in Leeds.",
        "My sister Nele lives in Oslo.",
        "I play the cello in an orchestra.",
        "My bicycle has a green frame.",
        "I learned Portuguese in Porto.",
        "My garden grows tomatoes and figs.",
        "I am allergic to walnuts.",
        "My flat is on the third floor.",
    ]
    for fact in facts:
        pigo("remember", category="profile", content=fact)
    overview = Memory.objects.get().overview
    assert [fact for fact in facts if fact not in overview] == []
