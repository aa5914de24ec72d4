"""Read and write plain, gzip and zip files and their lines, with limits on what they unpack to."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from memoryhub.core.disks import draft_file
from memoryhub.core.files import replace_file
from memoryhub.transfer.records import DamagedFile, Problem, UnreadableFile

# JSON compresses 10 to 20 times; a larger expansion is an attack.
_MAX_RATIO = 300
_MIN_UNPACKED_BYTES = 64 * 1024 * 1024


class BoundedStream(io.RawIOBase):
    """Unpacked content of a file of ``size`` bytes.

    Reading raises :class:`UnreadableFile` beyond the limit.
    """

    def __init__(self, stream: IO[bytes], size: int, name: str) -> None:
        self._stream, self._left, self._name = stream, max(size * _MAX_RATIO, _MIN_UNPACKED_BYTES), name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        found = self._stream.read(len(buffer))
        self._left -= len(found)
        if self._left < 0:
            raise _unpacks_to_too_much(self._name)
        buffer[: len(found)] = found
        return len(found)


def _unpacks_to_too_much(name: str) -> UnreadableFile:
    return UnreadableFile(
        f"{name}: unpacks to more than {_MAX_RATIO} times its size; check that it is the exported file"
    )


STDIN = STDOUT = "-"
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
_SQLITE = b"SQLi"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Source:
    """An open file: ``stream`` yields the content, ``raw`` the ``size`` bytes on disk."""

    stream: IO[bytes]
    raw: io.BufferedReader
    size: int | None

    @property
    def progress(self) -> int:
        """Number of bytes read from disk; 0 for a pipe."""
        return self.raw.tell() if self.size is not None else 0


@contextlib.contextmanager
def open_source(name: str) -> Iterator[Source]:
    """Open a file, or standard input for ``-``, and unpack gzip. Raise :class:`UnreadableFile`."""
    with contextlib.ExitStack() as stack:
        raw, size = _open_raw(name, stack)
        try:
            yield Source(_unpack(name, raw, size, stack), raw, size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DamagedFile(f"{name}: the gzip file is damaged or truncated: {error}") from None


def _open_raw(name: str, stack: contextlib.ExitStack) -> tuple[io.BufferedReader, int | None]:
    if name == STDIN:
        return cast(io.BufferedReader, sys.stdin.buffer), None
    try:
        raw = stack.enter_context(open(name, "rb"))  # noqa: SIM115 the stack closes it
        raw.peek(1)
    except OSError as error:
        raise UnreadableFile(f"{name}: cannot be read: {error.strerror or error}") from None
    about = os.fstat(raw.fileno())
    return raw, about.st_size if stat.S_ISREG(about.st_mode) else None


def _unpack(name: str, raw: io.BufferedReader, size: int | None, stack: contextlib.ExitStack) -> IO[bytes]:
    start = raw.peek(4)[:4]
    if start.startswith(_UTF16):
        raise UnreadableFile(f"{name}: is UTF-16; convert it to UTF-8 first (iconv -f utf-16 -t utf-8)")
    if start == _SQLITE:
        raise UnreadableFile(f"{name}: is an SQLite file of an unsupported program; export it as JSON")
    if start == _ZIP:
        raise UnreadableFile(f"{name}: is a zip archive; unpack it first (unzip)")
    if start.startswith(_GZIP):
        stream = cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=raw)))
        if size is None:  # a pipe has no size to compare with, and is trusted
            return stream
        return stack.enter_context(io.BufferedReader(BoundedStream(stream, size, name), 256 * 1024))
    return raw


def write_atomically(path: Path, lines: Iterable[bytes]) -> None:
    """Write a file atomically, readable by its owner only (mode 600).

    A name that ends in ``.gz`` is compressed.
    """
    with draft_file(path) as draft, replace_file(path, to_disk=True, draft=draft) as file:
        if path.suffix == ".gz":
            with gzip.GzipFile(path.name, "wb", fileobj=file) as packed:
                packed.writelines(lines)
        else:
            file.writelines(lines)


_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError)


def member_names(path: Path) -> dict[str, str]:
    """Return the members of a zip archive by base name (first one wins), or {} if it is not an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            found: dict[str, str] = {}
            for name in archive.namelist():
                found.setdefault(name.rsplit("/", 1)[-1], name)
            return found
    except _ERRORS:
        return {}


