"""The dry run of an import, and the choices that it offers."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from memoryhub.maintenance import executor
from memoryhub.models import MaintenanceRun, Memory
from tests.web.markup import main
from tests.web.transfer_pages import home, import_after, importer, sent

__all__ = ["home", "importer"]
pytestmark = pytest.mark.django_db


def test_a_dry_run_stores_nothing_and_is_then_done_for_real(importer: Client) -> None:
    address = sent(importer, {"content": "one"}, do="dry_run", project="shop")
    shown = main(importer.get(address))
    assert "Nothing was stored." in shown.words
    assert "Import the file" in shown.words
    assert not Memory.objects.exists()
    response = importer.post(f"{address}import/")
    assert executor.execute(MaintenanceRun.objects.get(uid=response.url.split("/")[-2]))
    assert Memory.objects.get().project == "shop"
    assert "Import the file" not in main(importer.get(response.url)).words


def test_the_check_shows_duplicates_and_expiry(importer: Client) -> None:
    sent(importer, {"content": "one"})
    address = sent(importer, {"content": "one"}, {"content": "two"}, do="dry_run")
    shown = main(importer.get(address)).words
    assert "1 of 2 rows repeats a stored memory or another row" in shown
    assert "1 new memory expires" in shown


def test_imported_memories_never_expire_if_that_is_chosen(importer: Client) -> None:
    address = sent(importer, {"content": "one"}, {"content": "two", "ttl_days": 5}, do="dry_run")
    import_after(importer, address, lifetime="never")
    expiry = {memory.content: memory.expires_at for memory in Memory.objects.all()}
    assert expiry["one"] is None
    assert expiry["two"] is not None


def test_types_are_inferred_only_where_the_file_has_none(importer: Client) -> None:
    fix = "Fixed a crash in the parser when a bug caused an error"
    address = sent(importer, {"content": fix}, {"content": f"{fix} again", "type": "fact"}, do="dry_run")
    assert "The text suggests" in main(importer.get(address)).words
    import_after(importer, address, infer_types="on")
    assert set(Memory.objects.values_list("content", "type")) == {(fix, "bugfix"), (f"{fix} again", "fact")}


def test_types_stay_the_default_unless_inference_is_chosen(importer: Client) -> None:
    address = sent(importer, {"content": "Fixed a crash in the parser"}, do="dry_run")
    import_after(importer, address)
    assert Memory.objects.get().type == "change"


def test_an_unknown_field_is_mapped(importer: Client) -> None:
    lines = [{"content": "one", "topic": "billing"}, {"content": "two", "topic": "x" * 5000}]
    address = sent(importer, *lines, do="dry_run")
    done = import_after(importer, address, field_0="category")
    assert dict(Memory.objects.values_list("content", "category")) == {"one": "billing", "two": "general"}
    assert "topic (1)" in main(importer.get(done)).words


def test_a_mapped_value_is_checked_for_secrets(importer: Client) -> None:
    key = "AKIA" + "Z7Q3M5X2K9L4P8R6"
    address = sent(importer, {"content": "one", "topic": f"key {key}"}, do="dry_run")
    import_after(importer, address, field_0="subtitle")
    assert not Memory.objects.exists()


def test_an_unknown_field_is_not_mapped_to_a_level(importer: Client) -> None:
    address = sent(importer, {"content": "one", "topic": "secret"}, do="dry_run")
    response = importer.post(f"{address}import/", {"field_0": "sensitivity"})
    assert response.status_code == 422
    assert MaintenanceRun.objects.count() == 1


@pytest.mark.sqlite  # PostgreSQL has a copy of the file
def test_a_dry_run_with_a_deleted_file_is_reported(importer: Client, home: Path) -> None:
    address = sent(importer, {"content": "one"}, do="dry_run")
    for path in (home / "imports").iterdir():
        path.unlink()
    assert "upload it again" in main(importer.post(f"{address}import/", follow=True)).words
