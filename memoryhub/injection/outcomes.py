"""Whether the memories of an injection helped: decided from the later events of the session, or by a person.

A memory counts as used when the agent then touches one of its files, repeats its distinctive terms, or runs
the command of its failure without that failure. What the agent knew before does not count. Events store only
hashes of what the agent wrote. The counts of a memory include an injection only if each reader of the memory
may see it: one of the same level and project.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef

from memoryhub import memories as store
from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.core.database import write_transaction
from memoryhub.core.text import STOP_WORDS, collapse_whitespace, fold, words
from memoryhub.core.vocabulary import SUMMARY_TYPES, MemoryType
from memoryhub.injection.candidates import MAX_FILES_OF_MEMORY, injectable_memories
from memoryhub.memories.rows import attach_lists
from memoryhub.models import Event, Injection, Memory, Session
from memoryhub.search.lexical import count_terms
from memoryhub.search.visible_rows import load_visible_rows

logger = logging.getLogger(__name__)

FILE, TERMS, FAILURE = "file", "terms", "failure"  # reasons; a rating by a person has its own
WINDOW = timedelta(hours=2)
MAX_CALLS = 30  # tool calls after an injection that count as evidence
MAX_EVENTS = 2000  # events of one session that are read
MAX_INJECTIONS = 200  # injections of one session that are decided at once
MAX_TEXT = 20_000  # characters of a text that are hashed
MAX_DIGESTS = 80  # terms of one call
MIN_TERM, MAX_TERM = 5, 60  # characters
RARE_SHARE, RARE_COUNT = 0.05, 3  # a rare word is in at most this share or number of memories
MIN_RARE_WORDS = 2  # repeated rare words that count as a use; one identifier is enough
ABANDONED_SESSIONS = 5  # sessions without an end that are decided when another one starts
ABANDONED_SPAN = timedelta(days=14)  # since the last event of such a session
_TOKEN = re.compile(r"\w(?:[\w./:-]*\w)?")
_IDENTIFIER = re.compile(r"[_./:]|\d[^\W\d]|[^\W\d]\d|[a-z][A-Z]")
_CODE = re.compile(r"`([^`\n]{6,200})`|^[^\S\n]*\$[^\S\n]+(.{6,200})$", re.MULTILINE)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def digest_command(command: str) -> str:
    """Return the hash of a command without the differences in spaces."""
    return digest(collapse_whitespace(command))


def find_terms(text: str) -> dict[str, bool]:
    """Return the folded words and identifiers of a text; the value is whether it is an identifier."""
    terms: dict[str, bool] = {}
    for token in _TOKEN.findall(text[:MAX_TEXT]):
        folded = fold(token)
        if MIN_TERM <= len(folded) <= MAX_TERM and folded not in STOP_WORDS and not folded.isdigit():
            terms[folded] = terms.get(folded, False) or bool(_IDENTIFIER.search(token))
    return terms


def digest_call(written: str, command: str, *, failed: bool) -> dict[str, Any]:
    """Return what an event stores of a tool call: hashes of its terms and its command, and the outcome."""
    terms = [digest(term) for term in find_terms(written)][:MAX_DIGESTS]
    return {"terms": terms, "command": digest_command(command) if command else "", "failed": failed}


@dataclass
class _Knowledge:
    """The files, terms and commands that the agent used or knew in a part of a session."""

    session: Session
    files: list[str] = field(default_factory=list)
    terms: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    failure_terms: set[str] = field(default_factory=set)
    succeeded: set[str] = field(default_factory=set)

    def add(self, event: Event) -> None:
        digests = event.digests or {}
        self.files += map(str, event.files)
        self.terms.update(digests.get("terms", ()))
        if command := digests.get("command"):
            (self.failed if digests.get("failed") else self.succeeded).add(command)
        if digests.get("failed"):
            self.failure_terms.update(map(digest, event.keywords))

    def has_file(self, path: str) -> bool:
        """Whether one of the files is that of a memory with this path.

        Only where the top of the repository is unknown, either path may begin in another folder.
        """
        top = self.session.top_name
        if not top:
            return any(f"/{path}".endswith(f"/{one}") or one.endswith(f"/{path}") for one in self.files)
        return any(
            path in (one, self.session.path_in_folder(one)) or f"/{path}".endswith(f"/{top}/{one}")
            for one in self.files
        )


def decide_outcomes(session: Session, now: datetime) -> int:
    """Decide the undecided injections of a session; return their number."""
    pending = list(
        Injection.objects.undecided().filter(session=session).order_by("at", "pk")[:MAX_INJECTIONS]
    )
    if not pending:
        return 0
    shown = _load_shown(pending)
    decided: dict[int, dict[str, str]] = {}
    for level in LEVELS:
        rows = [row for row in pending if row.sensitivity == level]
        if rows:
            # Outcomes are visible with the injection, so they depend only on what its readers may see.
            clearance = Clearance.up_to(level, projects=[session.project])
            visible = Event.objects.visible_to(clearance).filter(session=session).order_by("at", "pk")
            events, rarity = list(visible[:MAX_EVENTS]), _Rarity(clearance, session.project, now)
            decided |= {row.pk: _decide(row, events, shown, rarity, session) for row in rows}
    _save(decided, shown)
    return len(pending)


def decide_abandoned(session: Session, now: datetime) -> int:
    """Decide the injections of some other sessions of the project that sent nothing for a while."""
    span = (now - ABANDONED_SPAN, now - WINDOW)
    stale = Session.objects.filter(project=session.project, last_at__range=span).exclude(pk=session.pk)
    stale = stale.filter(Exists(Injection.objects.undecided().filter(session=OuterRef("pk"))))
    latest = stale.order_by("-last_at", "-pk")[:ABANDONED_SESSIONS]
    return sum(decide_outcomes(other, now) for other in latest)


def decide_quietly(decide: Callable[[Session, datetime], int], session: Session, now: datetime) -> None:
    """Decide outcomes without letting a failure reach the agent."""
    try:
        decide(session, now)
    except Exception:
        logger.exception("the outcomes of injections were not decided")


def _load_shown(rows: Iterable[Injection]) -> dict[str, Memory]:
    uids = {item["id"] for row in rows for item in row.injected}
    memories = list(Memory.objects.filter(uid__in=uids, deleted_at__isnull=True))
    attach_lists(memories)
    return {memory.uid: memory for memory in memories}


def _decide(
    row: Injection, events: Sequence[Event], shown: Mapping[str, Memory], rarity: _Rarity, session: Session
) -> dict[str, str]:
    """Return the reason why each memory of an injection was used, by id; empty if it was not."""
    before, after = _Knowledge(session), _Knowledge(session)
    before.terms.update(map(digest, find_terms(row.prompt_preview)))
    calls = 0
    for event in events:
        if event.at <= row.at:
            before.add(event)
            before.terms.update(map(digest, event.keywords))
        elif event.at <= row.at + WINDOW and event.tool_name and calls < MAX_CALLS:
            after.add(event)
            calls += 1
    reasons = {}
    for item in row.injected:
        memory = shown.get(item["id"])
        reasons[item["id"]] = _find_use(memory, row, before, after, rarity) if memory else ""
    return reasons


def _find_use(memory: Memory, row: Injection, before: _Knowledge, after: _Knowledge, rarity: _Rarity) -> str:
    lists = memory.loaded_lists or {}
    files = [*lists.get("files_modified", ()), *lists.get("files_read", ())]
    if len(set(files)) > MAX_FILES_OF_MEMORY or memory.type in SUMMARY_TYPES:
        files = []  # the memory is about the work as a whole, not about one of the files
    known = [path for path in files if _names_file(row.prompt_preview, path) or before.has_file(path)]
    if any(after.has_file(path) for path in files if path not in known):
        return FILE
    terms = find_terms(memory.titled_content)
    if memory.type == MemoryType.BUGFIX.value:
        about = {term: is_name for term, is_name in terms.items() if digest(term) in before.failure_terms}
        is_solved = after.succeeded & before.failed and about and rarity.is_distinctive(about)
        if is_solved or _names_success(memory, after):
            return FAILURE
    repeated = {
        term: is_name
        for term, is_name in terms.items()
        if (key := digest(term)) in after.terms and key not in before.terms
    }
    return TERMS if repeated and rarity.is_distinctive(repeated) else ""


def _names_file(prompt: str, path: str) -> bool:
    return path.rstrip("/").rpartition("/")[2] in prompt


def _names_success(memory: Memory, after: _Knowledge) -> bool:
    """Whether the memory names a command that succeeded afterwards and did not fail."""
    named = set(map(digest_command, find_commands(memory.content)))
    return bool((after.succeeded - after.failed) & named)


def find_commands(text: str) -> set[str]:
    """Return what may be a command in a text: code in backquotes, and lines after a shell prompt."""
    return {quoted or shell for quoted, shell in _CODE.findall(text[:MAX_TEXT])}


class _Rarity:
    """How rare words are among the memories that every reader of an injection may see."""

    def __init__(self, clearance: Clearance, project: str, now: datetime) -> None:
        self._memories = injectable_memories(clearance, project, now)

    def is_distinctive(self, terms: Mapping[str, bool]) -> bool:
        """Whether these terms include an identifier or several words, all rare."""
        rows = load_visible_rows(self._memories)
        counts = count_terms(rows, sorted({word for term in terms for word in words(term)})[:100])
        limit = max(RARE_COUNT, RARE_SHARE * len(rows))
        rare = [term for term in terms if min(map(counts.of, words(term)), default=0) <= limit]
        return any(terms[term] for term in rare) or len(rare) >= MIN_RARE_WORDS


def _save(decided: Mapping[int, Mapping[str, str]], shown: Mapping[str, Memory]) -> None:
    """Write outcomes to the log and to the counts, except those that a person rated meanwhile."""
    counts: Counter[tuple[int, bool]] = Counter()
    with write_transaction():
        rows = list(Injection.objects.undecided().filter(pk__in=list(decided)))
        for row in rows:
            for item in row.injected:
                if "used" in item:
                    continue
                why = decided[row.pk].get(item["id"], "")
                item |= {"used": bool(why), **({"why": why} if why else {})}
                memory = shown.get(item["id"])
                if memory and _is_counted(row, memory):
                    item["counted"] = True
                    counts[memory.pk, bool(why)] += 1
            row.helped = any(item["used"] for item in row.injected)
        Injection.objects.bulk_update(rows, ["injected", "helped"])
        keys = {pk for pk, _ in counts}
        store.count_outcomes({pk: (counts[pk, True] + counts[pk, False], counts[pk, True]) for pk in keys})


def _is_counted(row: Injection, memory: Memory) -> bool:
    """Whether each reader of the memory may see the injection."""
    return row.sensitivity == memory.sensitivity and row.project == memory.project
