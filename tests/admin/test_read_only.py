"""The models that no one changes in the admin: journal, sessions, events, injections."""

from __future__ import annotations

import pytest
from django.db import connection

from memoryhub import memories
from memoryhub.accounts import tokens
from memoryhub.audit import journal
from memoryhub.models import Event, Injection, JournalEntry, Memory, Session
from tests.admin.conftest import act, page
from tests.cases import each
from tests.database import without_journal_triggers

MODELS = [JournalEntry, Session, Event, Injection]


@pytest.fixture
def rows(remember):
    """One row of each read-only model."""
    memory = remember("words of a session", session_id="s", project="p")
    session = Session.objects.get()
    Event.objects.create(session=session, event="tool:post", tool_name="Read", memory=memory)
    Injection.objects.create(
        session=session, project="p", injected=[{"id": memory.uid}], withheld=[{"id": "x"}]
    )
    return {model: model.objects.get() for model in MODELS}


def everything():
    return {model: list(model.objects.values()) for model in MODELS}


@pytest.mark.parametrize("model", MODELS)
def test_a_row_can_be_viewed(boss, rows, model):
    assert boss.get(page(model)).status_code == 200
    assert boss.get(page(model, "change", rows[model].pk)).status_code == 200


@pytest.mark.parametrize("model", MODELS)
def test_no_one_adds_changes_or_deletes_a_row(boss, rows, model):
    before = everything()
    pk = rows[model].pk
    for address in (page(model, "add"), page(model, "change", pk), page(model, "delete", pk)):
        assert (
            boss.post(address, {"post": "yes", "actor": "user:other", "_saveasnew": "1"}).status_code == 403
        )
    assert boss.get(page(model, "add")).status_code == 403
    assert boss.get(page(model, "delete", pk)).status_code == 403
    assert everything() == before


@pytest.mark.parametrize("model", MODELS)
def test_no_action_is_offered_or_done(boss, rows, model):
    before = everything()
    response = act(boss, "delete_selected", rows[model], post="yes")
    assert response.status_code == 200
    assert response.context["action_form"] is None
    assert everything() == before


@pytest.mark.parametrize("model", MODELS)
def test_each_needs_its_permission(staff, rows, model):
    name = model._meta.model_name
    others = [f"view_{m._meta.model_name}" for m in MODELS if m is not model]
    assert staff(*others).get(page(model)).status_code == 403
    client = staff(f"view_{name}", username="viewer")
    assert client.get(page(model)).status_code == 200
    assert client.get(page(model, "change", rows[model].pk)).status_code == 200


def test_looking_at_the_journal_leaves_it_sound(boss, remember, actor):
    memory = remember("x")
    memories.trash_memories([memory.uid], actor)
    boss.get(page(JournalEntry))
    boss.get(page(JournalEntry, "change", 1))
    assert journal.verify() == journal.Verification(True, 2)


def test_the_journal_links_to_its_objects(boss, remember, actor):
    memory = remember("x")
    token, _ = tokens.issue_token("scribe", "ada", actor=actor)
    text = boss.get(page(JournalEntry)).content.decode()
    assert f'<a href="{page(Memory, "change", memory.pk)}">{memory.uid}</a>' in text
    assert f'<a href="{page("agenttoken", "change", token.pk)}">{token.uid}</a>' in text


def test_the_journal_names_what_is_gone_without_a_link(boss, remember, actor):
    memory = remember("x")
    memories.erase_memories([memory.uid], actor)
    text = boss.get(page(JournalEntry)).content.decode()
    assert f"<code>{memory.uid}</code>" in text


@each("found_by", ["id", "actor", "operation"])
def test_the_journal_is_searched_by_object_actor_and_operation(boss, remember, actor, found_by):
    memory = remember("x")
    remember("y")
    memories.trash_memories([memory.uid], actor)
    typed = {"id": memory.uid, "actor": "token:tests", "operation": "delete"}[found_by]
    count = {"id": 2, "actor": 3, "operation": 1}[found_by]
    assert boss.get(page(JournalEntry), {"q": typed}).context["cl"].result_count == count


def test_the_journal_is_filtered(boss, remember, actor):
    memory = remember("x", project="hub")
    remember("y", project="other")
    memories.trash_memories([memory.uid], actor)
    for query, count in (
        ({"operation": "insert"}, 2),
        ({"operation": "delete"}, 1),
        ({"project": "hub"}, 2),
        ({"actor": "token:tests"}, 3),
        ({"object_id": memory.uid}, 2),
        ({"who": "token"}, 3),
        ({"who": "user"}, 0),
        ({"object_type": "fact"}, 0),
        ({"at": "day"}, 3),
        ({"at": "older"}, 0),
    ):
        assert boss.get(page(JournalEntry), query).context["cl"].result_count == count


def test_the_history_of_a_memory_is_its_journal(boss, remember, actor):
    memory, other = remember("x"), remember("y")
    memories.trash_memories([memory.uid], actor)
    response = boss.get(page(Memory, "history", memory.pk))
    html = response.content.decode()
    assert "History of “x”" in html
    assert f"<td>{actor.name}</td>" not in html
    assert [row.operation for row in response.context["rows"]] == ["delete", "insert"]
    assert other.uid not in response.content.decode()


def test_a_broken_chain_can_still_be_viewed(boss, remember):
    remember("x")
    with without_journal_triggers(), connection.cursor() as cursor:
        cursor.execute("UPDATE memoryhub_journalentry SET detail = '[1, 2]', operation = '<b>' WHERE seq = 1")
    assert boss.get(page(JournalEntry)).status_code == 200
    assert "<b>" not in boss.get(page(JournalEntry, "change", 1)).content.decode()
    assert boss.get(page(Memory, "history", Memory.objects.get().pk)).status_code == 200
    assert boss.get("/journal/").status_code == 200
