"""``import_memories``: what is taken over from a file, of which kind, and with which options."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest

from memoryhub.models import JournalEntry, Memory, Project, Session
from memoryhub.transfer import loader
from memoryhub.transfer.export import memory_to_line
from tests.commands.conftest import contents

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("home")]


def test_every_field_that_a_client_may_set_is_taken_over(run, jsonl):
    shape = {
        "content": "the words",
        "title": "a title",
        "subtitle": "under it",
        "abstract": "short",
        "overview": "longer",
        "category": "notes",
        "type": "decision",
        "concepts": ["gotcha"],
        "tags": ["b", "a"],
        "importance": 0.9,
        "trust": 0.8,
        "confidence": 0.7,
        "sensitivity": "secret",
        "scope": "team",
        "project": "zoo",
        "session_id": "s1",
        "key": "k",
        "files_read": ["a.py"],
        "files_modified": ["b/c.py"],
        "discovery_tokens": 12,
        "ttl_days": 5,
        "created_at": "2020-02-03T04:05:06+01:00",
        "entities": [{"entity": "Ada", "entity_type": "person"}],
    }
    ran = run("import_memories", jsonl(shape))
    assert ran.code == 0
    memory = Memory.objects.get()
    stored = json.loads(memory_to_line(memory))
    assert stored["created_at"] == "2020-02-03T03:05:06Z"
    for name, value in shape.items():
        if name not in ("created_at", "tags"):
            assert stored[name] == value, name
    assert stored["tags"] == ["a", "b"]
    assert Session.objects.get().session_id == "s1"


def test_types_are_derived_from_the_text_on_request(run, jsonl):
    path = jsonl(
        {"content": "We decided to use NATS."}, {"content": "We decided to rest.", "type": "discovery"}
    )
    assert run("import_memories", path, "--infer-types").code == 0
    assert list(Memory.objects.order_by("pk").values_list("type", flat=True)) == ["decision", "discovery"]


def test_the_report_counts_created_refreshed_updated_and_failed(run, jsonl):
    path = jsonl(
        {"content": "one"},
        {"content": "one"},
        {"content": "keyed", "key": "k"},
        {"content": "keyed anew", "key": "k"},
        {"content": ""},
    )
    ran = run("import_memories", path)
    assert "4 memories" in ran.out
    assert "2 created, 1 refreshed, 1 updated, 1 failed" in ran.out
    assert ran.code == 1


def test_a_second_run_refreshes_and_adds_nothing(run, jsonl):
    path = jsonl(*({"content": f"memory {n}"} for n in range(5)))
    run("import_memories", path)
    ran = run("import_memories", path)
    assert ran.code == 0
    assert "0 created, 5 refreshed" in ran.out
    assert Memory.objects.count() == 5


def test_unknown_fields_are_reported_with_the_number_of_their_lines(run, jsonl):
    ran = run(
        "import_memories", jsonl({"content": "a", "origin": "x", "id": "y"}, {"content": "b", "origin": 1})
    )
    assert "Unknown fields, ignored: origin (2 lines)" in ran.out
    assert "not taken over" not in ran.out
    assert Memory.objects.get(uid="y").content == "a"


def test_a_file_without_unknown_fields_says_nothing_of_them(run, jsonl):
    assert "ignored" not in run("import_memories", jsonl({"content": "a"})).out


def test_a_new_field_name_in_every_line_does_not_fill_the_report(run, jsonl):
    ran = run("import_memories", jsonl(*({"content": f"c{n}", f"field{n}": 1} for n in range(300))))
    assert "other fields (100 lines)" in ran.out


def test_a_field_name_cannot_write_to_the_terminal(run, jsonl):
    ran = run("import_memories", jsonl({"content": "a", "x\x1b[31m": 1}))
    assert "\x1b" not in ran.out
    assert "ignored" in ran.out


# Kinds of files


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(run, tmp_path):
    path = tmp_path / "w.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"content":"a"}\r\n{"content":"b"}\r\n')
    assert run("import_memories", path).code == 0
    assert contents() == {"a", "b"}


def test_a_last_line_without_its_end_is_read(run, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"content":"a"}\n{"content":"b"}')
    run("import_memories", path)
    assert contents() == {"a", "b"}


def test_a_gzip_file_is_read_whatever_its_name(run, tmp_path):
    path = tmp_path / "x.dat"
    path.write_bytes(gzip.compress(b'{"content":"packed"}\n'))
    assert run("import_memories", path).code == 0
    assert contents() == {"packed"}


def test_a_truncated_gzip_file_is_reported_without_a_traceback(run, tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(b'{"content":"m %d"}\n' % n for n in range(5000)))[:200])
    ran = run("import_memories", path)
    assert ran.code == 1
    assert "damaged or truncated" in ran.err


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_read(run, piped, packed):
    raw = b'{"content":"piped"}\n'
    piped(gzip.compress(raw) if packed else raw)
    assert run("import_memories", "-").code == 0
    assert contents() == {"piped"}


@pytest.mark.parametrize(
    ("start", "hint"), [("x".encode("utf-16"), "iconv -f utf-16"), (b"PK\x03\x04rest", "unzip")]
)
def test_a_file_of_another_kind_says_what_to_do(run, tmp_path, start, hint):
    path = tmp_path / "x"
    path.write_bytes(start)
    ran = run("import_memories", path)
    assert ran.code == 1
    assert hint in ran.err


def test_a_missing_file_or_a_folder_is_reported(run, tmp_path):
    assert "No such file" in run("import_memories", tmp_path / "gone").err
    assert "Is a directory" in run("import_memories", tmp_path).err


def test_an_empty_file_is_no_error(run, jsonl):
    ran = run("import_memories", jsonl())
    assert ran.code == 0
    assert "0 memories" in ran.out


@pytest.mark.slow
def test_a_large_file_is_read_with_little_memory(run, jsonl, monkeypatch):
    monkeypatch.setattr(loader, "BATCH_SIZE", 50)
    lines = ({"content": f"memory {n} " + "x" * 20_000, "type": "change"} for n in range(400))
    path = jsonl(*lines)  # to detect the type of such texts takes most of the time
    tracemalloc.start()
    try:
        run("import_memories", path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 8_000_000
    assert peak < 7_500_000


# Options


def test_lines_without_a_project_get_the_one_that_is_named(run, jsonl):
    path = jsonl({"content": "a"}, {"content": "b", "project": ""}, {"content": "c", "project": "own"})
    run("import_memories", path, "--project", " zoo ")
    assert dict(Memory.objects.values_list("content", "project")) == {"a": "zoo", "b": "zoo", "c": "own"}


def test_the_journal_names_the_person_who_imports(run, jsonl):
    run("import_memories", jsonl({"content": "a"}))
    run("import_memories", jsonl({"content": "b"}), "--actor", "ada at work")
    first, second = JournalEntry.objects.order_by("seq")
    assert first.actor.startswith("command:")
    assert second.actor == "ada at work"


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201])
def test_an_unfit_name_of_the_actor_is_refused(run, jsonl, name):
    ran = run("import_memories", jsonl({"content": "a"}), "--actor", name)
    assert ran.code == 1
    assert "--actor must be" in ran.err
    assert not contents()


def test_personal_memories_need_an_owner_to_be_named(run, jsonl):
    path = jsonl({"content": "mine", "scope": "personal"})
    assert "line 1: scope: a personal memory needs an owner" in run("import_memories", path).err
    assert run("import_memories", path, "--owner", "ada").code == 0
    assert Memory.objects.get().owner == "ada"


@pytest.mark.django_db(transaction=True)
def test_a_dry_run_says_what_would_happen_and_stores_nothing(run, jsonl, journal_mirror):
    run("import_memories", jsonl({"content": "known"}))
    before = journal_mirror.read_bytes()
    ran = run("import_memories", jsonl({"content": "known"}, {"content": "new"}, b"bad"), "--dry-run")
    assert ran.code == 1
    assert "Would import 2 memories" in ran.out
    assert "1 created, 1 refreshed, 0 updated, 1 failed" in ran.out
    assert contents() == {"known"}
    assert JournalEntry.objects.count() == 1
    assert journal_mirror.read_bytes() == before


def test_an_import_over_the_cap_warns_and_stores_everything(run, jsonl, configure):
    configure(max_memories=3)
    path = jsonl(*({"content": f"m{n}", "project": "zoo"} for n in range(5)))
    for dry in (["--dry-run"], []):
        ran = run("import_memories", path, *dry)
        assert "Project zoo: 5 memories, over the cap of 3" in ran.out
        assert "sends the least used" in ran.out
    assert Memory.objects.live().count() == 5


def test_below_the_cap_or_without_one_nothing_is_warned_about(run, jsonl, configure):
    configure(max_memories=0)
    assert "cap" not in run("import_memories", jsonl({"content": "a"}, {"content": "b"})).out
    configure(max_memories=2)
    assert "cap" not in run("import_memories", jsonl({"content": "a"}, {"content": "b"})).out


def test_lines_without_a_ttl_are_reported_as_expiring(run, jsonl, configure):
    ran = run("import_memories", jsonl({"content": "a"}, {"content": "b", "ttl_days": 0}))
    assert "1 memory without ttl_days will expire in 90 days" in ran.out
    configure(default_ttl_days=0)
    assert "expire" not in run("import_memories", jsonl({"content": "c"})).out


def test_ttl_never_keeps_lines_without_a_ttl_for_ever(run, jsonl):
    run("import_memories", jsonl({"content": "a"}, {"content": "b", "ttl_days": 5}), "--ttl", "never")
    assert dict(Memory.objects.values_list("content", "ttl_days")) == {"a": None, "b": 5}


def test_ttl_of_days_applies_to_lines_without_a_ttl(run, jsonl):
    run("import_memories", jsonl({"content": "a"}, {"content": "b", "ttl_days": 0}), "--ttl", "7")
    assert dict(Memory.objects.values_list("content", "ttl_days")) == {"a": 7, "b": None}


@pytest.mark.parametrize("ttl", ["soon", "-1", "nan"])
def test_ttl_that_is_no_lifetime_is_refused(run, jsonl, ttl):
    ran = run("import_memories", jsonl({"content": "a"}), f"--ttl={ttl}")
    assert ran.code != 0
    assert not Memory.objects.exists()


def test_dry_run_says_what_would_expire_and_how_to_keep_it(run, jsonl):
    ran = run("import_memories", "--dry-run", jsonl({"content": "a"}, {"content": "b", "ttl_days": 0}))
    assert "1 memory would expire, the first on " in ran.out
    assert "use --ttl never to keep them" in ran.out
    assert not Memory.objects.exists()


def test_dry_run_with_ttl_never_says_nothing_of_expiry(run, jsonl):
    ran = run("import_memories", "--dry-run", jsonl({"content": "a"}), "--ttl", "never")
    assert "expire" not in ran.out


def test_source_of_a_line_is_kept_as_a_tag(run, jsonl):
    ran = run("import_memories", jsonl({"content": "a", "source": "notion", "tags": ["b"]}))
    assert "ignored" not in ran.out
    assert json.loads(memory_to_line(Memory.objects.get()))["tags"] == ["b", "source:notion"]


@pytest.mark.parametrize("source", [1, "x" * 200, ["a"]])
def test_source_that_is_no_tag_is_reported_as_ignored(run, jsonl, source):
    ran = run("import_memories", jsonl({"content": "a", "source": source}))
    assert "Unknown fields, ignored: source (1 line)" in ran.out
    assert json.loads(memory_to_line(Memory.objects.get()))["tags"] == []


def test_trashed_memories_are_imported_into_the_trash_and_reported(run, jsonl):
    ran = run("import_memories", jsonl({"content": "a", "deleted_at": "2024-01-01T00:00:00Z"}))
    assert "1 memory in the trash or expired in the file: the same here" in ran.out
    assert Memory.objects.trashed().count() == 1


def test_raise_cap_raises_the_caps_that_the_import_exceeds(run, jsonl, configure):
    configure(max_memories=3)
    lines = [{"content": f"m{n}", "project": "zoo"} for n in range(5)]
    path = jsonl(*lines, {"content": "x", "project": "p"})
    ran = run("import_memories", path, "--raise-cap", "--dry-run")
    assert "--raise-cap would raise it to 6" in ran.out
    assert not Project.objects.exists()
    ran = run("import_memories", path, "--raise-cap")
    assert "Project zoo: 5 memories, over the cap of 3 (max_memories); raised to 6" in ran.out
    assert "sends the least used" not in ran.out
    assert list(Project.objects.values_list("name", "max_memories")) == [("zoo", 6)]
    assert JournalEntry.objects.get(operation="configure").detail["left"] == {"max_memories": 6}
