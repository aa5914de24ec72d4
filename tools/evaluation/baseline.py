"""Plain FTS5 as a baseline for the hub's search."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable

from memoryhub.backends.dialect.sqlite import match_any
from memoryhub.core.text import STOP_WORDS, words
from tools.evaluation.measures import RANKED, SHOWN, Answer

ALL_WORDS, WITHOUT_STOP_WORDS = "FTS5, all words", "FTS5, no stop words"
BASELINES = (ALL_WORDS, WITHOUT_STOP_WORDS)


class BareIndex:
    """An FTS5 table in memory: content alone, Porter stems, any of the words, ordered by bm25."""

    def __init__(self, rows: Iterable[tuple[int, str]]) -> None:
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute("CREATE VIRTUAL TABLE bare USING fts5(content, tokenize='porter unicode61')")
        self._connection.executemany("INSERT INTO bare (rowid, content) VALUES (?, ?)", rows)

    def ask(self, query: str, baseline: str) -> Answer:
        """Search with a baseline. It has no floor, so the first ten results are shown."""
        began = time.perf_counter()
        typed = words(query)
        kept = [word for word in typed if word not in STOP_WORDS] if baseline == WITHOUT_STOP_WORDS else typed
        expression = match_any(dict.fromkeys(kept or typed))
        found: list[int] = []
        if expression:
            statement = "SELECT rowid FROM bare WHERE bare MATCH ? ORDER BY rank, rowid LIMIT ?"
            found = [row[0] for row in self._connection.execute(statement, (expression, RANKED))]
        return Answer(found, found[:SHOWN], time.perf_counter() - began)

    def close(self) -> None:
        self._connection.close()
