"""Import and export: a dry run, the import, and a download."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from memoryhub.maintenance.worker import Worker, stop_workers
from memoryhub.models import Memory

from .conftest import OpenPage
from .page_checks import find_state_problems


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any) -> None:
    settings.HOME = tmp_path / "home"
    settings.HOME.mkdir()


@pytest.fixture
def writer(person: Callable[..., User]) -> User:
    return person("writer", "add_memory")


@pytest.fixture
def workers() -> Iterator[None]:
    """Start the server's background threads."""
    at_work = [Worker(dry_runs=False), Worker(dry_runs=True)]
    for worker in at_work:
        worker.start()
    yield
    stop_workers(at_work)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.jsonl"
    lines = [*({"content": f"note {n}", "project": "shop"} for n in range(30)), {"content": ""}]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def send(page: Page, path: Path, button: str) -> None:
    page.get_by_label("File").set_input_files(path)
    page.get_by_role("button", name=button, exact=True).click()


def test_a_file_is_checked_and_then_imported(
    open_page: OpenPage, writer: User, workers: None, notes: Path
) -> None:
    page = open_page("/transfer/", writer)
    send(page, notes, "Check the file")
    expect(page.get_by_text("Nothing was stored.")).to_be_visible(timeout=20_000)
    expect(page.get_by_text("line 31: content:")).to_be_visible()
    assert not Memory.objects.exists()
    page.get_by_role("button", name="Import the file").click()
    expect(page.get_by_text("memories created")).to_be_visible(timeout=20_000)
    assert Memory.objects.count() == 30


def test_import_errors_are_accessible_and_fit(
    open_page: OpenPage, writer: User, workers: None, notes: Path
) -> None:
    page = open_page("/transfer/", writer)
    send(page, notes, "Check the file")
    expect(page.get_by_text("What would fail")).to_be_visible(timeout=20_000)
    assert not find_state_problems(page)


def test_the_choices_fit_with_a_long_unknown_field(
    open_page: OpenPage, writer: User, workers: None, tmp_path: Path
) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text(json.dumps({"content": "a note", "a_name_without_any_blank_" * 3: 1}))
    page = open_page("/transfer/", writer)
    send(page, path, "Check the file")
    expect(page.get_by_text("Unknown fields").first).to_be_visible(timeout=20_000)
    assert not find_state_problems(page)
    for width in (640, 390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_export_is_downloaded(open_page: OpenPage, writer: User, remember: Callable[..., Memory]) -> None:
    remember("to take along")
    page = open_page("/", writer)
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("link", name="Import and export").click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download").click()
    assert waiting.value.suggested_filename.endswith(".jsonl")
    assert json.loads(Path(waiting.value.path()).read_text())["content"] == "to take along"
