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

from memoryhub.interchange.bounded import Bounded
from memoryhub.interchange.files import UnreadableFile

_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError)


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
    with contextlib.ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(path))
            stream = stack.enter_context(archive.open(name))
            if name.endswith(".gz"):
                stream = cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=stream)))
            bounded = stack.enter_context(Bounded(stream, path.stat().st_size, path.name))
            yield stack.enter_context(io.BufferedReader(bounded, 256 * 1024))
        except _ERRORS as error:
            raise UnreadableFile(
                f"{path.name}: the archive is damaged, cut short or encrypted: {error}; export it again"
            ) from None
