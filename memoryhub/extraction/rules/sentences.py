"""The sentences of a message: without code, logs, tables and pleasantries. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memoryhub.core.text import CJK, collapse_whitespace

MOST_CHARS = 600  # of one sentence; a longer one is no sentence
MOST_OF_ONE = 400  # sentences of one message that are looked at
MOST_OF_MESSAGE = 20_000  # characters of one message; the rest is a document, not something that was said
_ABBREVIATION = 12  # characters that the longest has, and some before it
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_LIST = re.compile(r"^\s*(?:[-*+•]|(?P<number>\d{1,2})[.)])\s+")
_ASIDE = re.compile(r"^\s*(?:#{1,6}\s|\||>)")
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
_ASKING = re.compile(
    r"^(?:what|why|who|when|where|which|how|is|are|was|were|do|does|did|should|shall|would|will|can|could|may"
    r"|any idea|was|wie|wer|wo|wann|warum|kannst|könntest|ist|sind|qué|cómo|por qué|puedes)\b",
    re.IGNORECASE,
)


# "I'm planning a journey to Kyoto, any ideas?" states something.
_STATED = re.compile(
    r"^(?P<said>.{25,}?)[,;]\s(?:any\s|what\s|how\s|where\s|which\s|do(?:es)?\s|(?:would|could|can)\syou\s|ok|right)"
    r".{0,400}\?$"
)
# "..., but I'm not sure how to begin": what comes before is stated.
_HEDGED = re.compile(
    r"^(?P<said>.{25,}?),\s(?:(?:but|so|and)\s)?(?:now\s)?(?:i'm|i\sam|i\swas|i\swant\sto\smake\ssure|i\sneed)(?:\sto\smake\ssure)?"
    r"(?:\s(?:still\s|kinda\s|a\sbit\s)?(?:not\ssure|unsure|wondering|worried|hoping|looking\sfor|trying|considering|having\s(?:trouble|issues)|struggling|curious|help)\b|\b(?<=sure)).*$",
    re.IGNORECASE,
)
# A line of a log, of a stack trace, of what a shell printed.
_PRINTED = re.compile(
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
_HANDED_OVER = re.compile(
    r"(\b(?:proof-?read|translate|rewrite|rephrase|paraphrase|summari[sz]e|shorten|correct|korrigier\w*|übersetz\w*|traduis|traduce|corrige)"
    r"\b[^\n]{0,80}(?::|\n\s*\n))[\s\S]*",
    re.IGNORECASE,
)
_SHOWN = re.compile(
    r"(\b(?:this|the|my|following)\s(?:\w+\s)?(?:text|article|essay|story|e?mail|letter|paragraph|draft|abstract|poem|post|speech|report)\b"
    r"[^\n]{0,60}\n\s*\n)[\s\S]*",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]{60,4000}\"|“[^“”]{60,4000}”|«[^«»]{60,4000}»|„[^„“”]{60,4000}[“”]")


@dataclass(frozen=True)
class Sentence:
    """One sentence on one line. ``bare``: without what only opens it. ``number``: of a list's item."""

    text: str
    question: bool = False
    number: int = 0

    @property
    def bare(self) -> str:
        return _FILLER.sub("", self.text, count=1).strip() or self.text


def own_words(message: str) -> str:
    """What somebody says themself: without drafts and letters that they hand over, and no role to play.

    A quotation of some length, a letter from its salutation on, what follows "proofread this:" or, after an
    empty line, "what of this text?".
    """
    if _ROLE_TO_PLAY.match(message):
        return ""
    said = _LETTER.split(message[:MOST_OF_MESSAGE], maxsplit=1)[0]
    said = _HANDED_OVER.sub(r"\1", said)
    said = _SHOWN.sub(r"\1", said)
    return _QUOTED.sub(" … ", said)


def sentences(message: str) -> list[Sentence]:
    """In order; no more than a person would have written by hand."""
    found: list[Sentence] = []
    for line, number in _lines(message[:MOST_OF_MESSAGE]):
        for part in _split(line):
            if _says_something(part):
                stated = _STATED.match(part)
                asked = bool(_QUESTION.search(part)) and stated is None
                said = stated["said"] if stated else part
                hedged = None if asked else _HEDGED.match(said)
                found.append(Sentence(hedged["said"] if hedged else said, asked, number))
        if len(found) >= MOST_OF_ONE:
            break
    return found


def asks(sentence: Sentence) -> bool:
    """Whether it is a question, with its mark or without."""
    return sentence.question or bool(_ASKING.match(sentence.bare))


def _lines(message: str) -> Iterator[tuple[str, int]]:
    """Lines outside of code with the number that a list gives them; lines of one paragraph are joined."""
    fenced = False
    block: list[str] = []
    for line in [*message.splitlines(), ""]:
        fence = bool(_FENCE.match(line))
        item = _LIST.match(line)
        if (fence or item or not line.strip() or _ASIDE.match(line) or _PRINTED.match(line)) and block:
            yield from _joined(block)
            block = []
        fenced ^= fence
        if fence or fenced or _ASIDE.match(line) or _PRINTED.match(line) or not line.strip():
            continue
        if item:
            yield line[item.end() :], int(item["number"] or 0)
        elif line.startswith(("    ", "\t")):
            continue  # code
        else:
            block.append(line.strip())


def _joined(block: list[str]) -> Iterator[tuple[str, int]]:
    """Chats break a line where a thought ends, documents where it is full: told by where a line ends."""
    whole = ""
    for line in block:
        if (whole and (len(whole) < 60 and whole[-1] not in ",;-–")) or (whole and whole[-1] in ".!?:"):
            yield whole, 0
            whole = line
        else:
            whole = f"{whole} {line}".strip()
    if whole:
        yield whole, 0


def _split(line: str) -> Iterator[str]:
    pending = ""
    for part in _END.split(line.replace("**", "")):
        pending = f"{pending} {part}".strip() if pending else part.strip()
        if pending and (len(pending) > MOST_CHARS or not _ABBREVIATED.search(pending[-_ABBREVIATION:])):
            yield collapse_whitespace(pending)
            pending = ""
    if pending:
        yield collapse_whitespace(pending)


def _says_something(part: str) -> bool:
    """Some words, mostly letters: no log, no path, no table."""
    if not 3 <= len(part) <= MOST_CHARS or part[0] in "{}[]<|$@\\":
        return False
    letters = sum(map(str.isalpha, part))
    wordy = len(part.split()) >= 2 or len(CJK.findall(part)) >= 4
    return wordy and letters >= 0.55 * len(part.replace(" ", ""))
