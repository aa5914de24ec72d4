"""What kind of observation a text is, and the metadata that follows from it. Pure.

LetsGo's memory guide: capture classifies bugfix, feature, refactor, change, discovery and decision, and
generates titles, subtitles, importance and concept tags.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memoryhub.encoding.memorability import salience
from memoryhub.text import first_line, shorten
from memoryhub.vocabulary import MemoryType

# Conventional commits say outright what they are.
_PREFIX = re.compile(r"^(?P<kind>[a-z]+)(?:\([^)]*\))?!?:\s*", re.IGNORECASE)
_NUMBER = re.compile(r"^(?:(?:ADR|RFC)[- ]?)?\d{1,4}[.):]\s+", re.IGNORECASE)
_BY_PREFIX = {
    "fix": MemoryType.BUGFIX,
    "bugfix": MemoryType.BUGFIX,
    "hotfix": MemoryType.BUGFIX,
    "feat": MemoryType.FEATURE,
    "feature": MemoryType.FEATURE,
    "refactor": MemoryType.REFACTOR,
    "perf": MemoryType.REFACTOR,
    "decision": MemoryType.DECISION,
    "decide": MemoryType.DECISION,
    **dict.fromkeys(("docs", "chore", "test", "tests", "style", "build", "ci", "revert"), MemoryType.CHANGE),
}


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# Evidence for each type; the first line weighs double, and the order settles ties.
_EVIDENCE: tuple[tuple[MemoryType, re.Pattern[str]], ...] = (
    (
        MemoryType.DECISION,
        _any(
            r"\b(?:we |i )?(?:decid(?:e|ed|ing)|chose|choose|chosen|agreed|settled on|opted for)\b",
            r"\bdecisions?\b",
            r"\b(?:instead of|rather than|in favou?r of|over using|trade-?offs?)\b",
            r"\b(?:we(?:'ll| will)|let's) (?:use|go with|keep|stick (?:to|with)|not)\b",
            r"\b(?:must not|must never|always|never) \w+",
        ),
    ),
    (
        MemoryType.BUGFIX,
        _any(
            r"\b(?:fix(?:e[sd])?|bug(?:fix)?|hotfix|regression|resolved?|patched|repair(?:ed)?)\b",
            r"\b(?:crash(?:e[sd])?|deadlock|race condition|memory leak|off-by-one|null pointer)\b",
            r"\b(?:no longer (?:fails|crashes|raises)|correctly handles?)\b",
        ),
    ),
    (
        MemoryType.DISCOVERY,
        _any(
            r"\b(?:discover(?:ed|y)?|found (?:that|out)|turns out|learn(?:ed|t)|reali[sz]ed|root cause)\b",
            r"\b(?:because|caused by|due to|the reason|it seems|apparently|actually)\b",
            r"\b(?:note|gotcha|caveat|beware|surprising(?:ly)?|undocumented)\b",
        ),
    ),
    (
        MemoryType.REFACTOR,
        _any(
            r"\b(?:refactor(?:ed|ing|s)?|renam(?:e[sd]?|ing)|extract(?:ed|s)?|simplif(?:y|ied|ies))\b",
            r"\bclean(?:ed)? ?up\b",
            r"\b(?:mov(?:e[sd]?|ing) .{1,60} (?:to|into)|split (?:up|into|out))\b",
            r"\b(?:inline[sd]?|dedup\w*|restructur\w+)\b",
            r"\b(?:no behaviou?r change|without changing behaviou?r)\b",
        ),
    ),
    (
        MemoryType.FEATURE,
        _any(
            r"\b(?:add(?:ed|s)?|implement(?:ed|s)?|introduc(?:e[sd]?|ing)|creat(?:e[sd]?|ing)|new)\b",
            r"\b(?:support(?:s|ed)? for|now supports?|enabl(?:e[sd]?|ing)|feature)\b",
        ),
    ),
)
_CONCEPTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("problem-solution", _any(r"\b(?:fix(?:e[sd])?|solv(?:e[sd]?|ing)|resolved?|workaround|root cause)\b")),
    (
        "why-it-exists",
        _any(r"\b(?:because|so that|in order to|the reason|motivat\w+|needed (?:for|by|to))\b"),
    ),
    ("trade-off", _any(r"\b(?:trade-?offs?|instead of|rather than|at the cost of|in favou?r of|downside)\b")),
    ("gotcha", _any(r"\b(?:gotcha|beware|caveat|careful|pitfall|surpris\w+|undocumented|silently)\b")),
    (
        "how-it-works",
        _any(r"\b(?:works by|how it works|under the hood|internally|calls? into|is implemented)\b"),
    ),
    ("pattern", _any(r"\b(?:pattern|convention|idiom|always|never|every time|best practice)\b")),
    (
        "what-changed",
        _any(r"\b(?:chang(?:e[sd]?|ing)|renam\w+|mov(?:e[sd]?|ing)|remov\w+|add(?:ed|s)?|replac\w+)\b"),
    ),
)
MAX_CONCEPTS = 3
_BASE_IMPORTANCE = {
    MemoryType.DECISION: 0.7,
    MemoryType.BUGFIX: 0.6,
    MemoryType.DISCOVERY: 0.55,
    MemoryType.FEATURE: 0.55,
    MemoryType.REFACTOR: 0.45,
    MemoryType.CHANGE: 0.35,
}
SALIENCE_SPAN = 0.25  # how far salience moves importance from its base, at most


@dataclass(frozen=True)
class Classified:
    """A type, a title without its commit prefix, concept tags, importance 0..1.

    ``body``: the text below its first line, empty where that says it all.
    """

    type: MemoryType
    title: str
    concepts: tuple[str, ...]
    importance: float
    body: str = ""


# What a text is that says nothing else of itself, by where it comes from.
_BY_SOURCE = {
    "answer": MemoryType.DISCOVERY,
    "comment": MemoryType.DISCOVERY,
    "document": MemoryType.DECISION,
    "output": MemoryType.DISCOVERY,
    "recovery": MemoryType.BUGFIX,
}


def classify(text: str, source: str = "") -> Classified:
    """Read type, title, concepts and importance from a text, and from where it comes."""
    kind = type_of(text)
    if kind is MemoryType.CHANGE and not declared_type(text):
        kind = _BY_SOURCE.get(source, kind)
    if source == "answer" and kind is not MemoryType.DECISION:
        kind = MemoryType.DISCOVERY  # a page tells of features and fixes of others
    head = _PREFIX.sub("", first_line(text)) if declared_type(text) else first_line(text)
    body = text.strip().partition("\n")[2].strip()
    return Classified(kind, _title(head), concepts_of(text), importance_of(kind, text), body)


def type_of(text: str) -> MemoryType:
    """A commit prefix decides; otherwise the type with most evidence, ``change`` without any."""
    if declared := declared_type(text):
        return declared
    head = first_line(text)
    counted = [(2 * len(seen.findall(head)) + len(seen.findall(text)), kind) for kind, seen in _EVIDENCE]
    best = max(counted, key=lambda pair: pair[0])
    return best[1] if best[0] else MemoryType.CHANGE


def concepts_of(text: str) -> tuple[str, ...]:
    """LetsGo's knowledge categories that the text speaks of, the most telling ones."""
    return tuple(name for name, seen in _CONCEPTS if seen.search(text))[:MAX_CONCEPTS]


def importance_of(kind: MemoryType, text: str) -> float:
    """By type, moved up by what makes the text salient."""
    return round(_BASE_IMPORTANCE[kind] + SALIENCE_SPAN * salience(text), 2)


def subtitle_of(files: Sequence[str]) -> str:
    """Where it happened, in one line."""
    if not files:
        return ""
    names = list(dict.fromkeys(path.rsplit("/", 1)[-1] for path in files))
    return f"in {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def declared_type(text: str) -> MemoryType | None:
    """What a commit prefix says outright."""
    found = _PREFIX.match(first_line(text))
    return _BY_PREFIX.get(found["kind"].lower()) if found else None


def _title(head: str) -> str:
    line = shorten(_NUMBER.sub("", head), 100).rstrip(" .")
    return line[:1].upper() + line[1:]
