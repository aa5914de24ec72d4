"""Hostile files are read to the end, and the report does not quote them."""

from __future__ import annotations

import functools
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.transfer.files import LineReader
from memoryhub.transfer.formats import FORMATS
from memoryhub.transfer.formats.hub import HubFormat
from memoryhub.transfer.formats.markdown import MarkdownFormat
from memoryhub.transfer.records import InvalidItem, ReadOptions, Record
from memoryhub.transfer.schema import HISTORY_LINES, FactLine, MemoryLine
from tests.cost import cost_ratio

KINDS = {"memory": MemoryLine, "fact": FactLine, **HISTORY_LINES}
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def shapes(draw):
    """Generate lines of each kind with arbitrary field values."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    fields = draw(st.dictionaries(st.sampled_from(sorted(KINDS[kind].model_fields)), ANY, max_size=8))
    return {**fields, "kind": kind}


def items_of(raw):
    return list(HubFormat().items(LineReader(io.BytesIO(raw))))


@pytest.mark.slow
@given(st.lists(shapes(), max_size=5))
def test_lines_with_any_field_values_become_single_items(found):
    raw = b"".join(json.dumps(shape).encode() + b"\n" for shape in found)
    assert len(items_of(raw)) == len(found)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_to_the_end(raw):
    lines = LineReader(io.BytesIO(raw))
    found = list(HubFormat().items(lines))
    assert lines.offset == len(raw)
    assert len(found) <= lines.number


@given(st.text(max_size=400))
def test_any_text_is_valid_markdown(tmp_path, text):
    path = tmp_path / "x.md"
    path.write_bytes(text.encode("utf-8", "replace"))
    list(MarkdownFormat().read(path, ReadOptions()))


@pytest.mark.parametrize("depth", [10, 10_000])
def test_deeply_nested_lines_are_reported(depth):
    for kind in ("", '"kind":"session","state":', '"kind":"journal","detail":'):
        raw = f"{{{kind}{'[' * depth}".encode() if kind else b"[" * depth
        [item] = items_of(raw)
        assert isinstance(item, InvalidItem)


def test_too_large_document_is_refused():
    session = {"kind": "session", "session_id": "s", "started_at": "2024-01-01", "last_at": "2024-01-01"}
    [item] = items_of(json.dumps({**session, "state": {"k": "x" * 300_000}}).encode())
    assert isinstance(item, InvalidItem)
    assert str(item.problems[0]) == "state: is larger than anything that the hub writes"


def read_file(format, path, text):
    path.write_text(text)
    return list(FORMATS[format].read(path, ReadOptions()))


def hostile_files(text):
    """Return for each format a file with this text where the format is most often read closely."""
    saved = {"content_type": "model_editable_context", "model_set_context": text}
    mapping = {"a": {"message": {"content": saved, "create_time": 1.0}}}
    return {
        "markdown": f"# Title\n\n{text}\n\n# End\n",
        "basic-memory": f"---\ntitle: a\npermalink: b\n---\n{text}",
        "chatgpt": json.dumps([{"id": "a", "mapping": mapping}]),
        "claude": json.dumps([{"uuid": "a", "conversations_memory": text}]),
    }


@pytest.mark.parametrize("format", ["markdown", "basic-memory", "chatgpt", "claude"])
@pytest.mark.parametrize("part", ["\n", " ", "<!--", "![", "[](", "- [", "**", "_a"])
def test_hostile_text_is_read_in_linear_time(format, part, tmp_path):
    short, long = (hostile_files(f"# a{part * (length // len(part))}b")[format] for length in (2000, 16_000))
    run = functools.partial(read_file, format, tmp_path / "x")
    assert cost_ratio(run, long, short, enough=16) <= 16


def test_unfinished_comment_of_markdown_is_text(tmp_path):
    items = read_file("markdown", tmp_path / "x.md", "- one <!-- a -->\n- two\n\n<!-- c")
    texts = [item.draft.content for item in items if isinstance(item, Record)]
    assert texts == ["one", "two", "<!-- c"]
