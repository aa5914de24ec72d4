"""The page of a person, service or file that facts and memories name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.schemas import EntityDraft, FactDraft
from memoryhub.models import Fact, Memory
from tests.cases import each
from tests.web.markup import PAYLOAD, find_dangers, main

Remember = Callable[..., Memory]
LEVELS = ("public", "private", "secret", "classified")


@pytest.fixture
def state(actor: Actor) -> Callable[..., Fact]:
    def store(subject: str, predicate: str, object: str, level: str = "public", **fields: Any) -> Fact:
        times = {name: fields.pop(name) for name in ("valid_from", "valid_until") if name in fields}
        draft = FactDraft(subject=subject, predicate=predicate, object=object, **fields)
        fact, _ = services.create_fact(draft, actor)
        Fact.objects.filter(pk=fact.pk).update(sensitivity=level, **times)
        return fact

    return store


def thing(client: Client, name: str, **query: str) -> Any:
    return client.get("/things/", {"name": name, **query})


def test_facts_and_memories_are_in_the_order_of_time(
    visitor: Client, remember: Remember, state: Callable[..., Fact]
) -> None:
    names = [EntityDraft(entity="billing", entity_type="service")]
    remember("billing moved to Lisbon", entities=names, created_at=datetime(2026, 2, 1, tzinfo=UTC))
    state("billing", "written in", "Go", valid_from=datetime(2026, 1, 1, tzinfo=UTC))
    state("orders", "calls", "Billing", valid_from=datetime(2026, 3, 1, tzinfo=UTC))
    words = main(thing(visitor, "billing")).words
    found = [words.index(text) for text in ("orders calls Billing", "moved to Lisbon", "written in Go")]
    assert found == sorted(found)
    assert "service" in words
    assert "2 facts" in words
    assert "1 memory" in words


def test_memories_of_a_file_are_shown(visitor: Client, remember: Remember) -> None:
    remember("the lock is taken twice", files_modified=["src/lock.py"])
    remember("the zebra sleeps", files_modified=["src/other.py"])
    words = main(thing(visitor, "src/lock.py")).words
    assert "the lock is taken twice" in words
    assert "the zebra sleeps" not in words


def test_contradictions_are_marked_and_link_to_the_decision(
    visitor: Client, state: Callable[..., Fact]
) -> None:
    for object in ("Lisbon", "Porto"):
        state("Mara", "lives in", object)
    page = main(thing(visitor, "Mara"))
    assert "1 contradiction to decide" in page.words
    assert page.words.count("contradicts another fact") == 2
    assert "/facts/contradictions/?subject=Mara" in page.links()


def test_aliases_are_other_spellings_and_facts_about_names(
    visitor: Client, state: Callable[..., Fact]
) -> None:
    state("Mara", "works on", "billing")
    state("Mara", "works on", "orders")
    state("MARA", "lives in", "Lisbon")
    state("Mara", "also known as", "mk")
    assert "also MARA, mk" in main(thing(visitor, "mara")).words


def test_neighbours_link_to_their_pages(visitor: Client, state: Callable[..., Fact]) -> None:
    state("Mara", "works on", "billing")
    state("orders", "owned by", "Mara")
    state("zebra", "lives in", "zoo")
    links = main(thing(visitor, "Mara")).links()
    assert {"/things/?name=billing", "/things/?name=orders", "/facts/graph/?node=Mara"} <= set(links)
    assert "/things/?name=zebra" not in links


def test_ended_facts_show_until_when_they_were_true(visitor: Client, state: Callable[..., Fact]) -> None:
    state("Mara", "lives in", "Porto", valid_until=datetime(2026, 1, 5, tzinfo=UTC))
    assert "until 2026-01-05" in " ".join(main(thing(visitor, "Mara")).words.split())


@each("on", [(), ("private",), ("private", "secret")])
def test_each_level_needs_its_switch(
    sign_in: Any, remember: Remember, state: Callable[..., Fact], on: tuple[str, ...]
) -> None:
    names = [EntityDraft(entity="vault", entity_type="service")]
    for level in LEVELS:
        state("vault", "mentions", f"the {level} fact", level)
        memory = remember(f"the {level} memory", title=f"the {level} memory", entities=names)
        Memory.objects.filter(pk=memory.pk).update(sensitivity=level)
    client = sign_in("view_private", "view_secret", on=on)
    page = main(thing(client, "vault"))
    shown = {"public", *on}
    for level in LEVELS:
        assert (f"the {level} fact" in page.words) == (level in shown)
        assert (f"/things/?name=the+{level}+fact" in page.links()) == (level in shown)
    assert f"{len(shown)} fact" in page.words
    assert f"{len(shown)} memor" in page.words
    assert "the classified memory" not in page.words


def test_facts_of_hidden_memories_and_other_projects_are_not_shown(
    person: Any, remember: Remember, state: Callable[..., Fact]
) -> None:
    ada = person("ada")
    ada.memberships.create(project="farm", clearance="public")
    client = Client()
    client.force_login(ada)
    state("Mara", "keeps", "horses", project="farm")
    state("Mara", "keeps", "money", project="bank")
    words = main(thing(client, "Mara")).words
    assert "horses" in words
    assert "money" not in words


@each("name", ["nothing", "vault", "~0123456789abcdef", "a" * 5000, "\x00", "' OR 1=1"])
def test_names_without_visible_rows_are_not_found(
    visitor: Client, remember: Remember, state: Callable[..., Fact], name: str
) -> None:
    state("vault", "contains", "gold", "secret")
    remember(entities=[EntityDraft(entity="vault", entity_type="service")], sensitivity="private")
    assert thing(visitor, name).status_code == 404


def test_project_narrows_the_page(visitor: Client, state: Callable[..., Fact]) -> None:
    state("Mara", "keeps", "horses", project="farm")
    state("Mara", "keeps", "money", project="bank")
    assert "money" not in main(thing(visitor, "Mara", project="farm")).words


def test_without_a_name_the_facts_are_shown(visitor: Client) -> None:
    assert visitor.get("/things/")["Location"] == "/facts/"


def test_markup_is_escaped(visitor: Client, state: Callable[..., Fact]) -> None:
    state(PAYLOAD, PAYLOAD, PAYLOAD)
    response = thing(visitor, PAYLOAD)
    assert response.status_code == 200
    assert find_dangers(response.content.decode()) == []


def test_page_takes_few_statements(insider: Client, remember: Remember, state: Callable[..., Fact]) -> None:
    memory = remember(entities=[EntityDraft(entity="Mara", entity_type="person")])
    for number in range(9):
        state("Mara", "lives in", f"town {number}", memory_id=memory.uid)
    thing(insider, "Mara")
    with CaptureQueriesContext(connection) as captured:
        assert thing(insider, "Mara").status_code == 200
    assert len(captured) <= 12, [query["sql"][:120] for query in captured]
