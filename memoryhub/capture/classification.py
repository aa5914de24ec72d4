"""Classify observations by their statements, make their texts, and score their memorability. No Django.

Statements are sentences, comments that give a reason, and the relevant error line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from memoryhub.core.rule_files import PatternFile, Regex, RuleSchema, Words, load_rule_file
from memoryhub.core.text import (
    CJK,
    COMMIT_PREFIX,
    collapse_whitespace,
    first_line,
    jaccard,
    join_first,
    shorten,
    terms,
    words,
)
from memoryhub.core.vocabulary import TYPES, MemoryType

MAX_CHARS = 2000
MIN_WORDS = 6
_MIN_REPORT_WORDS = 5
_MAX_DETAILS = 3  # of a failed test
_MIN_REASON_WORDS = 9  # of a comment whose form alone gives a reason
MAX_SENTENCES = 6  # of an output; a longer one is reduced to its claims
ESSAY_CHARS = 1000  # longer answers are essays, of which only some paragraphs are findings
_MIN_REPAIR_WORDS = 3
_MAX_WRAPPED_LINES = 3  # before and after the line that names a cause or a fix
_MIN_CJK_CHARS = 15  # counts like MIN_WORDS in scripts without spaces
_COMMENT = re.compile(r"^\s*(?:#|//|--|/?\*+|;)\s?(?P<text>.(?:.*?\S)??)\s*(?:\*/)?$")
_TRAILING_COMMENT = re.compile(r"\s(?:#|//)\s(?P<text>.{20,})$")
_LETTER = re.compile(r"[^\W\d_]")
_SENTENCE_END = re.compile(r"[.!?。！？…][)\]\"'»”’`]*$")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_BLOCK_START = re.compile(r"^\s*(?:#{1,6}\s|[-*+•]\s|\d{1,3}[.)]\s|\||>\s)|^\s*$")
_HEADING = re.compile(r"^\s*#{1,6}\s")


class StatementPatterns(PatternFile):
    reason: Regex
    comment_reason: Regex
    claim: Regex
    report: Regex
    short_report: Regex
    progress: Regex
    cause: Regex
    fix: Regex
    error_line: Regex
    pytest_failed: Regex
    pytest_error: Regex
    failure_detail: Regex
    no_error: Regex
    pleasantry: Regex
    concrete: Regex


_STATEMENTS = load_rule_file(Path(__file__).with_name("statements.toml"), StatementPatterns)


def last_error(output: str) -> str:
    """Return the last line of an output that names an error, for pytest with the failed test."""
    tests, errors = (
        list(_STATEMENTS.pytest_failed.finditer(output)),
        list(_STATEMENTS.pytest_error.finditer(output)),
    )
    if tests and errors:
        return shorten(f"{errors[-1]['text']} in {tests[-1]['test']}", 300)
    found = [
        match["text"]
        for match in _STATEMENTS.error_line.finditer(output)
        if not _STATEMENTS.no_error.search(match[0])
    ]
    if not found:
        return ""
    if "FAIL" in found[-1]:
        details = dict.fromkeys(
            match["text"].strip() for match in _STATEMENTS.failure_detail.finditer(output)
        )
        found[-1] = "; ".join([found[-1].strip(), *list(details)[:_MAX_DETAILS]])
    return shorten(found[-1], 300)


def failure_line(output: str) -> str:
    """Return the line that names the error of a failed command, or its last line."""
    return last_error(output) or shorten(output.strip().rpartition("\n")[2].strip(), 300)


def extract_prose(text: str) -> str:
    """Return the lines that are sentences, not data, code or log lines."""
    return "\n".join(line.strip() for line in text.splitlines() if _is_sentence(line))[:MAX_CHARS]


def extract_claims(text: str) -> str:
    """Return the complete sentences and the reports of an output, if one of them makes a claim."""
    lines = [line for line in extract_prose(text).splitlines() if not _STATEMENTS.progress.search(line)]
    sentences = [line for line in lines if _SENTENCE_END.search(line) or _STATEMENTS.report.search(line)]
    if len(sentences) > MAX_SENTENCES:  # a manual or a help text: its advice can be looked up again
        sentences = [
            line for line in sentences if _STATEMENTS.claim.search(line) or _STATEMENTS.report.search(line)
        ]
    return "\n".join(sentences) if any(map(makes_claim, sentences)) else ""


def extract_repair(text: str) -> str:
    """Return the error, the cause and the fix that an output states; empty if cause or fix is missing."""
    lines = [line.strip() for line in text.splitlines()]
    found: set[int] = set()
    for rule in (_STATEMENTS.cause, _STATEMENTS.fix):
        hits = [
            at
            for at, line in enumerate(lines)
            if len(line.split()) >= _MIN_REPAIR_WORDS and rule.search(line)
        ]
        if not hits:
            return ""
        found.update(*(_sentence_lines(lines, at) for at in hits))
    stated = [lines[at] for at in sorted(found)]
    error = last_error(text)
    return "\n".join([error, *stated] if error and error not in stated else stated)[:MAX_CHARS]


def _sentence_lines(lines: list[str], at: int) -> range:
    """Return the numbers of the lines over which the sentence of a line is wrapped."""
    first = last = at
    while first and at - first < _MAX_WRAPPED_LINES and lines[first][:1].islower() and lines[first - 1]:
        first -= 1
    while last + 1 < len(lines) and last - at < _MAX_WRAPPED_LINES and lines[last + 1][:1].islower():
        if _SENTENCE_END.search(lines[last]):
            break
        last += 1
    return range(first, last + 1)


def extract_paragraphs(text: str) -> str:
    """Return a heading of a document and its paragraphs, each on one line, without code and tables.

    The heading is the first one of more than one word: "Gotchas" or "Context" does not name a subject.
    """
    blocks = list(_blocks(text))
    headings = [block for block in blocks if _HEADING.match(block)]
    specific = (heading for heading in headings if len(_HEADING.sub("", heading).split()) > 1)
    heading = next(specific, headings[0] if headings else "")
    found = [block for block in blocks if not _HEADING.match(block) and _is_sentence(block)]
    return "\n".join([heading, *found] if heading and found else found)[:MAX_CHARS]


def extract_findings(text: str) -> str:
    """Return the findings of an answer: all paragraphs of a short one, if one of them makes a claim.

    Of a long answer, only paragraphs that give a reason and name something concrete (a file, a function, an
    option) count. General advice can be looked up again.
    """
    found = [block for block in _blocks(text) if not _HEADING.match(block) and _is_sentence(block)]
    found = [block for block in found if not _STATEMENTS.pleasantry.match(block)]
    if sum(map(len, found)) > ESSAY_CHARS:
        found = [block for block in found if gives_reason(block) and _STATEMENTS.concrete.search(block)]
    return "\n".join(found)[:MAX_CHARS] if any(map(makes_claim, found)) else ""


def extract_reason_comments(added: str, removed: str) -> list[str]:
    """Return new comments that give a reason; comments of several lines are joined."""
    old = set(removed.splitlines())
    blocks: list[list[str]] = [[]]
    for line in added.splitlines():
        found = _COMMENT.match(line) or _TRAILING_COMMENT.search(line)
        if found and line not in old:
            blocks[-1].append(found["text"].strip())
        elif blocks[-1]:
            blocks.append([])
    comments = [collapse_whitespace(" ".join(block)) for block in blocks if block]
    return [text[:MAX_CHARS] for text in comments if _explains(text) and _is_long_enough(text)]


def _explains(comment: str) -> bool:
    """Whether a comment gives a reason by its words or, if it is long enough, by its form."""
    by_form = len(comment.split()) >= _MIN_REASON_WORDS and _STATEMENTS.comment_reason.search(comment)
    return bool(by_form) or gives_reason(comment)


def gives_reason(text: str) -> bool:
    """Whether a text gives a reason, a rule or a warning."""
    return bool(_STATEMENTS.reason.search(text))


def makes_claim(text: str) -> bool:
    """Whether a text gives a reason or states a finding, a decision or a change."""
    return gives_reason(text) or bool(_STATEMENTS.claim.search(text) or _STATEMENTS.report.search(text))


def _is_long_enough(text: str) -> bool:
    is_report = len(text.split()) >= _MIN_REPORT_WORDS and _STATEMENTS.short_report.match(text)
    return bool(is_report) or len(text.split()) >= MIN_WORDS or len(CJK.findall(text)) >= _MIN_CJK_CHARS


def _blocks(text: str) -> Iterator[str]:
    """Yield paragraphs, list items and headings, each joined to one line, without fenced code."""
    block: list[str] = []
    fenced = False
    for line in text.splitlines():
        fence = bool(_FENCE.match(line))
        if (fence or _BLOCK_START.match(line)) and block:
            yield collapse_whitespace(" ".join(block))
            block = []
        if not fenced and not fence and line.strip():
            block.append(line)
            if _HEADING.match(line):
                yield collapse_whitespace(line)
                block = []
        fenced ^= fence
    if block:
        yield collapse_whitespace(" ".join(block))


def _is_sentence(line: str) -> bool:
    """Whether a line has at least six words, consists mostly of letters and is not a log line or code."""
    bare = line.strip().lstrip("#>*-• ").strip()
    if not bare or bare[0] in "{}[]<|+=@$\\/" or bare.endswith(("{", ";", "(", "[", ",", "\\")):
        return False
    letters = sum(1 for char in bare if _LETTER.match(char))
    wide = len(CJK.findall(bare)) >= _MIN_CJK_CHARS
    shape = letters / len(bare.replace(" ", "")) > 0.75 if not wide else letters / len(bare) > 0.7
    return _is_long_enough(bare) and shape and not re.match(r"\d{2,4}[-:/.]\d{1,2}|\w+=|\S+:\d+", bare)


OTHER_TYPE_WEIGHT = 0.5
SUBSTANCE_TERMS = 20  # distinct terms that give a substance of about two thirds
DISTINCT_TERMS = 8  # with fewer terms, a text cannot be fully distinct
MAX_CONCEPTS = 3
ROUTINE_FACTOR = 0.3  # of the score of routine output, which stays below the default threshold
MAX_SALIENCE_BONUS = 0.25
_STRONG_WEIGHT = 3  # of an explicit decision
_VERB_WEIGHT = 4  # of the first word of a headline


class TypeRules(RuleSchema):
    """A type: its share of the memorability, its base importance, and the evidence for it."""

    weight: float
    importance: float
    prefixes: Words = frozenset()
    verbs: Words = frozenset()
    evidence: Regex | None = None


class SalientWords(RuleSchema):
    weight: float
    regex: Regex


class ClassificationRules(PatternFile):
    decided: Regex
    data: Regex
    component: Regex
    routine: Regex
    code_component: Regex
    generated_line: Regex
    concepts: dict[str, Regex]
    salience: tuple[SalientWords, ...]
    types: dict[MemoryType, TypeRules]


_RULES = load_rule_file(Path(__file__).with_suffix(".toml"), ClassificationRules)


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


def score(
    text: str,
    kind: str,
    neighbours: Iterable[set[str]],
    weights: MemorabilityWeights,
    is_routine: bool = False,
) -> Memorability:
    """Score a text of a type against the term sets of the most similar memories.

    A repetition is worthless: the total falls to 0 with the distinctiveness. Routine output scores low.
    """
    own = terms(_RULES.data.sub(" ", text))
    parts = (substance(own), salience(text), distinctiveness(own, neighbours), type_weight(kind))
    shares = (weights.substance, weights.salience, weights.distinctiveness, weights.type_weight)
    total = sum(share * part for share, part in zip(shares, parts, strict=True))
    total *= min(1.0, 4 * parts[2]) * (ROUTINE_FACTOR if is_routine else 1.0)
    return Memorability(*parts, total=total if own else 0.0)


def substance(own: set[str]) -> float:
    """Measure the amount of content: distinct terms, with diminishing returns."""
    return 1 - math.exp(-len(own) / SUBSTANCE_TERMS)


def salience(text: str) -> float:
    """Measure the words of decision, cause, failure and fix; each group counts once."""
    remaining = 1.0
    for group in _RULES.salience:
        if group.regex.search(text):
            remaining *= 1 - group.weight
    return 1 - remaining


def distinctiveness(own: set[str], neighbours: Iterable[set[str]]) -> float:
    """Return 1 for a text unlike all neighbours, 0 for a repetition, less for a text of few terms."""
    unlike = 1 - max((jaccard(own, other) for other in neighbours), default=0.0)
    return unlike * min(1.0, len(own) / DISTINCT_TERMS)


def type_weight(kind: str) -> float:
    rules = _RULES.types.get(MemoryType(kind)) if kind in TYPES else None
    return rules.weight if rules else OTHER_TYPE_WEIGHT


# The type of a text without evidence, by its source.
_BY_SOURCE = {
    "answer": MemoryType.DISCOVERY,
    "comment": MemoryType.DISCOVERY,
    "document": MemoryType.DECISION,
    "output": MemoryType.DISCOVERY,
    "recovery": MemoryType.BUGFIX,
}
# The type of every text of a source.
_ALWAYS_BY_SOURCE = {"user": MemoryType.DECISION, "failure": MemoryType.BUGFIX, "record": MemoryType.DECISION}
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
    kind = _ALWAYS_BY_SOURCE.get(source) or detect_type(text)
    if source in _EXPLAINING_SOURCES:
        kind = MemoryType.DECISION if _RULES.decided.search(text) else MemoryType.DISCOVERY
    elif kind is MemoryType.CHANGE and not _reports_change(text):
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
    verb = "".join(words(head)[:1])
    evidence: dict[MemoryType, int] = {}
    for kind, rules in _RULES.types.items():
        evidence[kind] = _count_matches(rules.evidence, head, text) if rules.evidence else 0
        evidence[kind] += _VERB_WEIGHT if verb in rules.verbs else 0
    evidence[MemoryType.DECISION] += _STRONG_WEIGHT * _count_matches(_RULES.decided, head, text)
    evidence[MemoryType.FEATURE] += bool(_RULES.component.search(head))
    best = max(evidence, key=lambda kind: evidence[kind])
    return best if evidence[best] else MemoryType.CHANGE


def _reports_change(text: str) -> bool:
    """Whether a text declares or describes a change, so that its type is not a mere default."""
    rules = _RULES.types[MemoryType.CHANGE]
    described = rules.evidence and rules.evidence.search(text)
    return bool(declared_type(text) or described or set(words(first_line(text))[:1]) & rules.verbs)


def _count_matches(regex: re.Pattern[str], head: str, text: str) -> int:
    """Count the matches in a text. Those in its first line count three times."""
    matches = len(regex.findall(text))
    return 3 * matches if head == text else matches + 2 * len(regex.findall(head))


def is_routine_commit(message: str) -> bool:
    """Whether a commit is routine work, by its prefix or its headline."""
    declared = declared_type(message)
    if declared:
        return declared is MemoryType.CHANGE
    head = first_line(message)
    return bool(_RULES.routine.search(head)) and not _RULES.code_component.search(head)


def strip_generated_lines(message: str) -> str:
    """Return a commit message without the lines that tools add and without references."""
    return _RULES.generated_line.sub("", message)


def detect_concepts(text: str) -> tuple[str, ...]:
    """Return LetsGo's knowledge categories that the text mentions, in order of their significance."""
    return tuple(name for name, pattern in _RULES.concepts.items() if pattern.search(text))[:MAX_CONCEPTS]


