"""Rows that are read in fixed SQL equal those of the queryset."""

from __future__ import annotations

import pytest

from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens
from memoryhub.models import AgentToken, Memory

pytestmark = pytest.mark.django_db


def values(one):
    return {field.attname: getattr(one, field.attname) for field in one._meta.concrete_fields}


def test_loaded_memory_equals_that_of_the_queryset(remember):
    made = remember("text", title="t", importance=0.4, tags=["a"], session_id="s", ttl_days=3)
    Memory.objects.filter(pk=made.pk).update(flags=["odd", "old"])
    loaded, read = Memory.objects.load([made.pk])[made.pk], Memory.objects.get(pk=made.pk)
    assert values(loaded) == values(read)
    assert loaded == read
    assert not loaded._state.adding


def test_loaded_memory_can_be_saved(remember):
    made = remember("text")
    loaded = Memory.objects.load([made.pk])[made.pk]
    loaded.title = "new"
    loaded.save(update_fields=["title"])
    assert Memory.objects.get(pk=made.pk).title == "new"


def test_token_of_a_request_equals_that_of_the_queryset():
    made, raw = tokens.issue_token("laptop", "ada", projects=["zoo"], actor=system_actor("test"))
    found = tokens.authenticate_token(raw)
    assert values(found) | {"last_used_at": None} == values(AgentToken.objects.get(pk=made.pk)) | {
        "last_used_at": None
    }
