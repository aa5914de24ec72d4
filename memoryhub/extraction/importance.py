"""Score the importance of a memory from 1 to 10, with reasons. No database access.

The scale is Memory MCP's: 8 to 10 critical and permanent, 4 to 7 important, 1 to 3 temporary. The type gives
the base score; each matching sign changes it once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memoryhub.capture.classification import salience
from memoryhub.core.text import CJK, terms
from memoryhub.core.vocabulary import MemoryType
from memoryhub.extraction.rules.statements import any_of

BASE_IMPORTANCE: dict[str, int] = {
    MemoryType.SELF: 6,
    MemoryType.RELATIONSHIP: 5,
    MemoryType.FACT: 5,
    MemoryType.ENTITY: 4,
}
DEFAULT_IMPORTANCE = 5
MIN_IMPORTANCE, MAX_IMPORTANCE = 1, 10
_FEW_TERMS, _MANY_TERMS = 4, 25
_SALIENCE_THRESHOLD = 0.5
_MANY_NAMES = 3

# Change of the score, reason, pattern.
_SIGNS: tuple[tuple[int, str, re.Pattern[str]], ...] = (
    (
        3,
        "says that it is critical",
        any_of(
            r"\b(?:critical(?:ly)?|crucial|vital|life[- ]threatening|emergency|allerg(?:y|ic|ies))\b",
            r"\b(?:never (?:ever )?forget|do not forget|don'?t forget|must not be lost|top priority)\b",
            r"\b(?:kritisch|lebenswichtig|unbedingt)\b|(?:重要|重大|アレルギー|过敏)",
        ),
    ),
    (
        2,
        "sets a rule",
        any_of(
            r"\b(?:always|never|must(?:n'?t| not)?|required?|mandatory|forbidden|not allowed|nobody)\b",
            r"\b(?:immer|niemals|nie|muss|darf nicht|toujours|jamais|siempre|nunca|obligatorio)\b",
            r"(?:必ず|禁止|必须|반드시)",
        ),
    ),
    (
        1,
        "records a decision or a preference",
        any_of(
            r"\b(?:decid(?:ed?|es|ing)|decisions?|agreed|chose|chosen|prefers?|preferred|preferences?)\b",
            r"\b(?:favou?rites?|likes?|loves?|hates?|dislikes?|instead of|rather than|policy|deadline)\b",
            r"\b(?:entschieden|beschlossen|bevorzugt|mag|décidé|préfère|decidido|prefiere)\b|(?:決め|决定|好き|喜欢)",
        ),
    ),
    (
        1,
        "is about safety, money or production",
        any_of(
            r"\b(?:security|vulnerab\w+|production|outage|data loss|backup|legal|contract|licen[cs]e|gdpr)\b",
            r"\b(?:medical|doctor|insurance|salary|invoice|payment|budget|birthday|anniversary)\b",
        ),
    ),
    (
        -2,
        "holds for a while only",
        any_of(
            r"\b(?:today|tonight|tomorrow|this (?:morning|afternoon|evening|week)|right now|currently)\b",
            r"\b(?:at the moment|for now|temporar(?:y|ily)|wip|work in progress|until later)\b",
            r"\b(?:heute|morgen|gerade|vorläufig|vorübergehend|aujourd'hui|demain|hoy|mañana)\b",
            r"(?:今日|明日|今天|明天)",
        ),
    ),
    (
        -1,
        "is not sure",
        any_of(
            r"\b(?:maybe|perhaps|might|possibly|not sure|unsure|i think|i guess|probably|rumou?r(?:ed)?)\b",
            r"\b(?:vielleicht|vermutlich|peut-être|quizás|tal vez)\b|(?:かもしれ|也许|可能)",
        ),
    ),
    (
        -1,
        "is small talk",
        any_of(
            r"\b(?:hello|hi there|thanks|thank you|good (?:morning|evening|night)|how are you|lol|haha)\b"
        ),
    ),
)


@dataclass(frozen=True)
class ImportanceScore:
    """A score from 1 to 10 and its reasons, the type first."""

    importance: float
    reasons: tuple[str, ...]


def score_importance(text: str, kind: str, names: int = 0) -> ImportanceScore:
    """Score a text of the given type that contains ``names`` names."""
    base = BASE_IMPORTANCE.get(kind, DEFAULT_IMPORTANCE)
    found = [(base, f"a memory of type {kind}")]
    found += [(step, why) for step, why, seen in _SIGNS if seen.search(text)]
    if salience(text) >= _SALIENCE_THRESHOLD:
        found.append((1, "says why, or what went wrong"))
    if names >= _MANY_NAMES:
        found.append((1, "names several people, places or things"))
    said = len(terms(text))
    if said < _FEW_TERMS and not CJK.search(text):
        found.append((-1, "says little"))
    elif said >= _MANY_TERMS:
        found.append((1, "says a lot"))
    total = sum(step for step, _ in found)
    reasons = tuple(f"{why} ({step:+d})" if at else f"{why} ({step})" for at, (step, why) in enumerate(found))
    return ImportanceScore(min(max(total, MIN_IMPORTANCE), MAX_IMPORTANCE), reasons)
