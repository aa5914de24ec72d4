"""Markdown: sections and list items become memories."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.filters import MemoryFilter
from memoryhub.transfer.export import ExportSelection
from memoryhub.transfer.formats import FORMATS, detect_format
from memoryhub.transfer.formats import markdown as module
from memoryhub.transfer.formats.markdown import MarkdownFormat
from memoryhub.transfer.records import InvalidItem, ReadOptions, Record, UnmappedField, UnreadableFile

SHOP = """# Shop

We sell **things**, and only
on weekdays.

## Commands

- `make test` runs the tests
- [x] `make serve` starts the server
  - needs port 8000

      indented code

1. First
2) Second

### Known issues

Payments fail on *29 February*.

```python
# not a heading
- not an item
```

| a | b |
|---|---|
| 1 | 2 |

Decisions
---------

* We chose SQLite
  because one file is enough.
"""


@pytest.fixture
def read(tmp_path):
    """``read(text)``: the drafts in a file and its other items."""

    def read_file(text, name="CLAUDE.md"):
        path = tmp_path / "uploaded"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        items = list(MarkdownFormat().read(path, ReadOptions(name)))
        drafts = [item.draft for item in items if isinstance(item, Record)]
        assert not [item for item in items if isinstance(item, InvalidItem)]
        return drafts, {item.what: item.count for item in items if isinstance(item, UnmappedField)}

    return read_file


def test_list_items_and_section_texts_become_memories(read):
    drafts, unmapped = read(SHOP)
    assert [draft.content for draft in drafts] == [
        "We sell **things**, and only\non weekdays.",
        "`make test` runs the tests",
        "`make serve` starts the server\n- needs port 8000\n\n    indented code",
        "First",
        "Second",
        "Payments fail on *29 February*.\n\n```python\n# not a heading\n- not an item\n```"
        "\n\n| a | b |\n|---|---|\n| 1 | 2 |",
        "We chose SQLite\nbecause one file is enough.",
    ]
    assert unmapped == {}


def test_headings_become_subtitle_and_category(read):
    drafts, _ = read(SHOP)
    about = {draft.content.split("\n")[0]: (draft.title, draft.subtitle, draft.category) for draft in drafts}
    assert about["`make test` runs the tests"] == ("", "Shop › Commands", "Commands")
    assert about["Payments fail on *29 February*."] == ("Known issues", "Shop › Commands", "Known issues")
    assert about["We chose SQLite"] == ("", "Shop › Decisions", "Decisions")


def test_heading_determines_the_type(read):
    types = {draft.category: draft.type.value for draft in read(SHOP)[0]}
    assert types == {
        "Shop": "context",
        "Commands": "context",
        "Known issues": "discovery",
        "Decisions": "decision",
    }


def test_instructions_do_not_expire(read):
    drafts, _ = read(SHOP)
    assert all("ttl_days" in draft.given and draft.ttl_days is None for draft in drafts)


@pytest.mark.parametrize(
    ("name", "scope"), [("CLAUDE.md", "project"), ("/home/ada/CLAUDE.local.md", "personal"), ("", "project")]
)
def test_local_file_is_personal(read, name, scope):
    drafts, _ = read("- one\n- two\n", name)
    assert {draft.scope.value for draft in drafts} == {scope}


def test_place_is_the_line_number(tmp_path):
    path = tmp_path / "x.md"
    path.write_text("---\na: b\n---\n# T\n\ntext\n\n- item\n")
    places = [item.place for item in MarkdownFormat().read(path, ReadOptions()) if isinstance(item, Record)]
    assert places == ["line 8", "line 6"]


def test_ignored_parts_are_reported(read):
    text = (
        "---\nowner: x\n---\n# A\n<!-- hidden\n# not a heading -->\n"
        "See @docs/build.md and `@not/this`.\n\n- ada@example.com\n- \n\n[home]: https://example.com\n"
    )
    drafts, unmapped = read(text)
    assert [draft.content for draft in drafts] == ["ada@example.com", "See @docs/build.md and `@not/this`."]
    assert unmapped["definitions of links ([name]: address)"] == 1
    assert unmapped["front matter"] == 1
    assert unmapped["HTML comments"] == 1
    [imports] = [count for what, count in unmapped.items() if what.startswith("imports of other files")]
    assert imports == 1
    assert not any("hidden" in draft.content for draft in drafts)


def test_text_without_headings_is_one_memory(read):
    drafts, _ = read("Just a note.\n\nAnd more of it.\n")
    assert [(draft.content, draft.category) for draft in drafts] == [
        ("Just a note.\n\nAnd more of it.", "general")
    ]


def test_windows_line_ends_and_byte_order_mark_are_accepted(read):
    drafts, _ = read(b"\xef\xbb\xbf# T\r\n\r\n- one\r\n- two\r\n")
    assert [draft.content for draft in drafts] == ["one", "two"]


def test_empty_file_has_no_memories(read):
    assert read("") == ([], {})
    assert read("# Only\n\n## Headings\n") == ([], {})


def test_too_long_item_is_reported_without_the_others(tmp_path):
    path = tmp_path / "x.md"
    path.write_text("- " + "x" * 100_001 + "\n- fine\n")
    bad, good = MarkdownFormat().read(path, ReadOptions())
    assert isinstance(bad, InvalidItem)
    assert (bad.place, bad.problems[0].field) == ("line 1", "content")
    assert isinstance(good, Record)


@pytest.mark.parametrize("raw", [b"caf\xe9\n- a\n- b", "- a\n- b\n".encode("utf-16")])
def test_file_that_is_not_utf8_is_reported(tmp_path, raw):
    path = tmp_path / "x.md"
    path.write_bytes(raw)
    with pytest.raises(UnreadableFile, match="is not UTF-8 text; save it as UTF-8"):
        list(MarkdownFormat().read(path, ReadOptions()))


def test_huge_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 1024 * 1024)
    path = tmp_path / "x.md"
    path.write_bytes(b"- a\n" * 300_000)
    with pytest.raises(UnreadableFile, match="is larger than 1 MiB; split it"):
        list(MarkdownFormat().read(path, ReadOptions()))


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("# Rules\n\nBe kind.\n", "markdown"),
        ("Notes\n\n- one\n- two\n", "markdown"),
        ('{"content": "a"}\n', "memoryhub"),
        ("hello\n", "memoryhub"),
        ("", "memoryhub"),
        ("\x00# x\n", "memoryhub"),
    ],
)
def test_format_is_detected_by_content(tmp_path, text, format):
    path = tmp_path / "misleading.jsonl"
    path.write_text(text)
    assert detect_format(path) is FORMATS[format]


# Export


@pytest.mark.django_db
def test_export_round_trip(remember, tmp_path):
    contents = {"one line", "two\nlines", "a list:\n- x\n- y", "with\n\nblank lines", "```\ncode\n```"}
    for content in contents:
        remember(content, project="shop", category="Rules")
    remember("elsewhere", category="notes")
    path = tmp_path / "out.md"
    everything = ExportSelection(Actor("x", Clearance()), MemoryFilter())
    path.write_bytes(b"".join(MarkdownFormat().write(everything)))
    read = [item.draft for item in MarkdownFormat().read(path, ReadOptions()) if isinstance(item, Record)]
    assert {draft.content for draft in read} == {*contents, "elsewhere"}
    assert {draft.category for draft in read} == {"shop: Rules", "notes"}


@pytest.mark.django_db
def test_only_visible_memories_are_exported(four_levels):
    raw = b"".join(MarkdownFormat().write(ExportSelection(Actor("x", Clearance()), MemoryFilter()))).decode()
    assert "publicwords" in raw
    assert not [word for word in ("privatewords", "secretwords", "unknownwords") if word in raw]


def test_repeated_import_creates_no_duplicates(db, home, run, tmp_path):
    path = Path(tmp_path / "CLAUDE.md")
    path.write_text(SHOP)
    first = run("import_memories", path, "--project", "shop")
    assert first.code == 0
    assert "This is Markdown (CLAUDE.md)." in first.out
    assert "7 created" in first.out
    assert "7 refreshed" in run("import_memories", path, "--project", "shop").out


def test_export_in_pages_is_in_order(remember, actor, monkeypatch):
    for number, project in enumerate(["b", "a", "b", "a", "c"]):
        remember(f"memory {number}", project=project)
    selection = ExportSelection(actor, MemoryFilter())
    whole = b"".join(MarkdownFormat().write(selection))
    monkeypatch.setattr(module, "_PAGE_SIZE", 2)
    assert b"".join(MarkdownFormat().write(selection)) == whole
