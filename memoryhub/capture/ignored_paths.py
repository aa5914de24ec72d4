"""Ignored files of a project: patterns in the syntax of ``.gitignore``, whose files are never stored."""

from __future__ import annotations

import posixpath
import re
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate, islice
from typing import Any

from pathspec import GitIgnoreSpec

from memoryhub.capture.observation import CUT, MAX_DEPTH, MAX_OUTPUT, Observation
from memoryhub.memories.errors import StoreError

MAX_PATTERNS_CHARS = 10_000
# To match a pattern takes exponentially longer with its wildcards, and agents send any text as a path.
MAX_WILDCARDS = 3  # ** in a pattern, and * in the names that have more than one
MAX_COSTLY_PATTERNS = 30  # with several wildcards between their ends
MAX_SECONDS = 1.0  # of processor time for the paths of one call
MAX_NAME_CHARS, MAX_FOLDERS = 255, 100  # of a path; a longer name is no file
MAX_PATH_CHARS = 1000
MAX_OPENED_CHARS = 4096  # Linux opens no longer path
MAX_VALUES = 500  # of the input of a tool
REMOVED = "[ignored path]"
# What may be a path in a prompt, a command or an output, if it has a dot or a slash (:func:`_may_be_path`).
# The patterns do not ask for these: to look for a dot from each letter of a long word takes quadratic time.
# A wide word may also contain brackets and commas, as in ``app/(admin)/[id].tsx``.
_WORD = re.compile(r"[^\s\"'`<>|;&(){}\[\]=,:*?!#]+")
_WIDE_WORD = re.compile(r"[^\s\"'`<>|;&]+")
_EDGES = "()[]{},:=*?!#."
_COMMAND_PART = re.compile(r"[\s;|&()<>]+")
_BRACES = re.compile(r"[{},]")
_LINE_NUMBER = re.compile(r"-\d+-.*")  # of a line around a match of grep: file.py-12-text
# Words in the keys of a tool's input whose values are paths even without a dot or a slash.
_PATH_WORD = re.compile(
    r"(?:path|file|dir|folder|glob)s?|director(?:y|ies)|(?:file|path|dir|folder)names?|filepaths?"
    r"|(?:root|base|work|sub|in|out|env|key|cert|log|config)(?:path|file|dir)s?",
    re.I,
)
_KEY_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # of notebook_path, filePath, FILE-PATH


@lru_cache(maxsize=64)
def _compile(patterns: str) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(patterns.splitlines())


@lru_cache(maxsize=64)
def _compile_spaced(patterns: str) -> re.Pattern[str] | None:
    """Return a pattern for paths with a space in a text, where a path otherwise ends at a space.

    It finds patterns without wildcards: a file by its name, a folder before a slash or a quotation mark.
    """
    found = []
    for line in patterns.splitlines():
        name = line.replace("\\ ", " ").strip()
        if " " not in name or name[0] in "#!" or re.search(r"[*?\[\\]", name):
            continue
        is_file = "." in name and not name.endswith("/")
        words = re.escape(name.strip("/")).replace(r"\ ", r"\\? ")
        found.append(words + (r"(?![\w-])" if is_file else r"(?=[/\"'`])"))
    return re.compile(rf"(?<![\w-])(?:{'|'.join(found)})(?:/[^\s\"'`]*)?") if found else None


def check_patterns(patterns: str) -> str:
    """Return the patterns without trailing spaces. Raise StoreError if they cannot be used."""
    if len(patterns) > MAX_PATTERNS_CHARS:
        raise StoreError(f"must have at most {MAX_PATTERNS_CHARS} characters", "ignored_paths")
    costly = 0
    for number, line in enumerate(patterns.splitlines(), start=1):
        try:
            GitIgnoreSpec.from_lines([line])
        except (ValueError, re.error):
            raise StoreError(f"line {number} is not a pattern of .gitignore", "ignored_paths") from None
        if line.startswith("#"):
            continue
        if _has_many_wildcards(line):
            most = f"{MAX_WILDCARDS} **, and {MAX_WILDCARDS} * in the names that have more than one"
            problem = f"line {number} has too many wildcards; use at most {most}"
            raise StoreError(problem, "ignored_paths")
        costly += _count_wildcards(line.removeprefix("**/").removesuffix("/**")) > 1
    if costly > MAX_COSTLY_PATTERNS:
        problem = f"has {costly} patterns with several wildcards; use at most {MAX_COSTLY_PATTERNS}"
        raise StoreError(problem, "ignored_paths")
    return patterns.strip("\n")


