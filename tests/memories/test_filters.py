"""Filters of lists: files, labels, entities, times and plain columns."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memoryhub.memories.filters import MemoryFilter
from memoryhub.models import Memory
from memoryhub.search.hybrid import search_memories
from tests.cases import each


@pytest.fixture
def select(actor):
    return lambda **fields: set(MemoryFilter(**fields).select(actor.clearance))


PATHS = {
    "core": "src/shop/core.py",
    "other core": "lib/core.py",
    "my_core": "src/my_core.py",
    "core in name": "docs/core.py.md",
    "root": "core.py",
    "absolute": "/home/ada/src/shop/views.py",
    "dir": "src/shop/templates/a b/page.html",
    "dash": "src/shop-old/core.txt",
    "folder": "src/shop",
    "wild": "src/100%/_x.py",
    "upper": "SRC/Readme.MD",
    "umlaut": "src/größe.py",
    "nul-like": "src/shop0/z.py",
}


@pytest.fixture
def linked(remember):
    return {
        name: remember(name, **({"files_read": [path]} if n % 2 else {"files_modified": [path]}))
        for n, (name, path) in enumerate(PATHS.items())
    }


@each(
    "asked, names",
    [
        ("src/shop/core.py", ["core"]),
        ("core.py", ["core", "other core", "root"]),
        ("shop/core.py", ["core"]),
        ("/core.py", ["core", "other core"]),
        ("src/shop", ["core", "dir", "folder"]),
        ("src/shop/", ["core", "dir"]),
        ("src", ["core", "my_core", "dir", "dash", "folder", "wild", "umlaut", "nul-like"]),
        ("src/", ["core", "my_core", "dir", "dash", "folder", "wild", "umlaut", "nul-like"]),
        ("src/shop/templates", ["dir"]),
        ("page.html", ["dir"]),
        ("a b/page.html", ["dir"]),
        ("views.py", ["absolute"]),
        ("/home/ada/src/shop/views.py", ["absolute"]),
        ("/home/ada", ["absolute"]),
        ("ada/src/shop/views.py", ["absolute"]),
        ("/", ["absolute"]),
        ("./core.py", ["core", "other core", "root"]),
        ("./src/shop/core.py", ["core"]),
        (" core.py ", ["core", "other core", "root"]),
        ("ore.py", []),
        ("core", []),
        ("core.p", []),
        ("hop/core.py", []),
        ("src/sho", []),
        ("%", []),
        ("_x.py", ["wild"]),
        ("src/100%", ["wild"]),
        ("src/100_", []),
        ("README.md", []),
        ("Readme.MD", ["upper"]),
        ("größe.py", ["umlaut"]),
        ("nothing.py", []),
        ("..", []),
        ("*", []),
    ],
)
def test_file_filter_matches_path_end_basename_and_directory(linked, select, asked, names):
    assert select(file=asked) == {linked[name] for name in names}


@pytest.mark.conformance("guide-123")
def test_file_read_and_modified_counts_once(remember, select):
    memory = remember("x", files_read=["a.py", "b/a.py"], files_modified=["a.py"])
    assert MemoryFilter(file="a.py").narrow(Memory.objects.all()).count() == 1
    assert select(file="a.py") == {memory}


def test_blank_filter_is_ignored(remember, select):
    memory = remember("x")
    blank = dict.fromkeys(
        ("project", "session_id", "type", "category", "concept", "tag", "file", "entity"), " "
    )
    assert select(**blank) == select(**dict.fromkeys(blank, "")) == select() == {memory}


@each(
    "fields, filters",
    [
        ({"tags": ["x"]}, {"tag": "x"}),
        ({"concepts": ["gotcha"]}, {"concept": "gotcha"}),
        ({"entities": [{"entity": "Ada"}]}, {"entity": "Ada"}),
        ({"type": "decision"}, {"type": "decision"}),
        ({"category": "c"}, {"category": "c"}),
        ({"project": "p"}, {"project": "p"}),
        ({"session_id": "s"}, {"session_id": "s"}),
        ({"sensitivity": "secret"}, {"sensitivity": "secret"}),
        ({"scope": "team"}, {"scope": "team"}),
        ({"created_at": "2024-05-01T12:00:00Z"}, {"until": "2024-05-02"}),
        (
            {"created_at": "2024-05-01T12:00:00Z"},
            {"since": "2024-05-01T12:00:00Z", "until": "2024-05-01T12:00:01Z"},
        ),
        (
            {"created_at": "2024-05-01T23:30:00Z"},
            {"since": "2024-05-02T01:00:00 02:00", "until": "2024-05-02"},
        ),
    ],
)
def test_each_filter_restricts_the_list(remember, select, fields, filters):
    wanted = remember("wanted", **fields)
    remember("not wanted")
    assert select(**filters) == {wanted}


def test_tag_filter_matches_whole_tags_only(remember, select):
    remember("x", tags=["gotcha"])
    assert select(concept="gotcha") == select(tag="gotch") == select(tag="Gotcha") == set()


def test_since_is_inclusive_and_until_exclusive(remember, select):
    memory = remember("x", created_at="2024-05-01T00:00:00Z")
    at = datetime(2024, 5, 1, tzinfo=UTC)
    assert select(since=at) == {memory}
    assert select(until=at) == set()
    assert select(since="2024-05-01", until="2024-05-02") == {memory}


def test_filters_are_combined(remember, select):
    both = remember("both", tags=["x"], files_read=["a.py"], project="p")
    remember("one", tags=["x"], project="p")
    remember("other", files_read=["a.py"], project="q", tags=["x"])
    assert select(tag="x", file="a.py", project="p") == {both}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("type", "nonsense"),
        ("sensitivity", "cosmic"),
        ("scope", "galaxy"),
        ("since", "yesterday"),
        ("since", "2024-13-01"),
        ("until", "0001-01-01T00:00:00+14:00"),
        ("until", "9999-12-31T23:59:59-14:00"),
        ("project", "a\x00b"),
        ("tag", "x" * 1001),
        ("file", "\ud800"),
    ],
)
def test_invalid_filter_is_refused_by_name(field, value):
    with pytest.raises(ValidationError) as refused:
        MemoryFilter(**{field: value})
    assert refused.value.errors()[0]["loc"] == (field,)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: st.text(max_size=30) for name in ("project", "tag", "concept", "file", "entity", "since")
        },
    )
)
def test_valid_filter_never_fails(db, fields):
    try:
        wanted = MemoryFilter(**fields)
    except ValidationError:
        return
    assert list(wanted.narrow(Memory.objects.all())) == []


def test_filters_apply_to_search(linked, actor):
    found = search_memories(MemoryFilter(file="src/shop").select(actor.clearance), "core", min_score=0)
    assert {hit.memory for hit in found.hits} == {linked["core"]}
