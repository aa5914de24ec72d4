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

from memoryhub.capture.classification import declared_type, is_upkeep, own_words, type_of
from memoryhub.capture.observation import Observation
from memoryhub.capture.shell_commands import (
    changed_paths,
    committed_paths,
    is_display,
    program,
    removed_paths,
    reverted_message,
)
from memoryhub.capture.statements import (
    MAX_CHARS,
    error_of,
    findings,
    gives_reason,
    paragraphs,
    reasons,
    told_reasons,
)
from memoryhub.core.text import shorten, terms
from memoryhub.core.vocabulary import MemoryType
from memoryhub.security.secrets import may_contain_secrets
from memoryhub.security.secrets.files import is_secret_file

_FENCE = re.compile(r"<\s*(?P<end>/?)\s*memory-context\b[^<>]*>?", re.IGNORECASE)
_DECISIONS = re.compile(
    r"(?:^|/)(?:adr|adrs|decisions?|rfcs?|architecture|design)(?:/|[-_.\w]*\.(?:md|rst|txt)$)"
    r"|(?:^|/)(?:CLAUDE|AGENTS|CONTRIBUTING|NOTES|GOTCHAS)[\w.]*\.md$",
    re.IGNORECASE,
)
_DOCUMENT = re.compile(r"\.(?:md|markdown|rst|txt|adoc|html?)$", re.IGNORECASE)
_NO_MESSAGE = re.compile(
    r"^(?:wip|tmp|temp|save|checkpoint|update|(?:fixup|squash)!.*|merge (?:branch|remote|pull request)\b.*"
    r"|\W*)$",
    re.IGNORECASE,
)
# What git says of a commit that was made, whatever failed after it in the same chain of commands.
_COMMITTED = re.compile(r"^\[\S.*? [0-9a-f]{7,40}\] ", re.MULTILINE)
PATIENCE = 40  # tool calls after which what was noted is told without a commit
MOST_NOTES = 20
FEW_TERMS = 8  # of a document's new words: as few as that must be a rule or a reason
MOST_READ = 5  # files read that are told with a memory: the latest
COVERED = 0.6  # share of a note's terms in a commit message that says it too


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
class Work:
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
    def from_state(cls, state: dict[str, Any]) -> Work:
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
            self.modified = [path for path in self.modified if not _below(path, gone)]

    def solved(self) -> str:
        """The failure being worked on, or the one that was mended last and not told yet."""
        mended = (note.text for note in reversed(self.notes) if note.source == "recovery")
        return self.failure or next(mended, "").partition("\n")[0].removeprefix("Fixed: ")

    def due(self, all_of_them: bool = False) -> list[Candidate]:
        """What no commit told in time, or (at the end of a session) all that is left; it is noted no more."""
        ripe = [note for note in self.notes if all_of_them or self.calls - note.at >= PATIENCE]
        self.notes = [note for note in self.notes if note not in ripe]
        return [note.candidate() for note in ripe]


def without_injections(text: str) -> str:
    """The text without memory-context blocks: what was injected is never captured back.

    A block ends where as many were closed as opened, so that one inside another hides nothing; one that is
    not closed goes on to the end.
    """
    kept, depth, at = [], 0, 0
    for fence in _FENCE.finditer(text):
        if not depth:
            kept.append(text[at : fence.start()])
        depth = max(depth - 1, 0) if fence["end"] else depth + 1
        at = fence.end()
    return "".join(kept) + (text[at:] if not depth else "")


def holds_injection(text: str) -> bool:
    """Whether a memory-context block stands in the text."""
    return bool(_FENCE.search(text))


def distill(seen: Observation, work: Work) -> Candidate | str:
    """The candidate in a tool call, or the short reason why it is skipped. Updates what is open."""
    work.touch(seen)
    if seen.kind in ("read", "search") or (seen.refused and seen.kind != "run"):
        return "routine"
    happened = not seen.refused or bool(_COMMITTED.search(seen.output))
    if happened and (message := without_injections(seen.commit_message).strip()):
        return _committed(seen, message, work)
    if happened and (message := reverted_message(seen.command, seen.output)):
        return Candidate(message[:MAX_CHARS], "commit")  # what is being worked on is no part of it
    if seen.kind == "run":
        return _ran(seen, work)
    if seen.kind == "write":
        return _wrote(seen, work)
    return _answered(seen)


