"""Resumable readers for import files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from memoryhub.transfer.files import Source, open_source
from memoryhub.transfer.formats import Format
from memoryhub.transfer.formats.hub import HubFormat
from memoryhub.transfer.jsonl import LineReader
from memoryhub.transfer.records import Item, ReadOptions

_CHUNK = 1024 * 1024
ImportMark = dict[str, Any]


class ImportReader(Protocol):
    """A reader of items. ``done`` of ``total`` is the progress in ``unit``: bytes of the file, or items."""

    unit: str
    total: int | None

    @property
    def done(self) -> int: ...

    def __iter__(self) -> Iterator[Item]: ...

    def mark(self, *, before: bool = False) -> ImportMark:
        """Return the position after all items so far, or ``before`` the last one."""
        ...

    def go_on(self, mark: ImportMark) -> bool:
        """Skip the items before a mark; return False if the file has changed."""
        ...


class _LineReader:
    """Reader for the hub's own format: resumes by byte offset and checks a digest of the bytes before it."""

    unit = "B"

    def __init__(self, format: HubFormat, source: Source) -> None:
        self._format, self._source = format, source
        self._lines = LineReader(source.stream)
        self.total = source.size

    @property
    def done(self) -> int:
        return self._source.progress if self.total is not None else self._lines.number

    def __iter__(self) -> Iterator[Item]:
        return self._format.items(self._lines)

    def mark(self, *, before: bool = False) -> ImportMark:
        lines = self._lines
        if not before:
            lines.finish_line()
        return {"number": lines.number, "offset": lines.offset, "digest": lines.digest}

    def go_on(self, mark: ImportMark) -> bool:
        return self._lines.skip(int(mark["number"]), int(mark["offset"]), str(mark["digest"]))


class _ItemReader:
    """Reader for other formats: resumes by item number if the digest of the file is unchanged."""

    unit = " items"

    def __init__(self, format: Format, path: Path, options: ReadOptions) -> None:
        self._path, self._format, self._options = path, format, options
        self._digest = ""
        self._skip = 0
        self.done = 0
        self.total = format.count(path)

    def __iter__(self) -> Iterator[Item]:
        for item in islice(self._format.read(self._path, self._options), self._skip, None):
            self.done += 1
            yield item

    def mark(self, *, before: bool = False) -> ImportMark:
        self._digest = self._digest or file_digest(self._path)
        return {"number": self.done - before, "digest": self._digest}

    def go_on(self, mark: ImportMark) -> bool:
        self._digest = file_digest(self._path)
        if mark["digest"] != self._digest:
            return False
        self._skip = self.done = int(mark["number"])
        return True


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def open_import(format: Format, name: str, options: ReadOptions) -> Iterator[ImportReader]:
    """Open a file, or standard input for ``-`` (own format only). Raise UnreadableFile."""
    with ExitStack() as stack:
        if isinstance(format, HubFormat):
            yield _LineReader(format, stack.enter_context(open_source(name)))
        else:
            yield _ItemReader(format, Path(name), options)
