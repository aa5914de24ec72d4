"""Saved searches: private to their owner, exact, and for the hub's own lists only."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub.memories.errors import Conflict, NotFound, StoreError
from memoryhub.models import SavedSearch
from memoryhub.web import saved_searches
from memoryhub.web.saved_searches import LISTS, list_address_at, to_list_address, without_position
from tests.cases import each
from tests.web.markup import PAYLOAD, Page, find_dangers, main

HTMX = {"HX-Request": "true"}
QUERY = "q=tide+tables&type=decision&project=&tag=%C3%A9t%C3%A9&tag=b"


@pytest.fixture
def ada(person: Any) -> User:
    return person("ada")


@pytest.fixture
def client(ada: User) -> Client:
    one = Client()
    one.force_login(ada)
    return one


def save(client: Client, name: str = "Tides", page: str = "memories", query: str = QUERY, **more: str) -> Any:
    return client.post("/searches/", {"name": name, "page": page, "query": query, **more}, follow=True)


@pytest.mark.parametrize(
    ("page", "query", "description"),
    [
        ("memories", "order=-accessed_count&expiring=1", "sort: Most read · expiring soon"),
        ("memories", "project=hub&session_id=s1", "project: hub · session: s1"),
        ("memories", "q=tide+tables&type=session_summary", "tide tables · type: session summary"),
        ("injections", "outcome=filled", "outcome: with memories"),
        ("journal", "operation=reveal", "operation: reveal"),
        ("memories", "order=sideways&elsewhere=1", "sort: sideways · elsewhere 1"),
        ("trash", "", "everything"),
    ],
)
def test_filters_are_described_with_the_labels_of_the_list(page: str, query: str, description: str) -> None:
    saved = to_list_address(page, query)
    assert saved is not None
    assert saved.description == description


class TestSaving:
    def test_saved_search_opens_with_its_filters(self, client: Client) -> None:
        assert "Saved as “Tides”" in main(save(client)).words
        [search] = SavedSearch.objects.all()
        assert (search.page, search.query, search.user.username) == ("memories", QUERY, "ada")
        links = main(client.get("/searches/")).links()
        assert f"/memories/?{QUERY}" in links
        assert client.get(f"/memories/?{QUERY}").status_code == 200

    @each("page", LISTS)
    def test_every_list_offers_to_be_saved_and_opens(self, client: Client, page: str) -> None:
        whole = to_list_address(page, "project=p&cursor=abc&page=3")
        assert whole is not None
        assert whole.query == "project=p"
        shown = client.get(whole.href)
        assert shown.status_code == 200
        assert whole.save_href in main(shown).links()
        form = main(client.get(whole.save_href))
        assert (form.value_of("page"), form.value_of("query")) == (page, "project=p")

    @each("page", ["", "home", "memory", "logout", "https://elsewhere.example", "//x", "admin:index"])
    def test_only_lists_can_be_saved(self, client: Client, page: str) -> None:
        assert save(client, page=page).status_code == 400
        assert not SavedSearch.objects.exists()

    @each(
        "query",
        [
            "//elsewhere.example",
            "#x",
            "a=1\r\nSet-Cookie: x",
            'q="><script>alert(1)</script>',
            "q=\x00",
            "?q=1",
            "&&",
            "é=é",
        ],
    )
    def test_a_link_never_leaves_the_list(self, client: Client, query: str) -> None:
        assert save(client, query=query).status_code == 200
        response = client.get("/searches/")
        assert find_dangers(response.content.decode()) == []
        [link] = [one for one in main(response).links() if one.startswith("/memories/")]
        assert link.partition("?")[0] == "/memories/"
        assert all(sign not in link for sign in '#\r\n\x00<>" ')
        assert client.get(link).status_code < 500

    def test_a_name_that_is_taken_is_asked_about_before_it_is_replaced(self, client: Client) -> None:
        save(client)
        again = save(client, query="q=other")
        assert again.status_code == 422
        page = Page(again.content.decode().partition('class="saved-form"')[2].partition("</form>")[0])
        assert "a search with this name" in page.words
        assert page.value_of("name") == "Tides"
        assert page.value_of("query") == "q=other"
        assert SavedSearch.objects.get().query == QUERY
        assert save(client, query="q=other", replace="1").status_code == 200
        assert SavedSearch.objects.get().query == "q=other"

    def test_the_same_twice_is_no_conflict(self, client: Client) -> None:
        save(client)
        assert save(client, name="  Tides ").status_code == 200
        assert SavedSearch.objects.count() == 1

    @each(
        "name, message",
        [
            ("", "The name must be"),
            (" ", "The name must be"),
            ("x" * 101, "1 to 100"),
            ("a\x07", "printable"),
        ],
    )
    def test_a_name_is_corrected_in_place(self, client: Client, name: str, message: str) -> None:
        answer = save(client, name=name)
        assert answer.status_code == 422
        assert message in main(answer).words

    def test_a_query_that_is_too_long_is_shown(self, client: Client) -> None:
        answer = save(client, query="q=" + "x" * 2000)
        assert answer.status_code == 422
        assert "more than 2000" in main(answer).words

    def test_there_is_an_end_to_them(self, ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(saved_searches, "MAX_SAVED_SEARCHES", 2)
        for name in ("one", "two"):
            saved_searches.save_search(ada, name, "memories", "")
        with pytest.raises(Conflict, match="2 saved searches"):
            saved_searches.save_search(ada, "three", "memories", "")
        saved_searches.save_search(ada, "two", "memories", "q=1", replace=True)


class TestOnesOwn:
    @pytest.fixture
    def theirs(self, person: Any) -> SavedSearch:
        return saved_searches.save_search(person("bob"), "Harvest of Bob", "memories", "q=bob")

    def test_searches_of_others_are_not_shown(self, client: Client, theirs: SavedSearch) -> None:
        at = {"HX-Current-URL": "http://testserver/memories/?q=bob"}
        for response in (
            client.get("/searches/"),
            client.get("/searches/menu/", headers=HTMX | at),
            client.get("/palette/", {"q": "bob"}),
            client.get("/palette/"),
        ):
            assert "Harvest" not in response.content.decode()

    @pytest.mark.parametrize("action", ["rename", "delete"])
    def test_searches_of_others_cannot_be_changed(
        self, client: Client, theirs: SavedSearch, action: str
    ) -> None:
        answer = client.post(f"/searches/{theirs.uid}/{action}/", {"name": "mine"})
        assert answer.status_code == 404
        assert SavedSearch.objects.get().name == "Harvest of Bob"

    def test_two_people_may_use_one_name(self, client: Client, theirs: SavedSearch) -> None:
        assert save(client, name="Harvest of Bob").status_code == 200
        assert SavedSearch.objects.count() == 2

    def test_it_ends_with_the_account(self, theirs: SavedSearch) -> None:
        theirs.user.delete()
        assert not SavedSearch.objects.exists()


class TestChanging:
    @pytest.fixture
    def search(self, ada: User) -> SavedSearch:
        return saved_searches.save_search(ada, "Tides", "memories", "tag=tide")

    def test_it_is_renamed(self, client: Client, search: SavedSearch) -> None:
        page = client.post(f"/searches/{search.uid}/rename/", {"name": "Low water"}, follow=True)
        assert "Low water" in main(page).words
        assert SavedSearch.objects.get().name == "Low water"

    @each("name", ["", "Other", "x" * 101])
    def test_an_invalid_name_is_reported_at_its_field(
        self, client: Client, search: SavedSearch, ada: User, name: str
    ) -> None:
        saved_searches.save_search(ada, "Other", "memories", "")
        answer = client.post(f"/searches/{search.uid}/rename/", {"name": name})
        assert answer.status_code == 422
        fields = [one for one in main(answer).all("input") if one.get("id") == f"name-{search.uid}"]
        assert [one["value"] for one in fields] == [name]
        assert SavedSearch.objects.filter(name="Tides").exists()

    def test_it_is_deleted_and_comes_back(self, client: Client, search: SavedSearch) -> None:
        page = main(client.post(f"/searches/{search.uid}/delete/", follow=True))
        assert "Deleted: Tides" in " ".join(page.words.split())
        assert not SavedSearch.objects.exists()
        fields = {name: page.value_of(name) for name in ("name", "page", "query")}
        client.post("/searches/", fields)
        back = SavedSearch.objects.get()
        assert (back.name, back.page, back.query) == ("Tides", "memories", "tag=tide")

    @pytest.mark.parametrize("action", ["rename", "delete"])
    def test_a_link_changes_nothing(self, client: Client, search: SavedSearch, action: str) -> None:
        assert client.get(f"/searches/{search.uid}/{action}/").status_code == 405

    def test_missing_rows_are_not_found(self, ada: User) -> None:
        with pytest.raises(NotFound):
            saved_searches.delete_search(ada, "nothing")
        with pytest.raises(StoreError):
            saved_searches.rename_search(ada, "nothing", "")


class TestMenu:
    def menu(self, client: Client, address: str) -> Any:
        return client.get("/searches/menu/", headers=HTMX | {"HX-Current-URL": address})

    def test_it_lists_the_searches_of_this_list_and_marks_the_open_one(
        self, client: Client, ada: User
    ) -> None:
        saved_searches.save_search(ada, "Here", "memories", "q=1")
        saved_searches.save_search(ada, "Here too", "memories", "q=2")
        saved_searches.save_search(ada, "Elsewhere", "journal", "q=1")
        page = Page(self.menu(client, "http://testserver/memories/?q=1&page=4").content.decode())
        hrefs = {one["href"]: one.get("aria-current", "") for one in page.all("a")}
        assert hrefs == {"/memories/?q=1": "true", "/memories/?q=2": "", "/searches/": ""}
        assert (page.value_of("page"), page.value_of("query")) == ("memories", "q=1")

    @each(
        "address",
        [
            "",
            "http://testserver/",
            "http://testserver/admin/",
            "http://[",
            "x:y",
            "http://testserver/nowhere/",
        ],
    )
    def test_a_page_that_is_no_list_has_none(self, client: Client, address: str) -> None:
        assert self.menu(client, address).status_code == 302
        assert list_address_at(address) is None

    def test_saving_in_it_answers_in_it(self, client: Client) -> None:
        fields = {"name": "Mine", "page": "journal", "query": "actor=ada"}
        done = client.post("/searches/", fields, headers=HTMX).content.decode()
        assert "<html" not in done
        assert "Saved as “Mine”" in Page(done).words
        wrong = client.post("/searches/", fields | {"name": ""}, headers=HTMX)
        assert wrong.status_code == 422
        assert b"<html" not in wrong.content

    def test_hostile_names_stay_texts(self, client: Client) -> None:
        save(client, name=PAYLOAD[:90], query=f"q={PAYLOAD}")
        at = {"HX-Current-URL": "http://testserver/memories/"}
        for response in (
            client.get("/searches/"),
            client.get("/searches/menu/", headers=HTMX | at),
            client.get("/palette/"),
            client.get("/searches/", {"page": "memories", "query": PAYLOAD}),
        ):
            assert find_dangers(response.content.decode()) == []


class TestPalette:
    def test_a_search_is_found_by_its_name(self, client: Client, ada: User) -> None:
        saved_searches.save_search(ada, "Low tides", "facts", "subject=tide")
        assert (
            Page(client.get("/palette/", {"q": "tid"}).content.decode()).links()[0] == "/facts/?subject=tide"
        )
        assert (
            "/facts/?subject=tide" not in Page(client.get("/palette/", {"q": "ebb"}).content.decode()).links()
        )


class TestSidebar:
    def links(self, page: str) -> list[str]:
        return Page(page.partition('id="sidebar-saved"')[2].partition("</div>")[0]).links()

    def test_searches_of_memories_are_listed_on_their_page(self, client: Client, ada: User) -> None:
        saved_searches.save_search(ada, "Low tides", "memories", "q=tide")
        saved_searches.save_search(ada, "Elsewhere", "journal", "q=1")
        page = client.get("/memories/").content.decode()
        assert self.links(page) == ["/memories/?q=tide"]
        assert 'id="sidebar-saved"' not in client.get("/trash/").content.decode()

    def test_more_than_eight_link_to_all(self, client: Client, ada: User) -> None:
        for number in range(9):
            saved_searches.save_search(ada, f"search {number}", "memories", f"q={number}")
        page = client.get("/memories/").content.decode()
        assert self.links(page)[7:] == ["/memories/?q=7", "/searches/"]

    def test_saving_a_search_adds_it_while_the_page_is_open(self, client: Client) -> None:
        fields = {"name": "Mine", "page": "memories", "query": "q=tide"}
        done = client.post("/searches/", fields, headers=HTMX).content.decode()
        assert '<div id="sidebar-saved" hx-swap-oob="true">' in done
        assert done.count('href="/memories/?q=tide"') == 2


class TestWithoutCost:
    def test_a_list_does_not_query_saved_searches(self, client: Client, ada: User) -> None:
        saved_searches.save_search(ada, "one", "journal", "")
        with CaptureQueriesContext(connection) as queries:
            client.get("/journal/")
        assert not [one["sql"] for one in queries if "savedsearch" in one["sql"]]

    def test_the_queries_do_not_grow_with_the_searches(self, client: Client, ada: User) -> None:
        counted = []
        client.get("/searches/")  # caches the counts of the navigation
        for number in range(12):
            saved_searches.save_search(ada, f"search {number}", "memories", f"q={number}")
            if number in (0, 11):
                with CaptureQueriesContext(connection) as queries:
                    client.get("/searches/")
                counted.append(len(queries))
        assert counted[0] == counted[1]


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("?q=1", "q=1"),
        ("q=1&cursor=x&page=2&before=3", "q=1"),
        ("&&q=1&", "q=1"),
        ("a=%C3%A9+b&a=2", "a=%C3%A9+b&a=2"),
        ("a=é b", "a=%C3%A9+b"),
        ("", ""),
    ],
)
def test_a_query_is_kept_as_it_is_but_for_the_place_in_the_list(query: str, left: str) -> None:
    assert without_position(query) == left
