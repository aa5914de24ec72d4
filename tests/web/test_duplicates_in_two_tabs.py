"""Two tabs at the same near-duplicates: what one does shows in the other, in counts and in words."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from memoryhub.models import Memory
from tests.web.duplicates_page import HTMX, cluster_form, undo_fields

pytestmark = pytest.mark.usefixtures("embedding", "fresh_cache")


def counted(client: Client) -> str:
    """The count of the tab."""
    markup = client.get("/review/counts/?tab=alike").content.decode()
    return markup.partition("Near-duplicates")[2].partition("</a>")[0]


def test_what_was_taken_back_counts_again_though_others_compared_meanwhile(
    curator: Client, alike: list[Memory]
) -> None:
    done = curator.post("/duplicates/decide/", cluster_form(alike), headers=HTMX)
    assert ">0<" in counted(curator)

    curator.post("/duplicates/undo/", undo_fields(done), headers=HTMX)

    assert ">1<" in counted(curator)


def test_a_decision_that_was_taken_back_counts_again_too(curator: Client, alike: list[Memory]) -> None:
    form = cluster_form(alike, do="apart")
    done = curator.post("/duplicates/decide/", form, headers=HTMX)
    assert ">0<" in counted(curator)

    curator.post("/duplicates/undo/", undo_fields(done), headers=HTMX)

    assert ">1<" in counted(curator)


def test_who_comes_second_is_told_by_title_what_became_of_it(curator: Client, alike: list[Memory]) -> None:
    form: dict[str, Any] = cluster_form(alike)
    curator.post("/duplicates/decide/", form, headers=HTMX)

    late = curator.post("/duplicates/decide/", form, headers=HTMX).content.decode()

    assert f"“{alike[1].title}”" in late
    assert f"expired: {alike[1].uid}" not in late


def test_a_title_that_holds_markup_is_told_as_text(curator: Client, alike: list[Memory]) -> None:
    Memory.objects.filter(pk=alike[1].pk).update(title="<b>bold</b>")
    form: dict[str, Any] = cluster_form(alike)
    curator.post("/duplicates/decide/", form, headers=HTMX)

    late = curator.post("/duplicates/decide/", form, headers=HTMX).content.decode()

    assert "&lt;b&gt;bold" in late
    assert "<b>bold" not in late
