"""Extract candidates from a conversation by rules. No database access."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from memoryhub.core.rule_files import PatternFile, Regex, RuleSchema, load_rule_file
from memoryhub.core.text import CJK, shorten
from memoryhub.extraction.comparison import Candidate, word_overlap
from memoryhub.extraction.conversation import USER, Turn
from memoryhub.extraction.rules.problems import RULES as PROBLEMS
from memoryhub.extraction.rules.problems import (
    ProblemTracker,
    Sentence,
    is_question,
    split_sentences,
    strip_foreign_text,
)
from memoryhub.security.secrets import REDACTED, may_contain_secrets

CANDIDATE_THRESHOLD = 1.0
_MAX_SEARCHED_CHARS = 4000


class Sign(RuleSchema):
    """A weighted regex. An empty ``category`` supports any category; ``why`` is shown to people.

    A ``claim`` is ignored in sentences about the mood, the conversation or a problem.
    """

    category: str = ""
    weight: float = 1.0
    why: str
    regex: Regex | None = None
    claim: bool = False

    def matches(self, text: str) -> bool:
        return self.regex is not None and bool(self.regex.search(text))


class NamePatterns(RuleSchema):
    subject: Regex
    introduced: Regex


class SentencePatterns(RuleSchema):
    concrete: Regex
    how_to_write: Regex
    counter_signs: Regex
    not_a_claim: Regex
    request: Regex
    off_the_record: Regex
    acknowledged: Regex
    pointed_out: Regex
    stated_decision: Regex
    writing_task: Regex
    asked_for_facts: Regex
    reference: Regex
    dialogue_steer: Regex
    polite_request: Regex
    need: Regex


class SignFile(PatternFile):
    names: NamePatterns
    sentences: SentencePatterns
    signs: tuple[Sign, ...]


@cache
def load_signs() -> SignFile:
    """Return the rules. Compiling them takes 0.1 s, which most processes do not need."""
    return load_rule_file(Path(__file__).with_name("signs.toml"), SignFile)


def find_names(text: str) -> set[str]:
    """Return the first names (casefolded) of the people that a text is about."""
    start, names = text[:_MAX_SEARCHED_CHARS], load_signs().names
    found = [match["name"] for regex in (names.subject, names.introduced) for match in regex.finditer(start)]
    return {_fold_name(name.split()[0]) for name in found}


def name_different_people(one: str, other: str) -> bool:
    """Return whether both texts name people and have none in common."""
    mine, theirs = find_names(one), find_names(other)
    return bool(mine and theirs) and not mine & theirs


def _fold_name(name: str) -> str:
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


MAX_CANDIDATES = 100  # of one conversation
MAX_SENTENCES = 5000  # of the user in one conversation; the rest is ignored
_MIN_WORDS = 3
_SELF_CONTAINED_WORDS = 9  # a sentence with this many words needs no context
_CONTEXT_CHARS = 300
_CONCRETE = re.compile(r"[A-Z]\w|\d|`|\w[._/-]\w")
_AMBIGUOUS_PROBLEM_WORDS = frozenset(("missing", "down", "broke", "slow", "too late"))
_REPEATED_OVERLAP = 0.6  # of the words of a decision and of an earlier statement
_HALF_THRESHOLD = CANDIDATE_THRESHOLD / 2
_ANSWERS = Sign(weight=0.5, why="answers a question about it")
_ANSWERS_FACT = Sign(category="entities", weight=0.5, why="answers a question about it")
_CONCRETE_SIGN = Sign(weight=0.3, why="is concrete")
_ACKNOWLEDGED_SIGN = Sign(weight=0.5, why="was acknowledged")
RULES = load_signs()
SENTENCES = RULES.sentences


def extract(turns: Sequence[Turn]) -> list[Candidate]:
    """Return the candidates of a conversation in order, without duplicates."""
    reader = _Extractor()
    for at, turn in enumerate(turns):
        answer = turns[at + 1].text if at + 1 < len(turns) and turns[at + 1].role != turn.role else ""
        before = turns[at - 1].text if at and turns[at - 1].role != turn.role else ""
        reader.read_turn(turn, before, answer)
    found = [*reader.found, *reader.stated_decisions(), *reader.problems.finish()]
    unique = {candidate.dedup_key: candidate for candidate in reversed(found)}
    kept = [one for one in reversed(unique.values()) if _is_free_of_secrets(one)][:MAX_CANDIDATES]
    return [one for one in kept if not any(_is_contained(one, other) for other in kept)]


class _Extractor:
    def __init__(self) -> None:
        self.found: list[Candidate] = []
        self.stated: list[Sentence] = []  # decisions in the words of the assistant
        self.problems = ProblemTracker()
        self.sentences_left = MAX_SENTENCES

    def read_turn(self, turn: Turn, before: str, answer: str) -> None:
        sentences = split_sentences(strip_foreign_text(turn.text) if turn.role == USER else turn.text)
        if turn.role == USER and SENTENCES.off_the_record.search(turn.text):
            return
        used = self.problems.read_turn(turn.role, sentences)
        if turn.role != USER:
            self.found += [_point_out(one) for one in sentences if SENTENCES.pointed_out.search(one.text)]
            if not SENTENCES.writing_task.search(before):
                self.stated += [one for one in sentences if SENTENCES.stated_decision.match(one.bare)]
            return
        acknowledged = bool(SENTENCES.acknowledged.match(answer.strip()))
        requested = bool(SENTENCES.asked_for_facts.search(before[-500:]))
        self.sentences_left -= len(sentences)
        for at, sentence in enumerate(sentences if self.sentences_left > 0 else ()):
            previous = sentences[at - 1].text if at else ""
            if candidate := _make_candidate(
                sentence, previous, acknowledged=acknowledged, requested=requested
            ):
                is_lasting = candidate.category in ("preferences", "patterns")
                is_lasting = is_lasting or bool(SENTENCES.stated_decision.match(sentence.bare))
                if sentence.text in used and not is_lasting:
                    continue
                self.found.append(candidate)

    def stated_decisions(self) -> list[Candidate]:
        """Return the decisions of the assistant, without those that repeat a statement of the user."""
        return [
            _state_decision(one)
            for one in self.stated
            if all(word_overlap(one.bare, known.content) < _REPEATED_OVERLAP for known in self.found)
        ]


@dataclass
class _SignScores:
    """Weights of the signs in a sentence, per category and in general."""

    by_category: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    shared: float = 0.0
    why: list[tuple[str, str]] = field(default_factory=list)  # (category, reason)

    def add(self, sign: Sign) -> None:
        if (sign.category, sign.why) in self.why:
            return
        self.why.append((sign.category, sign.why))
        if sign.category:
            self.by_category[sign.category] += sign.weight
        else:
            self.shared += sign.weight

    @property
    def best(self) -> str:
        """Category with the highest score; a statement without a category is a fact."""
        weights = self.by_category
        return max(weights, key=lambda name: weights[name]) if weights else "entities"

    @property
    def total(self) -> float:
        return self.by_category.get(self.best, 0.0) + self.shared

    def reasons(self) -> list[str]:
        return [why for category, why in self.why if category in ("", self.best)]


def _score_sentence(sentence: Sentence, *, acknowledged: bool, requested: bool) -> _SignScores:
    found = _SignScores()
    claims_nothing = bool(SENTENCES.not_a_claim.search(sentence.bare)) or _reports_problem(sentence.bare)
    for sign in RULES.signs:
        if sign.matches(sentence.bare) and not (claims_nothing and sign.claim):
            found.add(sign)
    for sign in RULES.signs if sentence.text != sentence.bare else ():
        if not sign.category and not sign.claim and sign.matches(sentence.text):
            found.add(sign)
    if requested and not SENTENCES.request.match(sentence.bare):
        found.add(_ANSWERS)
        found.add(_ANSWERS_FACT)
    if acknowledged and found.total >= _HALF_THRESHOLD:
        found.add(_ACKNOWLEDGED_SIGN)
    if SENTENCES.concrete.search(sentence.bare):
        found.add(_CONCRETE_SIGN)
    return found


def _reports_problem(text: str) -> bool:
    """Return whether the text reports a problem; "lost a job" alone does not."""
    return any(found[0].lower() not in _AMBIGUOUS_PROBLEM_WORDS for found in PROBLEMS.problem.finditer(text))


def _make_candidate(
    sentence: Sentence, previous: str, *, acknowledged: bool, requested: bool
) -> Candidate | None:
    """Return a candidate if the sentence scores high enough."""
    text, bare = sentence.text, sentence.bare
    if _is_no_statement(sentence):
        return None
    scores = _score_sentence(sentence, acknowledged=acknowledged, requested=requested)
    best = scores.best
    if (
        SENTENCES.dialogue_steer.match(bare)
        and len(bare.split()) < _SELF_CONTAINED_WORDS
        and not _CONCRETE.search(bare[6:])
    ):
        return None
    is_one_time = SENTENCES.request.match(bare) and scores.by_category.get(best, 0.0) < CANDIDATE_THRESHOLD
    if is_one_time or scores.total < CANDIDATE_THRESHOLD:
        return None
    return Candidate(
        best,
        _with_context(text, bare, previous),
        abstract=shorten(bare, 200),
        overview=shorten(f"{previous} {text}", _CONTEXT_CHARS) if previous else "",
        confidence=min(0.5 + 0.1 * scores.total, 0.9),
        decision=("events", "states a decision") in scores.why and best == "events",
        why="; ".join(scores.reasons()),
    )


def _is_no_statement(sentence: Sentence) -> bool:
    """Return whether the sentence is a question, a thought or a reaction.

    A polite instruction ("could you name files in lower case") is a statement.
    """
    bare = sentence.bare
    if is_question(sentence) and not (
        SENTENCES.polite_request.match(bare) and SENTENCES.how_to_write.search(bare)
    ):
        return True
    reacts = PROBLEMS.confirmation.search(bare) and len(bare.split()) < _SELF_CONTAINED_WORDS
    if SENTENCES.need.match(bare):
        return True
    return bool(
        reacts or SENTENCES.counter_signs.search(sentence.text.partition(", which ")[0]) or _is_short(bare)
    )


def _point_out(sentence: Sentence) -> Candidate:
    why = "the assistant points it out"
    return Candidate("patterns", sentence.bare, abstract=sentence.bare, confidence=0.5, why=why)


def _state_decision(sentence: Sentence) -> Candidate:
    text, why = sentence.bare, "states a decision"
    return Candidate("events", text, abstract=shorten(text, 200), confidence=0.6, decision=True, why=why)


def _with_context(text: str, bare: str, previous: str) -> str:
    """Prepend the previous sentence if this one refers to it and is short."""
    refers = SENTENCES.reference.search(bare)
    if previous and refers and (len(bare.split()) < _SELF_CONTAINED_WORDS or "that way" in bare):
        return f"{previous} {text}"
    return bare[:1].upper() + bare[1:]


def _is_contained(one: Candidate, other: Candidate) -> bool:
    """Return whether another candidate contains this one."""
    return one is not other and one.category == other.category and one.dedup_key in other.dedup_key


def _is_short(text: str) -> bool:
    return len(text.split()) < _MIN_WORDS and len(CJK.findall(text)) < 8 and not len(text) > 25


def _is_free_of_secrets(candidate: Candidate) -> bool:
    """Return whether a candidate contains neither a credential nor a redacted one."""
    return REDACTED not in candidate.content and not may_contain_secrets(candidate.content)