def compute_importance(kind: MemoryType, text: str) -> float:
    """Return the base importance of the type plus a bonus for salience."""
    return round(_RULES.types[kind].importance + MAX_SALIENCE_BONUS * salience(text), 2)


def declared_type(text: str) -> MemoryType | None:
    """Return the type that a commit prefix declares."""
    found = COMMIT_PREFIX.match(first_line(text))
    prefix = found["kind"].lower() if found else ""
    return next((kind for kind, rules in _RULES.types.items() if prefix in rules.prefixes), None)


MAX_TITLE_CHARS = 100
MAX_ABSTRACT_CHARS = 200
MAX_HEADLINE_CHARS = 1000
_MIN_TITLE_CHARS = 25  # shorter clauses are no title
_GOOD_TITLE_CHARS = 50  # from here on, a title may end at a comma
_NUMBER = re.compile(
    r"^(?:(?:ADR|RFC|DR)[- ]?)?\d{1,4}\s?[.):]\s+|^(?:ADR|RFC)[- ]?\d{1,4}\s*[-–—]\s*", re.IGNORECASE
)
_REVERTED = re.compile(r'^Revert:?\s+"(?P<headline>.+)"\s*$')
_REFERENCE = re.compile(r"(?:[A-Za-z][\w./-]*+)?#\d+|https?://\S+")
_REFERRING = frozenset(
    "ref refs close closes closed fixes resolves resolved see issue issues and - –".split()
)
_LABELLED_LINE = re.compile(r"^(?:Asked|Problem): ")
_SENTENCE = re.compile(r".+?(?:[.!?](?=\s|$)|[。！？]|$)\s*", re.DOTALL)
_CLAUSE = re.compile(r"(?:;|:|,| [–—-])(?=\s)|[、，；：]")
_CODE_NAME = re.compile(r"[\w]*[./_()\[\]{}`$@#\\-]|[a-z]+[A-Z]|\w*\d")  # a file, a function, an option


