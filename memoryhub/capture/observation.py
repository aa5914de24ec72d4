"""Parse a tool call into an observation: its kind, files, command and output. Pure.

The tools of Claude Code and LetsGo are known by name. Unknown tools are parsed by common parameter names.
Shell commands are parsed for the programs they run and the files that git commands name.
:mod:`memoryhub.capture.ignored_paths` removes what belongs to ignored files. Paths are relative to the folder
of the session.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any

from memoryhub.core.rule_files import PatternFile, Regex, Words, load_rule_file
from memoryhub.core.text import replace_surrogates

_DRIVE = re.compile(r"[A-Za-z]:[/\\]")  # at the start of an absolute path of Windows


def project_folder(cwd: str, session_cwd: str) -> str:
    """Return the folder that paths are relative to: that of the session if the working folder is inside it.

    A hidden folder inside it can be a worktree, which has paths of its own.
    """
    folder = session_cwd.rstrip("/\\")
    inside = cwd.replace("\\", "/").removeprefix(folder.replace("\\", "/"))
    is_inside = cwd.startswith(folder) and inside[:1] in ("", "/") and "/." not in inside
    return session_cwd if folder and is_inside else cwd or session_cwd


def working_subfolder(repository: object, cwd: str) -> str | None:
    """Return the path of the working folder in its repository, as a client reports it.

    ``repository``: the client's JSON object. None if it does not contain the path, or if the working folder
    does not end in it, for example because of a link.
    """
    given = repository.get("subfolder") if isinstance(repository, Mapping) else None
    if not isinstance(given, str) or not cwd:
        return None
    subfolder, folder = (text.replace("\\", "/").rstrip("/") for text in (given, cwd))
    is_end = not subfolder or (len(folder) > len(subfolder) + 1 and folder.endswith(f"/{subfolder}"))
    return subfolder if is_end else None


def relative_path(path: str, cwd: str, root: str = "") -> str:
    """Return a path relative to ``root`` (default: ``cwd``), with slashes and without ``.`` and ``..``.

    ``cwd``: the folder from which a relative path starts. A path outside of the root does not change.
    """
    if "://" in path or path.startswith("~"):
        return path
    if _DRIVE.match(path) or _DRIVE.match(cwd):
        path, cwd, root = (text.replace("\\", "/") for text in (path, cwd, root))
    folder, is_absolute = (root or cwd).rstrip("/"), path.startswith("/") or bool(_DRIVE.match(path))
    whole = posixpath.normpath(path if is_absolute else posixpath.join(cwd, path))
    if folder and whole.startswith(f"{folder}/"):
        return whole.removeprefix(f"{folder}/")
    return posixpath.normpath(path)


def with_relative_paths(text: str, root: str) -> str:
    """Return a text with paths relative to the folder in place of absolute ones."""
    folder = root.rstrip("/\\")
    if not folder or folder not in text:
        return text
    return re.sub(rf"(?<![\w.~/\\-]){re.escape(folder)}[/\\](?=[\w.])", "", text)


MAX_OUTPUT = 20_000  # characters of a call that are read
MAX_RUN_OUTPUT = 1_000_000  # of a command, of whose output both ends are read: errors are at the end
CUT = "\n…\n"  # between the ends
MAX_DEPTH = 20  # of nested objects and lists
MAX_FILES = 50  # of one call

_NEXT_COMMAND = frozenset({"&&", "||", ";", "|"})
_SCRIPT_OPTION = re.compile(r"-[a-z]*c")  # of a shell: the next word is a script
_MESSAGE_OPTION = re.compile(r"-[a-z]*m|--message")
# Sequences that set colours, move the cursor, or set a title or a link of a terminal; and the part of a line
# that a carriage return overwrites, such as a progress bar.
_TERMINAL_CODES = re.compile(
    r"""\x1b\[[0-?]*[ -/]*[@-~] | \x1b[\]P^_X][^\x07\x1b]*(?:\x07|\x1b\\) | \x1b[ -/]*[0-~]""", re.VERBOSE
)
_OVERWRITTEN = re.compile(r"^[^\n]*\r(?=[^\r\n])", re.MULTILINE)


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
    output = answers_text(given, response) if kind == "question" else _tool_output(kind, response)
    output = with_relative_paths(output[:MAX_OUTPUT], root or cwd)
    command = _command_text(given)
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
    found = [response.get(key) for key in TOOLS.exit_code_keys] if isinstance(response, Mapping) else []
    return next((code for code in found if isinstance(code, int)), 0)


def _tool_output(kind: str, response: Any) -> str:
    """Return the output as a terminal shows it; of a command with a long output, both ends."""
    text = output_text(response, MAX_RUN_OUTPUT if kind == "run" else MAX_OUTPUT)
    return _both_ends(_OVERWRITTEN.sub("", _TERMINAL_CODES.sub("", text)))


def _both_ends(text: str) -> str:
    """Return a text of at most :data:`MAX_OUTPUT` characters, without lines of its middle if it is longer."""
    if len(text) <= MAX_OUTPUT:
        return text
    half = MAX_OUTPUT // 2 - len(CUT)
    start, end = text[:half], text[-half:]
    # The rest of a line, or of a private key, would not be recognised as a secret.
    end = end.partition("\n")[2]
    if "-----END " in end.partition("-----BEGIN ")[0]:
        end = end.partition("-----END ")[2].partition("\n")[2]
    return f"{start}{CUT}{end}"


def output_text(response: Any, room: int = MAX_OUTPUT, depth: int = 0) -> str:
    """Return the readable part of a response of any shape, at most ``room`` characters."""
    if response is None or depth > MAX_DEPTH:
        return ""
    if isinstance(response, str):
        return clean_text(response[:room])
    if isinstance(response, Mapping):
        named = [key for key in TOOLS.output_keys if response.get(key)]
        # Each value is read once: twice at each level would be a million times at the last one.
        others = (
            value for key, value in response.items() if key not in named and not isinstance(value, bool)
        )
        text = _join_texts((response[key] for key in named), room, depth)
        return text or _join_texts(others, room, depth)
    if isinstance(response, list | tuple):
        return _join_texts(response, room, depth)
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


def _join_texts(parts: Iterable[Any], room: int, depth: int) -> str:
    """Join the texts of the parts, one per line, up to ``room`` characters."""
    found = []
    for part in parts:
        if text := output_text(part, room, depth + 1):
            found.append(text[:room])
            room -= len(text) + 1
        if room <= 0:
            break
    return "\n".join(found)


def clean_text(text: str) -> str:
    """Remove NUL, which columns cannot store, and replace lone surrogates."""
    return replace_surrogates(text.replace("\x00", ""))


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


def _command_text(given: Mapping[str, Any]) -> str:
    """Return the command of a tool call: a text, or a list such as ``["bash", "-lc", "make test"]``."""
    listed = given.get("command")
    if not isinstance(listed, list):
        return _first_text(given, "command", "cmd", "script")
    words = [word for word in listed if isinstance(word, str)]
    is_script = len(words) > 2 and _SCRIPT_OPTION.fullmatch(words[1])
    return clean_text((words[2] if is_script else shlex.join(words))[:MAX_OUTPUT])


def _edited_text(given: Mapping[str, Any], *keys: str) -> str:
    """Return the text that an edit adds or removes, for several edits all of it."""
    own = _first_text(given, *keys)
    edits = given.get("edits")
    if isinstance(edits, list):
        own = "\n".join(
            [own, *(_first_text(edit, *keys) for edit in edits if isinstance(edit, Mapping))]
        ).strip()
    return own[:MAX_OUTPUT]


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
