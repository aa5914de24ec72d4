"""Recognise a problem and its solution over several turns. No database access."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from memoryhub.core.text import shorten, terms
from memoryhub.extraction.comparison import Candidate
from memoryhub.extraction.conversation import USER
from memoryhub.extraction.rules.sentences import Sentence, is_question
from memoryhub.extraction.rules.statements import any_of

MAX_PARTS = 3  # sentences per part
_MAX_OPEN_TURNS = 12  # an unsolved problem is dropped after this many turns
_MIN_SHARED_WORDS = 2  # words that a sentence shares with the problem to be on topic
PROBLEM = any_of(
    r"\b\w{3,40}(?:Error|Exception)\b|\b(?:fail(?:s|ed|ing|ure)?|dies|died|flaky|crash(?:es|ed|ing)?|error|exception|broken|breaks?|bug|stuck|hangs?|hung|freez\w+"
    r"|timeouts?|times?\sout|timed\sout|slow|leak(?:s|ing)?|oom\w*|killed|wrong|incorrect|corrupt\w*|expired|outage"
    r"|regression|missing|not\sfound|cannot\sfind|no\ssuch|undefined|not\sloaded|invalid|unable\sto|is\sred|down|lost\s(?!my|our|his|her)\w+|mismatch|differs?|different\sfrom|unavailable|still\sthe\sold|takes\s\d+\s(?:s|sec\w*|min\w*|hours?)|at\srandom|takes?\s(?:forever|ages|too\slong)|only\safter|too\s(?:slow|late|long|many|few|high|low|big|large|small)|spots?|rot|noise|rattles?|refus(?:es|ed)|denied|keeps?\s\w+ing)\b",
    r"\b(?:doesn'?t|does\snot|didn'?t|won'?t|isn'?t|not)\s(?:work|working|start|load|run|build|show|render|respond)\w*\b",
    r"\b(?:dropped|fell|rose|jumped|went)\s(?:from|to|by)\s[\d.,]+|\b(?:doppelt|falsch|fehlt|fehlen)\b|\bdas\sproblem\b|\bthe\sproblem\b",
    r"\b(?:returns?|returned|status|http|got|get|getting|gives?)\s[45]\d\d\b|\bnpm\sERR",
    r"\bwhy\s(?:does|do|is|are|did|doesn't|isn't|don't)\b|\ball\sover\sthe\splace\b|\?{3}|\bwants\sto\s(?:destroy|delete|overwrite)\b",
    r"\b(?:effect|problem|issue)\sat\sfirst\b|\b(?:at|over)\s(?:9\d|100)\s?%|\b(?:disk|memory|quota)\s(?:is\s)?full\b",
    r"\b(?:fehler|bricht\s\w+\s?\w*\s?ab|geht\snicht|funktioniert\snicht|kaputt|abgestürzt|langsam)\b",
    r"\b(?:fall(?:a|aba|ó)|no\sfunciona|lento|roto|échoue|plante|erreur|ne\smarche\spas|ne\sfonctionne\spas|en\spanne)\b",
    r"(?:エラー|失敗|動かない|落ちる|遅い|不具合|バグ|报错|失败|崩溃|不工作|问题)",
)
CAUSE = any_of(
    r"\b(?:because|root\scause|the\s(?:cause|reason|culprit)|caused\sby|due\sto|turn(?:s|ed)\sout|so\sthat'?s\swhy|that'?s\swhy"
    r"|,\sso\s(?:the|it|that|we|memory|no)|comes\sfrom|came\sfrom|the\sproblem\s(?:is|was)|the\sdifference\s(?:\S+\s){0,4}is|has\sits\sown|by\sdefault"
    r"|nobody\sknew|without\s\w+|simply|never\s\w+ed)\b",
    r"\b(?:weil|liegt\san|kommt\sdaher|die\sursache|grund|wegen|porque|debido\sa|ya\sque|parce\sque|à\scause\sde)\b",
    r"(?:原因|ため|なぜなら|ので|因为|由于)",
)
_DONE_VERBS = (
    r"(?:fixed|solved|filtered|wrote|purged|installed|soldered|cleaned|created|added|changed|moved|set|raised|lowered|pinned|replaced|switched|passed|rewrote|removed"
    r"|updated|enabled|disabled|increased|reduced|renamed|issued|restarted|reverted|upgraded|downgraded|cleared"
    r"|configured|patched|implemented|introduced|wrapped|escaped|kept|split|cached|limited|rotated|deleted|made"
    r"|put|turned|used|needed)"
)
# Problem and fix in one sentence: "the bug was in the parser; fixed it by using UTC".
_CAUSE_AND_FIX = re.compile(
    rf"^(?P<cause>.{{8,300}}?)[,;]\s(?P<fix>(?:(?:and|so|then)\s)*(?:(?:i|we)(?:'ve|\shave)?\s)?{_DONE_VERBS}\s.+)$",
    re.IGNORECASE,
)
_FOUND_OUT = re.compile(
    r"\b(?:root\scause|turn(?:s|ed)\sout|the\s(?:bug|problem|issue|culprit|cause|reason|error)\swas)\b",
    re.IGNORECASE,
)
_SOLVED = re.compile(
    r"\b(?:fixed|solved|resolved)\s(?:(?:it|that|this)\s)?(?:by|with)\b|^(?:the\s)?(?:fix|solution)\s?(?::|is\b|was\b)",
    re.IGNORECASE,
)
# How an assistant describes the state after its work.
_RESULT = re.compile(
    r"\b(?:takes|shows|is|are|runs|returns|went|shrank|dropped)\b.{1,80}\bnow[.!]?$|^(?:the|it|they)\s(?:\w+\s){0,3}now\s\w+s\b",
    re.IGNORECASE,
)
_EARLIER = re.compile(r"\b(?:since|when|after|before|until|like when)\s(?:i|we)\b", re.IGNORECASE)
_FOUND_IT = re.compile(r"\b(?:found\s(?:the\s(?:cause|reason|problem|bug)|it)|root\scause)\b", re.IGNORECASE)
FIX = any_of(
    rf"\bi(?:'ve|\shave)?\s(?:now\s|then\s|also\s|just\s|simply\s)?{_DONE_VERBS}\b|\bwe(?:'ve|\shave)?\s(?:now\s|then\s)?{_DONE_VERBS}\b"
    rf"|^(?:so\s|then\s|and\s)?{_DONE_VERBS}\s",
    r"\bthe\s(?:fix|solution|workaround|trick)\s(?:is|was|:)|^(?:the\s)?(?:fix|solution):\s|\b(?:fixed|solved|resolved)\sby\b",
    r"\b(?:now|it)\s(?:it\s)?(?:works|passes|runs|builds)\b(?!\?)|\bworks\snow\b|\bdid\sthe\strick\b",
    r"\bich\shabe\b.{1,120}\b(?:gesetzt|geändert|gemacht|umgestellt|angepasst|verschoben|eingebaut|festgenagelt|behoben|ersetzt|hinzugefügt|entfernt|aktualisiert)\b",
    r"\blo\s(?:solucioné|arreglé|resolví|cambié)\b|\bj'ai\s(?:corrigé|changé|ajouté|remplacé)\b",
    r"(?:通りました|動きました|修正しました|直しました|解決しました|変更しました|修复了|解决了|改成)",
)
CONFIRMATION = any_of(
    r"^\W*(?:green|confirmed|works|working|fixed|solved|passes|perfect|that\s(?:did\sit|was\sit|fixed\sit|worked|helped)|it\sworks"
    r"|(?:now\s)?it\sworks|that\sdoes\sit|läuft|klappt|geht\sjetzt|funktioniert|ça\smarche|funciona|直りました|動きました)\b"
    r"|\b(?:works|fixed|green)\snow\b|\b(?:did\sthe\strick|no\smore|klappt|läuft\sjetzt|awesome|makes\ssense)\b|\bthat\s(?:did\sit|fixed\sit|solved\sit)\b"
)
STILL_BROKEN = any_of(
    r"\bstill\s(?:red|fail\w*|broken|not|the\ssame|crash\w*|slow|happen\w*|get\w*|see\w*|\d{3})\b|^\W*still\s\w+\W*$"
    r"|\bdid(?:n'?t|\snot)\s(?:help|work|change)\b|\bsame\s(?:error|problem|result)\b|\bno\s(?:luck|change|difference)\b"
    r"|\bimmer\snoch\b|\btoujours\spas\b|\bsigue\s(?:sin|fallando)\b"
)
_WHY = re.compile(
    r"^\W*(?:but\s|and\s|ok\s|so\s)*(?:why|how\scome|warum|wieso|pourquoi|por\squé)\b", re.IGNORECASE
)
# Assistants explain general failures; only a failure that they met counts as a problem.
_ENCOUNTERED = any_of(
    r"\bi(?:'ve)?\s(?:found|noticed|discovered|saw|see|hit|ran\sinto)\b|\b(?:failed|crashed|broke|was\sfailing|were\sfailing)\b"
    r"|\b(?:fallaba|falló|échouait|plantait|schlug\sfehl|stürzte)\b|\bone\sof\sthe\b|(?:ました|でした)"
)
_CHOICE = re.compile(
    r"\b(?:go\swith|take|do|choose|pick|option|number)\s(?:the\s|option\s|number\s)?"
    r"(?P<which>\d{1,2}|first|second|third|latter|former|one|two|three)\b",
    re.IGNORECASE,
)
_OPTION_NUMBERS = {
    "first": 1,
    "former": 1,
    "one": 1,
    "second": 2,
    "latter": 2,
    "two": 2,
    "third": 3,
    "three": 3,
}
# Corrections of answers and translations concern only this conversation.
_ANSWER = re.compile(r"\b(?:answers?|translations?|grammar|spelling|sentence)\b", re.IGNORECASE)
_REASON = re.compile(r"\b(?:so that|because|otherwise|weil|damit|porque|para que)\b", re.IGNORECASE)


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
        if STILL_BROKEN.search(first):
            self._open.fix.clear()
        elif CONFIRMATION.search(first):
            self._open.confirmed = True
            if not self._open.fix:
                self._open.fix += self._proposed[-2:]

    def _remember(self, role: str, sentences: Sequence[Sentence]) -> None:
        plain = [one.text for one in sentences if not (one.question or is_question(one))]
        options = {one.number: one.text for one in sentences if one.number}
        if role == USER:
            self._complaint = plain[-1] if plain else self._complaint
            self._asked_why = any(_WHY.match(one.text) for one in sentences)
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
        found = _CHOICE.search(text)
        if not found or not self._options:
            return ""
        which = found["which"].lower()
        return self._options.get(int(which) if which.isdigit() else _OPTION_NUMBERS[which], "")

    def _read_sentence(self, role: str, sentence: Sentence, before: str) -> bool:
        text = sentence.text
        if role == USER and self._open and (choice := self._selected_option(text)):
            self._open.fix.append(choice)
            return True
        if sentence.number and role != USER:
            return False  # an offer
        if role == USER and not sentence.question and self._record_cause_and_fix(text):
            return True
        done = FIX.search(text) or (role != USER and _RESULT.search(text))
        if done and not sentence.question and not _EARLIER.search(text):
            return self._record_fix(role, text, before)
        if PROBLEM.search(text) and not STILL_BROKEN.search(text):
            return self._record_problem(role, text, sentence.question)
        return self._record_cause(role, sentence, before)

    def _record_cause_and_fix(self, text: str) -> bool:
        """Record a problem or cause whose fix is in the same sentence."""
        both = _CAUSE_AND_FIX.match(text)
        if not both or (self._open and not self._open.is_solved):
            return False
        if not (_FOUND_OUT.search(text) or (PROBLEM.search(both["cause"]) and _SOLVED.search(text))):
            return False
        self._close()
        self._open = ProblemCase(self._turn, [], [both["cause"]], [both["fix"]], confirmed=True)
        return True

    def _record_cause(self, role: str, sentence: Sentence, before: str) -> bool:
        """Record a cause: stated as such, the answer to a why, or on topic."""
        case, text = self._open, sentence.text
        if case is None or case.is_solved or sentence.question:
            return False
        answers = role != USER and (_FOUND_IT.search(before) or self._asked_why)
        if CAUSE.search(text) or answers:
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
                (case.problem if role == USER and not CAUSE.search(text) else case.cause).append(text)
            return not case.is_solved or case.is_about(text)
        if _ANSWER.search(text) or (role != USER and not (CAUSE.search(text) and _ENCOUNTERED.search(text))):
            return False
        self._close()
        self._open = ProblemCase(self._turn, [text])
        return True

    def _record_fix(self, role: str, text: str, before: str) -> bool:
        if self._open is None and role != USER and self._complaint and _REASON.search(text):
            self._open = ProblemCase(self._turn, [self._complaint])
        is_report = role == USER and before and (_FOUND_OUT.search(before) or _SOLVED.search(text))
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
