"""Decisions on near-duplicates: merge, dismiss, undo, also from two tabs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Memory
from tests.cases import each
from tests.web.duplicates_page import (
    DUPLICATE_TEXT,
    HTMX,
    cluster_form,
    initial_text_digest,
    ticked_uids,
    trashed_uids,
    undo_fields,
)
from tests.web.markup import Page, main

Remember = Callable[..., Memory]
pytestmark = pytest.mark.usefixtures("embedding")


@pytest.fixture
def visitor_of(sign_in: Any) -> Client:
    """Another person, without permissions."""
    client: Client = sign_in(name="bob")
    return client


class TestMerging:
    def test_merge_without_htmx_redirects_with_an_undo_button(
        self, curator: Client, alike: list[Memory]
    ) -> None:
        kept, other = alike
        response = curator.post(
            "/duplicates/decide/", cluster_form(alike, next="/duplicates/?project=p"), follow=True
        )
        assert response.redirect_chain == [("/duplicates/?project=p", 302)]
        assert trashed_uids() == {other.uid}
        assert "Merged 2 memories" in main(response).words
        response = curator.post("/duplicates/undo/", undo_fields(response), follow=True)
        assert "Undone" in main(response).words
        assert trashed_uids() == set()
        assert not Memory.objects.get(uid=kept.uid).labels.exists()

    def test_merge_with_htmx_replaces_the_cluster_and_undo_returns_it(
        self, curator: Client, alike: list[Memory]
    ) -> None:
        done = curator.post("/duplicates/decide/", cluster_form(alike), headers=HTMX)
        assert b"<html" not in done.content
        assert "Merged 2 memories" in Page(done.content.decode()).words
        back = curator.post("/duplicates/undo/", undo_fields(done), headers=HTMX)
        assert "Merge selected" in Page(back.content.decode()).words
        assert trashed_uids() == set()

    def test_another_memory_is_kept_and_one_left_out(
        self, curator: Client, alike: list[Memory], remember: Remember
    ) -> None:
        third = remember(f"{DUPLICATE_TEXT}!", project="p")
        curator.post("/duplicates/decide/", cluster_form([third, alike[0]]))
        assert trashed_uids() == {alike[0].uid}
        assert Memory.objects.get(uid=alike[0].uid).merged_into == third

    def test_choosing_another_memory_compares_with_it(self, curator: Client, alike: list[Memory]) -> None:
        requested = {"keep": alike[1].uid, "member": [memory.uid for memory in alike]}
        shown = Page(curator.post("/duplicates/cluster/", requested, headers=HTMX).content.decode())
        assert "Kept: chosen by you." in shown.words
        checked = [a["value"] for a in shown.all("input") if a.get("name") == "keep" and "checked" in a]
        assert checked == [alike[1].uid]

    def test_choosing_another_memory_keeps_left_out_ones_unticked(
        self, curator: Client, alike: list[Memory], remember: Remember
    ) -> None:
        left_out = remember(f"{DUPLICATE_TEXT}!", project="p")
        form = cluster_form([*alike, left_out], keep=alike[1].uid, uid=[alike[0].uid])
        assert ticked_uids(curator.post("/duplicates/cluster/", form, headers=HTMX)) == {alike[0].uid}

    def test_tick_despite_a_warning_stays_and_a_new_warning_clears_it(
        self, curator: Client, alike: list[Memory], remember: Remember
    ) -> None:
        other = remember(f"{DUPLICATE_TEXT} at 2", project="p")
        form = cluster_form([*alike, other], keep=alike[1].uid, uid=[alike[0].uid, other.uid])
        assert ticked_uids(curator.post("/duplicates/cluster/", form)) == {alike[0].uid}
        warned = curator.post("/duplicates/cluster/", form | {"warned": [other.uid]})
        assert ticked_uids(warned) == {alike[0].uid, other.uid}

    def test_choosing_another_memory_keeps_a_changed_text_and_renews_an_unchanged_one(
        self, curator: Client, alike: list[Memory]
    ) -> None:
        page = curator.get("/duplicates/")
        form = cluster_form(alike, keep=alike[1].uid, begun=initial_text_digest(page))
        mine = curator.post("/duplicates/cluster/", form | {"content": "My own words"})
        assert ">My own words</textarea>" in mine.content.decode()
        again = form | {"content": "My own words", "begun": initial_text_digest(mine)}
        assert ">My own words</textarea>" in curator.post("/duplicates/cluster/", again).content.decode()
        theirs = curator.post("/duplicates/cluster/", form | {"content": f"{DUPLICATE_TEXT} at two"})
        assert f">{DUPLICATE_TEXT}\n{DUPLICATE_TEXT} at two</textarea>" in theirs.content.decode()

    def test_refusal_keeps_ticks_and_text(self, curator: Client, alike: list[Memory]) -> None:
        form = cluster_form(alike, uid=[], do="text", content="My own words", begun="x")
        response = curator.post("/duplicates/decide/", form, headers=HTMX)
        assert "select at least one memory to merge" in Page(response.content.decode()).words
        assert ticked_uids(response) == set()
        assert ">My own words</textarea>" in response.content.decode()

    @pytest.mark.parametrize("headers", [HTMX, {}], ids=["htmx", "plain"])
    def test_own_text_is_shown_again_if_the_other_memory_is_gone(
        self, curator: Client, alike: list[Memory], actor: Actor, headers: dict[str, str]
    ) -> None:
        memories.trash_memories([alike[1].uid], actor)
        form = cluster_form(alike, do="text", content="My own words", begun="x")
        response = curator.post("/duplicates/decide/", form, headers=headers, follow=True)
        assert ">My own words</textarea>" in response.content.decode()

    def test_refused_preview_leaves_the_card_alone(self, curator: Client, alike: list[Memory]) -> None:
        form = cluster_form(alike, uid=[], do="effect")
        response = curator.post("/duplicates/decide/", form, headers=HTMX).content.decode()
        assert "Select at least one memory to merge." in Page(response).words
        assert "<form" not in response

    @each("decision", ["", "erase", None])
    def test_unknown_decision_does_nothing(
        self, curator: Client, alike: list[Memory], decision: str | None
    ) -> None:
        form = {name: value for name, value in cluster_form(alike, do=decision).items() if value is not None}
        response = curator.post("/duplicates/decide/", form, headers=HTMX)
        assert response.status_code == 422
        assert "Nothing was changed: choose to merge" in Page(response.content.decode()).words
        assert trashed_uids() == set()

    @each("moment", ["2020-13-45T00:00:00", "2020-01-01T00:00:00", "soon", ""])
    def test_invalid_version_counts_as_changed(
        self, curator: Client, alike: list[Memory], moment: str
    ) -> None:
        form = cluster_form(alike, seen=[f"{alike[1].uid} {moment}"])
        response = curator.post("/duplicates/decide/", form, headers=HTMX)
        assert response.status_code == 422
        assert "changed since you opened it" in Page(response.content.decode()).words
        assert trashed_uids() == set()

    def test_left_out_memory_is_on_the_card_again_after_undo(
        self, curator: Client, alike: list[Memory], remember: Remember
    ) -> None:
        third = remember(f"{DUPLICATE_TEXT}!", project="p")
        form = cluster_form([*alike, third], uid=[alike[1].uid])
        done = curator.post("/duplicates/decide/", form, headers=HTMX)
        assert "Merged 2 memories" in Page(done.content.decode()).words
        back = curator.post("/duplicates/undo/", undo_fields(done), headers=HTMX)
        assert third.uid in back.content.decode()

    def test_own_text_replaces_the_content(self, curator: Client, alike: list[Memory]) -> None:
        curator.post("/duplicates/decide/", cluster_form(alike, do="text", content="My own\r\nwords"))
        assert Memory.objects.get(uid=alike[0].uid).content == "My own\nwords"

    @each("content", ["", "  ", "x" * 100_001, "a\x00b"])
    def test_invalid_text_is_refused(self, curator: Client, alike: list[Memory], content: str) -> None:
        form = cluster_form(alike, do="text", content=content)
        assert curator.post("/duplicates/decide/", form, headers=HTMX).status_code == 422
        assert "Nothing was changed" in main(curator.post("/duplicates/decide/", form, follow=True)).words
        assert trashed_uids() == set()

    def test_memory_that_changed_since_is_not_merged(
        self, curator: Client, alike: list[Memory], actor: Actor
    ) -> None:
        form = cluster_form(alike)
        memories.update_memory(alike[1].uid, MemoryPatch(content="something else altogether"), actor)
        response = curator.post("/duplicates/decide/", form, headers=HTMX)
        assert response.status_code == 422
        assert "changed since you opened it" in Page(response.content.decode()).words
        assert trashed_uids() == set()

    def test_refused_undo_names_the_changed_memory(
        self, curator: Client, alike: list[Memory], actor: Actor
    ) -> None:
        done = curator.post("/duplicates/decide/", cluster_form(alike), headers=HTMX)
        memories.update_memory(alike[0].uid, MemoryPatch(title="edited"), actor)
        response = curator.post("/duplicates/undo/", undo_fields(done), follow=True)
        assert "“edited” was changed: title" in main(response).words

    def test_page_of_the_kept_memory_undoes_the_last_merge(
        self, curator: Client, visitor_of: Any, alike: list[Memory]
    ) -> None:
        curator.post("/duplicates/decide/", cluster_form(alike), follow=True)  # show its message
        here = f"/memories/{alike[0].uid}/"
        assert "Undo the last merge" not in main(visitor_of.get(here)).words
        page = curator.get(here)
        assert "Undo the last merge" in main(page).words
        response = curator.post("/duplicates/undo/", undo_fields(page), follow=True)
        assert response.redirect_chain == [(here, 302)]
        assert "Undo the last merge" not in main(response).words
        assert trashed_uids() == set()

    @each("rights", [(), ("change_memory",), ("delete_memory",)])
    def test_merge_requires_permission_to_change_and_delete(
        self, sign_in: Any, alike: list[Memory], rights: tuple[str, ...]
    ) -> None:
        client = sign_in(*rights)
        assert client.post("/duplicates/decide/", cluster_form(alike)).status_code == 403
        assert client.post("/duplicates/undo/", {"merge": "x"}).status_code == 403
        assert trashed_uids() == set()

    def test_unknown_merge_cannot_be_undone(self, curator: Client) -> None:
        for name in ("merge", "apart"):
            assert curator.post("/duplicates/undo/", {name: "nothing"}).status_code == 404

    @each("elsewhere", ["https://elsewhere.example/", "//elsewhere.example", "/admin/"])
    def test_redirect_stays_on_this_host(self, curator: Client, alike: list[Memory], elsewhere: str) -> None:
        response = curator.post("/duplicates/decide/", cluster_form(alike, next=elsewhere))
        assert response["Location"] == "/duplicates/"


class TestDismissal:
    def test_dismissed_pair_returns_only_after_undo(self, curator: Client, alike: list[Memory]) -> None:
        done = curator.post("/duplicates/decide/", cluster_form(alike, do="apart"), headers=HTMX)
        assert "Marked 2 memories as not duplicates" in Page(done.content.decode()).words
        assert "No duplicates" in main(curator.get("/duplicates/")).words
        assert trashed_uids() == set()
        curator.post("/duplicates/undo/", undo_fields(done))
        assert "1 cluster" in main(curator.get("/duplicates/")).words

    def test_dismissal_applies_to_the_whole_card(self, curator: Client, alike: list[Memory]) -> None:
        form = cluster_form(alike, uid=[], do="apart")
        done = curator.post("/duplicates/decide/", form, headers=HTMX)
        assert "Marked 2 memories as not duplicates" in Page(done.content.decode()).words

    def test_dismissal_requires_permission_to_change(self, sign_in: Any, alike: list[Memory]) -> None:
        assert sign_in().post("/duplicates/decide/", cluster_form(alike, do="apart")).status_code == 403
        changer = sign_in("change_memory", name="bob")
        assert changer.post("/duplicates/decide/", cluster_form(alike, do="apart")).status_code == 302


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
