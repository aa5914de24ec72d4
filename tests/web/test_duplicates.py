"""The page of near-duplicates: what it shows to whom, merging, telling apart, and taking both back."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub import store
from memoryhub.drafts import MemoryPatch
from memoryhub.models import JournalEntry, Memory
from memoryhub.sensitivity import Actor
from memoryhub.web.duplicates import MOST_UNITED, united_text
from tests.web.markup import PAYLOADS, Page, dangers, main

Remember = Callable[..., Memory]
pytestmark = pytest.mark.usefixtures("embedding")
SAYING = "The build cache lives on the runner and is emptied every night"
RIGHTS = ("change_memory", "delete_memory")
HTMX = {"HX-Request": "true"}


@pytest.fixture
def curator(sign_in: Any) -> Client:
    client: Client = sign_in(*RIGHTS)
    return client


@pytest.fixture
def visitor_of(sign_in: Any) -> Client:
    """Someone else, without any permission."""
    client: Client = sign_in(name="bob")
    return client


@pytest.fixture
def alike(remember: Remember) -> list[Memory]:
    """Two of one saying; the longer one would be kept."""
    return [remember(f"{SAYING} at two", project="p"), remember(SAYING, project="p", tags=["t"])]


def form_of(memories: list[Memory], **more: Any) -> dict[str, Any]:
    """What the page's form sends: the first one is kept."""
    uids = [memory.uid for memory in memories]
    seen = [f"{memory.uid} {memory.updated_at.isoformat()}" for memory in memories]
    return {"keep": uids[0], "uid": uids[1:], "member": uids, "seen": seen, "do": "merge", **more}


def trashed() -> set[str]:
    return set(Memory.objects.trashed().values_list("uid", flat=True))


def ticked(response: Any) -> set[str]:
    """Ids of those that a click would merge."""
    boxes = Page(response.content.decode()).all("input")
    return {a["value"] for a in boxes if a.get("type") == "checkbox" and "checked" in a}


def begun(response: Any) -> str:
    """What the form sends of the text that the card began with."""
    [mark] = [a["value"] for a in Page(response.content.decode()).all("input") if a.get("name") == "begun"]
    return str(mark)


def undo_form(response: Any) -> dict[str, Any]:
    """The fields of the button that takes it back."""
    fields = [a for a in Page(response.content.decode()).all("input") if a.get("type") == "hidden"]
    found: dict[str, Any] = {"member": []}
    for field in fields:
        if field["name"] == "member":
            found["member"].append(field["value"])
        elif field["name"] in ("merge", "apart", "next"):
            found.setdefault(field["name"], field["value"])
    return found


