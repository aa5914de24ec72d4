"""``verify_journal``: the chain, and the mirror beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection

from memoryhub.audit import journal
from memoryhub.models import JournalEntry
from tests.database import cut_journal, without_journal_triggers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ten(remember, journal_mirror: Path) -> Path:
    """Ten rows, mirrored."""
    for n in range(10):
        remember(f"memory {n} für 記憶", project="zoo")
    return journal_mirror


def sql(statement: str) -> None:
    with without_journal_triggers(), connection.cursor() as cursor:
        cursor.execute(statement)


def edit(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    path.write_text("".join(change(path.read_text("utf-8").splitlines(keepends=True))), "utf-8")


def test_a_sound_journal_with_its_mirror_in_step(run, ten):
    ran = run("verify_journal")
    assert ran.code == 0
    assert "Chain: intact, 10 rows" in ran.out
    assert "Mirror: up to date, 10 lines" in ran.out


def test_an_empty_store_is_sound(run, db):
    ran = run("verify_journal")
    assert ran.code == 0
    assert "Chain: intact, 0 rows" in ran.out


def test_one_changed_byte_in_the_database_is_found_in_both(run, ten):
    sql("UPDATE memoryhub_journalentry SET actor = 'x' || substr(actor, 2) WHERE seq = 4")
    ran = run("verify_journal")
    assert ran.code == 1
    assert "Chain: broken at row 4, of 10 rows" in ran.out
    assert "lines that differ from their rows: 1, from 4 on" in ran.out
    assert "the journal is not intact" in ran.err


def test_rows_cut_from_the_end_are_found_in_the_mirror(run, ten):
    sql("DELETE FROM memoryhub_journalentry WHERE seq > 7")
    ran = run("verify_journal")
    assert ran.code == 1
    assert "Chain: intact, 7 rows" in ran.out
    assert "lines without a row in the database: 3, from 8 on" in ran.out


def test_a_row_missing_in_the_middle_is_found_in_both(run, ten):
    sql("DELETE FROM memoryhub_journalentry WHERE seq = 5")
    found = journal.compare_mirror()
    assert (found.lost, found.first_lost, found.different, found.gaps) == (1, 5, 0, 0)
    assert "Chain: broken at row 5" in run("verify_journal").out


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"actor":"token:tests"', '"actor":"someone"'),
        ('"detail":{', '"detail":{"x":1,'),
        ('"seq":6', '"seq":60'),
    ],
)
def test_a_changed_line_of_the_mirror_is_found(run, ten, old, new):
    edit(ten, lambda lines: [*lines[:5], lines[5].replace(old, new, 1), *lines[6:]])
    ran = run("verify_journal")
    assert ran.code == 1
    assert "Chain: intact" in ran.out


def test_a_mirror_of_another_store_is_foreign(run, ten):
    edit(ten, lambda lines: [line.replace("token:tests", "token:other") for line in lines])
    ran = run("verify_journal")
    assert ran.code == 1
    assert "it belongs to another store" in ran.out


def test_lines_in_another_order_are_found(ten):
    edit(ten, lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]])
    assert not journal.compare_mirror().ok


def test_a_line_written_twice_is_found(ten):
    edit(ten, lambda lines: [*lines[:3], lines[2], *lines[3:]])
    assert not journal.compare_mirror().ok


@pytest.mark.parametrize("raw", [b"not json", b"[]", b'{"seq": null}', b"\xff\xfe", b"[" * 100_000])
def test_a_line_that_cannot_be_read_is_found(ten, raw):
    ten.write_bytes(ten.read_bytes() + raw + b"\n")
    found = journal.compare_mirror()
    assert (found.unreadable, found.ok) == (1, False)


def test_rows_left_out_in_the_middle_are_found(run, ten):
    edit(ten, lambda lines: [*lines[:2], *lines[5:]])
    ran = run("verify_journal")
    assert ran.code == 1
    assert "rows left out in its middle: 3" in ran.out


def test_a_mirror_that_is_behind_is_reported_without_failure(run, ten):
    edit(ten, lambda lines: lines[:6])
    ran = run("verify_journal")
    assert ran.code == 0
    assert "newest rows not written yet: 4" in ran.out


def test_an_incomplete_last_line_is_reported_without_failure(run, ten):
    ten.write_bytes(ten.read_bytes()[:-20])
    found = journal.compare_mirror()
    assert (found.torn, found.behind, found.ok) == (True, 1, True)
    assert run("verify_journal").code == 0


def test_a_missing_mirror_is_reported_without_failure(run, ten):
    ten.unlink()
    ran = run("verify_journal")
    assert ran.code == 0
    assert "Mirror: missing" in ran.out


@pytest.mark.sqlite
def test_bytes_in_the_database_that_are_no_text_are_no_traceback(run, ten):
    sql("UPDATE memoryhub_journalentry SET actor = CAST(x'ff' AS TEXT), at = 'never' WHERE seq = 2")
    ran = run("verify_journal")
    assert ran.code == 1
    assert "broken at row 2" in ran.out
    assert "differ from their rows: 1, from 2 on" in ran.out


def test_the_result_is_available_as_json(run, ten):
    sql("DELETE FROM memoryhub_journalentry WHERE seq > 7")
    ran = run("verify_journal", "--json")
    shape = json.loads(ran.out)
    assert ran.code == 1
    assert (shape["ok"], shape["chain_ok"], shape["mirror_ok"]) == (False, True, False)
    assert (shape["rows"], shape["first_bad_seq"]) == (7, None)
    assert (shape["mirror"]["lost"], shape["mirror"]["first_lost"]) == (3, 8)


# Repair


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: edit(path, lambda lines: lines[:6]),
        lambda p: p.write_bytes(p.read_bytes()[:-9]),
    ],
    ids=["gone", "behind", "torn"],
)
def test_missing_last_lines_are_appended(ten, damage):
    before = ten.read_bytes()
    damage(ten)
    assert journal.repair_mirror(journal.compare_mirror())
    assert ten.read_bytes() == before
    assert journal.compare_mirror().in_step


def test_gaps_are_filled_and_the_earlier_file_is_kept(ten):
    before = ten.read_bytes()
    edit(ten, lambda lines: [*lines[:2], *lines[5:]])
    assert journal.repair_mirror(journal.compare_mirror())
    assert ten.read_bytes() == before
    assert len(list(ten.parent.iterdir())) == 2


def test_a_mirror_that_contradicts_the_database_is_evidence_and_stays(ten):
    edit(ten, lambda lines: [*lines[:5], lines[5].replace("token", "tokem"), *lines[6:8]])
    before = ten.read_bytes()
    assert not journal.repair_mirror(journal.compare_mirror())
    assert ten.read_bytes() == before


# Lost rows


def test_lost_rows_are_a_failure_after_the_next_write(run, ten, remember):
    cut_journal(7)
    remember("the next")
    ran = run("verify_journal")
    assert ran.code == 1
    assert "Loss: 3 journal rows lost (8 to 10), recorded in row 9" in ran.out
    assert "--acknowledge-loss" in ran.out
    assert json.loads(run("verify_journal", "--json").out)["loss"]["rows"] == 3


def test_an_acknowledged_loss_is_no_failure(run, ten, remember):
    cut_journal(7)
    remember("the next")
    ran = run("verify_journal", "--acknowledge-loss")
    assert ran.code == 0
    assert "Acknowledged: 3 journal rows lost (8 to 10)" in ran.out
    assert run("verify_journal").code == 0
    assert JournalEntry.objects.latest("seq").actor.startswith("command:")


def test_a_loss_before_the_next_write_can_be_acknowledged(run, ten):
    cut_journal(7)
    assert run("verify_journal", "--acknowledge-loss").code == 0
    assert run("verify_journal").code == 0


def test_without_a_loss_there_is_nothing_to_acknowledge(run, ten):
    ran = run("verify_journal", "--acknowledge-loss")
    assert (ran.code, "Nothing to acknowledge" in ran.out) == (0, True)
