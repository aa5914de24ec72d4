"""Input schemas: limits of every field, and messages that name the field."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memoryhub import memories
from memoryhub.memories.rows import list_values
from memoryhub.memories.schemas import MAX_CONTENT, MAX_LIST, FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import Memory
from tests.cases import each, rolled_back


def refused(kind=MemoryDraft, **fields) -> set[str]:
    with pytest.raises(ValidationError) as error:
        kind(**fields)
    return {str(problem["loc"][0]) for problem in error.value.errors()}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content", ""),
        ("content", "  \n "),
        ("content", "x" * (MAX_CONTENT + 1)),
        ("content", None),
        ("content", 5),
        ("content", "a\x00b"),
        ("content", "a\ud800b"),
        ("title", "x" * 501),
        ("title", "\x00"),
        ("category", ""),
        ("category", None),
        ("type", "nonsense"),
        ("type", None),
        ("sensitivity", "cosmic"),
        ("sensitivity", None),
        ("scope", "galaxy"),
        ("importance", 1.01),
        ("importance", -0.01),
        ("importance", float("nan")),
        ("importance", None),
        ("trust", 2),
        ("confidence", "high"),
        ("project", "x" * 201),
        ("key", "x" * 201),
        ("tags", ["x" * 101]),
        ("tags", [""]),
        ("tags", "x"),
        ("tags", ["x"] * (MAX_LIST + 1)),
        ("files_read", ["x" * 1001]),
        ("files_modified", [5]),
        ("entities", [{"entity": ""}]),
        ("entities", [{}]),
        ("entities", ["Ada"]),
        ("discovery_tokens", -1),
        ("discovery_tokens", 1.5),
        ("discovery_tokens", 10**12),
        ("ttl_days", -1),
        ("created_at", "soon"),
    ],
)
def test_value_out_of_bounds_is_refused_by_name(field, value):
    assert refused(**{"content": "x", field: value}) == {field}


def test_every_invalid_field_is_named():
    assert refused(content="", importance=5, tags=[""]) == {"content", "importance", "tags"}


def test_content_of_maximum_length_is_stored(remember):
    assert len(remember("x" * MAX_CONTENT).content) == MAX_CONTENT


def test_defaults(remember):
    memory = remember("x")
    assert (memory.sensitivity, memory.scope, memory.category, memory.type) == (
        "public",
        "project",
        "general",
        "change",
    )
    assert (memory.importance, memory.trust, memory.confidence) == (0.5, 0.5, 0.5)
    assert [list_values(memory, name) for name in ("tags", "files_read", "entities")] == [[], [], []]


def test_lists_are_trimmed_and_unique(remember):
    memory = remember(
        "x", tags=[" a ", "a", "b"], files_read=["f", " f"], entities=[{"entity": "e"}, {"entity": " e"}]
    )
    assert list_values(memory, "tags") == ["a", "b"]
    assert list_values(memory, "files_read") == ["f"]
    assert list_values(memory, "entities") == [{"entity": "e", "entity_type": "concept"}]


def test_null_lists_and_texts_are_empty():
    draft = MemoryDraft(content="x", tags=None, entities=None, title=None, project=None, session_id=None)
    assert (draft.tags, draft.entities, draft.title, draft.project) == ([], [], "", "")


def test_unknown_fields_are_reported_and_ignored():
    draft = MemoryDraft(content="x", colour="red", owner="eve", uid="mine")
    assert draft.ignored == ["colour", "owner", "uid"]
    assert draft.given == {"content"}
    assert MemoryPatch(title="x", deleted_at=None).ignored == ["deleted_at"]


@pytest.mark.conformance("guide-53")
@each("name", ["owner", "uid", "author", "copy", "content_hash", "deleted_at", "accessed_count"])
def test_internal_fields_cannot_be_set(remember, name):
    plain = getattr(remember("one"), name)
    given_in = getattr(remember("two", **{name: "7"}), name)
    assert given_in == plain or name in {"uid", "content_hash"}
    assert given_in != "7"


@pytest.mark.parametrize("field", ["subject", "predicate", "object"])
def test_fact_needs_subject_predicate_and_object(field):
    words = {"subject": "s", "predicate": "p", "object": "o"}
    assert refused(FactDraft, **{**words, field: " "}) == {field}
    assert refused(FactDraft, **{name: word for name, word in words.items() if name != field}) == {field}


@pytest.mark.parametrize("field", ["title", "category", "session_id", "overview"])
def test_half_of_a_surrogate_pair_is_refused_in_a_text(field):
    assert refused(MemoryDraft, content="c", **{field: "a \ud83d"}) == {field}


def test_half_of_a_surrogate_pair_is_refused_in_a_list():
    assert refused(MemoryDraft, content="c", tags=["\ud83d"], files_read=["\udfff"]) == {"tags", "files_read"}
    assert refused(FactDraft, subject="\ud83d", predicate="p", object="o") == {"subject"}


PRINTABLE = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1)


@given(PRINTABLE.filter(str.strip), st.text(max_size=40), st.lists(st.text(max_size=30), max_size=4))
def test_accepted_values_are_returned_unchanged(db, actor, content, title, tags):
    try:
        draft = MemoryDraft(content=content, title=title, tags=tags)
    except ValidationError:
        return
    with rolled_back():
        uid = memories.create_memory(draft, actor).memory.uid
        stored = Memory.objects.get(uid=uid)
        assert stored.content == content
        assert stored.title == (title.strip() or stored.title)
        assert stored.title.strip()
        assert list_values(stored, "tags") == sorted({tag.strip() for tag in tags})
