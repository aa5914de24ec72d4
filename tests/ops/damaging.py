"""Overwrite pages of a store's file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from django.db import connection


def leaf_pages(path: Path, name: str) -> list[int]:
    """Return the leaf pages of a table or index, in the order of their keys."""
    with closing(sqlite3.connect(path)) as file:
        sql = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path"
        return [page for (page,) in file.execute(sql, [name])]


def root_page(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as file:
        [page] = file.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [name]).fetchone()
        return int(page)


def copy_page(path: Path, source: int, target: int) -> None:
    """Overwrite a page with the content of another one, as a misdirected write of a disk does."""
    connection.close()
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [[size]] = file.execute("PRAGMA page_size")
    with path.open("r+b") as damaged:
        damaged.seek((source - 1) * size)
        content = damaged.read(size)
        damaged.seek((target - 1) * size)
        damaged.write(content)


def overwrite_pages(path: Path, *pages: int) -> None:
    """Fill pages with the same byte, as a failing disk might."""
    connection.close()
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [[size]] = file.execute("PRAGMA page_size")
    with path.open("r+b") as damaged:
        for page in pages:
            damaged.seek((page - 1) * size)
            damaged.write(b"\xaa" * size)


def damage_statement(path: Path, table: str, offset: int = 2) -> None:
    """Set a bit in the CREATE statement of a table, so that it is not UTF-8.

    With the default offset, the message of SQLite quotes the changed character.
    """
    content = _read_with_log(path)
    content[content.index(f'CREATE TABLE "{table}"'.encode()) + offset] |= 0x80
    path.write_bytes(content)


def replace_in_statement(path: Path, table: str, old: bytes, new: bytes) -> None:
    """Replace the first ``old`` in the CREATE statement of a table with as many other bytes."""
    content = _read_with_log(path)
    start = content.index(old, content.index(f'CREATE TABLE "{table}"'.encode()))
    content[start : start + len(new)] = new
    path.write_bytes(content)


def _read_with_log(path: Path) -> bytearray:
    """Close the connection and move the write-ahead log into the file."""
    connection.close()
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return bytearray(path.read_bytes())
