"""Compare two versions of a text by lines and by words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import islice

from memoryhub.core.text import CJK, normalize_newlines

# Unchanged lines shown around a change; longer stretches become one row with their number.
CONTEXT_LINES = 3
# Beyond these limits, which grow with the texts, whole lines are shown as removed and added: lines times
# lines; words times words over all pairs of lines; lines of one stretch that are paired by similarity.
_MIN_LINE_PAIRS, _LINE_PAIRS_PER_CHARACTER = 50_000, 10
_MIN_WORD_PAIRS, _WORD_PAIRS_PER_CHARACTER = 20_000, 2
_MAX_PAIRED_LINES = 40
_MAX_ROWS = 1_000
# Below this share of common words and spaces, two lines are not versions of each other.
_MIN_SIMILARITY = 0.4

# A word, one character of a script without spaces, a run of spaces, or a punctuation mark.
_WORDS = re.compile(rf"{CJK.pattern}|(?:(?!{CJK.pattern})\w)+|\s+|[^\w\s]")

Opcode = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class DiffPiece:
    """A part of a line; ``changed`` if the other version does not contain it."""

    text: str
    changed: bool = False


@dataclass(frozen=True)
class DiffLine:
    """One line of one version."""

    number: int
    pieces: tuple[DiffPiece, ...]


@dataclass(frozen=True)
class DiffRow:
    """One row of a comparison.

    ``kind``: same, changed, removed, added, folded (``count`` equal lines omitted), cut (``count`` lines
    omitted at the end), ends (only the line ends differ).
    """

    kind: str
    old: DiffLine | None = None
    new: DiffLine | None = None
    count: int = 0


def compare(old: str, new: str, context: int = CONTEXT_LINES, most: int = _MAX_ROWS) -> list[DiffRow]:
    """Return the first ``most`` rows that turn ``old`` into ``new``; empty if they are equal."""
    if old == new:
        return []
    before, after = _split_lines(old), _split_lines(new)
    if before == after:
        return [DiffRow("ends")]
    rows: list[DiffRow] = []
    omitted = 0
    words = _word_budget(old, new)
    lines = _Budget(_MIN_LINE_PAIRS + _LINE_PAIRS_PER_CHARACTER * (len(old) + len(new)))
    for tag, i1, i2, j1, j2 in _opcodes(before, after, lines.spend):
        found: Iterable[DiffRow]
        if tag == "equal":
            at_end = (i2, j2) == (len(before), len(after))
            found = _equal_rows(before, i1, i2, j1, context, at_start=not rows, at_end=at_end)
            count = len(found)
        else:
            found = _replaced_rows(_lines_between(before, i1, i2), _lines_between(after, j1, j2), words)
            count = i2 - i1 + j2 - j1
        shown = list(islice(found, most - len(rows)))
        rows += shown
        omitted += count - sum(2 if row.kind == "changed" else 1 for row in shown)
    return [*rows, DiffRow("cut", count=omitted)] if omitted else rows


def compare_words(old: str, new: str) -> tuple[tuple[DiffPiece, ...], tuple[DiffPiece, ...]]:
    """Split two short texts into pieces, with the words marked that the other does not contain."""
    return _mark_changes(_Line(0, old), _Line(0, new), _word_budget(old, new))


def _split_lines(text: str) -> list[str]:
    """Split into lines as an editor counts them: a final line break starts no other line."""
    lines = normalize_newlines(text).split("\n")
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def _opcodes(
    before: Sequence[str], after: Sequence[str], affordable: Callable[[int], bool]
) -> Iterator[Opcode]:
    """Yield ``difflib`` opcodes; the common start and end, usually most of a text, are split off first.

    The rest is one replacement if comparing it, items times items, is not ``affordable``.
    """
    head = _common_prefix_length(before, after)
    tail = _common_prefix_length(before[head:][::-1], after[head:][::-1])
    i, j = len(before) - tail, len(after) - tail
    if head:
        yield "equal", 0, head, 0, head
    middle_before, middle_after = before[head:i], after[head:j]
    if not affordable(len(middle_before) * len(middle_after)):
        yield "replace", head, i, head, j
    else:
        matcher = SequenceMatcher(None, middle_before, middle_after)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            yield tag, i1 + head, i2 + head, j1 + head, j2 + head
    if tail:
        yield "equal", i, len(before), j, len(after)


def _common_prefix_length(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _equal_rows(
    lines: Sequence[str], i1: int, i2: int, j1: int, context: int, *, at_start: bool, at_end: bool
) -> list[DiffRow]:
    """Return equal lines, those far from any change folded into one row."""
    head = 0 if at_start else context
    tail = 0 if at_end else context
    hidden = i2 - i1 - head - tail
    shown = range(i1, i2) if hidden < 2 else (*range(i1, i1 + head), *range(i2 - tail, i2))
    rows = [
        DiffRow("same", _unmarked_line(i, lines[i]), _unmarked_line(i - i1 + j1, lines[i])) for i in shown
    ]
    if hidden >= 2:
        rows.insert(head, DiffRow("folded", count=hidden))
    return rows


@dataclass
class _Budget:
    """How many comparisons of lines or words are left."""

    left: int

    def spend(self, cost: int) -> bool:
        """Spend the cost if enough is left, and return whether it was."""
        affordable = cost <= self.left
        self.left -= cost if affordable else 0
        return affordable


def _word_budget(old: str, new: str) -> _Budget:
    return _Budget(_MIN_WORD_PAIRS + _WORD_PAIRS_PER_CHARACTER * (len(old) + len(new)))


@dataclass
class _Line:
    """A line with its index, counted from 0, and its words."""

    index: int
    line: str

    @cached_property
    def words(self) -> list[str]:
        return _WORDS.findall(self.line)

    @property
    def plain(self) -> DiffLine:
        return _unmarked_line(self.index, self.line)


def _lines_between(lines: Sequence[str], start: int, end: int) -> list[_Line]:
    return [_Line(index, lines[index]) for index in range(start, end)]


def _replaced_rows(before: list[_Line], after: list[_Line], effort: _Budget) -> Iterator[DiffRow]:
    """Yield removed and added lines; similar pairs share a row with their changed words marked."""
    i = j = 0
    for old, new in [*_pair_lines(before, after, effort), (len(before), len(after))]:
        yield from (DiffRow("removed", old=text.plain) for text in before[i:old])
        yield from (DiffRow("added", new=text.plain) for text in after[j:new])
        if old < len(before):
            left, right = _mark_changes(before[old], after[new], effort)
            yield DiffRow(
                "changed", DiffLine(before[old].index + 1, left), DiffLine(after[new].index + 1, right)
            )
        i, j = old + 1, new + 1


def _pair_lines(before: list[_Line], after: list[_Line], effort: _Budget) -> list[tuple[int, int]]:
    """Pair lines that are versions of each other, in order, with the highest total similarity."""
    fewer, more = sorted((len(before), len(after)))
    if more > _MAX_PAIRED_LINES:
        return []
    words = sum(len(line.words) for line in (*before, *after))
    if not effort.spend(words * fewer):
        return []
    like = [[_similarity(old, new) for new in after] for old in before]
    best = [[0.0] * (len(after) + 1) for _ in range(len(before) + 1)]  # of the lines from i and j on
    for i in reversed(range(len(before))):
        for j in reversed(range(len(after))):
            paired = like[i][j] + best[i + 1][j + 1] if like[i][j] else 0.0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(before) and j < len(after):
        if like[i][j] and best[i][j] == like[i][j] + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _similarity(old: _Line, new: _Line) -> float:
    """Return the share of words that two lines have in common, in any order; 0 below the minimum."""
    share = SequenceMatcher(None, old.words, new.words, autojunk=False).quick_ratio()
    return share if share >= _MIN_SIMILARITY else 0.0


def _mark_changes(
    old: _Line, new: _Line, effort: _Budget
) -> tuple[tuple[DiffPiece, ...], tuple[DiffPiece, ...]]:
    """Return the pieces of both lines, with those marked that only one contains."""
    left: list[DiffPiece] = []
    right: list[DiffPiece] = []
    for tag, i1, i2, j1, j2 in _opcodes(old.words, new.words, effort.spend):
        if i1 < i2:
            left.append(DiffPiece("".join(old.words[i1:i2]), tag != "equal"))
        if j1 < j2:
            right.append(DiffPiece("".join(new.words[j1:j2]), tag != "equal"))
    return tuple(left), tuple(right)


def _unmarked_line(index: int, line: str) -> DiffLine:
    return DiffLine(index + 1, (DiffPiece(line),))
