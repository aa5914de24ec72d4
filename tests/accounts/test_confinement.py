"""Project membership limits what a person sees on every page, with a level per project."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, get_resolver
from django.utils import timezone

from memoryhub.access.policy import LEVELS
from memoryhub.accounts.clearance import user_clearance
from memoryhub.extraction import services
from memoryhub.models import (
    Extraction,
    Fact,
    Injection,
    JournalEntry,
    MaintenanceRun,
    Membership,
    Memory,
    ModelUse,
    Session,
)
from memoryhub.web import urls
from tests.accounts.conftest import seen, word
from tests.cases import each
from tests.clients import signed_in_client

# farm: every level by membership; barn: private by permission; zoo: no membership.
OPEN = {("farm", "public"), ("farm", "private"), ("farm", "secret"), ("barn", "public"), ("barn", "private")}
ALL_MINE = ("view_private", "add_agenttoken", "view_maintenancerun", "add_maintenancerun")
WITH_QUERY = {
    "memories/": [
        *("?q=zebra&min_score=0", "?q=words&min_score=0", "?q=words&min_score=0&order=-importance"),
        *("?sort=title", "?project=zoo", "?tag=tagzoopublicwords"),
    ],
    "facts/": ["?subject=zebra"],
    "journal/": ["?operation=insert"],
    "projects/names/": ["?project=z", "?q=z"],
    "timeline/entries/": ["?day=2020-01-01"],
    "duplicates/": ["?similarity=0.1"],
    "sessions/": ["?project=zoo"],
}


def pages() -> list[str]:
    """Return every page without path arguments, so that new pages are tested too."""
    plain = [str(one.pattern) for one in urls.urlpatterns if isinstance(one, URLPattern)]
    plain = [one for one in plain if "<" not in one and one not in ("login/", "logout/")]
    return ["/" + one + query for one in plain for query in ["", *WITH_QUERY.get(one, [])]]


def argued() -> list[str]:
    """Return every page about one object."""
    return [str(one.pattern) for one in urls.urlpatterns if "<slug:uid>" in str(one.pattern)]


def admin_lists() -> list[str]:
    names = [name for name in get_resolver().namespace_dict["admin"][1].reverse_dict if isinstance(name, str)]
    models = sorted(n.removesuffix("_changelist") for n in names if n.endswith("_changelist"))
    return [f"/admin/memoryhub/{name.removeprefix('memoryhub_')}/" for name in models if "memoryhub" in name]


@pytest.fixture
def ada(member: Any) -> User:
    return member(*ALL_MINE, farm="secret", barn="")


@pytest.fixture
def browser(ada: User) -> Client:
    return signed_in_client(ada, *LEVELS)


@pytest.mark.slow
@each("address", pages())
def test_no_page_shows_a_foreign_project(world, browser, address):
    response = browser.get(address)
    assert response.status_code < 500
    if "zoo" not in address:
        # zoom is no project; a random token or id may have the letters
        random = r'csrfmiddlewaretoken" value="\w+"|\b[a-z2-7]{16}\b'
        page = re.sub(random, "", response.getvalue().decode())
        assert not re.search(r"zoo(?!m)", page)
    echoed = seen(address)  # the page repeats the filter
    assert seen(response.getvalue().decode()) <= OPEN | echoed


@each("address", ["/", "/memories/", "/memories/?q=zebra&min_score=0"])
def test_a_list_shows_the_levels_of_each_project(world, browser, address):
    assert seen(browser.get(address).content.decode()) == OPEN


@each(
    "switches, open_now",
    [
        ((), {("farm", "public"), ("barn", "public")}),
        (("private",), {pair for pair in OPEN if pair[1] != "secret"}),
        (("secret",), {("farm", "public"), ("barn", "public"), ("farm", "secret")}),
    ],
)
def test_membership_level_needs_its_switch(world, ada, switches, open_now):
    assert seen(signed_in_client(ada, *switches).get("/memories/").content.decode()) == open_now


def test_a_membership_may_read_less_than_the_persons_permissions(world, member):
    bob = member("view_private", "view_secret", name="bob", farm="public", barn="")
    shown = seen(signed_in_client(bob, *LEVELS).get("/memories/").content.decode())
    assert shown == {("farm", "public"), ("barn", "public"), ("barn", "private"), ("barn", "secret")}


OBJECTS = {"memories": Memory, "facts": Fact, "injections": Injection, "maintenance": MaintenanceRun}


@pytest.mark.slow
@each("address", [one for one in argued() if one.partition("/")[0] in OBJECTS])
def test_foreign_or_higher_rows_are_not_found_on_any_page(world, browser, ada, address):
    ada.is_superuser = True  # so the permission is not the reason
    ada.save()
    for row in OBJECTS[address.partition("/")[0]].objects.filter(project="zoo"):
        for response in (
            browser.get("/" + address.replace("<slug:uid>", row.uid)),
            browser.post("/" + address.replace("<slug:uid>", row.uid)),
        ):
            assert response.status_code in (404, 405), (address, response.status_code)


def test_foreign_session_is_not_found(world, browser):
    assert browser.get("/sessions/safari-zoo/").status_code == 404
    page = browser.get("/sessions/safari-farm/").content.decode()
    assert {project for project, _ in seen(page)} == {"farm"}


def test_a_memory_above_the_level_of_its_project_is_not_found(world, browser):
    for pair, memory in world.items():
        wanted = 200 if pair in OPEN else 404
        assert browser.get(f"/memories/{memory.uid}/").status_code == wanted, pair


@each("address", admin_lists())
def test_no_admin_list_shows_a_foreign_project(world, ada, address):
    ada.is_staff = ada.is_superuser = True
    ada.save()
    Membership.objects.filter(user=ada, project="barn").update(clearance="private")
    browser = signed_in_client(ada, *LEVELS)
    response = browser.get(address)
    assert response.status_code == 200
    assert seen(response.getvalue().decode()) <= OPEN
    if "membership" not in address:
        assert not re.search(r"zoo(?!m)", response.getvalue().decode())  # zoom is no project


def test_querysets_agree_about_every_kind_of_row(world, ada):
    clearance = user_clearance(ada)
    assert {(m.project, m.sensitivity) for m in Memory.objects.visible_to(clearance)} == OPEN
    assert {(f.project, f.sensitivity) for f in Fact.objects.visible_to(clearance)} == OPEN
    assert {(i.project, i.sensitivity) for i in Injection.objects.visible_to(clearance)} == OPEN
    assert {(j.project, j.sensitivity) for j in JournalEntry.objects.visible_to(clearance)} == OPEN
    assert {s.project for s in Session.objects.visible_to(clearance)} == {"barn", "farm"}


def test_version_from_a_closed_project_stays_hidden_after_a_move(world, browser):
    moved = world["farm", "public"]
    moved.revisions.update(before={"title": "from the zoo", "project": "zoo"})
    assert b"from the zoo" not in browser.get(f"/memories/{moved.uid}/history/").content


def test_last_membership_removed_leaves_nothing_visible(world, ada):
    ada.memberships.all().delete()
    page = signed_in_client(User.objects.get(pk=ada.pk), *LEVELS).get("/memories/")
    assert page.status_code == 200
    assert seen(page.content.decode()) == set()


def test_superuser_with_a_membership_is_confined(world, member):
    boss = member(name="boss", farm="")
    boss.is_superuser = True
    boss.save()
    shown = seen(signed_in_client(User.objects.get(pk=boss.pk), *LEVELS).get("/memories/").content.decode())
    assert {project for project, _ in shown} == {"farm"}


def test_person_without_membership_sees_every_project(world, member):
    eve = member("view_private", "view_secret", name="eve")
    assert len(seen(signed_in_client(eve, *LEVELS).get("/memories/").content.decode())) == 9


def test_no_switch_for_a_level_that_no_membership_has(world, member):
    bob = member("view_private", "view_secret", name="bob", farm="public")
    client = signed_in_client(bob)
    assert b'name="level" value="secret"' not in client.get("/").content
    assert client.post("/switch/", {"level": "secret", "on": "1"}).status_code == 403


def test_person_without_memberships_costs_no_extra_query(world, member, django_assert_num_queries):
    eve = member("view_private", name="eve")
    client = signed_in_client(eve)
    with CaptureQueriesContext(connection) as queries:
        client.get("/memories/")
    about_people = [q["sql"] for q in queries if "membership" in q["sql"] or "profile" in q["sql"]]
    assert len(about_people) == 1  # the person themselves, with their profile


def test_memberships_are_read_once_per_page(world, browser):
    with CaptureQueriesContext(connection) as queries:
        browser.get("/")
    assert sum("memoryhub_membership" in query["sql"] for query in queries) == 1


def test_person_writes_only_into_their_own_projects(world, member):
    bob = member("add_memory", name="bob", farm="", barn="")
    client = signed_in_client(bob)
    refused = client.post(
        "/memories/new/",
        {"content": "hay", "project": "zoo", "sensitivity": "public", "type": "change", "scope": "project"},
    )
    assert refused.status_code == 422
    assert not Memory.objects.filter(content="hay").exists()


def test_search_does_not_reveal_a_word_of_a_closed_project(world, browser):
    page = browser.get(f"/memories/?q={word('zoo', 'public')}&min_score=0")
    assert str(world["zoo", "public"].uid) not in page.content.decode()


def test_journal_length_is_not_revealed(world, browser, member):
    whole = signed_in_client(member("view_private", "view_secret", name="eve"))
    for ask in (lambda one: one.get("/home/journal/"), lambda one: one.post("/journal/verify/", follow=True)):
        count = JournalEntry.objects.count()
        assert re.search(rf"\b{count}\b", ask(whole).content.decode())
        text = ask(browser).content.decode()
        assert "unbroken" in text or "intact" in text
        assert not re.search(rf"\b{count}\b (entries|rows)", text)
        assert " entries" not in text


def test_unreadable_texts_are_visible_by_the_level_of_their_project(db, member):
    for project in ("farm", "barn", "zoo"):
        for level in LEVELS:
            Extraction.objects.create(
                project=project, sensitivity=level, error="no answer", actor="token:bot"
            )
    ada = member("view_private", farm="secret", barn="")
    assert {(row.project, row.sensitivity) for row in services.find_with_notes(user_clearance(ada))} == OPEN


def test_unreadable_texts_are_counted_by_level_and_cost_is_not_revealed(db, member, configure):
    configure(llm="openai", llm_url="https://llm.example.org/v1", llm_model="tiny")
    for project in ("farm", "barn", "zoo"):
        for level in LEVELS:
            Extraction.objects.create(project=project, sensitivity=level, status="failed", actor="token:bot")
    today = timezone.now().date()
    ModelUse.objects.create(day=today, model="m", calls=19, prompt_tokens=8765)
    ada = member("view_private", "view_maintenancerun", farm="secret", barn="")
    assert services.count_by_status(user_clearance(ada)) == {"failed": len(OPEN)}
    page = signed_in_client(ada, *LEVELS).get("/maintenance/language-model/").content.decode()
    assert "8,765" not in page
    assert "Available" in page
    whole = signed_in_client(member("view_maintenancerun", name="bob")).get("/maintenance/language-model/")
    assert "8,765" in whole.content.decode()
