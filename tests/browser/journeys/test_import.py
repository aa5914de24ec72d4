"""Import a file: check it, keep its memories for ever, look at them, and take the import back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from memoryhub.maintenance.worker import Worker, stop_workers
from tests.browser.journeys.conftest import go_to


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any) -> None:
    settings.HOME = tmp_path / "home"
    settings.HOME.mkdir()


@pytest.fixture
def workers() -> Iterator[None]:
    at_work = [Worker(dry_runs=False), Worker(dry_runs=True)]
    for worker in at_work:
        worker.start()
    yield
    stop_workers(at_work)


def test_a_file_is_imported_for_ever_and_the_import_is_undone(
    set_out: Any, person: Any, workers: None, tmp_path: Path, new_memories: Any
) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text("\n".join(json.dumps({"content": f"Mixer note {n}"}) for n in range(12)))
    page = set_out("/", person("writer", "add_memory", "delete_memory"))
    go_to(page, "Settings", "Import and export")
    page.get_by_label("File").set_input_files(path)
    page.get_by_role("button", name="Check the file", exact=True).click()
    expect(page.get_by_text("Nothing was stored.")).to_be_visible(timeout=20_000)
    page.get_by_label("Memories without a date of expiry").select_option("Never expire")
    page.get_by_role("button", name="Import the file").click()
    page.get_by_role("link", name="View the 12 imported memories").click(timeout=20_000)
    expect(page.get_by_text("Mixer note 11").first).to_be_visible()
    assert {memory.expires_at for memory in new_memories()} == {None}
    page.go_back()
    page.get_by_role("link", name="Undo this import…").click()
    page.get_by_role("button", name="Undo import").click()
    expect(page.get_by_text("Its memories are in the trash.")).to_be_visible(timeout=20_000)
    assert new_memories().trashed().count() == 12
