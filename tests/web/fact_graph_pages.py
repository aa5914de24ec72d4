"""Helpers for tests of the fact graph: store facts, read nodes and the panel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact
from tests.web.markup import Page, main

Say = Callable[..., Fact]
GRAPH = "/facts/graph/"


def fact_storer(actor: Actor) -> Say:
    """Stores a fact in the name of this actor."""

    def say(subject: str, predicate: str = "uses", object: str = "Django", **fields: Any) -> Fact:
        draft = FactDraft(subject=subject, predicate=predicate, object=object, **fields)
        return services.create_fact(draft, actor)[0]

    return say


def nodes(response: Any) -> dict[str, str]:
    """The nodes that are drawn, with where each leads."""
    drawn = [a for a in main(response).all("a") if "node" in a.get("class", "").split()]
    return {one["data-key"]: one["href"] for one in drawn}


def panel_of(response: Any) -> Page:
    """Return the panel next to the picture, and the memories below it."""
    return Page(response.content.decode().partition('<aside id="panel"')[2].partition("</main>")[0])
