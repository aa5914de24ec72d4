"""``/injection/effect`` and ``/checks``."""

from __future__ import annotations

import pytest

from memoryhub.models import Injection, Memory, MemoryCheck, Project
from tests.api.conftest import bad_fields, is_problem, stored
from tests.cases import each
from tests.clients import create_person

PROMPT = "what do we know about zebra stripes?"
ZEBRA = "zebra stripes are like finger prints"
DRAFT = {"prompt": PROMPT, "must_words": ["zebra"]}


@pytest.fixture
def ada(db):
    return create_person("ada", "view_private", "view_secret")


def test_effect_of_an_update_names_the_prompts_that_lose_the_memory(bot):
    memory = stored(bot, content=ZEBRA)
    row = Injection.objects.create(prompt_preview=PROMPT)
    fields = {"content": "harbour lights"}
    body = bot.post("/injection/effect", {"update": {"id": memory["id"], "fields": fields}}).json()
    assert (body["total"], body["replayed"]) == (1, 1)
    [changed] = body["changed"]
    assert (changed["injection_id"], changed["before"], changed["after"]) == (row.uid, [memory["id"]], [])
    assert body["summary"].startswith("1 prompt loses one of these memories")
    assert Memory.objects.get().content == ZEBRA


@each("kind", ["trash", "merge", "thresholds", "mode"])
def test_effect_of_each_kind_of_change(bot, kind):
    one, other = stored(bot, content=ZEBRA, project="zoo"), stored(bot, content="harbour", project="zoo")
    Injection.objects.create(prompt_preview=PROMPT, project="zoo")
    change = {
        "trash": [one["id"]],
        "merge": {"keep": other["id"], "others": [one["id"]]},
        "thresholds": {"min_score": 0.99},
        "mode": {"project": "zoo", "mode": "off"},
    }[kind]
    [changed] = bot.post("/injection/effect", {kind: change}).json()["changed"]
    assert [lost["id"] for lost in changed["lost"]] == [one["id"]]
    assert Memory.objects.live().count() == 2
    assert not Project.objects.exists()


@each("body", [{}, {"trash": ["x"], "thresholds": {"min_score": 1}}, {"erase": ["x"]}])
def test_effect_needs_exactly_one_known_change(bot, body):
    is_problem(bot.post("/injection/effect", body), 422)


def test_effect_names_the_wrong_field(bot):
    response = bot.post("/injection/effect", {"thresholds": {"min_score": 2}})
    assert bad_fields(response) == {"thresholds.min_score"}


def test_effect_of_an_unknown_memory_is_not_found(bot):
    is_problem(bot.post("/injection/effect", {"update": {"id": "x", "fields": {"title": "y"}}}), 404)


def test_effect_needs_the_right_of_the_change(agent):
    reader, writer = agent(rights=["read"]), agent(name="writer", rights=["read", "write"])
    is_problem(reader.post("/injection/effect", {"thresholds": {"min_score": 1}}), 403)
    is_problem(writer.post("/injection/effect", {"mode": {"project": "zoo", "mode": "off"}}), 403)


def test_effect_hides_prompts_and_projects_from_confined_tokens(agent, bot):
    stored(bot, content=ZEBRA, project="zoo")
    for level in ("public", "private", "secret", "cosmic"):
        Injection.objects.create(prompt_preview=f"{PROMPT} {level}", project="zoo", sensitivity=level)
    confined = agent(name="circus", projects=["circus"])
    change = {"thresholds": {"min_score": 0.99}}
    assert confined.post("/injection/effect", change).json()["total"] == 0
    is_problem(confined.post("/injection/effect", {"mode": {"project": "zoo", "mode": "off"}}), 404)
    assert bot.post("/injection/effect", change).json()["total"] == 1
    assert bot.post("/injection/effect", {**change, "allow_private": True}).json()["total"] == 2


def test_check_is_created_read_replaced_run_and_deleted(bot, ada):
    stored(bot, content=ZEBRA)
    created = bot.post("/checks", DRAFT)
    assert created.status_code == 201
    path = f"/checks/{created.json()['id']}"
    assert bot.get(path).json()["must_words"] == ["zebra"]
    assert bot.post(f"{path}/run").json() == {"passed": True, "failures": []}
    replaced = bot.put(path, {**DRAFT, "must_words": ["quagga"]}).json()
    assert (replaced["must_words"], replaced["passed"]) == (["quagga"], None)
    assert bot.post(f"{path}/run").json()["passed"] is False
    assert len(bot.get("/checks").json()["items"]) == 1
    assert bot.delete(path).json() == {"deleted": True}
    is_problem(bot.get(path), 404)


def test_check_without_expectation_is_refused(bot, ada):
    is_problem(bot.post("/checks", {"prompt": PROMPT}), 422)


def test_check_with_an_unknown_id_names_the_field(bot, ada):
    assert bad_fields(bot.post("/checks", {**DRAFT, "must_bring": ["nothere"]})) == {"must_bring"}
    assert bad_fields(bot.post("/checks", {**DRAFT, "prompt": " "})) == {"prompt"}


def test_reader_may_not_create_a_check(agent, ada):
    is_problem(agent(rights=["read"]).post("/checks", DRAFT), 403)


def test_checks_of_hidden_levels_and_projects_are_not_found(agent, bot, ada):
    stored(bot, content=ZEBRA)
    for level in ("public", "private", "secret"):
        bot.post("/checks", {**DRAFT, "level": level, "project": "zoo"})
    MemoryCheck.objects.create(owner="ada", prompt=PROMPT, project="zoo", sensitivity="cosmic")
    assert len(bot.get("/checks").json()["items"]) == 1
    assert len(bot.get("/checks", allow_private=True, allow_secret=True).json()["items"]) == 3
    confined = agent(name="circus", projects=["circus"])
    assert confined.get("/checks", allow_secret=True).json()["items"] == []
    for uid in MemoryCheck.objects.values_list("uid", flat=True):
        is_problem(confined.post(f"/checks/{uid}/run"), 404)
        is_problem(confined.delete(f"/checks/{uid}"), 404)


def test_confined_token_does_not_get_the_stored_result(agent, bot, ada):
    stored(bot, content=ZEBRA)
    uid = bot.post("/checks", {**DRAFT, "project": "zoo"}).json()["id"]
    bot.post(f"/checks/{uid}/run")
    shown = agent(name="zoo", projects=["zoo"]).get(f"/checks/{uid}").json()
    assert (shown["passed"], shown["failures"]) == (None, None)
