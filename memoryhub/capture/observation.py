"""Parse a tool call into an observation: its kind, files, command and output. Pure.

The tools of Claude Code and LetsGo are known by name. Unknown tools are parsed by common parameter names.
The paths and contents of ignored files (patterns in the syntax of ``.gitignore``) are removed from it.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from pathspec import GitIgnoreSpec

from memoryhub.capture.paths import relative_path, with_relative_paths
from memoryhub.core.rule_files import PatternFile, Regex, Words, load_rule_file
from memoryhub.memories.errors import StoreError

MAX_OUTPUT = 20_000  # characters of a call that are read
MAX_DEPTH = 20  # of nested objects and lists
MAX_FILES = 50  # of one call

_NEXT_COMMAND = frozenset({"&&", "||", ";", "|"})
_MESSAGE_OPTION = re.compile(r"-[a-z]*m|--message")


class ToolRules(PatternFile):
    kinds: dict[str, Words]
    path_keys: tuple[str, ...]
    output_keys: tuple[str, ...]
    error_keys: tuple[str, ...]
    exit_code_keys: tuple[str, ...]
    memory_tools: Words
    planning_tools: Words
    display_programs: Words
    reading_programs: Words
    programs_with_subcommand: Words
    failed: Regex
    passed: Regex
    answered: Regex
    course: Regex
    agreement: Regex
    patched_file: Regex
    test_command: Regex
    commit_command: Regex
    help_command: Regex
    install_command: Regex
    remedy_command: Regex
    heredoc: Regex
    trailer: Regex
    command_prefix: Regex
    changed_file: Regex
    reverted: Regex
    all_option: Regex


TOOLS = load_rule_file(Path(__file__).with_name("tools.toml"), ToolRules)


@dataclass(frozen=True)
class Observation:
    """One tool call.

    ``kind``: read, write, run, search, ask, question or other. The output of a question contains the user's
    answers. ``failed``, ``passed``: the outcome by the output.
    ``refused``: the tool reported that it did nothing. The files of a refused write count as read.
    """

    tool: str
    kind: str
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    command: str = ""
    question: str = ""
    output: str = ""
    added: str = ""
    removed: str = ""
    failed: bool = False
    refused: bool = False
    passed: bool = False

    @property
    def is_test_run(self) -> bool:
        return bool(TOOLS.test_command.search(self.command))

    @property
    def commit_message(self) -> str:
        return parse_commit_message(self.command)

    @property
    def text(self) -> str:
        """The text that keywords and boundaries are computed from."""
        parts = (self.question, self.command, self.added, self.output)
        return "\n".join(part for part in parts if part)[:MAX_OUTPUT]


def observe(tool: str, given: Any, response: Any, cwd: str = "", root: str = "") -> Observation:
    """Parse a tool call, which may be any JSON. Paths become relative to ``root`` (default: ``cwd``).

    So do those in the output, because the same failure has other paths on another machine.
    """
    given = given if isinstance(given, Mapping) else {"input": given}
    kind = tool_kind(tool)
    paths = tuple(dict.fromkeys(relative_path(path, cwd, root) for path in _paths(given)))
    output = answers_text(given, response) if kind == "question" else output_text(response)
    output = with_relative_paths(output[:MAX_OUTPUT], root or cwd)
    command = _first_text(given, "command", "cmd", "script")
    refused = isinstance(response, Mapping) and any(map(response.get, TOOLS.error_keys))
    wrote = kind == "write" and not refused
    failed = _exit_code(response) != 0 or bool(TOOLS.failed.search(output))
    return Observation(
        tool=tool,
        kind=kind,
        files_read=paths if kind in ("read", "search") or (kind == "write" and refused) else (),
        files_modified=paths if wrote else (),
        command=command if kind == "run" else "",
        question=_first_text(given, "prompt", "query", "url", "pattern", "description")
        if kind != "write"
        else "",
        # Editors return objects that repeat the file; only plain text is of interest.
        output=output if not wrote or isinstance(response, str) else "",
        added=""
        if refused
        else _edited_text(given, "new_string", "newString", "content", "new_str", "file_text", "new_source"),
        removed=_edited_text(given, "old_string", "oldString", "old_str"),
        failed=refused or (kind == "run" and failed),
        refused=refused,
        passed=kind == "run" and not refused and not failed and bool(TOOLS.passed.search(output)),
    )


def tool_kind(tool: str) -> str:
    """Return the kind of a tool by its name; of MCP tools (``mcp__server__tool``) by the last part."""
    name = tool.rsplit("__", 1)[-1].lower()
    return next((kind for kind, tools in TOOLS.kinds.items() if name in tools), "other")


def _exit_code(response: Any) -> int:
    """Return the exit code that a response names, else 0."""
    found = [response.get(key) for key in TOOLS.exit_code_keys] if isinstance(response, Mapping) else []
    return next((code for code in found if isinstance(code, int)), 0)


def output_text(response: Any, depth: int = 0) -> str:
    """Return the readable part of a response of any shape, at most :data:`MAX_OUTPUT` characters."""
    if response is None or depth > MAX_DEPTH:
        return ""
    if isinstance(response, str):
        return clean_text(response[:MAX_OUTPUT])
    if isinstance(response, Mapping):
        named = _join_texts((response[key] for key in TOOLS.output_keys if response.get(key)), depth)
        return named or _join_texts(
            (value for value in response.values() if not isinstance(value, bool)), depth
        )
    if isinstance(response, list | tuple):
        return _join_texts(response, depth)
    return str(response)


def answers_text(given: Mapping[str, Any], response: Any) -> str:
    """Return the questions that a user answered, each with the answer and the options not chosen."""
    asked = [one for one in _list(given.get("questions")) if isinstance(one, Mapping)] or [given]
    options = {_first_text(one, "question"): _list(one.get("options")) for one in asked}
    lines = []
    for question, answer in _answers(given, response, next(iter(options))):
        known = [one for one in options.get(question, ()) if isinstance(one, Mapping)]
        course = TOOLS.course.search(question) and TOOLS.agreement.search(answer)
        if question and answer and not course:
            lines.append(_describe_answer(question, answer, known))
    return "\n".join(lines)


def _answers(given: Mapping[str, Any], response: Any, question: str) -> list[tuple[str, str]]:
    """Return pairs of question and answer. ``question``: the one that an answer without question is to."""
    for source in (response, given):
        found = source.get("answers") if isinstance(source, Mapping) else None
        if isinstance(found, Mapping):
            return [
                (clean_text(str(key)), output_text(value).replace("\n", ", ")) for key, value in found.items()
            ]
    text = output_text(response)
    pairs = [(found["question"], found["answer"]) for found in TOOLS.answered.finditer(text)]
    return pairs or [(question, text.strip())]


def _describe_answer(question: str, answer: str, options: Sequence[Mapping[str, Any]]) -> str:
    """Return the answer and its question, the description of its option, and the options not chosen."""
    labels = [_first_text(option, "label") for option in options]
    chosen = [option for option, label in zip(options, labels, strict=True) if label and label in answer]
    reasons = "; ".join(filter(None, (_first_text(option, "description") for option in chosen)))
    rejected = ", ".join(label for label in labels if label and label not in answer)
    text = f"Decision of the user: {answer.rstrip('.')} ({question.strip()})"
    text += f"\nThe chosen option reads: {reasons}." if reasons else ""
    return f"{text}\nNot chosen: {rejected}." if rejected else text


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _join_texts(parts: Iterable[Any], depth: int) -> str:
    """Join the texts of the parts, one per line, up to :data:`MAX_OUTPUT` characters."""
    found, room = [], MAX_OUTPUT
    for part in parts:
        if text := output_text(part, depth + 1):
            found.append(text[:room])
            room -= len(text) + 1
        if room <= 0:
            break
    return "\n".join(found)


def clean_text(text: str) -> str:
    """Remove NUL, which columns cannot store, and replace lone surrogates."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def parse_commit_message(command: str) -> str:
    """Return the message of a ``git commit`` command, from ``-m`` options or a here-document, or "".

    Several ``-m`` options are paragraphs. Trailers like ``Co-authored-by:`` are removed.
    """
    found = TOOLS.commit_command.search(command)
    if not found:
        return ""
    rest = command[found.end() :]
    if heredoc := TOOLS.heredoc.match(rest):
        return TOOLS.trailer.sub("", heredoc.group(2)).strip()
    try:
        parts = list(takewhile(lambda part: part not in _NEXT_COMMAND, shlex.split(rest)))
    except ValueError:
        return ""
    messages = [parts[n + 1] for n, part in enumerate(parts[:-1]) if _MESSAGE_OPTION.fullmatch(part)]
    messages += [part.split("=", 1)[1] for part in parts if part.startswith("--message=")]
    return TOOLS.trailer.sub("", "\n\n".join(messages)).strip()


