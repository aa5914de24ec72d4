"""Accounts and groups in the admin: superusers only, everything is journaled."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from memoryhub.accounts.clearance import is_confined
from memoryhub.models import JournalEntry, Membership
from tests.clients import signed_in_client

LIST, GROUPS = "/admin/auth/user/", "/admin/auth/group/"
BETTER = "quite another phrase"


@pytest.fixture
def boss(db: None) -> User:
    return User.objects.create_superuser("boss")


@pytest.fixture
def bob(member: Any) -> User:
    return member(name="bob")


def form(user: User, **changed: Any) -> dict[str, Any]:
    inline = {f"memberships-{name}_FORMS": "0" for name in ("TOTAL", "INITIAL")}
    return {"username": user.username, "is_active": "on", **inline, **changed}


def rows(name: str) -> list[tuple[str, str, Any]]:
    found = JournalEntry.objects.about_person(name)
    return [(row.operation, row.actor, row.detail) for row in found]


def test_administrator_cannot_become_superuser(member):
    chief = member(name="chief", staff=True)
    chief.groups.add(Group.objects.get(name="administrator"))
    client = signed_in_client(User.objects.get(pk=chief.pk))
    assert client.get(LIST).status_code == 403
    assert client.get(GROUPS).status_code == 403
    assert client.post(f"{LIST}{chief.pk}/change/", form(chief, is_superuser="on")).status_code == 403
    assert not User.objects.get(pk=chief.pk).is_superuser


def test_confined_superuser_does_not_see_accounts(boss, bob):
    Membership.objects.create(user=boss, project="farm")
    assert signed_in_client(boss).get(LIST).status_code == 403


def test_change_is_journaled_with_its_fields(boss, bob):
    changed = form(bob, is_staff="on", first_name="Bob")
    assert signed_in_client(boss).post(f"{LIST}{bob.pk}/change/", changed).status_code == 302
    assert rows("bob") == [("account_changed", "user:boss", {"fields": ["First name", "Staff status"]})]


def test_membership_added_in_admin_confines(boss, bob):
    inline = {
        "memberships-TOTAL_FORMS": "1",
        "memberships-0-project": "farm",
        "memberships-0-clearance": "private",
        "memberships-0-since_0": "2026-01-01",
        "memberships-0-since_1": "00:00",
        "memberships-0-user": str(bob.pk),
    }
    assert signed_in_client(boss).post(f"{LIST}{bob.pk}/change/", form(bob, **inline)).status_code == 302
    assert is_confined(User.objects.get(pk=bob.pk))
    assert rows("bob")[0][0] == "account_changed"


def test_creating_and_deleting_accounts_is_journaled(boss):
    client: Client = signed_in_client(boss)
    made = {"username": "dora", "usable_password": "true", "password1": BETTER, "password2": BETTER}
    assert client.post(f"{LIST}add/", made).status_code == 302
    dora = User.objects.get(username="dora")
    assert client.post(f"{LIST}{dora.pk}/delete/", {"post": "yes"}).status_code == 302
    assert [row[0] for row in rows("dora")] == ["account_deleted", "account_made"]


def test_setting_a_password_is_journaled_without_the_password(boss, bob):
    new = {"usable_password": "true", "password1": BETTER, "password2": BETTER}
    assert signed_in_client(boss).post(f"{LIST}{bob.pk}/password/", new).status_code == 302
    [(operation, actor, detail)] = rows("bob")
    assert (operation, actor) == ("account_changed", "user:boss")
    assert BETTER not in str(detail)


def test_own_password_is_changed_on_the_profile_page(boss):
    client = signed_in_client(boss)
    assert client.get("/admin/password_change/")["Location"] == "/you/"
    new = {"old_password": "x", "new_password1": BETTER, "new_password2": BETTER}
    client.post("/admin/password_change/", new)
    assert not User.objects.get(username="boss").check_password(BETTER)


@pytest.mark.parametrize("written", ["{}", "0{}"])
def test_own_password_is_not_set_in_the_user_list(boss, written):
    new = {"usable_password": "true", "password1": BETTER, "password2": BETTER}
    answer = signed_in_client(boss).post(f"{LIST}{written.format(boss.pk)}/password/", new)
    assert answer["Location"] == "/you/"
    assert not User.objects.get(username="boss").check_password(BETTER)


def test_closing_an_account_ends_its_sessions(boss, bob):
    theirs = signed_in_client(bob)
    closed = {name: value for name, value in form(bob).items() if name != "is_active"}
    assert signed_in_client(boss).post(f"{LIST}{bob.pk}/change/", closed).status_code == 302
    User.objects.filter(pk=bob.pk).update(is_active=True)
    assert theirs.get("/").status_code == 302


def test_times_of_an_account_cannot_be_changed(admin_client, admin_user):
    shown = admin_client.get(f"/admin/auth/user/{admin_user.pk}/change/").content.decode()
    assert "Last login" in shown
    assert 'name="last_login' not in shown
    assert 'name="date_joined' not in shown
