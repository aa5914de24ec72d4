"""An invitation is a link that works once, for a week, while the inviter may change the account."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from memoryhub.accounts import people
from memoryhub.accounts.permissions import user_role
from memoryhub.models import JournalEntry, Membership
from tests.clients import signed_in_client

PHRASE = "quite another phrase"
PASSWORDS = {"password": PHRASE, "again": PHRASE}


@pytest.fixture
def chief(member: Any) -> User:
    user = member("view_private", name="chief")
    user.groups.add(Group.objects.get(name="administrator"))
    return User.objects.get(username="chief")


@pytest.fixture
def browser(chief: User) -> Client:
    return signed_in_client(chief)


def link_of(answer: Any) -> str:
    found = re.search(r"/invitation/\d+/[^\"]+", answer.content.decode())
    assert found
    return found[0]


@pytest.fixture
def link(browser: Client) -> str:
    form = {"username": "dora", "role": "curator", "level": "private", "projects": "farm", "clearance": ""}
    answer = browser.post("/people/", form)
    assert "no-store" in answer["Cache-Control"]
    return link_of(answer)


def dora() -> User:
    return User.objects.get(username="dora")


def test_form_offers_the_role_viewer_first(browser, member):
    page = browser.get("/people/").content.decode()
    assert '<option value="viewer" selected>' in page
    assert "Curators also write and correct." in page
    assert 'href="#add"' in page


def test_role_level_and_project_apply(link):
    assert (user_role(dora()), people.permitted_level(dora())) == ("curator", "private")
    assert [one.project for one in Membership.objects.filter(user=dora())] == ["farm"]


def test_link_shows_who_invites_to_what_and_signs_in_once(link):
    client = Client()
    page = client.get(link)
    shown = page.content.decode()
    assert all(word in shown for word in ("chief", "curator", "farm", "At least 8 characters"))
    assert "no-store" in page["Cache-Control"]
    assert page["Referrer-Policy"] == "same-origin"
    assert client.post(link, PASSWORDS)["Location"] == "/"
    assert dora().check_password(PHRASE)
    assert client.get("/you/").status_code == 200
    assert Client().get(link).status_code == Client().post(link, PASSWORDS).status_code == 404


def test_link_shows_the_level_and_names_no_organisation_without_its_sign_in(link, browser, settings):
    page = Client().get(link).content.decode()
    assert "You can see " in page
    assert "rganisation" not in page
    assert "organisation" not in browser.get("/people/").content.decode()
    settings.OIDC_ISSUER = "https://login.example.org"
    assert "organisation&#x27;s sign-in" in browser.get("/people/").content.decode()


def test_acceptance_starts_a_new_session(link, browser, settings):
    before = browser.cookies[settings.SESSION_COOKIE_NAME].value
    answer = browser.post(link, PASSWORDS)
    assert answer.cookies[settings.SESSION_COOKIE_NAME].value != before
    assert browser.get("/you/").context["user"].username == "dora"


@pytest.mark.parametrize("given", ["123", "password"])
def test_weak_password_is_refused_and_the_link_still_works(link, given):
    assert Client().post(link, {"password": given, "again": given}).status_code == 422
    assert Client().get(link).status_code == 200


def test_link_expires_after_a_week(link, monkeypatch):
    now = datetime.now()
    monkeypatch.setattr(people.token_generator, "_now", lambda: now + timedelta(days=6))
    assert Client().get(link).status_code == 200
    monkeypatch.setattr(people.token_generator, "_now", lambda: now + timedelta(days=8))
    assert Client().get(link).status_code == 404


def test_expired_link_is_not_listed_as_valid(link, browser, monkeypatch):
    assert "The link expires" in browser.get("/people/dora/").content.decode()
    week_later = timezone.now() + timedelta(days=8)
    monkeypatch.setattr(people.timezone, "now", lambda: week_later)
    assert people.link_expiries([dora()]) == {}


def test_revoked_link_does_not_work(link, browser):
    browser.post("/people/dora/revoke/")
    assert Client().get(link).status_code == 404


def test_new_link_replaces_the_old_one(link, browser):
    new = link_of(browser.post("/people/dora/invite/"))
    assert Client().get(link).status_code == 404
    assert Client().get(new).status_code == 200


def test_links_of_closed_and_deleted_accounts_do_not_work(link):
    User.objects.filter(username="dora").update(is_active=False)
    assert Client().get(link).status_code == 404
    dora().delete()
    assert Client().get(link).status_code == 404


def test_link_stops_when_the_account_gets_more_rights_than_the_inviter(link):
    User.objects.filter(username="dora").update(is_superuser=True)
    assert Client().get(link).status_code == 404


def test_more_rights_than_the_inviter_has_are_refused(browser):
    form = {"username": "dora", "role": "", "level": "public", "projects": "farm", "clearance": "secret"}
    assert browser.post("/people/", form).status_code == 422
    assert not User.objects.filter(username="dora").exists()


def test_refused_project_leaves_no_account(browser):
    form = {"username": "dora", "level": "public", "projects": "x" * 201}
    assert browser.post("/people/", form).status_code == 422
    assert not User.objects.filter(username="dora").exists()


def test_person_without_permission_creates_and_revokes_no_link(link, member):
    client = signed_in_client(member(name="eve"))
    assert client.post("/people/dora/invite/").status_code == 403
    assert client.post("/people/dora/revoke/").status_code == 403
    assert Client().get(link).status_code == 200


def test_person_with_a_password_gets_no_link(browser, member):
    bob = member(name="bob")
    browser.post("/people/bob/invite/")
    bob.refresh_from_db()
    assert bob.has_usable_password()
    assert not JournalEntry.objects.filter(operation="invited").exists()


def test_journal_names_each_step_without_the_token(link, browser):
    browser.post("/people/dora/revoke/")
    new = link_of(browser.post("/people/dora/invite/"))
    Client().post(new, PASSWORDS)
    rows = list(JournalEntry.objects.filter(object_id="dora"))
    steps = [row.operation for row in rows if row.operation.startswith("invit")]
    assert sorted(steps) == ["invitation_accepted", "invitation_revoked", "invited", "invited"]
    tokens = [one.rstrip("/").rpartition("/")[2] for one in (link, new)]
    assert not any(token in str(row.detail) for row in rows for token in tokens)


def test_wrong_links_are_throttled(link):
    wrong = link.rstrip("/") + "x/"
    assert [Client().get(wrong).status_code for _ in range(6)] == [404] * 5 + [429]


def test_list_and_person_page_show_the_open_invitation(link, browser):
    listed = browser.get("/people/").content.decode()
    assert '<span class="badge">Invited</span>' in listed
    assert "link expires" in listed
    assert "Revoke the link" in browser.get("/people/dora/").content.decode()
