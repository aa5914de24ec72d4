"""What is packed must not fill the memory or the day when it is unpacked."""

from __future__ import annotations

import io
from typing import IO

from memoryhub.interchange.problems import UnreadableFile

# JSON shrinks to a tenth or a twentieth; what grows beyond this was made to fill a memory.
_MOST_GROWTH = 300
_ALWAYS = 64 * 1024 * 1024


class Bounded(io.RawIOBase):
    """The content of a packed file of ``size`` bytes; :class:`UnreadableFile` when it is absurdly much."""

    def __init__(self, stream: IO[bytes], size: int, name: str) -> None:
        self._stream, self._left, self._name = stream, max(size * _MOST_GROWTH, _ALWAYS), name

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
