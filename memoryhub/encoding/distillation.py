"""From a tool call to what is worth telling a colleague: a candidate, or the reason why there is none. Pure.

Reading and listing are routine. What speaks is what people wrote on purpose: commit messages, decisions put
into a document, comments that give a reason, answers that were asked for; and what happened: a failure that
was mended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from memoryhub.encoding.observation import Observation
from memoryhub.text import collapse, shorten

_BLOCK = re.compile(r"<memory-context\b.*?(?:</memory-context>|\Z)", re.DOTALL | re.IGNORECASE)
_DECISIONS = re.compile(
    r"(?:^|/)(?:adr|adrs|decisions?|rfcs?|architecture|design)(?:/|[-_.\w]*\.(?:md|rst|txt)$)"
    r"|(?:^|/)(?:CLAUDE|AGENTS|CONTRIBUTING|NOTES)[\w.]*\.md$",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"^\s*(?:#|//|--|\*|;)\s?(?P<said>.+)$")
_TRAILING = re.compile(r"\s(?:#|//)\s(?P<said>.{20,})$")
_REASON = re.compile(
    r"\b(?:because|otherwise|so that|note|hack|workaround|gotcha|beware|caution|must|never|instead of|"
    r"rather than|careful|on purpose|deliberately|unlike|since)\b",
    re.IGNORECASE,
)
_ERROR_LINE = re.compile(
    r"^(?:E\s+)?(?P<said>(?:[\w.]*(?:Error|Exception|Failure|Warning)\b.*|error(?:\[\w+\])?:.*|fatal:.*"
    r"|panic:.*|FAILED .*|.*\bFAIL(?:ED)?\b.*|AssertionError.*))$",
    re.MULTILINE,
)
_WORDY = re.compile(r"[A-Za-zÀ-ɏЀ-ӿ぀-ヿ一-鿿]")
MAX_CHARS = 2000
MIN_WORDS = 6


@dataclass(frozen=True)
class Candidate:
    """What might become a memory: its text, where it comes from, and the files it is about."""

    text: str
    source: str
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    resolves: bool = False


@dataclass
class Work:
    """What is open in a session: what was touched since the last capture, and the failure being worked on."""

    read: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    failure: str = ""
    failed_command: str = ""

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Work:
        return cls(
            list(state.get("read", ())),
            list(state.get("modified", ())),
            str(state.get("failure", "")),
            str(state.get("failed_command", "")),
        )

    def note(self, seen: Observation) -> None:
        """Add the files of a tool call, each once, the latest 50."""
        self.read = list(dict.fromkeys([*self.read, *seen.files_read]))[-50:]
        self.modified = list(dict.fromkeys([*self.modified, *seen.files_modified]))[-50:]


def without_injections(text: str) -> str:
    """The text without memory-context blocks: what was injected is never captured back."""
    return _BLOCK.sub("", text)


def holds_injection(text: str) -> bool:
    """Whether a memory-context block stands in the text."""
    return bool(_BLOCK.search(text))


def distill(seen: Observation, work: Work) -> Candidate | str:
    """The candidate in a tool call, or the short reason why it is skipped. Updates what is open."""
    work.note(seen)
    if seen.kind in ("read", "search"):
        return "routine"
    if message := without_injections(seen.commit_message).strip():
        return _committed(message, work)
    if seen.kind == "run":
        return _ran(seen, work)
    if seen.kind == "write":
        return _wrote(seen)
    return _answered(seen)


def _committed(message: str, work: Work) -> Candidate:
    text = message
    if work.failure and work.failure not in message:
        text += f"\n\nProblem: {work.failure}"
    candidate = Candidate(
        text[:MAX_CHARS], "commit", tuple(work.read), tuple(work.modified), bool(work.failure)
    )
    work.read, work.modified, work.failure, work.failed_command = [], [], "", ""
    return candidate


def _ran(seen: Observation, work: Work) -> Candidate | str:
    if seen.failed:
        if error := error_of(seen.output):
            work.failure, work.failed_command = error, seen.command
            return "failure noted"
    elif work.failure and seen.passed and _same_check(seen.command, work.failed_command):
        files = ", ".join(work.modified[-5:]) or "no file of this session"
        text = (
            f"Fixed: {work.failure}\n\n`{shorten(seen.command, 200)}` passes again after changes in {files}."
        )
        candidate = Candidate(text, "recovery", tuple(work.read), tuple(work.modified), True)
        work.failure, work.failed_command = "", ""
        return candidate
    said = prose(without_injections(seen.output))
    return Candidate(said, "output", (), ()) if said else "routine"


def _wrote(seen: Observation) -> Candidate | str:
    added = without_injections(seen.added)
    if any(_DECISIONS.search(path) for path in seen.files_modified):
        said = prose(added)
        return Candidate(said, "document", (), seen.files_modified) if said else "routine"
    if said := reasons(added, seen.removed):
        return Candidate(said, "comment", (), seen.files_modified)
    return "routine"


def _answered(seen: Observation) -> Candidate | str:
    said = prose(without_injections(seen.output))
    if not said:
        return "routine"
    asked = shorten(seen.question, 200)
    return Candidate(f"{asked}\n\n{said}" if asked else said, "answer", (), ())


def error_of(output: str) -> str:
    """The last line of an output that names an error, as one line."""
    found = [match["said"] for match in _ERROR_LINE.finditer(output)]
    return shorten(found[-1], 300) if found else ""


def prose(text: str) -> str:
    """The lines of a text that are sentences, not data, code or log."""
    kept = [line.strip() for line in text.splitlines() if _is_sentence(line)]
    return "\n".join(kept)[:MAX_CHARS]


def reasons(added: str, removed: str = "") -> str:
    """Comments in new code that give a reason, joined where they run over several lines."""
    old = set(removed.splitlines())
    blocks: list[list[str]] = [[]]
    for line in added.splitlines():
        found = _COMMENT.match(line) or _TRAILING.search(line)
        if found and line not in old:
            blocks[-1].append(found["said"].strip())
        elif blocks[-1]:
            blocks.append([])
    said = [collapse(" ".join(block)) for block in blocks if block]
    return "\n".join(one for one in said if _REASON.search(one) and len(one.split()) >= MIN_WORDS)[:MAX_CHARS]


def _is_sentence(line: str) -> bool:
    """At least six words, mostly letters, and not the look of a log line or of code."""
    bare = line.strip().lstrip("#>*-• ").strip()
    if not bare or bare[0] in "{}[]<|+=@$\\/" or bare.endswith(("{", ";", "(", "[", ",", "\\")):
        return False
    words = bare.split()
    letters = sum(1 for char in bare if _WORDY.match(char))
    if len(words) < MIN_WORDS and not (len(bare) > 12 and ord(bare[0]) > 0x2E80):
        return False
    return letters / len(bare) > 0.7 and not re.match(r"\d{2,4}[-:/.]\d{1,2}|\w+=|\S+:\d+", bare)


def _same_check(command: str, failed: str) -> bool:
    """Whether two commands run the same checker: the program, whatever its arguments."""
    return _program(command) == _program(failed)


def _program(command: str) -> str:
    words = re.sub(
        r"^(?:cd \S+ && |\w+=\S+ |time |uv run |poetry run |python3? -m )+", "", command.strip()
    ).split()
    return (
        " ".join(words[:2])
        if words[:1] in (["npm"], ["go"], ["cargo"], ["make"], ["python"])
        else "".join(words[:1])
    )
