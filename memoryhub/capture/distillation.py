"""Distil a tool call into a candidate for a memory, or a reason to skip it. Pure.

Reading and listing files is routine. Candidates come from text that people wrote on purpose (commit messages,
decisions in documents, comments that give a reason, answers to questions) and from failures that were fixed.
Comments and fixes become notes first, because the commit that follows usually describes them better. A note
becomes a separate candidate if that commit leaves it out or does not come.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from memoryhub.capture.classification import (
    MAX_CHARS,
    declared_type,
    detect_type,
    extract_claims,
    extract_findings,
    extract_paragraphs,
    extract_prose,
    extract_reason_comments,
    extract_repair,
    failure_line,
    gives_reason,
    is_routine_commit,
    last_error,
    strip_generated_lines,
)
from memoryhub.capture.observation import (
    TOOLS,
    Observation,
    changed_paths,
    committed_paths,
    is_display_only,
    main_program,
    removed_paths,
    reverted_message,
)
from memoryhub.core.text import shorten, terms
from memoryhub.core.vocabulary import MemoryType
from memoryhub.search.prompts import strip_injected_context
from memoryhub.security.secrets import is_secret_file, may_contain_secrets

_DECISION_FILE = re.compile(
    r"(?:^|/)(?:adr|adrs|decisions?|rfcs?|architecture|design)(?:/|[-_.\w]*\.(?:md|rst|txt)$)"
    r"|(?:^|/)(?:CLAUDE|AGENTS|CONTRIBUTING|NOTES|GOTCHAS)[\w.]*\.md$",
    re.IGNORECASE,
)
_DECISION_RECORD = re.compile(r"(?:^|/)(?:adrs?|decisions?)/", re.IGNORECASE)
_DOCUMENT_FILE = re.compile(r"\.(?:md|markdown|rst|txt|adoc|html?)$", re.IGNORECASE)
_EMPTY_MESSAGE = re.compile(
    r"^(?:wip|tmp|temp|save|checkpoint|update|(?:fixup|squash)!.*|merge (?:branch|remote|pull request)\b.*"
    r"|\W*)$",
    re.IGNORECASE,
)
# Printed by git for each commit, even if a later command of the same chain fails.
_COMMITTED = re.compile(r"^\[\S.*? [0-9a-f]{7,40}\] ", re.MULTILINE)
_NOTHING_COMMITTED = re.compile(r"^(?:nothing (?:added )?to|no changes added to) commit\b", re.MULTILINE)
ROUTINE = "routine"  # the reason to skip a call; also the source of sentences without a claim
MAX_NOTE_AGE = 40  # tool calls after which a note becomes a candidate without a commit
MAX_NOTES = 20
MAX_REMEDIES = 5
MAX_TOUCHED_FILES = 50
MIN_DOCUMENT_TERMS = 8  # a shorter change to a document counts only if it gives a reason
MAX_FILES_READ = 5  # the latest files read that a memory lists
MIN_SHARED_TERMS = 2  # of a commit message and the failure that it fixes
COVERED_SHARE = 0.6  # a commit message with this share of a note's terms covers the note


@dataclass(frozen=True)
class Candidate:
    """The text of a possible memory, its source and the files it is about.

    ``fixes``: the text of the captured failure that this commit fixes.
    """

    text: str
    source: str
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    fixes: str = ""


@dataclass
class Note:
    """A comment or fix that waits for a commit. ``at``: the number of its tool call in the session."""

    text: str
    source: str
    modified: list[str]
    at: int
    read: list[str] = field(default_factory=list)

    def to_candidate(self) -> Candidate:
        return Candidate(self.text, self.source, tuple(self.read), tuple(self.modified))


@dataclass
class OpenWork:
    """The work of a session since its last commit. The field names are the keys of the stored JSON.

    ``changed``, ``remedies``: files changed and repairing commands run since the open failure.
    ``reported``: the latest failure whose output named its cause and fix. ``calls``: tool calls so far.
    ``committed``: files of the last commit, in case it is amended.
    """

    read: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    failure: str = ""
    failed_command: str = ""
    changed: list[str] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    committed: list[str] = field(default_factory=list)
    calls: int = 0
    reported: str = ""

    def as_state(self) -> dict[str, Any]:
        """Return the work as JSON values. The lists are not copied."""
        return {**vars(self), "notes": list(map(vars, self.notes))}

    def add_files(self, seen: Observation) -> None:
        """Add the files of a tool call and drop those that it removes. A searched folder was not read."""
        self.calls += 1
        if seen.kind == "read" and not seen.refused:
            read = [path for path in seen.files_read if not is_secret_file(path)]
            self.read = list(dict.fromkeys([*self.read, *read]))[-MAX_TOUCHED_FILES:]
        changed = [path for path in changed_paths(seen.command, seen.output) if not is_secret_file(path)]
        modified = dict.fromkeys([*self.modified, *seen.files_modified, *changed])
        self.modified = list(modified)[-MAX_TOUCHED_FILES:]
        if self.failure:
            since = dict.fromkeys([*self.changed, *seen.files_modified])
            self.changed = [path for path in since if not is_secret_file(path)][-MAX_TOUCHED_FILES:]
        if seen.kind == "run" and "rm " in seen.command:
            removed = removed_paths(seen.command)
            self.modified = [path for path in self.modified if not _is_below(path, removed)]

    def open_failure(self, error: str, command: str) -> None:
        """Note a failure. If the same program fails again, its repair continues."""
        if not self.failure or main_program(self.failed_command) != main_program(command):
            self.changed, self.remedies = [], []
        self.failure, self.failed_command = error, command

    def add_remedy(self, command: str) -> str:
        """Add a command that may repair the open failure."""
        self.remedies = list(dict.fromkeys([*self.remedies, shorten(command, 200)]))[-MAX_REMEDIES:]
        return ROUTINE

    def close_failure(self) -> None:
        self.failure = self.failed_command = ""
        self.changed, self.remedies = [], []

    def solved_failure(self) -> str:
        """Return the open failure, or the latest one that was fixed and not yet committed."""
        fixes = (note.text for note in reversed(self.notes) if note.source == "recovery")
        return self.failure or next(fixes, "").partition("\n")[0].removeprefix("Fixed: ")

    def take_reported(self, message: str) -> str:
        """Remove and return the reported failure if a commit message is about it."""
        if len(terms(self.reported) & terms(message)) < MIN_SHARED_TERMS:
            return ""
        reported, self.reported = self.reported, ""
        return reported

    def take_due_notes(self, everything: bool = False) -> list[Candidate]:
        """Remove and return the notes that no commit covered in time, or all of them."""
        due = [note for note in self.notes if everything or self.calls - note.at >= MAX_NOTE_AGE]
        self.notes = [note for note in self.notes if note not in due]
        return [note.to_candidate() for note in due]


def distill(seen: Observation, work: OpenWork) -> Candidate | str:
    """Return the candidate of a tool call, or the reason to skip it. Updates the open work."""
    work.add_files(seen)
    if seen.kind in ("read", "search") or (seen.refused and seen.kind != "run"):
        return ROUTINE
    refused = seen.refused or _NOTHING_COMMITTED.search(seen.output)  # Codex CLI sends no exit code
    succeeded = not refused or bool(_COMMITTED.search(seen.output))
    if succeeded and (message := strip_injected_context(seen.commit_message).strip()):
        return _distill_commit(seen, message, work)
    if succeeded and (message := reverted_message(seen.command, seen.output)):
        return Candidate(message[:MAX_CHARS], "commit")  # a revert says nothing about the open work
    if seen.kind == "run":
        return _distill_command(seen, work)
    if seen.kind == "write":
        return _distill_edit(seen, work)
    if seen.kind == "question":
        text = strip_injected_context(seen.output)[:MAX_CHARS]
        return Candidate(text, "user") if text.strip() else ROUTINE
    return _distill_answer(seen)


def _distill_commit(seen: Observation, message: str, work: OpenWork) -> Candidate | str:
    """Use the commit message and the failure that the commit fixes. Files it does not include stay open."""
    if _EMPTY_MESSAGE.match(message):
        work.committed = []
        return ROUTINE
    is_fix = _may_be_fix(message)
    included, remaining = _split_by_commit(work.modified, committed_paths(seen.command))
    solved = work.solved_failure() if is_fix else ""
    text = message if not solved or solved in message else f"{message}\n\nProblem: {solved}"
    files = list(dict.fromkeys([*(work.committed if "--amend" in seen.command else ()), *included]))
    read = tuple(work.read[-MAX_FILES_READ:])
    work.modified, work.committed = remaining, files
    if is_fix or not remaining:
        work.read = []
        work.close_failure()
        work.notes = [note for note in work.notes if note.source == "comment"]
    notes = []
    for note in work.notes:
        if note.source == "comment":
            if _is_covered(note.text, message):
                continue
            if not set(note.modified) & set(remaining):
                note.at = -MAX_NOTE_AGE  # due now: its commit came and does not cover it
        notes.append(note)
    work.notes = notes
    if _is_trivial_commit(message):
        return ROUTINE
    fixes = work.take_reported(message) if is_fix else ""
    return Candidate(text[:MAX_CHARS], "commit", read, tuple(files), fixes)


def _split_by_commit(modified: list[str], named: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the files that a commit includes (all if it names none) and those that stay open."""
    if not named:
        return modified, []
    included = [path for path in modified if _is_named(path, named)]
    return included, [path for path in modified if path not in included]


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _is_named(path: str, folders: tuple[str, ...]) -> bool:
    """Whether a commit names a path or its folder. An absolute name is compared from its end."""
    parts = [path, *map(str, PurePosixPath(path).parents)][:-1]
    return any(
        folder == part or (folder[:1] == "/" and folder.endswith(f"/{part}"))
        for folder in folders
        for part in parts
    )