def _committed(seen: Observation, message: str, work: Work) -> Candidate | str:
    """The message, with the failure that it mends. A commit of some files leaves the others open."""
    if _NO_MESSAGE.match(message):
        work.committed = []
        return "routine"
    mends = _may_mend(message)
    taken, left = _parted(work.modified, committed_paths(seen.command))
    solved = work.solved() if mends else ""
    text = message if not solved or solved in message else f"{message}\n\nProblem: {solved}"
    files = list(dict.fromkeys([*(work.committed if "--amend" in seen.command else ()), *taken]))
    read = tuple(work.read[-MOST_READ:])
    work.modified, work.committed = left, files
    if mends or not left:
        work.read, work.failure, work.failed_command = [], "", ""
        work.notes = [note for note in work.notes if note.source == "comment"]
    work.notes = [
        note if note.source != "comment" or set(note.modified) & set(left) else _ripe(note)
        for note in work.notes
        if note.source != "comment" or not _covered(note.text, message)
    ]
    if _only_says_what(message):
        return "routine"
    return Candidate(text[:MAX_CHARS], "commit", read, tuple(files), bool(solved))


def _parted(modified: list[str], named: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The files that a commit takes, and those that stay open; all of them where it names none."""
    taken = [path for path in modified if _below(path, named)]
    return (taken, [path for path in modified if path not in taken]) if named else (modified, [])


def _below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _only_says_what(message: str) -> bool:
    """Upkeep (a test, a format, a version, a document) and no reason: the history of the code has it."""
    head, _, body = message.strip().partition("\n")
    return is_upkeep(head) and not gives_reason(head) and not paragraphs(own_words(body))


def _may_mend(message: str) -> bool:
    """Whether a commit that follows a failure may be its repair; a new test fails first, too."""
    if declared := declared_type(message):
        return declared is MemoryType.BUGFIX
    return type_of(message) in (MemoryType.BUGFIX, MemoryType.CHANGE, MemoryType.DISCOVERY)


def _ripe(note: Note) -> Note:
    """The commit came and did not tell it: it is told now."""
    note.at = -PATIENCE
    return note


def _covered(note: str, message: str) -> bool:
    own = terms(note)
    return len(own & terms(message)) >= COVERED * len(own)


def _ran(seen: Observation, work: Work) -> Candidate | str:
    if is_display(seen.command):
        return "routine"
    if seen.failed:
        if error := error_of(seen.output):
            work.failure, work.failed_command = error, seen.command
            return "failure noted"
        if seen.refused:
            return "routine"
    elif work.failure and _passes(seen, work.failed_command):
        return _mended(seen, work)
    if seen.is_test_run:
        return "routine"
    said = told_reasons(without_injections(seen.output))
    return Candidate(said, "output", (), ()) if said else "routine"


def _passes(seen: Observation, failed: str) -> bool:
    """Whether what failed is all right now; a compiler says so by silence, to the very same command."""
    silent = not seen.output.strip() and not seen.refused and seen.command.strip() == failed.strip()
    return silent or (seen.passed and _same_check(seen.command, failed))


def _mended(seen: Observation, work: Work) -> str:
    files = ", ".join(work.modified[-5:]) or "no file of this session"
    text = f"Fixed: {work.failure}\n\n`{shorten(seen.command, 200)}` passes again after changes in {files}."
    work.failure = work.failed_command = ""
    return _note(work, text, "recovery", work.modified, work.read[-MOST_READ:]) or "repair noted"


def _wrote(seen: Observation, work: Work) -> Candidate | str:
    if any(_DECISIONS.search(path) for path in seen.files_modified):
        said = paragraphs(_new_lines(without_injections(seen.added), seen.removed))
        if len(terms(said)) < FEW_TERMS and not gives_reason(said):
            return "routine"
        return Candidate(said, "document", (), seen.files_modified) if said else "routine"
    if any(_DOCUMENT.search(path) for path in seen.files_modified):
        return "routine"
    outcome = "routine"
    for said in reasons(without_injections(seen.added), seen.removed):
        outcome = _note(work, said, "comment", list(seen.files_modified)) or "reason noted"
    if outcome == "routine" and (told := told_reasons(without_injections(seen.output))):
        return Candidate(told, "output", (), seen.files_modified)
    return outcome


def _note(work: Work, text: str, source: str, modified: list[str], read: list[str] | None = None) -> str:
    """Keep for later; the reason when that may not be."""
    if may_contain_secrets(text):
        return "secret"
    if all(note.text != text for note in work.notes):
        work.notes = [*work.notes, Note(text, source, list(modified), work.calls, list(read or ()))][
            -MOST_NOTES:
        ]
    return ""


def _new_lines(added: str, removed: str) -> str:
    old = set(removed.splitlines())
    return "\n".join(line for line in added.splitlines() if line not in old or not line.strip())


def _answered(seen: Observation) -> Candidate | str:
    """An answer that only gives a definition or a list is looked up again when it is needed."""
    said = findings(without_injections(seen.output))
    if not said:
        return "routine"
    asked = shorten(seen.question, 200)
    # A page, or a helper sent to look, tells what it found; what another tool tells may be work on this.
    source = "answer" if seen.kind == "ask" else "output"
    return Candidate(f"{said}\n\nAsked: {asked}" if asked else said, source, (), ())


def _same_check(command: str, failed: str) -> bool:
    """Whether two commands run the same checker: the program, whatever its arguments."""
    return program(command) == program(failed)
