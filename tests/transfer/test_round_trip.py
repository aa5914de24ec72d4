"""Export and import of a whole store in the hub's own format."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from memoryhub.audit import journal
from memoryhub.backends import schema
from memoryhub.capture import projects
from memoryhub.models import Event, Fact, JournalEntry, Memory, Project, Revision, Session
from tests.transfer.conftest import OPERATOR, of_kind, out, raw_out, wipe

pytestmark = pytest.mark.django_db

KINDS = {
    *(
        "memoryhub",
        "session",
        "memory",
        "revision",
        "evidence",
        "merge",
        "replacement",
        "fact",
        "event",
        "summary",
    ),
    "superseded",
    "journal",
}


def without_time(lines):
    return [{name: value for name, value in line.items() if name != "exported_at"} for line in lines]


def test_whole_store_round_trip(full_store, bring_in):
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
    """Return whether the import itself wrote the journal row."""
    return line["kind"] == "journal" and line["actor"] == OPERATOR.name


def test_import_is_journaled(full_store, bring_in):
    before = raw_out()
    stored, facts = Memory.objects.count(), Fact.objects.count()
    wipe()
    bring_in(before)
    own = JournalEntry.objects.filter(actor=OPERATOR.name)
    assert Counter(own.values_list("object_type", "operation")) == {
        ("memory", "insert"): stored,
        ("memory", "update"): 1,  # a replacement
        ("fact", "insert"): facts,
    }
    assert journal.verify_chain().ok


def test_restored_store_can_be_searched_and_undone(full_store, bring_in):
    before = raw_out()
    wipe()
    bring_in(before)
    assert not schema.tables_missing()
    farm = Memory.objects.search("machines").get(title="Build farm")
    assert farm.revisions.count() == 3
    assert [one.content for one in farm.merged_from.all()] == ["The build runs on two machines now"]
    assert Event.objects.filter(memory__isnull=False).exists()
    assert Session.objects.get(session_id="s2").summary is not None


def test_aliases_and_replacements_are_restored(full_store, bring_in):
    before = raw_out()
    wipe()
    bring_in(before)
    replaced = Memory.objects.get(content="we deploy by hand")
    assert replaced.superseded_by.content == "we deploy by script"
    assert replaced.alias_text == "k8s"
    assert replaced.revisions.get().before == {"superseded_by": None, "aliases": ["Kube", "k8s"]}


def test_repeated_import_changes_nothing(full_store, bring_in):
    before = raw_out()
    wipe()
    bring_in(before)
    there, rows = out(), JournalEntry.objects.count()
    again = bring_in(before)
    assert without_time(out()) == without_time(there)
    assert JournalEntry.objects.count() == rows
    assert set(again.tally.outcomes) == {"unchanged"}
    assert {outcome for counts in again.tally.others.values() for outcome in counts} == {"unchanged"}


def test_import_into_the_same_store_changes_nothing(full_store, bring_in):
    before, rows = raw_out(), JournalEntry.objects.count()
    loaded = bring_in(before)
    assert loaded.errors == []
    assert JournalEntry.objects.count() == rows
    assert without_time(out()) == without_time([json.loads(line) for line in before.splitlines()])


def test_local_changes_are_kept(full_store, bring_in):
    before = raw_out()
    Memory.objects.filter(key="diary").update(content_hash="0" * 64, content="written anew")
    loaded = bring_in(before)
    assert loaded.tally.outcomes["kept"] == 1
    assert Memory.objects.get(key="diary").content == "written anew"


def test_dry_run_of_a_whole_store_stores_nothing_and_reports_no_errors(full_store, bring_in):
    before = raw_out()
    wipe()
    loaded = bring_in(before, dry_run=True)
    assert loaded.errors == []
    assert loaded.tally.outcomes["created"] == len(
        of_kind([json.loads(x) for x in before.splitlines()], "memory")
    )
    for model in (Memory, Fact, Session, Event, JournalEntry, Revision):
        assert not model.objects.exists()


def test_batches_of_one_give_the_same_result(full_store, bring_in, monkeypatch):
    monkeypatch.setattr("memoryhub.transfer.loader.BATCH_SIZE", 1)
    before = raw_out()
    wipe()
    assert bring_in(before).errors == []
    after = [line for line in without_time(out()) if not _of_import(line)]
    assert after == without_time([json.loads(line) for line in before.splitlines()])


def test_settings_of_projects_are_restored_unless_the_project_has_some(full_store, bring_in):
    for name in ("p", "q"):
        page = {"sends_page": False, "off_page_facts": ["f1"]}
        projects.configure_project(name, OPERATOR, mode="approve", ignored_paths="*.pem", **page)
    before = raw_out()
    Project.objects.filter(name="q").delete()
    projects.configure_project("p", OPERATOR, mode="off")
    assert bring_in(before).errors == []
    assert dict(Project.objects.values_list("name", "mode")) == {"p": "off", "q": "approve"}
    restored = Project.objects.get(name="q")
    assert (restored.ignored_paths, restored.sends_page, restored.off_page_facts) == ("*.pem", False, ["f1"])
