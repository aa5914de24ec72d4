"""``import_memories``: a bad line is named and does not lose the others."""

from __future__ import annotations

import re

import pytest

from memoryhub.transfer import files, loader
from tests.commands.conftest import contents

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("home")]

BAD = [
    (b'{"content": "broken', "line 1: is not JSON at column 19: the line ends too early"),
    (b"[1, 2]", "line 1: is not a JSON object"),
    (b'"text"', "line 1: is not a JSON object"),
    (b"null", "line 1: is not a JSON object"),
    (b"hello", "line 1: is not JSON at column 1: a value is missing or is not in double quotes"),
    (b'{"content":"\xff"}', "line 1: is not JSON at column 13: the text is not UTF-8"),
    (b'{"content":"raw \x00 nul"}', "line 1: is not JSON at column 17: a control character is not escaped"),
    (b'{"content":"nul \\u0000"}', "line 1: content: must not contain a NUL character"),
    (b'{"content":"lone \\ud800"}', "line 1: is not JSON at column 24: an escape sequence is incomplete"),
    (b'{"content":"  "}', "line 1: content: must contain more than white space"),
    (b'{"title":"t"}', "line 1: content: is missing"),
    (b'{"content":5}', "line 1: content: should be a valid string"),
    (b'{"content":"a","type":"novel"}', "line 1: type: should be 'bugfix'"),
    (b'{"content":"a","sensitivity":"cosmic"}', "line 1: sensitivity: should be 'public'"),
    (b'{"content":"a","importance":NaN}', "line 1: importance: should be a finite number"),
    (b'{"content":"a","importance":7}', "line 1: importance: should be less than or equal to 1"),
    (b'{"content":"a","tags":["x",3]}', "line 1: tags.1: should be a valid string"),
    (b'{"content":"a","created_at":"3020-01-01"}', "line 1: created_at: is out of range"),
    (b'{"content":"a","entities":[{"entity":""}]}', "line 1: entities.0.entity: must contain more"),
    (
        b'{"content":"a"} {"content":"b"}',
        "line 1: is not JSON at column 17: there is more text after the end",
    ),
    (b'{"content":"a",}', "line 1: is not JSON at column 16: a comma is before a closing bracket"),
    (b'{content:"a"}', "line 1: is not JSON at column 2: a field name is missing or is not in double"),
    (b'{"content":tru}', "line 1: is not JSON at column 15: a value is missing or is not in double"),
    (b'{"content" "a"}', "line 1: is not JSON at column 12: a colon is missing"),
    (b'{"content":"a" "b":1}', "line 1: is not JSON at column 16: a comma or a closing bracket is missing"),
    (b'{"content":01}', "line 1: is not JSON at column 13: a number is incomplete"),
    (b'{"content":"\\q"}', "line 1: is not JSON at column 14: a backslash is not followed by"),
    (b"[" * 100_000, "line 1: is not JSON at column 202: lists or objects are nested too deeply"),
    (
        b'{"content":"a","importance":' + b"9" * 5000 + b"}",
        "line 1: is not JSON at column 4330: a number is too long",
    ),
    (b'{"content":"' + b"x" * 100_001 + b'"}', "line 1: content: should have at most 100000"),
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
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1024 * 1024)
    ran = run("import_memories", jsonl(b'{"content":"' + b"x" * 5_000_000 + b'"}', {"content": "good"}))
    assert "line 1: is longer than 1 MiB" in ran.err
    assert contents() == {"good"}


def test_a_damaged_json_file_names_the_place_of_the_damage(run, jsonl):
    ran = run("import_memories", jsonl(b"[", b'{"content": "a",', b' "title" "b"}', b"]"))
    assert ran.code == 1
    assert "is not JSON at line 3, column 10: a colon is missing; export it again" in ran.err


def test_joined_files_with_marks_of_their_byte_order_are_read(run, jsonl):
    mark = b"\xef\xbb\xbf"
    ran = run("import_memories", jsonl(mark + b'{"content": "first"}', mark + b'{"content": "second"}'))
    assert (ran.err, contents()) == ("", {"first", "second"})


def test_bad_lines_are_listed_in_the_order_of_the_file(run, jsonl):
    secret = {"content": "The key is AKIA" + "Z7Q3M5X2K9L4P8R6"}
    ran = run("import_memories", jsonl(secret, {"content": "good"}, b"bad", secret))
    assert re.findall(r"^line (\d+):", ran.err, re.MULTILINE) == ["1", "3", "4"]


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


def test_a_strict_import_resumes_at_the_corrected_line(run, jsonl):
    run("import_memories", jsonl({"content": "before"}, b"bad", {"content": "after"}), "--strict")
    ran = run(
        "import_memories", jsonl({"content": "before"}, b"{}", {"content": "after"}), "--strict", "--resume"
    )
    assert ran.err.count("line 2") == 1
    fixed = jsonl({"content": "before"}, {"content": "fixed"}, {"content": "after"})
    ran = run("import_memories", fixed, "--strict", "--resume")
    assert ran.code == 0
    assert contents() == {"before", "fixed", "after"}


def test_a_strict_import_stops_at_a_line_that_the_store_refuses(run, jsonl, monkeypatch):
    monkeypatch.setattr(loader, "BATCH_SIZE", 1)
    ran = run(
        "import_memories", jsonl({"content": "mine", "scope": "personal"}, {"content": "after"}), "--strict"
    )
    assert ran.code == 1
    assert "line 1: scope: a personal memory needs an owner" in ran.err
