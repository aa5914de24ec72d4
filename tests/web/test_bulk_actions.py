"""Bulk actions in the browser: results, undo, permissions, selections."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.template.loader import render_to_string
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub import memories as store
from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.bulk_actions import ACTION_KINDS
from memoryhub.memories.rows import list_values
from memoryhub.models import Memory
from memoryhub.search.hybrid import SearchResults
from memoryhub.web.memories import bulk_actions, filters
from memoryhub.web.memories.bulk_actions import PERMISSIONS
from tests.cases import each
from tests.web.markup import Page

Remember = Callable[..., Memory]
SignIn = Callable[..., Client]


@pytest.fixture
def editor(sign_in: SignIn) -> Client:
    """A person with permission to change and trash memories, and sees public ones."""
    return sign_in("change_memory", "delete_memory")


@pytest.fixture
def three(remember: Remember) -> list[Memory]:
    return [remember(f"memory {n}", importance=0.8, project="p") for n in range(3)]


def do(client: Client, act: str, memories: list[Memory], **values: Any) -> str:
    """Return the page after the redirect."""
    fields = {"act": act, "uid": [memory.uid for memory in memories], "next": "/memories/", **values}
    response = client.post("/acts/", fields, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def undo_of(page: str) -> tuple[str, dict[str, str]]:
    """Return the URL and the fields of the undo button."""
    [form] = re.findall(r'<form method="post" action="(/acts/[^"]+)"(.*?)</form>', page, re.S)
    return form[0], dict(re.findall(r'name="(first|last|next)" value="([^"]*)"', form[1]))


def test_every_action_requires_a_permission() -> None:
    assert PERMISSIONS.keys() == ACTION_KINDS.keys()


def test_many_memories_change_and_the_message_can_undo_it(editor: Client, three: list[Memory]) -> None:
    page = do(editor, "demote", three)
    assert "3 memories demoted" in page
    assert set(Memory.objects.values_list("importance", flat=True)) == {0.4}
    address, fields = undo_of(page)
    back = editor.post(address, fields, follow=True).content.decode()
    assert "Undone for 3 memories." in back
    assert set(Memory.objects.values_list("importance", flat=True)) == {0.8}


def test_undo_says_how_many_have_expired_or_were_erased(
    editor: Client, three: list[Memory], actor: Actor
) -> None:
    address, fields = undo_of(do(editor, "trash", three))
    Memory.objects.filter(pk=three[0].pk).update(expires_at=three[0].created_at)
    store.erase_memories([three[1].uid], actor)
    back = editor.post(address, fields, follow=True).content.decode()
    assert "Undone for 2 memories." in back
    assert 'Of these, 1 has expired: <a href="/trash/?tab=expired">see the trash</a>.' in back
    assert f"<bdi>{three[1].uid}</bdi>: there is no such memory" in back
    assert [memory.uid for memory in Memory.objects.live()] == [three[2].uid]


def test_action_on_one_memory_names_it(editor: Client, remember: Remember) -> None:
    memory = remember("x", title="<b>Bold</b> & co")
    assert "1 memory moved to the trash: <strong" in (page := do(editor, "trash", [memory]))
    assert "&lt;b&gt;Bold&lt;/b&gt; &amp; co" in page


def test_tag_is_added_and_an_existing_one_reported(editor: Client, three: list[Memory]) -> None:
    do(editor, "tag", three[:1], tag="kept")
    page = do(editor, "tag", three, tag="kept")
    assert "2 memories tagged" in page
    assert "1 memory already tagged." in page
    assert list_values(three[0], "tags") == ["kept"]


def test_one_field_is_set_whatever_other_fields_contain(editor: Client, three: list[Memory]) -> None:
    do(editor, "set-category", three, category="patterns", importance="0.1", tag="no", project="q")
    assert set(Memory.objects.values_list("category", "importance", "project")) == {("patterns", 0.8, "p")}


@each(
    "act, values, words",
    [
        ("set-importance", {"importance": "7"}, "importance: "),
        ("set-importance", {}, "importance: "),
        ("set-sensitivity", {"sensitivity": "secret"}, "you cannot see secret memories"),
        ("set-sensitivity", {"sensitivity": "cosmic"}, "sensitivity: "),
        ("set", {}, "set needs a value"),
        ("set-uid", {"uid": "x"}, "set needs a value"),
        ("tag", {}, "tags: "),
        ("explode", {}, "unknown action"),
        ("", {}, "unknown action"),
    ],
)
def test_invalid_action_is_reported_and_changes_nothing(
    editor: Client, three: list[Memory], act: str, values: dict[str, str], words: str
) -> None:
    page = do(editor, act, three, **values)
    assert f"Nothing was changed: {words}" in page or words in page
    assert "Undo</button>" not in page
    assert set(Memory.objects.values_list("importance", "sensitivity")) == {(0.8, "public")}


def test_empty_selection_is_reported(editor: Client, db: None) -> None:
    assert "nothing is selected" in do(editor, "trash", [])


def test_refusals_are_named_and_counted(editor: Client, three: list[Memory], remember: Remember) -> None:
    more = [remember(f"more {n}") for n in range(6)]
    do(editor, "trash", more)
    page = do(editor, "demote", [*three, *more])
    assert "3 memories demoted" in page
    assert "6 memories left unchanged:" in page
    assert "<li><bdi>more 0</bdi>: this memory is in the trash; restore it first</li>" in page
    assert "<li>and 1 more</li>" in page


@each("kind", sorted(ACTION_KINDS))
def test_action_requires_the_permission_of_the_single_page(
    visitor: Client, three: list[Memory], kind: str
) -> None:
    fields = {"act": kind, "uid": three[0].uid, "tag": "x", "category": "y"}
    assert visitor.post("/acts/", fields).status_code == 403


def test_change_permission_does_not_allow_the_trash(sign_in: SignIn, three: list[Memory]) -> None:
    changer = sign_in("change_memory")
    assert changer.post("/acts/", {"act": "trash", "uid": three[0].uid}).status_code == 403
    assert changer.post("/acts/", {"act": "approve", "uid": three[0].uid}).status_code == 302


def test_hidden_single_memory_is_not_found(editor: Client, four_levels: dict[str, Memory]) -> None:
    for level in ("private", "secret", "cosmic"):
        fields = {"act": "trash", "uid": four_levels[level].uid}
        assert editor.post("/acts/", fields).status_code == 404
    assert not Memory.objects.filter(deleted_at__isnull=False).exists()


def test_hidden_memories_among_many_are_skipped_and_not_named(
    editor: Client, four_levels: dict[str, Memory]
) -> None:
    page = do(editor, "trash", list(four_levels.values()))
    assert "1 memory moved to the trash" in page
    assert "privatewords" not in page
    assert Memory.objects.filter(deleted_at__isnull=False).count() == 1


def test_undo_of_another_persons_action_is_refused(
    editor: Client, sign_in: SignIn, three: list[Memory]
) -> None:
    address, fields = undo_of(do(editor, "trash", three))
    other = sign_in("change_memory", "delete_memory", name="bob")
    assert other.post(address, fields).status_code == 404
    assert Memory.objects.filter(deleted_at__isnull=False).count() == 3


def test_undo_without_the_permission_is_refused(
    editor: Client, three: list[Memory], django_user_model: Any
) -> None:
    address, fields = undo_of(do(editor, "trash", three))
    django_user_model.objects.get(username="ada").user_permissions.clear()
    assert editor.post(address, fields).status_code == 403


@each("first", ["", "0", "-1", "x", "9" * 40, "٣", "1e3"])
def test_invalid_journal_numbers_are_not_found(editor: Client, three: list[Memory], first: str) -> None:
    address, fields = undo_of(do(editor, "trash", three))
    assert editor.post(address, {**fields, "first": first}).status_code == 404


@each(
    "elsewhere",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "x", ""],
)
def test_redirect_stays_on_this_host(editor: Client, three: list[Memory], elsewhere: str) -> None:
    response = editor.post("/acts/", {"act": "trash", "uid": three[0].uid, "next": elsewhere})
    assert response.headers["Location"] == "/memories/"


def test_redirect_returns_to_the_list_with_its_filters(editor: Client, three: list[Memory]) -> None:
    here = "/memories/?project=p&order=-importance"
    response = editor.post("/acts/", {"act": "trash", "uid": three[0].uid, "next": here})
    assert response.headers["Location"] == here


def test_get_does_nothing(editor: Client, three: list[Memory]) -> None:
    assert editor.get("/acts/", {"act": "trash", "uid": three[0].uid}).status_code == 405
    assert editor.get("/acts/x/undo/").status_code == 405


def matching(address: str, clearance: Clearance | None = None) -> list[str]:
    return bulk_actions.select_all_matching(address, clearance or Clearance())


def test_every_selects_the_memories_on_all_pages(
    four_levels: dict[str, Memory], remember: Remember, actor: Actor
) -> None:
    other = remember("giraffe", project="elsewhere", session_id="s", tags=["tall"])
    gone, spent = remember("gone"), remember("spent")
    store.trash_memories([gone.uid], actor)
    store.apply_bulk_action("expire", [spent.uid], actor)
    zebra = four_levels["public"].uid
    assert set(matching("/memories/")) == {zebra, other.uid}
    assert matching("/memories/?tag=tall&cursor=whatever&order=-importance") == [other.uid]
    assert matching("/memories/?q=zebra+stripes") == [zebra]
    assert matching("/timeline/entries/?project=zoo") == [zebra]
    assert matching("/sessions/s/?project=elsewhere") == [other.uid]
    assert matching("/sessions/s/?project=zoo") == []
    assert matching("/trash/") == [gone.uid]
    assert matching("/trash/?tab=expired") == [spent.uid]
    assert len(matching("/memories/?project=zoo", Clearance.up_to("secret"))) == 3


def test_results_of_a_corrected_query_are_selected_as_shown(db: None, remember: Remember) -> None:
    giraffe = remember("a giraffe sleeps")
    assert matching("/memories/?q=girafe") == [giraffe.uid]


def test_more_results_than_a_statement_has_variables_are_selected(
    db: None, remember: Remember, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = remember("zebra")
    found = SearchResults(total=300_000, keys=np.array([memory.pk, *range(10_000, 309_999)]))
    monkeypatch.setattr(filters, "search_or_correct", lambda *given, **options: found)
    assert matching("/memories/?q=zebra") == [memory.uid]


def test_every_excludes_memories_stored_after_the_list_was_shown(
    editor: Client, three: list[Memory], remember: Remember
) -> None:
    page = Page(editor.get("/memories/?project=p").content.decode())
    late = remember("stored a moment later", project="p")
    brought = remember("imported a moment later", project="p")
    past = brought.created_at - timedelta(days=9)
    Memory.objects.filter(pk=brought.pk).update(created_at=past, imported_at=brought.created_at)
    shown = do(editor, "trash", [], every="1", list=page.value_of("list"))
    assert "3 memories moved to the trash" in shown
    assert set(Memory.objects.live().values_list("uid", flat=True)) == {late.uid, brought.uid}


@each("moment", ["", "never", "2026-02-31T00:00:00Z", "2026-02-01T00:00:00"])
def test_list_without_as_of_is_selected_as_it_is_now(three: list[Memory], moment: str) -> None:
    assert len(matching(f"/memories/?project=p&as_of={moment}")) == 3


@each(
    "address",
    [
        "",
        "/",
        "/nowhere/",
        "/journal/",
        "https://[bad",
        "/memories/?type=cosmic",
        "/memories/?since=x",
        "/memories/?q=x&on=2020-01-01",
        "/memories/?q=x&min_score=9",
        "/timeline/entries/?until=never",
    ],
)
def test_list_that_cannot_be_selected_as_a_whole_is_refused(db: None, address: str) -> None:
    with pytest.raises(store.StoreError, match="this list"):
        matching(address)


def test_bar_offers_all_that_match_above_the_limit_of_a_request() -> None:
    bar = Page(render_to_string("includes/bulk_bar.html", {"total": 2863, "most": 2000, "may": {}}))
    [box] = [one for one in bar.all("input") if one.get("name") == "every"]
    assert box["value"] == "1"
    assert "data-asks" in box
    assert "All 2,863 that match" in " ".join(bar.words.split())


def test_all_matching_memories_change_and_are_undone_together(
    editor: Client, three: list[Memory], remember: Remember
) -> None:
    remember("elsewhere", project="q", importance=0.8)
    page = do(editor, "demote", three[:1], every="1", list="/memories/?project=p")
    assert "3 memories demoted" in page
    assert Memory.objects.filter(importance=0.4).count() == 3
    address, fields = undo_of(page)
    editor.post(address, fields)
    assert Memory.objects.filter(importance=0.8).count() == 4


def test_checkboxes_show_only_with_a_permission(editor: Client, sign_in: SignIn, three: list[Memory]) -> None:
    reader = sign_in(name="reader")
    for address in ("/memories/", "/memories/?q=memory", "/timeline/entries/"):
        assert editor.get(address).content.decode().count('class="row-check"') == 3
        assert 'class="row-check"' not in reader.get(address).content.decode()
        assert 'id="bulk"' not in reader.get(address).content.decode()


def test_bar_offers_only_permitted_actions(sign_in: SignIn, three: list[Memory]) -> None:
    thrower = sign_in("delete_memory").get("/memories/").content.decode()
    assert 'value="trash"' in thrower
    assert 'value="approve"' not in thrower
    assert 'name="tag"' not in thrower.partition('id="bulk"')[2]


def test_bar_offers_the_levels_whose_switch_is_on(sign_in: SignIn, three: list[Memory]) -> None:
    page = sign_in("change_memory", "view_private", on=["private"]).get("/memories/").content.decode()
    bar = page.partition('id="bulk"')[2]
    assert "<option>private</option>" in bar
    assert "<option>secret</option>" not in bar


def test_many_checkboxes_need_no_additional_queries(
    editor: Client, three: list[Memory], remember: Remember
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as counted:
            editor.get("/memories/")
        return len(counted)

    queries()
    few = queries()
    for n in range(20):
        remember(f"more {n}", project="p")
    queries()  # count the badge of the header first
    assert queries() == few


def test_htmx_action_shows_a_message_that_stays_until_closed(editor: Client, three: list[Memory]) -> None:
    headers = {"HX-Request": "true", "HX-Target": "listing", "HX-Current-URL": "http://testserver/memories/"}
    fields = {"act": "trash", "uid": three[0].uid, "next": "/memories/"}
    answer = editor.post("/acts/", fields, headers=headers, follow=True)
    page = answer.content.decode()
    assert 'class="toasts"' in page
    assert "data-dismiss" in page
    assert 'hx-target="#listing"' in page.partition('id="messages"')[2].partition("</form>")[0]
    assert "HX-Push-Url" not in answer.headers
