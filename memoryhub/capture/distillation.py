"""From a tool call to what is worth telling a colleague: a candidate, or the reason why there is none. Pure.

Reading and listing are routine. What speaks is what people wrote on purpose: commit messages, decisions put
into a document, comments that give a reason, answers that were asked for; and what happened: a failure that
was mended. A comment and a repair are noted first, for the commit that follows mostly tells them better; what
it leaves out, and what no commit follows, is told by itself.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from memoryhub.capture.classification import (
    declared_type,
    detect_type,
    is_routine_commit,
    strip_generated_lines,
)
from memoryhub.capture.observation import Observation
from memoryhub.capture.shell_commands import (
    changed_paths,
    committed_paths,
    is_display_only,
    main_program,
    removed_paths,
    reverted_message,
)
from memoryhub.capture.statements import (
    MAX_CHARS,
    extract_claims,
    extract_findings,
    extract_paragraphs,
    extract_reason_comments,
    gives_reason,
    last_error,
)
from memoryhub.core.text import shorten, terms
from memoryhub.core.vocabulary import MemoryType
from memoryhub.security.secrets import may_contain_secrets
from memoryhub.security.secrets.secret_files import is_secret_file

_CONTEXT_FENCE = re.compile(r"<\s*(?P<end>/?)\s*memory-context\b[^<>]*>?", re.IGNORECASE)
_DECISION_FILE = re.compile(
    r"(?:^|/)(?:adr|adrs|decisions?|rfcs?|architecture|design)(?:/|[-_.\w]*\.(?:md|rst|txt)$)"
    r"|(?:^|/)(?:CLAUDE|AGENTS|CONTRIBUTING|NOTES|GOTCHAS)[\w.]*\.md$",
    re.IGNORECASE,
)
_DOCUMENT_FILE = re.compile(r"\.(?:md|markdown|rst|txt|adoc|html?)$", re.IGNORECASE)
_EMPTY_MESSAGE = re.compile(
    r"^(?:wip|tmp|temp|save|checkpoint|update|(?:fixup|squash)!.*|merge (?:branch|remote|pull request)\b.*"
    r"|\W*)$",
    re.IGNORECASE,
)
# What git says of a commit that was made, whatever failed after it in the same chain of commands.
_COMMITTED = re.compile(r"^\[\S.*? [0-9a-f]{7,40}\] ", re.MULTILINE)
MAX_NOTE_AGE = 40  # tool calls after which what was noted is told without a commit
MAX_NOTES = 20
MIN_DOCUMENT_TERMS = 8  # of a document's new words: as few as that must be a rule or a reason
MAX_FILES_READ = 5  # files read that are told with a memory: the latest
COVERED_SHARE = 0.6  # share of a note's terms in a commit message that says it too


@dataclass(frozen=True)
class Candidate:
    """What might become a memory: its text, where it comes from, and the files it is about."""

    text: str
    source: str
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    resolves: bool = False


@dataclass
class Note:
    """What is not told yet; ``at``: the tool call of the session that it comes from."""

    text: str
    source: str
    modified: list[str]
    at: int
    read: list[str] = field(default_factory=list)

    def candidate(self) -> Candidate:
        return Candidate(
            self.text, self.source, tuple(self.read), tuple(self.modified), self.source == "recovery"
        )


@dataclass
class OpenWork:
    """What is open in a session: what was touched since the last commit, the failure worked on, the notes.

    ``calls``: tool calls so far; ``committed``: the files of the last commit, should it be amended.
    """

    read: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    failure: str = ""
    failed_command: str = ""
    notes: list[Note] = field(default_factory=list)
    committed: list[str] = field(default_factory=list)
    calls: int = 0

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> OpenWork:
        return cls(
            list(state.get("read", ())),
            list(state.get("modified", ())),
            str(state.get("failure", "")),
            str(state.get("failed_command", "")),
            [Note(**one) for one in state.get("notes", ())],
            list(state.get("committed", ())),
            int(state.get("calls", 0)),
        )

    def as_state(self) -> dict[str, Any]:
        return asdict(self)

    def touch(self, seen: Observation) -> None:
        """Add the files of a tool call, each once, the latest 50; a place that was searched is not read.

        What is removed again was a draft.
        """
        self.calls += 1
        if seen.kind == "read" and not seen.refused:
            read = [path for path in seen.files_read if not is_secret_file(path)]
            self.read = list(dict.fromkeys([*self.read, *read]))[-50:]
        changed = [path for path in changed_paths(seen.command, seen.output) if not is_secret_file(path)]
        self.modified = list(dict.fromkeys([*self.modified, *seen.files_modified, *changed]))[-50:]
        if seen.kind == "run" and "rm " in seen.command:
            gone = removed_paths(seen.command)
            self.modified = [path for path in self.modified if not _is_below(path, gone)]

    def solved(self) -> str:
        """The failure being worked on, or the one that was mended last and not told yet."""
        mended = (note.text for note in reversed(self.notes) if note.source == "recovery")
        return self.failure or next(mended, "").partition("\n")[0].removeprefix("Fixed: ")

    def due(self, all_of_them: bool = False) -> list[Candidate]:
        """What no commit told in time, or (at the end of a session) all that is left; it is noted no more."""
        ripe = [note for note in self.notes if all_of_them or self.calls - note.at >= MAX_NOTE_AGE]
        self.notes = [note for note in self.notes if note not in ripe]
        return [note.candidate() for note in ripe]


def strip_injected_context(text: str) -> str:
    """The text without memory-context blocks: what was injected is never captured back.

    A block ends where as many were closed as opened, so that one inside another hides nothing; one that is
    not closed goes on to the end.
    """
    kept, depth, at = [], 0, 0
    for fence in _CONTEXT_FENCE.finditer(text):
        if not depth:
            kept.append(text[at : fence.start()])
        depth = max(depth - 1, 0) if fence["end"] else depth + 1
        at = fence.end()
    return "".join(kept) + (text[at:] if not depth else "")


def contains_injected_context(text: str) -> bool:
    """Whether a memory-context block stands in the text."""
    return bool(_CONTEXT_FENCE.search(text))


def distill(seen: Observation, work: OpenWork) -> Candidate | str:
    """The candidate in a tool call, or the short reason why it is skipped. Updates what is open."""
    work.touch(seen)
    if seen.kind in ("read", "search") or (seen.refused and seen.kind != "run"):
        return "routine"
    happened = not seen.refused or bool(_COMMITTED.search(seen.output))
    if happened and (message := strip_injected_context(seen.commit_message).strip()):
        return _distill_commit(seen, message, work)
    if happened and (message := reverted_message(seen.command, seen.output)):
        return Candidate(message[:MAX_CHARS], "commit")  # what is being worked on is no part of it
    if seen.kind == "run":
        return _distill_command(seen, work)
    if seen.kind == "write":
        return _distill_edit(seen, work)
    return _distill_answer(seen)


def _distill_commit(seen: Observation, message: str, work: OpenWork) -> Candidate | str:
    """The message, with the failure that it mends. A commit of some files leaves the others open."""
    if _EMPTY_MESSAGE.match(message):
        work.committed = []
        return "routine"
    mends = _may_be_fix(message)
    taken, left = _split_by_commit(work.modified, committed_paths(seen.command))
    solved = work.solved() if mends else ""
    text = message if not solved or solved in message else f"{message}\n\nProblem: {solved}"
    files = list(dict.fromkeys([*(work.committed if "--amend" in seen.command else ()), *taken]))
    read = tuple(work.read[-MAX_FILES_READ:])
    work.modified, work.committed = left, files
    if mends or not left:
        work.read, work.failure, work.failed_command = [], "", ""
        work.notes = [note for note in work.notes if note.source == "comment"]
    work.notes = [
        note if note.source != "comment" or set(note.modified) & set(left) else _mark_due(note)
        for note in work.notes
        if note.source != "comment" or not _is_covered(note.text, message)
    ]
    if _is_trivial_commit(message):
        return "routine"
    return Candidate(text[:MAX_CHARS], "commit", read, tuple(files), bool(solved))


def _split_by_commit(modified: list[str], named: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The files that a commit takes, and those that stay open; all of them where it names none."""
    taken = [path for path in modified if _is_below(path, named)]
    return (taken, [path for path in modified if path not in taken]) if named else (modified, [])


