"""Previews of a change on the pages: the edit form, duplicates, project settings and thresholds."""

from __future__ import annotations

import pytest

from memoryhub.models import Injection, JournalEntry, Memory, Project
from tests.cases import each
from tests.web.duplicates_page import cluster_form
from tests.web.edit_form import form_data
from tests.web.test_recall_test import text

PROMPT = "what do we know about zebra stripes?"
ZEBRA = "zebra stripes are like finger prints"
HTMX = {"HX-Request": "true", "HX-Target": "effect"}


@pytest.fixture
def logged(db):
    return Injection.objects.create(prompt_preview=PROMPT, project="zoo")


def post_edit(client, memory, headers=None, **fields):
    path = f"/memories/{memory.uid}/edit/"
    return client.post(path, {**form_data(client.get(path)), **fields, "effect": "1"}, headers=headers or {})


def test_edit_form_shows_the_effect_and_saves_nothing(sign_in, remember, logged):
    memory = remember(ZEBRA, project="zoo", title="Stripes")
    response = post_edit(sign_in("change_memory"), memory, content="harbour lights", title="Harbour")
    page = text(response)
    assert "1 prompt loses this memory. Replayed 1 of 1 logged prompts." in page
    assert "harbour lights" in response.content.decode()  # what was typed is still there
    assert Memory.objects.get().content == ZEBRA
    assert not JournalEntry.objects.filter(operation="update").exists()


def test_htmx_gets_only_the_panel(sign_in, remember, logged):
    memory = remember(ZEBRA, project="zoo", title="Stripes")
    response = post_edit(sign_in("change_memory"), memory, HTMX, content="harbour lights", title="Harbour")
    assert "<html" not in response.content.decode()
    assert "Loses Stripes" in text(response)
    assert PROMPT in text(response)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"importance": "7"}, "Importance:"),
        ({}, "You have not changed anything yet."),
        ({"unchanged_since": "2020-01-01T00:00:00+00:00", "content": "x"}, "Someone has changed this memory"),
    ],
)
def test_bad_edit_is_explained_in_the_panel(sign_in, remember, fields, said):
    response = post_edit(sign_in("change_memory"), remember(ZEBRA), HTMX, **fields)
    assert response.status_code == 422
    assert said in text(response)


def test_prompt_is_escaped(sign_in, remember):
    Injection.objects.create(prompt_preview=f"<script>alert(1)</script> {PROMPT}")
    response = post_edit(sign_in("change_memory"), remember(ZEBRA), HTMX, content="harbour lights")
    assert "<script>" not in response.content.decode()
    assert "&lt;script&gt;" in response.content.decode()


@each("level", ["private", "secret", "cosmic"])
def test_hidden_prompts_are_not_counted(sign_in, remember, level):
    Injection.objects.create(prompt_preview=PROMPT, sensitivity=level)
    response = post_edit(sign_in("change_memory"), remember(ZEBRA), HTMX, content="harbour lights")
    assert "No prompt is in the log yet" in text(response)


def test_secret_memory_is_named_without_its_title(sign_in, remember, logged):
    remember(ZEBRA, project="zoo", title="Hidden name", sensitivity="secret")
    client = sign_in("view_private", "view_secret", on=["secret"])
    response = client.post("/preview/thresholds/", {"min_score": 1, "max_count": 5, "token_budget": 2000})
    assert "Loses Secret memory" in text(response)
    assert "Hidden name" not in response.content.decode()


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true", "HX-Target": "effect-x"}])
def test_merge_shows_its_effect_and_merges_nothing(sign_in, remember, logged, headers):
    keep, other = remember("harbour lights", project="zoo"), remember(ZEBRA, project="zoo")
    client = sign_in("change_memory", "delete_memory")
    form = cluster_form([keep, other], do="effect")
    response = client.post("/duplicates/decide/", form, headers=headers)
    assert response.status_code == 200
    assert "1 prompt loses one of these memories" in text(response)
    assert Memory.objects.live().count() == 2


def test_merge_with_own_text_shows_its_effect(sign_in, remember, logged):
    keep, other = remember("harbour lights", project="zoo"), remember(ZEBRA, project="zoo")
    client = sign_in("change_memory", "delete_memory")
    form = cluster_form([keep, other], do="text-effect", content=f"{ZEBRA} and harbour lights")
    assert "1 prompt loses one of these memories" in text(client.post("/duplicates/decide/", form))


def test_merge_effect_needs_the_permission_to_merge(sign_in, remember):
    memories = [remember("harbour lights"), remember(ZEBRA)]
    response = sign_in().post("/duplicates/decide/", cluster_form(memories, do="effect"))
    assert response.status_code == 403


def test_mode_shows_its_effect_and_stays(sign_in, remember, logged):
    remember(ZEBRA, project="zoo")
    client = sign_in("add_maintenancerun")
    response = client.post("/project-settings/zoo/save/", {"mode": "off", "effect": "1"})
    assert "1 prompt loses a memory" in text(response)
    assert "the project is off" in text(response)
    assert not Project.objects.filter(mode="off").exists()


def test_thresholds_start_with_the_configured_values(visitor, configure):
    configure(injection_min_score=0.42)
    assert 'value="0.42"' in visitor.get("/preview/thresholds/").content.decode()


def test_thresholds_show_their_effect(visitor, remember, logged):
    remember(ZEBRA, project="zoo")
    values = {"min_score": "0.99", "max_count": "5", "token_budget": "2000"}
    page = text(visitor.post("/preview/thresholds/", values))
    assert "1 prompt loses a memory" in page
    assert "score too low" in page


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_bad_threshold_is_named(visitor, headers):
    values = {"min_score": "2", "max_count": "5", "token_budget": "2000"}
    response = visitor.post("/preview/thresholds/", values, headers=headers)
    assert response.status_code == 422
    assert "Ensure this value is less than or equal to 1" in text(response)
