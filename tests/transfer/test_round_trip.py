"""The hub's own file: what goes out with everything comes back as it was."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from memoryhub.audit import journal
from memoryhub.backends import schema
from memoryhub.models import Event, Fact, JournalEntry, Memory, Revision, Session
from tests.transfer.conftest import OPERATOR, of_kind, out, raw_out, wipe

pytestmark = pytest.mark.django_db

KINDS = {
    *("memoryhub", "session", "memory", "revision", "evidence", "merge", "fact", "event", "summary"),
    "superseded",
    "journal",
}


def without_time(lines):
    return [{name: value for name, value in line.items() if name != "exported_at"} for line in lines]


def test_a_whole_store_comes_back_as_it_was(full_store, bring_in):
    before = raw_out()
    lines = [json.loads(line) for line in before.splitlines()]
    assert {line["kind"] for line in lines} == KINDS
    wipe()
    loaded = bring_in(before)
    assert loaded.errors == []
    assert not loaded.tally.unmapped
    after = out()
    assert [line for line in without_time(after) if not _of_import(line)] == without_time(lines)


def _of_import(line):
    """The rows that the import itself writes into the journal."""
    return line["kind"] == "journal" and line["actor"] == OPERATOR.name


def test_what_the_import_itself_did_stands_in_the_journal(full_store, bring_in):
    before = raw_out()
    stored, facts = Memory.objects.count(), Fact.objects.count()
    wipe()
    bring_in(before)
    own = JournalEntry.objects.filter(actor=OPERATOR.name)
    assert Counter(own.values_list("object_type", "operation")) == {
        ("memory", "insert"): stored,
        ("fact", "insert"): facts,
    }
    assert journal.verify_chain().ok


def test_everything_can_be_found_and_undone_after_a_restore(full_store, bring_in):
    before = raw_out()
    wipe()
    bring_in(before)
    assert not schema.tables_missing()
    farm = Memory.objects.search("machines").get(title="Build farm")
    assert farm.revisions.count() == 3
    assert [one.content for one in farm.merged_from.all()] == ["The build runs on two machines now"]
    assert Event.objects.filter(memory__isnull=False).exists()
    assert Session.objects.get(session_id="s2").summary is not None


def test_the_same_file_again_changes_nothing(full_store, bring_in):
    before = raw_out()
    wipe()
    bring_in(before)
    there, rows = out(), JournalEntry.objects.count()
    again = bring_in(before)
    assert without_time(out()) == without_time(there)
    assert JournalEntry.objects.count() == rows
    assert set(again.tally.outcomes) == {"unchanged"}
    assert {outcome for counts in again.tally.others.values() for outcome in counts} == {"unchanged"}


def test_a_store_takes_its_own_file_without_a_change(full_store, bring_in):
    before, rows = raw_out(), JournalEntry.objects.count()
    loaded = bring_in(before)
    assert loaded.errors == []
    assert JournalEntry.objects.count() == rows
    assert without_time(out()) == without_time([json.loads(line) for line in before.splitlines()])


def test_what_was_changed_here_since_is_kept_as_it_is_here(full_store, bring_in):
    before = raw_out()
    Memory.objects.filter(key="diary").update(content_hash="0" * 64, content="written anew")
    loaded = bring_in(before)
    assert loaded.tally.outcomes["kept"] == 1
    assert Memory.objects.get(key="diary").content == "written anew"


def test_a_dry_run_of_a_whole_store_stores_nothing_and_finds_no_fault(full_store, bring_in):
    before = raw_out()
    wipe()
    loaded = bring_in(before, dry_run=True)
    assert loaded.errors == []
    assert loaded.tally.outcomes["created"] == len(
        of_kind([json.loads(x) for x in before.splitlines()], "memory")
    )
    for model in (Memory, Fact, Session, Event, JournalEntry, Revision):
        assert not model.objects.exists()


def test_batches_of_one_come_to_the_same(full_store, bring_in, monkeypatch):
    monkeypatch.setattr("memoryhub.transfer.loader.BATCH_SIZE", 1)
    before = raw_out()
    wipe()
    assert bring_in(before).errors == []
    after = [line for line in without_time(out()) if not _of_import(line)]
    assert after == without_time([json.loads(line) for line in before.splitlines()])
