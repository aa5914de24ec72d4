"""Zip archives from strangers: their members by name, and no more than a sound archive can hold."""

from __future__ import annotations

import contextlib
import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from memoryhub.interchange.files import UnreadableFile

# JSON shrinks to a tenth or a twentieth; what grows beyond this was made to fill a memory.
_MOST_GROWTH = 300
_ALWAYS = 64 * 1024 * 1024
_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError)


class _Bounded(io.RawIOBase):
    """A stream that refuses to give more than ``most`` bytes."""

    def __init__(self, stream: IO[bytes], most: int, name: str) -> None:
        self._stream, self._left, self._name = stream, most, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        found = self._stream.read(len(buffer))
        self._left -= len(found)
        if self._left < 0:
            raise UnreadableFile(
                f"{self._name}: unpacks to more than {_MOST_GROWTH} times its size; is it what you exported?"
            )
        buffer[: len(found)] = found
        return len(found)


def member_names(path: Path) -> dict[str, str]:
    """The members of a zip archive by their last name, the first of each; empty when it is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            found: dict[str, str] = {}
            for name in archive.namelist():
                found.setdefault(name.rsplit("/", 1)[-1], name)
            return found
    except _ERRORS:
        return {}


@contextlib.contextmanager
def member(path: Path, name: str) -> Iterator[IO[bytes]]:
    """A member of an archive, unpacked as it is read, from gzip within too; :class:`UnreadableFile`."""
    most = max(path.stat().st_size * _MOST_GROWTH, _ALWAYS)
    with contextlib.ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(path))
            stream = stack.enter_context(archive.open(name))
            if name.endswith(".gz"):
                stream = cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=stream)))
            bounded = stack.enter_context(_Bounded(stream, most, path.name))
            yield stack.enter_context(io.BufferedReader(bounded, 256 * 1024))
        except _ERRORS as error:
            raise UnreadableFile(
                f"{path.name}: the archive is damaged, cut short or encrypted: {error}; export it again"
            ) from None
