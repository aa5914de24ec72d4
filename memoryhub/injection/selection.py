"""Which of the candidates go into the block, and why the others do not.

They are above the floor, new to the session, balanced over the scales, governed, and within the budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.conf import settings

from memoryhub.capabilities import TEMPORAL, consult
from memoryhub.core.timeouts import Deadline
from memoryhub.injection import context_block
from memoryhub.injection.candidates import Candidate
from memoryhub.memories.details import Lists, lists_of
from memoryhub.memories.temporal import SCALES, Scale, balanced, scale_at
from memoryhub.models import Memory
from memoryhub.security.prompt_injection import MARK, FieldsVerdict, inspect_fields

BELOW = "below the floor"
BEFORE = "already shown in this session"
OVER_COUNT = "over the count"
OVER_BUDGET = "over the budget"
BLOCKED = "blocked by the governor"
REDACTED = "instruction removed"
MOST_BELOW = 5  # of those below the floor, the best
MOST_OVER = 10  # of those that found no room
SHARERS = 3  # a text may take the whole budget alone, and no less than a third of it beside many others


@dataclass(frozen=True)
class Governed:
    """A memory as the block shows it.

    ``fields`` are its texts, ``verdict`` what the governor says of them, ``passage`` what it left of them,
    ``text`` as much of that as there is room for.
    """

    candidate: Candidate
    scale: str
    fields: Mapping[str, str | list[str]]
    verdict: FieldsVerdict
    passage: context_block.Passage
    text: str = ""


@dataclass(frozen=True)
class HeldBack:
    """A memory that is not in the block, or not all of it; ``governed``: what the governor found."""

    candidate: Candidate
    reason: str
    detail: str = ""
    governed: Governed | None = None

    @property
    def memory(self) -> Memory:
        return self.candidate.memory


@dataclass
class Choice:
    """What is shown, best first, and what is held back."""

    shown: list[Governed] = field(default_factory=list)
    withheld: list[HeldBack] = field(default_factory=list)


def choose(
    found: Sequence[Candidate],
    known: Mapping[str, datetime],
    budget: int,
    count: int,
    now: datetime,
    deadline: Deadline,
    notes: list[str],
) -> Choice:
    """``known``: when this session was shown which memory. ``notes`` takes what was skipped."""
    chosen = Choice()
    fit = _sift(found, known, chosen)
    looked: dict[int, Governed] = {}
    while True:
        picked = _govern(_picked(fit, count, now, notes), budget, looked, deadline)
        blocked = [one for one in picked if _is_blocked(one)]
        if not blocked:
            break
        # The next best take their places.
        chosen.withheld += [HeldBack(one.candidate, BLOCKED, _kinds(one), one) for one in blocked]
        fit = [one for one in fit if one not in [held.candidate for held in blocked]]
    chosen.withheld += [HeldBack(one.candidate, REDACTED, _kinds(one), one) for one in picked if _kinds(one)]
    chosen.shown = picked
    over = [one for one in fit if one not in [shown.candidate for shown in picked]]
    chosen.withheld += [HeldBack(one, OVER_COUNT) for one in over[:MOST_OVER]]
    _squeeze(chosen, budget)
    return chosen


def _govern(
    picked: list[tuple[Candidate, str]], budget: int, looked: dict[int, Governed], deadline: Deadline
) -> list[Governed]:
    """What the governor leaves of these; ``looked`` keeps what it looked at before."""
    new = [(candidate, scale) for candidate, scale in picked if candidate.memory.pk not in looked]
    lists = lists_of([candidate.memory for candidate, _ in new])
    share = budget // max(min(len(picked), SHARERS), 1)
    for candidate, scale in new:
        deadline.check()
        pk = candidate.memory.pk
        looked[pk] = _governed(candidate, scale, lists[pk], share)
    return [looked[candidate.memory.pk] for candidate, _ in picked]


def _sift(found: Sequence[Candidate], known: Mapping[str, datetime], chosen: Choice) -> list[Candidate]:
    """Those at or above the floor that the session has not been shown as they are."""
    floor = settings.MEMORYHUB.injection_min_score
    fit, below = [], []
    for one in found:
        shown_at = known.get(one.memory.uid)
        if one.score < floor:
            below.append(one)
        elif shown_at and one.memory.updated_at <= shown_at:
            chosen.withheld.append(HeldBack(one, BEFORE))
        else:
            fit.append(one)
    chosen.withheld += [HeldBack(one, BELOW) for one in below[:MOST_BELOW]]
    return fit


def _picked(
    fit: Sequence[Candidate], count: int, now: datetime, notes: list[str]
) -> list[tuple[Candidate, str]]:
    """The candidates with their scales: balanced over these, or by score when that is switched off."""
    scaled = consult(TEMPORAL, lambda: _balanced(fit, count, now), notes)
    return [(one, "") for one in fit[:count]] if scaled is None else scaled


def _balanced(fit: Sequence[Candidate], count: int, now: datetime) -> list[tuple[Candidate, str]]:
    scales = {one.memory.pk: scale_at(one.memory, now) for one in fit}
    picked = balanced(fit, lambda one: scales[one.memory.pk], _counts(count), count)
    return [(one, scales[one.memory.pk].value) for one in picked]


def _counts(count: int) -> dict[Scale, int]:
    """How many of each scale; when more are asked for than these make, in the same proportion."""
    counts = {scale: int(getattr(settings.MEMORYHUB, f"{scale.value}_count")) for scale in SCALES}
    whole = sum(counts.values())
    if not whole:
        return {**counts, Scale.PROJECT: count}
    return {scale: -(-n * max(count, whole) // whole) for scale, n in counts.items()}


def _governed(candidate: Candidate, scale: str, lists: Lists, share: int) -> Governed:
    memory = candidate.memory
    paths = [*lists["files_modified"], *lists["files_read"]]
    fields: dict[str, str | list[str]] = {
        "title": memory.title[:1000],
        "text": context_block.cut(_without_title(memory), share),
        "type": memory.type,
        "project": memory.project,
        "files": list(dict.fromkeys(paths))[: context_block.MOST_LABELS],
        "tags": lists["tags"][: context_block.MOST_LABELS],
    }
    verdict = inspect_fields(fields)
    clean = {name: value if isinstance(value, str) else "" for name, value in verdict.clean.items()}
    passage = context_block.Passage(
        uid=memory.uid,
        type=clean["type"],
        date=f"{memory.created_at:%Y-%m-%d}",
        project=clean["project"],
        title=clean["title"],
        text=clean["text"],
        files=tuple(verdict.clean["files"]),
        tags=tuple(verdict.clean["tags"]),
    )
    return Governed(candidate, scale, fields, verdict, passage)


def _without_title(memory: Memory) -> str:
    """The content; without its first line when the title says that already."""
    first, _, rest = memory.content.strip().partition("\n")
    return rest.strip() if first.strip() == memory.title.strip() else memory.content


def _kinds(governed: Governed) -> str:
    """What was removed, by kind."""
    found = governed.verdict.findings
    return ", ".join(sorted({one.finding.kind for one in found if one.finding.removed}))


def _is_blocked(governed: Governed) -> bool:
    """Whether the governor left nothing of title and text."""
    left = f"{governed.passage.title} {governed.passage.text}".replace(MARK, "")
    return governed.verdict.blocked or not any(map(str.isalnum, left))


def _squeeze(chosen: Choice, budget: int) -> None:
    """Cut texts so that the block keeps within the budget; the last go when there is no room for all."""
    shown = list(chosen.shown)
    while shown:
        texts = context_block.fit([one.passage for one in shown], budget)
        if texts is not None:
            break
        dropped = shown.pop()
        chosen.withheld.append(HeldBack(dropped.candidate, OVER_BUDGET))
    else:
        texts = []
    chosen.shown = [replace(one, text=text) for one, text in zip(shown, texts, strict=True)]
