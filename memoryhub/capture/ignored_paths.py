"""Files whose paths and contents are not stored: patterns in the syntax of ``.gitignore``."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from pathspec import GitIgnoreSpec

from memoryhub.capture.observation import Observation
from memoryhub.memories.errors import StoreError

MAX_PATTERNS_CHARS = 10_000
# To match a pattern takes exponentially longer with its wildcards, and agents send any text as a path.
MAX_WILDCARDS = 3  # in a name, and as ** in a pattern
MAX_NAME_CHARS, MAX_FOLDERS = 255, 100  # of a path; a longer name is no file
REMOVED = "[ignored path]"
# What may be a path in a prompt, a command or an output: it has a dot or a slash.
_PATH_IN_TEXT = re.compile(r"[^\s\"'`<>|;&(){}\[\]=,:*?!#]*[./\\][^\s\"'`<>|;&(){}\[\]=,:*?!#]*")
_COMMAND_PART = re.compile(r"[\s;|&()<>]+")
_LINE_NUMBER = re.compile(r"-\d+-.*")  # of a line around a match of grep: file.py-12-text


@lru_cache(maxsize=64)
def _compile(patterns: str) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(patterns.splitlines())


def check_patterns(patterns: str) -> str:
    """Return the patterns without trailing spaces. Raise StoreError if they cannot be used."""
    if len(patterns) > MAX_PATTERNS_CHARS:
        raise StoreError(f"must have at most {MAX_PATTERNS_CHARS} characters", "ignored_paths")
    for number, line in enumerate(patterns.splitlines(), start=1):
        try:
            GitIgnoreSpec.from_lines([line])
        except (ValueError, re.error):
            raise StoreError(f"line {number} is not a pattern of .gitignore", "ignored_paths") from None
        if not line.startswith("#") and _has_many_wildcards(line):
            problem = (
                f"line {number} has too many wildcards; use at most {MAX_WILDCARDS} in a name, and as many **"
            )
            raise StoreError(problem, "ignored_paths")
    return patterns.strip("\n")


def _has_many_wildcards(pattern: str) -> bool:
    names = [re.sub(r"\*{2,}", "**", name) for name in pattern.split("/")]
    return max(names.count("**"), *(len(re.findall(r"\*+", name)) for name in names)) > MAX_WILDCARDS


@dataclass(frozen=True)
class IgnoredPaths:
    """The ignored files of a project. ``folders``: working folders, from which patterns are matched.

    Falsy without patterns.
    """

    patterns: str = ""
    project: str = ""
    folders: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def matches(self, path: str) -> bool:
        """Whether a file or folder is ignored. A pattern like ``secrets/`` matches folders alone."""
        spec, paths = _compile(self.patterns), self._relative_paths(path.removeprefix("file://"))
        return any(spec.match_file(one) or spec.match_file(f"{one}/") for one in paths)

    def _relative_paths(self, path: str) -> set[str]:
        """Return the path relative to each folder, and to the folder that is called like the project.

        A path outside of them is relative to the root. Nothing for a text that cannot be a path.
        """
        path, found = posixpath.normpath(path.replace("\\", "/")), set()
        names = path.split("/")
        if max(map(len, names)) > MAX_NAME_CHARS:
            return set()
        path = "/".join(names[-MAX_FOLDERS:])
        for folder in filter(None, self.folders):
            folder = posixpath.normpath(folder.replace("\\", "/")).rstrip("/")
            whole = path if path.startswith("/") else f"{folder}/{path}"
            if whole.startswith(f"{folder}/"):
                found.add(whole.removeprefix(f"{folder}/"))
            _, is_inside, rest = whole.rpartition(f"/{self.project}/")
            found |= {rest} if is_inside and self.project else set()
        return found or {path.lstrip("/")}

    def names_any(self, *texts: str) -> bool:
        """Whether a text names an ignored file."""
        found = {name for text in texts for name in _PATH_IN_TEXT.findall(text)}
        found |= {_LINE_NUMBER.sub("", name) for name in found}
        return any(map(self.matches, found))

    def _names_in_command(self, command: str) -> bool:
        """Whether a command names an ignored file or folder, also by a name like ``id_rsa`` or a glob."""
        parts = {part.strip("\"'") for part in _COMMAND_PART.split(command)} - {""}
        parts |= {part.partition("*")[0].rstrip("/") for part in parts if "*" in part} - {""}
        return self.names_any(command) or any(map(self.matches, parts))

    def redact(self, text: str) -> str:
        """Return the text with :data:`REMOVED` instead of the ignored paths in it."""
        if not self:
            return text
        return _PATH_IN_TEXT.sub(
            lambda found: REMOVED if self.names_any(found.group()) else found.group(), text
        )

    def filter(self, seen: Observation) -> Observation | None:
        """Return what may be stored of a tool call; None if it is only about ignored files.

        Of a call that also touches other files, only their paths remain: its output and the text that it
        wrote may be of the ignored ones. The same holds for an output that names an ignored file. A command
        that names one may contain its content too, so nothing of it remains.
        """
        if not self:
            return seen
        read, modified = self._keep(seen.files_read), self._keep(seen.files_modified)
        touched = len(seen.files_read) + len(seen.files_modified)
        if (touched and not read and not modified) or self._names_in_command(seen.command):
            return None
        texts = (seen.question, seen.output, seen.added, seen.removed)
        if len(read) + len(modified) == touched and not self.names_any(*texts):
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
