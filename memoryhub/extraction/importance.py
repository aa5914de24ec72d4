"""Score the importance of a memory from 1 to 10, with reasons. No database access.

The scale is Memory MCP's: 8 to 10 critical and permanent, 4 to 7 important, 1 to 3 temporary. The type gives
the base score; each matching sign changes it once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from memoryhub.capture.classification import salience
from memoryhub.core.rule_files import PatternFile, Regex, RuleSchema, load_rule_file
from memoryhub.core.text import CJK, terms
from memoryhub.core.vocabulary import MemoryType

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


class ImportanceSign(RuleSchema):
    """A change of the score by the words of a text, with its reason."""

    change: int
    why: str
    regex: Regex


class ImportanceFile(PatternFile):
    signs: tuple[ImportanceSign, ...]


_SIGNS = load_rule_file(Path(__file__).with_suffix(".toml"), ImportanceFile).signs


@dataclass(frozen=True)
class ImportanceScore:
    """A score from 1 to 10 and its reasons, the type first."""

    importance: float
    reasons: tuple[str, ...]


def score_importance(text: str, kind: str, names: int = 0) -> ImportanceScore:
    """Score a text of the given type. ``names`` is the number of names in it."""
    base = BASE_IMPORTANCE.get(kind, DEFAULT_IMPORTANCE)
    found = [(base, f"a memory of type {kind}")]
    found += [(sign.change, sign.why) for sign in _SIGNS if sign.regex.search(text)]
    if salience(text) >= _SALIENCE_THRESHOLD:
        found.append((1, "says why, or what went wrong"))
    if names >= _MANY_NAMES:
        found.append((1, "names several people, places or things"))
    term_count = len(terms(text))
    if term_count < _FEW_TERMS and not CJK.search(text):
        found.append((-1, "says little"))
    elif term_count >= _MANY_TERMS:
        found.append((1, "says a lot"))
    total = sum(step for step, _ in found)
    reasons = tuple(f"{why} ({step:+d})" if at else f"{why} ({step})" for at, (step, why) in enumerate(found))
    return ImportanceScore(min(max(total, MIN_IMPORTANCE), MAX_IMPORTANCE), reasons)
