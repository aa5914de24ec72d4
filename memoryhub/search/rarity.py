"""Which words few memories contain, in the whole store, without reading the lists of the common ones.

These counts include hidden memories: choose candidates with them, but never compute a score from them.
"""

from __future__ import annotations

from django.db import connection

from memoryhub.search.query import any_of

TEXT = "memoryhub_text"


def rare_words(words: list[str], most: int) -> dict[str, int]:
    """Those of the words that stand in at least one memory and in fewer than ``most``, with their number.

    It stops counting there.
    """
    if not words:
        return {}
    one = f"SELECT count(*) FROM (SELECT 1 FROM {TEXT} WHERE {TEXT} MATCH %s LIMIT {most:d})"
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join([one] * len(words)), [any_of([word]) for word in words])
        counted = [int(row[0]) for row in cursor.fetchall()]
    return {word: count for word, count in zip(words, counted, strict=True) if 0 < count < most}
