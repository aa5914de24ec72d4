"""A write to a file that was removed or replaced is refused, because it would be lost without a trace."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client

from memoryhub.api.health import find_store_errors
from memoryhub.http.problems import to_problem
from memoryhub.models import Memory
from tests.commands.examining import remember

pytestmark = pytest.mark.django_db(transaction=True)


def remove(store: Path) -> None:
    for path in (store, Path(f"{store}-wal"), Path(f"{store}-shm")):
        path.unlink()


def replace(store: Path) -> None:
    copy = store.with_name("copy.db")
    shutil.copyfile(store, copy)
    copy.replace(store)


@pytest.mark.parametrize("lose", [remove, replace])
def test_a_write_to_a_lost_file_is_refused_and_reads_work(own_store, lose):
    remember("one whale")
    lose(own_store)
    with pytest.raises(Exception, match="removed or replaced; put it back, or stop the hub") as refused:
        remember("two whales")
    assert to_problem(refused.value).status == 503
    assert [memory.content for memory in Memory.objects.all()] == ["one whale"]


@pytest.mark.parametrize("lose", [remove, replace])
def test_readyz_reports_a_lost_file(own_store, lose):
    remember("one whale")
    lose(own_store)
    [error] = find_store_errors()
    assert "the file of the store was removed or replaced" in error["message"]
    assert Client().get("/readyz").status_code == 503


def test_the_log_of_a_replaced_file_is_not_applied_to_the_new_one(own_store):
    older = own_store.with_name("older.db")
    remember("one whale")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copyfile(own_store, older)
    for number in range(50):
        remember(f"{number} lost dolphins")
    older.replace(own_store)
    with pytest.raises(Exception, match="removed or replaced"):
        remember("two whales")
    connection.close()
    assert [memory.content for memory in Memory.objects.all()] == ["one whale"]
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA integrity_check")
        assert cursor.fetchall() == [("ok",)]


def test_a_restored_file_accepts_writes_again(own_store):
    remember("one whale")
    elsewhere = own_store.with_name("elsewhere.db")
    own_store.rename(elsewhere)
    with pytest.raises(Exception, match="removed or replaced"):
        remember("two whales")
    elsewhere.rename(own_store)
    remember("two whales")
    connection.close()
    assert Memory.objects.count() == 2
