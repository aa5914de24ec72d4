"""Files to read and to write: plain or gzip, by name or standard input; written whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import secrets
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from memoryhub.interchange.bounded import Bounded
from memoryhub.interchange.problems import UnreadableFile as UnreadableFile  # noqa: PLC0414

STDIN = STDOUT = "-"
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
_SQLITE = b"SQLi"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Source:
    """``stream`` gives the content, ``raw`` the bytes as they lie on the disk, ``size`` of them."""

    stream: IO[bytes]
    raw: io.BufferedReader
    size: int | None

    @property
    def progress(self) -> int:
        """How many bytes of the disk have been read; 0 for a pipe."""
        return self.raw.tell() if self.size is not None else 0


@contextlib.contextmanager
def reading(name: str) -> Iterator[Source]:
    """Open a file, or standard input for ``-``; gzip is seen by its first bytes. :class:`UnreadableFile`."""
    with contextlib.ExitStack() as stack:
        raw, size = _open(name, stack)
        try:
            yield Source(_content(name, raw, size, stack), raw, size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UnreadableFile(f"{name}: the gzip file is damaged or cut short: {error}") from None


def _open(name: str, stack: contextlib.ExitStack) -> tuple[io.BufferedReader, int | None]:
    if name == STDIN:
        return cast(io.BufferedReader, sys.stdin.buffer), None
    try:
        raw = stack.enter_context(open(name, "rb"))  # noqa: SIM115 the stack closes it
        raw.peek(1)
    except OSError as error:
        raise UnreadableFile(f"{name}: cannot be read: {error.strerror or error}") from None
    about = os.fstat(raw.fileno())
    return raw, about.st_size if stat.S_ISREG(about.st_mode) else None


def _content(name: str, raw: io.BufferedReader, size: int | None, stack: contextlib.ExitStack) -> IO[bytes]:
    start = raw.peek(4)[:4]
    if start.startswith(_UTF16):
        raise UnreadableFile(f"{name}: is UTF-16; turn it into UTF-8 first (iconv -f utf-16 -t utf-8)")
    if start == _SQLITE:
        raise UnreadableFile(f"{name}: is an SQLite file of a program that is not known here; export JSON")
    if start == _ZIP:
        raise UnreadableFile(f"{name}: is a zip archive; unpack it first (unzip)")
    if start.startswith(_GZIP):
        stream = cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=raw)))
        if size is None:  # a pipe, fed by who runs the command
            return stream
        return stack.enter_context(io.BufferedReader(Bounded(stream, size, name), 256 * 1024))
    return raw


def write_whole(path: Path, lines: Iterable[bytes]) -> None:
    """Write a file for its owner alone (mode 600): the old one stays until the new one is complete.

    A name that ends in ``.gz`` is compressed.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            if path.suffix == ".gz":
                with gzip.GzipFile(path.name, "wb", fileobj=file) as packed:
                    packed.writelines(lines)
            else:
                file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
