"""Lost journal rows are detected, recorded in the journal, and reported until a person acknowledges them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress

import pytest
from django.db import connection, transaction

from memoryhub.audit import journal, mirror
from memoryhub.core.database import write_transaction
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import JournalEntry
from tests.database import cut_journal, without_journal_triggers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def five_rows(remember):
    for n in range(5):
        remember(f"memory {n}")


def test_rows_cut_off_at_the_end_are_detected(five_rows):
    assert journal.verify().ok
    cut_journal(3)
    assert journal.verify() == journal.Verification(False, 3, 4)


def test_emptied_journal_is_detected(five_rows):
    cut_journal(0)
    assert journal.verify() == journal.Verification(False, 0, 1)


def test_rewritten_end_is_detected(five_rows, actor, remember, journal_mirror):
    mirrored = journal_mirror.read_bytes()
    cut_journal(4)
    journal_mirror.unlink()
    remember("another fifth")
    journal_mirror.write_bytes(mirrored)
    assert journal.verify() == journal.Verification(False, 5, 5)


def test_mirror_of_another_store_is_ignored(five_rows, journal_mirror):
    other = journal_mirror.read_text().replace('"hash":"', '"hash":"0')
    journal_mirror.write_text(other + other)
    assert journal.verify().ok


def test_row_written_during_the_verification_is_not_lost(five_rows, remember, monkeypatch):
    verify_chain = journal.verify_chain

    def verify_while_another_writes():
        found = verify_chain()
        remember("meanwhile")
        return found

    monkeypatch.setattr(journal, "verify_chain", verify_while_another_writes)
    assert journal.verify().ok


@pytest.mark.sqlite
def test_row_cannot_be_replaced_with_default_settings(five_rows):
    file = sqlite3.connect(connection.settings_dict["NAME"])
    try:
        with pytest.raises(sqlite3.DatabaseError, match="append-only"):
            file.execute(
                "INSERT OR REPLACE INTO memoryhub_journalentry"
                " SELECT * FROM memoryhub_journalentry WHERE seq = 2"
            )
    finally:
        file.close()


def acknowledge(actor, through=None):
    with write_transaction():
        return journal.acknowledge_loss(actor, through)


def recorded() -> list[JournalEntry]:
    return list(JournalEntry.objects.filter(operation="journal_loss").order_by("seq"))


def test_lost_rows_are_still_reported_after_the_next_write(five_rows, remember):
    cut_journal(3)
    remember("the next")
    found = journal.verify()
    assert (found.ok, found.first_bad_seq) == (False, 4)
    assert (found.loss.first_seq, found.loss.last_seq, found.loss.rows) == (4, 5, 2)


def test_loss_row_names_the_mirror_that_was_set_aside(five_rows, remember, journal_mirror):
    before = journal_mirror.read_bytes()
    cut_journal(3)
    remember("the next")
    [row] = recorded()
    assert (row.seq, row.actor, row.sensitivity) == (5, "system:journal", "secret")
    assert row.detail["journal_rows"] == 3
    assert (journal_mirror.parent / row.detail["file"]).read_bytes() == before
    assert mirror.set_aside() == [journal_mirror.parent / row.detail["file"]]
    assert journal.compare_mirror().in_step


def test_loss_is_reported_if_the_last_line_of_the_mirror_is_unreadable(five_rows, remember, journal_mirror):
    """After a power loss, a block of the file may contain zeros."""
    cut_journal(3)
    with journal_mirror.open("ab") as file:
        file.write(b"\0" * 200 + b'"hash":"ab"}\n')
    assert journal.verify().first_bad_seq == 4
    remember("the next")
    [row] = recorded()
    assert (row.detail["first_seq"], row.detail["last_seq"]) == (4, 5)
    assert [path.name for path in mirror.set_aside()] == [row.detail["file"]]


def test_loss_is_recorded_once(five_rows, remember):
    cut_journal(3)
    remember("the next")
    remember("another")
    assert len(recorded()) == 1


def test_loss_is_recorded_once_if_the_mirror_cannot_be_set_aside(five_rows, remember, monkeypatch):
    cut_journal(3)
    with monkeypatch.context() as patch:
        patch.setattr(mirror, "append", lambda lines, after="": None)
        remember("the next")
    remember("another")
    [row] = recorded()
    assert [path.name for path in mirror.set_aside()] == [row.detail["file"]]


def test_loss_is_detected_again_after_a_rollback(five_rows, remember):
    cut_journal(3)
    with suppress(RuntimeError), transaction.atomic():
        remember("never")
        raise RuntimeError
    assert recorded() == []
    remember("the next")
    assert journal.verify().loss.rows == 2


def test_acknowledged_loss_is_not_reported(five_rows, remember, actor):
    cut_journal(3)
    remember("the next")
    assert acknowledge(actor).rows == 2
    assert journal.verify() == journal.Verification(True, 6)
    newest = JournalEntry.objects.latest("seq")
    assert (newest.operation, newest.actor) == ("journal_loss_acknowledged", actor.name)


def test_unrecorded_loss_can_be_acknowledged(five_rows, actor):
    cut_journal(3)
    assert acknowledge(actor).rows == 2
    assert journal.verify() == journal.Verification(True, 5)
    assert journal.compare_mirror().in_step


def test_acknowledging_without_a_loss_writes_no_row(five_rows, actor):
    assert acknowledge(actor) is None
    assert journal.last_seq() == 5


def test_second_loss_is_reported_after_the_first_was_acknowledged(five_rows, remember, actor):
    cut_journal(3)
    acknowledge(actor)
    remember("a")
    cut_journal(5)
    remember("b")
    loss = journal.verify().loss
    assert (loss.first_seq, loss.last_seq, loss.rows) == (6, 6, 1)


def test_later_loss_is_not_acknowledged_with_the_shown_one(five_rows, remember, actor):
    cut_journal(3)
    remember("a")
    shown = journal.pending()
    remember("b")
    cut_journal(5)
    remember("c")
    acknowledge(actor, shown.recorded_in)
    assert journal.pending().rows == 1


def test_rewritten_end_is_a_loss(five_rows, remember, journal_mirror):
    mirrored = journal_mirror.read_bytes()
    cut_journal(3)
    journal_mirror.unlink()
    remember("another fourth")
    remember("another fifth")
    remember("a sixth")
    journal_mirror.write_bytes(mirrored)
    remember("the next")
    assert (journal.pending().first_seq, journal.pending().rows) == (4, 2)


def test_loss_of_all_rows_is_reported(five_rows, remember):
    cut_journal(0)
    remember("the next")
    assert (journal.pending().first_seq, journal.pending().rows) == (1, 5)


def test_mirror_of_another_store_is_set_aside_without_a_loss(five_rows, remember, journal_mirror):
    lines = [json.loads(line) for line in journal_mirror.read_text().splitlines()]
    foreign = [json.dumps(dict(line, hash=f"{line['seq']:064}")) + "\n" for line in (*lines, *lines)]
    journal_mirror.write_text("".join(foreign))
    remember("the next")
    assert journal.verify() == journal.Verification(True, 6)
    assert len(mirror.set_aside()) == 1


def test_mirror_older_than_an_empty_store_is_set_aside_without_a_loss(five_rows, remember, journal_mirror):
    cut_journal(0)
    lines = [json.loads(line) for line in journal_mirror.read_text().splitlines()]
    older = [json.dumps(dict(line, at="2001-01-01T00:00:00Z")) + "\n" for line in lines]
    journal_mirror.write_text("".join(older))
    remember("the next")
    assert recorded() == []
    assert len(mirror.set_aside()) == 1


def test_imported_loss_row_is_not_reported(five_rows):
    detail = {"first_seq": 1, "last_seq": 2, "rows": 2, "file": "x", "imported": {"seq": 1, "hash": "x"}}
    at = JournalEntry.objects.latest("seq").at
    with write_transaction():
        journal.record_imported(
            [(at, "system:journal", journal.Change("journal_loss", "journal", "", detail))]
        )
    assert journal.verify().ok


def test_imported_acknowledgement_does_not_end_the_report(five_rows, remember):
    cut_journal(3)
    remember("the next")
    detail = {"through": 10**6, "imported": {"seq": 1, "hash": "x"}}
    change = journal.Change("journal_loss_acknowledged", "journal", "", detail)
    with write_transaction():
        journal.record_imported([(JournalEntry.objects.latest("seq").at, "ada", change)])
    assert not journal.verify().ok


def test_broken_chain_is_reported_before_a_loss(five_rows, remember):
    cut_journal(3)
    remember("the next")
    with without_journal_triggers():
        JournalEntry.objects.filter(seq=2).update(actor="someone else")
    assert journal.verify().first_bad_seq == 2


def test_action_that_detects_a_loss_can_be_undone(five_rows, actor):
    made = [services.create_fact(FactDraft(subject=s, predicate="is", object="x"), actor)[0] for s in "ab"]
    cut_journal(6)
    ended = services.end_facts([fact.uid for fact in made], actor)
    assert len(recorded()) == 1
    assert len(services.undo_end_facts(ended.id, actor, ended.first, ended.last)) == 2
