"""At a glance, a project that has facts and no memory: what it says, and the gate before it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Membership
from tests.web.glancing import part, row, words
from tests.web.markup import PAYLOADS, dangers

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_cache")]
HERE = "/glance/?project=circus"
NOTHING = "There is no memory of this project"


def say(actor: Actor, predicate: str, thing: str, **more: Any) -> None:
    fields: dict[str, Any] = {"project": "circus", **more}
    services.store_fact(FactDraft(subject="board", predicate=predicate, object=thing, **fields), actor)


def test_its_facts_are_counted_by_predicate_and_lead_to_their_list(visitor: Client, actor: Actor) -> None:
    say(actor, "hires", "Ada")
    say(actor, "hires", "Bob")
    say(actor, "owns", "a tent")
    assert (row(visitor, "hires", HERE), row(visitor, "owns", HERE)) == ("hires 2", "owns 1")
    page = visitor.get(HERE).content.decode()
    assert 'href="/facts/?predicate=hires&amp;project=circus"' in page
    assert NOTHING not in page


def test_contradictions_are_told_and_lead_to_their_page(visitor: Client, actor: Actor) -> None:
    say(actor, "led_by", "Bram")
    assert "None contradicts another" in part(visitor, "Facts", HERE)
    say(actor, "led_by", "Mara")
    assert "1 contradicting" in part(visitor, "Facts", HERE)
    assert 'href="/facts/contradictions/?project=circus"' in visitor.get(HERE).content.decode()


def test_facts_of_other_projects_are_not_counted(visitor: Client, actor: Actor) -> None:
    say(actor, "owns", "a lion", project="zoo")
    assert NOTHING in words(visitor.get(HERE).content.decode())


@pytest.mark.parametrize("level", ["private", "secret"])
def test_facts_above_the_level_are_not_told_from_none(visitor: Client, actor: Actor, level: str) -> None:
    say(actor, "keeps", "quiet", sensitivity=level)
    told = [words(visitor.get(f"/glance/?project={name}").content.decode()) for name in ("circus", "none")]
    assert told[0].replace("circus", "none") == told[1]
    say(actor, "owns", "a tent")
    assert "keeps" not in words(visitor.get(HERE).content.decode())


def test_facts_out_of_reach_are_not_told_from_none(sign_in: Any, actor: Actor) -> None:
    client = sign_in(name="bob")
    Membership.objects.create(user=User.objects.get(username="bob"), project="zoo")
    say(actor, "owns", "a tent")
    told = [words(client.get(f"/glance/?project={name}").content.decode()) for name in ("circus", "none")]
    assert told[0].replace("circus", "none") == told[1]
    assert NOTHING in told[0]


@pytest.mark.parametrize("payload", PAYLOADS[:3])
def test_hostile_predicates_are_text(visitor: Client, actor: Actor, payload: str) -> None:
    say(actor, payload[:200], "a tent")
    assert not dangers(visitor.get(HERE).content.decode())
