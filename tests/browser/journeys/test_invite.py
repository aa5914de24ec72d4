"""Invite a team mate who sees one project."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from playwright.sync_api import expect

from tests.browser.journeys.conftest import go_to


def test_a_team_mate_is_invited_and_sees_one_project(set_out: Any, admin_user: User, remember: Any) -> None:
    remember("The oven of the bakery runs hot", project="bakery")
    remember("The vault of the bank is closed", project="bank")
    page = set_out("/", admin_user)
    go_to(page, "Settings", "People")
    page.get_by_label("Username").last.fill("dora")
    page.get_by_role("textbox", name="Projects", exact=True).fill("bakery")
    page.get_by_role("button", name="Invite").click()
    link = page.get_by_label("Link").input_value()

    theirs = set_out("about:blank")
    theirs.goto(link)
    expect(theirs.get_by_text("in bakery")).to_be_visible()
    for label in ("New password", "New password again"):
        theirs.get_by_label(label, exact=True).fill("oven mitts 42")
    theirs.get_by_role("button", name="Set password and sign in").click()
    expect(theirs.get_by_role("heading", level=1)).to_have_text("Home")
    go_to(theirs, "Memories")
    expect(theirs.get_by_text("The oven of the bakery runs hot").first).to_be_visible()
    expect(theirs.get_by_text("The vault of the bank is closed")).to_have_count(0)
