"""Clean up a secret that was stored before the scanner existed."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from playwright.sync_api import expect

from memoryhub.models import JournalEntry, Memory
from tests.browser.conftest import OpenPage, Watch

KEY = "AKIA" + "QYLPMN5HHHFPZAM2"


@pytest.fixture
def leaked(configure: Any, remember: Any) -> Memory:
    configure(block_secrets=False)
    made: Memory = remember(f"The uploader signs in with {KEY}", title="Uploader", project="shop")
    configure()
    return made


def test_a_memory_with_a_credential_is_found_and_erased(
    set_out: Any, insider: Any, leaked: Memory, new_memories: Any
) -> None:
    page = set_out("/memories/?q=uploader&min_score=0", insider)
    page.get_by_role("link", name="Uploader").click()
    page.locator("details.more > summary").click()
    page.get_by_role("link", name="Erase").click()
    page.get_by_label("Type “erase”").fill("erase")
    page.get_by_role("button", name="Erase permanently").click()
    expect(page.get_by_text("Erased permanently.")).to_be_visible()
    page.goto("/memories/?q=uploader&min_score=0")
    expect(page.get_by_role("link", name="Uploader")).to_have_count(0)
    assert not new_memories().exists()
    page.goto("/journal/?operation=erase")
    expect(page.get_by_role("row").filter(has_text=leaked.uid)).to_be_visible()
    folder = Path(connection.settings_dict["NAME"])
    for file in folder.parent.glob(f"{folder.name}*"):
        assert KEY.encode() not in file.read_bytes(), file


def test_a_scan_hides_what_it_finds_and_the_browser_shows_it_to_no_one(
    open_page: OpenPage, insider: Any, leaked: Memory, watch: Watch
) -> None:
    call_command("scan_secrets", "--quarantine", stdout=StringIO())
    watch.expect(404)
    page = open_page(f"/memories/{leaked.uid}/", insider)
    expect(page.get_by_role("heading", level=1)).to_have_text("Page not found")
    page.goto("/memories/?q=uploader&min_score=0")
    expect(page.get_by_role("link", name="Uploader")).to_have_count(0)


def test_a_credential_typed_into_a_form_is_refused_and_can_be_taken_out(
    set_out: Any, insider: Any, watch: Watch, new_memories: Any
) -> None:
    watch.expect(422)
    page = set_out("/memories/new/", insider)
    page.get_by_label("Content").fill(f"The uploader signs in with {KEY}")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Line 1 of content contains what looks like").first).to_be_visible()
    assert not new_memories().exists()
    page.get_by_label("Content").fill("The uploader signs in with the key from the vault")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Stored.", exact=True)).to_be_visible()
    assert JournalEntry.objects.filter(operation="secret_blocked").exists()
