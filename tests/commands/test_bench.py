"""The parts of ``tools.bench`` that need no server: percentiles, the table, the requests, the counting."""

from __future__ import annotations

import socket
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, transaction

from tools.bench import corpus, in_process, typed
from tools.bench.clients import Answer, Client, Measured
from tools.bench.figures import Row, client_cell, percentile, spread, table
from tools.bench.workloads import BATCH, Workload, make_queries, workloads

LINES = corpus.own_text(40)


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.5, 5), (0.51, 6), (0.95, 10), (1.0, 10)])
def test_percentile_is_the_nearest_rank(share: float, expected: int) -> None:
    assert percentile([10, 1, 9, 2, 8, 3, 7, 4, 6, 5], share) == expected


def test_percentile_of_one_value_is_that_value() -> None:
    assert [percentile([4.2], share) for share in (0.0, 0.5, 0.95, 1.0)] == [4.2] * 4


def test_typed_queries_are_words_of_titles(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "memory.db")) as store, store:
        store.execute("CREATE TABLE memoryhub_memory (uid TEXT, title TEXT)")
        store.executemany("INSERT INTO memoryhub_memory VALUES (?, ?)", [("a", "night train"), ("b", "")])
    queries = typed.read_queries(tmp_path, 3)
    assert len(queries) == 3
    assert {word for query in queries for word in query.split()} <= {"night", "train"}


def test_spread_shows_a_dash_without_values() -> None:
    assert spread([]) == "–"
    assert spread([1.0] * 10 + [3.25] * 10) == "1.0 / 3.2"


def test_cell_of_clients_shows_failed_requests() -> None:
    assert client_cell([2.0, 2.0], 1234.4) == "2.0 / 2.0, 1,234/s"
    assert client_cell([2.0], 10.0, 3) == "2.0 / 2.0, 10/s, **3 failed**"


def test_table_has_a_cell_for_every_column() -> None:
    full = Row("search", [3.0], [6, 6, 7], ["1.0 / 1.0, 9/s", "2.0 / 2.0, 8/s"], 4.04)
    lines = table([full, Row("bare", clients=["0.5 / 0.5, 99/s"])], [1, 8]).splitlines()
    assert lines == [
        "| request | CPU p50 / p95, ms | SQL | 1 client | 8 clients | server CPU, ms |",
        "| --- | --- | --- | --- | --- | --- |",
        "| search | 3.0 / 3.0 | 6 | 1.0 / 1.0, 9/s | 2.0 / 2.0, 8/s | 4.0 |",
        "| bare | – | – | 0.5 / 0.5, 99/s | – | – |",
    ]


def test_measured_counts_failures_and_has_the_time_of_the_first_byte() -> None:
    measured = Measured([Answer(0.001, 0.002, 200), Answer(0.003, 0.004, 0)], elapsed=0.5)
    assert (measured.failed, measured.rate) == (1, 4)
    assert measured.milliseconds() == [2, 4]
    assert measured.milliseconds(first_byte=True) == [1, 3]


def test_client_reports_a_broken_connection_and_connects_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = Client(listener.getsockname()[1], {})
        broken = threading.Thread(target=answer_once, args=(listener, b""))
        broken.start()
        assert client.send("GET", "/")[0].status == 0
        broken.join()
        answered = threading.Thread(target=answer_once, args=(listener,))
        answered.start()
        assert client.send("GET", "/")[0].status == 204
        answered.join()
        client.close()


def test_client_notices_that_the_server_closed_an_idle_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = Client(listener.getsockname()[1], {})
        for _ in range(2):
            server = threading.Thread(target=answer_once, args=(listener,))
            server.start()
            assert client.send("POST", "/")[0].status == 204
            server.join()
        client.close()


def answer_once(listener: socket.socket, answer: bytes = b"HTTP/1.1 204 No Content\r\n\r\n") -> None:
    connection = listener.accept()[0]
    connection.recv(4096)
    connection.sendall(answer)
    connection.close()


@pytest.mark.parametrize("workload", workloads(LINES), ids=lambda one: one.name)
def test_the_same_seed_makes_the_same_requests(workload: Workload) -> None:
    first, again = workload.requests(7, 3), workload.requests(7, 3)
    assert first == again
    assert len(first) == 7
    if not workload.is_page:
        assert first != workload.requests(7, 4)


def test_stored_memories_are_new_and_differ() -> None:
    by_name = {one.name.partition(" (")[0]: one for one in workloads(LINES)}
    single = [body["content"] for _, _, body in by_name["store"].requests(5, 1) if body]
    batches = [body["memories"] for _, _, body in by_name[f"store, batch of {BATCH}"].requests(2, 1) if body]
    assert [len(batch) for batch in batches] == [BATCH, BATCH]
    stored = single + [memory["content"] for batch in batches for memory in batch]
    assert max(Counter([*stored, *(line["content"] for line in LINES)]).values()) == 1


def test_stored_memories_have_files_only_where_the_name_says_so() -> None:
    by_name = {one.name: one for one in workloads([{**line, "files_read": ["a.py"]} for line in LINES])}
    [(_, _, plain)] = by_name["store"].requests(1, 1)
    [(_, _, full)] = by_name["store, with files and a session"].requests(1, 1)
    assert plain
    assert full
    assert "files_read" in full
    assert set(plain) <= {"title", "content", "project"}


def test_queries_are_words_of_titles() -> None:
    known = {word for line in LINES for word in line["title"].split()}
    assert all(set(query.split()) <= known for query in make_queries(LINES, 30, 1))


class QueryingClient:
    """Answers each request with two statements in a transaction."""

    def generic(self, *args: Any) -> SimpleNamespace:
        with transaction.atomic(), connection.cursor() as cursor:
            for _ in range(2):
                cursor.execute("SELECT 1")
        return SimpleNamespace(status_code=200, streaming=False, content=b"")


@pytest.mark.django_db(transaction=True)
def test_statements_are_counted_without_transaction_control() -> None:
    requests = [("GET", "/", None)] * (in_process.WARM_UP + 4 + in_process.COUNTED)
    found = in_process.measure(QueryingClient(), requests)
    assert found["statements"] == [2] * in_process.COUNTED
    assert len(found["cpu"]) == 4
