"""Which programs a shell command runs, and whether they only show what is there. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import groupby, takewhile

# What these print was there before, written by others or by the machine.
_DISPLAY_PROGRAMS = frozenset(
    """git gh hg svn ls cat head tail less more sed awk grep rg ag find fd tree wc sort uniq cut diff cmp stat
    file cd pwd mkdir rmdir cp mv rm ln touch chmod chown export set unset source . which command type env
    printenv date ps df du free top uname id whoami true tee xargs tr jq yq column nl od xxd man help
    apt apt-get brew pip pip3 uv poetry npx pnpm yarn bundle gem""".split()
)
_READING_PROGRAMS = frozenset("cat head tail less more sed awk grep rg ag diff jq yq column nl man".split())
_COMMAND_PREFIX = re.compile(
    r"^(?:(?:\w+=(?:'[^']*'|\"[^\"]*\"|\S*)|time|sudo|exec|nohup|uv run|poetry run|timeout \S+"
    r"|python3? -m|npx(?:\s+-\S+)*|pnpm exec|yarn run|bundle exec)\s+)+"
)
_CHANGED_FILE = re.compile(
    r"^[ MARC][MD ] (?:\S+ -> )?\"?(\S+?)\"?$|^ (\S+) +\| +(?:\d+ [+-]*|Bin .*)$|^\+\+\+ b/(\S+)$",
    re.MULTILINE,
)
_REVERTED = re.compile(r'^\[\S.*? [0-9a-f]{7,40}\] (Revert ".+")\s*$', re.MULTILINE)
_SEPARATOR = re.compile(r"&&|\|\||[;|\n]")
_ALL_PATHS = frozenset({".", "./", ":/", "*"})
_ALL_OPTION = re.compile(r"--all$|-[b-zA-Z]*a[a-zA-Z]*$")
_PROGRAMS_WITH_SUBCOMMAND = frozenset(
    {"npm", "go", "cargo", "make", "python", "python3", "node", "sh", "bash", "manage.py"}
)


def main_program(command: str) -> str:
    """What a command runs first: the program, with its first argument where that is what tells."""
    words = _without_setup(command).split()
    return " ".join(words[:2]) if words and words[0] in _PROGRAMS_WITH_SUBCOMMAND else "".join(words[:1])


def is_display_only(command: str) -> bool:
    """Whether all programs of a command only show or move what is there."""
    names = [_program_name(part) for part in _SEPARATOR.split(command.partition("<<")[0]) if part.strip()]
    return bool(names) and all(name in _DISPLAY_PROGRAMS for name in names)


def is_status_check(command: str) -> bool:
    """Whether a command only shows where things stand (``git status``, ``ls``) or moves them about.

    One that shows a text, as ``cat`` and ``grep`` do, is reading.
    """
    return is_display_only(command) and _program_name(_SEPARATOR.split(command)[0]) not in _READING_PROGRAMS


def committed_paths(command: str) -> tuple[str, ...]:
    """The files and folders that a chain with ``git commit`` takes by name; empty: not told, or all."""
    named: list[str] = []
    for words in _split_chain(command.partition("<<")[0]):
        if words[:2] == ["git", "add"]:
            if any(word in _ALL_PATHS or word.startswith("-") for word in words[2:]):
                return ()
            named += words[2:]
        elif words[:2] == ["git", "commit"]:
            if any(_ALL_OPTION.match(word) for word in words[2:]):
                return ()
            named = words[words.index("--") + 1 :] if "--" in words else named
            break
    return tuple(path.removeprefix("./").rstrip("/") for path in named)


def reverted_message(command: str, output: str) -> str:
    """What git says of a commit that a chain with ``git revert`` took back; empty where there is none.

    Such a command holds no message: the headline is that of the commit itself, in the answer.
    """
    for words in _split_chain(command.partition("<<")[0]):
        if words[:2] == ["git", "revert"] and (found := _REVERTED.search(output)):
            return found[1].strip()
    return ""


def changed_paths(command: str, output: str) -> tuple[str, ...]:
    """The files that ``git status`` or ``git diff`` say are changed and not committed.

    Not those that git does not know: they may lie there for another reason.
    """
    for words in _split_chain(command.partition("<<")[0]):
        if words[:2] == ["git", "status"] or (
            words[:2] == ["git", "diff"] and _is_working_copy_diff(words[2:])
        ):
            found = (one or other or third for one, other, third in _CHANGED_FILE.findall(output))
            return tuple(
                path for path in dict.fromkeys(found) if not path.endswith("/") and "..." not in path
            )
    return ()


def _is_working_copy_diff(words: list[str]) -> bool:
    """Whether a diff is that of the working copy: no revision is named before the files."""
    return all(word.startswith("-") for word in takewhile(lambda word: word not in ("--", "|"), words))


def removed_paths(command: str) -> tuple[str, ...]:
    """The files and folders that a chain removes by name."""
    words = [found for found in _split_chain(command.partition("<<")[0]) if found[0] == "rm"]
    return tuple(one.removeprefix("./").rstrip("/") for found in words for one in found[1:] if one[:1] != "-")


def _split_chain(command: str) -> Iterator[list[str]]:
    """The words of each command of a chain; nothing where quotes do not close."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";&|\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        words = list(lexer)
    except ValueError:
        return
    for parts, found in groupby(words, lambda word: not word.strip(";&|\n")):
        if not parts:
            yield list(found)


def _without_setup(command: str) -> str:
    """The command without what goes before it: changes of folder and environment."""
    rest = re.sub(r"^\s*(?:(?:cd|export|source|\.)\s[^;&]*(?:&&|;)\s*)+", "", command)
    return _COMMAND_PREFIX.sub("", rest.strip())


def _program_name(part: str) -> str:
    words = _COMMAND_PREFIX.sub("", part.strip() + " ").split()
    return words[0].rsplit("/", 1)[-1] if words else "true"
