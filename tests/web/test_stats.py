"""The statistics page: its numbers, the lists they link to, and their visibility."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact, Injection, Membership, Memory
from memoryhub.stats.usage import HEALTH_ISSUES
from tests.cases import each
from tests.web.duplicates_page import DUPLICATE_TEXT
from tests.web.stats_page import (
    count_listed,
    create_event,
    create_injection,
    link_file,
    section_text,
    set_age,
    table_row,
    text_of,
)

pytestmark = pytest.mark.django_db


class TestProject:
    @pytest.fixture(autouse=True)
    def two(self, remember: Any, actor: Any) -> None:
        for project in ("zoo", "circus"):
            memory = remember(f"old {project}", project=project, type="decision")
            set_age(memory, 100)
            for name in ("Bram", "Mara"):
                draft = FactDraft(subject="board", predicate="led_by", object=name, project=project)
                services.create_fact(draft, actor)
        create_injection()
        Injection.objects.create(project="circus", injected=[])

    def test_numbers_are_of_the_requested_project(self, visitor: Client) -> None:
        here = "/glance/?project=zoo"
        assert table_row(visitor, "Stale", here).endswith("days 1 100%")
        assert table_row(visitor, "Contradicting facts", here).endswith("true 1")
        assert table_row(visitor, "decision", here) == "decision 1 1"
        assert "with memories 1" in section_text(visitor, "Injections", here)
        assert "empty 1" not in section_text(visitor, "Injections", here)

    def test_project_with_everything_in_the_trash_links_to_its_trash(self, visitor: Client) -> None:
        Memory.objects.filter(project="zoo").update(deleted_at=timezone.now())
        Fact.objects.all().delete()
        page = visitor.get("/glance/?project=zoo").content.decode()
        assert "All memories of this project are in the trash" in text_of(page)
        assert 'href="/trash/?project=zoo"' in page

    def test_links_keep_the_project(self, visitor: Client) -> None:
        page = visitor.get("/glance/?project=zoo").content.decode()
        main = page[page.index("<main") : page.index("</main>")]
        lists = re.findall(r'href="(/(?:memories|injections|journal|facts|duplicates)/[^"]*)"', main)
        assert len(lists) > 10
        assert [one for one in lists if "project=zoo" not in one] == []

    def test_file_sizes_are_omitted_for_a_project(self, visitor: Client) -> None:
        assert "Storage" not in visitor.get("/glance/?project=zoo").content.decode()

    def test_hidden_project_looks_like_a_missing_one(self, sign_in: Any) -> None:
        client = sign_in(name="bob")
        Membership.objects.create(user=User.objects.get(username="bob"), project="zoo")
        shown = [
            text_of(client.get(f"/glance/?project={name}").content.decode()).replace(f" {name} ", " ")
            for name in ("circus", "none")
        ]
        assert shown[0] == shown[1]
        assert "This project has no memories" in shown[0]


class TestHealth:
    def test_memory_not_read_or_changed_for_long_is_stale(self, visitor: Client, remember: Any) -> None:
        set_age(remember("old"), 91)
        set_age(remember("old but read"), 91, last_accessed_at=timezone.now(), accessed_count=1)
        remember("new")
        assert "days 1 33.3%" in table_row(visitor, "Stale")

    def test_memory_never_read_for_long_is_unused(self, visitor: Client, remember: Any) -> None:
        set_age(remember("old"), 31)
        set_age(remember("old but read"), 31, accessed_count=1)
        remember("new has not had its chance")
        assert "more 1 33.3%" in table_row(visitor, "Never used")

    def test_memories_without_files_or_project_are_counted(self, visitor: Client, remember: Any) -> None:
        link_file(remember("one", project="zoo"))
        remember("two")
        remember("three", project="zoo")
        assert "file 2 66.7%" in table_row(visitor, "Without files")
        assert "project 1 33.3%" in table_row(visitor, "Without a project")

    def test_contradictions_are_counted_and_linked(self, visitor: Client, remember: Any, actor: Any) -> None:
        remember("one")
        for name in ("Bram", "Mara"):
            services.create_fact(FactDraft(subject="board", predicate="led_by", object=name), actor)
        assert table_row(visitor, "Contradicting facts").endswith("true 1")
        assert 'href="/facts/contradictions/"' in visitor.get("/glance/").content.decode()

    @pytest.mark.usefixtures("embedding")
    def test_near_duplicates_are_counted_in_a_fragment(self, visitor: Client, alike: Any) -> None:
        assert 'hx-get="/glance/duplicates/"' in visitor.get("/glance/").content.decode()
        assert text_of(visitor.get("/glance/duplicates/").content.decode()) == "2 in 1 cluster"

    @pytest.mark.usefixtures("embedding")
    def test_near_duplicates_are_compared_once_without_a_change(
        self, visitor: Client, alike: Any, actor: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        visitor.get("/glance/duplicates/")
        with monkeypatch.context() as patch:
            patch.delattr("memoryhub.web.duplicates.presenters.find_clusters")
            assert text_of(visitor.get("/glance/duplicates/").content.decode()) == "2 in 1 cluster"
        memories.trash_memories([alike[0].uid], actor)
        assert text_of(visitor.get("/glance/duplicates/").content.decode()) == "none"

    @pytest.mark.usefixtures("embedding")
    def test_hidden_duplicates_are_not_served_from_the_cache(
        self, insider: Client, sign_in: Any, remember: Any
    ) -> None:
        for text in (DUPLICATE_TEXT, f"{DUPLICATE_TEXT} at two"):
            remember(text, project="p", sensitivity="secret")
        assert text_of(insider.get("/glance/duplicates/").content.decode()).startswith("2 ")
        assert text_of(sign_in(name="bob").get("/glance/duplicates/").content.decode()) == "none"

    @each("issue", HEALTH_ISSUES)
    def test_each_issue_links_to_a_list_of_as_many(self, visitor: Client, remember: Any, issue: str) -> None:
        set_age(remember("neglected", title="neglected"), 100)
        healthy = remember("healthy", title="healthy", project="zoo")
        link_file(healthy)
        page = visitor.get("/glance/").content.decode()
        assert f'href="/memories/?issue={issue}"' in page
        listed = text_of(visitor.get(f"/memories/?issue={issue}").content.decode())
        assert "1 memory " in listed
        assert f"Issue {issue}" in listed
        assert "healthy" not in listed

    def test_unknown_issue_is_refused(self, visitor: Client) -> None:
        response = visitor.get("/memories/?issue=cold")
        assert response.status_code == 422
        assert "“cold” is not among the choices" in response.content.decode()


class TestMemories:
    def test_empty_store_is_reported(self, visitor: Client) -> None:
        assert "No memories yet" in text_of(visitor.get("/glance/").content.decode())

    def test_importance_is_shown_by_age(self, visitor: Client, remember: Any) -> None:
        remember("new and dear", importance=0.9)
        set_age(remember("old and cheap", importance=0.1), 400)
        set_age(remember("a fortnight", importance=0.5), 14)
        assert table_row(visitor, "0.8–1") == "0.8–1 1 0 0 0 0 0"
        assert table_row(visitor, "0.4–0.6") == "0.4–0.6 0 1 0 0 0 0"
        assert table_row(visitor, "0–0.2") == "0–0.2 0 0 0 0 0 1"

    @each("days", [0, 6, 7, 30, 365])
    def test_each_cell_of_importance_links_to_a_list_of_as_many(
        self, visitor: Client, remember: Any, days: int
    ) -> None:
        for importance in (0.0, 0.2, 0.799, 0.8, 1.0):
            set_age(remember(f"worth {importance}", importance=importance), days)
        page = visitor.get("/glance/").content.decode()
        cells = re.findall(r'<a class="plain" href="(/memories/\?worth=[^"]+)">(\d+)</a>', page)
        assert sorted(int(count) for _, count in cells) == [1, 1, 1, 2]
        assert [count_listed(visitor, address) for address, _ in cells] == [int(count) for _, count in cells]

    def test_each_number_of_reads_links_to_a_list_of_as_many(self, visitor: Client, remember: Any) -> None:
        for reads in (0, 1, 4, 5):
            set_age(remember(f"read {reads}", type="decision"), 1, accessed_count=reads)
        page = visitor.get("/glance/").content.decode()
        cells = re.findall(r'href="(/memories/\?type=decision&amp;reads=\w+)">(\d+)</a>', page)
        assert [int(count) for _, count in cells] == [1, 2, 1]
        assert [count_listed(visitor, address) for address, _ in cells] == [1, 2, 1]

    def test_day_of_expiry_links_to_its_memories(self, visitor: Client, remember: Any) -> None:
        remember("soon", ttl_days=3)
        remember("soon too", ttl_days=3, type="decision")
        remember("later", ttl_days=4)
        page = visitor.get("/glance/").content.decode()
        cells = re.findall(r'<th scope="row"><a href="(/memories/\?ends=[^"]+)">', page)
        assert [count_listed(visitor, address) for address in cells] == [1, 2]

    def test_reads_are_counted_by_type(self, visitor: Client, remember: Any) -> None:
        for reads in (0, 0, 1, 4, 5):
            set_age(remember(f"read {reads} {timezone.now()}", type="decision"), 1, accessed_count=reads)
        assert table_row(visitor, "decision") == "decision 1 2 2 5"

    def test_projects_and_categories_are_counted(self, visitor: Client, remember: Any) -> None:
        remember("one", project="zoo", category="farm")
        assert section_text(visitor, "By project") == "zoo 1"
        assert section_text(visitor, "By category") == "farm 1"

    def test_expiring_memories_are_shown_by_day(self, visitor: Client, remember: Any) -> None:
        remember("soon", ttl_days=3)
        remember("later", ttl_days=60)
        shown = section_text(visitor, "Expiring within 28 days")
        assert "Memories that expire in each day 1 from" in shown
        assert "Within 7 days" in shown

    def test_trashed_memories_are_not_counted(self, visitor: Client, remember: Any, actor: Any) -> None:
        remember("one")
        memories.trash_memories([remember("two").uid], actor)
        assert table_row(visitor, "Without files").endswith("file 1 100%")


class TestVisibility:
    def test_hidden_rows_are_not_counted(self, visitor: Client, remember: Any) -> None:
        before = text_of(visitor.get("/glance/").content.decode())
        actor = Actor("user:eve", Clearance.up_to("secret"))
        for level in ("private", "secret"):
            memory = remember(f"hush {level}", sensitivity=level, project="vault", ttl_days=3)
            create_event(level, memory)
            create_event(level, reason="too dull")
            create_injection(level)
            for name in ("Bram", "Mara"):
                draft = FactDraft(subject="board", predicate="led_by", object=name, sensitivity=level)
                services.create_fact(draft, actor)
        assert _without_sizes(text_of(visitor.get("/glance/").content.decode())) == _without_sizes(before)

    def test_visible_rows_are_counted(self, insider: Client, remember: Any) -> None:
        remember("hush", sensitivity="secret", project="vault")
        assert section_text(insider, "By project") == "vault 1"

    def test_file_sizes_are_hidden_from_viewers_of_less(self, sign_in: Any) -> None:
        assert "Storage" not in sign_in("view_private", name="eve").get("/glance/").content.decode()
        client = sign_in("view_private", "view_secret", name="bob")
        assert "Storage" in client.get("/glance/").content.decode()
        Membership.objects.create(user=User.objects.get(username="bob"), project="zoo")
        assert "Storage" not in client.get("/glance/").content.decode()


def _without_sizes(page: str) -> str:
    return page.partition("Storage")[0]


def test_number_of_queries_does_not_grow_with_the_rows(visitor: Client, remember: Any) -> None:
    counted = []
    for upto in (2, 12):
        for number in range(upto):
            memory = remember(f"memory {upto} {number}", project=f"p{number}", ttl_days=2)
            create_event(memory=memory)
            create_event(reason=f"why {number}")
            create_injection()
        visitor.get("/glance/")
        with CaptureQueriesContext(connection) as queries:
            visitor.get("/glance/")
        counted.append(len(queries))
    assert counted[0] == counted[1]
    assert counted[0] <= 25


def test_home_links_to_the_page(visitor: Client, remember: Any) -> None:
    remember("one")
    assert 'href="/glance/"' in visitor.get("/").content.decode()


HERE = "/glance/?project=circus"
NOTHING = "This project has no memories"


def say(actor: Actor, predicate: str, thing: str, **more: Any) -> None:
    fields: dict[str, Any] = {"project": "circus", **more}
    services.create_fact(FactDraft(subject="board", predicate=predicate, object=thing, **fields), actor)


def test_facts_are_counted_by_predicate_and_linked(visitor: Client, actor: Actor) -> None:
    say(actor, "hires", "Ada")
    say(actor, "hires", "Bob")
    say(actor, "owns", "a tent")
    assert (table_row(visitor, "hires", HERE), table_row(visitor, "owns", HERE)) == ("hires 2", "owns 1")
    page = visitor.get(HERE).content.decode()
    assert 'href="/facts/?predicate=hires&amp;project=circus"' in page
    assert NOTHING not in page


def test_contradictions_of_a_project_are_counted_and_linked(visitor: Client, actor: Actor) -> None:
    say(actor, "led_by", "Bram")
    assert "There are no contradictions" in section_text(visitor, "Facts", HERE)
    say(actor, "led_by", "Mara")
    assert "1 contradicting" in section_text(visitor, "Facts", HERE)
    assert 'href="/facts/contradictions/?project=circus"' in visitor.get(HERE).content.decode()


def test_facts_of_other_projects_are_not_counted(visitor: Client, actor: Actor) -> None:
    say(actor, "owns", "a lion", project="zoo")
    assert NOTHING in text_of(visitor.get(HERE).content.decode())


@pytest.mark.parametrize("level", ["private", "secret"])
def test_facts_above_the_clearance_look_like_none(visitor: Client, actor: Actor, level: str) -> None:
    say(actor, "keeps", "quiet", sensitivity=level)
    shown = [text_of(visitor.get(f"/glance/?project={name}").content.decode()) for name in ("circus", "none")]
    assert shown[0].replace("circus", "none") == shown[1]
    say(actor, "owns", "a tent")
    assert "keeps" not in text_of(visitor.get(HERE).content.decode())


def test_facts_of_a_hidden_project_look_like_none(sign_in: Any, actor: Actor) -> None:
    client = sign_in(name="bob")
    Membership.objects.create(user=User.objects.get(username="bob"), project="zoo")
    say(actor, "owns", "a tent")
    shown = [text_of(client.get(f"/glance/?project={name}").content.decode()) for name in ("circus", "none")]
    assert shown[0].replace("circus", "none") == shown[1]
    assert NOTHING in shown[0]


def test_old_address_of_an_issue_redirects_to_the_new_one(visitor: Client) -> None:
    response = visitor.get("/memories/?mend=stale&project=zoo")
    assert response["Location"] == "/memories/?project=zoo&issue=stale"
