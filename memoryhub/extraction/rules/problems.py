"""Split messages into sentences, and recognise a problem and its solution over several turns.

Sentences leave out code, logs, tables and pleasantries. No database access.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from memoryhub.core.rule_files import PatternFile, Regex, load_rule_file
from memoryhub.core.text import CJK, STOP_WORDS, collapse_whitespace, shorten, stem, terms, words
from memoryhub.extraction.comparison import Candidate
from memoryhub.extraction.conversation import USER

MAX_SENTENCE_CHARS = 600  # a longer one is not a sentence
MAX_SENTENCES_PER_MESSAGE = 400  # of one message
MAX_MESSAGE_CHARS = 20_000  # of one message; a longer one is a document
_ABBREVIATION = 12  # longest abbreviation, with some context
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_LIST = re.compile(r"^\s*(?:[-*+•]|(?P<number>\d{1,2})[.)])\s+")
_SKIPPED_LINE = re.compile(r"^\s*(?:#{1,6}\s|\||>)")
_END = re.compile(r"(?<=[.!?])[\"')\]]?\s+|(?<=[。！？])")
_QUESTION = re.compile(r"[?？]\s*$")


class SentenceRules(PatternFile):
    abbreviated: Regex
    filler: Regex
    question_word: Regex
    statement_before_question: Regex
    statement_before_hedge: Regex
    log_line: Regex
    role_to_play: Regex
    letter: Regex
    text_task: Regex
    points_to_text: Regex
    quoted: Regex


_RULES = load_rule_file(Path(__file__).with_name("sentences.toml"), SentenceRules)


@dataclass(frozen=True)
class Sentence:
    """One sentence on one line.

    ``bare`` is the sentence without filler words at the start, ``number`` its list number.
    """

    text: str
    question: bool = False
    number: int = 0

    @property
    def bare(self) -> str:
        return _RULES.filler.sub("", self.text, count=1).strip() or self.text


def strip_foreign_text(message: str) -> str:
    """Remove text that the user only quotes: drafts, letters, long quotations and role-play instructions.

    This covers the text after "proofread this:", and after "is this text right?" and an empty line.
    """
    if _RULES.role_to_play.match(message):
        return ""
    statement = _RULES.letter.split(message[:MAX_MESSAGE_CHARS], maxsplit=1)[0]
    statement = _RULES.text_task.sub(r"\1", statement)
    statement = _RULES.points_to_text.sub(r"\1", statement)
    return _RULES.quoted.sub(" … ", statement)


def split_sentences(message: str) -> list[Sentence]:
    """Return the sentences in order, up to the limits of a hand-written message."""
    found: list[Sentence] = []
    for line, number in _lines(message[:MAX_MESSAGE_CHARS]):
        for part in _split_line(line):
            if _is_prose(part):
                stated = _RULES.statement_before_question.match(part)
                asked = bool(_QUESTION.search(part)) and stated is None
                statement = stated["said"] if stated else part
                hedged = None if asked else _RULES.statement_before_hedge.match(statement)
                found.append(Sentence(hedged["said"] if hedged else statement, asked, number))
        if len(found) >= MAX_SENTENCES_PER_MESSAGE:
            break
    return found


def is_question(sentence: Sentence) -> bool:
    """Return whether the sentence is a question, with or without a question mark."""
    return sentence.question or bool(_RULES.question_word.match(sentence.bare))


def _lines(message: str) -> Iterator[tuple[str, int]]:
    """Yield lines outside of code with their list numbers; join the lines of a paragraph."""
    fenced = False
    block: list[str] = []
    for line in [*message.splitlines(), ""]:
        fence = bool(_FENCE.match(line))
        item = _LIST.match(line)
        skipped = fence or not line.strip() or _SKIPPED_LINE.match(line) or _RULES.log_line.match(line)
        if (skipped or item) and block:
            yield from _join_lines(block)
            block = []
        fenced ^= fence
        if skipped or fenced:
            continue
        if item:
            yield line[item.end() :], int(item["number"] or 0)
        elif line.startswith(("    ", "\t")):
            continue  # code
        else:
            block.append(line.strip())


def _join_lines(block: list[str]) -> Iterator[tuple[str, int]]:
    """Join wrapped lines. Documents break at full lines, chats at the end of a thought."""
    whole = ""
    for line in block:
        if whole and ((len(whole) < 60 and whole[-1] not in ",;-–") or whole[-1] in ".!?:"):
            yield whole, 0
            whole = line
        else:
            whole = f"{whole} {line}".strip()
    if whole:
        yield whole, 0


def _split_line(line: str) -> Iterator[str]:
    pending = ""
    for part in _END.split(line.replace("**", "")):
        pending = f"{pending} {part}".strip() if pending else part.strip()
        if pending and (
            len(pending) > MAX_SENTENCE_CHARS or not _RULES.abbreviated.search(pending[-_ABBREVIATION:])
        ):
            yield collapse_whitespace(pending)
            pending = ""
    if pending:
        yield collapse_whitespace(pending)


def _is_prose(part: str) -> bool:
    """Return whether the part has some words and mostly letters (no log, path or table)."""
    if not 3 <= len(part) <= MAX_SENTENCE_CHARS or part[0] in "{}[]<|$@\\":
        return False
    letters = sum(map(str.isalpha, part))
    wordy = len(part.split()) >= 2 or len(CJK.findall(part)) >= 4
    return wordy and letters >= 0.55 * len(part.replace(" ", ""))


MAX_PARTS = 3  # sentences per part
_MAX_OPEN_TURNS = 12  # an unsolved problem is dropped after this many turns
_MIN_SHARED_WORDS = 2  # words that a sentence shares with the problem to be on topic
_MIN_CAUSE_WORDS = 3  # "ok, good" explains nothing
_OPTION_WORDS = (("first", "former", "one"), ("second", "latter", "two"), ("third", "three"))


class ProblemPatterns(PatternFile):
    problem: Regex
    cause: Regex
    cause_and_fix: Regex
    found_out: Regex
    solved: Regex
    label: Regex
    result: Regex
    earlier: Regex
    aside: Regex
    refers_back: Regex
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
    """A problem and its known parts. ``at``, ``fixed_at``: the turns in which it came up and was solved."""

    at: int
    problem: list[str]
    cause: list[str] = field(default_factory=list)
    fix: list[str] = field(default_factory=list)
    confirmed: bool = False
    fixed_at: int = 0
    context: str = ""  # the sentence that the problem refers back to

    @property
    def is_solved(self) -> bool:
        return bool(self.fix)

    def shared_words(self, text: str) -> int:
        """Return the number of words that a sentence shares with the problem and its cause."""
        return len(terms(text) & terms(" ".join([self.context, *self.problem, *self.cause])))

    def names_other_subject(self, text: str) -> bool:
        """Return whether a sentence has another attribute of the same noun: "csv export" for "pdf export"."""
        if self.shared_words(text) >= _MIN_SHARED_WORDS:
            return False
        own, other = _attributes(" ".join(self.problem)), _attributes(text)
        mine, theirs = {*own, *own.values()}, {*other, *other.values()}
        return any(own[noun] not in theirs and other[noun] not in mine for noun in own.keys() & other.keys())

    def candidate(self) -> Candidate:
        problem, cause, fix = map(_join_parts, (self.problem, self.cause, self.fix))
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


def _join_parts(sentences: list[str]) -> str:
    """Join the sentences of a part, without a heading such as "Cause:", which the case adds."""
    return RULES.label.sub("", " ".join(sentences[:MAX_PARTS]))


def _attributes(text: str) -> dict[str, str]:
    """Return the stem of the word before each word, where neither is a stop word."""
    found = [stem(word) if word not in STOP_WORDS and len(word) > 2 else "" for word in words(text)]
    return {noun: word for word, noun in pairwise(found) if word and noun}


class ProblemTracker:
    """Follow the turns and pair each problem with its own solution.

    Several problems can be open at once. A solution that could belong to two of them is dropped, because a
    wrong pair is worse than none.
    """

    def __init__(self) -> None:
        self._cases: list[ProblemCase] = []
        self._current: ProblemCase | None = None  # the latest problem that was mentioned
        self._turn = 0
        self._topic: ProblemCase | None = None  # the problem of the last sentence of this turn
        self._complaint = ""  # last complaint of the user
        self._asked_why = False
        self._options: dict[int, str] = {}
        self._recent: list[str] = []  # recent sentences of the user that belong to no problem
        self._proposed: list[str] = []  # last proposals of the assistant

    def read_turn(self, role: str, sentences: Sequence[Sentence]) -> set[str]:
        """Process one turn; return the sentences that belong to a problem."""
        self._turn += 1
        self._topic = None
        for case in self._unsolved():
            if self._turn - case.at > _MAX_OPEN_TURNS:
                self._drop(case)
        if role == USER:
            self._check_verdict(sentences)
        used: set[str] = set()
        before = ""
        for sentence in sentences:
            if self._read_sentence(role, sentence, before):
                used.add(sentence.text)
            elif role == USER:
                self._recent = [*self._recent, sentence.text][-_MAX_OPEN_TURNS:]
            before = sentence.text
        self._remember(role, sentences)
        return used

    def finish(self) -> list[Candidate]:
        """Return the solved problems in the order in which they came up."""
        return [case.candidate() for case in self._cases if case.is_solved]

    def _unsolved(self) -> list[ProblemCase]:
        return [case for case in self._cases if not case.is_solved]

    def _open_case(self, case: ProblemCase) -> ProblemCase:
        self._cases.append(case)
        self._current = self._topic = case
        return case

    def _drop(self, case: ProblemCase) -> None:
        self._cases.remove(case)
        self._current = None if self._current is case else self._current

    def _case_about(self, text: str) -> ProblemCase | None:
        """Return the unsolved problem that a sentence is about; None if there is none or it may be several.

        The words decide, then the sentence before in the same turn, then whether only one is open.
        """
        cases = self._unsolved()
        shared = [(case.shared_words(text), case) for case in cases]
        best = max((count for count, _ in shared), default=0)
        if best:
            winners = [case for count, case in shared if count == best]
            return winners[0] if len(winners) == 1 else None
        if self._topic in cases:
            return self._topic
        return cases[0] if len(cases) == 1 and not self._is_about_other_work(text) else None

    def _is_about_other_work(self, text: str) -> bool:
        own = terms(text)
        return any(len(own & terms(other)) >= _MIN_SHARED_WORDS for other in self._recent)

    def _check_verdict(self, sentences: Sequence[Sentence]) -> None:
        """Check whether the user confirms or rejects the proposed fix."""
        if not sentences:
            return
        first = sentences[0].text
        if RULES.still_broken.search(first):
            named = [case for case in self._cases if case.is_solved and case.shared_words(first)]
            rejected = named[-1] if named else self._current
            if rejected and rejected.is_solved:
                rejected.fix.clear()
                self._current = rejected
        elif RULES.confirmation.search(first):
            case = self._current
            if case and case.is_solved:
                case.confirmed = True
            elif self._proposed and (case := self._case_about(" ".join(self._proposed[-2:]))):
                if any(map(case.names_other_subject, self._proposed[-2:])):
                    return
                case.fix += self._proposed[-2:]
                case.fixed_at, case.confirmed, self._current = self._turn, True, case

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
        if role == USER and self._current and (choice := self._selected_option(text)):
            self._add_fix(self._current, choice)
            return True
        if sentence.number and role != USER:
            return False  # an offer
        if role == USER and not sentence.question and self._record_cause_and_fix(text):
            return True
        done = RULES.fix.search(text) or (role != USER and RULES.result.search(text))
        if done and not sentence.question and not RULES.earlier.search(text):
            return self._record_fix(role, text, before)
        if RULES.problem.search(text) and not RULES.still_broken.search(text):
            return self._record_problem(role, sentence, before)
        return self._record_cause(role, sentence, before)

    def _record_cause_and_fix(self, text: str) -> bool:
        """Record a problem or cause whose fix is in the same sentence, unless it solves an open problem."""
        both = RULES.cause_and_fix.match(text)
        if not both or (self._case_about(text) and not RULES.aside.match(text)):
            return False
        if not (
            RULES.found_out.search(text)
            or (RULES.problem.search(both["cause"]) and RULES.solved.search(text))
        ):
            return False
        case = ProblemCase(self._turn, [], [both["cause"]], confirmed=True)
        self._add_fix(self._open_case(case), both["fix"])
        return True

    def _record_cause(self, role: str, sentence: Sentence, before: str) -> bool:
        """Record a cause: stated as such, the answer to a "why", or on topic."""
        text = sentence.text
        case = self._case_about(text)
        if case is None:
            return False
        if sentence.question:
            if case.shared_words(text):
                self._current = case
            return False
        shared = case.shared_words(text)
        if role == USER and not shared and self._topic is not case:
            return False  # another subject, though only this problem is open
        answers = role != USER and (RULES.found_it.search(before) or self._asked_why)
        stated = bool(RULES.cause.search(text) or answers)
        if stated or (role != USER and shared >= _MIN_SHARED_WORDS):
            case.cause.append(text)
            self._current = self._topic = case
        elif shared:
            self._topic = case
        return stated and (role != USER or bool(shared))

    def _record_problem(self, role: str, sentence: Sentence, before: str) -> bool:
        """Extend an open problem or, if the user names another one, open it."""
        text, case = sentence.text, self._case_about(sentence.text)
        if role == USER and case and self._names_another(case, text):
            case = None
        if case:
            if not sentence.question:
                (case.problem if role == USER and not RULES.cause.search(text) else case.cause).append(text)
            self._current = self._topic = case
            return True
        needed = 1 if sentence.question else _MIN_SHARED_WORDS
        if solved := [one for one in self._cases if one.is_solved and one.shared_words(text) >= needed]:
            self._current = self._topic = solved[-1]
            return True
        if RULES.answer.search(text) or (
            role != USER and not (RULES.cause.search(text) and RULES.encountered.search(text))
        ):
            return False
        context = before if RULES.refers_back.search(text) else ""
        self._open_case(ProblemCase(self._turn, [text], context=context))
        return True

    def _names_another(self, case: ProblemCase, text: str) -> bool:
        """Return whether the user states a problem other than the open one."""
        if shared := case.shared_words(text):
            return shared < _MIN_SHARED_WORDS and bool(RULES.aside.match(text))
        return bool(RULES.aside.match(text)) or not RULES.refers_back.search(text)

    def _record_fix(self, role: str, text: str, before: str) -> bool:
        case = self._case_to_fix(role, text)
        if case is None and not self._unsolved():
            case = self._case_without_report(role, text, before)
        if case is None:
            return False
        explains = role == USER and len(before.split()) >= _MIN_CAUSE_WORDS
        if explains and before not in case.problem and before not in case.cause:
            case.cause.append(before)
        self._add_fix(case, text)
        case.confirmed |= role == USER
        return True

    def _case_to_fix(self, role: str, text: str) -> ProblemCase | None:
        """Return the problem that a sentence solves: one it is about, or the one that is being solved."""
        solved = self._current if self._current and self._current.is_solved else None
        case = self._case_about(text)
        if solved:
            goes_on = self._topic is solved or (role == USER and self._turn - solved.fixed_at <= 1)
            known = solved.shared_words(text) > (case.shared_words(text) if case else 0)
            if known or (goes_on and not (case and case.shared_words(text))):
                return solved
        if case and role != USER and case.names_other_subject(text):
            return None
        if case and RULES.aside.match(text) and not case.shared_words(text):
            return None  # other work
        return case

    def _case_without_report(self, role: str, text: str, before: str) -> ProblemCase | None:
        """Open a problem that is known only by its solution."""
        if role != USER:
            is_answer = self._complaint and RULES.reason.search(text)
            return self._open_case(ProblemCase(self._turn, [self._complaint])) if is_answer else None
        is_report = before and (RULES.found_out.search(before) or RULES.solved.search(text))
        return self._open_case(ProblemCase(self._turn, [], [before])) if is_report else None

    def _add_fix(self, case: ProblemCase, text: str) -> None:
        case.fix.append(text)
        case.fixed_at = self._turn
        self._current = self._topic = case
