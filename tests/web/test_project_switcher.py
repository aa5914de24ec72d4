"""The project switcher of the sidebar: it narrows pages to one project, and never widens them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memoryhub.models import Membership, Memory
from tests.cases import each

PATHS = ["/", "/memories/", "/memories/?q=lions+geese&min_score=0", "/timeline/entries/"]
HTMX = {"HX-Request": "true", "HX-Current-URL": "http://testserver/memories/?type=fact"}


def choose(client: Client, project: str, **more: str) -> Any:
    return client.post("/projects/choose/", {"chosen": project, **more})


def words(client: Client, path: str) -> str:
    return str(client.get(path).content.decode())


@pytest.fixture
def two_projects(remember: Any) -> None:
    remember("lions sleep", project="zoo")
    remember("geese march", project="farm")


@pytest.mark.usefixtures("two_projects")
class TestScope:
    @each("path", PATHS)
    def test_pages_show_only_the_chosen_project(self, visitor: Client, path: str) -> None:
        assert choose(visitor, "zoo").status_code == 302
        page = words(visitor, path)
        assert "sleep" in page
        assert "march" not in page
        choose(visitor, "")
        assert "march" in words(visitor, path)

    def test_a_printed_list_names_the_chosen_project(self, visitor: Client) -> None:
        choose(visitor, "zoo")
        lines = [
            re.sub(
                "<[^>]+>", "", " ".join(re.findall(r'<p class="print-only">(.+)</p>', words(visitor, path)))
            )
            for path in ("/memories/", "/memories/?q=lions", "/memories/?q=geese&project=farm")
        ]
        # Another project than the chosen one is a filter, which has a chip.
        assert [line.strip() for line in lines] == [
            "Project: zoo",
            "Search: lions in project zoo",
            "Search: geese",
        ]

    @each(
        "path, filters",
        [
            ("/facts/?predicate=is&state=all", "predicate: is · state: all of them · project: zoo"),
            ("/sessions/?q=lions", "lions · project: zoo"),
            ("/timeline/entries/?type=bugfix", "type: bugfix · project: zoo"),
            ("/journal/?operation=update", "operation: update · project: zoo"),
            ("/injections/", "project: zoo"),
            ("/trash/", "project zoo"),
            ("/glance/", "project: zoo"),
            ("/connect/", ""),
        ],
    )
    def test_printed_pages_name_the_project_and_the_filters(
        self, visitor: Client, path: str, filters: str
    ) -> None:
        choose(visitor, "zoo")
        printed = re.findall(
            r'<p class="print-only">Filter: <span dir="auto">(.+)</span></p>', words(visitor, path)
        )
        assert printed == ([filters] if filters else [])

    def test_trash_and_its_selection_are_of_the_chosen_project(self, writer: Client, remember: Any) -> None:
        for memory in (remember("old lions", project="zoo"), remember("old geese", project="farm")):
            writer.post(f"/memories/{memory.uid}/trash/")
        words(writer, "/trash/")  # shows the messages of both
        choose(writer, "zoo")
        page = words(writer, "/trash/")
        assert "old lions" in page
        assert "old geese" not in page

    def test_an_address_with_a_project_shows_that_one(self, visitor: Client) -> None:
        choose(visitor, "zoo")
        page = words(visitor, "/memories/?project=farm")
        assert "geese march" in page
        assert 'aria-label="Project: farm"' in page

    def test_pages_about_one_thing_are_not_narrowed(self, visitor: Client, remember: Any) -> None:
        goose = remember("a goose", project="farm")
        choose(visitor, "zoo")
        assert visitor.get(f"/memories/{goose.uid}/").status_code == 200

    def test_the_filter_of_the_sidebar_is_no_chip(self, visitor: Client) -> None:
        choose(visitor, "zoo")
        assert 'class="chip"' not in words(visitor, "/memories/")

    def test_the_choice_ends_with_the_session(self, visitor: Client) -> None:
        choose(visitor, "zoo")
        visitor.post("/logout/")
        visitor.login(username="ada", password="a good password")
        assert "geese march" in words(visitor, "/memories/")

    def test_it_returns_to_the_list_without_the_other_project_and_page(self, visitor: Client) -> None:
        there = "/memories/?project=farm&type=fact&cursor=abc"
        assert choose(visitor, "zoo", next=there)["Location"] == "/memories/?type=fact"
        assert choose(visitor, "zoo", next="https://elsewhere.example/")["Location"] == "/"


class TestAccess:
    def test_only_visible_projects_are_listed(self, sign_in: Any, remember: Any) -> None:
        for level in ("private", "secret", "cosmic"):
            memory = remember(f"hidden {level}", project=f"{level}-vault")
            Memory.objects.filter(pk=memory.pk).update(sensitivity=level)
        remember("open", project="hall")
        remember("hers", project="diary", scope="personal")
        client = sign_in("view_private", "view_secret", name="bob")
        page = client.get("/projects/menu/", headers=HTMX).content.decode()
        assert 'value="hall"' in page
        assert "vault" not in page
        assert "diary" not in page

    @pytest.mark.parametrize("name", ["vault", "nowhere"])
    def test_a_hidden_project_is_refused_like_a_missing_one(
        self, visitor: Client, remember: Any, name: str
    ) -> None:
        remember("hidden", project="vault", sensitivity="private")
        choose(visitor, name)
        page = words(visitor, "/memories/")
        assert "Project not found" in page
        assert 'aria-label="Project: all projects"' in page

    def test_a_person_of_one_project_chooses_no_other(self, sign_in: Any, two_projects: None) -> None:
        client = sign_in(name="bob")
        Membership.objects.create(user=User.objects.get(username="bob"), project="zoo")
        assert 'value="farm"' not in client.get("/projects/menu/", headers=HTMX).content.decode()
        choose(client, "farm")
        assert "geese march" not in words(client, "/memories/")

    def test_a_project_that_was_closed_shows_nothing(self, sign_in: Any, two_projects: None) -> None:
        client = sign_in(name="bob")
        choose(client, "farm")
        Membership.objects.create(user=User.objects.get(username="bob"), project="zoo")
        for path in ("/", "/memories/", "/trash/", "/facts/", "/journal/", "/sessions/"):
            page = words(client, path)
            assert "geese march" not in page, path
            assert "lions sleep" not in page, path

    def test_it_needs_a_login_and_a_post(self, client: Client, visitor: Client) -> None:
        assert client.post("/projects/choose/")["Location"].startswith("/login/")
        assert visitor.get("/projects/choose/").status_code == 405
