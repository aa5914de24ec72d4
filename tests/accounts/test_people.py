"""Administrators manage people within their own rights; everything is journaled."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from memoryhub.accounts import people
from memoryhub.accounts.clearance import is_confined
from memoryhub.accounts.permissions import user_role
from memoryhub.memories.errors import StoreError
from memoryhub.models import JournalEntry, Membership
from tests.cases import each
from tests.clients import signed_in_client
from tests.web.markup import main

BETTER = "quite another phrase"


def fresh(name: str) -> User:
    return User.objects.get(username=name)


@pytest.fixture
def chief(member: Any) -> User:
    """An administrator with clearance for private memories."""
    user = member("view_private", name="chief")
    user.groups.add(Group.objects.get(name="administrator"))
    return fresh("chief")


@pytest.fixture
def browser(chief: User) -> Client:
    return signed_in_client(chief)


@pytest.fixture
def bob(member: Any) -> User:
    return member(name="bob")


def rights(**changed: Any) -> dict[str, Any]:
    return {"role": "", "level": "public", "is_active": "on", **changed}


def operations(name: str = "bob") -> list[str]:
    return [row.operation for row in JournalEntry.objects.about_person(name)]


ADDRESSES = ["/people/", "/people/bob/"]
POSTS = [f"/people/bob/{what}/" for what in ("rights", "join", "leave", "open", "password")]


@each("role", ["", "viewer", "curator", "maintainer"])
def test_pages_need_the_permission_to_manage_people(bob, member, role):
    user = member(name="eve")
    user.groups.set(Group.objects.filter(name=role))
    client = signed_in_client(user)
    assert {client.get(address).status_code for address in ADDRESSES} == {403}
    assert {client.post(address).status_code for address in POSTS} == {403}
    assert b'href="/people/"' not in client.get("/").content


def test_confined_administrator_manages_no_one(bob, chief, browser):
    Membership.objects.create(user=chief, project="farm")
    assert browser.get("/people/").status_code == 403


def test_the_list_names_everyone_with_role_and_projects(browser, bob, member):
    member(name="carla", farm="secret").groups.add(Group.objects.get(name="curator"))
    text = browser.get("/people/").content.decode()
    assert "bob" in text
    assert "farm (secret)" in text
    assert "curator" in text
    assert "carla" not in browser.get("/people/?q=bo").content.decode()


def test_list_query_count_is_constant(browser, member, django_assert_max_num_queries):
    for number in range(20):
        member(name=f"p{number}", farm="").groups.add(Group.objects.get(name="viewer"))
    browser.get("/people/")  # caches the counts of the navigation
    with django_assert_max_num_queries(14):
        browser.get("/people/")


def test_account_is_created_and_sees_public_data(browser):
    answer = browser.post("/people/", {"username": "dora", "level": "public"})
    assert answer.status_code == 200
    assert not fresh("dora").has_usable_password()
    assert people.permitted_level(fresh("dora")) == "public"
    assert operations("dora") == ["invited", "account_made"]


@each(
    "form, words",
    [
        ({"username": "BOB", "level": "public"}, "This name is taken"),
        ({"username": "a/b", "level": "public"}, "valid username"),
        ({"username": "dora", "level": "secret"}, "Select a valid choice"),
    ],
)
def test_invalid_account_is_refused_with_a_reason(browser, bob, form, words):
    refused = browser.post("/people/", form)
    assert refused.status_code == 422
    assert words in refused.content.decode()
    assert User.objects.count() == 2


def test_role_and_level_are_granted(browser, bob):
    browser.post("/people/bob/rights/", rights(role="curator", level="private", is_staff="on"))
    user = fresh("bob")
    assert (user_role(user), people.permitted_level(user), user.is_staff) == (
        "curator",
        "private",
        True,
    )
    [row] = JournalEntry.objects.about_person("bob")
    assert (row.actor, row.detail) == ("user:chief", {"role": "curator", "level": "private", "staff": True})


def test_role_and_level_are_revoked_and_other_groups_stay(browser, bob):
    bob.groups.add(Group.objects.create(name="tennis"), Group.objects.get(name="curator"))
    browser.post("/people/bob/rights/", rights(role="viewer", level="private"))
    browser.post("/people/bob/rights/", rights())
    assert {group.name for group in fresh("bob").groups.all()} == {"tennis"}
    assert people.permitted_level(fresh("bob")) == "public"


def test_level_above_the_administrators_is_not_granted(browser, bob, chief):
    assert browser.post("/people/bob/rights/", rights(level="secret")).status_code == 422
    assert browser.post("/people/bob/join/", {"project": "farm", "clearance": "secret"}).status_code == 422
    with pytest.raises(StoreError):
        people.change_rights(bob, chief, role="", level="secret", is_active=True, is_staff=False)
    with pytest.raises(StoreError):
        people.add_membership(bob, "farm", "secret", chief)
    assert people.permitted_level(fresh("bob")) == "public"


def test_role_above_the_administrators_is_not_granted(bob, chief):
    chief.groups.set(Group.objects.filter(name="viewer"))
    chief.user_permissions.add(
        *Group.objects.get(name="administrator").permissions.filter(codename="change_user")
    )
    chief = fresh("chief")
    assert people.grantable_roles(chief) == ["viewer"]
    with pytest.raises(StoreError):
        people.change_rights(bob, chief, role="maintainer", level="public", is_active=True, is_staff=False)


def test_account_with_more_rights_cannot_be_changed(browser, chief, member):
    boss = member(name="boss")
    boss.is_superuser = True
    boss.save()
    assert "This person has more permissions than you" in browser.get("/people/boss/").content.decode()
    for what, form in (
        ("rights", rights(is_active="")),
        ("password", {"password": BETTER}),
        ("join", {"project": "farm", "clearance": ""}),
        ("leave", {"project": "farm"}),
        ("open", {}),
    ):
        assert browser.post(f"/people/boss/{what}/", form).status_code in (302, 422)
    assert operations("boss") == []
    assert fresh("boss").is_active
    assert fresh("boss").check_password("a good password")


def test_no_one_closes_their_own_account(browser, chief):
    refused = browser.post("/people/chief/rights/", rights(level="private"))
    assert refused.status_code == 422
    assert user_role(fresh("chief")) == "administrator"


def test_closed_account_is_signed_out_at_once(browser, bob):
    theirs = signed_in_client(bob)
    assert theirs.get("/").status_code == 200
    browser.post("/people/bob/rights/", rights(is_active=""))
    assert theirs.get("/").status_code == 302


def test_membership_is_added_changed_and_removed(browser, bob):
    browser.post("/people/bob/join/", {"project": "farm", "clearance": ""})
    assert is_confined(fresh("bob"))
    browser.post("/people/bob/join/", {"project": "farm", "clearance": "private"})
    assert Membership.objects.get().clearance == "private"
    browser.post("/people/bob/leave/", {"project": "farm"})
    assert is_confined(fresh("bob"))
    assert "can see no project" in browser.get("/people/bob/").content.decode()
    assert operations() == ["left", "membership", "joined"]


def test_membership_shows_a_project_without_visible_memories(browser, bob, remember):
    remember("hay", project="farm")
    remember("gold", project="vault", sensitivity="secret")
    for project in ("farm", "vault", "frm"):
        browser.post("/people/bob/join/", {"project": project, "clearance": ""})
    shown = main(browser.get("/people/bob/")).words
    assert "frm no memories that you can see" in shown
    assert "vault no memories that you can see" in shown
    assert "farm no memories" not in shown


def test_confinement_is_lifted_only_explicitly(browser, bob):
    browser.post("/people/bob/join/", {"project": "farm", "clearance": ""})
    browser.post("/people/bob/open/")
    assert not is_confined(fresh("bob"))
    assert not Membership.objects.exists()
    assert operations()[0] == "unconfined"


def test_removing_a_missing_membership_is_refused(browser, bob):
    answer = browser.post("/people/bob/leave/", {"project": "farm"}, follow=True)
    assert "this membership does not exist" in answer.content.decode()


def test_new_password_signs_the_person_out(browser, bob):
    theirs = signed_in_client(bob)
    browser.post("/people/bob/password/", {"password": BETTER})
    assert theirs.get("/").status_code == 302
    assert fresh("bob").check_password(BETTER)
    assert operations() == ["password_set"]


def test_own_password_needs_the_old_one(browser, chief):
    refused = browser.post("/people/chief/password/", {"password": BETTER})
    assert refused.status_code == 422
    assert "change your password under Settings → Profile" in refused.content.decode()
    assert fresh("chief").check_password("a good password")
    assert operations("chief") == []


def test_set_password_refuses_the_callers_own_account(chief):
    with pytest.raises(StoreError, match="under Settings → Profile"):
        people.set_password(chief, BETTER, chief)
    with pytest.raises(StoreError, match="not your password"):
        people.change_password(chief, "a guess", BETTER)
    assert fresh("chief").check_password("a good password")


def test_unknown_person_is_404(browser):
    assert browser.get("/people/unknown/").status_code == 404


def test_failed_logins_are_listed_on_the_people_page(browser, bob):
    Client(REMOTE_ADDR="10.6.6.6").post("/login/", {"username": "bob", "password": "guess"})
    assert "10.6.6.6" in browser.get("/people/").content.decode()
    assert "Sign-in failed" in browser.get("/people/bob/").content.decode()


def test_unchanged_rights_leave_no_row(browser, bob):
    browser.post("/people/bob/rights/", rights())
    assert operations() == []


def test_address_of_an_invited_person_belongs_to_one_account(browser):
    form = {"username": "dora", "level": "public", "email": "dora@example.org"}
    assert browser.post("/people/", form).status_code == 200
    assert fresh("dora").email == "dora@example.org"
    assert not fresh("dora").has_usable_password()
    again = browser.post("/people/", {**form, "username": "eve", "email": "Dora@example.org"})
    assert "This address is taken" in again.content.decode()


@pytest.mark.parametrize("password", ["", "123"])
def test_account_without_address_needs_a_valid_password(chief, password):
    with pytest.raises(StoreError, match="too short"):
        people.create_account("dora", password, chief)


def test_manager_who_reads_less_in_a_project_is_refused(browser, member):
    member(name="eve", farm="secret")
    answer = browser.post("/people/eve/password/", {"password": BETTER})
    assert "has more permissions than you" in answer.content.decode()
    assert not fresh("eve").check_password(BETTER)
    member(name="dan", farm="private")
    browser.post("/people/dan/password/", {"password": BETTER})
    assert fresh("dan").check_password(BETTER)


def test_reopened_account_does_not_get_its_sessions_back(browser, bob):
    theirs, others = signed_in_client(bob), signed_in_client(User.objects.create_user("dan"))
    browser.post("/people/bob/rights/", rights(is_active=""))
    browser.post("/people/bob/rights/", rights())
    assert fresh("bob").is_active
    assert theirs.get("/").status_code == 302
    assert others.get("/").status_code == 200
