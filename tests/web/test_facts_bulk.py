"""Bulk actions on facts: end and undo, or delete after a confirmation."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.facts import services as fact_store
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact, JournalEntry

SignIn = Callable[..., Client]


@pytest.fixture
def three(db: None, actor: Actor) -> list[Fact]:
    return [
        fact_store.create_fact(FactDraft(subject=f"s{n}", predicate="is", object="o"), actor)[0]
        for n in range(3)
    ]


@pytest.fixture
def hand(sign_in: SignIn) -> Client:
    return sign_in("change_fact", "delete_fact")


def holding() -> set[str]:
    return set(Fact.objects.current().values_list("subject", flat=True))


def end(client: Client, facts: list[Fact]) -> str:
    form = {"uid": [fact.uid for fact in facts], "next": "/facts/?state=all"}
    return client.post("/facts/end/", form, follow=True).content.decode()


def undo_of(page: str) -> tuple[str, dict[str, str]]:
    [form] = re.findall(r'<form method="post" action="(/facts/end/[^"]+)"(.*?)</form>', page, re.S)
    return form[0], dict(re.findall(r'name="(first|last|next)" value="([^"]*)"', form[1]))


def test_facts_are_ended_and_valid_again(hand: Client, three: list[Fact]) -> None:
    until = timezone.now() + timedelta(days=9)
    Fact.objects.filter(pk=three[1].pk).update(valid_until=until)
    page = end(hand, three[:2])
    assert "2 facts have ended" in page
    assert holding() == {"s2"}
    address, fields = undo_of(page)
    assert "Undone: 2 facts hold again." in hand.post(address, fields, follow=True).content.decode()
    assert holding() == {"s0", "s1", "s2"}
    assert list(Fact.objects.order_by("pk").values_list("valid_until", flat=True)) == [None, until, None]
    assert journal.verify().ok
    assert JournalEntry.objects.filter(operation__in=("end", "undo_end"), actor="user:ada").count() == 4


def test_facts_ended_by_another_action_stay_ended(hand: Client, three: list[Fact]) -> None:
    address, fields = undo_of(end(hand, three[:1]))
    moment = timezone.now() - timedelta(days=1)
    Fact.objects.filter(pk=three[0].pk).update(valid_until=moment)
    assert "Nothing was undone" in hand.post(address, fields, follow=True).content.decode()
    assert Fact.objects.get(pk=three[0].pk).valid_until == moment


def test_no_one_undoes_what_another_user_ended(hand: Client, sign_in: SignIn, three: list[Fact]) -> None:
    address, fields = undo_of(end(hand, three))
    other = sign_in("change_fact", name="bob")
    assert other.post(address, fields).status_code == 404
    assert hand.post(address, {**fields, "first": "999"}).status_code == 404
    assert hand.post("/facts/end/other/undo/", fields).status_code == 404
    assert holding() == set()


def test_each_needs_its_permission(visitor: Client, sign_in: SignIn, three: list[Fact]) -> None:
    for address in ("/facts/end/", "/facts/end/x/undo/", "/facts/delete/"):
        assert visitor.post(address, {"uid": three[0].uid, "confirmed": "yes"}).status_code == 403
    page = visitor.get("/facts/").content.decode()
    assert "row-check" not in page
    assert 'id="bulk"' not in page
    assert "Delete…" not in sign_in("change_fact", name="bob").get("/facts/").content.decode()


def test_hidden_facts_are_neither_ended_nor_deleted(hand: Client, actor: Actor) -> None:
    hidden, _ = fact_store.create_fact(
        FactDraft(subject="hush", predicate="is", object="o", sensitivity="secret"), actor
    )
    assert "No current fact was selected" in end(hand, [hidden])
    form = {"uid": hidden.uid, "confirmed": "yes"}
    assert "0 facts are deleted" in hand.post("/facts/delete/", form, follow=True).content.decode()
    assert holding() == {"hush"}


def test_deleting_asks_first_and_names_each(hand: Client, three: list[Fact]) -> None:
    form: dict[str, Any] = {"uid": [three[0].uid, three[1].uid]}
    page = hand.post("/facts/delete/", form).content.decode()
    assert "Permanently delete 2 facts?" in page
    assert "s0 · is · o" in page
    assert Fact.objects.count() == 3
    done = hand.post("/facts/delete/", {**form, "confirmed": "yes"}, follow=True).content.decode()
    assert "2 facts are deleted permanently." in done
    assert holding() == {"s2"}
    assert JournalEntry.objects.filter(operation="delete", object_type="fact").count() == 2


def test_an_empty_selection_is_reported(
    hand: Client, three: list[Fact], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fact_store, "MAX_FACTS", 2)
    assert "at most 2 facts at once" in end(hand, three)
    assert "No current fact was selected" in end(hand, [])
    assert "No fact was selected" in hand.post("/facts/delete/", follow=True).content.decode()
    assert len(holding()) == 3
