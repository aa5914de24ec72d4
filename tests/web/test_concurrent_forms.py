"""Forms about projects, people, tokens and memory checks, while someone else changes the same values."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from memoryhub.access.policy import Actor, system_actor
from memoryhub.accounts import people, tokens
from memoryhub.capture import projects
from memoryhub.models import AgentToken, MemoryCheck, Project
from tests.admin.conftest import page
from tests.clients import create_person, signed_in_client
from tests.web.markup import submitted_fields

ADMIN = system_actor("tests")
SETTINGS = "/project-settings/shop/"
NO_MEMBERSHIPS = {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0"}
CHANGED = "Someone has changed this since you opened the form"


@pytest.fixture
def browser(db: None) -> Client:
    """The browser of an administrator who sees everything."""
    boss = User.objects.create_superuser("boss", password="a good password")
    return signed_in_client(boss)


@pytest.fixture
def bob(db: None) -> User:
    return create_person("bob")


def filled(response: Any, name: str = "form") -> dict[str, Any]:
    """Return what a browser would send from the form of a page."""
    context, html = response.context, response.content.decode()
    form = context["adminform"].form if name == "adminform" else context[name]
    shown = {one: form[one].value() for one in form.fields if f'name="{one}' in html}
    shown = {
        one: [getattr(part, "pk", part) for part in value] if isinstance(value, list) else value
        for one, value in shown.items()
    }
    return {one: value for one, value in shown.items() if value not in (None, False)}


def test_project_that_was_switched_off_stays_off(browser: Client) -> None:
    form = filled(browser.get(SETTINGS))
    projects.configure_project("shop", ADMIN, mode="off")
    response = browser.post(f"{SETTINGS}save/", form | {"max_memories": "500"})
    assert response.status_code == 422
    assert (
        f"{CHANGED}. Stored now: Mode: Off: store and show nothing; Maximum memories per owner: empty. "
        in response.content.decode()
    )
    assert (Project.named("shop").mode, Project.named("shop").max_memories) == ("off", None)


def test_conflict_does_not_name_text_with_the_line_ends_of_a_browser(browser: Client) -> None:
    projects.configure_project("shop", ADMIN, ignored_paths="*.pem\n*.key")
    form = filled(browser.get(SETTINGS)) | {"ignored_paths": "*.pem\r\n*.key"}
    projects.configure_project("shop", ADMIN, mode="off")
    response = browser.post(f"{SETTINGS}save/", form)
    assert "Stored now: Mode: Off: store and show nothing. Save" in response.content.decode()


def test_conflict_shows_text_on_one_line(browser: Client) -> None:
    form = filled(browser.get(SETTINGS))
    projects.configure_project("shop", ADMIN, ignored_paths="*.pem\n*.key")
    response = browser.post(f"{SETTINGS}save/", form)
    assert "Stored now: Ignored files: *.pem, *.key. Save" in response.content.decode()


def test_saving_settings_again_replaces_the_change_that_was_shown(browser: Client) -> None:
    form = filled(browser.get(SETTINGS))
    projects.configure_project("shop", ADMIN, mode="off")
    again = filled(browser.post(f"{SETTINGS}save/", form | {"max_memories": "500"}))
    assert browser.post(f"{SETTINGS}save/", again).status_code == 302
    assert (Project.named("shop").mode, Project.named("shop").max_memories) == ("automatic", 500)


def test_closed_account_is_not_opened_by_another_form(browser: Client, bob: User) -> None:
    form = filled(browser.get("/people/bob/"), "rights")
    chief = User.objects.get(username="boss")
    people.change_rights(bob, chief, role="", level="public", is_active=False, is_staff=False)
    response = browser.post("/people/bob/rights/", form | {"role": "viewer"})
    assert response.status_code == 422
    assert f"{CHANGED}. Stored now: Role: None; Active: no" in response.content.decode()
    bob.refresh_from_db()
    assert not bob.is_active


def test_token_that_was_limited_stays_limited(browser: Client, actor: Actor) -> None:
    token, _ = tokens.issue_token("scribe", "boss", "secret", actor=actor)
    address = page(AgentToken, "change", token.pk)
    form = filled(browser.get(address), "adminform")
    limited = {"name": "scribe", "clearance": "public", "rights": ["read"], "projects": None}
    tokens.change_token(token.uid, actor, **limited, expires_at=None)
    response = browser.post(address, form | {"name": "writer"})
    shown = "Stored now: Agent: scribe; Clearance: public; Rights: read. Save"
    assert shown in response.content.decode()
    token.refresh_from_db()
    assert (token.name, token.clearance, token.rights) == ("scribe", "public", ["read"])


def test_account_that_was_closed_stays_closed_in_the_admin(browser: Client, bob: User) -> None:
    address = f"/admin/auth/user/{bob.pk}/change/"
    form = filled(browser.get(address), "adminform") | NO_MEMBERSHIPS
    User.objects.filter(pk=bob.pk).update(is_active=False)
    response = browser.post(address, form | {"first_name": "Bob"})
    assert f"{CHANGED}. Stored now: First name: empty; Active: no. Save" in response.content.decode()
    bob.refresh_from_db()
    assert (bob.first_name, bob.is_active) == ("", False)
    again = filled(response, "adminform") | NO_MEMBERSHIPS
    assert browser.post(address, again).status_code == 302
    bob.refresh_from_db()
    assert (bob.first_name, bob.is_active) == ("Bob", True)


def test_permission_that_a_group_lost_is_not_given_back(browser: Client, db: None) -> None:
    group = Group.objects.create(name="readers")
    group.permissions.set(Permission.objects.filter(codename__in=["view_private", "view_secret"]))
    address = f"/admin/auth/group/{group.pk}/change/"
    form = filled(browser.get(address), "adminform")
    group.permissions.remove(Permission.objects.get(codename="view_secret"))
    assert CHANGED in browser.post(address, form | {"name": "all readers"}).content.decode()
    assert [one.codename for one in group.permissions.all()] == ["view_private"]


@pytest.fixture
def check(browser: Client) -> MemoryCheck:
    values = {"prompt": "Where is the cache?", "level": "public", "must_words": "runner", "enabled": "on"}
    assert browser.post("/checks/new/", values).status_code == 302
    return MemoryCheck.objects.get()


def test_check_that_was_disabled_stays_disabled(browser: Client, check: MemoryCheck) -> None:
    address = f"/checks/{check.uid}/"
    form = filled(browser.get(address))
    MemoryCheck.objects.filter(pk=check.pk).update(enabled=False)
    response = browser.post(address, form | {"prompt": "Where is the build cache?"})
    assert response.status_code == 422
    shown = "Stored now: Prompt: Where is the cache?; Run it daily and after maintenance: no. Save"
    assert f"{CHANGED}. {shown}" in response.content.decode()
    check.refresh_from_db()
    assert (check.prompt, check.enabled) == ("Where is the cache?", False)
    assert browser.post(address, filled(response)).status_code == 302


def test_search_in_the_form_of_a_check_does_not_hide_a_conflict(browser: Client, check: MemoryCheck) -> None:
    address = f"/checks/{check.uid}/"
    form = filled(browser.get(address))
    MemoryCheck.objects.filter(pk=check.pk).update(enabled=False)
    found = filled(browser.post(address, form | {"find": "must_bring", "must_bring_search": "cache"}))
    assert browser.post(address, found).status_code == 422


def test_undo_of_a_change_of_a_check_replaces_no_later_change(browser: Client, check: MemoryCheck) -> None:
    address = f"/checks/{check.uid}/"
    changed = filled(browser.get(address)) | {"prompt": "Where is the build cache?"}
    html = browser.post(address, changed, follow=True).content.decode()
    undo = submitted_fields(html.partition('class="undo">')[2].partition("</form>")[0])
    MemoryCheck.objects.filter(pk=check.pk).update(enabled=False)
    assert browser.post(address, undo).status_code == 422
