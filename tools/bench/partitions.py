"""Compare tables with and without partitions by project on PostgreSQL: ``python -m tools.bench.partitions``.

Fills a hub with memories, copies them several times into plain tables and into tables with partitions by a
hash of the project, and runs the same statements on both in turn. Copies have the words of their originals.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from tools.bench import corpus
from tools.bench.figures import spread
from tools.bench.hub import manage, store_environment
from tools.cluster.postgres import Postgres, started

INSERTED = 1000
TABLES = {
    "memory": "id bigint, uid text, project text, created_at timestamptz, content text, words tsvector",
    "journal": "id bigint, project text, object_id text, hash text",
}
FILL = {
    "memory": """INSERT INTO {schema}.memory SELECT m.id + 1000000 * round.number, m.uid || round.number,
        'project-' || (m.id + round.number) % {projects}, m.created_at - round.number * interval '1 hour',
        m.content || ' ' || round.number,
        t.memoryhub_text || array_to_tsvector(ARRAY['@project-' || (m.id + round.number) % {projects}])
        FROM memoryhub_memory m JOIN memoryhub_text t ON t.rowid = m.id,
        generate_series(0, {copies} - 1) AS round(number)""",
    "journal": """INSERT INTO {schema}.journal SELECT j.seq + 1000000 * round.number,
        'project-' || (j.seq + round.number) % {projects}, j.object_id || round.number, j.hash
        FROM memoryhub_journalentry j, generate_series(0, {copies} - 1) AS round(number)""",
}
INDEXES = (
    "CREATE INDEX ON {schema}.memory (id)",
    "CREATE INDEX ON {schema}.memory (uid)",
    "CREATE INDEX ON {schema}.memory (project, created_at)",
    "CREATE INDEX ON {schema}.memory (created_at)",
    "CREATE INDEX ON {schema}.memory USING gin (words)",
    "CREATE INDEX ON {schema}.journal (id)",
    "CREATE INDEX ON {schema}.journal (object_id)",
)
QUERIES = {
    "newest 50 of a project": (
        "SELECT id FROM {schema}.memory WHERE project = %(project)s ORDER BY created_at DESC LIMIT 50"
    ),
    "newest 50 of all projects": "SELECT id FROM {schema}.memory ORDER BY created_at DESC LIMIT 50",
    "memory by its id": "SELECT content FROM {schema}.memory WHERE uid = %(uid)s",
    "two words, one project": (
        "SELECT id FROM {schema}.memory WHERE project = %(project)s AND words @@ %(words)s::tsquery"
        " ORDER BY ts_rank(words, %(words)s::tsquery) DESC LIMIT 10"
    ),
    "two words, the project as a word": (
        "SELECT id FROM {schema}.memory WHERE words @@ %(words_of_project)s::tsquery"
        " ORDER BY ts_rank(words, %(words)s::tsquery) DESC LIMIT 10"
    ),
    "two words, all projects": (
        "SELECT id FROM {schema}.memory WHERE words @@ %(words)s::tsquery"
        " ORDER BY ts_rank(words, %(words)s::tsquery) DESC LIMIT 10"
    ),
    "last row of the journal": "SELECT hash FROM {schema}.journal ORDER BY id DESC LIMIT 1",
    "journal of one memory": "SELECT hash FROM {schema}.journal WHERE object_id = %(uid)s",
}
INSERT = """INSERT INTO {schema}.memory
    SELECT id + 1000000000 + %(round)s * 10000, uid || 'new' || %(round)s, project, now(), content, words
    FROM one.memory WHERE id < 1000000 ORDER BY id LIMIT %(inserted)s"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000, help="memories that are imported")
    parser.add_argument("--copies", type=int, default=10, help="of each")
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--projects", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    with started() as server, tempfile.TemporaryDirectory(prefix="partitions-") as folder:
        fill_hub(server, Path(folder), options.rows)
        url = f"postgres://postgres@/hub?host={server.folder}"
        with psycopg.connect(url, autocommit=True) as connection:
            make_tables(connection, options)
            print("\n".join(compare(connection, options)))


def fill_hub(server: Postgres, folder: Path, rows: int) -> None:
    """Import generated memories into a new hub."""
    environment = store_environment(folder) | {"MEMORYHUB_EMBEDDINGS": "none"}
    environment["DATABASE_URL"] = server.create_database("hub")
    manage(environment, "migrate", "--verbosity", "0")
    source = folder / "import.jsonl"
    lines = corpus.memories(corpus.own_text(), rows)
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    manage(environment, "import_memories", str(source))


def make_tables(connection: psycopg.Connection, options: argparse.Namespace) -> None:
    """Make and fill the tables of both schemas."""
    values = {"projects": options.projects, "copies": options.copies}
    for schema, suffix in (("one", ""), ("parted", "PARTITION BY HASH (project)")):
        began = time.perf_counter()
        connection.execute(f"CREATE SCHEMA {schema}")
        for table, columns in TABLES.items():
            connection.execute(f"CREATE TABLE {schema}.{table} ({columns}) {suffix}")
            for number in range(options.partitions if suffix else 0):
                connection.execute(
                    f"CREATE TABLE {schema}.{table}_{number} PARTITION OF {schema}.{table}"
                    f" FOR VALUES WITH (MODULUS {options.partitions}, REMAINDER {number})"
                )
            connection.execute(FILL[table].format(schema=schema, **values))
        for index in INDEXES:
            connection.execute(index.format(schema=schema))
        for table in TABLES:
            connection.execute(f"VACUUM ANALYZE {schema}.{table}")
        print(f"{schema}: filled in {time.perf_counter() - began:.0f} s", flush=True)


def compare(connection: psycopg.Connection, options: argparse.Namespace) -> list[str]:
    """Return the rows of a Markdown table: milliseconds, p50 / p95, of both schemas in turn."""
    [rows] = connection.execute("SELECT count(*) FROM one.memory").fetchone() or (0,)
    words = [row[0] for row in connection.execute(WORDS)]
    uids = [row[0] for row in connection.execute("SELECT uid FROM one.memory ORDER BY md5(uid) LIMIT 100")]
    found = [
        f"| {rows:,} memories, {options.projects} projects | one table | {options.partitions} partitions |"
    ]
    for name, query in {**QUERIES, f"store {INSERTED} memories": INSERT}.items():
        times: dict[str, list[float]] = {"one": [], "parted": []}
        for number in range(options.repeat):
            found_words = f"{words[number % len(words)]} & {words[(number * 7 + 3) % len(words)]}"
            params = {
                "project": f"project-{number % options.projects}",
                "uid": uids[number % len(uids)],
                "words": found_words,
                "words_of_project": f"{found_words} & '@project-{number % options.projects}'",
                "round": number,
                "inserted": INSERTED,
            }
            for schema, measured in times.items():
                measured.append(run(connection, query.format(schema=schema), params))
        found.append(f"| {name} | {spread(times['one'])} | {spread(times['parted'])} |")
    return found


WORDS = """SELECT word FROM ts_stat('SELECT words FROM one.memory WHERE id < 1000000')
    WHERE word ~ '^[a-z]+$' AND ndoc > 20 ORDER BY md5(word) LIMIT 40"""


def run(connection: psycopg.Connection, query: str, params: dict[str, Any]) -> float:
    began = time.perf_counter()
    cursor = connection.execute(query, params)
    if cursor.description:
        cursor.fetchall()
    return 1000 * (time.perf_counter() - began)


if __name__ == "__main__":
    main()
