"""``export_memories``: what goes out, to whom, and that it comes back the same."""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub import memories
from memoryhub.access.policy import LEVELS, Actor, Clearance
from memoryhub.core.vocabulary import SCOPES, TYPES
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import JournalEntry, Memory
from memoryhub.transfer.export import memory_to_line
from memoryhub.transfer.formats import FORMATS
from memoryhub.transfer.import_files import IdMap, open_import
from memoryhub.transfer.loader import LoadOptions, load_items
from memoryhub.transfer.records import ReadOptions
from memoryhub.transfer.reports import Tally
from memoryhub.transfer.schema import READ_ONLY

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("home")]


def exported(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def words_of(text: str) -> set[str]:
    return {str(memory["content"]).split()[-1] for memory in exported(text)}


def test_a_memory_is_exported_in_the_shape_of_the_api_with_its_ttl(run, remember):
    memory = remember("the words", tags=["t"], files_read=["a.py"], ttl_days=7, project="zoo")
    [shape] = exported(run("export_memories").out)
    assert shape["id"] == memory.uid
    assert (shape["content"], shape["tags"], shape["files_read"]) == ("the words", ["t"], ["a.py"])
    assert (shape["project"], shape["ttl_days"], shape["deleted_at"]) == ("zoo", 7, None)
    assert set(shape) >= READ_ONLY - {"copy_number"}


def test_memories_go_out_in_the_order_in_which_they_were_stored(run, remember):
    for word in ("one", "two", "three"):
        remember(word)
    assert [m["content"] for m in exported(run("export_memories").out)] == ["one", "two", "three"]


# The gate


@pytest.mark.parametrize(
    ("asked", "seen", "left"),
    [
        ([], {"publicwords"}, ["1 private (--include-private)", "1 secret (--include-secret)", "1 unknown"]),
        (
            ["--include-private"],
            {"publicwords", "privatewords"},
            ["1 secret (--include-secret)", "1 unknown"],
        ),
        (
            ["--include-secret"],
            {"publicwords", "secretwords"},
            ["1 private (--include-private)", "1 unknown"],
        ),
        (
            ["--include-private", "--include-secret"],
            {"publicwords", "privatewords", "secretwords"},
            ["1 unknown"],
        ),
    ],
    ids=["nothing", "private", "secret", "both"],
)
def test_a_level_is_exported_only_on_request_and_the_others_are_counted(run, four_levels, asked, seen, left):
    ran = run("export_memories", *asked)
    assert words_of(ran.out) == seen
    assert ran.err.count("Left out") == len(left)
    for words in left:
        assert f"Left out: {words}" in ran.err


def test_an_unknown_level_is_never_exported(run, four_levels):
    ran = run(
        "export_memories", "--include-private", "--include-secret", "--owner", "ada", "--project", "zoo"
    )
    assert "unknownwords" not in ran.out
    assert "cosmic" not in ran.out + ran.err


def test_personal_memories_go_out_for_the_owner_that_is_named(run, remember):
    remember("for ada", scope="personal")
    ran = run("export_memories")
    assert ran.out == ""
    assert "Left out: 1 personal (--owner NAME)" in ran.err
    assert words_of(run("export_memories", "--owner", "ada").out) == {"ada"}
    assert run("export_memories", "--owner", "bob").out == ""


def test_the_left_out_are_only_those_that_the_filter_lets_through(run, four_levels, remember):
    remember("elsewhere", project="farm", sensitivity="secret")
    ran = run("export_memories", "--project", "farm")
    assert ran.err.count("Left out") == 1
    assert "1 secret" in ran.err


def test_exporting_secrets_is_journaled(run, four_levels):
    before = JournalEntry.objects.count()
    run("export_memories", "--include-private")
    assert JournalEntry.objects.count() == before
    run("export_memories", "--include-secret")
    row = JournalEntry.objects.latest("seq")
    ids = list(Memory.objects.filter(sensitivity="secret").values_list("uid", flat=True))
    assert (row.operation, row.sensitivity) == ("export", "secret")
    assert row.detail == {"secret": 1, "ids": ids}
    assert row.actor.startswith("command:")


# Filters


def test_filters_narrow_the_export(run, remember):
    remember("old zoo", project="zoo", type="decision", created_at="2020-01-01T00:00:00Z")
    remember("new zoo", project="zoo", created_at="2021-06-01T00:00:00Z")
    remember("other farm", project="farm", created_at="2021-06-01T00:00:00Z")

    def titles(*options: str) -> list[object]:
        return [m["content"] for m in exported(run("export_memories", *options).out)]

    assert titles("--project", "zoo") == ["old zoo", "new zoo"]
    assert titles("--type", "decision") == ["old zoo"]
    assert titles("--since", "2021-01-01") == ["new zoo", "other farm"]
    assert titles("--until", "2021-06-01") == ["old zoo"]
    assert titles("--since", "2021-06-01T00:00:00Z", "--project", "zoo") == ["new zoo"]


def test_a_moment_that_is_none_names_its_option(run):
    ran = run("export_memories", "--since", "yesterday")
    assert ran.code == 1
    assert ran.err.startswith("--since: ")


@pytest.mark.parametrize("option", [("--type", "decision"), ("--until", "2026-01-01"), ("--trashed",)])
def test_a_whole_export_names_the_options_that_it_refuses(run, option):
    done = run("export_memories", "--whole", *option)
    assert done.code == 1
    assert option[0] in done.err


def test_a_whole_export_of_a_project_takes_levels(run):
    assert run("export_memories", "--whole", "--project", "shop", "--include-private").code == 0


def test_the_trash_is_exported_instead_of_live_memories_on_request(run, remember, actor):
    remember("live")
    memories.trash_memories([remember("trashed").uid], actor)
    assert words_of(run("export_memories").out) == {"live"}
    assert words_of(run("export_memories", "--trashed").out) == {"trashed"}


def test_expired_memories_stay_behind(run, remember):
    remember("expired", ttl_days=1)
    Memory.objects.update(expires_at=datetime(2001, 1, 1, tzinfo=UTC))
    assert run("export_memories").out == ""


# Files


def test_an_exported_file_is_complete_and_has_mode_0600(run, remember, tmp_path):
    remember("words")
    path = tmp_path / "out.jsonl"
    ran = run("export_memories", path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert words_of(path.read_text()) == {"words"}
    assert f"Exported 1 memory to {path}" in ran.out
    assert [found for found in tmp_path.iterdir() if found.is_file()] == [path]


def test_a_name_that_ends_in_gz_is_packed(run, remember, tmp_path):
    remember("words")
    path = tmp_path / "out.jsonl.gz"
    run("export_memories", path)
    assert words_of(gzip.decompress(path.read_bytes()).decode()) == {"words"}


def test_a_failed_export_leaves_the_file_of_before(run, remember, tmp_path, monkeypatch):
    remember("words")
    path = tmp_path / "out.jsonl"
    path.write_text("the one of before")

    def full(*args: object, **more: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("memoryhub.transfer.export.memory_to_line", full)
    ran = run("export_memories", path)
    assert ran.code == 1
    assert "No space left" in ran.err
    assert path.read_text() == "the one of before"
    assert [p for p in tmp_path.iterdir() if p.is_file()] == [path]


@pytest.mark.parametrize("name", ["", "/", "."])
def test_file_without_a_name_is_refused(run, name):
    ran = run("export_memories", name)
    assert ran.code == 1
    assert "is not the name of a file; add one" in ran.err


def test_a_missing_folder_is_reported(run, tmp_path):
    ran = run("export_memories", tmp_path / "gone" / "out.jsonl")
    assert ran.code == 1
    assert "No such file or directory" in ran.err


def test_the_report_is_not_printed_to_standard_output(run, remember):
    remember("words")
    ran = run("export_memories", "-")
    assert len(ran.out.splitlines()) == 1
    assert "Exported 1 memory" in ran.err


def test_queries_do_not_grow_with_the_memories(run, remember, django_assert_max_num_queries):
    for n in range(40):
        remember(f"m{n}", tags=["t"], files_read=["a"], entities=[{"entity": "E"}])
    with django_assert_max_num_queries(10):
        run("export_memories")


# There and back


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
WORD = TEXT.filter(lambda text: text.strip())
DRAFTS = st.builds(
    MemoryDraft,
    content=WORD,
    title=TEXT,
    subtitle=TEXT,
    abstract=TEXT,
    overview=TEXT,
    category=WORD,
    type=st.sampled_from(TYPES),
    concepts=st.lists(WORD, max_size=3),
    tags=st.lists(WORD, max_size=3),
    importance=st.floats(0, 1),
    trust=st.floats(0, 1),
    confidence=st.floats(0, 1),
    sensitivity=st.sampled_from(LEVELS),
    scope=st.sampled_from(SCOPES),
    project=TEXT,
    session_id=TEXT,
    key=TEXT,
    files_read=st.lists(WORD, max_size=3),
    files_modified=st.lists(WORD, max_size=3),
    discovery_tokens=st.none() | st.integers(0, 2_000_000_000),
    ttl_days=st.none() | st.floats(0, 36_500),
    pinned=st.booleans(),
    created_at=st.datetimes(datetime(1901, 1, 1), datetime(2024, 1, 1), timezones=st.just(UTC)),
    entities=st.lists(st.fixed_dictionaries({"entity": WORD, "entity_type": WORD}), max_size=2),
)


def lines_of_all() -> bytes:
    return b"".join(memory_to_line(row) for row in Memory.objects.order_by("pk"))


def settable(raw: bytes) -> list[dict[str, object]]:
    shapes = [json.loads(line) for line in raw.splitlines()]
    return [{name: value for name, value in shape.items() if name not in READ_ONLY} for shape in shapes]


@pytest.mark.slow
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
)
@given(DRAFTS)
def test_an_export_is_imported_with_every_settable_field(actor, tmp_path, draft):
    actor = Actor("someone", Clearance.up_to("secret", "ada"))
    memories.create_memory(draft, actor)
    raw = lines_of_all()
    Memory.objects.all().delete()
    tally, path = Tally(), tmp_path / "one.jsonl"
    path.write_bytes(raw)
    with open_import(FORMATS["memoryhub"], str(path), ReadOptions()) as reading, closing(IdMap()) as ids:
        list(load_items(reading, LoadOptions(actor, lambda place, problem: None), tally, ids))
    assert tally.failed == 0
    assert not tally.ignored
    assert settable(lines_of_all()) == settable(raw)
    Memory.objects.all().delete()


def test_an_exported_file_is_imported_by_the_other_command(run, remember, tmp_path):
    for n in range(30):
        remember(f"memory {n}", tags=[f"t{n % 3}"], project="zoo", created_at=f"2020-01-{n + 1:02}")
    before = settable(lines_of_all())
    run("export_memories", tmp_path / "all.jsonl")
    Memory.objects.all().delete()
    ran = run("import_memories", tmp_path / "all.jsonl")
    assert "30 created" in ran.out
    assert settable(lines_of_all()) == before