def _has_many_wildcards(pattern: str) -> bool:
    """Whether a pattern takes too long to match. A name with a single ``*`` is fast."""
    names = pattern.split("/")
    stars = [_count_wildcards(name) for name in names if name != "**"]
    return max(names.count("**"), sum(count for count in stars if count > 1)) > MAX_WILDCARDS


def _count_wildcards(pattern: str) -> int:
    return len(re.findall(r"\*+", pattern))


@dataclass
class _TimeLimit:
    """Processor time that is left for the paths of a call."""

    left: float = MAX_SECONDS

    @contextmanager
    def measure(self) -> Iterator[None]:
        start = time.thread_time()
        yield
        self.left -= time.thread_time() - start


@dataclass(frozen=True)
class IgnoredPaths:
    """The ignored files of a project. ``folders``: working folders, from which patterns are matched.

    Falsy without patterns. Made for each call: after :data:`MAX_SECONDS`, every path counts as ignored, so
    that a call can neither occupy a processor for long nor reveal a file by naming many others.
    """

    patterns: str = ""
    project: str = ""
    folders: tuple[str, ...] = ()
    _limit: _TimeLimit = field(default_factory=_TimeLimit, compare=False)

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def matches(self, path: str) -> bool:
        """Whether a file or folder is ignored. A pattern like ``secrets/`` matches folders alone.

        A long path is matched in parts; if it is too long to be opened, the first and the last part. A text
        with a long name is no path.
        """
        path = posixpath.normpath(path.removeprefix("file://").replace("\\", "/"))
        names = path.split("/")
        if max(map(len, names)) > MAX_NAME_CHARS:
            return False
        parts = list(_overlapping_parts(names))
        if len(path) > MAX_OPENED_CHARS:
            parts = [parts[0], parts[-1]]
        return any(self._matches_relative(one) for part in parts for one in self._relative_paths(part))

    def _matches_relative(self, path: str) -> bool:
        if self._limit.left <= 0:
            return True
        spec = _compile(self.patterns)
        with self._limit.measure():
            return bool(spec.match_file(path) or spec.match_file(f"{path}/"))

    def _relative_paths(self, path: str) -> set[str]:
        """Return the path relative to each working folder, and to the folder with the name of the project.

        A path outside of them is relative to the root.
        """
        found = set()
        folders = [posixpath.normpath(one.replace("\\", "/")).rstrip("/") for one in self.folders if one]
        for whole in {path if path.startswith("/") else f"{folder}/{path}" for folder in folders}:
            found |= {whole.removeprefix(f"{one}/") for one in folders if whole.startswith(f"{one}/")}
            _, is_inside, rest = whole.rpartition(f"/{self.project}/")
            found |= {rest} if is_inside and self.project else set()
        return found or {path.lstrip("/")}

    def names_any(self, *texts: str) -> bool:
        """Whether a text names an ignored file."""
        found = {name for text in texts for name in _WORD.findall(text) if _may_be_path(name)}
        found |= {_LINE_NUMBER.sub("", name) for name in found}
        found |= {name for text in texts for name in _wide_paths(text)}
        spaced = _compile_spaced(self.patterns)
        return any(map(self.matches, found)) or bool(spaced and any(map(spaced.search, texts)))

    def _names_in_command(self, command: str) -> bool:
        """Whether a command names an ignored file or folder, also by a name like ``id_rsa`` or a glob."""
        parts = {part.strip("\"'") for part in _COMMAND_PART.split(command)} | _shell_words(command)
        parts |= {part.partition("*")[0].rstrip("/") for part in parts if "*" in part}
        parts |= {piece for part in parts for piece in _BRACES.split(part)}
        return self.names_any(command) or any(map(self.matches, parts - {""}))

    def _names_in_input(self, given: Any) -> bool:
        """Whether a value of a tool's input is the path of an ignored file, whatever its key.

        A path that is too long to be matched at once may be one.
        """
        return any(
            _is_long_path(text) or self.matches(text)
            for key, text in _input_texts(given)
            if len(text) <= MAX_OPENED_CHARS and "\n" not in text
            if _is_path_key(key) or (len(text) <= MAX_PATH_CHARS and _may_be_path(text))
        )

    def redact(self, text: str) -> str:
        """Return the text with :data:`REMOVED` instead of the ignored paths in it."""
        if not self:
            return text
        if spaced := _compile_spaced(self.patterns):
            text = spaced.sub(REMOVED, text)
        return _WIDE_WORD.sub(lambda found: self._redact_word(found.group()), text)

    def _redact_word(self, word: str) -> str:
        if not _may_be_path(word) or not self.names_any(word):
            return word
        redacted = _WORD.sub(lambda found: REMOVED if self.names_any(found.group()) else found.group(), word)
        path = word.strip(_EDGES)
        return word.replace(path, REMOVED) if redacted == word else redacted

    def filter(self, seen: Observation, given: Any = None) -> Observation | None:
        """Return the parts of a tool call that may be stored; None if nothing may be stored.

        ``given``: the input of the tool. If the call also touches ignored files, or if its texts name one,
        its output and the text that it wrote may come from them: only its command, its question and the paths
        of other files remain. A command that names an ignored file may contain its content too, so nothing
        remains.
        """
        if not self:
            return seen
        # The name of an ignored file can be in the part that was cut, before the end.
        seen = replace(seen, output=seen.output.partition(CUT)[0]) if seen.kind == "run" else seen
        read, modified = self._keep(seen.files_read), self._keep(seen.files_modified)
        touched = len(seen.files_read) + len(seen.files_modified)
        is_named = self._names_in_input(given)
        if ((touched or is_named) and not read and not modified) or self._names_in_command(seen.command):
            return None
        texts = (
            seen.question,
            seen.output,
            seen.added,
            seen.removed,
            *(text for _, text in _input_texts(given)),
        )
        if not is_named and len(read) + len(modified) == touched and not self.names_any(*texts):
            return seen
        return replace(
            seen,
            files_read=read,
            files_modified=modified,
            question=self.redact(seen.question),
            output="",
            added="",
            removed="",
        )

    def _keep(self, paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(path for path in paths if not self.matches(path))


def _overlapping_parts(names: list[str]) -> Iterator[str]:
    """Yield a path in parts that are fast to match. Each begins in the middle of the one before."""
    start = end = 0
    while end < len(names):
        sizes = accumulate(len(name) + 1 for name in names[start : start + MAX_FOLDERS])
        end = start + sum(size <= MAX_PATH_CHARS for size in sizes)
        yield "/".join(names[start:end])
        start = (start + end) // 2


def _wide_paths(text: str) -> Iterator[str]:
    """Yield the words of a text that contain a slash and a bracket or comma: they may be one path."""
    for word in _WIDE_WORD.findall(text):
        path = word.strip(_EDGES)
        if "/" in path and not _WORD.fullmatch(path):
            yield path


def _may_be_path(text: str) -> bool:
    return "." in text or "/" in text or "\\" in text


def _is_long_path(text: str) -> bool:
    return len(text) > MAX_PATH_CHARS and " " not in text and ("/" in text or "\\" in text)


def _is_path_key(key: str) -> bool:
    """Whether a key is about files or folders, such as ``filePath``, but not ``profile``."""
    return any(map(_PATH_WORD.fullmatch, _KEY_WORD.findall(key)))


def _shell_words(command: str) -> set[str]:
    """Return the words of a command without quotation marks and backslashes, as a shell reads them."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return set(lexer)
    except ValueError:  # an open quotation mark
        return set()


def _input_texts(given: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts of the input of a tool, each with the key under which it is."""
    return islice(_nested_texts("", given, 0), MAX_VALUES)


def _nested_texts(key: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value[:MAX_OUTPUT]
    elif depth < MAX_DEPTH and isinstance(value, Mapping):
        for name, one in value.items():
            yield from _nested_texts(str(name), one, depth + 1)
    elif depth < MAX_DEPTH and isinstance(value, list | tuple):
        for one in value:
            yield from _nested_texts(key, one, depth + 1)
