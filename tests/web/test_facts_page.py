"""The table of facts: visibility, filters, adding and deleting with permission."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact, JournalEntry, Memory
from memoryhub.web.facts import views
from tests.cases import each
from tests.web.markup import PAYLOAD, find_dangers, main, page

Remember = Callable[..., Memory]
StoreFact = Callable[..., Fact]
NEW = {"subject": "the lock", "predicate": "is held by", "object": "the writer", "sensitivity": "public"}


@pytest.fixture
def fact(db: None, actor: Actor) -> StoreFact:
    def make(subject: str = "a", predicate: str = "b", object: str = "c", **fields: Any) -> Fact:
        return services.create_fact(
            FactDraft(subject=subject, predicate=predicate, object=object, **fields), actor
        )[0]

    return make


class TestEnded:
    def validity(self, client: Client, actor: Actor, began: datetime, ended: datetime) -> str:
        draft = FactDraft(subject="lock", predicate="held_by", object="Ann")
        services.import_fact(draft, ImportedHistory(valid_from=began, valid_until=ended), actor)
        return main(client.get("/facts/?state=ended")).words

    def test_a_fact_valid_for_part_of_a_day_shows_its_times(self, visitor: Client, actor: Actor) -> None:
        began = datetime(2026, 5, 4, 9, 10, tzinfo=UTC)
        words = self.validity(visitor, actor, began, began + timedelta(hours=3))
        assert "from 2026-05-04, 09:10 until 12:10" in words

    def test_a_fact_valid_for_longer_shows_its_days(self, visitor: Client, actor: Actor) -> None:
        began = datetime(2026, 5, 4, 9, 10, tzinfo=UTC)
        words = self.validity(visitor, actor, began, began + timedelta(hours=15))
        assert "from 2026-05-04 until 2026-05-05" in words


class TestYetToBegin:
    @pytest.fixture(autouse=True)
    def world(self, fact: StoreFact, actor: Actor) -> None:
        fact("lock", "held_by", "Ann", project="p")
        later = ImportedHistory(valid_from=timezone.now() + timedelta(days=400))
        draft = FactDraft(subject="lock", predicate="held_by", object="Bo", project="p")
        services.import_fact(draft, later, actor)

    def test_it_is_no_fact_of_today(self, visitor: Client) -> None:
        for address in ("/facts/", "/facts/graph/?node=lock", "/facts/contradictions/"):
            response = visitor.get(address)
            assert response.status_code == 200
            assert "Bo<" not in response.content.decode(), address

    def test_the_table_and_its_page_say_from_when(self, visitor: Client) -> None:
        said = r"Bo</a>\s*<span class=\"quiet small\">from <time "
        uid = Fact.objects.get(object="Bo").uid
        for address in ("/facts/?state=all", f"/facts/{uid}/"):
            assert re.search(said, visitor.get(address).content.decode()), address

    def test_a_fact_that_is_valid_now_shows_no_times(self, visitor: Client) -> None:
        assert "from <time" not in visitor.get("/facts/").content.decode()


SUBJECT = r'data-label="Subject" dir="auto"><a [^>]*>(.*?)</a></th>'


def subjects(client: Client, **query: str) -> list[str]:
    html = client.get("/facts/", query).content.decode()
    return re.findall(SUBJECT, html)


class TestVisibility:
    @pytest.fixture(autouse=True)
    def world(self, fact: StoreFact, remember: Remember, four_levels: dict[str, Memory]) -> None:
        for level in ("public", "private", "secret"):
            fact(level, sensitivity=level)
            fact(f"of-{level}", memory_id=four_levels[level].uid)
        fact("cosmic")
        Fact.objects.filter(subject="cosmic").update(sensitivity="cosmic")
        fact("of-cosmic")
        Fact.objects.filter(subject="of-cosmic").update(memory=four_levels["cosmic"])

    def test_without_switches_only_public_facts_of_public_memories_are_shown(self, sign_in: Any) -> None:
        client = sign_in("view_private", "view_secret")
        assert set(subjects(client)) == {"public", "of-public"}

    def test_switches_show_all_known_levels(self, insider: Client) -> None:
        expected = {"public", "private", "secret", "of-public", "of-private", "of-secret"}
        assert set(subjects(insider)) == expected

    def test_a_fact_links_to_its_memory(self, visitor: Client, four_levels: dict[str, Memory]) -> None:
        assert f"/memories/{four_levels['public'].uid}/" in main(visitor.get("/facts/")).links()

    @each("subject", ["private", "of-secret", "cosmic", "of-cosmic"])
    def test_a_hidden_one_cannot_be_deleted(self, sign_in: Any, subject: str) -> None:
        client = sign_in("delete_fact", name="cleaner")
        hidden = Fact.objects.get(subject=subject)
        assert client.post(f"/facts/{hidden.uid}/delete/").status_code == 404
        assert Fact.objects.filter(pk=hidden.pk).exists()


class TestFilters:
    @pytest.fixture(autouse=True)
    def world(self, fact: StoreFact) -> None:
        fact("s1", "owns", "a red boat", confidence=0.9, project="moon", session_id="m-1")
        fact("s2", "owns", "boat", confidence=0.4, project="sun")
        fact("s3", "sails", "a 100% boat", confidence=0.6, project="sun")

    @each(
        "query, found",
        [
            ({}, ["s3", "s2", "s1"]),
            ({"subject": "s1"}, ["s1"]),
            ({"subject": "s"}, []),
            ({"predicate": "owns"}, ["s2", "s1"]),
            ({"object": "BOAT"}, ["s3", "s2", "s1"]),
            ({"object": "100%"}, ["s3"]),
            ({"object": "boat", "how": "exact"}, ["s2"]),
            ({"min_confidence": "0.5"}, ["s3", "s1"]),
            ({"project": "sun"}, ["s3", "s2"]),
            ({"session_id": "m-1"}, ["s1"]),
            ({"predicate": "owns", "project": "sun"}, ["s2"]),
        ],
    )
    def test_each_narrows(self, visitor: Client, query: dict[str, str], found: list[str]) -> None:
        assert subjects(visitor, **query) == found

    @each(
        "field, value",
        [("min_confidence", "2"), ("min_confidence", "x"), ("how", "x"), ("subject", "x" * 1001)],
    )
    def test_a_wrong_one_is_shown_at_its_field(self, visitor: Client, field: str, value: str) -> None:
        response = visitor.get("/facts/", {field: value})
        assert response.status_code == 422
        assert field in response.context["form"].errors

    def test_each_page_starts_after_the_previous_one(
        self, visitor: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(views, "PAGE_SIZE", 2)
        first = visitor.get("/facts/")
        [following] = [link for link in main(first).links() if "cursor=" in link]
        second = visitor.get(f"/facts/{following}").content.decode()
        assert re.findall(SUBJECT, second) == ["s1"]

    def test_an_invalid_cursor_is_refused(self, visitor: Client) -> None:
        assert visitor.get("/facts/", {"cursor": "zzz"}).status_code == 400


class TestAdd:
    @pytest.fixture
    def adder(self, sign_in: Any) -> Client:
        client: Client = sign_in("add_fact")
        return client

    def test_it_needs_its_permission(self, visitor: Client) -> None:
        assert visitor.post("/facts/", NEW).status_code == 403
        assert "Add a fact" not in main(visitor.get("/facts/")).words
        assert Fact.objects.count() == 0

    def test_it_stores_under_the_persons_name(self, adder: Client) -> None:
        response = adder.post(
            "/facts/", NEW | {"confidence": "0.7", "project": "p", "session_id": "s"}, follow=True
        )
        made = Fact.objects.get()
        assert (made.subject, made.object, made.confidence, made.project) == (
            "the lock",
            "the writer",
            0.7,
            "p",
        )
        assert made.author == "user:ada"
        assert "Stored." in main(response).words
        assert JournalEntry.objects.get(object_type="fact").actor == "user:ada"

    def test_the_same_triple_again_is_shown(self, adder: Client, fact: StoreFact) -> None:
        fact("the lock", "is held by", "the writer", confidence=0.2)
        response = adder.post("/facts/", NEW | {"confidence": "0.8"}, follow=True)
        assert "already exists. Its confidence is updated" in main(response).words
        assert Fact.objects.get().confidence == 0.8

    def test_adding_a_fact_to_a_memory_returns_to_the_memory(self, adder: Client, remember: Remember) -> None:
        memory = remember(project="p")
        [link] = [link for link in main(adder.get(f"/memories/{memory.uid}/")).links() if "add=1" in link]
        form = page(adder.get(link))
        assert form.value_of("memory_id") == memory.uid
        response = adder.post("/facts/", NEW | {"memory_id": memory.uid})
        assert response["Location"] == f"/memories/{memory.uid}/"
        assert Fact.objects.get().memory == memory

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("subject", " "),
            ("predicate", "p" * 201),
            ("object", ""),
            ("confidence", "1.1"),
            ("memory_id", "nothing"),
        ],
    )
    def test_an_error_is_shown_at_its_field_and_the_rest_stays_typed(
        self, adder: Client, field: str, value: str
    ) -> None:
        response = adder.post("/facts/", NEW | {"session_id": "kept"} | {field: value})
        assert response.status_code == 422
        assert response.context["add"].errors[field]
        assert 'value="kept"' in response.content.decode()
        assert Fact.objects.count() == 0

    def test_a_hidden_memory_is_treated_as_missing(self, adder: Client, remember: Remember) -> None:
        memory = remember(sensitivity="secret")
        response = adder.post("/facts/", NEW | {"memory_id": memory.uid})
        assert response.status_code == 422
        assert "There is no such memory" in main(response).words

    def test_a_level_that_one_may_never_see_is_refused(self, sign_in: Any) -> None:
        client = sign_in("add_fact", "view_private")
        assert client.post("/facts/", NEW | {"sensitivity": "secret"}).status_code == 422
        assert Fact.objects.count() == 0

    def test_a_fact_stored_with_a_hidden_level_names_the_switch(self, sign_in: Any) -> None:
        client = sign_in("add_fact", "view_secret")
        page = client.post("/facts/", NEW | {"sensitivity": "secret"}, follow=True)
        assert "It is secret: show secret memories in the Visibility menu to see it." in main(page).words
        assert Fact.objects.get().sensitivity == "secret"


def confirm(client: Client, asked: Any) -> Any:
    """Press the button of the page that asks."""
    page = main(asked)
    fields = {name: page.value_of(name) for name in ("uid", "next", "confirmed")}
    return client.post("/facts/delete/", fields)


class TestDelete:
    def test_it_needs_its_permission(self, visitor: Client, fact: StoreFact) -> None:
        made = fact()
        assert visitor.post(f"/facts/{made.uid}/delete/").status_code == 403
        assert Fact.objects.exists()

    def test_it_asks_first_and_then_deletes_and_journals(self, sign_in: Any, fact: StoreFact) -> None:
        made = fact()
        client = sign_in("delete_fact")
        asked = client.post(f"/facts/{made.uid}/delete/")
        assert "Permanently delete 1 fact?" in main(asked).words
        assert "This cannot be undone." in main(asked).words
        assert Fact.objects.exists()
        response = confirm(client, asked)
        assert "1 fact is deleted permanently." in main(client.get(response["Location"])).words
        assert not Fact.objects.exists()
        assert JournalEntry.objects.get(operation="delete").actor == "user:ada"

    def test_a_fact_changed_before_the_confirmation_stays(self, sign_in: Any, fact: StoreFact) -> None:
        made = fact("ada", "works at", "Acme")
        client = sign_in("delete_fact")
        asked = client.post(f"/facts/{made.uid}/delete/")
        fact("ada", "works at", "Acme", confidence=0.5)
        confirm(client, asked)
        assert Fact.objects.filter(pk=made.pk).exists()

    @pytest.mark.parametrize("page", ["/memories/{}/", "/facts/{}/"])
    def test_deleting_returns_to_the_page_it_was_started_on(
        self, sign_in: Any, fact: StoreFact, remember: Remember, page: str
    ) -> None:
        memory = remember()
        made = fact(memory_id=memory.uid)
        client = sign_in("delete_fact")
        there = page.format(memory.uid if "memories" in page else made.uid)
        shown = main(client.get(there))
        [button] = [one for one in shown.all("button") if one.get("form") == "fact-actions"]
        asked = client.post(button["formaction"], {"next": shown.value_of("next")})
        assert there in main(asked).links()
        # The page of a fact that is gone is no place to go to.
        assert confirm(client, asked)["Location"] == (there if "memories" in page else "/facts/")
        assert not Fact.objects.filter(pk=made.pk).exists()

    def test_a_link_alone_deletes_nothing(self, sign_in: Any, fact: StoreFact) -> None:
        assert sign_in("delete_fact").get(f"/facts/{fact().uid}/delete/").status_code == 405


class TestPage:
    def test_no_text_is_rendered_as_markup(self, sign_in: Any, fact: StoreFact) -> None:
        fact(PAYLOAD, PAYLOAD, PAYLOAD, project=PAYLOAD[:100], session_id=PAYLOAD[:100])
        client = sign_in("add_fact", "delete_fact")
        assert find_dangers(client.get("/facts/").content.decode()) == []
        refused = client.post("/facts/", dict.fromkeys(NEW, PAYLOAD) | {"confidence": PAYLOAD})
        assert refused.status_code == 422
        assert find_dangers(refused.content.decode()) == []

    def test_the_number_of_queries_does_not_grow(
        self, sign_in: Any, fact: StoreFact, remember: Remember
    ) -> None:
        client = sign_in("add_fact", "delete_fact")
        counts = []
        for n in range(2):
            for m in range(1 + 12 * n):
                fact(f"s{n}{m}", memory_id=remember(f"m{n}{m}").uid, project="p")
            with CaptureQueriesContext(connection) as queries:
                client.get("/facts/")
            counts.append(len(queries))
        assert counts[0] == counts[1]

    def test_facts_of_a_trashed_memory_end_with_it(
        self, visitor: Client, fact: StoreFact, remember: Remember, actor: Actor
    ) -> None:
        memory = remember()
        fact("gone", memory_id=memory.uid)
        memories.trash_memories([memory.uid], actor)
        assert subjects(visitor) == []

    def test_subject_and_object_link_to_their_pages(self, visitor: Client, fact: StoreFact) -> None:
        fact("Mara & co", "lives in", "Skagen")
        links = main(visitor.get("/facts/")).links()
        assert {"/things/?name=Mara+%26+co", "/things/?name=Skagen"} <= set(links)

    def test_an_empty_list_says_what_a_fact_is(self, visitor: Client) -> None:
        assert "No facts yet" in main(visitor.get("/facts/")).words
        assert "No facts match" in main(visitor.get("/facts/?subject=x")).words


class TestMarks:
    """The hub's own notes of where a session changes its subject."""

    @pytest.fixture(autouse=True)
    def two(self, fact: StoreFact) -> None:
        fact("zebra", "eats", "oats")
        fact("session:night", "boundary_at", "{}")

    def test_marks_are_left_out_and_the_page_mentions_it(self, visitor: Client) -> None:
        assert subjects(visitor) == ["zebra"]
        assert 'href="?marks=on"' in visitor.get("/facts/").content.decode()

    @each("query", [{"marks": "on"}, {"predicate": "boundary_at"}, {"subject": "session:night"}])
    def test_marks_are_shown_on_request(self, visitor: Client, query: dict[str, str]) -> None:
        assert "session:night" in subjects(visitor, **query)
        assert "Show them" not in visitor.get("/facts/", query).content.decode()

    def test_without_segment_facts_there_is_no_hint(self, visitor: Client) -> None:
        Fact.objects.filter(predicate="boundary_at").delete()
        assert "Show them" not in visitor.get("/facts/").content.decode()
