"""Classify observations and score their memorability. No Django."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from memoryhub.capture.statements import gives_reason
from memoryhub.capture.titles import PREFIX, make_abstract, make_title, reverted_headline
from memoryhub.core.text import first_line, jaccard, terms, words
from memoryhub.core.vocabulary import MemoryType

TYPE_WEIGHTS: dict[str, float] = {
    MemoryType.DECISION: 1.0,
    MemoryType.BUGFIX: 0.9,
    MemoryType.DISCOVERY: 0.8,
    MemoryType.FEATURE: 0.75,
    MemoryType.REFACTOR: 0.6,
    MemoryType.CHANGE: 0.3,
}
OTHER_TYPE_WEIGHT = 0.5

SUBSTANCE_TERMS = 20  # distinct terms that give a substance of about two thirds
DISTINCT_TERMS = 8  # with fewer terms, a text cannot be fully distinct
# URLs, numbers and hashes add no substance.
_DATA_PATTERN = re.compile(r"\bhttps?://\S+|\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b|(?<!\w)#?\d[\d.,:-]*\b")
_SALIENCE_PATTERNS: tuple[tuple[re.Pattern[str], float], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), weight)
    for pattern, weight in (
        (
            r"\b(decid\w+|chose|choose|prefer\w*|instead of|rather than|trade-?offs?|agreed|reject\w+|must"
            r"|never|always|entschieden|beschlossen|statt|niemals|décidé|jamais|decidido|nunca)\b"
            r"|(代わりに|必ず|禁止|決め|決定|必须|决定|반드시)",
            0.45,
        ),
        (
            r"\b(because|root cause|caused by|turns out|the reason|due to|so that|weil|wegen|damit|parce que"
            r"|afin|porque|para que)\b|(ため|ので|なぜなら|理由|原因|因为|때문)",
            0.4,
        ),
        (r"\b(fix(?:ed|es)?|bug|regression|broken|crash\w*|race|deadlock|leak\w*|corrupt\w*)\b", 0.35),
        (r"\b(\w*(?:error|exception)|traceback|fail(?:ed|ure|s|ing)?|panic|denied|timed? ?out)\b", 0.3),
        (r"\b(breaking|deprecat\w+|migrat\w+|security|vulnerab\w+|cve-\d+)\b", 0.35),
        (r"\b(important|note|warning|caution|gotcha|workaround|careful|todo|fixme)\b", 0.25),
        (
            r"\b(add(?:ed|s)?|implement\w*|introduc\w+|support(?:s|ed)?|creat\w+|feat(?:ure)?|refactor\w*|renam\w+)\b",
            0.2,
        ),
    )
)


@dataclass(frozen=True)
class Memorability:
    """The four parts and their weighted sum, each 0..1."""

    substance: float
    salience: float
    distinctiveness: float
    type_weight: float
    total: float

    def parts(self) -> dict[str, float]:
        """Return the rounded values that an event stores."""
        return {name: round(value, 3) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class MemorabilityWeights:
    """The weight of each part. They add up to 1."""

    substance: float = 0.30
    salience: float = 0.30
    distinctiveness: float = 0.25
    type_weight: float = 0.15


def score(text: str, kind: str, neighbours: Iterable[set[str]], weights: MemorabilityWeights) -> Memorability:
    """Score a text of a type against the term sets of the most similar memories.

    A repetition is worthless: the total falls to 0 with the distinctiveness.
    """
    own = terms(_DATA_PATTERN.sub(" ", text))
    parts = (substance(own), salience(text), distinctiveness(own, neighbours), type_weight(kind))
    shares = (weights.substance, weights.salience, weights.distinctiveness, weights.type_weight)
    total = sum(share * part for share, part in zip(shares, parts, strict=True))
    return Memorability(*parts, total=total * min(1.0, 4 * parts[2]) if own else 0.0)


def substance(own: set[str]) -> float:
    """Measure the amount of content: distinct terms, with diminishing returns."""
    return 1 - math.exp(-len(own) / SUBSTANCE_TERMS)


def salience(text: str) -> float:
    """Measure the words of decision, cause, failure and fix; each group counts once."""
    remaining = 1.0
    for pattern, weight in _SALIENCE_PATTERNS:
        if pattern.search(text):
            remaining *= 1 - weight
    return 1 - remaining


def distinctiveness(own: set[str], neighbours: Iterable[set[str]]) -> float:
    """Return 1 for a text unlike all neighbours, 0 for a repetition, less for a text of few terms."""
    unlike = 1 - max((jaccard(own, other) for other in neighbours), default=0.0)
    return unlike * min(1.0, len(own) / DISTINCT_TERMS)


def type_weight(kind: str) -> float:
    return TYPE_WEIGHTS.get(kind, OTHER_TYPE_WEIGHT)


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


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# Explicit decisions. The weaker patterns below also match explanations.
_DECIDED = _any_of(
    r"\b(?:we|i|team) (?:have |had )?(?:decided?|chose|choose|agreed|settled on|opted)\b",
    r"\bit was (?:decided|agreed)\b",
    r"\b(?:decided (?:to|on|for|against|that|not)|opted (?:for|to)|settled on|agreed (?:to|on|that))\b",
    r"\bdecisions?:|^decision\b|\brejected(?:[:,]| because| since| as\b)|\bstatus: (?:accepted|decided)\b",
    r"\b(?:we(?:'ll| will)|let's) (?:use|go with|keep|stick (?:to|with)|not)\b",
    r"\b(?:haben\b[^.]{1,60}\b(?:entschieden|beschlossen|vereinbart)|entscheidung:)",
    r"\b(?:nous avons décidé|on a choisi|hemos decidido|decidimos|abbiamo deciso)\b",
    r"(?:ことにした|に決めた|ことに決定|採用する|却下|决定|选择了|결정했)",
)
_STRONG_WEIGHT = 3
# Evidence for each type and its weight. The first line counts three times; on a tie the first type wins.
_EVIDENCE: tuple[tuple[MemoryType, int, re.Pattern[str]], ...] = (
    (MemoryType.DECISION, _STRONG_WEIGHT, _DECIDED),
    (
        MemoryType.DECISION,
        1,
        _any_of(
            r"\b(?:decid(?:e|ed|ing)|chose|choose|chosen|agreed|decisions?)\b",
            r"\b(?:instead of|rather than|in favou?r of|over using|trade-?offs?)\b",
            r"\b(?:must not|must never|always|never) \w+",
        ),
    ),
    (
        MemoryType.BUGFIX,
        1,
        _any_of(
            r"\b(?:fix(?:e[sd])?|bug(?:fix)?|hotfix|regression|resolved?|patched|repair(?:ed)?)\b",
            r"\b(?:crash(?:e[sd])?|deadlock|race condition|memory leak|off-by-one|null pointer)\b",
            r"\b(?:no longer (?:fails|crashes|raises)|correctly handles?)\b",
            r"\b(?:behoben|behebt|fehler korrigiert|corrigé|corregido|arreglado)\b|(?:修正|不具合|バグ|修复)",
        ),
    ),
    (
        MemoryType.DISCOVERY,
        1,
        _any_of(
            r"\b(?:discover(?:ed|y)?|found (?:that|out)|turns out|learn(?:ed|t)|reali[sz]ed|root cause)\b",
            r"\b(?:because|caused by|due to|the reason|it seems|apparently|actually)\b",
            r"\b(?:note|gotcha|caveat|beware|surprising(?:ly)?|undocumented)\b",
            r"\b(?:weil|wegen|ursache|herausgefunden|parce que|porque)\b|(?:原因|ため|なぜなら|判明|因为)",
        ),
    ),
    (
        MemoryType.REFACTOR,
        1,
        _any_of(
            r"\b(?:refactor(?:ed|ing|s)?|renam(?:e[sd]?|ing)|extract(?:ed|s)?|simplif(?:y|ied|ies))\b",
            r"\bclean(?:ed)? ?up\b",
            r"\b(?:mov(?:e[sd]?|ing) .{1,60} (?:to|into)|split (?:up|into|out))\b",
            r"\b(?:inline[sd]?|dedup\w*|restructur\w+)\b",
            r"\b(?:no behaviou?r change|without changing behaviou?r)\b",
            r"\b(?:umbenannt|aufgeteilt|vereinfacht|renommé|renombrado)\b|(?:リファクタ|分割|改名|重构)",
        ),
    ),
    (
        MemoryType.FEATURE,
        1,
        _any_of(
            r"\b(?:add(?:ed|s)?|implement(?:ed|s)?|introduc(?:e[sd]?|ing)|creat(?:e[sd]?|ing)|new)\b",
            r"\b(?:support(?:s|ed)? for|now supports?|enabl(?:e[sd]?|ing)|feature)\b",
            r"\b(?:neu(?:e[rs]?)?|hinzugefügt|ergänzt|ajouté|añadido)\b|(?:追加|新機能|実装|添加|新增)",
        ),
    ),
)
_CONCEPTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "problem-solution",
        _any_of(r"\b(?:fix(?:e[sd])?|solv(?:e[sd]?|ing)|resolved?|workaround|root cause)\b"),
    ),
    (
        "why-it-exists",
        _any_of(r"\b(?:because|so that|in order to|the reason|motivat\w+|needed (?:for|by|to))\b"),
    ),
    (
        "trade-off",
        _any_of(r"\b(?:trade-?offs?|instead of|rather than|at the cost of|in favou?r of|downside)\b"),
    ),
    ("gotcha", _any_of(r"\b(?:gotcha|beware|caveat|careful|pitfall|surpris\w+|undocumented|silently)\b")),
    (
        "how-it-works",
        _any_of(r"\b(?:works by|how it works|under the hood|internally|calls? into|is implemented)\b"),
    ),
    ("pattern", _any_of(r"\b(?:patterns?|conventions?|idiom|always|every time|best practice|as a rule)\b")),
    (
        "what-changed",
        _any_of(r"\b(?:chang(?:e[sd]?|ing)|renam\w+|mov(?:e[sd]?|ing)|remov\w+|add(?:ed|s)?|replac\w+)\b"),
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
MAX_SALIENCE_BONUS = 0.25

# First words of a headline that name the kind of change.
_VERBS: dict[MemoryType, frozenset[str]] = {
    MemoryType.BUGFIX: frozenset("fix fixes fixed repair correct corrected hotfix patch mend behebe".split()),
    MemoryType.REFACTOR: frozenset(
        """refactor refactored rename renamed move moved moves extract extracted split splits inline simplify
        simplified restructure clean cleanup dedupe""".split()
    ),
    MemoryType.FEATURE: frozenset(
        """add added adds implement implemented introduce introduced support supports allow allows enable
        expose create let show offer new""".split()
    ),
}
_VERB_WEIGHT = 4
_COMPONENT = re.compile(
    r"^\S+ (?:option|command|flag|endpoint|hook|setting)\b|\b(?:option|command|flag) for\b"
)
# Routine work: versions, tests, formatting, wording of documents.
_ROUTINE = re.compile(
    r"^(?:bump|upgrade|pin|unpin|tweaks?|reformat|format|lint|typo|spelling|releas(?:e|ing)|version|v?\d+\.\d+"
    r"|appl(?:y|ied) black|ran? (?:black|cog|prettier)|prepare (?:for )?(?:release|version)|link (?:to|from)"
    r"|more links|mark(?:ed)? \S*test|update[sd]? (?:changelog|readme|copyright|dependenc|lock|snapshots?"
    r"|(?:\S+ )?requirements?))\b"
    r"|\b(?:typos?|spelling|whitespace|lint(?:er|ing)?|ruff|flake8|mypy|isort|prettier|eslint|changelog|readme"
    r"|release notes|docs?|document(?:ed|ation)|docstrings?|comments?|screenshots?|xfail|copyright|badge|ci"
    r"|workflow|gitignore|test coverage|unit tests?|tests? (?:for|to|of)|for tests?|test_\w+|\.(?:md|rst))\b",
    re.IGNORECASE,
)
_CODE_COMPONENT = re.compile(r"\b(?:command|option|parser|builder|plugin|endpoint|server)\b", re.IGNORECASE)
# Lines that tools write into a message: release lists, quoted notes, references.
_GENERATED_LINE = re.compile(
    r"^\s*(?:Bumps? \[|Updates? the requirements|[-*>] |\[|---|```|https?://|Refs?\b|Dependabot).*$",
    re.MULTILINE,
)


# The type of a text without evidence, by its source.
_BY_SOURCE = {
    "answer": MemoryType.DISCOVERY,
    "comment": MemoryType.DISCOVERY,
    "document": MemoryType.DECISION,
    "output": MemoryType.DISCOVERY,
    "recovery": MemoryType.BUGFIX,
}
# In explanations, words like "never" and "rather than" do not mean a decision.
_EXPLAINING_SOURCES = frozenset({"answer", "comment"})


@dataclass(frozen=True)
class Classification:
    """The type and metadata of a text. ``importance`` is 0..1."""

    type: MemoryType
    title: str
    abstract: str
    concepts: tuple[str, ...]
    importance: float


def classify(text: str, source: str = "") -> Classification:
    """Derive the type and the metadata of a text from its content and its source."""
    kind = detect_type(text)
    if source in _EXPLAINING_SOURCES:
        kind = MemoryType.DECISION if _DECIDED.search(text) else MemoryType.DISCOVERY
    elif kind is MemoryType.CHANGE and not declared_type(text):
        kind = _BY_SOURCE.get(source, kind)
    return Classification(
        kind, make_title(text), make_abstract(text), detect_concepts(text), compute_importance(kind, text)
    )


def detect_type(text: str) -> MemoryType:
    """Return the type that a commit prefix declares, or else the one with most evidence, or ``change``."""
    if declared := declared_type(text):
        return declared
    if reverted_headline(text):  # a revert with a reason is a decision
        return MemoryType.DECISION if gives_reason(text.partition("\n")[2]) else MemoryType.CHANGE
    head = first_line(text)
    evidence: dict[MemoryType, int] = {}
    for kind, weight, pattern in _EVIDENCE:
        found = weight * (2 * len(pattern.findall(head)) + len(pattern.findall(text)))
        evidence[kind] = evidence.get(kind, 0) + found
    verb = words(head)[:1]
    for kind, verbs in _VERBS.items():
        evidence[kind] += _VERB_WEIGHT if verb and verb[0] in verbs else 0
    evidence[MemoryType.FEATURE] += bool(_COMPONENT.search(head))
    best = max(evidence, key=lambda kind: evidence[kind])
    return best if evidence[best] else MemoryType.CHANGE


def is_routine_commit(message: str) -> bool:
    """Whether a commit is routine work, by its prefix or its headline."""
    declared = declared_type(message)
    if declared:
        return declared is MemoryType.CHANGE
    head = first_line(message)
    return bool(_ROUTINE.search(head)) and not _CODE_COMPONENT.search(head)


def strip_generated_lines(message: str) -> str:
    """Return a commit message without the lines that tools add and without references."""
    return _GENERATED_LINE.sub("", message)


def detect_concepts(text: str) -> tuple[str, ...]:
    """Return LetsGo's knowledge categories that the text mentions, in order of their significance."""
    return tuple(name for name, pattern in _CONCEPTS if pattern.search(text))[:MAX_CONCEPTS]


def compute_importance(kind: MemoryType, text: str) -> float:
    """Return the base importance of the type plus a bonus for salience."""
    return round(_BASE_IMPORTANCE[kind] + MAX_SALIENCE_BONUS * salience(text), 2)


def declared_type(text: str) -> MemoryType | None:
    """Return the type that a commit prefix declares."""
    found = PREFIX.match(first_line(text))
    return _BY_PREFIX.get(found["kind"].lower()) if found else None
