"""The page of contradictions: visibility, decisions, undo and filters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact, JournalEntry, Memory
from memoryhub.web.facts import views
from tests.cases import each
from tests.web.markup import PAYLOAD, find_dangers, main

Say = Callable[..., Fact]
PAGE, DECIDE, UNDO = "/facts/contradictions/", "/facts/contradictions/decide/", "/facts/contradictions/undo/"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def say(db: None, actor: Actor) -> Say:
    def make(object: str, subject: str = "hub", predicate: str = "led_by", **fields: Any) -> Fact:
        draft = FactDraft(subject=subject, predicate=predicate, object=object, **fields)
        return services.create_fact(draft, actor)[0]

    return make


@pytest.fixture
def two(say: Say) -> list[Fact]:
    """The newest first, as the page shows them."""
    return [say("Mara"), say("Bram")][::-1]


@pytest.fixture
def changer(sign_in: Any) -> Client:
    client: Client = sign_in("change_fact")
    return client


@pytest.fixture
def visitor_without(sign_in: Any) -> Client:
    """Another user without the permission to change facts."""
    client: Client = sign_in(name="bob")
    return client


def forms(response: Any) -> list[dict[str, str]]:
    return [form for form in main(response).all("form") if "decide" in form.get("action", "")]


def decide(client: Client, shown: list[Fact], keep: str = "", **headers: Any) -> Any:
    return client.post(DECIDE, {"fact": [fact.uid for fact in shown], "keep": keep}, **headers)


def held(fact: Fact) -> bool:
    fact.refresh_from_db()
    return fact.valid_until is None


class TestVisibility:
    def test_a_hidden_fact_contradicts_nothing(self, say: Say, sign_in: Any) -> None:
        say("Mara")
        say("Bram", sensitivity="private")
        client = sign_in("view_private")
        assert "No facts contradict each other" in main(client.get(PAGE)).words
        client.post("/switch/", {"level": "private", "on": "1", "next": "/"})
        assert "Bram" in main(client.get(PAGE)).words

    def test_a_hidden_fact_cannot_be_decided_about(self, say: Say, changer: Client) -> None:
        shown = [say("Mara"), say("Bram", sensitivity="secret")]
        assert decide(changer, shown, shown[0].uid).status_code == 404
        assert decide(changer, shown).status_code == 404
        assert all(map(held, shown))

    def test_deciding_needs_its_permission(self, two: list[Fact], visitor: Client) -> None:
        assert decide(visitor, two, two[0].uid).status_code == 403
        assert visitor.post(UNDO, {"gone": two[0].uid}).status_code == 403
        words = main(visitor.get(PAGE)).words
        assert "Mara" in words
        assert "The newest is true" not in words

    @pytest.mark.parametrize("address", [DECIDE, UNDO])
    def test_a_link_alone_decides_nothing(self, changer: Client, address: str) -> None:
        assert changer.get(address).status_code == 405

    def test_facts_of_other_peoples_personal_memories_stay_theirs(
        self, say: Say, remember: Callable[..., Memory], visitor: Client, actor: Actor
    ) -> None:
        own = remember("mine", scope="personal")
        assert own.owner == actor.owner
        Memory.objects.filter(pk=own.pk).update(owner="somebody")
        say("Mara")
        bram = say("Bram")
        Fact.objects.filter(pk=bram.pk).update(memory=own)
        assert forms(visitor.get(PAGE)) == []


class TestDeciding:
    def test_the_newest_supersedes_with_one_click(self, two: list[Fact], changer: Client) -> None:
        [form] = forms(changer.get(PAGE))
        new, old = two
        response = changer.post(form["action"], {"fact": [new.uid, old.uid], "keep": new.uid}, follow=True)
        assert "Bram; 1 earlier fact has ended" in main(response).words
        assert "No facts contradict each other" in main(response).words
        old.refresh_from_db()
        assert old.superseded_by == new
        assert old.valid_until == new.valid_from
        assert JournalEntry.objects.get(operation="supersede").actor == "user:ada"

    def test_an_older_fact_can_be_kept_as_well(self, two: list[Fact], changer: Client) -> None:
        decide(changer, two, two[1].uid)
        assert (held(two[0]), held(two[1])) == (False, True)

    def test_undo_is_in_the_message(self, two: list[Fact], changer: Client) -> None:
        response = changer.post(DECIDE, {"fact": [fact.uid for fact in two], "keep": two[0].uid}, follow=True)
        assert f'name="gone" value="{two[1].uid}"' in response.content.decode()
        response = changer.post(UNDO, {"gone": two[1].uid}, follow=True)
        assert "Undone" in main(response).words
        assert len(forms(response)) == 1
        assert held(two[1])

    def test_all_facts_can_be_kept_and_the_decision_is_undone(self, two: list[Fact], changer: Client) -> None:
        response = decide(changer, two)
        page = changer.get(response["Location"])
        assert "All 2 facts are true" in main(page).words
        assert forms(changer.get(PAGE)) == []
        assert (
            "A person confirmed that all of these are true"
            in main(changer.get(PAGE, {"tab": "together"})).words
        )
        decision = JournalEntry.objects.get(operation="hold_together").object_id
        changer.post(UNDO, {"decision": decision})
        assert len(forms(changer.get(PAGE))) == 1

    def test_the_card_is_replaced_by_a_notice_and_returns_after_undo(
        self, two: list[Fact], changer: Client
    ) -> None:
        notice = decide(changer, two, two[0].uid, headers=HTMX).content.decode()
        assert notice.startswith('<div class="notice is-good contradiction" role="status"')
        back = changer.post(
            UNDO, {"gone": two[1].uid, "fact": [fact.uid for fact in two]}, headers=HTMX
        ).content.decode()
        assert "<article" in back
        assert "The newest is true" in back

    def test_a_second_click_in_another_tab_is_explained(self, two: list[Fact], changer: Client) -> None:
        decide(changer, two, two[0].uid)
        response = decide(changer, two, two[0].uid)
        assert "Nothing was changed: fact" in main(changer.get(response["Location"])).words
        refused = decide(changer, two, two[0].uid, headers=HTMX)
        assert refused.status_code == 422
        assert b"ended already" in refused.content

    @pytest.mark.parametrize("body", [{}, {"keep": "nothing"}, {"fact": ["a", "b"]}, {"gone": ["x"]}])
    @pytest.mark.parametrize("address", [DECIDE, UNDO])
    def test_an_invalid_request_changes_nothing(
        self, two: list[Fact], changer: Client, address: str, body: dict[str, Any]
    ) -> None:
        assert changer.post(address, body).status_code in (302, 404)
        assert all(map(held, two))

    def test_facts_about_something_else_are_refused(self, two: list[Fact], say: Say, changer: Client) -> None:
        other = say("Nils", subject="harbour")
        response = decide(changer, [two[0], other], two[0].uid)
        assert "the same project, subject and predicate" in main(changer.get(response["Location"])).words
        assert held(other)

    @pytest.mark.parametrize(
        ("wanted", "goes"), [("/facts/?state=all", "/facts/?state=all"), ("https://evil.example/", PAGE)]
    )
    def test_it_goes_back_to_pages_of_facts_only(
        self, two: list[Fact], changer: Client, wanted: str, goes: str
    ) -> None:
        body = {"fact": [fact.uid for fact in two], "keep": two[0].uid, "next": wanted}
        assert changer.post(DECIDE, body)["Location"] == goes


class TestPage:
    def test_compatible_facts_are_on_a_separate_tab(self, say: Say, visitor: Client) -> None:
        say("Django", predicate="uses")
        say("SQLite", predicate="uses")
        assert forms(visitor.get(PAGE)) == []
        response = visitor.get(PAGE, {"tab": "together"})
        assert "SQLite" in main(response).words
        assert "this predicate usually has several values" in main(response).words

    def test_a_project_narrows_it(self, say: Say, visitor: Client) -> None:
        for project in ("moon", "sun"):
            say("Mara", project=project)
            say("Bram", project=project)
        assert len(forms(visitor.get(PAGE))) == 2
        assert len(forms(visitor.get(PAGE, {"project": "moon"}))) == 1

    def test_pages_have_a_fixed_size(
        self, say: Say, visitor: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(views, "CONTRADICTIONS_PAGE_SIZE", 2)
        for number in range(3):
            say("Mara", subject=f"s{number}")
            say("Bram", subject=f"s{number}")
        assert len(forms(visitor.get(PAGE))) == 2
        assert len(forms(visitor.get(PAGE, {"page": "2"}))) == 1

    def test_the_number_of_queries_does_not_grow(self, say: Say, changer: Client) -> None:
        changer.get(PAGE)  # the first request of a session asks for more
        counts = []
        for n in range(2):
            for m in range(1 + 8 * n):
                say("Mara", predicate=f"p{n}{m}")
                say("Bram", predicate=f"p{n}{m}")
            with CaptureQueriesContext(connection) as queries:
                changer.get(PAGE)
            counts.append(len(queries))
        assert counts[0] == counts[1]

    def test_no_text_is_rendered_as_markup(self, say: Say, changer: Client) -> None:
        shown = [say(f"{PAYLOAD}{n}", PAYLOAD, PAYLOAD[:200], project=PAYLOAD[:100]) for n in range(2)]
        assert find_dangers(changer.get(PAGE).content.decode()) == []
        assert find_dangers(decide(changer, shown, shown[0].uid, headers=HTMX).content.decode()) == []
        assert find_dangers(changer.get("/facts/?state=all").content.decode()) == []


class TestTable:
    def test_ended_facts_are_listed_with_their_time_and_made_valid_again(
        self, two: list[Fact], changer: Client
    ) -> None:
        decide(changer, two, two[0].uid)
        assert "Mara" not in main(changer.get("/facts/")).words.partition("Changed")[2]
        ended = changer.get("/facts/", {"state": "ended"})
        assert "Mara" in main(ended).words
        assert "until" in main(ended).words
        both = main(changer.get("/facts/", {"state": "all"})).words
        assert "Mara" in both
        assert "Bram" in both

    def test_it_is_made_valid_again_with_permission(
        self, two: list[Fact], changer: Client, visitor_without: Client
    ) -> None:
        decide(changer, two, two[0].uid)

        def undoing(client: Client) -> list[dict[str, str]]:
            page = main(client.get("/facts/", {"state": "ended"}))
            return [one for one in page.all("button") if one.get("formaction") == UNDO]

        changer.get(PAGE)  # its message has such a button too
        assert undoing(visitor_without) == []
        [button] = undoing(changer)
        assert (button["name"], button["value"]) == ("gone", two[1].uid)
        changer.post(button["formaction"], {"gone": button["value"]})
        assert held(two[1])

    def test_a_thing_is_found_as_subject_and_as_object(self, say: Say, visitor: Client) -> None:
        say("Mara")
        say("Skagen", subject="Mara", predicate="lives_in")
        say("Bergen", subject="Nils", predicate="lives_in")
        words = main(visitor.get("/facts/", {"thing": "Mara"})).words
        assert "Skagen" in words
        assert "hub" in words
        assert "Bergen" not in words


class TestNarrowing:
    @each(
        "query, shown",
        [
            ({"subject": "HUB"}, ["hub", "hub"]),
            ({"predicate": "Led By"}, ["dock", "hub"]),
            ({"subject": "hub", "predicate": "lies_in"}, ["hub"]),
            ({"subject": "nothing"}, []),
        ],
    )
    def test_subject_and_predicate_narrow_it_however_they_are_written(
        self, two: list[Fact], say: Say, visitor: Client, query: dict[str, str], shown: list[str]
    ) -> None:
        for object in ("Oslo", "Bergen"):
            say(object, predicate="lies_in")
            say(object, subject="dock")
        response = visitor.get(PAGE, query)
        assert sorted(one["group"].newest.subject for one in response.context["groups"]) == shown
        assert response.context["counts"]["open"] == len(shown)

    def test_empty_result_suggests_to_widen_the_filter(self, two: list[Fact], visitor: Client) -> None:
        assert "Widen the filter above" in main(visitor.get(PAGE, {"subject": "nothing"})).words

    def test_table_and_graph_keep_what_narrows_it(self, two: list[Fact], visitor: Client) -> None:
        links = main(visitor.get(PAGE, {"subject": "hub", "project": "p"})).links()
        assert "/facts/?project=p&subject=hub" in links
        assert "/facts/graph/?project=p&node=hub" in links

    def test_another_spelling_of_the_subject_is_shown(self, say: Say, visitor: Client) -> None:
        say("Mara", subject="hub")
        say("Bram", subject="Hub")
        assert "stored as “hub led by”" in main(visitor.get(PAGE)).words


class TestCounts:
    """How many are left is brought up to date with what takes the place of a card."""

    def open_count(self, response: Any) -> str:
        found = re.search(r'id="count-open" hx-swap-oob="true">(\d+)<', response.content.decode())
        return found[1] if found else ""

    def test_after_a_decision_and_its_undo(self, two: list[Fact], changer: Client) -> None:
        assert self.open_count(decide(changer, two, two[0].uid, headers=HTMX)) == "0"
        uids = {"gone": two[1].uid, "fact": [fact.uid for fact in two]}
        assert self.open_count(changer.post(UNDO, uids, headers=HTMX)) == "1"

    def test_after_someone_else_was_first(self, two: list[Fact], changer: Client) -> None:
        decide(changer, two, two[0].uid)
        refused = decide(changer, two, two[0].uid, headers=HTMX)
        assert refused.status_code == 422
        assert self.open_count(refused) == "0"

    def test_under_the_filters_of_the_page(self, two: list[Fact], say: Say, changer: Client) -> None:
        others = [say("Oslo", subject="dock"), say("Bergen", subject="dock")]
        data = {"fact": [fact.uid for fact in others], "keep": others[0].uid}
        narrowed = changer.post(DECIDE, {**data, "next": f"{PAGE}?subject=dock"}, headers=HTMX)
        assert self.open_count(narrowed) == "0"

    def test_decision_in_the_review_updates_no_counts(self, two: list[Fact], changer: Client) -> None:
        data = {"fact": [fact.uid for fact in two], "keep": two[0].uid, "next": "/review/?tab=facts"}
        assert "count-open" not in changer.post(DECIDE, data, headers=HTMX).content.decode()
