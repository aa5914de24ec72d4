"""History in the hub's own format: its export, and invalid lines."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime

import pytest
from django.apps import apps

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit import journal
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import Event, Fact, JournalEntry, MaintenanceRun, Memory, Revision, Session
from memoryhub.transfer import import_files
from memoryhub.transfer.import_files import IdMap
from memoryhub.transfer.records import UnreadableFile
from tests.transfer.conftest import ADA, BOB, OPERATOR, of_kind, out, raw_out, wipe

pytestmark = pytest.mark.django_db

PUBLIC_READER = Actor("token:stranger", Clearance())
CREDENTIAL = "gh" + "p_" + "aB3dE6gH9jK2mN5pQ8rS1tV4wX7yZ0cF" + "aB3d"
MOMENT = "2024-05-06T07:08:09Z"


def text_of(lines):
    return json.dumps(lines)


# Access


def test_export_with_public_clearance_contains_nothing_else(full_store):
    lines = out(PUBLIC_READER)
    words = text_of(lines)
    assert {line["sensitivity"] for line in lines if "sensitivity" in line} == {"public"}
    for hidden in ("ada's eyes", "bob's eyes", "diary", "thrown away"):
        assert hidden not in words
    assert "long gone" in words  # expired and public


def test_personal_memories_are_only_exported_to_their_owner(full_store):
    assert "bob's eyes" not in text_of(out(ADA))
    assert "ada's eyes" in text_of(out(ADA))
    assert "ada's eyes" not in text_of(out(BOB))


def test_unknown_level_is_never_exported(full_store, four_levels):
    words = text_of(out(OPERATOR))
    assert "unknownwords" not in words
    assert "cosmic" not in words
    assert four_levels["cosmic"].uid not in words


def test_formerly_secret_version_is_not_exported(db):
    memory = memories.create_memory(MemoryDraft(content="the old wording", sensitivity="secret"), ADA).memory
    memories.update_memory(memory.uid, MemoryPatch(content="the new wording", sensitivity="public"), ADA)
    assert "the old wording" not in text_of(out(PUBLIC_READER))
    assert "the old wording" in text_of(out(ADA))


def test_session_export_only_contains_visible_values(full_store):
    [seen] = [line for line in of_kind(out(PUBLIC_READER), "session") if line["session_id"] == "s2"]
    assert not {"cwd", "state", "segment"} & seen.keys()
    [whole] = [line for line in of_kind(out(OPERATOR), "session") if line["session_id"] == "s2"]
    assert whole["cwd"] == "/srv/shop"


def test_copy_number_next_to_a_hidden_twin_is_not_exported(full_store):
    [seen] = [line for line in of_kind(out(BOB), "memory") if line["content"] == "said at two levels"]
    assert "copy_number" not in seen
    assert all("copy_number" in line for line in of_kind(out(OPERATOR), "memory"))


def test_project_export_contains_nothing_else(full_store):
    lines = out(OPERATOR, project="shop")
    assert {line["project"] for line in lines if "project" in line} == {"shop"}
    assert of_kind(lines, "journal")


def test_file_of_limited_clearance_is_imported(full_store, bring_in):
    raw = raw_out(PUBLIC_READER)
    wipe()
    loaded = bring_in(raw)
    assert loaded.errors == []
    assert {memory.sensitivity for memory in Memory.objects.all()} == {"public"}


# Invalid lines


def memory_line(**more):
    return {"kind": "memory", "id": "aaaa", "content": "the words", "project": "shop", **more}


def journal_line(**more):
    return {
        "kind": "journal",
        "seq": 7,
        "hash": "ab" * 32,
        "at": MOMENT,
        "actor": "user:ada",
        "operation": "insert",
        "object_type": "memory",
        "object_id": "aaaa",
        "project": "shop",
        "sensitivity": "public",
        "owner": "",
        "detail": {"content_hash": "00"},
        **more,
    }


def event_line(**more):
    place = {"kind": "event", "session_id": "s1", "project": "shop", "at": MOMENT, "event": "tool:post"}
    return {**place, "preview": "what happened", **more}


SESSION = {
    "kind": "session",
    "session_id": "s1",
    "project": "shop",
    "agent": "user:ada",
    "started_at": MOMENT,
    "last_at": MOMENT,
}
REVISION = {
    "kind": "revision",
    "memory_id": "aaaa",
    "number": 1,
    "at": MOMENT,
    "actor": "user:ada",
    "reason": "update",
    "sensitivity": "public",
    "before": {"content": "other words"},
}

BAD = [
    ({"kind": "novel", "content": "x"}, "kind: is not known here"),
    ({"kind": 5, "content": "x"}, "kind: should be 'memory'"),
    (memory_line(id="../x"), "id: should match pattern"),
    (memory_line(accessed_count=-1), "accessed_count: should be greater than or equal to 0"),
    (memory_line(updated_at="3020-01-01T00:00:00Z"), "updated_at: is out of range"),
    (memory_line(deleted_at="yesterday"), "deleted_at: "),
    ({**REVISION, "memory_id": "bbbb"}, "memory_id: its memory is not in this store"),
    ({**REVISION, "before": {"uid": "x"}}, "before: names 1 things that no memory has"),
    ({**REVISION, "before": {"importance": 9}}, "before.importance: "),
    ({**REVISION, "before": {"content": f"key {CREDENTIAL}"}}, "looks like a GitHub token"),
    ({**REVISION, "sensitivity": "cosmic"}, "sensitivity: should be 'public'"),
    (event_line(session_id="s9"), "session_id: its session is not in this store"),
    (event_line(memory_id="bbbb"), "memory_id: its memory is not in this store"),
    (event_line(preview=f"export T={CREDENTIAL}"), "looks like a GitHub token"),
    (event_line(handlers=[{"said": CREDENTIAL}]), "handlers contains what looks like"),
    (event_line(handlers="x" * 300_000), "handlers: should be a valid array"),
    ({**SESSION, "session_id": "s3", "state": {"k": CREDENTIAL}}, "state contains what looks like"),
    ({"kind": "merge", "memory_id": "aaaa", "into": "bbbb"}, "a memory of this merge is not in this store"),
    ({"kind": "merge", "memory_id": "aaaa", "into": "aaaa"}, "did not become another one"),
    (
        {"kind": "evidence", "memory_id": "bbbb", "session_id": "s1", "at": MOMENT},
        "its memory is not in this store",
    ),
    ({"kind": "superseded", "fact_id": "a", "by": "b"}, "fact_id: a fact of this pair is not in this store"),
    (journal_line(detail={"note": CREDENTIAL}), "detail contains what looks like"),
    (memory_line(id="cccc", author=CREDENTIAL), "author contains what looks like"),
    (
        {"kind": "evidence", "memory_id": "aaaa", "session_id": CREDENTIAL, "at": MOMENT},
        "looks like a GitHub",
    ),
    (journal_line(sensitivity="cosmic"), "sensitivity: should be 'public'"),
    (journal_line(hash="x"), "hash: should match pattern"),
    (journal_line(seq=0), "seq: should be greater than or equal to 1"),
]


@pytest.mark.parametrize(("line", "said"), BAD, ids=[said for _, said in BAD])
def test_invalid_line_is_named_and_does_not_affect_the_others(bring_in, line, said):
    loaded = bring_in([SESSION, memory_line(id="aaaa"), line, {"content": "good"}])
    [error] = loaded.errors
    assert error.startswith("line 3: ")
    assert said in error
    assert CREDENTIAL not in error
    assert set(Memory.objects.values_list("content", flat=True)) == {"the words", "good"}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (journal_line(detail={"note": CREDENTIAL}), "journal"),
        (event_line(preview=CREDENTIAL), "event"),
        ({**SESSION, "session_id": "s3", "cwd": CREDENTIAL}, "session"),
        ({**REVISION, "before": {"content": CREDENTIAL}}, "revision"),
        (memory_line(id="c", title=CREDENTIAL), "memory"),
    ],
    ids=["journal", "event", "session", "revision", "memory"],
)
def test_refused_credential_is_counted_in_the_journal_and_stored_nowhere(bring_in, line, kind):
    bring_in([SESSION, memory_line(), line])
    [row] = JournalEntry.objects.filter(operation="secret_blocked")
    assert (row.object_type, row.actor) == (kind, OPERATOR.name)
    assert CREDENTIAL not in json.dumps([one.detail for one in JournalEntry.objects.all()])


LINES = {
    "memory": memory_line(id="cccc", author="", owner="", scope="personal", scale="", flags=[], key=""),
    "fact": {"kind": "fact", "subject": "a", "predicate": "b", "object": "c", "author": "", "project": ""},
    "session": {**SESSION, "session_id": "s3", "cwd": "", "end_reason": "", "state": {}},
    "event": event_line(
        tool_name="", files=[], keywords=[], skip_reason="", handlers=[], memorability_parts={}, mark=""
    ),
    "revision": REVISION,
    "evidence": {"kind": "evidence", "memory_id": "aaaa", "session_id": "s1", "at": MOMENT},
    "journal": journal_line(),
}
SHORT_CREDENTIAL = "AKIA" + "QYLPMN5HG7KD2XRT"  # as short as the names of operations


@pytest.mark.parametrize("kind", LINES)
def test_credential_in_any_field_of_any_line_is_stored_nowhere(bring_in, kind):
    line = LINES[kind]
    wrappers = {dict: {"k": SHORT_CREDENTIAL}, list: [SHORT_CREDENTIAL]}
    hostile = [
        {**line, field: wrappers.get(type(value), SHORT_CREDENTIAL)}
        for field, value in line.items()
        if field not in ("kind", "id")
    ]
    bring_in([SESSION, memory_line(), *hostile])
    for model in apps.get_app_config("memoryhub").get_models():
        assert SHORT_CREDENTIAL not in str(list(model.objects.values())), model.__name__


def test_file_of_a_newer_version_is_refused(bring_in):
    with pytest.raises(UnreadableFile, match="newer memoryhub; update this one first"):
        bring_in([{"kind": "memoryhub", "version": 99}, {"content": "x"}])


def test_imported_journal_row_is_marked_and_the_chain_stays_valid(bring_in):
    bring_in([memory_line(), journal_line()])
    [row] = JournalEntry.objects.filter(actor="user:ada")
    assert row.detail["imported"] == {"seq": 7, "hash": "ab" * 32}
    assert row.at == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    assert journal.verify_chain().ok


def test_journal_rows_without_numbers_are_not_imported_twice(bring_in, remember, low):
    remember("the words", project="shop")
    exported = [line for line in out(low) if line["kind"] == "journal"]
    assert [line["seq"] for line in exported] == [None]
    bring_in(exported)
    assert JournalEntry.objects.filter(operation="insert").count() == 1
    elsewhere = {**exported[0], "object_id": "bbbb", "hash": "cd" * 32}
    for _ in range(2):
        bring_in([elsewhere])
        assert JournalEntry.objects.filter(operation="insert").count() == 2


def test_journal_rows_of_inaccessible_projects_and_people_are_refused(bring_in):
    confined = Actor("user:eve", Clearance.up_to("secret", "eve", ["shop"]))
    lines = [journal_line(), journal_line(project=""), journal_line(owner="ada"), journal_line(owner="eve")]
    lines = [{**line, "hash": f"{n:064x}"} for n, line in enumerate(lines)]
    loaded = bring_in(lines, by=confined, restores=True)
    assert loaded.errors == [
        "line 2: project: you have no access to the project of this row",
        "line 3: owner: this row is about another person's memory",
    ]
    assert JournalEntry.objects.count() == 2


def test_default_project_is_applied(bring_in):
    session = {**SESSION, "project": ""}
    bring_in([session, memory_line(project="", session_id="s1"), event_line(project="")], project="farm")
    assert Memory.objects.get().project == "farm"
    assert [one.project for one in Session.objects.all()] == ["farm"]
    assert Event.objects.get().session.project == "farm"


def test_forged_origin_is_not_taken_for_a_local_row(bring_in):
    bring_in([memory_line(), journal_line(detail={"imported": None})])
    assert JournalEntry.objects.get(actor="user:ada").detail["imported"]["seq"] == 7


def test_id_of_a_hidden_row_is_replaced_and_links_follow(bring_in):
    hidden = memories.create_memory(MemoryDraft(content="bob's", scope="personal"), BOB).memory
    Memory.objects.filter(pk=hidden.pk).update(uid="aaaa")
    narrow = Actor("user:eve", Clearance.up_to("secret", "eve"))
    fact = {"kind": "fact", "subject": "s", "predicate": "p", "object": "o", "memory_id": "aaaa"}
    loaded = bring_in([memory_line(), {**fact, "project": "shop"}, REVISION], by=narrow, restores=True)
    assert loaded.errors == []
    made = Memory.objects.get(content="the words")
    assert made.uid != "aaaa"
    assert Fact.objects.get().memory == made
    assert Revision.objects.get().memory == made
    hidden.refresh_from_db()
    assert hidden.content == "bob's"


def test_fact_of_a_refused_memory_is_refused(bring_in):
    fact = {"kind": "fact", "subject": "s", "predicate": "p", "object": "o", "memory_id": "aaaa"}
    for by, restores in ((ADA, False), (OPERATOR, True)):
        loaded = bring_in([memory_line(content=f"key {CREDENTIAL}"), fact], by=by, restores=restores)
        assert loaded.tally.failed == 2
        assert not Fact.objects.exists()


def test_trashed_memory_stays_in_the_trash_and_live_one_is_not_trashed(bring_in):
    alive = memories.create_memory(MemoryDraft(content="alive here"), ADA).memory
    for by, restores in ((ADA, False), (OPERATOR, True)):
        bring_in(
            [
                {"content": "alive here", "deleted_at": MOMENT, "trash_reason": "forgotten"},
                {"content": "thrown away", "deleted_at": MOMENT, "trash_reason": "a joke"},
            ],
            by=by,
            restores=restores,
        )
        alive.refresh_from_db()
        assert alive.deleted_at is None
        gone = Memory.objects.get(content="thrown away")
        assert (gone.deleted_at, gone.trash_reason) == (
            datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC),
            "forgotten",
        )


def test_accesses_and_ages_are_imported_and_count_from_now_for_maintenance(bring_in):
    bring_in(
        [memory_line(accessed_count=9, last_accessed_at=MOMENT, updated_at=MOMENT)], by=ADA, restores=False
    )
    memory = Memory.objects.get()
    assert memory.accessed_count == 9
    assert memory.updated_at == memory.last_accessed_at == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    assert memory.imported_at is not None
    assert (memory.author, memory.uid == "aaaa") == ("user:ada", False)


def test_skipped_history_is_reported_without_restore_permission(bring_in):
    lines = [SESSION, memory_line(), REVISION, event_line(), journal_line()]
    loaded = bring_in(lines, by=ADA, restores=False)
    assert loaded.errors == []
    assert {what.split(":")[0] for what in loaded.tally.unmapped} == {
        *("sessions", "earlier versions", "events", "journal rows")
    }
    assert not Session.objects.exists()
    assert not Event.objects.exists()
    assert not JournalEntry.objects.filter(at__year=2024).exists()


# Files of running imports


def test_id_map_is_saved_and_replaced_if_damaged(tmp_path):
    path = tmp_path / "x.ids"
    with closing(IdMap(path)) as ids:
        ids.add({f"source {n}": f"ours {n}" for n in range(1200)})
    with closing(IdMap(path)) as ids:
        found = ids.find([f"source {n}" for n in range(1300)] + ["", "source 1"])
        assert len(found) == 1200
        assert found["source 7"] == "ours 7"
    path.write_bytes(b"not a database, but long enough to be taken for one" * 50)
    with closing(IdMap(path)) as ids:
        assert ids.find(["source 1"]) == {}
        ids.delete()
    assert not path.exists()


def test_abandoned_upload_is_deleted_after_a_week(home, db):
    import os

    old, needed, fresh = (import_files.save_upload([b"x"]) for _ in range(3))
    MaintenanceRun.objects.create(operation="import", params={"upload": needed}, status="queued")
    for key in (old, needed):
        os.utime(import_files.upload_path(key), (0, 0))
    import_files.delete_old_uploads()
    assert [import_files.upload_path(key).exists() for key in (old, needed, fresh)] == [False, True, True]


@pytest.mark.parametrize("key", ["", "../../memory.db", "x" * 32, "A" * 32])
def test_invalid_upload_key_opens_no_file(home, key):
    with pytest.raises(ValueError, match="not the key of an upload"):
        import_files.upload_path(key)
