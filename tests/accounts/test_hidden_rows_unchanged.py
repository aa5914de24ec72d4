"""No action changes or reveals rows of other projects, higher levels or other owners."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern

from memoryhub.access.policy import LEVELS, Actor, Clearance
from memoryhub.models import Fact, FileLink, Label, Memory, Revision
from memoryhub.web import urls
from tests.accounts.test_confinement import OPEN, pages
from tests.cases import each
from tests.clients import signed_in_client

MINE = "memories/", "acts/", "duplicates/", "review/", "facts/", "searches/"
WORDS = ("zoopublic", "zooprivate", "zoosecret", "barnsecret", "evesown")
NAMES = ("uid", "uids", "member", "keep", "card", "fact", "gone", "merge", "other", "seen", "at", "memory")
LISTS = (
    *("/memories/", "/memories/?q=zebra&min_score=0", "/memories/?project=zoo", "/timeline/entries/"),
    *("/sessions/safari-zoo/", "/sessions/safari-farm/", "/trash/"),
)
ACTS = (
    "approve",
    "demote",
    "promote",
    "expire",
    "trash",
    "restore",
    "tag",
    "untag",
    "set-project",
    "set-sensitivity",
)
DECISIONS = "merge", "text", "apart", "older", "approve", "demote", "trash", "undo"


@pytest.fixture
def personal(remember: Callable[..., Memory]) -> Memory:
    """Eve's personal memory in a project and at a level that ada sees."""
    said = "zebra evesown"
    eve = Actor("token:eves", Clearance.up_to("secret", owner="eve"))
    memory = remember(said, by=eve, title=said, project="farm", scope="personal", tags=["evesown"])
    assert memory.owner == "eve"
    Fact.objects.create(
        subject=said, predicate="is", object="evesown", project="farm", memory=memory, sensitivity="public"
    )
    return memory


@pytest.fixture
def browser(member: Callable[..., User]) -> Client:
    """Ada has every permission in two projects; in one of them up to private memories."""
    ada = member(farm="secret", barn="private")
    User.objects.update(is_superuser=True, is_staff=True)
    return signed_in_client(User.objects.get(pk=ada.pk), *LEVELS)


def hidden_memories() -> Any:
    rows = Memory.objects.values_list("pk", "project", "sensitivity", "owner")
    mine = [pk for pk, project, level, owner in rows if (project, level) in OPEN and owner != "eve"]
    return Memory.objects.exclude(pk__in=mine)


def hidden_state() -> list[Any]:
    """Return all stored data about rows that ada may not see."""
    memories = hidden_memories()
    found = [list(memories.order_by("pk").values())]
    for model in (Label, FileLink, Revision, Fact):
        found.append(list(model.objects.filter(memory__in=memories).order_by("pk").values()))  # type: ignore[attr-defined]
    return found


def hidden_uids() -> list[str]:
    facts = Fact.objects.filter(memory__in=hidden_memories())
    return [*hidden_memories().values_list("uid", flat=True), *facts.values_list("uid", flat=True)]


def posts() -> list[str]:
    plain = [str(one.pattern) for one in urls.urlpatterns if isinstance(one, URLPattern)]
    return ["/" + one for one in plain if "<" not in one and one.startswith(MINE)]


@pytest.mark.slow
@each("address", posts())
def test_no_action_changes_or_reveals_hidden_rows(world, personal, browser, read_names, address):
    """All actions are sent to the views that read an action; to others the forms are the same."""
    before, uids = hidden_state(), hidden_uids()
    assert len(hidden_memories()) == 5
    fields = {"confirmed": "yes", "tag": "x", "project": "farm", "sensitivity": "public"}
    read_names.clear()
    # A view reads one of the two names, so that a form tests an action of each.
    for act, do in zip((*ACTS, "undo"), cycle(DECISIONS), strict=False):
        extra = {"act": act, "do": do, **fields}
        for htmx in ({}, {"HX-Request": "true"}):
            answer = browser.post(address, {**dict.fromkeys(NAMES, uids), **extra}, headers=htmx)
            assert answer.status_code < 500
            text = answer.getvalue().decode()
            assert not [word for word in WORDS if word in text], extra
        if not read_names & {"act", "do"}:
            break
    assert hidden_state() == before


@each("listed", LISTS)
def test_select_all_matching_covers_visible_rows_only(world, personal, browser, listed):
    before = hidden_state()
    for act in ("tag", "set-sensitivity", "trash"):
        form = {"act": act, "every": "1", "list": listed, "tag": "x", "sensitivity": "public"}
        text = browser.post("/acts/", form, follow=True).getvalue().decode()
        assert not [word for word in WORDS if word in text], act
    assert hidden_state() == before
    assert Memory.objects.trashed().exists() == ("zoo" not in listed and listed != "/trash/")


@pytest.mark.slow
def test_no_page_shows_rows_of_other_owners(personal, browser):
    for address in pages():
        assert "evesown" not in browser.get(address).getvalue().decode(), address
    Memory.objects.filter(pk=personal.pk).update(owner="ada")
    assert "evesown" in browser.get("/memories/").getvalue().decode()


@pytest.mark.slow
def test_pages_of_rows_of_other_owners_are_not_found(personal, browser):
    before = hidden_state()
    about = [str(one.pattern) for one in urls.urlpatterns if "memories/<slug:uid>" in str(one.pattern)]
    about += [str(one.pattern) for one in urls.urlpatterns if "cards/<slug:uid>" in str(one.pattern)]
    for address in about:
        path = "/" + address.replace("<slug:uid>", personal.uid).replace("<slug:form>", "json")
        for htmx in ({}, {"HX-Request": "true"}):
            assert browser.get(path, headers=htmx).status_code in (302, 404, 405), path
            answer = browser.post(path, {"value": "x", "version": "1"}, headers=htmx)
            assert answer.status_code in (404, 405), path
            assert "evesown" not in answer.getvalue().decode()
    [fact] = Fact.objects.filter(memory=personal)
    assert browser.get(f"/facts/{fact.uid}/").status_code == 404
    assert browser.post(f"/facts/{fact.uid}/delete/").status_code == 404
    assert hidden_state() == before
