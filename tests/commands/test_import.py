"""``import_memories``: what becomes of each line of a file."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connection

from memoryhub import store
from memoryhub.interchange import jsonl as lines_of
from memoryhub.interchange import load
from memoryhub.models import JournalEntry, Memory, Session
from tests.conftest import without_journal_triggers

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("home")]


def contents() -> set[str]:
    return set(Memory.objects.values_list("content", flat=True))


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
    stored = json.loads(lines_of.dump(memory))
    assert stored["created_at"] == "2020-02-03T03:05:06Z"
    for name, value in shape.items():
        if name not in ("created_at", "tags"):
            assert stored[name] == value, name
    assert stored["tags"] == ["a", "b"]
    assert Session.objects.get().session_id == "s1"


def test_the_report_counts_created_refreshed_updated_and_failed(run, jsonl):
    path = jsonl(
        {"content": "one"},
        {"content": "one"},
        {"content": "keyed", "key": "k"},
        {"content": "keyed anew", "key": "k"},
        {"content": ""},
    )
    ran = run("import_memories", path)
    assert "4 lines" in ran.out
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
        "import_memories", jsonl({"content": "a", "source": "x", "id": "y"}, {"content": "b", "source": 1})
    )
    assert "Unknown fields, ignored: source (2 lines)" in ran.out
    assert "Set by the store itself, not taken over: id (1 line)" in ran.out
    assert not Memory.objects.filter(uid="y").exists()


def test_a_file_without_unknown_fields_says_nothing_of_them(run, jsonl):
    assert "ignored" not in run("import_memories", jsonl({"content": "a"})).out


def test_a_new_field_name_in_every_line_does_not_fill_the_report(run, jsonl):
    ran = run("import_memories", jsonl(*({"content": f"c{n}", f"field{n}": 1} for n in range(300))))
    assert "other fields (100 lines)" in ran.out


def test_a_field_name_cannot_write_to_the_terminal(run, jsonl):
    ran = run("import_memories", jsonl({"content": "a", "x\x1b[31m": 1}))
    assert "\x1b" not in ran.out
    assert "ignored" in ran.out


# Bad lines


BAD = [
    (b'{"content": "broken', "line 1: is not JSON: EOF while parsing a string"),
    (b"[1, 2]", "line 1: is not a JSON object"),
    (b'"text"', "line 1: is not a JSON object"),
    (b"null", "line 1: is not a JSON object"),
    (b"hello", "line 1: is not JSON"),
    (b'{"content":"\xff"}', "line 1: is not JSON: invalid unicode"),
    (b'{"content":"raw \x00 nul"}', "line 1: is not JSON: control character"),
    (b'{"content":"nul \\u0000"}', "line 1: content: must not hold a NUL character"),
    (b'{"content":"lone \\ud800"}', "line 1: is not JSON"),
    (b'{"content":"  "}', "line 1: content: must hold more than white space"),
    (b'{"title":"t"}', "line 1: content: is missing"),
    (b'{"content":5}', "line 1: content: should be a valid string"),
    (b'{"content":"a","type":"novel"}', "line 1: type: should be 'bugfix'"),
    (b'{"content":"a","sensitivity":"cosmic"}', "line 1: sensitivity: should be 'public'"),
    (b'{"content":"a","importance":NaN}', "line 1: importance: should be a finite number"),
    (b'{"content":"a","importance":7}', "line 1: importance: should be less than or equal to 1"),
    (b'{"content":"a","tags":["x",3]}', "line 1: tags.1: should be a valid string"),
    (b'{"content":"a","created_at":"3020-01-01"}', "line 1: created_at: is out of range"),
    (b'{"content":"a","entities":[{"entity":""}]}', "line 1: entities.0.entity: must hold more"),
    (b'{"content":"a"} {"content":"b"}', "line 1: is not JSON: trailing characters"),
    (b"[" * 100_000, "line 1: is not JSON: recursion limit"),
    (b'{"content":"a","importance":' + b"9" * 5000 + b"}", "line 1: is not JSON: number out of range"),
    (b'{"content":"' + b"x" * 100_001 + b'"}', "line 1: content: String should have at most 100000"),
]


@pytest.mark.parametrize(("raw", "said"), BAD, ids=[said[8:50] for _, said in BAD])
def test_a_bad_line_is_named_and_does_not_lose_the_others(run, jsonl, raw, said):
    ran = run("import_memories", jsonl(raw, {"content": "good"}))
    assert ran.code == 1
    assert said in ran.err
    assert contents() == {"good"}
    assert "1 failed" in ran.out


def test_every_bad_field_of_a_line_is_named(run, jsonl):
    ran = run("import_memories", jsonl({"content": "a", "trust": 5, "scope": "galaxy"}))
    assert "line 1: trust:" in ran.err
    assert "line 1: scope:" in ran.err
    assert "1 failed" in ran.out


def test_an_error_never_repeats_the_value(run, jsonl):
    ran = run(
        "import_memories", jsonl({"content": "hunter2\x00", "type": "hunter2", "importance": "hunter2"})
    )
    assert ran.err.count("line 1:") == 3
    assert "hunter2" not in ran.err + ran.out


def test_the_number_of_a_line_counts_blank_ones_too(run, jsonl):
    ran = run("import_memories", jsonl(b"", b"   ", {"content": "a"}, b"", b"bad"))
    assert "line 5: is not JSON" in ran.err
    assert contents() == {"a"}


def test_a_line_too_long_to_be_a_memory_is_passed_over(run, jsonl, monkeypatch):
    monkeypatch.setattr(lines_of, "MAX_LINE_BYTES", 1024 * 1024)
    ran = run("import_memories", jsonl(b'{"content":"' + b"x" * 5_000_000 + b'"}', {"content": "good"}))
    assert "line 1: is longer than 1 MiB" in ran.err
    assert contents() == {"good"}


def test_only_the_first_errors_are_shown_and_the_rest_counted(run, jsonl):
    path = jsonl(*[b"bad"] * 30)
    ran = run("import_memories", path, "--show-errors", 3)
    assert ran.err.count("is not JSON") == 3
    assert "… and 27 more errors" in ran.err
    assert run("import_memories", path, "--show-errors", 0).err.count("is not JSON") == 30


def test_a_strict_import_stops_at_the_first_bad_line_and_keeps_those_before(run, jsonl):
    path = jsonl({"content": "before"}, b"bad", {"content": "after"})
    ran = run("import_memories", path, "--strict")
    assert ran.code == 1
    assert contents() == {"before"}
    assert "--strict --resume" in ran.err


def test_a_strict_import_goes_on_where_the_mended_line_stands(run, jsonl):
    run("import_memories", jsonl({"content": "before"}, b"bad", {"content": "after"}), "--strict")
    ran = run(
        "import_memories", jsonl({"content": "before"}, b"{}", {"content": "after"}), "--strict", "--resume"
    )
    assert ran.err.count("line 2") == 1
    mended = jsonl({"content": "before"}, {"content": "mended"}, {"content": "after"})
    ran = run("import_memories", mended, "--strict", "--resume")
    assert ran.code == 0
    assert contents() == {"before", "mended", "after"}


def test_a_strict_import_stops_at_a_line_that_the_store_refuses(run, jsonl, monkeypatch):
    monkeypatch.setattr(load, "BATCH", 1)
    ran = run(
        "import_memories", jsonl({"content": "mine", "scope": "personal"}, {"content": "after"}), "--strict"
    )
    assert ran.code == 1
    assert "line 1: scope: a personal memory needs an owner" in ran.err


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


def test_a_gzip_file_cut_short_says_so_and_is_no_traceback(run, tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(b'{"content":"m %d"}\n' % n for n in range(5000)))[:200])
    ran = run("import_memories", path)
    assert ran.code == 1
    assert "damaged or cut short" in ran.err


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_read(run, piped, packed):
    raw = b'{"content":"piped"}\n'
    piped(gzip.compress(raw) if packed else raw)
    assert run("import_memories", "-").code == 0
    assert contents() == {"piped"}


@pytest.mark.parametrize(
    ("start", "mend"), [("x".encode("utf-16"), "iconv -f utf-16"), (b"PK\x03\x04rest", "unzip")]
)
def test_a_file_of_another_kind_says_what_to_do(run, tmp_path, start, mend):
    path = tmp_path / "x"
    path.write_bytes(start)
    ran = run("import_memories", path)
    assert ran.code == 1
    assert mend in ran.err


def test_a_file_that_is_not_there_or_is_a_folder_says_so(run, tmp_path):
    assert "No such file" in run("import_memories", tmp_path / "gone").err
    assert "Is a directory" in run("import_memories", tmp_path).err


def test_an_empty_file_is_no_error(run, jsonl):
    ran = run("import_memories", jsonl())
    assert ran.code == 0
    assert "0 lines" in ran.out


def test_a_large_file_is_never_held_in_memory(run, jsonl, monkeypatch):
    monkeypatch.setattr(load, "BATCH", 50)
    path = jsonl(*({"content": f"memory {n} " + "x" * 20_000} for n in range(400)))
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


def test_the_journal_names_whoever_imports(run, jsonl):
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
    assert "Would import 2 lines" in ran.out
    assert "1 created, 1 refreshed, 0 updated, 1 failed" in ran.out
    assert contents() == {"known"}
    assert JournalEntry.objects.count() == 1
    assert journal_mirror.read_bytes() == before


def test_the_cap_is_not_held_but_warned_about(run, jsonl, configure):
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


def test_lines_without_a_ttl_are_told_to_expire(run, jsonl, configure):
    ran = run("import_memories", jsonl({"content": "a"}, {"content": "b", "ttl_days": 0}))
    assert "1 line without ttl_days: those expire in 90 days" in ran.out
    configure(default_ttl_days=0)
    assert "expire" not in run("import_memories", jsonl({"content": "c"})).out


def test_lines_out_of_a_trash_are_pointed_out(run, jsonl):
    ran = run("import_memories", jsonl({"content": "a", "deleted_at": "2024-01-01T00:00:00Z"}))
    assert "1 line came out of a trash; here they are live" in ran.out
    assert Memory.objects.live().count() == 1


# Interruption


@pytest.fixture
def interrupted(monkeypatch):
    """``with interrupted(2):`` batches of two, of which the third is interrupted before it is stored."""

    @contextmanager
    def arm(batches: int, error: BaseException):
        real, left = store.remember_many, [batches]

        def remember_many(*args, **kwargs):
            if not left[0]:
                raise error
            left[0] -= 1
            return real(*args, **kwargs)

        with monkeypatch.context() as patched:
            patched.setattr(load, "BATCH", 2)
            patched.setattr(store, "remember_many", remember_many)
            yield

    return arm


def six(jsonl, **more):
    return jsonl(*({"content": f"memory {n}"} for n in range(6)), **more)


def test_an_interrupted_import_says_how_to_go_on_and_goes_on_there(run, jsonl, home, interrupted):
    path = six(jsonl)
    with interrupted(2, KeyboardInterrupt()):
        ran = run("import_memories", path, "--project", "a zoo")
    assert ran.code == 130
    assert f"import_memories {path} --project 'a zoo' --resume" in ran.err
    assert Memory.objects.count() == 4
    ran = run("import_memories", path, "--project", "a zoo", "--resume")
    assert "Going on after line 4" in ran.out
    assert "2 created, 0 refreshed" in ran.out
    assert Memory.objects.count() == 6
    assert list((home / "imports").iterdir()) == []


def test_a_busy_store_stops_an_import_in_words(run, jsonl, interrupted):
    with interrupted(1, OperationalError("database is locked")):
        ran = run("import_memories", six(jsonl))
    assert ran.code == 1
    assert "stopped: database is locked" in ran.err
    assert "--resume" in ran.err
    assert Memory.objects.count() == 2


def test_without_resume_it_begins_anew_and_mentions_the_interruption(run, jsonl, interrupted):
    path = six(jsonl)
    with interrupted(1, KeyboardInterrupt()):
        run("import_memories", path)
    ran = run("import_memories", path)
    assert "An earlier run stopped after line 2" in ran.out
    assert "4 created, 2 refreshed" in ran.out


def test_the_position_is_found_though_the_file_was_moved_or_packed(run, jsonl, interrupted, tmp_path):
    path = six(jsonl)
    with interrupted(1, KeyboardInterrupt()):
        run("import_memories", path)
    elsewhere = tmp_path / "elsewhere.gz"
    elsewhere.write_bytes(gzip.compress(path.read_bytes()))
    assert "Going on after line 2" in run("import_memories", elsewhere, "--resume").out


def test_a_file_that_grew_behind_its_beginning_is_gone_on_with(run, jsonl, interrupted):
    lines = [{"content": f"memory {n} " + "x" * 40_000} for n in range(6)]
    with interrupted(2, KeyboardInterrupt()):
        run("import_memories", jsonl(*lines))
    ran = run("import_memories", jsonl(*lines, {"content": "added"}), "--resume")
    assert "Going on after line 4" in ran.out
    assert Memory.objects.count() == 7


def test_a_file_that_changed_before_the_position_is_read_from_the_beginning(run, jsonl, interrupted):
    lines = [{"content": f"memory {n} " + "x" * 40_000} for n in range(6)]
    with interrupted(2, KeyboardInterrupt()):
        run("import_memories", jsonl(*lines))
    lines[2]["content"] = "changed " + "y" * 40_000
    ran = run("import_memories", jsonl(*lines), "--resume")
    assert "starting at the beginning" in ran.out
    assert "3 created, 3 refreshed" in ran.out


def test_another_store_begins_at_the_beginning(run, jsonl, interrupted):
    path = six(jsonl)
    with interrupted(2, KeyboardInterrupt()):
        run("import_memories", path)
    with without_journal_triggers(), connection.cursor() as cursor:
        cursor.execute("UPDATE memoryhub_journalentry SET hash = 'of another store'")
    ran = run("import_memories", path, "--resume")
    assert "starting at the beginning" in ran.out


def test_resume_without_an_interruption_begins_at_the_beginning(run, jsonl):
    ran = run("import_memories", six(jsonl), "--resume")
    assert ran.code == 0
    assert "No interrupted import of this file is known" in ran.out
    assert "6 created" in ran.out


def test_a_position_that_cannot_be_read_is_none(run, jsonl, home, interrupted):
    path = six(jsonl)
    with interrupted(1, KeyboardInterrupt()):
        run("import_memories", path)
    [kept] = (home / "imports").iterdir()
    kept.write_text("{")
    assert "No interrupted import" in run("import_memories", path, "--resume").out


def test_what_cannot_be_resumed_says_so(run, jsonl):
    assert "--resume needs a file" in run("import_memories", "-", "--resume").err
    assert "--resume needs a file" in run("import_memories", six(jsonl), "--resume", "--dry-run").err