def _is_below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _is_trivial_commit(message: str) -> bool:
    """Upkeep (a test, a format, a version, a document) and no reason: the history of the code has it."""
    head, _, body = message.strip().partition("\n")
    return (
        is_routine_commit(head)
        and not gives_reason(head)
        and not extract_paragraphs(strip_generated_lines(body))
    )


def _may_be_fix(message: str) -> bool:
    """Whether a commit that follows a failure may be its repair; a new test fails first, too."""
    if declared := declared_type(message):
        return declared is MemoryType.BUGFIX
    return detect_type(message) in (MemoryType.BUGFIX, MemoryType.CHANGE, MemoryType.DISCOVERY)


def _mark_due(note: Note) -> Note:
    """The commit came and did not tell it: it is told now."""
    note.at = -MAX_NOTE_AGE
    return note


def _is_covered(note: str, message: str) -> bool:
    own = terms(note)
    return len(own & terms(message)) >= COVERED_SHARE * len(own)


def _distill_command(seen: Observation, work: OpenWork) -> Candidate | str:
    if is_display_only(seen.command):
        return "routine"
    if seen.failed:
        if error := last_error(seen.output):
            work.failure, work.failed_command = error, seen.command
            return "failure noted"
        if seen.refused:
            return "routine"
    elif work.failure and _passes_now(seen, work.failed_command):
        return _note_fix(seen, work)
    if seen.is_test_run:
        return "routine"
    said = extract_claims(strip_injected_context(seen.output))
    return Candidate(said, "output", (), ()) if said else "routine"


