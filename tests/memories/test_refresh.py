"""The same words again: what a refresh writes, and what it leaves alone."""

from __future__ import annotations

from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub import memories
from memoryhub.backends import schema
from memoryhub.models import Memory


def test_a_refresh_writes_no_text_so_that_the_index_stays_as_it_is(remember):
    remember("the same words")
    with CaptureQueriesContext(
        connection,
    ) as captured:
        remember("the same words")
    [update] = [q["sql"] for q in captured if q["sql"].startswith('UPDATE "memoryhub_memory"')]
    assert not any(f'"{column}" =' in update for column in schema.COLUMNS)


def test_a_refresh_keeps_everything_that_it_may_change(remember, actor):
    first = remember("the same words", ttl_days=1)
    memories.trash([first.uid], actor)
    second = remember("the same words", ttl_days=9, sensitivity="private", key="k")
    stored = Memory.objects.get(pk=first.pk)
    assert (stored.ttl_days, stored.sensitivity, stored.key) == (9, "private", "k")
    assert (stored.deleted_at, stored.trash_reason) == (None, "")
    assert (stored.updated_at, stored.expires_at) == (second.updated_at, second.expires_at)
