"""Preview the effect of a change on injections: replay logged prompts without and with it.

The change is made by its usual function, in transactions that are always rolled back. The first one finds
out which memories change; only prompts that share a word with them are replayed. Each transaction lasts about
:data:`LOCK_MS`, and other writers get as much time between two of them. A replay sees only what its viewer
may see: the log, the memories and the texts. It logs no injection and counts no access.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.backends import TEXT_COLUMNS, change_log
from memoryhub.backends.statements import read_memories
from memoryhub.core.database import Deadline, write_transaction
from memoryhub.core.text import CJK, count_with_verb, fold, stem, words
from memoryhub.core.vocabulary import ProjectMode
from memoryhub.injection.candidates import MIN_SUBSTRING_LENGTH, CandidateSet
from memoryhub.injection.requests import InjectionRequest
from memoryhub.injection.selection import Selection
from memoryhub.injection.services import candidates_for_prompt, select_for_new_session
from memoryhub.memories.rows import without_vectors
from memoryhub.models import FileLink, Injection, Memory, Project
from memoryhub.search.prompts import ParsedPrompt, parse_prompt

MAX_PROMPTS = 200
MAX_LOG_ROWS = 1000  # rows of the log that are read to find this many different prompts
MAX_SECONDS = 8.0  # of a whole replay
LOCK_MS = 80.0  # of one transaction
LOCK_PATIENCE = 2.0  # seconds to wait for other writers, for each transaction
CHUNK = 20  # prompts that are replayed without the change before each lock
NOT_FOUND = "it does not match well enough"
_RECORDING = (ProjectMode.AUTOMATIC.value, ProjectMode.APPROVE.value)
_MODE_WORDS = {ProjectMode.OFF.value: "off", ProjectMode.OBSERVE.value: "only observed"}


@dataclass(frozen=True)
class LoggedPrompt:
    """A logged prompt, with as much of its text as the log stores."""

    uid: str
    text: str
    project: str
    at: datetime


@dataclass(frozen=True)
class Thresholds:
    """Limits of an injection; None is the configured value."""

    min_score: float | None = None
    max_count: int | None = None
    token_budget: int | None = None


@dataclass(frozen=True)
class AnswerMemory:
    """A memory in the answer to a prompt. ``reason``: why it is not in the other answer."""

    uid: str
    title: str
    sensitivity: str
    score: float
    reason: str = ""


@dataclass(frozen=True)
class Answer:
    """The memories injected for a prompt, and why others are withheld. ``reason``: why there are none."""

    shown: tuple[AnswerMemory, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    @classmethod
    def of(cls, chosen: Selection) -> Answer:
        shown = ((item.candidate.memory, item.candidate.score) for item in chosen.shown)
        return cls(
            tuple(
                AnswerMemory(memory.uid, memory.title, memory.sensitivity, score) for memory, score in shown
            ),
            {item.memory.uid: item.reason for item in chosen.withheld},
        )

    def without(self, other: Answer) -> list[AnswerMemory]:
        """Return the memories that the other answer lacks, with the reason."""
        other_uids = {memory.uid for memory in other.shown}
        return [
            replace(memory, reason=other.reason or other.reasons.get(memory.uid, NOT_FOUND))
            for memory in self.shown
            if memory.uid not in other_uids
        ]


@dataclass(frozen=True)
class PromptEffect:
    """A prompt whose answer would change."""

    prompt: LoggedPrompt
    before: Answer
    after: Answer

    @property
    def lost(self) -> list[AnswerMemory]:
        return self.before.without(self.after)

    @property
    def gained(self) -> list[AnswerMemory]:
        return self.after.without(self.before)


@dataclass(frozen=True)
class Effect:
    """The prompts whose answers would change, latest first. ``total``: prompts of the log to replay."""

    total: int = 0
    replayed: int = 0
    changed: tuple[PromptEffect, ...] = ()
    took_ms: float = 0.0

    def summary(self, uids: Iterable[str] = (), noun: str = "a memory") -> str:
        """Return the effect in a sentence. ``uids``: the memories to count, called ``noun``; default: all."""
        if not self.total:
            return "No prompt is in the log yet, so there is nothing to replay."
        wanted = set(uids)

        def has_wanted(memories: list[AnswerMemory]) -> bool:
            return any(not wanted or memory.uid in wanted for memory in memories)

        lost = sum(has_wanted(effect.lost) for effect in self.changed)
        gained = sum(has_wanted(effect.gained) for effect in self.changed)
        others = sum(not has_wanted([*effect.lost, *effect.gained]) for effect in self.changed)
        counts = [
            f"{count_with_verb(lost, 'prompt', 'loses', 'lose')} {noun}" if lost else "",
            f"{count_with_verb(gained, 'prompt', 'gains', 'gain')} {noun}" if gained else "",
            f"{count_with_verb(others, 'prompt', 'changes', 'change')} otherwise" if others else "",
        ]
        text = ", ".join(filter(None, counts)) or "no answer changes"
        return f"{text[0].upper()}{text[1:]}. Replayed {self.replayed} of {self.total} logged prompts."


def preview_change(clearance: Clearance, change: Callable[[], object]) -> Effect:
    """Replay the latest logged prompts without and with a change of memories, and compare the answers.

    ``clearance``: that of the viewer. ``change``: a function that makes the change. Its errors are raised,
    even if no prompt is logged. After :data:`MAX_SECONDS`, the remaining prompts are not replayed.
    """
    replay, limit = _Replay(clearance, timezone.now()), Deadline(MAX_SECONDS * 1000)
    changed = _find_changed_texts(change)
    prompts = latest_prompts(clearance)
    affected = [prompt for prompt in prompts if changed.may_affect(parse_prompt(prompt.text))]
    pairs = _answer_pairs(change, affected, replay, limit)
    effects = [PromptEffect(*pair) for pair in pairs]
    replayed = len(prompts) - len(affected) + len(effects)
    return _to_effect(len(prompts), replayed, effects, limit)


def preview_settings(
    clearance: Clearance, *, thresholds: Thresholds = Thresholds(), modes: Mapping[str, str] = {}
) -> Effect:
    """Replay the latest logged prompts with other thresholds or modes of projects. Nothing is locked."""
    replay, limit = _Replay(clearance, timezone.now()), Deadline(MAX_SECONDS * 1000)
    prompts, effects, replayed = latest_prompts(clearance), [], 0
    for prompt in prompts:
        if limit.left() <= 0:
            break
        replayed += 1
        if modes and prompt.project not in modes:
            continue
        candidates = replay.find(prompt)
        before = replay.select(prompt, candidates)
        after = replay.select(prompt, candidates, thresholds, modes)
        effects.append(PromptEffect(prompt, before, after))
    return _to_effect(len(prompts), replayed, effects, limit)


def _to_effect(total: int, replayed: int, effects: Iterable[PromptEffect], limit: Deadline) -> Effect:
    def uids(answer: Answer) -> list[str]:
        return [memory.uid for memory in answer.shown]

    changed = tuple(effect for effect in effects if uids(effect.before) != uids(effect.after))
    return Effect(total, replayed, changed, limit.elapsed_ms())


def latest_prompts(clearance: Clearance, limit: int = MAX_PROMPTS) -> list[LoggedPrompt]:
    """Return the latest different prompts of the visible log."""
    rows = Injection.objects.visible_to(clearance).exclude(prompt_preview="").order_by("-at", "-pk")
    prompts: dict[tuple[str, str], LoggedPrompt] = {}
    for row in rows.values_list("uid", "prompt_preview", "project", "at")[:MAX_LOG_ROWS]:
        prompt = LoggedPrompt(*row)
        prompts.setdefault((prompt.text, prompt.project), prompt)
    return list(prompts.values())[:limit]


class _Replay:
    """Answers prompts as the viewer may see them. Projects that are off or only observed get no memories."""

    def __init__(self, clearance: Clearance, now: datetime) -> None:
        self._clearance, self._now = clearance, now
        self._modes = dict(Project.objects.values_list("name", "mode"))

    def answer(self, prompt: LoggedPrompt) -> Answer:
        return self.select(prompt, self.find(prompt))

    def find(self, prompt: LoggedPrompt) -> CandidateSet:
        return candidates_for_prompt(_to_request(prompt), self._clearance, self._now)

    def select(
        self,
        prompt: LoggedPrompt,
        candidates: CandidateSet,
        limits: Thresholds = Thresholds(),
        modes: Mapping[str, str] = {},
    ) -> Answer:
        mode = modes.get(prompt.project) or self._modes.get(prompt.project, ProjectMode.AUTOMATIC.value)
        if mode not in _RECORDING:
            return Answer(reason=f"the project is {_MODE_WORDS[mode]}")
        return Answer.of(select_for_new_session(candidates, _to_request(prompt, limits), self._now))


def _to_request(prompt: LoggedPrompt, limits: Thresholds = Thresholds()) -> InjectionRequest:
    return InjectionRequest(
        prompt.text,
        project=prompt.project,
        token_budget=limits.token_budget,
        max_count=limits.max_count,
        min_score=limits.min_score,
    )


def _answer_pairs(
    change: Callable[[], object], prompts: Sequence[LoggedPrompt], replay: _Replay, limit: Deadline
) -> Iterator[tuple[LoggedPrompt, Answer, Answer]]:
    """Yield the answers without and with the change, for as many prompts as there is time."""
    before: dict[str, Answer] = {}
    done = 0
    while done < len(prompts) and limit.left() > 0:
        chunk = prompts[done : done + CHUNK]
        # Outside the lock. This also loads the data that the searches inside need.
        before |= {prompt.uid: replay.answer(prompt) for prompt in chunk if prompt.uid not in before}
        lock, found = Deadline(LOCK_MS), []
        with _rolled_back(change):
            for prompt in chunk:
                found.append(replay.find(prompt))
                if lock.left() <= 0:
                    break
        free_until = time.monotonic() + lock.elapsed_ms() / 1000
        done += len(found)
        # The texts are inspected outside the lock, because that takes longer than the search.
        for prompt, candidates in zip(chunk, found, strict=False):
            yield prompt, before[prompt.uid], replay.select(prompt, candidates)
        time.sleep(max(min(free_until - time.monotonic(), limit.left()), 0))


@contextmanager
def _rolled_back(change: Callable[[], object]) -> Iterator[None]:
    """Make the change, and roll it back at the end."""
    with without_vectors(), write_transaction(LOCK_PATIENCE):
        change()
        yield
        transaction.set_rollback(True)


@dataclass(frozen=True)
class _ChangedTexts:
    """The words of the changed memories before and after. ``affects_all``: every prompt may be affected."""

    text: str
    stems: frozenset[str]
    has_files: bool
    affects_all: bool

    def may_affect(self, prompt: ParsedPrompt) -> bool:
        """Whether the prompt shares anything with the changed memories by which it could find them."""
        if self.affects_all or (prompt.files and self.has_files):
            return True
        for term in prompt.terms:
            literal = fold(term.literal)
            if not self.stems.isdisjoint(term.stems) or (literal and literal in self.text):
                return True
            if CJK.search(term.literal):
                return True
        return any(len(word) >= MIN_SUBSTRING_LENGTH and word in self.text for word in prompt.words)


def _find_changed_texts(change: Callable[[], object]) -> _ChangedTexts:
    """Make the change once, and return the texts of the memories that it changes."""
    start = change_log.current_position()
    with _rolled_back(change):
        keys = change_log.memories_between(start, change_log.current_position())
        after = _read_state(keys)
    before = _read_state(keys)
    text = fold(" ".join([*before[0], *after[0]]))
    return _ChangedTexts(
        text,
        frozenset(map(stem, words(text))),
        has_files=before[1] or after[1],
        affects_all=before[2] or after[2],
    )


def _read_state(keys: Sequence[int]) -> tuple[list[Any], bool, bool]:
    """Return the texts of memories, whether they have files, and whether one replaces another."""
    rows = read_memories(", ".join(TEXT_COLUMNS), keys)
    linked = Memory.objects.filter(Q(pk__in=keys) | Q(superseded_by__in=keys), superseded_by__isnull=False)
    return (
        [text for row in rows for text in row if text],
        FileLink.objects.filter(memory__in=keys).exists(),
        linked.exists(),
    )