def reverted_headline(text: str) -> str:
    """Return the headline of the commit that this commit message reverts, or an empty string."""
    found = _REVERTED.match(first_line(text))
    return found["headline"] if found else ""


def headline(text: str) -> str:
    """Return the first line without a commit prefix, a document number and trailing references."""
    head = first_line(text)[:MAX_HEADLINE_CHARS].replace("**", "")
    if reverted := reverted_headline(text):
        return f"Reverted: {COMMIT_PREFIX.sub('', reverted)}"
    return _without_references(_NUMBER.sub("", COMMIT_PREFIX.sub("", head)))


def make_title(text: str) -> str:
    """Return the first sentence, or as many of its clauses as fit."""
    head = collapse_whitespace(headline(text))
    line = _first_sentence(head)
    if len(line) > MAX_TITLE_CHARS:
        ends = [found.start() for found in _CLAUSE.finditer(line, _MIN_TITLE_CHARS, MAX_TITLE_CHARS)]
        whole = [end for end in ends if end >= _GOOD_TITLE_CHARS or line[end] in ";；"]
        line = line[: whole[-1]] if whole else shorten(line, MAX_TITLE_CHARS)
    line = line.rstrip(" .。")
    starts_with_code = _CODE_NAME.match(line.partition(" ")[0])
    line = line.replace("`", "")  # titles are not rendered as Markdown
    return line if starts_with_code else line[:1].upper() + line[1:]


