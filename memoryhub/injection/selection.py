"""Which of the candidates go into the block, and why the others do not.

They are above the floor, new to the session, balanced over the scales, governed, and within the budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.conf import settings

from memoryhub.capabilities import TEMPORAL, call_capability
from memoryhub.core.timeouts import Deadline
from memoryhub.injection import context_block
from memoryhub.injection.candidates import Candidate
from memoryhub.memories.rows import ListValues, load_lists
from memoryhub.memories.temporal import SCALES, Scale, balance_scales, memory_scale
from memoryhub.models import Memory
from memoryhub.security.prompt_injection import INSTRUCTION_REMOVED, FieldsVerdict, inspect_fields

BELOW_FLOOR = "below the floor"
ALREADY_SHOWN = "already shown in this session"
OVER_COUNT = "over the count"
OVER_BUDGET = "over the budget"
BLOCKED = "blocked by the governor"
REDACTED = "instruction removed"
MAX_BELOW_FLOOR = 5  # of those below the floor, the best
MAX_OVER_COUNT = 10  # of those that found no room
MAX_BUDGET_SHARES = (
    3  # a text may take the whole budget alone, and no less than a third of it beside many others
)


@dataclass(frozen=True)
class InspectedCandidate:
    """A memory as the block shows it.

    ``fields`` are its texts, ``verdict`` what the governor says of them, ``passage`` what it left of them,
    ``text`` as much of that as there is room for.
    """

    candidate: Candidate
    scale: str
    fields: Mapping[str, str | list[str]]
    verdict: FieldsVerdict
    passage: context_block.BlockEntry
    text: str = ""


@dataclass(frozen=True)
class WithheldCandidate:
    """A memory that is not in the block, or not all of it; ``governed``: what the governor found."""

    candidate: Candidate
    reason: str
    detail: str = ""
    governed: InspectedCandidate | None = None

    @property
    def memory(self) -> Memory:
        return self.candidate.memory


@dataclass
class Selection:
    """What is shown, best first, and what is held back."""

    shown: list[InspectedCandidate] = field(default_factory=list)
    withheld: list[WithheldCandidate] = field(default_factory=list)


def select_memories(
    found: Sequence[Candidate],
    known: Mapping[str, datetime],
    budget: int,
    count: int,
    now: datetime,
    deadline: Deadline,
    notes: list[str],
) -> Selection:
    """``known``: when this session was shown which memory. ``notes`` takes what was skipped."""
    chosen = Selection()
    fit = _filter_candidates(found, known, chosen)
    looked: dict[int, InspectedCandidate] = {}
    while True:
        picked = _inspect_all(_pick_by_scale(fit, count, now, notes), budget, looked, deadline)
        blocked = [one for one in picked if _is_blocked(one)]
        if not blocked:
            break
        # The next best take their places.
        chosen.withheld += [
            WithheldCandidate(one.candidate, BLOCKED, _removed_kinds(one), one) for one in blocked
        ]
        fit = [one for one in fit if one not in [held.candidate for held in blocked]]
    chosen.withheld += [
        WithheldCandidate(one.candidate, REDACTED, _removed_kinds(one), one)
        for one in picked
        if _removed_kinds(one)
    ]
    chosen.shown = picked
    over = [one for one in fit if one not in [shown.candidate for shown in picked]]
    chosen.withheld += [WithheldCandidate(one, OVER_COUNT) for one in over[:MAX_OVER_COUNT]]
    _fit_budget(chosen, budget)
    return chosen


def _inspect_all(
    picked: list[tuple[Candidate, str]],
    budget: int,
    looked: dict[int, InspectedCandidate],
    deadline: Deadline,
) -> list[InspectedCandidate]:
    """What the governor leaves of these; ``looked`` keeps what it looked at before."""
    new = [(candidate, scale) for candidate, scale in picked if candidate.memory.pk not in looked]
    lists = load_lists([candidate.memory for candidate, _ in new])
    share = budget // max(min(len(picked), MAX_BUDGET_SHARES), 1)
    for candidate, scale in new:
        deadline.check()
        pk = candidate.memory.pk
        looked[pk] = _inspect_candidate(candidate, scale, lists[pk], share)
    return [looked[candidate.memory.pk] for candidate, _ in picked]


def _filter_candidates(
    found: Sequence[Candidate], known: Mapping[str, datetime], chosen: Selection
) -> list[Candidate]:
    """Those at or above the floor that the session has not been shown as they are."""
    floor = settings.MEMORYHUB.injection_min_score
    fit, below = [], []
    for one in found:
        shown_at = known.get(one.memory.uid)
        if one.score < floor:
            below.append(one)
        elif shown_at and one.memory.updated_at <= shown_at:
            chosen.withheld.append(WithheldCandidate(one, ALREADY_SHOWN))
        else:
            fit.append(one)
    chosen.withheld += [WithheldCandidate(one, BELOW_FLOOR) for one in below[:MAX_BELOW_FLOOR]]
    return fit


def _pick_by_scale(
    fit: Sequence[Candidate], count: int, now: datetime, notes: list[str]
) -> list[tuple[Candidate, str]]:
    """The candidates with their scales: balanced over these, or by score when that is switched off."""
    scaled = call_capability(TEMPORAL, lambda: _balance_scales(fit, count, now), notes)
    return [(one, "") for one in fit[:count]] if scaled is None else scaled


def _balance_scales(fit: Sequence[Candidate], count: int, now: datetime) -> list[tuple[Candidate, str]]:
    scales = {one.memory.pk: memory_scale(one.memory, now) for one in fit}
    picked = balance_scales(fit, lambda one: scales[one.memory.pk], _counts_by_scale(count), count)
    return [(one, scales[one.memory.pk].value) for one in picked]


def _counts_by_scale(count: int) -> dict[Scale, int]:
    """How many of each scale; when more are asked for than these make, in the same proportion."""
    counts = {scale: int(getattr(settings.MEMORYHUB, f"{scale.value}_count")) for scale in SCALES}
    whole = sum(counts.values())
    if not whole:
        return {**counts, Scale.PROJECT: count}
    return {scale: -(-n * max(count, whole) // whole) for scale, n in counts.items()}


def _inspect_candidate(candidate: Candidate, scale: str, lists: ListValues, share: int) -> InspectedCandidate:
    memory = candidate.memory
    paths = [*lists["files_modified"], *lists["files_read"]]
    fields: dict[str, str | list[str]] = {
        "title": memory.title[:1000],
        "text": context_block.cut_text(_text_without_title(memory), share),
        "type": memory.type,
        "project": memory.project,
        "files": list(dict.fromkeys(paths))[: context_block.MAX_LABELS],
        "tags": lists["tags"][: context_block.MAX_LABELS],
    }
    verdict = inspect_fields(fields)
    clean = {name: value if isinstance(value, str) else "" for name, value in verdict.clean.items()}
    passage = context_block.BlockEntry(
        uid=memory.uid,
        type=clean["type"],
        date=f"{memory.created_at:%Y-%m-%d}",
        project=clean["project"],
        title=clean["title"],
        text=clean["text"],
        files=tuple(verdict.clean["files"]),
        tags=tuple(verdict.clean["tags"]),
    )
    return InspectedCandidate(candidate, scale, fields, verdict, passage)


def _text_without_title(memory: Memory) -> str:
    """The content; without its first line when the title says that already."""
    first, _, rest = memory.content.strip().partition("\n")
    return rest.strip() if first.strip() == memory.title.strip() else memory.content


def _removed_kinds(governed: InspectedCandidate) -> str:
    """What was removed, by kind."""
    found = governed.verdict.findings
    return ", ".join(sorted({one.finding.kind for one in found if one.finding.removed}))


def _is_blocked(governed: InspectedCandidate) -> bool:
    """Whether the governor left nothing of title and text."""
    left = f"{governed.passage.title} {governed.passage.text}".replace(INSTRUCTION_REMOVED, "")
    return governed.verdict.blocked or not any(map(str.isalnum, left))


def _fit_budget(chosen: Selection, budget: int) -> None:
    """Cut texts so that the block keeps within the budget; the last go when there is no room for all."""
    shown = list(chosen.shown)
    while shown:
        texts = context_block.fit_texts([one.passage for one in shown], budget)
        if texts is not None:
            break
        dropped = shown.pop()
        chosen.withheld.append(WithheldCandidate(dropped.candidate, OVER_BUDGET))
    else:
        texts = []
    chosen.shown = [replace(one, text=text) for one, text in zip(shown, texts, strict=True)]