def _is_trivial_commit(message: str) -> bool:
    """Whether a commit is routine (a test, a format, a version, a document) and gives no reason."""
    head, _, body = message.strip().partition("\n")
    if not is_routine_commit(head) or gives_reason(head):
        return False
    return not extract_paragraphs(strip_generated_lines(body))


def _may_be_fix(message: str) -> bool:
    """Whether a commit after a failure may fix it. Tests of a new feature fail until it exists, too."""
    if declared := declared_type(message):
        return declared is MemoryType.BUGFIX
    return detect_type(message) in (MemoryType.BUGFIX, MemoryType.CHANGE, MemoryType.DISCOVERY)


def _is_covered(note: str, message: str) -> bool:
    own = terms(note)
    return len(own & terms(message)) >= COVERED_SHARE * len(own)


def _distill_command(seen: Observation, work: OpenWork) -> Candidate | str:
    installs = bool(TOOLS.install_command.search(seen.command))
    if _is_remedy(seen, work):
        return work.add_remedy(seen.command)
    if TOOLS.help_command.search(seen.command) or (is_display_only(seen.command) and not installs):
        return ROUTINE
    output = strip_injected_context(seen.output)
    if repair := extract_repair(output):
        work.reported = repair
        return Candidate(repair, "failure")  # the open files may have nothing to do with it
    if seen.failed:
        if noted := _note_failure(seen, work, installs=installs):
            return noted
        if seen.refused:
            return ROUTINE
    elif work.failure and _passes_now(seen, work):
        return _note_fix(seen, work)
    if seen.is_test_run or installs:
        return ROUTINE
    return _distill_output(output)