def make_abstract(text: str) -> str:
    """Return the first whole sentences below the headline, or the headline if there is no other text."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    body = collapse_whitespace(" ".join(line for line in lines[1:] if not _LABELLED_LINE.match(line)))
    head = collapse_whitespace(headline(text))
    if len(_first_sentence(head)) < len(head) or len(head) > MAX_TITLE_CHARS or not body:
        body = collapse_whitespace(f"{head} {body}")
    abstract = ""
    for sentence in _SENTENCE.findall(body):
        if abstract and len(abstract) + len(sentence.rstrip()) > MAX_ABSTRACT_CHARS:
            break
        abstract += sentence
    return shorten(abstract.rstrip(), MAX_ABSTRACT_CHARS)


def make_subtitle(files: Sequence[str], text: str = "") -> str:
    """Return the file names, or else the question that the text answers, in one line."""
    names = list(dict.fromkeys(path.rsplit("/", 1)[-1] for path in files))
    if names:
        return f"in {join_first(names, 3)}"
    questions = [line for line in text.splitlines() if line.startswith("Asked: ")]
    return shorten(questions[-1], 200) if questions else ""


def _without_references(head: str) -> str:
    """Return the line without trailing issue numbers and URLs."""
    parts = head.split()
    last = len(parts)
    while last > 1 and _is_reference(parts[last - 1]):
        last -= 1
    if last == len(parts) or not any("#" in part or "://" in part for part in parts[last:]):
        return head
    return " ".join(parts[:last]).rstrip(" ,;:-–(")


def _is_reference(part: str) -> bool:
    bare = part.strip("(),;:.")
    return bool(_REFERENCE.fullmatch(bare)) or bare.lower() in _REFERRING


def _first_sentence(line: str) -> str:
    found = _SENTENCE.match(line)
    return found[0].rstrip() if found else line
