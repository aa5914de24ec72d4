"""Split a message into sentences, without code, logs, tables and pleasantries. No database access."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memoryhub.core.text import CJK, collapse_whitespace

MAX_SENTENCE_CHARS = 600  # a longer one is no sentence
MAX_SENTENCES_PER_MESSAGE = 400  # of one message
MAX_MESSAGE_CHARS = 20_000  # of one message; a longer one is a document
_ABBREVIATION = 12  # longest abbreviation, with some context
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_LIST = re.compile(r"^\s*(?:[-*+•]|(?P<number>\d{1,2})[.)])\s+")
_SKIPPED_LINE = re.compile(r"^\s*(?:#{1,6}\s|\||>)")
_END = re.compile(r"(?<=[.!?])[\"')\]]?\s+|(?<=[。！？])")
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|approx|Prof|Dr|Mr|Mrs|Ms|St|Nr|No|z\.\s?B|d\.\s?h|bzw|ca|Sr|Sra|\d{1,2})"
    r"|\b[A-Z])\.$"
)
_FILLER = re.compile(
    r"^(?:(?:yes|yeah|yep|yup|no(?=[,:;.!])|nope|ok|okay|sure|right|well|oh|ah|hm+|hey|hi|hello|hi there"
    r"|great|good|nice|perfect|cool|thanks|thank you|thx|and|also|so|but|btw|by the way|then"
    r"|one more(?: thing)?(?=[,:;])|excellent|agreed|exactly|update|awesome|fine|super|ja"
    r"|nein(?=[,:;.!])|moin|hallo|und|also|übrigens|danke|genau|sí|vale|hola|perfecto|y|pero|oui|non"
    r"|bonjour|merci|et|mais"
    r")(?:[,:;.!…]+|(?=\s))\s*)+",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"[?？]\s*$")
_QUESTION_WORD = re.compile(
    r"^(?:what|why|who|when|where|which|how|is|are|was|were|do|does|did|should|shall|would|will|can|could|may"
    r"|any idea|was|wie|wer|wo|wann|warum|kannst|könntest|ist|sind|qué|cómo|por qué|puedes)\b",
    re.IGNORECASE,
)


# "I'm planning a journey to Kyoto, any ideas?" contains a statement.
_STATEMENT_BEFORE_QUESTION = re.compile(
    r"^(?P<said>.{25,}?)[,;]\s(?:any\s|what\s|how\s|where\s|which\s|do(?:es)?\s|(?:would|could|can)\syou\s|ok|right)"
    r".{0,400}\?$"
)
# "..., but I'm not sure how to begin": the part before the comma is a statement.
_STATEMENT_BEFORE_HEDGE = re.compile(
    r"^(?P<said>.{25,}?),\s(?:(?:but|so|and)\s)?(?:now\s)?(?:i'm|i\sam|i\swas|i\swant\sto\smake\ssure|i\sneed)(?:\sto\smake\ssure)?"
    r"(?:\s(?:still\s|kinda\s|a\sbit\s)?(?:not\ssure|unsure|wondering|worried|hoping|looking\sfor|trying|considering|having\s(?:trouble|issues)|struggling|curious|help)\b|\b(?<=sure)).*$",
    re.IGNORECASE,
)
# A line of a log, a stack trace or shell output.
_LOG_LINE = re.compile(
    r"^\s*(?:\[?\d{4}-\d\d-\d\d[T\s]\d\d:\d\d|\[?\d\d:\d\d:\d\d|Traceback\s|File\s\"|at\s[\w.$]+\(|(?:INFO|WARN(?:ING)?|ERROR|DEBUG|TRACE|FATAL)\b"
    r"|npm\sWARN|import\s[\w{*.]+(?:$|\s(?:as|from)\s|,)|from\s\S+\simport\s|(?:def|class|function)\s\w+\s?[(:{]|(?:const|let|var)\s\w+\s?=|return\s\S+$"
    r"|(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)\s(?:\S+\s){0,8}(?:FROM|INTO|SET|TABLE|INDEX)\s|if\s__name__)|[;{}]\s*$"
)
_ROLE_TO_PLAY = re.compile(
    r"^\W*(?:you\sare\s(?:an?|the)\s|act\sas\s|pretend\s|imagine\syou|du\sbist\s(?:ein|eine)\s|eres\sun|tu\ses\sune?\s)",
    re.IGNORECASE,
)
_LETTER = re.compile(
    r"^[\"“„«']?(?:dear\s|to\swhom\sit|sehr\sgeehrte|liebe[rs]?\s|estimad|querid|cher\s|chère\s|madame,|monsieur,)",
    re.IGNORECASE | re.MULTILINE,
)
_TEXT_TASK = re.compile(
    r"(\b(?:proof-?read|translate|rewrite|rephrase|paraphrase|summari[sz]e|shorten|correct|korrigier\w*|übersetz\w*|traduis|traduce|corrige)"
    r"\b[^\n]{0,80}(?::|\n\s*\n))[\s\S]*",
    re.IGNORECASE,
)
_POINTS_TO_TEXT = re.compile(
    r"(\b(?:this|the|my|following)\s(?:\w+\s)?(?:text|article|essay|story|e?mail|letter|paragraph|draft|abstract|poem|post|speech|report)\b"
    r"[^\n]{0,60}\n\s*\n)[\s\S]*",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]{60,4000}\"|“[^“”]{60,4000}”|«[^«»]{60,4000}»|„[^„“”]{60,4000}[“”]")


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
        return _FILLER.sub("", self.text, count=1).strip() or self.text


def strip_foreign_text(message: str) -> str:
    """Remove text that the user only quotes: drafts, letters, long quotations and role-play instructions.

    This covers the text after "proofread this:", and after "is this text right?" and an empty line.
    """
    if _ROLE_TO_PLAY.match(message):
        return ""
    said = _LETTER.split(message[:MAX_MESSAGE_CHARS], maxsplit=1)[0]
    said = _TEXT_TASK.sub(r"\1", said)
    said = _POINTS_TO_TEXT.sub(r"\1", said)
    return _QUOTED.sub(" … ", said)


def split_sentences(message: str) -> list[Sentence]:
    """Return the sentences in order, up to the limits of a hand-written message."""
    found: list[Sentence] = []
    for line, number in _lines(message[:MAX_MESSAGE_CHARS]):
        for part in _split_line(line):
            if _is_prose(part):
                stated = _STATEMENT_BEFORE_QUESTION.match(part)
                asked = bool(_QUESTION.search(part)) and stated is None
                said = stated["said"] if stated else part
                hedged = None if asked else _STATEMENT_BEFORE_HEDGE.match(said)
                found.append(Sentence(hedged["said"] if hedged else said, asked, number))
        if len(found) >= MAX_SENTENCES_PER_MESSAGE:
            break
    return found


def is_question(sentence: Sentence) -> bool:
    """Return whether the sentence is a question, with or without a question mark."""
    return sentence.question or bool(_QUESTION_WORD.match(sentence.bare))


def _lines(message: str) -> Iterator[tuple[str, int]]:
    """Yield lines outside of code with their list numbers; join the lines of a paragraph."""
    fenced = False
    block: list[str] = []
    for line in [*message.splitlines(), ""]:
        fence = bool(_FENCE.match(line))
        item = _LIST.match(line)
        skipped = fence or not line.strip() or _SKIPPED_LINE.match(line) or _LOG_LINE.match(line)
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
            len(pending) > MAX_SENTENCE_CHARS or not _ABBREVIATED.search(pending[-_ABBREVIATION:])
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
