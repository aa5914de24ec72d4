"""Clients that store, change and read memories, and remember what the server acknowledged."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tools.bench.clients import Client
from tools.bench.workloads import Lines, make_queries

BATCH = 20
PAUSE_SECONDS = 0.05  # after a request without an answer
_NO_ANSWER = 0


@dataclass
class Record:
    """What the clients sent and got. ``allowed``: the texts that each acknowledged memory may have."""

    allowed: dict[str, set[str]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    times: list[tuple[float, float]] = field(default_factory=list)
    """The moment of each answer and the seconds that it took."""
    writes: int = 0

    @property
    def unexpected(self) -> int:
        """Return the number of server errors. 503 does not count: the server is busy."""
        return sum(n for status, n in self.statuses.items() if status >= 500 and status != 503)


class Crowd:
    """Clients that send requests from :meth:`start` to :meth:`stop`."""

    def __init__(
        self, port: int, headers: Mapping[str, str], lines: Lines, clients: int, record: Record
    ) -> None:
        self._port, self._headers, self._lines, self.record = port, headers, lines, record
        self._ending, self._lock = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._send_all) for _ in range(clients)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _send_all(self) -> None:
        client, pick, own = None, random.Random(), list[str]()
        while not self._ending.is_set():
            try:
                client = client or Client(self._port, self._headers)
                self._send_one(client, pick, own)
            except OSError:  # the server does not listen
                self._count(_NO_ANSWER, 0)
        if client:
            client.close()

    def _send_one(self, client: Client, pick: random.Random, own: list[str]) -> None:
        kind = pick.choices(("store", "batch", "change", "trash", "search", "recall"), (8, 1, 3, 1, 4, 2))[0]
        if kind == "store":
            self._store(client, [self._text(pick)], own)
        elif kind == "batch":
            self._store(client, [self._text(pick) for _ in range(BATCH)], own)
        elif kind in ("search", "recall"):
            [query] = make_queries(self._lines, 1, pick.getrandbits(32))
            self._request(client, "POST", f"/api/v1/{kind}", {"query": query})
        elif own:
            self._change(client, pick, own, kind)

    def _text(self, pick: random.Random) -> str:
        return f"{pick.choice(self._lines)['content'][:600]}\n\nsoak {pick.getrandbits(80):020x}"

    def _store(self, client: Client, texts: list[str], own: list[str]) -> None:
        drafts = [{"content": text, "project": "soak"} for text in texts]
        if len(drafts) == 1:
            status, answer = self._request(client, "POST", "/api/v1/memories", drafts[0])
            stored = [answer] if status in (200, 201) else []
        else:
            status, answer = self._request(client, "POST", "/api/v1/memories/batch", {"memories": drafts})
            stored = answer.get("results", []) if status in (200, 201, 207) else []
        with self._lock:
            for text, one in zip(texts, stored, strict=False):
                if uid := (one.get("memory") or one).get("id"):
                    self.record.allowed[uid] = {text}
                    self.record.writes += 1
                    own.append(uid)

    def _change(self, client: Client, pick: random.Random, own: list[str], kind: str) -> None:
        uid = pick.choice(own)
        path = f"/api/v1/memories/{uid}"
        if kind == "trash":
            own.remove(uid)
            self._request(client, "DELETE", path)
            return
        text = self._text(pick)
        self.record.allowed[uid].add(text)  # it may be stored even if no answer arrives
        status, _ = self._request(client, "PATCH", path, {"content": text})
        if status == 200:
            self.record.allowed[uid] = {text}
            self.record.writes += 1

    def _request(
        self, client: Client, method: str, path: str, body: dict[str, Any] | None = None
    ) -> tuple[int, Any]:
        answer, content = client.send(method, path, body)
        self._count(answer.status, answer.seconds)
        return answer.status, client.decode(content)

    def _count(self, status: int, seconds: float) -> None:
        with self._lock:
            self.record.statuses[status] += 1
            if status:
                self.record.times.append((time.monotonic(), seconds))
        if status == _NO_ANSWER:
            time.sleep(PAUSE_SECONDS)


def find_lost(database: Path | str, record: Record) -> list[str]:
    """Return the ids of acknowledged memories that are missing or have a text that is not allowed."""
    stored = dict(_query(database, "SELECT uid, content FROM memoryhub_memory"))
    return [uid for uid, allowed in record.allowed.items() if stored.get(uid) not in allowed]


def count_repeated(database: Path | str) -> int:
    """Return the number of texts that are stored twice."""
    return len(_query(database, "SELECT 1 FROM memoryhub_memory GROUP BY content HAVING count(*) > 1"))


def _query(database: Path | str, statement: str) -> list[Any]:
    """Return the rows of a statement in a SQLite file, or in the PostgreSQL database at a URL."""
    if isinstance(database, Path):
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as file:
            return file.execute(statement).fetchall()
    with psycopg.connect(database) as connection:
        return connection.execute(statement).fetchall()
