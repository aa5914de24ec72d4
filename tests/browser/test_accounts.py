"""The pages You and People, with and without JavaScript."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from playwright.sync_api import expect

from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens
from memoryhub.models import AgentToken, Membership


@pytest.fixture
def chief(person: Any) -> User:
    user = person("chief", "view_private")
    user.groups.add(Group.objects.get(name="administrator"))
    return User.objects.get(pk=user.pk)


@pytest.fixture
def bob(person: Any) -> User:
    user = person("bob")
    for number, level in enumerate(("", "private", "public")):
        Membership.objects.create(user=user, project=f"project-{number}", clearance=level)
    tokens.issue_token("claude-code", "bob", actor=system_actor("tests"))
    return User.objects.get(pk=user.pk)


def test_a_new_colleague_is_let_in_to_one_project(open_page: Any, chief: User, remember: Any) -> None:
    remember("hay in the barn", title="hay in the barn", project="farm")
    remember("lions in the zoo", title="lions in the zoo", project="zoo")
    page = open_page("/people/", chief)
    page.locator("#id_username").fill("dora")
    page.get_by_label("Role", exact=True).select_option("curator")
    page.locator("#id_projects").fill("farm")
    page.get_by_role("button", name="Invite").click()
    link = page.get_by_label("Link", exact=True).input_value()

    theirs = open_page("/invitation/" + link.partition("/invitation/")[2])
    theirs.locator("#id_password").fill("quite another phrase")
    theirs.locator("#id_again").fill("quite another phrase")
    theirs.get_by_role("button", name="Set password").click()
    theirs.wait_for_url(lambda url: "invitation" not in url)
    theirs.goto("/memories/")
    expect(theirs.get_by_text("hay in the barn")).not_to_have_count(0)
    expect(theirs.get_by_text("lions in the zoo")).to_have_count(0)


def test_a_token_is_made_replaced_and_revoked(open_page: Any, chief: User) -> None:
    page = open_page("/you/", chief)
    page.get_by_label("Name", exact=True).fill("night watch")
    page.get_by_role("button", name="Create token").click()
    first = page.locator("#token").inner_text()
    page.get_by_role("link", name="I have saved it").click()
    expect(page.locator("#token")).to_have_count(0)
    page.locator("summary", has_text="Manage").click()
    page.get_by_role("button", name="Replace with a new token").click()
    second = page.locator("#token").inner_text()
    assert first != second
    page.get_by_role("link", name="I have saved it").click()
    expect(page.locator("#token")).to_have_count(0)
    page.locator("summary", has_text="Manage").click()
    page.get_by_role("button", name="Revoke permanently").click()
    expect(page.get_by_role("status")).to_contain_text("night watch is revoked")
    assert AgentToken.objects.active().count() == 0


def test_the_theme_of_the_account_shows_and_the_button_changes_this_browser(
    open_page: Any, chief: User
) -> None:
    page = open_page("/you/", chief, color_scheme="light")
    page.get_by_label("Theme", exact=True).select_option("dark")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Account of chief").click()
    page.get_by_role("button", name="Use the light theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.goto("/")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_the_pages_are_in_the_settings(open_page: Any, chief: User, bob: User) -> None:
    page = open_page("/", chief)
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("link", name="People").click()
    page.wait_for_url("**/people/")
    other = open_page("/", bob)
    other.get_by_role("link", name="Settings").click()
    expect(other.get_by_role("link", name="People")).to_have_count(0)
    other.get_by_role("link", name="Profile", exact=True).click()
    other.wait_for_url("**/you/")