def _note_failure(seen: Observation, work: OpenWork, *, installs: bool) -> str:
    """Note the error of a failed command. An install that fails during a repair is part of the repair."""
    error = last_error(seen.output) or (failure_line(seen.output) if installs else "")
    if error and not (installs and work.failure and not TOOLS.install_command.search(work.failed_command)):
        work.open_failure(error, seen.command)
        return "failure noted"
    return ""


def _is_remedy(seen: Observation, work: OpenWork) -> bool:
    """Whether a command may repair the environment of the open failure."""
    if seen.failed or not work.failure or seen.command.strip() == work.failed_command.strip():
        return False
    return bool(TOOLS.install_command.search(seen.command) or TOOLS.remedy_command.search(seen.command))


def _distill_output(output: str) -> Candidate | str:
    claims = extract_claims(output)
    return Candidate(claims, "output") if claims else ROUTINE


def distill_routine(seen: Observation) -> Candidate | str:
    """Return the sentences of a routine output. They are memorable only if the threshold is low."""
    if seen.kind not in ("run", "ask", "other") or seen.failed or is_display_only(seen.command):
        return ROUTINE
    text = extract_prose(strip_injected_context(seen.output))
    return Candidate(text, ROUTINE) if text else ROUTINE


def _passes_now(seen: Observation, work: OpenWork) -> bool:
    """Whether the failed check passes now.

    Either the same program reports success, or the same command succeeds after a change or without output.
    """
    if seen.command.strip() == work.failed_command.strip() and not seen.refused:
        return bool(work.changed or work.remedies) or seen.passed or not seen.output.strip()
    return seen.passed and main_program(seen.command) == main_program(work.failed_command)


