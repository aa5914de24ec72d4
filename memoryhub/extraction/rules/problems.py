"""Recognise a problem and its solution over several turns. No database access."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memoryhub.core.rule_files import PatternFile, Regex, load_rule_file
from memoryhub.core.text import shorten, terms
from memoryhub.extraction.comparison import Candidate
from memoryhub.extraction.conversation import USER
from memoryhub.extraction.rules.sentences import Sentence, is_question

MAX_PARTS = 3  # sentences per part
_MAX_OPEN_TURNS = 12  # an unsolved problem is dropped after this many turns
_MIN_SHARED_WORDS = 2  # words that a sentence shares with the problem to be on topic
_OPTION_WORDS = (("first", "former", "one"), ("second", "latter", "two"), ("third", "three"))


class ProblemPatterns(PatternFile):
    problem: Regex
    cause: Regex
    cause_and_fix: Regex
    found_out: Regex
    solved: Regex
    result: Regex
    earlier: Regex
    found_it: Regex
    fix: Regex
    confirmation: Regex
    still_broken: Regex
    why: Regex
    encountered: Regex
    choice: Regex
    answer: Regex
    reason: Regex


RULES = load_rule_file(Path(__file__).with_suffix(".toml"), ProblemPatterns)


@dataclass
class ProblemCase:
    """A problem and its known parts. ``at`` is the turn in which it came up."""

    at: int
    problem: list[str]
    cause: list[str] = field(default_factory=list)
    fix: list[str] = field(default_factory=list)
    confirmed: bool = False

    @property
    def is_solved(self) -> bool:
        return bool(self.fix)

    def is_about(self, text: str) -> bool:
        """Return whether a sentence is about this problem."""
        return len(terms(text) & terms(" ".join([*self.problem, *self.cause]))) >= _MIN_SHARED_WORDS

    def candidate(self) -> Candidate:
        problem, cause, fix = (" ".join(part[:MAX_PARTS]) for part in (self.problem, self.cause, self.fix))
        lines = [
            f"Problem: {problem}" if problem else "",
            f"Cause: {cause}" if cause else "",
            f"Solution: {fix}",
        ]
        return Candidate(
            "cases",
            "\n".join(filter(None, lines)),
            abstract=f"{shorten(problem or cause, 95)} → {shorten(fix, 95)}",
            overview=" ".join(filter(None, (problem, cause, fix))),
            confidence=0.8 if self.confirmed else 0.6,
            why="a problem, and what solved it",
        )


class ProblemTracker:
    """Follow the turns and collect solved problems."""

    def __init__(self) -> None:
        self.solved_cases: list[Candidate] = []
        self._open: ProblemCase | None = None
        self._turn = 0
        self._complaint = ""  # last complaint of the user
        self._asked_why = False
        self._options: dict[int, str] = {}
        self._proposed: list[str] = []  # last proposals of the assistant

    def read_turn(self, role: str, sentences: Sequence[Sentence]) -> set[str]:
        """Process one turn; return the sentences that belong to a problem."""
        self._turn += 1
        if self._open and not self._open.is_solved and self._turn - self._open.at > _MAX_OPEN_TURNS:
            self._open = None
        if role == USER:
            self._check_verdict(sentences)
        used: set[str] = set()
        before = ""
        for sentence in sentences:
            if self._read_sentence(role, sentence, before):
                used.add(sentence.text)
            before = sentence.text
        self._remember(role, sentences)
        return used

    def _check_verdict(self, sentences: Sequence[Sentence]) -> None:
        """Check whether the user confirms or rejects the proposed fix."""
        if not self._open or not sentences:
            return
        first = sentences[0].text
        if RULES.still_broken.search(first):
            self._open.fix.clear()
        elif RULES.confirmation.search(first):
            self._open.confirmed = True
            if not self._open.fix:
                self._open.fix += self._proposed[-2:]

    def _remember(self, role: str, sentences: Sequence[Sentence]) -> None:
        plain = [one.text for one in sentences if not (one.question or is_question(one))]
        options = {one.number: one.text for one in sentences if one.number}
        if role == USER:
            self._complaint = plain[-1] if plain else self._complaint
            self._asked_why = any(RULES.why.match(one.text) for one in sentences)
            self._options = options or self._options
        else:
            self._proposed = plain or self._proposed
            self._options = options
            self._asked_why = False

    def finish(self) -> list[Candidate]:
        self._close()
        return self.solved_cases

    def _selected_option(self, text: str) -> str:
        """Return the offered option that an answer such as "let's go with 2" selects, or ""."""
        found = RULES.choice.search(text)
        if not found or not self._options:
            return ""
        which = found["which"].lower()
        number = next((n for n, words in enumerate(_OPTION_WORDS, start=1) if which in words), 0)
        return self._options.get(int(which) if which.isdigit() else number, "")

    def _read_sentence(self, role: str, sentence: Sentence, before: str) -> bool:
        text = sentence.text
        if role == USER and self._open and (choice := self._selected_option(text)):
            self._open.fix.append(choice)
            return True
        if sentence.number and role != USER:
            return False  # an offer
        if role == USER and not sentence.question and self._record_cause_and_fix(text):
            return True
        done = RULES.fix.search(text) or (role != USER and RULES.result.search(text))
        if done and not sentence.question and not RULES.earlier.search(text):
            return self._record_fix(role, text, before)
        if RULES.problem.search(text) and not RULES.still_broken.search(text):
            return self._record_problem(role, text, sentence.question)
        return self._record_cause(role, sentence, before)

    def _record_cause_and_fix(self, text: str) -> bool:
        """Record a problem or cause whose fix is in the same sentence."""
        both = RULES.cause_and_fix.match(text)
        if not both or (self._open and not self._open.is_solved):
            return False
        if not (
            RULES.found_out.search(text)
            or (RULES.problem.search(both["cause"]) and RULES.solved.search(text))
        ):
            return False
        self._close()
        self._open = ProblemCase(self._turn, [], [both["cause"]], [both["fix"]], confirmed=True)
        return True

    def _record_cause(self, role: str, sentence: Sentence, before: str) -> bool:
        """Record a cause: stated as such, the answer to a why, or on topic."""
        case, text = self._open, sentence.text
        if case is None or case.is_solved or sentence.question:
            return False
        answers = role != USER and (RULES.found_it.search(before) or self._asked_why)
        if RULES.cause.search(text) or answers:
            case.cause.append(text)
            return True
        if role != USER and case.is_about(text):
            case.cause.append(text)
        return False

    def _record_problem(self, role: str, text: str, question: bool) -> bool:
        """Extend the open problem or open a new one; only a new problem of the user replaces an open one."""
        case = self._open
        if case and (role != USER or case.is_about(text) or self._turn - case.at <= 2):
            if not case.is_solved and not question:
                (case.problem if role == USER and not RULES.cause.search(text) else case.cause).append(text)
            return not case.is_solved or case.is_about(text)
        if RULES.answer.search(text) or (
            role != USER and not (RULES.cause.search(text) and RULES.encountered.search(text))
        ):
            return False
        self._close()
        self._open = ProblemCase(self._turn, [text])
        return True

    def _record_fix(self, role: str, text: str, before: str) -> bool:
        if self._open is None and role != USER and self._complaint and RULES.reason.search(text):
            self._open = ProblemCase(self._turn, [self._complaint])
        is_report = role == USER and before and (RULES.found_out.search(before) or RULES.solved.search(text))
        if self._open is None and is_report:
            self._open = ProblemCase(self._turn, [], [before])
        if self._open is None:
            return False
        if role == USER and before and before not in self._open.problem and before not in self._open.cause:
            self._open.cause.append(before)
        self._open.fix.append(text)
        self._open.confirmed |= role == USER
        return True

    def _close(self) -> None:
        if self._open and self._open.is_solved:
            self.solved_cases.append(self._open.candidate())
        self._open = None
