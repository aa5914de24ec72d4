"""Every page of the admin answers, obeys the content security policy, and costs a fixed number of queries.

Also the accessible names of the parts of lists.
"""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.accounts import tokens
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryPatch
from memoryhub.models import (
    AgentToken,
    Event,
    Fact,
    Injection,
    JournalEntry,
    MaintenanceRun,
    Memory,
    Session,
)
from tests.admin.conftest import CURATOR, act, page
from tests.cases import each
from tests.clients import turn_on_levels
from tests.csp import parse_policy

MODELS = [Memory, Fact, Session, Event, Injection, JournalEntry, AgentToken]
WITH_HISTORY = [Memory, Fact, AgentToken]
# What a policy of default-src 'self' forbids in a page.
INLINE = re.compile(r"<style|<script(?![^>]*\bsrc=)[^>]*>|\sstyle=|\son\w+\s*=|javascript:", re.IGNORECASE)


def fill(remember, actor, start: int, count: int) -> None:
    """``count`` more rows of every model, each with all that hangs on it."""
    for n in range(start, start + count):
        memory = remember(
            f"memory number {n}",
            session_id=f"s{n}",
            project=f"p{n}",
            category=f"c{n}",
            tags=["a", "b"],
            files_read=[f"{n}.py"],
            entities=[{"entity": f"e{n}"}],
        )
        target = remember(f"target of {n}")
        Memory.objects.filter(pk=memory.pk).update(merged_into=target, flags=["odd"])
        services.create_fact(
            FactDraft(subject=f"f{n}", predicate="is", object="x", memory_id=memory.uid), actor
        )
        session = Session.objects.get(session_id=f"s{n}")
        Session.objects.filter(pk=session.pk).update(summary=memory)
        Event.objects.create(session=session, event="tool:post", memory=memory)
        Injection.objects.create(session=session, injected=[{"id": memory.uid}])
        tokens.issue_token(f"agent {n}", "ada", actor=actor)
        MaintenanceRun.objects.create(operation="evict", result={"ids": [1, 2]})


@pytest.fixture
def filled(remember, actor):
    fill(remember, actor, 0, 2)


def pages():
    yield "/admin/"
    yield "/admin/memoryhub/"
    for model in MODELS:
        yield page(model)
    for model in MODELS:
        yield page(model, "change", model.objects.latest("pk").pk)
    for model in WITH_HISTORY:
        yield page(model, "history", model.objects.latest("pk").pk)
    yield from (page(model, "add") for model in (Fact, AgentToken))
    yield page(Fact, "delete", Fact.objects.latest("pk").pk)
    yield from (page(Memory) + "?q=number", page(Memory) + "?level=unknown", page(Memory) + "?_popup=1")


@pytest.mark.slow
def test_every_page_answers_without_inline_scripts_or_styles(boss, filled):
    turn_on_levels(boss, "private", "secret")
    for address in pages():
        response = boss.get(address)
        assert response.status_code == 200, address
        assert INLINE.findall(response.content.decode()) == [], address
        allowed = parse_policy(response)
        assert allowed["default-src"] == ["'none'"]
        assert allowed["script-src"] == allowed["style-src"] == ["'self'"]
        assert "no-store" in response["Cache-Control"], address


@each("action", ["set_sensitivity", "set_importance", "set_category", "erase"])
def test_every_intermediate_page_has_no_inline_scripts_or_styles(boss, filled, action):
    response = act(boss, action, *Memory.objects.all())
    assert response.status_code == 200
    assert INLINE.findall(response.content.decode()) == []


def test_the_pages_answer_a_viewer(staff, filled):
    client = staff(*(f"view_{model._meta.model_name}" for model in MODELS))
    for model in MODELS:
        assert client.get(page(model)).status_code == 200
    for model in MODELS:
        response = client.get(page(model, "change", model.objects.latest("pk").pk))
        assert response.status_code == 200
        assert b'name="_save"' not in response.content


def queries_of(client, address: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address).status_code == 200
    return len(queries)


@pytest.mark.parametrize("model", MODELS)
def test_a_list_costs_the_same_for_any_number_of_rows(boss, remember, actor, model):
    fill(remember, actor, 0, 2)
    queries_of(boss, page(model))
    few = queries_of(boss, page(model))
    fill(remember, actor, 2, 12)
    assert queries_of(boss, page(model)) == few


def test_a_search_costs_the_same_for_any_number_of_rows(boss, remember, actor):
    address = page(Memory) + "?q=number&state=all"
    fill(remember, actor, 0, 2)
    queries_of(boss, address)
    few = queries_of(boss, address)
    fill(remember, actor, 2, 12)
    assert queries_of(boss, address) == few


@pytest.mark.slow
def test_query_count_of_a_memory_page_does_not_grow_with_its_rows(boss, remember, actor):
    memory = remember("one", tags=["a"], files_read=["a"], entities=[{"entity": "a"}])
    address = page(Memory, "change", memory.pk)
    queries_of(boss, address)
    few = queries_of(boss, address)
    many = [f"x{n}" for n in range(50)]
    patch = MemoryPatch(
        tags=many, concepts=many, files_read=many, entities=[{"entity": name} for name in many]
    )
    memories.update_memory(memory.uid, patch, actor)
    for name in many:
        services.create_fact(FactDraft(subject=name, predicate="is", object="x", memory_id=memory.uid), actor)
    assert queries_of(boss, address) == few


def test_the_list_of_memories_reads_no_long_text(curator, remember):
    remember("words")
    with CaptureQueriesContext(connection) as queries:
        curator.get(page(Memory))
    [listed] = [q["sql"] for q in queries if "ORDER BY" in q["sql"] and "updated_at" in q["sql"]]
    for column in ("content", "overview", "abstract", "subtitle"):
        assert f'"memoryhub_memory"."{column}"' not in listed


def test_a_list_is_counted_without_its_order_or_its_texts(curator, remember):
    remember("words")
    with CaptureQueriesContext(connection) as queries:
        curator.get(page(Memory))
    [counted] = [q["sql"] for q in queries if "COUNT(*)" in q["sql"] and "GROUP BY" not in q["sql"]]
    assert "ORDER BY" not in counted
    assert "title" not in counted


def test_the_index_lists_permitted_models_only(staff, filled):
    text = staff(*CURATOR).get("/admin/").content.decode()
    assert page(Memory) in text
    assert page(AgentToken) not in text


pytestmark = pytest.mark.django_db


def test_a_list_has_a_name(admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:auth_user_changelist"))
    assert '<table id="result_list" aria-label="Users">' in page.content.decode()


def test_the_box_to_search_in_is_named_in_words(admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:auth_user_changelist"))
    label = '<label for="searchbar"><img src="/static/admin/img/search.svg" alt="">'
    assert f'{label}<span class="visually-hidden">Search</span></label>' in page.content.decode()


def test_actors_are_named_as_on_the_pages_of_the_hub(boss, remember):
    agent = Actor("token:claude-code", Clearance())
    memory = remember("who wrote this", session_id="s", by=agent)
    tokens.issue_token("claude-code", "mara", actor=agent)
    fact = Fact.objects.create(subject="a", predicate="b", object="c", author="user:mara")
    name = '<span title="token:claude-code">Claude Code (mara)</span>'
    for address in (page(JournalEntry), page(Session), page(Memory, "change", memory.pk)):
        assert name in boss.get(address).content.decode(), address
    assert '<span title="user:mara">mara</span>' in boss.get(page(Fact, "change", fact.pk)).content.decode()
