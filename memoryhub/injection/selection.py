"""Select the memories for the block, and record why the others are withheld.

Selected memories reach the minimum score, are new to the session, balanced over the time scales, free of
instructions to the agent, and fit into the token budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.conf import settings

from memoryhub.capabilities import TEMPORAL, call_capability
from memoryhub.core.database import Deadline
from memoryhub.core.text import estimate_tokens, without_title_line
from memoryhub.injection import context_block
from memoryhub.injection.candidates import Candidate
from memoryhub.injection.project_page import PageEntry
from memoryhub.memories.evidence import SCALES, Scale, balance_scales, memory_scale
from memoryhub.memories.rows import ListValues, load_lists
from memoryhub.models import Memory
from memoryhub.security.prompt_injection import FieldsVerdict, inspect_fields

BELOW_FLOOR = "below the floor"
ALREADY_SHOWN = "already shown in this session"
OVER_COUNT = "over the count"
OVER_BUDGET = "over the budget"
OVER_PINNED_BUDGET = "over the budget of pinned memories"
OUTDATED = "may be outdated"
CUT_SHORT = "cut short"
PINNED = "pinned"  # in place of a time scale
BLOCKED = "blocked by the governor"
REDACTED = "instruction removed"
WITHHOLD = "withhold"  # a value of the setting outdated_memories
MAX_BELOW_FLOOR = 5  # reported candidates below the minimum score
MAX_OVER_COUNT = 10  # reported candidates over the count
MAX_BUDGET_SHARES = 3  # a text is inspected up to the whole budget divided by at most this


@dataclass(frozen=True)
class InspectedCandidate:
    """A candidate with the result of the prompt injection detector.

    ``fields``: its texts; ``verdict``: the result; ``passage``: the cleaned entry; ``text``: as much of the
    entry's text as fits.
    """

    candidate: Candidate
    scale: str
    fields: Mapping[str, str | list[str]]
    verdict: FieldsVerdict
    passage: context_block.BlockEntry
    text: str = ""

    @property
    def removed_kinds(self) -> str:
        """The kinds of removed instructions, as one string."""
        return ", ".join(sorted({one.finding.kind for one in self.verdict.findings if one.finding.removed}))

    @property
    def is_cut(self) -> bool:
        """Whether the text of the memory is longer than ``text``."""
        memory = self.candidate.memory
        whole = without_title_line(memory.content, memory.title)
        return self.text.endswith(context_block.ELLIPSIS) and not whole.endswith(context_block.ELLIPSIS)

    @property
    def is_blocked(self) -> bool:
        """Whether no word of title and text is left."""
        return context_block.is_blocked(self.verdict, f"{self.passage.title} {self.passage.text}")


@dataclass(frozen=True)
class WithheldCandidate:
    """A memory that is not in the block, or only in part. ``governed``: the result of the detector."""

    candidate: Candidate
    reason: str
    detail: str = ""
    governed: InspectedCandidate | None = None

    @property
    def memory(self) -> Memory:
        return self.candidate.memory


@dataclass
class Selection:
    """The shown memories, best first, the withheld ones, and the shown lines of the project's page.

    ``notes``: steps that were skipped. ``warnings``: for the person, about pinned memories.
    """

    shown: list[InspectedCandidate] = field(default_factory=list)
    withheld: list[WithheldCandidate] = field(default_factory=list)
    page: list[PageEntry] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def withhold(self, candidates: Iterable[Candidate], reason: str) -> None:
        self.withheld += [WithheldCandidate(candidate, reason) for candidate in candidates]

    def withhold_inspected(self, inspected: Iterable[InspectedCandidate], reason: str) -> None:
        self.withheld += [
            WithheldCandidate(one.candidate, reason, one.removed_kinds, one) for one in inspected
        ]


def select_memories(
    candidates: Sequence[Candidate],
    shown_at: Mapping[str, datetime],
    budget: int,
    count: int,
    now: datetime,
    deadline: Deadline,
    min_score: float,
) -> Selection:
    """Select memories for the block. ``shown_at``: when the session was last shown each memory."""
    selection = Selection()
    fit = _filter_candidates(candidates, shown_at, selection, min_score)
    inspected: dict[int, InspectedCandidate] = {}
    while True:
        picked = _pick_by_scale(fit, count, now, selection.notes)
        _inspect_new(picked, budget, inspected, deadline)
        selection.shown = [inspected[candidate.memory.pk] for candidate, _ in picked]
        blocked = [one for one in selection.shown if one.is_blocked]
        if not blocked:
            break
        # Replace blocked candidates by the next best.
        selection.withhold_inspected(blocked, BLOCKED)
        fit = [one for one in fit if one not in [other.candidate for other in blocked]]
    selection.withhold_inspected([one for one in selection.shown if one.removed_kinds], REDACTED)
    shown = {one.candidate for one in selection.shown}
    over = [one for one in fit if one not in shown]
    selection.withhold(over[:MAX_OVER_COUNT], OVER_COUNT)
    _fit_budget(selection, budget)
    return selection


def select_pinned(
    pinned: Sequence[Candidate], shown_at: Mapping[str, datetime], budget: int, deadline: Deadline
) -> Selection:
    """Select pinned memories that are new to the session, in order, as many as fit whole into their budget.

    A memory that does not fit is left out, and not inspected, because that takes time. Only the first one is
    cut instead; it is then both shown and withheld as over the budget.
    """
    selection, left = Selection(), budget - context_block.EMPTY_TOKENS
    fit = [one for one in pinned if not _is_known(one.memory, shown_at)]
    selection.withhold([one for one in pinned if one not in fit], ALREADY_SHOWN)
    for one in fit:
        if selection.shown and estimate_tokens(one.memory.content) > left:
            selection.withhold([one], OVER_PINNED_BUDGET)
            continue
        inspected: dict[int, InspectedCandidate] = {}
        _inspect_new([(one, PINNED)], budget, inspected, deadline, budget)
        [entry] = inspected.values()
        cost = estimate_tokens(context_block.render_entry(entry.passage, entry.passage.text)) + 1
        if entry.is_blocked:
            selection.withhold_inspected([entry], BLOCKED)
        elif selection.shown and cost > left:
            selection.withhold([one], OVER_PINNED_BUDGET)
        else:
            selection.shown.append(entry)
            left -= cost
    selection.withhold_inspected([one for one in selection.shown if one.removed_kinds], REDACTED)
    while len(selection.shown) > 1 and _are_cut([one.passage for one in selection.shown], budget):
        selection.withhold([selection.shown.pop().candidate], OVER_PINNED_BUDGET)
    _fit_budget(selection, budget, OVER_PINNED_BUDGET)
    selection.withheld += [
        WithheldCandidate(one.candidate, OVER_PINNED_BUDGET, CUT_SHORT)
        for one in selection.shown
        if one.is_cut
    ]
    return selection


def _are_cut(passages: Sequence[context_block.BlockEntry], budget: int) -> bool:
    """Whether a text does not fit whole into the budget."""
    texts = context_block.fit_texts(passages, budget)
    return texts is None or any(text.endswith(context_block.ELLIPSIS) for text in texts)


def pinned_warnings(chosen: Selection) -> list[str]:
    """Return a line if the pinned memories exceed their budget."""
    over = [one for one in chosen.withheld if one.reason == OVER_PINNED_BUDGET]
    if not over:
        return []
    cut = sum(one.detail == CUT_SHORT for one in over)
    shown, total = len(chosen.shown), len(chosen.shown) + len(over) - cut
    budget = settings.MEMORYHUB.pinned_token_budget
    return [
        f"pinned memories exceed pinned_token_budget ({budget} tokens): {shown} of {total} shown"
        f"{', cut short' if cut else ''}; unpin some, or raise the budget"
    ]


def _filter_candidates(
    candidates: Sequence[Candidate], shown_at: Mapping[str, datetime], selection: Selection, min_score: float
) -> list[Candidate]:
    """Return the candidates that reach the minimum score and are new to the session, or changed since."""
    fit, below = [], []
    for candidate in candidates:
        if candidate.score < min_score:
            below.append(candidate)
        elif is_withheld_as_outdated(candidate.memory):
            selection.withhold([candidate], OUTDATED)
        elif _is_known(candidate.memory, shown_at):
            selection.withhold([candidate], ALREADY_SHOWN)
        else:
            fit.append(candidate)
    selection.withhold(below[:MAX_BELOW_FLOOR], BELOW_FLOOR)
    return fit


def is_withheld_as_outdated(memory: Memory) -> bool:
    """Whether the settings withhold the memory because its code changed. Pins are injected with the mark."""
    withholds = settings.MEMORYHUB.outdated_memories == WITHHOLD
    return withholds and memory.may_be_outdated and not memory.pinned


def _is_known(memory: Memory, shown_at: Mapping[str, datetime]) -> bool:
    """Whether the session was shown the memory, which has not changed since."""
    at = shown_at.get(memory.uid)
    return at is not None and memory.updated_at <= at


def _pick_by_scale(
    fit: Sequence[Candidate], count: int, now: datetime, notes: list[str]
) -> list[tuple[Candidate, str]]:
    """Return the best candidates with their time scales, balanced over these if that is switched on."""

    def balance() -> list[tuple[Candidate, str]]:
        scales = {candidate.memory.pk: memory_scale(candidate.memory, now) for candidate in fit}
        picked = balance_scales(
            fit, lambda candidate: scales[candidate.memory.pk], _counts_by_scale(count), count
        )
        return [(candidate, scales[candidate.memory.pk].value) for candidate in picked]

    balanced = call_capability(TEMPORAL, balance, notes)
    return [(candidate, "") for candidate in fit[:count]] if balanced is None else balanced


def _counts_by_scale(count: int) -> dict[Scale, int]:
    """Return the configured count of each scale, increased in proportion if ``count`` exceeds their sum."""
    counts = {scale: int(getattr(settings.MEMORYHUB, f"{scale.value}_count")) for scale in SCALES}
    total = sum(counts.values())
    if not total:
        return {**counts, Scale.PROJECT: count}
    return {scale: -(-n * max(count, total) // total) for scale, n in counts.items()}


def _inspect_new(
    picked: list[tuple[Candidate, str]],
    budget: int,
    inspected: dict[int, InspectedCandidate],
    deadline: Deadline,
    share: int | None = None,
) -> None:
    """Add the candidates that are not yet inspected to ``inspected``. ``share``: tokens of each text."""
    new = [(candidate, scale) for candidate, scale in picked if candidate.memory.pk not in inspected]
    lists = load_lists([candidate.memory for candidate, _ in new])
    if share is None:
        share = budget // max(min(len(picked), MAX_BUDGET_SHARES), 1)
    for candidate, scale in new:
        deadline.check()
        pk = candidate.memory.pk
        inspected[pk] = _inspect_candidate(candidate, scale, lists[pk], share)


def usual_share() -> int:
    """Return the tokens of a text in an injection of several memories with the default budget."""
    return settings.MEMORYHUB.token_budget // MAX_BUDGET_SHARES


def injected_fields(memory: Memory, lists: ListValues, share: int) -> dict[str, str | list[str]]:
    """Return the texts of a memory that an injection shows and inspects. ``share``: tokens of its text."""
    paths = [*lists["files_modified"], *lists["files_read"]]
    return {
        "title": memory.title[:1000],
        "text": context_block.cut_text(
            without_title_line(memory.content, memory.title, under_title=True), share
        ),
        "type": memory.type,
        "project": memory.project,
        "files": list(dict.fromkeys(paths))[: context_block.MAX_LABELS],
        "tags": lists["tags"][: context_block.MAX_LABELS],
    }


def _inspect_candidate(candidate: Candidate, scale: str, lists: ListValues, share: int) -> InspectedCandidate:
    memory = candidate.memory
    fields = injected_fields(memory, lists, share)
    verdict = inspect_fields(fields, memory.inspected)
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
        may_be_outdated=memory.may_be_outdated,
    )
    return InspectedCandidate(candidate, scale, fields, verdict, passage)


def _fit_budget(selection: Selection, budget: int, reason: str = OVER_BUDGET) -> None:
    """Cut the texts to the budget. If they do not fit, drop the last memories."""
    shown = list(selection.shown)
    texts: list[str] | None = []
    while shown:
        texts = context_block.fit_texts([one.passage for one in shown], budget)
        if texts is not None:
            break
        selection.withhold([shown.pop().candidate], reason)
    selection.shown = [replace(one, text=text) for one, text in zip(shown, texts or [], strict=True)]
