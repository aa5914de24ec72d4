"""Logged injections: the memories that the viewer can see, and whether they helped.

A person decides that, or the later events of the session. A memory counts as used when the agent then touches
one of its files, repeats its distinctive terms, or runs the command of its failure without that failure. What
the agent knew before does not count. Events store only hashes of what the agent wrote. The counts of a memory
include an injection only if each reader of the memory may see it: one of the same level and project.
"""

from __future__ import annotations

import hashlib
import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from memoryhub import memories as store
from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.core.database import Deadline, write_transaction
from memoryhub.core.text import STOP_WORDS, collapse_whitespace, fold, words
from memoryhub.core.vocabulary import SUMMARY_TYPES, MemoryType
from memoryhub.injection.candidates import MAX_FILES_OF_MEMORY, injectable_memories
from memoryhub.injection.requests import InjectionRequest
from memoryhub.injection.selection import BELOW_FLOOR, OVER_PINNED_BUDGET, pinned_warnings, select_pinned
from memoryhub.injection.services import find_pinned
from memoryhub.memories.evidence import RATED
from memoryhub.memories.rows import attach_lists
from memoryhub.models import Event, Injection, Memory, Session
from memoryhub.models.querysets import InjectionQuerySet, live_memories
from memoryhub.search.lexical import count_terms
from memoryhub.search.visible_rows import load_visible_rows
from memoryhub.stats.timeline import TimelineEntry

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


HELPED_SPAN = timedelta(days=30)
MAX_WARNED = 20  # projects whose pinned memories are measured for a page


@dataclass(frozen=True)
class ShownMemory:
    """A memory in the block. ``score``: 0..1, or None if not logged; ``scale``: its time scale.

    ``used``: whether it helped, with the reason ``why``; None if that is not decided. ``factor``: what its
    score was multiplied by for the order, if not 1.
    """

    memory: Memory
    score: float | None
    scale: str
    used: bool | None = None
    why: str = ""
    factor: float | None = None

    @property
    def outcome(self) -> str:
        """The outcome in words; empty if it is not decided."""
        if self.used is None:
            return ""
        return _OUTCOMES.get((self.used, self.why), "used" if self.used else "not used")


_OUTCOMES = {
    (True, FILE): "used: its file was touched",
    (True, TERMS): "used: its words were used",
    (True, FAILURE): "used: its failure was avoided",
    (True, RATED): "rated useful",
    (False, RATED): "rated not useful",
}


@dataclass(frozen=True)
class WithheldMemory:
    """A withheld memory with the reason and an optional detail."""

    memory: Memory
    reason: str
    detail: str


@dataclass(frozen=True)
class InjectionReport:
    """One visible injection with its visible memories.

    ``complete``: all of its memories are listed. If one is hidden or deleted, totals would reveal it.
    """

    injection: Injection
    shown: list[ShownMemory]
    not_shown: list[WithheldMemory]
    complete: bool

    @property
    def withheld(self) -> list[WithheldMemory]:
        """Withheld memories that reached the minimum score."""
        return [one for one in self.not_shown if one.reason != BELOW_FLOOR]

    @property
    def weak(self) -> list[WithheldMemory]:
        """Memories below the minimum score."""
        return [one for one in self.not_shown if one.reason == BELOW_FLOOR]

    @property
    def available(self) -> int:
        """Number of memories that reached the minimum score, shown or not."""
        listed = [one.memory for one in self.shown] + [one.memory for one in self.withheld]
        return len({memory.pk for memory in listed})

    @property
    def exceeds_pinned_budget(self) -> bool:
        """Whether a visible pinned memory was cut or left out."""
        return any(one.reason == OVER_PINNED_BUDGET for one in self.not_shown)

    @property
    def tokens_used(self) -> int | None:
        """Tokens of the block, or None if that would reveal hidden memories."""
        return self.injection.tokens_used if self.complete else None


@dataclass(frozen=True)
class SessionKnowledge:
    """Memories shown in a session, each with its number of injections, and the number of each reason."""

    shown: list[tuple[Memory, int]]
    reasons: list[tuple[str, int]]


def decided_injections(clearance: Clearance, now: datetime) -> InjectionQuerySet:
    """Return the visible injections of the last 30 days whose outcome is decided. Lazy."""
    return Injection.objects.visible_to(clearance).filter(at__gte=now - HELPED_SPAN, helped__isnull=False)


def count_helped(clearance: Clearance, now: datetime) -> dict[str, tuple[int, int]]:
    """Return, by agent, how many :func:`decided_injections` helped, and how many there are. One query.

    Injections outside a session count for the agent "".
    """
    agents = decided_injections(clearance, now).order_by().values_list(Coalesce("session__agent", Value("")))
    counts = agents.annotate(helped=Count("pk", filter=Q(helped=True)), total=Count("pk"))
    return {agent: (helped, total) for agent, helped, total in counts}