def _note_fix(seen: Observation, work: OpenWork) -> str:
    # Changes by commands like sed are only known from a later git status.
    modified = work.changed or ([] if work.remedies else work.modified)
    files = ", ".join(modified[-5:]) or "no file of this session"
    repairs = [f"`{command}`" for command in work.remedies]
    repairs += [f"changes in {files}"] if modified or not repairs else []
    command = shorten(seen.command, 200)
    text = f"Fixed: {work.failure}\n\n`{command}` passes again after {' and '.join(repairs)}."
    work.close_failure()
    # Code that was changed before, like the test that failed, is part of the work; a document is not.
    related = [path for path in work.modified if path in modified or not _DOCUMENT_FILE.search(path)]
    return _add_note(work, text, "recovery", related, work.read[-MAX_FILES_READ:]) or "repair noted"


def _distill_edit(seen: Observation, work: OpenWork) -> Candidate | str:
    added = strip_injected_context(seen.added)
    if any(_DECISION_FILE.search(path) for path in seen.files_modified):
        text = extract_paragraphs(_new_lines(added, seen.removed))
        if len(terms(text)) < MIN_DOCUMENT_TERMS and not gives_reason(text):
            return ROUTINE
        source = "record" if any(map(_DECISION_RECORD.search, seen.files_modified)) else "document"
        return Candidate(text, source, (), seen.files_modified) if text else ROUTINE
    if any(_DOCUMENT_FILE.search(path) for path in seen.files_modified):
        return ROUTINE
    outcome = ROUTINE
    for comment in extract_reason_comments(added, seen.removed):
        outcome = _add_note(work, comment, "comment", list(seen.files_modified)) or "reason noted"
    if outcome == ROUTINE and (claims := extract_claims(strip_injected_context(seen.output))):
        return Candidate(claims, "output", (), seen.files_modified)
    return outcome


def _add_note(
    work: OpenWork, text: str, source: str, modified: list[str], read: list[str] | None = None
) -> str:
    """Add a note, or return the reason why it must not be stored."""
    if may_contain_secrets(text):
        return "secret"
    if all(note.text != text for note in work.notes):
        note = Note(text, source, list(modified), work.calls, list(read or ()))
        work.notes = [*work.notes, note][-MAX_NOTES:]
    return ""


def _new_lines(added: str, removed: str) -> str:
    old = set(removed.splitlines())
    return "\n".join(line for line in added.splitlines() if line not in old or not line.strip())


def _distill_answer(seen: Observation) -> Candidate | str:
    """Use an answer that gives a reason. Definitions and lists can be looked up again."""
    output = strip_injected_context(seen.output)
    text = extract_findings(output)
    if not text:
        return _distill_output(output) if seen.kind == "other" else ROUTINE
    question = shorten(seen.question, 200)
    # Answers come from web pages and sub-agents. Text of other tools may be part of the work itself.
    source = "answer" if seen.kind == "ask" else "output"
    return Candidate(f"{text}\n\nAsked: {question}" if question else text, source)
