"""The text indexes: how much of a long text they contain."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import connection

from memoryhub import memories
from memoryhub.backends import MEMORY_TABLE, TRIGRAM_CHARACTERS, schema
from memoryhub.backends.sqlite import schema as sqlite_schema
from memoryhub.memories.schemas import MAX_CONTENT, MemoryPatch
from memoryhub.models import Memory
from tests.cases import each

FILLER = "lorem ipsum "
END = TRIGRAM_CHARACTERS["content"]


def text_with(word: str, at: int) -> str:
    """Return a long text that contains a word at this position."""
    return (FILLER * (at // len(FILLER) + 1))[:at] + f" {word} " + FILLER * 50


def count_trigrams() -> int:
    with connection.cursor() as cursor:
        cursor.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, memoryhub_trigram, row)")
        try:
            return int(cursor.execute("SELECT count(*) FROM temp.terms").fetchone()[0])
        finally:
            cursor.execute("DROP TABLE temp.terms")


@pytest.mark.sqlite
def test_long_text_without_repetition_adds_few_trigrams(remember: Any) -> None:
    letters = [chr(code) for code in range(0x4E00, 0x9FFF)]
    remember("".join(random.Random(1).choices(letters, k=MAX_CONTENT)), overview="", title="t", abstract="a")
    assert count_trigrams() <= END


def test_word_at_the_end_of_a_long_text_is_found(remember: Any) -> None:
    memory = remember(text_with("xylophone", 90_000))
    assert Memory.objects.search("xylophone").get() == memory


@each("at, found", [(100, 1), (END - 100, 1), (END + 100, 0)])
def test_part_of_a_word_is_found_at_the_beginning_of_a_long_text(remember: Any, at: int, found: int) -> None:
    remember(text_with("xylophone", at))
    assert Memory.objects.containing(["yloph"]).count() == found


def test_change_behind_the_limit_leaves_the_indexes_sound(remember: Any, actor: Any) -> None:
    memory = remember(text_with("xylophone", 50_000))
    memories.update_memory(memory.uid, MemoryPatch(content=text_with("trombone", 50_000)), actor)
    assert [Memory.objects.search(word).count() for word in ("xylophone", "trombone")] == [0, 1]
    assert schema.find_problems(deep=True) == []


@pytest.mark.sqlite
def test_index_that_covers_whole_texts_is_replaced(remember: Any) -> None:
    """The index of an earlier release."""
    remember(text_with("xylophone", 50_000))
    with connection.cursor() as cursor:
        statement = sqlite_schema.create_index("memoryhub_trigram").replace(
            sqlite_schema.TRIGRAM_VIEW, MEMORY_TABLE
        )
        for earlier in ("DROP TABLE memoryhub_trigram", statement):
            cursor.execute(earlier)
    sqlite_schema.drop_views()
    sqlite_schema.rebuild_indexes()
    sqlite_schema.install()
    assert schema.find_problems(deep=True) == []
    assert not Memory.objects.containing(["yloph"]).exists()