def find_pinned_warnings(clearance: Clearance, project: str) -> dict[str, list[str]]:
    """Return the warnings about pinned memories by project, for one project or for all that have any."""
    pinned = live_memories(clearance).pinned()
    names = pinned.filter(project=project) if project else pinned
    warnings, budget = {}, settings.MEMORYHUB.pinned_token_budget
    for name in names.order_by("project").values_list("project", flat=True).distinct()[:MAX_WARNED]:
        candidates = find_pinned(InjectionRequest("", project=name), clearance, timezone.now())
        chosen = select_pinned(candidates, {}, budget, Deadline(math.inf))
        if lines := pinned_warnings(chosen):
            warnings[name] = lines
    return warnings


def summarize_reports(logs: Iterable[InjectionReport]) -> SessionKnowledge:
    """Combine the injections of a session, in order."""
    memories: dict[str, Memory] = {}
    times: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for log in logs:
        for one in log.shown:
            memories.setdefault(one.memory.uid, one.memory)
            times[one.memory.uid] += 1
        reasons.update(one.reason for one in log.not_shown)
    return SessionKnowledge([(memory, times[uid]) for uid, memory in memories.items()], reasons.most_common())


@dataclass(frozen=True)
class MemoryUse:
    """An injection that contained a memory. ``outcome``: whether it helped, in words."""

    injection: Injection
    outcome: str


def find_uses(memory: Memory, clearance: Clearance, limit: int) -> list[MemoryUse]:
    """Return the newest visible injections that showed the memory. One query."""
    rows = Injection.objects.visible_to(clearance).filter(injected__icontains=memory.uid)
    found = rows.defer("withheld", "page").select_related("session").order_by("-at", "-pk")[:limit]
    return [
        MemoryUse(row, shown.outcome)
        for row in found
        for shown in _shown_memories(row, {memory.uid: memory})[:1]
    ]


def load_session_reports(session: Session, clearance: Clearance, limit: int) -> list[InjectionReport]:
    """Return the visible injections of a session, oldest first. Two queries."""
    rows = Injection.objects.visible_to(clearance).filter(session=session)
    return load_reports(rows.order_by("at", "pk")[:limit], clearance)


def load_reports(rows: Iterable[Injection], clearance: Clearance) -> list[InjectionReport]:
    """Return a report for each injection, all visible to the caller. One query."""
    rows = list(rows)
    named = {uid for row in rows for one in _all_entries(row) if (uid := one["id"])}
    visible = Memory.objects.visible_to(clearance).live().defer("content", "overview")
    known = {memory.uid: memory for memory in visible.filter(uid__in=named)}
    return [_build_report(row, known) for row in rows]


def attach_reports(
    entries: Iterable[TimelineEntry], clearance: Clearance, loaded: Iterable[InjectionReport]
) -> None:
    """Set ``row.log`` of each injection among timeline entries to its report, possibly one that is loaded."""
    reports = {report.injection.pk: report for report in loaded}
    rows = [entry.row for entry in entries if isinstance(entry.row, Injection)]
    if missing := [row for row in rows if row.pk not in reports]:
        reports |= {report.injection.pk: report for report in load_reports(missing, clearance)}
    for row in rows:
        row.log = reports[row.pk]  # type: ignore[attr-defined]


def _build_report(row: Injection, known: dict[str, Memory]) -> InjectionReport:
    shown = _shown_memories(row, known)
    not_shown = [
        WithheldMemory(
            known[one["id"]], str(one.get("reason") or "no reason noted"), _to_text(one.get("detail"))
        )
        for one in _valid_entries(row.withheld)
        if one["id"] in known
    ]
    return InjectionReport(
        row, shown, not_shown, complete=all(one["id"] in known for one in _all_entries(row))
    )


def _shown_memories(row: Injection, known: Mapping[str, Memory]) -> list[ShownMemory]:
    return [
        ShownMemory(
            known[one["id"]],
            _to_number(one.get("score")),
            str(one.get("scale") or ""),
            used if isinstance(used := one.get("used"), bool) else None,
            _to_text(one.get("why")),
            _to_number(one.get("factor")),
        )
        for one in _valid_entries(row.injected)
        if one["id"] in known
    ]


def _all_entries(row: Injection) -> Iterator[dict[str, Any]]:
    yield from _valid_entries(row.injected)
    yield from _valid_entries(row.withheld)


def _valid_entries(stored: Any) -> list[dict[str, Any]]:
    entries = stored if isinstance(stored, list) else []
    return [one for one in entries if isinstance(one, dict) and isinstance(one.get("id"), str)]


def _to_number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else ""
