"""Hostile files are read to the end, and the report does not quote them."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.transfer.formats.hub import HubFormat
from memoryhub.transfer.formats.markdown import MarkdownFormat
from memoryhub.transfer.jsonl import LineReader
from memoryhub.transfer.records import InvalidItem, ReadOptions
from memoryhub.transfer.schema import HISTORY_LINES, FactLine, MemoryLine

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
