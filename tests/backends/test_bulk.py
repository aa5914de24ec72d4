"""Rows that are read in fixed SQL equal those of the queryset."""

from __future__ import annotations

import pytest

from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens
from memoryhub.memories.rows import LIST_FIELDS, list_values, load_memories
from memoryhub.models import AgentToken, Memory

MORE = {
    "session_id": "s",
    "ttl_days": 3,
    "aliases": ["it's", 'a "quote"'],
    "files_read": ["x/y.py"],
    "files_modified": ["é.py", "a.py"],
    "entities": [{"entity": "Ada", "entity_type": "person"}, {"entity": "ada"}],
}
pytestmark = pytest.mark.django_db


def values(one):
    return {field.attname: getattr(one, field.attname) for field in one._meta.concrete_fields}


def test_loaded_memory_equals_that_of_the_queryset(remember):
    made = remember("text", title="t", importance=0.4, tags=["b", "a"], concepts=["c"], **MORE)
    Memory.objects.filter(pk=made.pk).update(flags=["odd", "old"])
    loaded, read = load_memories([made.pk], Memory.objects.all())[made.pk], Memory.objects.get(pk=made.pk)
    assert values(loaded) == values(read)
    assert [list_values(loaded, name) for name in LIST_FIELDS] == [
        list_values(read, name) for name in LIST_FIELDS
    ]
    assert loaded == read
    assert not loaded._state.adding


def test_loaded_memory_can_be_saved(remember):
    made = remember("text")
    loaded = load_memories([made.pk], Memory.objects.all())[made.pk]
    loaded.title = "new"
    loaded.save(update_fields=["title"])
    assert Memory.objects.get(pk=made.pk).title == "new"


def test_token_of_a_request_equals_that_of_the_queryset():
    made, raw = tokens.issue_token("laptop", "ada", projects=["zoo"], actor=system_actor("test"))
    found = tokens.authenticate_token(raw)
    assert values(found) | {"last_used_at": None} == values(AgentToken.objects.get(pk=made.pk)) | {
        "last_used_at": None
    }
