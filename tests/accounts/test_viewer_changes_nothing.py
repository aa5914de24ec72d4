"""A viewer changes nothing on any page with any form."""

from __future__ import annotations

from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import URLPattern

from memoryhub.access.policy import LEVELS, system_actor
from memoryhub.accounts import tokens
from memoryhub.models import (
    AgentToken,
    Fact,
    FileLink,
    Label,
    MaintenanceRun,
    Membership,
    Memory,
    Profile,
    Revision,
)
from memoryhub.web import urls
from tests.accounts.test_hidden_rows_unchanged import ACTS, NAMES
from tests.cases import each
from tests.clients import signed_in_client

KEPT = (
    AgentToken,
    Fact,
    FileLink,
    SocialAccount,
    Label,
    MaintenanceRun,
    Membership,
    Memory,
    Profile,
    Revision,
    User,
)
# Actions on a person's own data or session.
OWN = "you/", "searches/", "switch/", "login/", "logout/", "review/looked/"


def changing_urls() -> list[str]:
    named = [str(one.pattern) for one in urls.urlpatterns if isinstance(one, URLPattern)]
    return [one for one in named if not one.startswith(OWN)]


@pytest.fixture
def viewer(world: Any, member: Any) -> Client:
    """A viewer who sees everything; another person has a token and an account."""
    member(name="bob", farm="secret")
    tokens.issue_token("bot", "bob", actor=system_actor("tests"))
    vic = member("view_private", "view_secret", name="vic")
    vic.groups.add(Group.objects.get(name="viewer"))
    return signed_in_client(User.objects.get(pk=vic.pk), *LEVELS)


def state() -> list[Any]:
    return [list(model._default_manager.order_by("pk").values()) for model in KEPT]  # type: ignore[attr-defined]


def addresses(door: str) -> list[str]:
    """Return the page for one object of each kind that its path takes."""
    uids = [m.objects.first().uid for m in (Memory, Fact, AgentToken, MaintenanceRun)]  # type: ignore[attr-defined]
    fill = {
        "<slug:form>": ["json"],
        "<int:seq>": ["1"],
        "<session_id:session_id>": ["safari-farm"],
        "<str:name>": ["bob", "vic"],
        "<slug:uid>": uids,
        "<slug:client>": ["codex"],
    }
    found = [door]
    for hole, values in fill.items():
        found = [one.replace(hole, value) for one in found for value in (values if hole in one else [""])]
    return ["/" + one for one in found]


def forms() -> list[dict[str, Any]]:
    uids = [str(uid) for uid in Memory.objects.values_list("uid", flat=True)]
    uids += [str(uid) for uid in Fact.objects.values_list("uid", flat=True)]
    first = Memory.objects.values_list("uid", flat=True)[0]
    plain = {
        "confirmed": "yes",
        "tag": "x",
        "project": "farm",
        "sensitivity": "public",
        "value": "x",
        "version": "1",
    }
    made = {"content": "new", "type": "change", "scope": "project", "name": "new", "clearance": "public"}
    fact = {"subject": "a", "predicate": "b", "object": "c", "confidence": "1", "operation": "consolidate"}
    person = {"role": "maintainer", "level": "secret", "password": "quite another phrase", "username": "dora"}
    rest = {**plain, **made, **fact, **person, "email": "vic@example.org", "toolset": "letsgo", "cause": "x"}
    actions = [{"act": act, "do": act} for act in (*ACTS, "merge", "text", "apart", "older", "undo")]
    of_all = [{**rest, **dict.fromkeys(NAMES, uids), **action} for action in actions]
    of_one = {**rest, **dict.fromkeys(NAMES, first), **actions[0]}
    return [*of_all, of_one]


@pytest.mark.slow
@each("door", changing_urls())
def test_a_viewer_changes_nothing(viewer, read_names, door):
    """All actions are sent to the views that read an action; to others the forms are the same."""
    before = state()
    first, *of_other_actions, of_one = forms()
    for address in addresses(door):
        read_names.clear()
        sent = [first, of_one] if "<" not in door else [first]
        for form in sent:
            assert viewer.post(address, form).status_code < 500, (address, form)
        if "<" not in door and read_names & {"act", "do"}:
            for form in of_other_actions:
                assert viewer.post(address, form).status_code < 500, (address, form)
    assert state() == before


@each(
    "door",
    [
        "acts/",
        "memories/new/",
        "facts/delete/",
        "memories/<slug:uid>/trash/",
        "connect/<slug:client>/snippet/",
        "review/act/",
    ],
)
def test_a_curator_changes_something_with_the_same_forms(viewer, member, door):
    """Otherwise the forms would prove nothing."""
    carl = member("view_private", "view_secret", name="carl")
    carl.groups.add(Group.objects.get(name="curator"))
    before, client = state(), signed_in_client(User.objects.get(pk=carl.pk), *LEVELS)
    address = addresses(door)[0]
    for form in forms():
        client.post(address, form)
        if state() != before:
            return
    pytest.fail("no form changed anything")
