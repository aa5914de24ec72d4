"""Hash the lines of code that a tool call shows or changes, and choose those that a memory is about. Pure.

Only hashes are stored: a truncated hash of each line, and short hashes of its words, by which the lines of a
memory are found. Blank lines, braces, imports and lines of keywords alone are ignored.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from zlib import crc32

from memoryhub.capture.observation import Observation
from memoryhub.core.text import STOP_WORDS, stem
from memoryhub.security.secrets import REDACTED, UNCHECKED, redact

MAX_EVENT_LINES = 200  # of one call that are stored with its event
MAX_EVENT_CHARS = 20_000
MAX_FILE_CHARS = 400_000  # of a file that are compared; a longer file never counts as whole
MAX_LINE_CHARS = 500
MAX_WORDS_OF_LINE = 8
MAX_LINES, MAX_FILES = 40, 5  # of one memory: lines of each file, files
MIN_LINE_CHARS = 8  # without spaces
MIN_RELEVANCE = 0.3  # share of the highest relevance; less relevant lines are left out
MAX_RELEVANCE = 3.0  # more shared rare words do not make a line more relevant
MIN_SHARED_WORDS = 2  # of a memory and a line that was only read
HASH_CHARS = 10
_WORD = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\dA-Za-z_]{2,}")
_IMPORT = re.compile(r"(?:import|from|#include|use|using|require|package|export\s*\{|@import)\b")
_LINE_NUMBER = re.compile(r"^[^\S\n]*\d+(?:→|\t)", re.MULTILINE)
_NOISE = str.maketrans({"'": '"', "`": '"', " ": None, "\t": None, "\r": None, "\f": None, "\xa0": None})
_KEYWORDS = frozenset(
    "return none null true false else elif if try except finally catch throw raise end pass break continue"
    " self this def class function func fn const let var export default async await public private static"
    " void in not and or for while do new with as is int str string bool float assert print".split()
)


@dataclass(frozen=True)
class LineHash:
    """A line: its hash, and the hashes of its words."""

    hash: str
    words: tuple[str, ...] = ()

    def encode(self) -> str:
        return self.hash + "".join(self.words)

    @classmethod
    def decode(cls, text: str) -> LineHash:
        rest = text[HASH_CHARS:]
        return cls(text[:HASH_CHARS], tuple(rest[at : at + 4] for at in range(0, len(rest), 4)))


@dataclass(frozen=True)
class FileView:
    """The lines of one file that a tool call shows or changes.

    ``added``, ``removed``: lines that it changed; ``shown``: lines that the file has after it. ``is_whole``:
    ``shown`` is the whole file. ``is_written``: the call changed the file.
    """

    path: str
    shown: str = ""
    added: str = ""
    removed: str = ""
    is_whole: bool = False
    is_written: bool = False

    def as_digests(self, clean_text: str = "") -> dict[str, Any]:
        """Return the hashes that an event stores, without those of lines that contain secrets.

        ``clean_text``: a text without secrets; its parts need no check.
        """
        text = self.added if self.is_written else self.shown
        lines = islice(hash_lines(_without_secrets(text, clean_text)), MAX_EVENT_LINES)
        gone = islice(hash_lines(_without_secrets(self.removed, clean_text)), MAX_EVENT_LINES)
        return {
            "path": self.path,
            "written": self.is_written,
            "lines": [line.encode() for line in lines],
            "gone": [line.hash for line in gone],
        }


def view_file(seen: Observation, given: Any, response: Any) -> FileView | None:
    """Return what a call of a reading or writing tool says about its file; None for other calls."""
    paths = dict.fromkeys((*seen.files_modified, *seen.files_read))
    if (
        seen.kind not in ("read", "write")
        or seen.refused
        or len(paths) != 1
        or not isinstance(given, Mapping)
    ):
        return None
    [path] = paths
    response = response if isinstance(response, Mapping) else {"text": response}
    return _view_read(path, response) if seen.kind == "read" else _view_write(path, given, response)


def _view_read(path: str, response: Mapping[str, Any]) -> FileView | None:
    file = response.get("file")
    if isinstance(file, Mapping) and isinstance(content := file.get("content"), str):
        is_whole = file.get("startLine") == 1 and file.get("numLines") == file.get("totalLines")
        is_whole = is_whole and len(content) <= MAX_FILE_CHARS
        return FileView(path, _cut(content), is_whole=is_whole)
    text = next((value for value in response.values() if isinstance(value, str)), "")
    return FileView(path, _LINE_NUMBER.sub("", _cut(text))) if text else None


def _view_write(path: str, given: Mapping[str, Any], response: Mapping[str, Any]) -> FileView | None:
    """Return the lines that a call writes, from its patch if the tool reports one.

    The text of an edit may begin inside a line, and then has other hashes than the line.
    """
    kept, added, removed = _read_patch(response.get("structuredPatch"))
    removed = _without_copies(removed, _text(response, "originalFile"))
    content = _text(given, "content", "file_text")
    if content:
        new = added if added or removed else content
        is_whole = len(content) <= MAX_FILE_CHARS
        return FileView(path, _cut(content), _cut(new), removed, is_whole, is_written=True)
    if not added and not removed:
        before, after = _edited_texts(given, response)
        added, removed = _difference(after, before), _difference(before, after)
    if not added and not removed:
        return None
    return FileView(path, _cut(f"{kept}\n{added}"), _cut(added), _cut(removed), is_written=True)


def _read_patch(hunks: Any) -> tuple[str, str, str]:
    """Return the kept, added and removed lines of a patch as Claude Code reports it."""
    parts: dict[str, list[str]] = {" ": [], "+": [], "-": []}
    for hunk in hunks if isinstance(hunks, list) else ():
        lines = hunk.get("lines") if isinstance(hunk, Mapping) else None
        for line in lines if isinstance(lines, list) else ():
            if isinstance(line, str) and line[:1] in parts:
                parts[line[0]].append(line[1:])
    kept, added, removed = ("\n".join(lines) for lines in parts.values())
    return kept, _cut(added), _cut(removed)


def _edited_texts(given: Mapping[str, Any], response: Mapping[str, Any]) -> tuple[str, str]:
    """Return the texts before and after the edits: of the whole file if the tool reports it."""
    edits = given.get("edits")
    rows = [one for one in edits if isinstance(one, Mapping)] if isinstance(edits, list) else [given]
    pairs = [
        (
            _text(one, "old_string", "oldString", "old_str"),
            _text(one, "new_string", "newString", "new_str", "new_source"),
        )
        for one in rows
    ]
    original = _text(response, "originalFile")
    if not original or len(original) > MAX_FILE_CHARS:
        return "\n".join(old for old, _ in pairs), "\n".join(new for _, new in pairs)
    after = original
    for row, (old, new) in zip(rows, pairs, strict=True):
        if old:
            after = after.replace(old, new, -1 if row.get("replace_all") else 1)
    return original, after[:MAX_FILE_CHARS]


def _difference(text: str, other: str) -> str:
    """Return the lines of a text that the other does not have."""
    known = {line.strip() for line in other.splitlines()}
    return "\n".join(line for line in text.splitlines() if line.strip() not in known)


def _without_copies(removed: str, original: str) -> str:
    """Return the removed lines of which no other copy is left in the file."""
    lines = removed.splitlines()
    left = Counter(line.strip() for line in _cut(original).splitlines())
    left.subtract(line.strip() for line in lines)
    return "\n".join(line for line in lines if left[line.strip()] <= 0)


def _text(given: Mapping[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := given.get(name), str) and value), "")


def _cut(text: str) -> str:
    return text[:MAX_FILE_CHARS]


def _without_secrets(text: str, clean_text: str) -> str:
    """Return the beginning of a text, at whole lines, without the lines that contain secrets."""
    text = text if len(text) <= MAX_EVENT_CHARS else text[:MAX_EVENT_CHARS].rpartition("\n")[0]
    if text in clean_text:
        return text
    lines = redact(text).splitlines()
    return "\n".join(line for line in lines if REDACTED not in line and UNCHECKED not in line)


def hash_lines(text: str) -> Iterator[LineHash]:
    """Yield the hashes of the meaningful lines, each once, with those of their words."""
    known = set()
    for line in text.splitlines():
        if (found := _hash_line(line)) and found not in known:
            known.add(found)
            yield LineHash(found, _hash_words(line))


def line_hashes(text: str) -> set[str]:
    """Return the hashes of the meaningful lines, without their words."""
    return {found for line in text.splitlines() if (found := _hash_line(line))}


def _hash_line(line: str) -> str:
    """Return the hash of a line without spaces, with any quotes; empty for a line without meaning."""
    folded = line[:MAX_LINE_CHARS].translate(_NOISE).rstrip(",;")
    if len(folded) < MIN_LINE_CHARS or _IMPORT.match(line.lstrip()):
        return ""
    if all(word.lower() in _KEYWORDS for word in _WORD.findall(line[:MAX_LINE_CHARS])):
        return ""
    digest = hashlib.blake2b(folded.encode("utf-8", "replace"), digest_size=HASH_CHARS // 2)
    return digest.hexdigest()


def _hash_words(text: str, limit: int = MAX_WORDS_OF_LINE) -> tuple[str, ...]:
    """Return short hashes of the words of a text; parts of an identifier are words."""
    found: dict[str, None] = {}
    for word in _WORD.findall(text[: MAX_LINE_CHARS if limit == MAX_WORDS_OF_LINE else MAX_EVENT_CHARS]):
        folded = word.lower()
        if (len(folded) > 2 or folded.isdigit()) and folded not in _KEYWORDS and folded not in STOP_WORDS:
            found[f"{crc32(stem(folded).encode()) & 0xFFFF:04x}"] = None
            if len(found) == limit:
                break
    return tuple(found)


def lines_of_memory(
    text: str, digests: Iterable[Mapping[str, Any]], files: Sequence[str]
) -> dict[str, list[str]]:
    """Return the hashes of the lines that a memory is about, for each of the files that it cites.

    ``digests``: those of the events of its session, the oldest first; ``files``: changed files, or, for a
    memory that changed none, the files that it read.
    """
    current: dict[str, dict[str, LineHash]] = {}
    written: set[str] = set()
    for event in digests:
        path = event["path"]
        if path not in files or (path in written and not event["written"]):
            continue
        lines = current.setdefault(path, {})
        if event["written"] and path not in written:
            written.add(path)
            lines.clear()  # what was only read before the first change
        for gone in event["gone"]:
            lines.pop(gone, None)
        for line in map(LineHash.decode, event["lines"]):
            lines.setdefault(line.hash, line)
    return _most_relevant(text, current, written)


def _most_relevant(
    text: str, current: Mapping[str, Mapping[str, LineHash]], written: set[str]
) -> dict[str, list[str]]:
    """Return the lines that share the rarest words with a text.

    If no line shares a word, return all lines of the changed files.
    """
    own = set(_hash_words(text, limit=500))
    everything = [line for lines in current.values() for line in lines.values()]
    counts = Counter(word for line in everything for word in line.words if word in own)

    def relevance(line: LineHash) -> float:
        return min(sum(1 / counts[word] for word in line.words if word in own), MAX_RELEVANCE)

    best = max(map(relevance, everything), default=0.0)
    found = {}
    for path, lines in list(current.items())[-MAX_FILES:]:
        chosen = [line for line in lines.values() if best and relevance(line) >= MIN_RELEVANCE * best]
        if path not in written:
            chosen = [line for line in chosen if len(own.intersection(line.words)) >= MIN_SHARED_WORDS]
        elif not best:
            chosen = list(lines.values())
        if chosen:
            found[path] = [line.hash for line in sorted(chosen, key=relevance, reverse=True)[:MAX_LINES]]
    return found