class TestThePage:
    def test_a_cluster_shows_which_is_kept_why_and_what_differs(
        self, curator: Client, alike: list[Memory]
    ) -> None:
        shown = main(curator.get("/duplicates/"))
        assert "Kept: it says the most." in shown.words
        assert "1 cluster among 2 memories" in shown.words
        assert [a["value"] for a in shown.all("input") if a.get("name") == "keep" and "checked" in a] == [
            alike[0].uid
        ]
        assert "mark" in {name for name, _ in shown.elements}

    def test_other_numbers_are_pointed_at(self, curator: Client, remember: Remember) -> None:
        remember("Upgrade the parser from 1.2 to 1.3"), remember("Upgrade the parser from 1.2 to 1.4")
        assert "Look twice: only one of the two has 3, 4" in main(curator.get("/duplicates/")).words

    def test_one_with_other_numbers_is_not_merged_unasked(
        self, curator: Client, alike: list[Memory], remember: Remember
    ) -> None:
        remember(f"{SAYING} at 2", project="p")
        response = curator.get("/duplicates/")
        assert len(main(response).all("article")) == 1
        assert ticked(response) == {alike[1].uid}

    def test_two_long_texts_of_short_lines_are_united_in_no_time(self) -> None:
        one, other = ("\n".join(f"{n * step} {n + step}" for n in range(8000)) for step in (7, 11))
        start = process_time()
        text = united_text(one, [other])
        assert process_time() - start < 2
        assert text.count("\n") <= 8000 + MOST_UNITED

    @pytest.mark.parametrize(("count", "cut"), [(MOST_UNITED, False), (MOST_UNITED + 1, True)])
    def test_a_text_that_does_not_begin_with_all_lines_says_so(
        self, curator: Client, alike: list[Memory], count: int, cut: bool
    ) -> None:
        lines = "\n".join(f"line {n}" for n in range(count))
        Memory.objects.filter(pk=alike[1].pk).update(content=lines)
        card = curator.post("/duplicates/cluster/", form_of(alike), headers=HTMX)
        assert (
            "not all of that, since they have very many lines" in Page(card.content.decode()).words
        ) is cut

    def test_a_text_of_all_has_each_line_once_and_none_that_says_less(self) -> None:
        others = ["one line\nof the first", "A line, another\n\nA line, another  \nanother"]
        assert united_text("one line\nthe first of all\n", others) == (
            "one line\nthe first of all\nA line, another"
        )

    def test_who_may_not_change_sees_no_buttons(self, visitor: Client, alike: list[Memory]) -> None:
        shown = main(visitor.get("/duplicates/"))
        assert alike[0].uid in str(shown.links())
        assert not [a for a in shown.all("button") if a.get("name") == "do"]
        assert not [a for a in shown.all("input") if a.get("type") == "radio"]

    def test_it_is_narrowed_by_project_and_likeness(
        self, curator: Client, alike: list[Memory], remember: Remember
    ) -> None:
        other = [remember(f"Trains run late in winter{end}", project="q") for end in ("", "!")]
        shown = main(curator.get("/duplicates/?project=q"))
        assert alike[0].uid not in str(shown.links())
        assert other[0].uid in str(shown.links())
        assert "No duplicates with this filter" in main(curator.get("/duplicates/?project=z")).words
        assert curator.get("/duplicates/?similarity=5").status_code == 422

    def test_it_comes_in_pages(self, curator: Client, remember: Remember) -> None:
        for word in "apple bridge castle desert engine forest garden harbour island jungle kettle".split():
            (
                remember(f"the {word} of {word}s", category=word),
                remember(f"the {word} of {word}s!", category=word),
            )
        first, last = main(curator.get("/duplicates/")), main(curator.get("/duplicates/?page=2"))
        assert "Page 1 of 2" in first.words
        assert (len(first.all("article")), len(last.all("article"))) == (10, 1)
        assert curator.get("/duplicates/?page=99").status_code == 200

    def test_an_empty_store_says_so(self, visitor: Client) -> None:
        assert "No duplicates" in main(visitor.get("/duplicates/")).words

    def test_without_vectors_it_says_what_is_missing(
        self, curator: Client, alike: list[Memory], configure: Callable[..., None]
    ) -> None:
        configure(embeddings="none")
        words = main(curator.get("/duplicates/")).words
        assert "Only identical words are found: no embeddings are configured." in words
        assert SAYING not in words

    def test_the_number_of_queries_does_not_grow(self, curator: Client, remember: Remember) -> None:
        def count() -> int:
            with CaptureQueriesContext(connection) as queries:
                assert curator.get("/duplicates/").status_code == 200
            return len(queries)

        remember("one saying"), remember("one saying!")
        count()
        few = count()
        for number in range(8):
            remember(f"saying {number}"), remember(f"saying {number}!")
        count()
        assert count() == few

    @pytest.mark.parametrize("payload", PAYLOADS)
    def test_no_field_becomes_markup(self, curator: Client, remember: Remember, payload: str) -> None:
        for end in ("", " "):
            remember(f"{payload}{end}x", title=payload + end, project=payload[:100], category=payload[:90])
        response = curator.get("/duplicates/")
        assert "Kept:" in main(response).words
        assert dangers(response.content.decode()) == []


