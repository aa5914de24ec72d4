"""Exports without some of their lines: the import stores the rest and reports the loss."""

from __future__ import annotations

import json
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memoryhub.memories.filters import MemoryFilter
from memoryhub.models import Memory
from memoryhub.transfer.export import ExportSelection
from memoryhub.transfer.formats import FORMATS, OWN_FORMAT
from memoryhub.transfer.import_files import IdMap, open_import
from memoryhub.transfer.loader import LoadOptions, load_items
from memoryhub.transfer.records import Problem, ReadOptions
from memoryhub.transfer.reports import Tally
from tests.transfer.conftest import OPERATOR, out, wipe

INCOMPLETE = "the file is incomplete: {}; export it again, or import the rest of it too"
NO_END = INCOMPLETE.format("its end is missing")


def exported() -> list[bytes]:
    lines = ExportSelection(OPERATOR, MemoryFilter(), whole=True).lines()
    return b"".join(lines).splitlines(keepends=True)


@pytest.fixture
def lines(remember: Any) -> list[bytes]:
    """The lines of an export with history, after which the store is empty again."""
    for number in range(5):
        remember(f"note {number}")
    found = exported()
    wipe()
    return found


def test_export_cut_between_two_lines_is_reported(bring_in: Any, remember: Any) -> None:
    remember("note")
    cut = exported()[:-1]
    wipe()
    loaded = bring_in(b"".join(cut))
    assert loaded.errors == [f"end of the file: {NO_END}"]
    assert Memory.objects.live().count() == 1


def test_export_without_a_line_in_the_middle_is_reported(bring_in: Any, lines: list[bytes]) -> None:
    [first] = [number for number, line in enumerate(lines) if b"note 0" in line and b'"memory"' in line][:1]
    loaded = bring_in(b"".join(lines[:first] + lines[first + 1 :]))
    assert loaded.errors == [f"line 11: {INCOMPLETE.format('9 of 10 lines before this one are there')}"]
    assert Memory.objects.live().count() == 4


def test_complete_export_is_imported_without_a_problem(bring_in: Any, lines: list[bytes]) -> None:
    loaded = bring_in(b"".join(lines))
    assert (loaded.errors, Memory.objects.live().count()) == ([], 5)


def test_export_with_blank_lines_is_complete(bring_in: Any, lines: list[bytes]) -> None:
    assert bring_in(b"\n".join([*lines, b""])).errors == []


def test_exports_may_be_joined(bring_in: Any, lines: list[bytes]) -> None:
    assert bring_in(b"".join(lines * 2)).errors == []


def test_first_of_two_joined_exports_may_be_cut(bring_in: Any, lines: list[bytes]) -> None:
    assert bring_in(b"".join(lines[:-1] + lines)).errors == [f"line {len(lines)}: {NO_END}"]


def test_files_of_older_releases_have_no_end(bring_in: Any, lines: list[bytes]) -> None:
    header = b'{"kind":"memoryhub","version":1,"levels":[],"whole":true}\n'
    assert bring_in(header + b"".join(lines[1:-1])).errors == []
    assert bring_in(b"".join(lines[1:-1])).errors == []


def test_older_releases_ignore_the_end(lines: list[bytes]) -> None:
    """They read every line of this kind as a header and ignore fields that they do not know."""
    first, last = json.loads(lines[0]), json.loads(lines[-1])
    assert {one["kind"] for one in (first, last)} == {"memoryhub"}
    assert {one["version"] for one in (first, last)} == {1}


def test_import_that_is_resumed_knows_that_an_end_must_follow(lines: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_bytes(b"".join(lines[:-1]))
    errors: list[str] = []

    def report(place: str, problem: Problem) -> None:
        errors.append(str(problem))

    def load(stop_after: int, mark: dict[str, Any] | None = None) -> dict[str, Any]:
        with open_import(FORMATS[OWN_FORMAT], str(path), ReadOptions()) as reader, closing(IdMap()) as ids:
            assert mark is None or reader.resume(json.loads(json.dumps(mark)))
            items = iter(reader)
            for _ in range(stop_after):
                next(items)
            if not stop_after:
                list(load_items(reader, LoadOptions(OPERATOR, report, restores=True), Tally(), ids))
            return reader.mark()

    load(0, load(2))
    assert errors == [NO_END]


def test_export_of_nothing_is_complete(bring_in: Any, db: None) -> None:
    assert [line["kind"] for line in out(whole=True)] == ["memoryhub", "memoryhub"]
    assert bring_in(b"".join(exported())).errors == []


def test_strict_import_that_is_resumed_reports_the_missing_lines_again(
    lines: list[bytes], tmp_path: Path
) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    for options in ([], ["--resume"]):
        said = StringIO()
        with pytest.raises(CommandError, match="1 line could not be imported"):
            call_command("import_memories", str(path), "--strict", *options, stderr=said)
        assert "the file is incomplete" in said.getvalue()
