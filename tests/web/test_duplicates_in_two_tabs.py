"""Decisions in one tab show in another one."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from memoryhub.models import Memory
from tests.web.duplicates_page import HTMX, cluster_form, undo_fields

pytestmark = pytest.mark.usefixtures("embedding", "fresh_cache")


def counted(client: Client) -> str:
    """Return the count of the tab."""
    markup = client.get("/review/counts/?tab=alike").content.decode()
    return markup.partition("Near-duplicates")[2].partition("</a>")[0]


def test_undone_merge_counts_again_after_a_comparison_in_between(
    curator: Client, alike: list[Memory]
) -> None:
    done = curator.post("/duplicates/decide/", cluster_form(alike), headers=HTMX)
    assert ">0<" in counted(curator)

    curator.post("/duplicates/undo/", undo_fields(done), headers=HTMX)

    assert ">1<" in counted(curator)


def test_undone_dismissal_counts_again_after_a_comparison_in_between(
    curator: Client, alike: list[Memory]
) -> None:
    form = cluster_form(alike, do="apart")
    done = curator.post("/duplicates/decide/", form, headers=HTMX)
    assert ">0<" in counted(curator)

    curator.post("/duplicates/undo/", undo_fields(done), headers=HTMX)

    assert ">1<" in counted(curator)


def test_late_decision_names_the_merged_memory_by_title(curator: Client, alike: list[Memory]) -> None:
    form: dict[str, Any] = cluster_form(alike)
    curator.post("/duplicates/decide/", form, headers=HTMX)

    late = curator.post("/duplicates/decide/", form, headers=HTMX).content.decode()

    assert f"“{alike[1].title}”" in late
    assert f"expired: {alike[1].uid}" not in late


def test_title_with_markup_is_escaped_in_the_refusal(curator: Client, alike: list[Memory]) -> None:
    Memory.objects.filter(pk=alike[1].pk).update(title="<b>bold</b>")
    form: dict[str, Any] = cluster_form(alike)
    curator.post("/duplicates/decide/", form, headers=HTMX)

    late = curator.post("/duplicates/decide/", form, headers=HTMX).content.decode()

    assert "&lt;b&gt;bold" in late
    assert "<b>bold" not in late
