"""Lists with page numbers: any number leads to a page, the same in all lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub.access.policy import Actor
from memoryhub.core.pagination import page_number
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Memory
from memoryhub.web import review, runs
from memoryhub.web.duplicates import views as duplicates
from memoryhub.web.facts import views
from tests.web.maintenance_pages import completed_run, set_age

LAST = 3
SHOWN = {
    "": 1,
    "1": 1,
    "2": 2,
    "002": 2,
    "3": LAST,
    "0": 1,
    "-1": 1,
    "abc": 1,
    "1.5": 1,
    "²": 1,
    "99999": LAST,
    "9" * 5000: LAST,
    "0" * 5000: 1,
}


@pytest.mark.parametrize("typed", SHOWN, ids=range(len(SHOWN)))
def test_a_number_names_the_nearest_page(typed: str) -> None:
    assert page_number(typed, LAST) == SHOWN[typed]


@pytest.fixture
def lists(
    remember: Callable[..., Memory], actor: Actor, configure: Any, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Three pages of each list with page numbers, by name: the address without the number."""
    configure(search_limit=1, embeddings="wordllama")
    for place, name in (
        (runs, "CHANGES_PER_PAGE"),
        (review, "PAGE_SIZE"),
        (duplicates, "PAGE_SIZE"),
        (views, "CONTRADICTIONS_PAGE_SIZE"),
    ):
        monkeypatch.setattr(place, name, 1)
    made = [remember(f"the {word} of zebras", title=f"The {word}") for word in ("apple", "bridge", "castle")]
    for word in ("desert", "engine", "forest"):
        for end in ("", "!"):
            remember(f"the {word} of {word}s{end}", category=word, project="alike")
        for name in ("Mara", "Bram"):
            services.create_fact(FactDraft(subject=word, predicate="led_by", object=name), actor)
    set_age(made, 60)
    return {
        "search": "/memories/?q=zebras&",
        "review": "/review/?tab=new&",
        "duplicates": "/duplicates/?project=alike&",
        "contradictions": "/facts/contradictions/?",
        "run": "",
    }


@pytest.mark.parametrize("name", ["search", "review", "duplicates", "contradictions", "run"])
def test_every_list_shows_the_nearest_page(sign_in: Any, lists: dict[str, str], name: str) -> None:
    client: Client = sign_in("add_maintenancerun", "change_fact", "change_memory", "delete_memory")
    address = lists[name] or f"{completed_run(client)[1]}?"
    last = client.get(address).context["last"]
    assert last >= LAST
    shown = {typed: client.get(f"{address}page={typed}").context["number"] for typed in SHOWN}
    wanted = {typed: last if number == LAST and typed != "3" else number for typed, number in SHOWN.items()}
    assert shown == wanted
