"""The effect of a change on what agents are shown: logged prompts are replayed before and after it.

The change is made by its usual writer, in transactions that are always rolled back. Each lasts at most about
:data:`LOCK_MS`, and other writers get as much time between two of them. A replay sees only what its viewer
may see: the log, the memories and the texts. It logs no injection and counts no access.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.core.database import Deadline, write_transaction
from memoryhub.core.vocabulary import ProjectMode
from memoryhub.injection.requests import InjectionRequest
from memoryhub.injection.selection import Selection
from memoryhub.injection.services import select_for_prompt
from memoryhub.memories.vectors import without_vectors
from memoryhub.models import Injection, Project

MAX_PROMPTS = 200
MAX_LOG_ROWS = 1000  # rows of the log that are read for so many different prompts
MAX_SECONDS = 8.0  # of a whole replay
LOCK_MS = 80.0  # of one transaction
LOCK_PATIENCE = 2.0  # seconds to wait for other writers, for each transaction
GONE = "no longer found"
_RECORDING = (ProjectMode.AUTOMATIC.value, ProjectMode.APPROVE.value)


@dataclass(frozen=True)
class LoggedPrompt:
    """A prompt of the log: as much of its text as the log keeps."""

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
class ShownMemory:
    """A memory in the answer to a prompt. ``reason``: why it is not in the other answer."""

    uid: str
    title: str
    sensitivity: str
    score: float
    reason: str = ""


@dataclass(frozen=True)
class Answer:
    """The memories that a prompt brings, and why others are withheld."""

    shown: tuple[ShownMemory, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, chosen: Selection) -> Answer:
        shown = ((one.candidate.memory, one.candidate.score) for one in chosen.shown)
        return cls(
            tuple(ShownMemory(one.uid, one.title, one.sensitivity, score) for one, score in shown),
            {one.memory.uid: one.reason for one in chosen.withheld},
        )

    def without(self, other: Answer) -> list[ShownMemory]:
        """Return the memories that the other answer lacks, with the reason."""
        others = {one.uid for one in other.shown}
        return [
            replace(one, reason=other.reasons.get(one.uid, GONE))
            for one in self.shown
            if one.uid not in others
        ]


@dataclass(frozen=True)
class PromptEffect:
    """A prompt whose answer would change."""

    prompt: LoggedPrompt
    before: Answer
    after: Answer

    @property
    def lost(self) -> list[ShownMemory]:
        return self.before.without(self.after)

    @property
    def gained(self) -> list[ShownMemory]:
        return self.after.without(self.before)


@dataclass(frozen=True)
class Effect:
    """The prompts whose answers would change, latest first. ``total``: prompts of the log to replay."""

    total: int = 0
    replayed: int = 0
    changed: tuple[PromptEffect, ...] = ()
    took_ms: float = 0.0

    def count(self, uids: Iterable[str] = ()) -> tuple[int, int]:
        """Return how many prompts lose one of these memories, and how many gain one; any without ids."""
        wanted = set(uids)

        def has(memories: list[ShownMemory]) -> bool:
            return any(not wanted or one.uid in wanted for one in memories)

        return sum(has(one.lost) for one in self.changed), sum(has(one.gained) for one in self.changed)


@dataclass(frozen=True)
class Replay:
    """What differs between two replays. ``modes``: modes of projects other than the stored ones."""

    thresholds: Thresholds = Thresholds()
    modes: Mapping[str, str] = field(default_factory=dict)


def preview_effect(
    clearance: Clearance,
    change: Callable[[], object] | None = None,
    *,
    after: Replay | None = None,
    now: datetime | None = None,
) -> Effect:
    """Replay the latest logged prompts without and with a change, and compare the answers.

    ``clearance``: of the viewer. ``change``: makes the change with the usual writer; its refusals are raised,
    also without any prompt. ``after``: the thresholds and modes of the second replay. The replay ends after
    :data:`MAX_SECONDS`; then fewer prompts are replayed than there are.
    """
    now, limit = now or timezone.now(), Deadline(MAX_SECONDS * 1000)
    prompts = latest_prompts(clearance)
    replay = _Replayer(clearance, now)
    second = _answers_with(change, prompts, replay, after or Replay(), limit)
    changed, replayed = [], 0
    for prompt, answer in second:
        before = replay.answer(prompt, Replay())
        replayed += 1
        if [one.uid for one in before.shown] != [one.uid for one in answer.shown]:
            changed.append(PromptEffect(prompt, before, answer))
    return Effect(len(prompts), replayed, tuple(changed), limit.took())


def latest_prompts(clearance: Clearance, limit: int = MAX_PROMPTS) -> list[LoggedPrompt]:
    """Return the latest different prompts of the visible log."""
    rows = Injection.objects.visible_to(clearance).exclude(prompt_preview="").order_by("-at", "-pk")
    found: dict[tuple[str, str], LoggedPrompt] = {}
    for row in rows.values_list("uid", "prompt_preview", "project", "at")[:MAX_LOG_ROWS]:
        prompt = LoggedPrompt(*row)
        found.setdefault((prompt.text, prompt.project), prompt)
    return list(found.values())[:limit]


class _Replayer:
    """Answers prompts as the viewer may see them, in the modes of the projects."""

    def __init__(self, clearance: Clearance, now: datetime) -> None:
        self._clearance, self._now = clearance, now
        self._modes = dict(Project.objects.values_list("name", "mode"))

    def answer(self, prompt: LoggedPrompt, replay: Replay) -> Answer:
        mode = {**self._modes, **replay.modes}.get(prompt.project, ProjectMode.AUTOMATIC.value)
        if mode not in _RECORDING:
            return Answer()
        limits = replay.thresholds
        request = InjectionRequest(
            prompt.text,
            project=prompt.project,
            token_budget=limits.token_budget,
            max_count=limits.max_count,
            min_score=limits.min_score,
        )
        return Answer.of(select_for_prompt(request, self._clearance, self._now))


def _answers_with(
    change: Callable[[], object] | None,
    prompts: list[LoggedPrompt],
    replay: _Replayer,
    after: Replay,
    limit: Deadline,
) -> Iterator[tuple[LoggedPrompt, Answer]]:
    """Yield the answers after the change, as many as there is time for."""
    if change is None:
        for prompt in prompts:
            if limit.left() <= 0:
                return
            yield prompt, replay.answer(prompt, after)
        return
    begun = 0
    while limit.left() > 0 and (begun < len(prompts) or not begun):
        answers = []
        lock = Deadline(LOCK_MS)
        with _rolled_back(change):
            for prompt in prompts[begun:]:
                answers.append((prompt, replay.answer(prompt, after)))
                if lock.left() <= 0:
                    break
        if not prompts:
            return  # the change was tried alone, for its refusals
        begun += len(answers)
        rest = lock.took() / 1000
        resumed = time.monotonic() + rest
        yield from answers  # their first replay needs no lock, so other writers get this time
        time.sleep(max(min(resumed - time.monotonic(), limit.left()), 0))


@contextmanager
def _rolled_back(change: Callable[[], object]) -> Iterator[None]:
    """Make the change, and roll it back at the end."""
    with without_vectors(), write_transaction(LOCK_PATIENCE):
        change()
        yield
        transaction.set_rollback(True)
