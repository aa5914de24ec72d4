"""The prompt-injection detector: which passages of a normalised text give orders to a model. No Django."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import log

from memoryhub.security.prompt_injection.lexicon import LEXICON, WALL
from memoryhub.security.prompt_injection.patterns import Rule, possible_branches
from memoryhub.security.prompt_injection.tokeniser import SymbolLine
from memoryhub.security.prompt_injection.weights import MODEL, extract_features

INSTRUCTION_REMOVED = "[instruction removed]"
WORDING_EVIDENCE = "worded like orders to a model"


@dataclass(frozen=True)
class Finding:
    """One order, or one piece of smuggled markup.

    ``start`` and ``end`` are places in the text that was inspected; the text itself is not repeated here,
    so that a finding may be logged. ``reason`` names the evidence. ``removed`` is false where the
    characters were only made harmless and can still be read.
    """

    kind: str
    start: int
    end: int
    reason: str
    removed: bool = True


@dataclass(frozen=True)
class Verdict:
    """A text made fit for a prompt.

    ``clean``: the text with orders replaced by a short mark. ``blocked``: nothing worth keeping is left.
    """

    clean: str
    findings: list[Finding] = field(default_factory=list)
    blocked: bool = False

    @property
    def flagged(self) -> bool:
        """Whether anything was removed."""
        return any(finding.removed for finding in self.findings)


@dataclass(frozen=True)
class FieldFinding:
    """A finding in one field; ``item`` is the place in a list, ``None`` in a plain text."""

    field: str
    item: int | None
    finding: Finding


@dataclass(frozen=True)
class FieldsVerdict:
    """All fields of a memory made fit for a prompt. ``blocked``: no field has anything worth keeping left."""

    clean: dict[str, str | list[str]]
    findings: list[FieldFinding] = field(default_factory=list)
    blocked: bool = False

    @property
    def flagged(self) -> bool:
        """Whether anything was removed from any field."""
        return any(found.finding.removed for found in self.findings)


THRESHOLD = 0.9
BEGINNING_SHARE = 0.5  # share of evidence for the sentence in which it begins and does not end
REPEATED_SHARE = 0.25  # share of a kind's second and later evidence
MAX_NEIGHBOURS = 3  # sentences to each side whose evidence supports a suspicion
NEIGHBOUR_SHARE = 0.5  # share of the neighbours' evidence
MIN_OWN_SCORE = 0.4  # least evidence of its own that a supported sentence must have
MAX_PASSAGE_WORDS = 60  # words of a passage whose wording is weighed as a whole
WORDING_WEIGHT = 0.3  # weight of one point of wording
PASSAGE_COUNT_PENALTY = (
    0.7  # points off, times the logarithm of their number: of many passages one is odd by chance
)
HARMLESS_WORDING = -1.5  # the wording speaks against an order
HARMLESS_WORDING_PENALTY = -0.15  # what that takes away
_MAX_WORDS_BEFORE = 6
_KINDS_ABOUT_THE_MODEL = frozenset(
    {"persona", "leak"}
)  # kinds that speak to the model, or not about an order
_MAX_QUOTATIONS = 5  # quotations of one sentence that are looked at
_GLUE = ("-", "_", "/", ".", "\\")
_MAX_CONTEXT_WORDS = 60  # words beside a quotation that may speak about it
_PUNCTUATION = frozenset('\n/|,:"')
_SENTENCE_END = re.compile("[\n/]")
_QUOTED = re.compile(
    '"[^"\n]{3,300}"|“[^”\n]{3,300}”|„[^“”\n]{3,300}[“”]|«[^»\n]{3,300}»|「[^」\n]{3,300}」|『[^』\n]{3,300}』'
    "|`[^`\n]{3,300}`|(?<!\\w)'[^'\n]{3,300}'(?!\\w)"
)
_MEMBERS = LEXICON.members
_ADDRESSING = frozenset().union(*(_MEMBERS[part] for part in ("you", "your", "me", "ignore", "instead")))


@dataclass(frozen=True)
class Detection:
    """A stretch of the normalised text that is an order: what kind it is, and by which evidence."""

    kind: str
    start: int
    end: int
    evidence: tuple[str, ...]
    score: float


@dataclass
class _Sentence:
    """A stretch between two ends of sentence: places in the line of symbols, and the evidence found there."""

    first: int
    last: int
    found: dict[tuple[str, str], list[tuple[float, str]]] = field(default_factory=dict)
    wording: float = 0.0  # by how much the wording speaks for (or against) an order

    def score(self, known: Container[str] = ()) -> float:
        """The weight of the evidence, leaving out what is ``known`` already."""
        total = 0.0
        for weights in self.found.values():
            ranked = sorted((weight for weight, text in weights if text not in known), reverse=True)
            total += sum(ranked[:1]) + REPEATED_SHARE * sum(ranked[1:])
        return total

    def kind(self) -> str:
        return max(self.found, key=lambda part: max(weight for weight, _ in self.found[part]))[0]

    def evidence(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                text for weights in self.found.values() for _, text in sorted(weights, reverse=True)
            )
        )


def detect(text: str, reading: SymbolLine) -> list[Detection]:
    """The orders in a normalised text, in order of place."""
    return _Detector(text, reading).charges()


class _Detector:
    def __init__(self, text: str, reading: SymbolLine) -> None:
        self.text, self.reading, self.symbols = text, reading, reading.symbols
        self.sentences = list(self._sentences())
        self.firsts = [sentence.first for sentence in self.sentences]
        self.quoted: list[tuple[int, int]] | None = None
        self.described: dict[int, bool] = {}

    def charges(self) -> list[Detection]:
        self._collect()
        self._weigh_wording()
        if not any(sentence.found for sentence in self.sentences):
            return []
        scores = [max(0.0, sentence.score() + sentence.wording) for sentence in self.sentences]
        guilty = [self._guilty(place, scores) for place in range(len(scores))]
        return [
            Detection(sentence.kind(), *self._span(sentence), sentence.evidence(), round(scores[place], 2))
            for place, sentence in enumerate(self.sentences)
            if guilty[place]
        ]

    def _sentences(self) -> Iterator[_Sentence]:
        first = 0
        for match in _SENTENCE_END.finditer(self.symbols):
            if match.start() > first:
                yield _Sentence(first, match.start())
            first = match.end()
        if first < len(self.symbols):
            yield _Sentence(first, len(self.symbols))

    def _span(self, sentence: _Sentence) -> tuple[int, int]:
        return self.reading.starts[sentence.first], self.reading.ends[sentence.last - 1]

    def _guilty(self, place: int, scores: list[float]) -> bool:
        own = scores[place]
        if own >= THRESHOLD or own < MIN_OWN_SCORE:
            return own >= THRESHOLD
        known = set(self.sentences[place].evidence())
        near = (
            self.sentences[max(0, place - MAX_NEIGHBOURS) : place]
            + self.sentences[place + 1 : place + 1 + MAX_NEIGHBOURS]
        )
        return own + NEIGHBOUR_SHARE * sum(sentence.score(known) for sentence in near) >= THRESHOLD

    def _collect(self) -> None:
        for branch in possible_branches(self.symbols):
            for match in branch.pattern.finditer(self.symbols):
                if match.end() > match.start() and self._holds(branch.rule, match):
                    self._charge(branch.rule, match)

    def _weigh_wording(self) -> None:
        """What the wording adds, where there is a suspicion or somebody is spoken to."""
        passages = list(self._passages())
        crowd = PASSAGE_COUNT_PENALTY * log(len(passages)) if passages else 0.0
        for first, last in passages:
            inside = self.sentences[first:last]
            spoken = not _ADDRESSING.isdisjoint(self.symbols[inside[0].first : inside[-1].last])
            if spoken or any(sentence.found for sentence in inside):
                self._weigh(inside, crowd)

    def _weigh(self, inside: list[_Sentence], crowd: float) -> None:
        """The wording of a passage, half by the whole and half by each sentence."""
        whole = self._wording(inside[0].first, inside[-1].last)
        if whole < 0 and not any(sentence.found for sentence in inside):
            return
        for sentence in inside:
            score = self._wording(sentence.first, sentence.last) if len(inside) > 1 else whole
            both = (whole + score) / 2 - crowd
            if score > 0 and both > 0 and not self._reports(sentence):
                sentence.wording = WORDING_WEIGHT * both
                sentence.found.setdefault(("wording", ""), []).append((0.0, WORDING_EVIDENCE))
            elif both + crowd < HARMLESS_WORDING:
                sentence.wording = HARMLESS_WORDING_PENALTY

    def _reports(self, sentence: _Sentence) -> bool:
        """Whether a sentence tells of a model or of attacks, or quotes an order to speak about it."""
        number = self._sentence_at(sentence.first)
        if self._about(sentence.first) or self._of_the_model(number):
            return True
        first, last = self.reading.starts[sentence.first], self.reading.ends[sentence.last - 1]
        quoted = self._quotations()
        place = bisect_left(quoted, (first, 0))
        for opening, closing in quoted[place : place + _MAX_QUOTATIONS]:
            if closing > last:
                break
            if self._described(opening, closing):
                return True
        return False

    def _quotations(self) -> list[tuple[int, int]]:
        if self.quoted is None:
            self.quoted = [match.span() for match in _QUOTED.finditer(self.text)]
        return self.quoted

    def _wording(self, start: int, end: int) -> float:
        """The score of the wording of some symbols."""
        first, last = self.reading.starts[start], self.reading.ends[end - 1]
        return MODEL.score(extract_features(self.text[first:last], self.symbols[start:end]))

    def _passages(self) -> Iterator[tuple[int, int]]:
        """Runs of sentences of up to 60 words that no list item or table cell parts."""
        first = words = 0
        for place, sentence in enumerate(self.sentences):
            size = sentence.last - sentence.first
            walled = WALL in self.symbols[max(0, sentence.first - 2) : sentence.first]
            if place > first and (walled or words + size > MAX_PASSAGE_WORDS):
                yield first, place
                first, words = place, 0
            words += size
        if self.sentences:
            yield first, len(self.sentences)

    def _charge(self, rule: Rule, match: re.Match[str]) -> None:
        """Evidence counts where it ends; where it only begins, in an earlier sentence, it counts half."""
        first, last = self._sentence_at(match.start()), self._sentence_at(match.end() - 1)
        for place, weight in {first: rule.weight * BEGINNING_SHARE, last: rule.weight}.items():
            found = self.sentences[place].found.setdefault((rule.kind, rule.part), [])
            if (weight, rule.evidence) not in found:
                found.append((weight, rule.evidence))

    def _sentence_at(self, symbol: int) -> int:
        return max(0, bisect_right(self.firsts, symbol) - 1)

    def _holds(self, rule: Rule, match: re.Match[str]) -> bool:
        start, end = match.start(), match.end()
        while start < end and self.symbols[start] in "\n/":
            start += 1
        if rule.order and not self._orders(start):
            return False
        if rule.located and self._located(end):
            return False
        if self._is(end, "metanoun") or (not rule.order and self._about(start)):
            return False
        if (
            rule.kind in _KINDS_ABOUT_THE_MODEL
            and not rule.order
            and self._of_the_model(self._sentence_at(start))
        ):
            return False
        return not self._mentioned(start, end)

    def _is(self, place: int, *parts: str) -> bool:
        if not 0 <= place < len(self.symbols):
            return False
        return any(self.symbols[place] in _MEMBERS[part] for part in parts)

    def _about(self, place: int) -> bool:
        """Whether the sentence speaks of attacks, and to nobody."""
        number = self._sentence_at(place)
        if number not in self.described:
            sentence = self.sentences[number]
            inside = set(self.symbols[sentence.first : sentence.last])
            speaks = not inside.isdisjoint(_MEMBERS["describes"])
            to_nobody = inside.isdisjoint(_MEMBERS["you"] | _MEMBERS["your"])
            self.described[number] = speaks and to_nobody
        return self.described[number]

    def _of_the_model(self, number: int) -> bool:
        """Whether the sentence speaks of a model ("the bot ..."), and neither to nor for anybody."""
        sentence = self.sentences[number]
        inside = self.symbols[sentence.first : sentence.last]
        if not (_MEMBERS["you"] | _MEMBERS["your"] | _MEMBERS["me"]).isdisjoint(inside):
            return False
        return any(
            first in _MEMBERS["article"] and second in _MEMBERS["agent"] for first, second in pairwise(inside)
        )

    def _located(self, end: int) -> bool:
        """Whether the object is in some place: "the instructions in the README"."""
        for place in range(end, min(end + 2, len(self.symbols))):
            if self._is(place, "in"):
                return any(self._is(step, "place", "path", "url") for step in range(place + 1, place + 5))
        return False

    def _orders(self, place: int) -> bool:
        """Whether the word at ``place`` stands where an order begins."""
        if self._glued(place):
            return False
        before = place - 1
        while before >= max(0, place - _MAX_WORDS_BEFORE) and self._passes(before):
            before -= 1
        if before < 0 or self.symbols[before] in '\n/:,"SRT' or self._is(before, "and"):
            return True
        if self._is(before, "must"):
            return self._may_order(before - 1)
        if self._is(before, "you"):
            return not self._is(before - 1, "subject")
        if self._is(before, "to"):
            return any(self._is(step, "you", "your", "task") for step in range(max(0, before - 4), before))
        if self._is(before, "not", "donot", "subject"):
            return False
        word = self.text[self.reading.starts[before] : self.reading.ends[before]]
        return not (len(word) > 3 and word.isascii() and word.endswith(("s", "ing", "ed")))

    def _passes(self, place: int) -> bool:
        """Whether a word says nothing about where the order begins: "please", "now", a quotation mark."""
        return self._is(place, "soft", "quote") and not self._is(place, "to")

    def _may_order(self, place: int) -> bool:
        """Whether a modal verb after this place orders the model: "you must", "the assistant should"."""
        while self._is(place, "soft") and not self._is(place, "you"):
            place -= 1
        return place < 0 or self.symbols[place] in '\n/:,"SRT' or self._is(place, "you", "agent", "and")

    def _glued(self, place: int) -> bool:
        """Whether the word is a piece of a name: test-ignore-previous-instructions."""
        start, end = self.reading.starts[place], self.reading.ends[place]
        before, after = self.text[max(0, start - 2) : start], self.text[end : end + 1]
        return before[:1].isalnum() and before[1:] in _GLUE and after != "" and after in _GLUE

    def _mentioned(self, start: int, end: int) -> bool:
        """Whether the words are quoted in a sentence that speaks about them."""
        first, last = self.reading.starts[start], self.reading.ends[end - 1]
        quoted = self._quotations()
        place = bisect_right(quoted, (first, len(self.text))) - 1
        if place < 0:
            return False
        opening, closing = quoted[place]
        return last <= closing and self._described(opening, closing)

    def _described(self, opening: int, closing: int) -> bool:
        """Whether the words around a quotation say that it is one, and do not order to obey it."""
        left = bisect_right(self.reading.starts, opening - 1)
        right = bisect_right(self.reading.starts, closing - 1)
        before = self.symbols[max(0, left - _MAX_CONTEXT_WORDS) : left].rpartition("\n")[2]
        after = self.symbols[right : right + _MAX_CONTEXT_WORDS].partition("\n")[0]
        around = set(before + after)
        words = sum(symbol not in _PUNCTUATION for symbol in before + after)
        if words < 2 or not around.isdisjoint(_MEMBERS["obey"]):
            return False
        return not around.isdisjoint(_MEMBERS["meta"] | _MEMBERS["describes"])
