"""Parse shell commands: the programs they run and the files that git commands name. Pure."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator
from itertools import groupby, takewhile

from memoryhub.capture.observation import TOOLS

_SEPARATOR = re.compile(r"&&|\|\||[;|\n]")
_ALL_PATHS = frozenset({".", "./", ":/", "*"})


def main_program(command: str) -> str:
    """Return the first program of a command, with its subcommand for tools like npm or make."""
    words = _without_setup(command).split()
    return " ".join(words[:2]) if words and words[0] in TOOLS.programs_with_subcommand else "".join(words[:1])


def is_display_only(command: str) -> bool:
    """Whether all programs of a command only show or move existing content."""
    names = [_program_name(part) for part in _SEPARATOR.split(command.partition("<<")[0]) if part.strip()]
    return bool(names) and all(name in TOOLS.display_programs for name in names)


def is_status_check(command: str) -> bool:
    """Whether a command only shows a status (``git status``, ``ls``) or moves files.

    Commands that show text, like ``cat`` and ``grep``, are reading.
    """
    return (
        is_display_only(command) and _program_name(_SEPARATOR.split(command)[0]) not in TOOLS.reading_programs
    )


def committed_paths(command: str) -> tuple[str, ...]:
    """Return the files and folders that a ``git commit`` includes by name; empty if unknown or all."""
    named: list[str] = []
    for folder, words in _git_calls(command):
        if words[:1] == ["add"]:
            if any(word in _ALL_PATHS or word.startswith("-") for word in words[1:]):
                return ()
            named += (posixpath.join(folder, word) for word in words[1:])
        elif words[:1] == ["commit"]:
            if any(TOOLS.all_option.match(word) for word in words[1:]):
                return ()
            if "--" in words:
                named = [posixpath.join(folder, word) for word in words[words.index("--") + 1 :]]
            break
    return tuple(posixpath.normpath(path) for path in named)


def _git_calls(command: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the folder of each git command (``-C``) and the words after it."""
    for program, *words in _split_chain(command):
        folder = ""
        while words[:1] == ["-C"]:
            folder, words = posixpath.join(folder, *words[1:2]), words[2:]
        if program == "git":
            yield folder, words


def reverted_message(command: str, output: str) -> str:
    """Return the headline of the commit made by ``git revert``, which is only in the output; else empty."""
    for words in _split_chain(command):
        if words[:2] == ["git", "revert"] and (found := TOOLS.reverted.search(output)):
            return found[1].strip()
    return ""


def changed_paths(command: str, output: str) -> tuple[str, ...]:
    """Return the uncommitted files in the output of ``git status`` or ``git diff``.

    Untracked files are left out, because they may have nothing to do with the work.
    """
    for words in _split_chain(command):
        if words[:2] == ["git", "status"] or (
            words[:2] == ["git", "diff"] and _is_working_copy_diff(words[2:])
        ):
            paths = dict.fromkeys("".join(groups) for groups in TOOLS.changed_file.findall(output))
            return tuple(path for path in paths if not path.endswith("/") and "..." not in path)
    return ()


def _is_working_copy_diff(words: list[str]) -> bool:
    """Whether a diff shows the working copy: it names no revision before the files."""
    return all(word.startswith("-") for word in takewhile(lambda word: word not in ("--", "|"), words))


def removed_paths(command: str) -> tuple[str, ...]:
    """Return the files and folders that ``rm`` and ``git rm`` commands name."""
    return tuple(path.rstrip("/") for paths in _arguments_of(command, "rm") for path in paths)


def moved_paths(command: str) -> dict[str, str]:
    """Return the new paths of what ``mv`` and ``git mv`` commands move or rename one by one."""
    moved = {}
    for paths in _arguments_of(command, "mv"):
        if len(paths) == 2 and not any("*" in path for path in paths):
            source, target = paths[0].rstrip("/"), paths[1]
            name = source.rpartition("/")[2]
            is_folder = target.endswith("/") or ("." in name and "." not in target.rpartition("/")[2])
            moved[source] = posixpath.join(target, name) if is_folder else target
    return moved


def _arguments_of(command: str, program: str) -> Iterator[list[str]]:
    """Yield the paths that each call of a program names, also after ``git`` and after ``cd FOLDER``."""
    folder = ""
    for words in _split_chain(command):
        rest = words[1:] if words[0] == "git" else words
        if words[0] == "cd":
            folder = posixpath.join(folder, *words[1:2])
        if rest[:1] == [program] and "--cached" not in rest:  # which keeps the file
            named = (word.removeprefix("./") for word in rest[1:] if not word.startswith("-"))
            yield [posixpath.join(folder, word) for word in named]


def _split_chain(command: str) -> Iterator[list[str]]:
    """Yield the words of each command before a heredoc; nothing if a quote is not closed."""
    lexer = shlex.shlex(command.partition("<<")[0], posix=True, punctuation_chars=";&|\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        words = list(lexer)
    except ValueError:
        return
    for is_separator, group in groupby(words, lambda word: not word.strip(";&|\n")):
        if not is_separator:
            yield list(group)


def _without_setup(command: str) -> str:
    """Return the command without leading changes of folder and environment."""
    rest = re.sub(r"^\s*(?:(?:cd|export|source|\.)\s[^;&]*(?:&&|;)\s*)+", "", command)
    return TOOLS.command_prefix.sub("", rest.strip())


def _program_name(part: str) -> str:
    words = TOOLS.command_prefix.sub("", part.strip() + " ").split()
    return words[0].rsplit("/", 1)[-1] if words else "true"