class TestMerging:
    def test_without_scripts_it_goes_back_with_a_button_that_undoes_it(
        self, curator: Client, alike: list[Memory]
    ) -> None:
        kept, other = alike
        response = curator.post(
            "/duplicates/decide/", form_of(alike, next="/duplicates/?project=p"), follow=True
        )
        assert response.redirect_chain == [("/duplicates/?project=p", 302)]
        assert trashed() == {other.uid}
        assert "2 memories are one now" in main(response).words
        response = curator.post("/duplicates/undo/", undo_form(response), follow=True)
        assert "Taken back" in main(response).words
        assert trashed() == set()
        assert not Memory.objects.get(uid=kept.uid).labels.exists()

    def test_htmx_gets_a_notice_in_the_place_of_the_cluster_and_the_cluster_back(
        self, curator: Client, alike: list[Memory]
    ) -> None:
        done = curator.post("/duplicates/decide/", form_of(alike), headers=HTMX)
        assert b"<html" not in done.content
        assert "2 memories are one now" in Page(done.content.decode()).words
        back = curator.post("/duplicates/undo/", undo_form(done), headers=HTMX)
        assert "Merge the ticked into one" in Page(back.content.decode()).words
        assert trashed() == set()

    def test_another_one_can_be_kept_and_one_be_left_out(
        self, curator: Client, alike: list[Memory], remember: Remember
    ) -> None:
        third = remember(f"{SAYING}!", project="p")
        curator.post("/duplicates/decide/", form_of([third, alike[0]]))
        assert trashed() == {alike[0].uid}
        assert Memory.objects.get(uid=alike[0].uid).merged_into == third

    def test_choosing_another_one_compares_with_that(self, curator: Client, alike: list[Memory]) -> None:
        asked = {"keep": alike[1].uid, "member": [memory.uid for memory in alike]}
        shown = Page(curator.post("/duplicates/cluster/", asked, headers=HTMX).content.decode())
        assert "Kept: chosen by you." in shown.words
        checked = [a["value"] for a in shown.all("input") if a.get("name") == "keep" and "checked" in a]
        assert checked == [alike[1].uid]

    def test_choosing_another_one_leaves_out_what_was_left_out(
        self, curator: Client, alike: list[Memory], remember: Remember
    ) -> None:
        left_out = remember(f"{SAYING}!", project="p")
        form = form_of([*alike, left_out], keep=alike[1].uid, uid=[alike[0].uid])
        assert ticked(curator.post("/duplicates/cluster/", form, headers=HTMX)) == {alike[0].uid}

    def test_a_tick_in_spite_of_a_warning_stays_and_a_new_warning_takes_it_away(
        self, curator: Client, alike: list[Memory], remember: Remember
    ) -> None:
        other = remember(f"{SAYING} at 2", project="p")
        form = form_of([*alike, other], keep=alike[1].uid, uid=[alike[0].uid, other.uid])
        assert ticked(curator.post("/duplicates/cluster/", form)) == {alike[0].uid}
        warned = curator.post("/duplicates/cluster/", form | {"warned": [other.uid]})
        assert ticked(warned) == {alike[0].uid, other.uid}

    def test_choosing_another_one_keeps_a_text_that_was_begun_and_renews_one_that_was_not(
        self, curator: Client, alike: list[Memory]
    ) -> None:
        page = curator.get("/duplicates/")
        form = form_of(alike, keep=alike[1].uid, begun=begun(page))
        mine = curator.post("/duplicates/cluster/", form | {"content": "My own words"})
        assert ">My own words</textarea>" in mine.content.decode()
        again = form | {"content": "My own words", "begun": begun(mine)}
        assert ">My own words</textarea>" in curator.post("/duplicates/cluster/", again).content.decode()
        theirs = curator.post("/duplicates/cluster/", form | {"content": f"{SAYING} at two"})
        assert f">{SAYING}\n{SAYING} at two</textarea>" in theirs.content.decode()

    def test_a_refusal_keeps_what_was_left_out_and_written(
        self, curator: Client, alike: list[Memory]
    ) -> None:
        form = form_of(alike, uid=[], do="text", content="My own words", begun="x")
        response = curator.post("/duplicates/decide/", form, headers=HTMX)
        assert "tick at least one to merge" in Page(response.content.decode()).words
        assert ticked(response) == set()
        assert ">My own words</textarea>" in response.content.decode()

    @pytest.mark.parametrize("doing", ["", "erase", None])
    def test_an_unknown_decision_does_nothing(
        self, curator: Client, alike: list[Memory], doing: str | None
    ) -> None:
        form = {name: value for name, value in form_of(alike, do=doing).items() if value is not None}
        response = curator.post("/duplicates/decide/", form, headers=HTMX)
        assert response.status_code == 422
        assert "Not done: choose to merge" in Page(response.content.decode()).words
        assert trashed() == set()

    @pytest.mark.parametrize("moment", ["2020-13-45T00:00:00", "2020-01-01T00:00:00", "soon", ""])
    def test_a_moment_that_cannot_be_is_a_change_since_then(
        self, curator: Client, alike: list[Memory], moment: str
    ) -> None:
        form = form_of(alike, seen=[f"{alike[1].uid} {moment}"])
        response = curator.post("/duplicates/decide/", form, headers=HTMX)
        assert response.status_code == 422
        assert "changed since you opened it" in Page(response.content.decode()).words
        assert trashed() == set()

    def test_one_that_was_left_out_is_on_the_card_again_after_the_undo(
        self, curator: Client, alike: list[Memory], remember: Remember
    ) -> None:
        third = remember(f"{SAYING}!", project="p")
        form = form_of([*alike, third], uid=[alike[1].uid])
        done = curator.post("/duplicates/decide/", form, headers=HTMX)
        assert "2 memories are one now" in Page(done.content.decode()).words
        back = curator.post("/duplicates/undo/", undo_form(done), headers=HTMX)
        assert third.uid in back.content.decode()

    def test_a_text_of_ones_own(self, curator: Client, alike: list[Memory]) -> None:
        curator.post("/duplicates/decide/", form_of(alike, do="text", content="My own\r\nwords"))
        assert Memory.objects.get(uid=alike[0].uid).content == "My own\nwords"

    @pytest.mark.parametrize("content", ["", "  ", "x" * 100_001, "a\x00b"])
    def test_a_text_that_cannot_be_used_is_refused(
        self, curator: Client, alike: list[Memory], content: str
    ) -> None:
        form = form_of(alike, do="text", content=content)
        assert curator.post("/duplicates/decide/", form, headers=HTMX).status_code == 422
        assert "Not done" in main(curator.post("/duplicates/decide/", form, follow=True)).words
        assert trashed() == set()

    def test_what_was_changed_meanwhile_is_not_merged_unseen(
        self, curator: Client, alike: list[Memory], actor: Actor
    ) -> None:
        form = form_of(alike)
        store.update(alike[1].uid, MemoryPatch(content="something else altogether"), actor)
        response = curator.post("/duplicates/decide/", form, headers=HTMX)
        assert response.status_code == 422
        assert "changed since you opened it" in Page(response.content.decode()).words
        assert trashed() == set()

    def test_a_refused_undo_names_what_was_changed(
        self, curator: Client, alike: list[Memory], actor: Actor
    ) -> None:
        done = curator.post("/duplicates/decide/", form_of(alike), headers=HTMX)
        store.update(alike[0].uid, MemoryPatch(title="edited"), actor)
        response = curator.post("/duplicates/undo/", undo_form(done), follow=True)
        assert f"memory {alike[0].uid} was changed: title" in main(response).words

    def test_the_page_of_the_one_that_was_kept_takes_the_last_merge_back(
        self, curator: Client, visitor_of: Any, alike: list[Memory]
    ) -> None:
        curator.post("/duplicates/decide/", form_of(alike), follow=True)  # its message is shown
        here = f"/memories/{alike[0].uid}/"
        assert "Take the last merge back" not in main(visitor_of.get(here)).words
        page = curator.get(here)
        assert "Take the last merge back" in main(page).words
        response = curator.post("/duplicates/undo/", undo_form(page), follow=True)
        assert response.redirect_chain == [(here, 302)]
        assert "Take the last merge back" not in main(response).words
        assert trashed() == set()

    @pytest.mark.parametrize("rights", [(), ("change_memory",), ("delete_memory",)])
    def test_it_takes_the_rights_to_change_and_to_delete(
        self, sign_in: Any, alike: list[Memory], rights: tuple[str, ...]
    ) -> None:
        client = sign_in(*rights)
        assert client.post("/duplicates/decide/", form_of(alike)).status_code == 403
        assert client.post("/duplicates/undo/", {"merge": "x"}).status_code == 403
        assert trashed() == set()

    def test_what_is_not_there_cannot_be_taken_back(self, curator: Client) -> None:
        for name in ("merge", "apart"):
            assert curator.post("/duplicates/undo/", {name: "nothing"}).status_code == 404

    @pytest.mark.parametrize("elsewhere", ["https://elsewhere.example/", "//elsewhere.example", "/admin/"])
    def test_it_goes_back_to_no_other_place(
        self, curator: Client, alike: list[Memory], elsewhere: str
    ) -> None:
        response = curator.post("/duplicates/decide/", form_of(alike, next=elsewhere))
        assert response["Location"] == "/duplicates/"