def _paths(given: Mapping[str, Any]) -> list[str]:
    found = [value for key in TOOLS.path_keys if isinstance(value := given.get(key), str) and value]
    for key in ("patch", "input", "diff", "command"):
        if isinstance(value := given.get(key), str):
            found += ["".join(groups) for groups in TOOLS.patched_file.findall(value[: 10 * MAX_OUTPUT])]
    return [clean_text(path.strip()) for path in found if path.strip() and len(path) <= 1000][:MAX_FILES]


def file_names(given: Any) -> list[str]:
    """Return the names, without folders, of the files in the input of a tool."""
    paths = _paths(given) if isinstance(given, Mapping) else []
    return list(dict.fromkeys(posixpath.basename(relative_path(path, "")) for path in paths))


def _first_text(given: Mapping[str, Any], *keys: str) -> str:
    found = next((value for key in keys if isinstance(value := given.get(key), str) and value), "")
    return clean_text(found[:MAX_OUTPUT])


def _edited_text(given: Mapping[str, Any], *keys: str) -> str:
    """Return the text that an edit adds or removes, for several edits all of it."""
    own = _first_text(given, *keys)
    edits = given.get("edits")
    if isinstance(edits, list):
        own = "\n".join(
            [own, *(_first_text(edit, *keys) for edit in edits if isinstance(edit, Mapping))]
        ).strip()
    return own[:MAX_OUTPUT]


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
        """Return the path relative to each working folder, and to the folder with the name of the project.

        A path outside of them is relative to the root. Empty for a text that cannot be a path.
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
        """Return the parts of a tool call that may be stored; None if nothing may be stored.

        If the call also touches ignored files, or if its texts name one, its output and the text that it
        wrote may come from them: only its command, its question and the paths of other files remain. A
        command that names an ignored file may contain its content too, so nothing remains.
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