def _passes_now(seen: Observation, failed: str) -> bool:
    """Whether what failed is all right now; a compiler says so by silence, to the very same command."""
    silent = not seen.output.strip() and not seen.refused and seen.command.strip() == failed.strip()
    return silent or (seen.passed and _same_check(seen.command, failed))


def _note_fix(seen: Observation, work: OpenWork) -> str:
    files = ", ".join(work.modified[-5:]) or "no file of this session"
    text = f"Fixed: {work.failure}\n\n`{shorten(seen.command, 200)}` passes again after changes in {files}."
    work.failure = work.failed_command = ""
    return _add_note(work, text, "recovery", work.modified, work.read[-MAX_FILES_READ:]) or "repair noted"


def _distill_edit(seen: Observation, work: OpenWork) -> Candidate | str:
    if any(_DECISION_FILE.search(path) for path in seen.files_modified):
        said = extract_paragraphs(_new_lines(strip_injected_context(seen.added), seen.removed))
        if len(terms(said)) < MIN_DOCUMENT_TERMS and not gives_reason(said):
            return "routine"
        return Candidate(said, "document", (), seen.files_modified) if said else "routine"
    if any(_DOCUMENT_FILE.search(path) for path in seen.files_modified):
        return "routine"
    outcome = "routine"
    for said in extract_reason_comments(strip_injected_context(seen.added), seen.removed):
        outcome = _add_note(work, said, "comment", list(seen.files_modified)) or "reason noted"
    if outcome == "routine" and (told := extract_claims(strip_injected_context(seen.output))):
        return Candidate(told, "output", (), seen.files_modified)
    return outcome


def _add_note(
    work: OpenWork, text: str, source: str, modified: list[str], read: list[str] | None = None
) -> str:
    """Keep for later; the reason when that may not be."""
    if may_contain_secrets(text):
        return "secret"
    if all(note.text != text for note in work.notes):
        work.notes = [*work.notes, Note(text, source, list(modified), work.calls, list(read or ()))][
            -MAX_NOTES:
        ]
    return ""


def _new_lines(added: str, removed: str) -> str:
    old = set(removed.splitlines())
    return "\n".join(line for line in added.splitlines() if line not in old or not line.strip())


def _distill_answer(seen: Observation) -> Candidate | str:
    """An answer that only gives a definition or a list is looked up again when it is needed."""
    said = extract_findings(strip_injected_context(seen.output))
    if not said:
        return "routine"
    asked = shorten(seen.question, 200)
    # A page, or a helper sent to look, tells what it found; what another tool tells may be work on this.
    source = "answer" if seen.kind == "ask" else "output"
    return Candidate(f"{said}\n\nAsked: {asked}" if asked else said, source, (), ())


def _same_check(command: str, failed: str) -> bool:
    """Whether two commands run the same checker: the program, whatever its arguments."""
    return main_program(command) == main_program(failed)
