"""The prompt-injection detector: which sentences of a normalised text are orders to a model. No Django.

Rules, compiled to patterns over a line of symbols, find evidence in sentences, and a small linear model
weighs their wording. A sentence whose score reaches :data:`THRESHOLD` is an order. A lower score is enough if
the sentences near it have further evidence.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from math import log
from operator import itemgetter, or_
from pathlib import Path
from statistics import median

import numpy as np
from pydantic import Field

from memoryhub.core.rule_files import RuleFileError, RuleSchema, load_rule_file
from memoryhub.security.prompt_injection.classifier import CLASSIFIER, Floats, HashedText, Spans
from memoryhub.security.prompt_injection.lexicon import BREAK, LEXICON, WALL
from memoryhub.security.prompt_injection.tokeniser import SymbolLine

EVIDENCE = Path(__file__).with_name("rules") / "evidence"
# The order decides between kinds of the same weight.
KINDS = (
    "override",
    "newtask",
    "persona",
    "leak",
    "secrecy",
    "exfiltration",
    "destructive",
    "addressed",
    "role",
    "notice",
)


class EvidenceRule(RuleSchema):
    """One rule.

    ``evidence``: the description in findings. ``order``: the first word must be where an order begins, and
    not in a description ("users who ignore ..."). ``located``: no evidence if the object is in a place ("the
    instructions in the README"). ``part``: rules for the same part of an order do not add up; rules for
    different parts do.
    """

    evidence: str = Field(min_length=1)
    weight: float = Field(ge=0.2, le=1.2)
    pattern: str = Field(min_length=1)
    order: bool = False
    located: bool = False
    part: str = ""


class EvidenceFile(RuleSchema):
    rules: tuple[EvidenceRule, ...]


def load_evidence(kind: str) -> tuple[EvidenceRule, ...]:
    return load_rule_file(EVIDENCE / f"{kind}.toml", EvidenceFile).rules


_MACROS = {"<youmust>": "({you} ~1 ({must}|{ought})|{obliged})"}
_PART = re.compile(r"\{(\w+)\}")
_GAP = re.compile(r"~(\d+)")
_CLOSE_GAP = re.compile(r"_(\d+)")
_WIDE_GAP = re.compile(r"%(\d+)")


@dataclass(frozen=True)
class Branch:
    """One alternative of a rule, compiled.

    ``need``: the bits of the parts that a match contains. ``in_one_line``: they are between two line ends.
    """

    kind: str
    rule: EvidenceRule
    pattern: re.Pattern[str]
    need: int
    in_one_line: bool


def possible_branches(symbols: str) -> list[Branch]:
    """Return the branches whose needed parts occur together in the line. This is faster than a search."""
    lines = {_find_parts(line) for line in symbols.split(BREAK)}
    present = reduce(or_, lines)
    found: list[tuple[int, Branch]] = []
    for part, rows in _BY_PART:
        if part & present != part:
            continue
        possible = [row for row in rows if row[1].need & present == row[1].need]
        near = [line for line in lines if line & part] if possible else []
        found += [
            (place, branch)
            for place, branch in possible
            if not branch.in_one_line or any(branch.need & line == branch.need for line in near)
        ]
    return [branch for _, branch in sorted(found, key=itemgetter(0))]


def _find_parts(line: str) -> int:
    """Return the bits of the parts that the words of a line have."""
    present = 0
    for symbol in set(line):
        present |= LEXICON.masks.get(symbol, 0)
    return present


def _compile_rule(kind: str, rule: EvidenceRule) -> Iterator[Branch]:
    pattern = "".join(rule.pattern.split())
    for macro, expanded in _MACROS.items():
        pattern = pattern.replace(macro, expanded.replace(" ", ""))
    if unknown := set(_PART.findall(pattern)) - LEXICON.members.keys():
        raise RuleFileError(f"{kind}.toml: no word has the part {', '.join(sorted(unknown))}")
    for source in _alternatives(pattern):
        need = 0
        for part in _required_parts(source):
            need |= LEXICON.masks[part]
        yield Branch(kind, rule, re.compile(_expand(source)), need, _is_in_one_line(source))


def _alternatives(pattern: str) -> list[str]:
    """Split a pattern at the bars outside brackets."""
    found, depth = [""], 0
    for sign in pattern:
        depth += (sign in "([") - (sign in ")]")
        if sign == "|" and not depth:
            found.append("")
        else:
            found[-1] += sign
    return found


def _required_parts(source: str) -> list[str]:
    """Return the parts outside brackets that are not optional."""
    bare = source
    while "(" in bare:
        bare = re.sub(r"\([^()]*\)[?*]?", "", bare)
    return _PART.findall(re.sub(r"\{\w+\}[?*]", "", bare))


def _is_in_one_line(source: str) -> bool:
    """Return whether no line end can be between the parts outside brackets."""
    parts = [
        part
        for part in _PART.finditer(source)
        if source.count("(", 0, part.start()) == source.count(")", 0, part.start())
    ]
    between = source[parts[0].start() : parts[-1].end()] if parts else source
    return bool(parts) and "%" not in between and "\\n" not in between


def _expand(source: str) -> str:
    """Return the regex over a line of symbols."""
    found = _PART.sub(lambda match: _character_class(match.group(1)), source)
    found = _CLOSE_GAP.sub(r"[^\\n/,:]{0,\1}?", found)
    found = _GAP.sub(r"[^\\n]{0,\1}?", found)
    return _WIDE_GAP.sub(lambda match: f"[^{WALL}]{{0,{match[1]}}}?", found)


def _character_class(part: str) -> str:
    return f"[{''.join(map(re.escape, sorted(LEXICON.members[part])))}]"


BRANCHES = tuple(
    branch for kind in KINDS for rule in load_evidence(kind) for branch in _compile_rule(kind, rule)
)


def _index_by_part() -> tuple[tuple[int, list[tuple[int, Branch]]], ...]:
    """Group the branches, with their places, by one of the parts that they need."""
    groups: dict[int, list[tuple[int, Branch]]] = {}
    for place, branch in enumerate(BRANCHES):
        part = 1 << (branch.need.bit_length() - 1) if branch.need else 0
        groups.setdefault(part, []).append((place, branch))
    return tuple(groups.items())


_BY_PART = _index_by_part()


WORDING_EVIDENCE = "worded like orders to a model"
THRESHOLD = 0.9
BEGINNING_SHARE = 0.5  # share of evidence for the sentence in which it starts, if it ends in a later one
REPEATED_SHARE = 0.25  # share of the second and later evidence for one part of one kind
MAX_NEIGHBOURS = 3  # sentences on each side whose evidence supports a suspicion
NEIGHBOUR_SHARE = 0.5  # share of the neighbours' evidence
MIN_OWN_SCORE = 0.4  # score that a sentence needs before its neighbours support it
MAX_PASSAGE_WORDS = 60  # words of a passage whose wording is weighed as a whole
WORDING_WEIGHT = 0.7  # weight of one point of wording, without evidence by rules
SUPPORTING_WORDING_WEIGHT = 0.3  # with evidence by rules
HARMLESS_WORDING_WEIGHT = 0.2  # of points that speak against an order
HARMLESS_MARGIN = 0.25  # points below 0 that do not yet lower the weight of a rule
MAX_HARMLESS_WORDING = 0.6  # weight that they have at most
UNIT_COUNT_PENALTY = 0.2  # times the logarithm of their number: one of many sentences is odd by chance
CONTRAST_WEIGHT = 0.3  # weight of a point by which most sentences of the text are harmless
MAX_CONTRAST = 3.0  # points
MIN_CONTRAST_SENTENCES = 3
HIDDEN_SUSPICION = 1.0  # points for text that was encoded
FLOOD_SUSPICION = 1.0  # points for a text with one to six words that repeat
_MAX_WORDS_BEFORE = 6  # words before an order that are skipped: "please", "now"
_KINDS_ABOUT_THE_MODEL = frozenset({"persona", "leak"})  # no evidence in a description of a model
_KINDS_OF_COMMANDS = frozenset({"destructive", "exfiltration"})  # commands are no prose, whose wording counts
_MAX_QUOTATIONS = 5  # quotations of one sentence that are examined
_GLUE = ("-", "_", "/", ".", "\\")
_MAX_CONTEXT_WORDS = 60  # words on each side of a quotation that may describe it
_PUNCTUATION = frozenset('\n/|,:"')
_SENTENCE_END = re.compile("[\n/]")
_MAX_FLOOD_WORDS, _MIN_FLOOD_REPEATS = 6, 16
_ORDER_START = '\n/:,"SRT'  # symbols after which an order may begin
# Each alternative begins with its sign: a search skips all other characters.
_QUOTED = re.compile(
    '"[^"\n]{3,300}"|“[^”\n]{3,300}”|„[^“”\n]{3,300}[“”]|«[^»\n]{3,300}»|「[^」\n]{3,300}」|『[^』\n]{3,300}』'
    "|`[^`\n]{3,300}`|'(?<!\\w')[^'\n]{3,300}'(?!\\w)"
)
_MEMBERS = LEXICON.members
_YOU = _MEMBERS["you"] | _MEMBERS["your"]


@dataclass(frozen=True)
class Detection:
    """A span of the normalised text that is an order, with its kind, evidence and score."""

    kind: str
    start: int
    end: int
    evidence: tuple[str, ...]
    score: float


@dataclass
class _Sentence:
    """A sentence: its first and last symbol, and the evidence in it by kind and part."""

    first: int
    last: int
    found: dict[tuple[str, str], list[tuple[float, str]]] = field(default_factory=dict)
    wording: float = 0.0  # points; positive if the wording speaks for an order

    def score(self, known: Container[str] = ()) -> float:
        """Return the weight of the evidence without that which is ``known``."""
        total = 0.0
        for weights in self.found.values():
            ranked = sorted((weight for weight, text in weights if text not in known), reverse=True)
            total += sum(ranked[:1]) + REPEATED_SHARE * sum(ranked[1:])
        return total

    def total(self) -> float:
        """Return the weight of the evidence and of the wording."""
        if not self.found:
            return 0.0
        if self.wording < 0 and self.kind() not in _KINDS_OF_COMMANDS:
            harmless = min(MAX_HARMLESS_WORDING, -HARMLESS_WORDING_WEIGHT * self.wording)
            return max(0.0, self.score() - harmless)
        wording = max(0.0, self.wording)
        return max(self.score() + SUPPORTING_WORDING_WEIGHT * wording, WORDING_WEIGHT * wording)

    def kind(self) -> str:
        return max(self.found, key=lambda part: max(weight for weight, _ in self.found[part]))[0]

    def evidence(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                text for weights in self.found.values() for _, text in sorted(weights, reverse=True)
            )
        )


def detect(text: str, line: SymbolLine, suspicion: float = 0.0) -> list[Detection]:
    """Return the orders in a normalised text, in order of place.

    ``suspicion``: points that each sentence gains if the text was hidden, for example encoded.
    """
    return _Detector(text, line, suspicion).detect()


def split_units(text: str, line: SymbolLine) -> tuple[Spans, Spans]:
    """Return the sentences and the passages of a normalised text, as spans."""
    return _Detector(text, line, 0.0).split_units()


class _Detector:
    def __init__(self, text: str, line: SymbolLine, suspicion: float) -> None:
        self.text, self.line, self.symbols = text, line, line.symbols
        self.suspicion = suspicion + FLOOD_SUSPICION * _has_flood(line.symbols)
        self.sentences = list(self._split_sentences())
        self.firsts = [sentence.first for sentence in self.sentences]
        self.quotations: list[tuple[int, int]] | None = None
        self.about_attacks: dict[int, bool] = {}
        self.about_a_model: dict[int, bool] = {}

    def detect(self) -> list[Detection]:
        self._collect_evidence()
        self._weigh_wording()
        if not any(sentence.found for sentence in self.sentences):
            return []
        scores = [sentence.total() for sentence in self.sentences]
        return [
            Detection(
                sentence.kind(),
                *self._text_span(sentence.first, sentence.last),
                sentence.evidence(),
                round(score, 2),
            )
            for place, (sentence, score) in enumerate(zip(self.sentences, scores, strict=True))
            if self._is_order(place, score)
        ]

    def _split_sentences(self) -> Iterator[_Sentence]:
        first = 0
        for match in _SENTENCE_END.finditer(self.symbols):
            if match.start() > first:
                yield _Sentence(first, match.start())
            first = match.end()
        if first < len(self.symbols):
            yield _Sentence(first, len(self.symbols))

    def _text_span(self, first: int, last: int) -> tuple[int, int]:
        """Return the start and the end of some symbols in the text."""
        return self.line.starts[first], self.line.ends[last - 1]

    def _is_order(self, place: int, score: float) -> bool:
        if score >= THRESHOLD or score < MIN_OWN_SCORE:
            return score >= THRESHOLD
        known = set(self.sentences[place].evidence())
        near = [
            *self.sentences[max(0, place - MAX_NEIGHBOURS) : place],
            *self.sentences[place + 1 : place + 1 + MAX_NEIGHBOURS],
        ]
        return score + NEIGHBOUR_SHARE * sum(sentence.score(known) for sentence in near) >= THRESHOLD

    # ---- evidence by rules

    def _collect_evidence(self) -> None:
        for branch in possible_branches(self.symbols):
            for match in branch.pattern.finditer(self.symbols):
                if match.end() > match.start() and self._applies(branch, match):
                    self._add_evidence(branch.kind, branch.rule, match)

    def _add_evidence(self, kind: str, rule: EvidenceRule, match: re.Match[str]) -> None:
        """Add evidence to the sentence where it ends, and half of it to an earlier one where it starts."""
        first, last = self._sentence_at(match.start()), self._sentence_at(match.end() - 1)
        for place, weight in {first: rule.weight * BEGINNING_SHARE, last: rule.weight}.items():
            found = self.sentences[place].found.setdefault((kind, rule.part), [])
            if (weight, rule.evidence) not in found:
                found.append((weight, rule.evidence))

    def _sentence_at(self, symbol: int) -> int:
        return max(0, bisect_right(self.firsts, symbol) - 1)

    def _applies(self, branch: Branch, match: re.Match[str]) -> bool:
        """Return whether the words give an order and do not only describe one."""
        rule, start, end = branch.rule, match.start(), match.end()
        while start < end and self.symbols[start] in "\n/":
            start += 1
        if rule.order and not self._is_order_start(start):
            return False
        if rule.located and self._is_located(end):
            return False
        if self._has_part(end, "metanoun"):
            return False
        if not rule.order:
            number = self._sentence_at(start)
            if self._is_about_attacks(number):
                return False
            if branch.kind in _KINDS_ABOUT_THE_MODEL and self._is_about_a_model(number):
                return False
        return not self._is_mentioned(start, end)

    def _has_part(self, place: int, *parts: str) -> bool:
        """Return True if the symbol at a place has one of the parts."""
        if not 0 <= place < len(self.symbols):
            return False
        return any(self.symbols[place] in _MEMBERS[part] for part in parts)

    def _is_about_attacks(self, number: int) -> bool:
        """Return True if the sentence is about attacks and addresses no one."""
        if number not in self.about_attacks:
            sentence = self.sentences[number]
            inside = set(self.symbols[sentence.first : sentence.last])
            describes = not inside.isdisjoint(_MEMBERS["describes"])
            self.about_attacks[number] = describes and inside.isdisjoint(_YOU)
        return self.about_attacks[number]

    def _is_about_a_model(self, number: int) -> bool:
        """Return True if the sentence is about a model ("the bot ...") and has no first or second person."""
        if number not in self.about_a_model:
            sentence = self.sentences[number]
            inside = self.symbols[sentence.first : sentence.last]
            is_named = any(
                first in _MEMBERS["article"] and second in _MEMBERS["agent"]
                for first, second in pairwise(inside)
            )
            self.about_a_model[number] = is_named and (_YOU | _MEMBERS["me"]).isdisjoint(inside)
        return self.about_a_model[number]

    def _is_located(self, end: int) -> bool:
        """Return True if the object has a location: "the instructions in the README"."""
        for place in range(end, min(end + 2, len(self.symbols))):
            if self._has_part(place, "in"):
                return any(
                    self._has_part(step, "place", "path", "url") for step in range(place + 1, place + 5)
                )
        return False

    def _is_order_start(self, place: int) -> bool:
        """Return True if an order can begin with the word at ``place``."""
        if self._is_part_of_a_name(place):
            return False
        before = place - 1
        while before >= max(0, place - _MAX_WORDS_BEFORE) and self._is_filler(before):
            before -= 1
        if before < 0 or self.symbols[before] in _ORDER_START or self._has_part(before, "and"):
            return True
        if self._has_part(before, "must"):
            return self._addresses_the_model(before - 1)
        if self._has_part(before, "you"):
            return not self._has_part(before - 1, "subject")
        if self._has_part(before, "to"):
            return any(
                self._has_part(step, "you", "your", "task") for step in range(max(0, before - 4), before)
            )
        if self._has_part(before, "not", "donot", "subject"):
            return False
        start, end = self._text_span(before, before + 1)
        word = self.text[start:end]
        return not (len(word) > 3 and word.isascii() and word.endswith(("s", "ing", "ed")))

    def _is_filler(self, place: int) -> bool:
        """Return True for a word that may come before an order ("please", "now"), or a quotation mark."""
        return self._has_part(place, "soft", "quote") and not self._has_part(place, "to")

    def _addresses_the_model(self, place: int) -> bool:
        """Return True if a modal verb after this place addresses the model: "you must", "the bot should"."""
        while self._has_part(place, "soft") and not self._has_part(place, "you"):
            place -= 1
        return (
            place < 0 or self.symbols[place] in _ORDER_START or self._has_part(place, "you", "agent", "and")
        )

    def _is_part_of_a_name(self, place: int) -> bool:
        """Return True for a word in a name such as test-ignore-previous-instructions."""
        start, end = self._text_span(place, place + 1)
        before, after = self.text[max(0, start - 2) : start], self.text[end : end + 1]
        return before[:1].isalnum() and before[1:] in _GLUE and after != "" and after in _GLUE

    # ---- quotations

    def _is_mentioned(self, start: int, end: int) -> bool:
        """Return True if the words are quoted in a sentence that describes the quotation."""
        first, last = self._text_span(start, end)
        quotations = self._find_quotations()
        place = bisect_right(quotations, (first, len(self.text))) - 1
        if place < 0:
            return False
        opening, closing = quotations[place]
        return last <= closing and self._is_described(opening, closing)

    def _find_quotations(self) -> list[tuple[int, int]]:
        if self.quotations is None:
            self.quotations = [match.span() for match in _QUOTED.finditer(self.text)]
        return self.quotations

    def _is_described(self, opening: int, closing: int) -> bool:
        """Return True if the words around a quotation describe it, and do not order to obey it."""
        left = bisect_right(self.line.starts, opening - 1)
        right = bisect_right(self.line.starts, closing - 1)
        before = self.symbols[max(0, left - _MAX_CONTEXT_WORDS) : left].rpartition("\n")[2]
        after = self.symbols[right : right + _MAX_CONTEXT_WORDS].partition("\n")[0]
        around = set(before + after)
        words = sum(symbol not in _PUNCTUATION for symbol in before + after)
        if words < 2 or not around.isdisjoint(_MEMBERS["obey"]):
            return False
        return not around.isdisjoint(_MEMBERS["meta"] | _MEMBERS["describes"])

    # ---- wording

    def _weigh_wording(self) -> None:
        """Weigh each sentence by its own wording, or by the mean with that of its passage."""
        if not self.sentences:
            return
        sentences, passages = self.split_units()
        hashed = HashedText(self.text, self.line)
        own = CLASSIFIER.score(hashed.features(sentences))
        whole = CLASSIFIER.score(hashed.features(passages)) if len(sentences) > 1 else own
        starts = [start for start, _ in sentences]
        means = (own + whole[np.searchsorted([start for start, _ in passages], starts, "right") - 1]) / 2
        shift = self.suspicion + _contrast(own) - UNIT_COUNT_PENALTY * log(len(sentences) + len(passages))
        scores = np.where(own + self.suspicion > 0, np.maximum(own, means), own) + shift
        harmless = np.maximum(own, means) + HARMLESS_MARGIN
        for sentence, score, points in zip(self.sentences, scores.tolist(), harmless.tolist(), strict=True):
            if score > 0 and not self._is_report(sentence):
                sentence.wording = score
                sentence.found.setdefault(("wording", ""), []).append((0.0, WORDING_EVIDENCE))
            elif points < 0:
                sentence.wording = points

    def split_units(self) -> tuple[Spans, Spans]:
        """Return the spans of the sentences and of the passages in the text."""
        sentences = [self._text_span(sentence.first, sentence.last) for sentence in self.sentences]
        passages = [(sentences[first][0], sentences[last - 1][1]) for first, last in self._split_passages()]
        return sentences, passages

    def _is_report(self, sentence: _Sentence) -> bool:
        """Return True if a sentence is about a model or attacks, or quotes an order to describe it."""
        number = self._sentence_at(sentence.first)
        if self._is_about_attacks(number) or self._is_about_a_model(number):
            return True
        first, last = self._text_span(sentence.first, sentence.last)
        quotations = self._find_quotations()
        place = bisect_left(quotations, (first, 0))
        for opening, closing in quotations[place : place + _MAX_QUOTATIONS]:
            if closing > last:
                break
            if self._is_described(opening, closing):
                return True
        return False

    def _split_passages(self) -> Iterator[tuple[int, int]]:
        """Yield runs of sentences with up to 60 words. A list item or a table cell starts a new one."""
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


def _contrast(scores: Floats) -> float:
    """Return the points that a sentence gains if most sentences of its text are harmless."""
    if len(scores) < MIN_CONTRAST_SENTENCES:
        return 0.0
    return CONTRAST_WEIGHT * min(MAX_CONTRAST, max(0.0, -float(median(scores.tolist()))))


def _has_flood(symbols: str) -> bool:
    """Return whether the text repeats a few words many times."""
    codes = np.frombuffer(symbols.encode("utf-32-le", "surrogatepass"), np.uint32)
    for size in range(1, min(_MAX_FLOOD_WORDS, len(codes) // _MIN_FLOOD_REPEATS) + 1):
        changes = np.flatnonzero(codes[size:] != codes[:-size])
        runs = np.diff(changes, prepend=-1, append=len(codes) - size) - 1
        if runs.max() >= (_MIN_FLOOD_REPEATS - 1) * size:
            return True
    return False
