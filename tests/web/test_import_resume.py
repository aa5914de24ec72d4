"""Resuming an import that ended early is offered only if it can work; otherwise the page says what to do."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from django.test import Client

from memoryhub.maintenance import executor
from memoryhub.models import MaintenanceRun, Memory
from memoryhub.transfer import import_files, jobs
from memoryhub.transfer.records import UnreadableFile
from tests.web.markup import main
from tests.web.transfer_pages import home, importer, send, sent

__all__ = ["home", "importer"]
pytestmark = pytest.mark.django_db
LINE = {"content": "one apple"}


def stopped(client: Client) -> str:
    """The address of an import that was stopped before it began."""
    address = str(send(client, LINE).url)
    client.post(f"{address}stop/")
    return address


def offers_resume(client: Client, address: str) -> bool:
    return "resume/" in client.get(address).content.decode()


def test_a_stopped_import_can_be_resumed(importer: Client) -> None:
    assert offers_resume(importer, stopped(importer))


def test_an_import_whose_file_is_gone_asks_for_the_file(importer: Client) -> None:
    address = stopped(importer)
    import_files.delete_upload(MaintenanceRun.objects.get().params["upload"])
    shown = main(importer.get(address)).words
    assert "The import cannot continue: the hub no longer has the file; upload it again." in shown
    assert "resume it" not in shown
    assert "Upload the file again" in shown
    assert not offers_resume(importer, address)
    importer.post(f"{address}resume/")
    assert MaintenanceRun.objects.get().status == "failed"


def test_a_file_that_cannot_be_read_to_its_end_cannot_be_resumed(importer: Client) -> None:
    lines = "\n".join(json.dumps({"content": f"apple {n} of {n * n}"}) for n in range(3000)).encode()
    address = sent(importer, gzip.compress(lines)[:-2000], name="notes.jsonl.gz")
    assert MaintenanceRun.objects.get().status == "failed"
    shown = main(importer.get(address)).words
    assert "damaged or truncated" in shown
    assert "Upload the file again" in shown
    assert not offers_resume(importer, address)


def test_an_import_that_failed_for_another_reason_can_be_resumed(
    importer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(send(importer, LINE).url)
    with monkeypatch.context() as patched:
        patched.setattr(jobs.Batch, "prepare", lambda batch: 1 / 0)
        assert executor.execute(MaintenanceRun.objects.get())
    assert offers_resume(importer, address)
    importer.post(f"{address}resume/")
    assert executor.execute(MaintenanceRun.objects.get())
    assert Memory.objects.count() == 1


def test_a_file_that_cannot_be_opened_now_is_kept(importer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> Any:
        raise UnreadableFile("notes.jsonl: cannot be read: Too many open files")

    address = str(send(importer, LINE).url)
    with monkeypatch.context() as patched:
        patched.setattr(jobs, "open_import", refuse)
        assert executor.execute(MaintenanceRun.objects.get())
    assert offers_resume(importer, address)


def test_a_restore_is_not_resumed_without_the_permission(importer: Client) -> None:
    address = stopped(importer)
    run = MaintenanceRun.objects.get()
    run.params["restores"] = True
    run.save()
    assert "resume it as a maintainer, or import the file again" in main(importer.get(address)).words
    assert not offers_resume(importer, address)


def test_the_page_of_the_run_does_not_offer_it_either(importer: Client, sign_in: Any) -> None:
    stopped(importer)
    run = MaintenanceRun.objects.get()
    keeper = sign_in("add_maintenancerun", name="keeper")
    assert offers_resume(keeper, f"/maintenance/runs/{run.uid}/")
    import_files.delete_upload(run.params["upload"])
    assert not offers_resume(keeper, f"/maintenance/runs/{run.uid}/")
