"""Split a message into sentences, without code, logs, tables and pleasantries. No database access."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memoryhub.core.rule_files import PatternFile, Regex, load_rule_file
from memoryhub.core.text import CJK, collapse_whitespace

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


_RULES = load_rule_file(Path(__file__).with_suffix(".toml"), SentenceRules)


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