class TestTellingApart:
    def test_a_pair_does_not_come_back_until_that_is_undone(
        self, curator: Client, alike: list[Memory]
    ) -> None:
        done = curator.post("/duplicates/decide/", form_of(alike, do="apart"), headers=HTMX)
        assert "2 memories are no duplicates" in Page(done.content.decode()).words
        assert "No duplicates" in main(curator.get("/duplicates/")).words
        assert trashed() == set()
        curator.post("/duplicates/undo/", undo_form(done))
        assert "1 cluster" in main(curator.get("/duplicates/")).words

    def test_it_is_about_all_of_the_card_whatever_is_ticked(
        self, curator: Client, alike: list[Memory]
    ) -> None:
        form = form_of(alike, uid=[], do="apart")
        done = curator.post("/duplicates/decide/", form, headers=HTMX)
        assert "2 memories are no duplicates" in Page(done.content.decode()).words

    def test_it_takes_the_right_to_change(self, sign_in: Any, alike: list[Memory]) -> None:
        assert sign_in().post("/duplicates/decide/", form_of(alike, do="apart")).status_code == 403
        changer = sign_in("change_memory", name="bob")
        assert changer.post("/duplicates/decide/", form_of(alike, do="apart")).status_code == 302


class TestGate:
    @pytest.fixture
    def levels(self, remember: Remember) -> dict[str, Memory]:
        made = {}
        for number, level in enumerate(("public", "private", "secret", "cosmic")):
            made[level] = remember(f"{SAYING}{'.' * number} {level}words", project="p")
            Memory.objects.filter(pk=made[level].pk).update(sensitivity=level)
        return made

    @pytest.mark.parametrize("on", [(), ("private",), ("secret",), ("private", "secret")])
    def test_each_level_shows_with_its_switch_alone(
        self, sign_in: Any, levels: dict[str, Memory], remember: Remember, on: tuple[str, ...]
    ) -> None:
        remember(f"{SAYING} publicwords indeed", project="p")
        client = sign_in("view_private", "view_secret", "repair_unknown", *RIGHTS, on=on)
        text = client.get("/duplicates/").content.decode()
        seen = {level for level, memory in levels.items() if memory.uid in text or f"{level}words" in text}
        assert seen == {"public", *on}
        assert f'<span class="num">{len(on) + 2}</span> memories' in text

    def test_switches_without_permissions_show_nothing(self, sign_in: Any, levels: dict[str, Memory]) -> None:
        client = sign_in(*RIGHTS, on=["private", "secret"])
        assert "No duplicates" in main(client.get("/duplicates/")).words

    def test_hidden_ones_change_no_cluster(
        self, curator: Client, alike: list[Memory], remember: Remember
    ) -> None:
        before = main(curator.get("/duplicates/")).words
        for number in range(5):
            remember(f"{SAYING} at two {'!' * number}", project="p", sensitivity="secret", key=str(number))
        assert main(curator.get("/duplicates/")).words == before

    def test_a_cluster_with_hidden_ones_is_the_same_as_without(
        self, curator: Client, alike: list[Memory], levels: dict[str, Memory]
    ) -> None:
        uids = [memory.uid for memory in alike]
        plain = curator.post("/duplicates/cluster/", {"member": uids})
        hidden = [levels[level].uid for level in ("private", "secret", "cosmic")]
        with_hidden = curator.post("/duplicates/cluster/", {"member": [*uids, *hidden], "keep": hidden[0]})
        assert Page(plain.content.decode()).words == Page(with_hidden.content.decode()).words
        assert curator.post("/duplicates/cluster/", {"member": [uids[0], *hidden]}).status_code == 404

    def test_hidden_ones_can_neither_be_merged_nor_told_apart(
        self, curator: Client, levels: dict[str, Memory]
    ) -> None:
        for level in ("private", "secret", "cosmic"):
            for pair in ([levels["public"], levels[level]], [levels[level], levels["public"]]):
                for doing in ("merge", "apart"):
                    response = curator.post("/duplicates/decide/", form_of(pair, do=doing), follow=True)
                    assert "Not done" in main(response).words
                    assert f"{level}words" not in response.content.decode()
        assert trashed() == set()
        assert not JournalEntry.objects.filter(object_type="memories").exists()

    def test_showing_a_secret_is_journaled(self, insider: Client, remember: Remember) -> None:
        secret = remember(SAYING, sensitivity="secret")
        remember(f"{SAYING}!")
        insider.get("/duplicates/")
        [row] = JournalEntry.objects.filter(operation="reveal")
        assert (row.object_id, row.detail["page"]) == (secret.uid, "duplicates")
