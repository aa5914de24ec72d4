"""Export and import of a whole store in the hub's own format."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit import journal
from memoryhub.backends import schema
from memoryhub.capture import projects
from memoryhub.models import (
    AbsenceSpan,
    Event,
    Fact,
    JournalEntry,
    Memory,
    MemoryCheck,
    Project,
    ProjectIdentity,
    Revision,
    Session,
)
from tests.cases import each
from tests.transfer.conftest import ADA, OPERATOR, of_kind, out, raw_out, wipe

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
    *("superseded", "journal", "project", "identity", "count", "absence", "reference", "check"),
}


def without_time(lines, *others):
    changing = ("exported_at", *others)
    return [{name: value for name, value in line.items() if name not in changing} for line in lines]


def test_whole_store_round_trip(full_store, bring_in):
    before = raw_out()
    lines = [json.loads(line) for line in before.splitlines()]
    assert {line["kind"] for line in lines} == KINDS
    wipe()
    loaded = bring_in(before)
    assert loaded.errors == []
    assert not loaded.tally.unmapped
    after = out()
    kept = [line for line in without_time(after, "lines") if not _of_import(line)]
    assert kept == without_time(lines, "lines")


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
        ("project", "identify"): 4,
        ("check", "check_create"): 1,
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
    after = [line for line in without_time(out(), "lines") if not _of_import(line)]
    assert after == without_time([json.loads(line) for line in before.splitlines()], "lines")


def test_settings_of_projects_are_restored_unless_the_project_has_some(full_store, bring_in):
    for name in ("p", "q"):
        page = {"sends_page": False, "off_page_facts": ["f1"], "max_memories": 7}
        projects.configure_project(name, OPERATOR, mode="approve", ignored_paths="*.pem", **page)
    before = raw_out()
    Project.objects.filter(name="q").delete()
    projects.configure_project("p", OPERATOR, mode="off")
    assert bring_in(before).errors == []
    restored = Project.objects.filter(name__in=["p", "q"])
    assert dict(restored.values_list("name", "mode")) == {"p": "off", "q": "approve"}
    restored = Project.objects.get(name="q")
    assert (restored.ignored_paths, restored.sends_page, restored.off_page_facts) == ("*.pem", False, ["f1"])
    assert restored.max_memories == 7


def test_restored_projects_checks_and_code_lines_work(full_store, bring_in):
    before = raw_out()
    wipe()
    bring_in(before)
    check = MemoryCheck.objects.get()
    assert (check.owner, check.sensitivity, check.passed) == ("ada", "secret", None)
    assert [one.memory.content for one in check.memories.all()] == ["we deploy by script", "colour = green"]
    identity = ProjectIdentity.objects.get(project__name="shop", owner="bob")
    assert identity.key == "remote:example.org/ada/shop"
    assert projects.count_events(Project.named("mall")) == {"tool:post": 7}
    reference = Memory.objects.get(content="we deploy by script").code_references.get()
    assert (reference.basename, reference.compared, reference.gone) == ("a.py", ["ab12", "cd34"], ["ab12"])
    assert AbsenceSpan.objects.get().memory.content == "colour = green"


def test_check_that_names_an_erased_memory_is_restored(full_store, bring_in):
    memories.erase_memories([Memory.objects.get(content="colour = green").uid], ADA)
    before = raw_out()
    wipe()
    assert bring_in(before).errors == []
    assert [one.memory is None for one in MemoryCheck.objects.get().memories.all()] == [False, True]
    assert raw_out().count(b'"kind":"check"') == 1


def test_export_of_one_project_has_no_identities_of_others(full_store):
    lines = out(project="mall")
    assert {line["project"] for line in of_kind(lines, "identity") + of_kind(lines, "count")} == {"mall"}
    assert not of_kind(lines, "check")


@each("clearance", [Clearance.up_to("private", "ada"), Clearance.up_to("secret", "bob", projects=["mall"])])
def test_export_shows_no_more_than_the_actor_may_see(full_store, clearance):
    lines = out(Actor("token:limited", clearance))
    assert not {"identity", "count", "project", "reference", "check"} & {line["kind"] for line in lines}
    visible = set(Memory.objects.visible_to(clearance).values_list("uid", flat=True))
    assert {line["memory_id"] for line in of_kind(lines, "absence")} <= visible


def test_restoring_identities_needs_the_rights_to_record_them(full_store, bring_in):
    line = {"kind": "identity", "key": "name:mine", "created_at": "2026-03-04T05:06:07Z"}
    confined = Actor("token:ada", Clearance.up_to("secret", "ada", projects=["shop"]))
    loaded = bring_in(
        [
            {**line, "project": "mall", "owner": "ada"},
            {**line, "project": "shop", "owner": ""},
            {**line, "project": "shop", "owner": "bob"},
            {**line, "project": "shop", "owner": "ada"},
        ],
        by=confined,
        restores=True,
    )
    assert len(loaded.errors) == 3
    assert ProjectIdentity.objects.get(key="name:mine").owner == "ada"


AT = "2026-03-04T05:06:07Z"
BAD_LINES = [
    {"kind": "identity", "project": "shop", "key": "folder", "created_at": "2026-03-04T05:06:07Z"},
    {"kind": "count", "project": "shop", "day": "yesterday", "event": "tool:post", "count": 1},
    {"kind": "count", "project": "shop", "day": "2026-03-04", "event": "tool:post", "count": -1},
    {
        "kind": "absence",
        "memory_id": "none",
        "began_at": "2026-03-04T05:06:07Z",
        "ended_at": "2026-03-04T05:06:08Z",
    },
    {
        "kind": "reference",
        "memory_id": "none",
        "path": "a.py",
        "lines": ["not a hash"],
        "as_of": "2026-03-04T05:06:07Z",
    },
    {"kind": "check", "id": "c1", "prompt": "what?", "created_at": "2026-03-04T05:06:07Z"},
]


@pytest.mark.parametrize("line", BAD_LINES, ids=[line["kind"] for line in BAD_LINES])
def test_bad_line_is_reported_and_the_others_are_restored(full_store, bring_in, line):
    good = {"kind": "identity", "project": "p", "key": "name:p0", "created_at": "2026-03-04T05:06:07Z"}
    loaded = bring_in([line, good])
    assert len(loaded.errors) == 1
    assert ProjectIdentity.objects.filter(key="name:p0").exists()
