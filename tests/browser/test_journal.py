"""Verification of the journal on its page."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from memoryhub.access.policy import system_actor
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.models import Memory

from .conftest import OpenPage


@pytest.mark.parametrize("scripts", [True, False], ids=["with JavaScript", "without JavaScript"])
def test_the_chain_is_verified_on_demand(
    open_page: OpenPage, person: Callable[..., User], remember: Callable[..., Memory], scripts: bool
) -> None:
    for number in range(3):
        remember(f"memory {number}")
    page = open_page("/journal/?operation=insert", person(), java_script_enabled=scripts)
    expect(page.get_by_text("The chain is intact.")).to_be_hidden()
    verify = page.get_by_role("button", name="Verify the chain")
    verify.press("Enter")
    expect(page.get_by_text("The chain is intact.")).to_be_visible()
    if scripts:
        expect(verify).to_be_focused()
    expect(page.get_by_text("Each row is linked to the previous one")).to_be_visible()
    kept = "operation=insert" in page.url
    assert kept is scripts, "with JavaScript the list stays as it was"


def test_names_of_operations_are_not_broken(open_page: OpenPage, person: Callable[..., User]) -> None:
    """The word wraps if its range has more than one box."""
    user = person()
    with write_transaction():
        journal.record(
            system_actor("upkeep"), [journal.Change("consolidate", "memory", detail={"changes": 9})]
        )
    page = open_page("/journal/?operation=consolidate", user)
    word = page.get_by_role("rowheader", name="Consolidated")
    expect(word).to_be_visible()
    boxes = """cell => {
        const range = document.createRange()
        range.selectNodeContents(cell)
        return new Set([...range.getClientRects()].map(box => box.top)).size
    }"""
    assert word.evaluate(boxes) == 1


def test_rows_link_to_their_memory(
    open_page: OpenPage, person: Callable[..., User], remember: Callable[..., Memory]
) -> None:
    remember("words", title="The one it is about")
    page = open_page("/journal/", person())
    page.get_by_role("link", name="The one it is about").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The one it is about")
