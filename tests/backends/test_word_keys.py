"""The cached keys of common words always equal those of the index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from memoryhub.backends import word_keys
from memoryhub.backends.statements import in_titles, match_any
from memoryhub.backends.word_keys import clear_cache, matching_keys
from memoryhub.models import Memory

Remember = Callable[..., Any]
EXPRESSIONS = [in_titles("harbour"), match_any(["harbour"]), match_any(["lighthouse"])]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _cache_of_every_word(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(word_keys, "MIN_CACHED_KEYS", 0)
    clear_cache()
    yield
    clear_cache()


def assert_found_as_in_the_index() -> list[list[int]]:
    """Compare the keys with those that a process without a cache finds, and return them."""
    found = [keys.tolist() for keys in matching_keys(EXPRESSIONS)]
    again = [keys.tolist() for keys in matching_keys(EXPRESSIONS)]
    entries = word_keys._cache._entries.copy()
    clear_cache()
    assert found == again == [keys.tolist() for keys in matching_keys(EXPRESSIONS)]
    word_keys._cache._entries = entries
    return found


def test_cached_keys_follow_every_change(remember: Remember) -> None:
    rows = [remember(f"harbour {n}", title="A harbour" if n % 2 else "Ships") for n in range(6)]
    assert_found_as_in_the_index()
    changes: list[Callable[[], Any]] = [
        lambda: remember("another harbour with a lighthouse", title="Ships"),
        lambda: remember("nothing", title="Ships"),
        lambda: Memory.objects.filter(pk=rows[0].pk).update(content="A lighthouse"),
        lambda: Memory.objects.filter(pk=rows[1].pk).update(title="Ships"),
        lambda: Memory.objects.filter(pk=rows[2].pk).update(title="A harbour"),
        lambda: Memory.objects.filter(pk=rows[3].pk).delete(),
        lambda: Memory.objects.update(content="A harbour and a lighthouse"),
        lambda: Memory.objects.all().delete(),
    ]
    results = []
    for change in changes:
        change()
        results.append(assert_found_as_in_the_index())
    assert len({str(result) for result in results}) == len(changes) - 1  # one adds none of the words


def test_known_words_are_not_looked_up_again(remember: Remember) -> None:
    remember("harbour")
    matching_keys(EXPRESSIONS)
    with CaptureQueriesContext(connection) as captured:
        [keys] = matching_keys([match_any(["harbour"])])
    assert len(keys) == 1
    assert len(captured) == 1
    assert "memoryhub_word_keys" not in captured[0]["sql"]
    assert "FROM memoryhub_change" in captured[0]["sql"]


def test_rolled_back_changes_are_not_cached(remember: Remember) -> None:
    remember("harbour", title="Ships")
    matching_keys(EXPRESSIONS)
    with transaction.atomic():
        Memory.objects.all().delete()
        remember("another harbour", title="Ships")
        assert [len(keys) for keys in matching_keys(EXPRESSIONS)] == [0, 1, 0]
        transaction.set_rollback(True)
    remember("a lighthouse", title="Ships")
    assert [len(keys) for keys in assert_found_as_in_the_index()] == [0, 1, 1]


def test_words_are_read_again_if_the_log_does_not_go_back_so_far(
    remember: Remember, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember("harbour", title="Ships")
    matching_keys(EXPRESSIONS)
    for number in range(3):
        remember(f"harbour {number}", title="Ships")
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM memoryhub_change WHERE id < (SELECT max(id) FROM memoryhub_change)")
    assert [len(keys) for keys in assert_found_as_in_the_index()] == [0, 4, 0]
    monkeypatch.setattr(word_keys, "MAX_CHANGES", 0)
    remember("the last harbour")
    matching_keys([match_any(["lighthouse"])])  # this process knows of the change
    assert word_keys._cache.find(EXPRESSIONS[:2]) == {}


def test_old_keys_are_read_again(remember: Remember, monkeypatch: pytest.MonkeyPatch) -> None:
    remember("harbour")
    matching_keys(EXPRESSIONS)
    assert set(word_keys._cache.find(EXPRESSIONS)) == set(EXPRESSIONS)
    monkeypatch.setattr(word_keys, "MAX_AGE_SECONDS", 0.0)
    assert word_keys._cache.find(EXPRESSIONS) == {}


def test_cache_has_a_limit(remember: Remember, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        remember(f"harbour lighthouse {number}")
    monkeypatch.setattr(word_keys, "MAX_CACHED_KEYS", 6)
    matching_keys(EXPRESSIONS[1:])
    assert set(word_keys._cache.find(EXPRESSIONS)) == {EXPRESSIONS[2]}
    monkeypatch.setattr(word_keys, "MIN_CACHED_KEYS", 5)
    matching_keys(EXPRESSIONS)
    assert word_keys._cache.find(EXPRESSIONS) == {}
    assert word_keys._cache._size == 0


@pytest.mark.parametrize(("last", "bits"), [(2**31 - 1, 32), (2**31, 64)])
def test_cached_keys_have_32_bits_if_they_fit(last: int, bits: int) -> None:
    compact = word_keys._compact(np.array([1, last], np.int64))
    assert (compact.tolist(), 8 * compact.itemsize) == ([1, last], bits)
    found = word_keys._bring_up_to_date(compact, np.array([2**32]), np.array([2**32]))
    assert found.tolist() == [1, last, 2**32]


@pytest.mark.parametrize(
    ("known", "changed", "matching", "expected"),
    [
        ([1, 5, 9], [], [], [1, 5, 9]),
        ([1, 5, 9], [5], [], [1, 9]),
        ([1, 5, 9], [5, 7, 12], [5, 7, 12], [1, 5, 7, 9, 12]),
        ([], [3, 4], [4], [4]),
        ([1, 5, 9], [5, 12], [5, 9, 12], [1, 5, 9, 12]),  # of a range that includes unchanged ones
    ],
)
def test_changed_keys_replace_known_ones(
    known: list[int], changed: list[int], matching: list[int], expected: list[int]
) -> None:
    arrays = [np.array(keys, np.int64) for keys in (known, changed, matching)]
    assert word_keys._bring_up_to_date(*arrays).tolist() == expected
