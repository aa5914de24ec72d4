"""The import page: upload a file, follow the import, see its result."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryhub.maintenance import executor, nodes
from memoryhub.models import JournalEntry, MaintenanceRun, Memory
from tests.web.markup import main
from tests.web.transfer_pages import home, importer, send, sent

__all__ = ["home", "importer"]
pytestmark = pytest.mark.django_db


def test_a_file_is_imported_and_what_became_of_it_is_shown(importer: Client) -> None:
    address = sent(importer, {"content": "one"}, {"content": "", "odd": 1}, {"content": "two", "odd": 1})
    shown = main(importer.get(address)).words
    assert "notes.jsonl, memoryhub (JSON lines)" in shown
    assert "rows3" in shown
    assert "memories created2" in shown
    assert "line 2: content: should have at least 1 character" in shown
    assert "odd (1)" in shown
    assert Memory.objects.count() == 2
    assert set(JournalEntry.objects.filter(operation="insert").values_list("actor", flat=True)) == {
        "user:ada"
    }


def test_one_memory_is_counted_in_the_singular(importer: Client) -> None:
    shown = main(importer.get(sent(importer, {"content": "One."}, b"not JSON", b"nor this"))).words
    assert "memory created1" in shown
    assert "rows3" in shown
    shown = main(importer.get(sent(importer, {"content": "Two."}))).words
    assert "row1" in shown


def test_an_empty_file_is_refused_in_a_sentence(importer: Client) -> None:
    response = send(importer, b"")
    assert response.status_code == 422
    assert "The file is empty. Choose one with memories." in main(response).words


def test_source_of_a_line_is_shown_as_a_tag_of_its_memory(importer: Client) -> None:
    line = {"content": "one", "source": "notion"}
    shown = main(importer.get(sent(importer, line, do="dry_run"))).words
    assert "source" not in shown
    sent(importer, line)
    memory = importer.get(f"/memories/{Memory.objects.get().uid}/")
    assert "source:notion" in main(memory).words


def test_the_result_links_to_the_imported_memories(importer: Client) -> None:
    sent(importer, {"content": "imported before"})
    address = sent(importer, {"content": "one apple"}, {"content": "two pears"})
    assert "View the 2 imported memories" in main(importer.get(address)).words
    shown = main(importer.get(f"/memories/?imported={address.split('/')[-2]}")).words
    assert "one apple" in shown
    assert "two pears" in shown
    assert "imported before" not in shown


def test_an_unknown_import_lists_nothing(importer: Client) -> None:
    sent(importer, {"content": "one apple"})
    assert "one apple" not in main(importer.get("/memories/?imported=none")).words


def test_a_running_import_shows_rows_and_time_left(importer: Client) -> None:
    address = sent(importer, {"content": "one"})
    run = MaintenanceRun.objects.get()
    run.status, run.started_at = "running", timezone.now() - timedelta(seconds=60)
    run.done, run.total, run.result = (
        500,
        1000,
        {"counts": {"memories created": 1200, "failed": 3, "ignored": 9}},
    )
    run.heartbeat_at, run.finished_at = timezone.now(), None
    run.worker = nodes.worker_id()
    run.save()
    shown = main(importer.get(address)).words
    assert "1,203 rows, about" in shown
    assert "left" in shown


def test_a_waiting_import_polls_can_be_stopped_and_resumed(importer: Client) -> None:
    address = send(importer, {"content": "x"}).url
    assert "Waiting to start" in main(importer.get(address)).words
    assert b"every 1s" in importer.get(f"{address}progress/", headers={"HX-Request": "true"}).content
    importer.post(f"{address}stop/")
    assert "Stopped" in main(importer.get(address)).words
    importer.post(f"{address}resume/")
    assert executor.execute(MaintenanceRun.objects.get())
    ended = importer.get(f"{address}progress/", headers={"HX-Request": "true"})
    assert ended["HX-Retarget"] == "#import"
    assert Memory.objects.count() == 1


def test_a_claude_md_is_seen_by_its_content(importer: Client) -> None:
    text = b"# Rules\n\n- Use British English\n- Never commit on Friday\n"
    address = sent(importer, text, name="CLAUDE.local.md", project="shop")
    assert "Markdown (CLAUDE.md)" in main(importer.get(address)).words
    assert set(Memory.objects.values_list("scope", "owner")) == {("personal", "ada")}


def test_hostile_names_and_fields_are_shown_as_text(importer: Client) -> None:
    address = sent(
        importer,
        {"content": "x", "<script>alert(1)</script>": 1},
        {"content": "", "<b>": 1},
        name="<img src=x onerror=alert(1)>.jsonl",
    )
    raw = importer.get(address).content.decode()
    assert "<script>alert" not in raw
    assert "<img src=x" not in raw
    assert "&lt;script&gt;alert(1)" in raw


@pytest.mark.parametrize("lines", [(b"title,content", b"Tides,low"), (b"", b"  ")], ids=["csv", "blank"])
def test_a_check_that_finds_nothing_offers_no_import(importer: Client, lines: tuple[bytes, ...]) -> None:
    page = importer.get(sent(importer, *lines, do="dry_run", name="tides.csv")).content.decode()
    assert "Import the file" not in page
    assert "Everything else" not in page
    assert "Upload another file" in page


def test_a_file_of_an_unknown_program_is_refused_in_words(importer: Client) -> None:
    response = send(importer, b"[", b'{"content": "a"}', b"]", name="export.json")
    executor.execute(MaintenanceRun.objects.get(uid=response.url.split("/")[-2]))
    words = main(importer.get(response.url)).words
    assert "export.json: is JSON of an unknown program; choose the format of that program" in words


def test_without_a_file_the_form_says_what_is_missing(importer: Client) -> None:
    response = importer.post("/transfer/import/", {"do": "run"})
    assert response.status_code == 422
    assert "required" in main(response).words


def test_a_file_that_is_too_large_is_refused_in_words(importer: Client, configure: Any, home: Path) -> None:
    configure(max_upload_mb=1)
    for size in (1_200_000, 3_000_000):
        response = send(importer, b"x" * size)
        assert response.status_code == 413
        assert "larger than 1 MiB" in main(response).words
    assert not MaintenanceRun.objects.exists()
    assert not list(home.glob("imports/*"))


def test_the_page_asks_to_close_a_program_before_its_database_is_uploaded(importer: Client) -> None:
    assert "a separate -wal file" in main(importer.get("/transfer/")).words


def test_the_run_of_an_import_leads_to_its_report(sign_in: Any) -> None:
    client = sign_in("add_memory", "view_maintenancerun")
    address = sent(client, {"content": "one"}, b"not a memory")
    run = f"/maintenance/runs/{address.split('/')[-2]}/"
    assert client.get(run).url == address
    words = main(client.get("/maintenance/runs/")).words
    assert "notes.jsonl" in words
    assert not re.search(r"\d change", words)  # they would include what failed
    other = sign_in("view_maintenancerun", name="eve")
    if (shown := other.get(run)).status_code == 200:
        assert "Nothing" not in main(shown).words
    assert "notes.jsonl" not in main(other.get("/maintenance/runs/")).words


def test_recent_imports_are_listed_with_their_state(importer: Client) -> None:
    sent(importer, {"content": "one"}, do="dry_run")
    shown = main(importer.get("/transfer/")).words
    assert "notes.jsonl" in shown
    assert "CheckDone" in "".join(shown.split())
    assert "failed" not in shown


def test_recent_imports_show_how_many_rows_failed(importer: Client) -> None:
    sent(importer, {"content": "one"}, b"not JSON", b"nor this", do="dry_run")
    assert "2 failed" in main(importer.get("/transfer/")).words
