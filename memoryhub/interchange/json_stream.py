"""One large JSON object, read item by item: its lists are never whole in memory."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from memoryhub.interchange.files import UnreadableFile

_CHUNK = 256 * 1024
MAX_ITEM = 16 * 1024 * 1024  # characters
_CUT = 3
_BLANKS = re.compile(r"[ \t\r\n]*")


def members(stream: IO[bytes], name: str) -> Iterator[tuple[str, Any]]:
    """The members by key: of a list each item, of anything else the value; :class:`UnreadableFile`."""
    text = _Text(stream, name)
    text.take("{")
    if text.next() == "}":
        text.take("}")
        text.end()
        return
    while True:
        key = text.value()
        if not isinstance(key, str):
            raise text.broken()
        text.take(":")
        if text.next() == "[":
            for item in _items(text):
                yield key, item
        else:
            yield key, text.value()
        if text.take(",}") == "}":
            text.end()
            return


def _items(text: _Text) -> Iterator[Any]:
    text.take("[")
    if text.next() == "]":
        text.take("]")
        return
    while True:
        yield text.value()
        if text.take(",]") == "]":
            return


class _Text:
    """What has been read and not yet used of a stream in UTF-8."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._name = stream, name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder()
        self._text, self._at, self._ended = "", 0, False

    def next(self) -> str:
        """The next character that is no blank, left where it is."""
        if not self._ahead():
            raise self.broken("ends too early")
        return self._text[self._at]

    def end(self) -> None:
        """Nothing but blanks may follow."""
        if self._ahead():
            raise self.broken("goes on behind its end")

    def _ahead(self) -> bool:
        """Pass over blanks; whether anything follows."""
        while True:
            if blanks := _BLANKS.match(self._text, self._at):
                self._at = blanks.end()
            if self._at < len(self._text):
                return True
            if not self._more(_CHUNK):
                return False

    def take(self, expected: str) -> str:
        """One of the expected characters."""
        found = self.next()
        if found not in expected:
            raise self.broken()
        self._at += 1
        return found

    def value(self) -> Any:
        self.next()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except RecursionError:
                raise self.broken("is nested too deeply") from None
            except ValueError:
                if not self._grow():
                    raise self.broken() from None
                continue
            # A number so near to the end of what was read may go on: of "1.5e+7" too "1.5e+" is there.
            if len(self._text) - end < _CUT and self._grow():
                continue
            self._at = end
            return value

    def _grow(self) -> bool:
        """Read on, each time as much again, so that a long item is not looked at for ever."""
        held = len(self._text) - self._at
        if held > MAX_ITEM:
            raise self.broken(f"holds an item of more than {MAX_ITEM // 1024**2} million characters")
        return self._more(max(_CHUNK, held))

    def _more(self, size: int) -> bool:
        if self._ended:
            return False
        raw = self._stream.read(size)
        self._ended = not raw
        try:
            fresh = self._decoder.decode(raw, final=self._ended)
        except UnicodeDecodeError:
            raise self.broken("is not UTF-8") from None
        if self._ended:
            return False
        self._text, self._at = self._text[self._at :] + fresh, 0
        return True

    def broken(self, why: str = "is not JSON") -> UnreadableFile:
        return UnreadableFile(f"{self._name}: {why}; export it again")