def select_members(path: Path, pattern: re.Pattern[str]) -> list[str]:
    """Return the sorted names of the members that match; they are never used as paths of this machine.

    Raise :class:`UnreadableFile` if these members unpack to too much together.
    """
    limit = max(path.stat().st_size * _MAX_RATIO, _MIN_UNPACKED_BYTES)
    try:
        with zipfile.ZipFile(path) as archive:
            found = [one for one in archive.infolist() if pattern.search(one.filename)]
    except _ERRORS:
        return []
    if sum(one.file_size for one in found) > limit:
        raise _unpacks_to_too_much(path.name)
    return sorted({one.filename for one in found})


@contextlib.contextmanager
def open_member(path: Path, name: str) -> Iterator[IO[bytes]]:
    """Open a member of an archive, unpacking gzip inside too. Raise :class:`UnreadableFile`."""
    with contextlib.ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(path))
            stream = stack.enter_context(archive.open(name))
            if name.endswith(".gz"):
                stream = cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=stream)))
            bounded = stack.enter_context(BoundedStream(stream, path.stat().st_size, path.name))
            yield stack.enter_context(io.BufferedReader(bounded, 256 * 1024))
        except _ERRORS as error:
            raise UnreadableFile(
                f"{path.name}: the archive is damaged, truncated or encrypted: {error}; export it again"
            ) from None


# Fits a memory with the longest texts and every character escaped.
MAX_LINE_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class InvalidLine(Exception):
    """A line without a valid item."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(map(str, problems)))


@dataclass(frozen=True)
class RawLine:
    """``raw`` is ``None`` for a line above the size limit."""

    number: int
    raw: bytes | None


class LineReader:
    """Read the lines of a stream one at a time.

    ``number``, ``offset`` and ``digest`` describe the position *before* the current line: everything before
    it need not be read again. So does ``header``, the number of the line that announced a last line, or 0.
    The format sets ``next_header``, which applies after the current line.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._hash = self._ahead = hashlib.sha256()
        self.number = self.offset = self._length = self.header = self.next_header = 0

    @property
    def digest(self) -> str:
        """SHA-256 of everything up to ``offset``."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[RawLine]:
        while raw := self._stream.readline(MAX_LINE_BYTES + 1):
            ahead = self._hash.copy()
            ahead.update(raw)
            length, whole = len(raw), raw
            while len(whole) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
                raw = self._stream.readline(_CHUNK_BYTES)
                if not raw:
                    break
                ahead.update(raw)
                length += len(raw)
            self._ahead, self._length = ahead, length
            yield RawLine(self.number + 1, whole if len(whole) <= MAX_LINE_BYTES else None)
            self.finish_line()

    def finish_line(self) -> None:
        """Move the position after the current line."""
        if self._length:
            self._hash, self.offset, self.number = self._ahead, self.offset + self._length, self.number + 1
            self.header = self.next_header
            self._length = 0

    def skip(self, number: int, offset: int, digest: str, header: int = 0) -> bool:
        """Move to an earlier position; return False if the content before it has changed."""
        left = offset
        while left and (chunk := self._stream.read(min(left, _CHUNK_BYTES))):
            self._hash.update(chunk)
            left -= len(chunk)
        self.number, self.offset = number, offset
        self.header = self.next_header = header
        return not left and self.digest == digest


def line_bytes(line: RawLine) -> bytes:
    """Return the bytes of a line, empty for a blank line. Raise :class:`InvalidLine`."""
    if line.raw is None:
        raise InvalidLine([Problem("", f"is longer than {MAX_LINE_BYTES // 1024**2} MiB")])
    return line.raw.removeprefix(_BOM).strip()  # files may be joined
