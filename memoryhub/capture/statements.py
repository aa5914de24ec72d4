"""Extract statements from text: sentences, comments that give a reason, the relevant error line. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from memoryhub.core.rule_files import PatternFile, Regex, load_rule_file
from memoryhub.core.text import CJK, collapse_whitespace, shorten

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


_RULES = load_rule_file(Path(__file__).with_suffix(".toml"), StatementPatterns)


def last_error(output: str) -> str:
    """Return the last line of an output that names an error, for pytest with the failed test."""
    tests, errors = list(_RULES.pytest_failed.finditer(output)), list(_RULES.pytest_error.finditer(output))
    if tests and errors:
        return shorten(f"{errors[-1]['text']} in {tests[-1]['test']}", 300)
    found = [
        match["text"] for match in _RULES.error_line.finditer(output) if not _RULES.no_error.search(match[0])
    ]
    if not found:
        return ""
    if "FAIL" in found[-1]:
        details = dict.fromkeys(match["text"].strip() for match in _RULES.failure_detail.finditer(output))
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
    lines = [line for line in extract_prose(text).splitlines() if not _RULES.progress.search(line)]
    sentences = [line for line in lines if _SENTENCE_END.search(line) or _RULES.report.search(line)]
    if len(sentences) > MAX_SENTENCES:  # a manual or a help text: its advice can be looked up again
        sentences = [line for line in sentences if _RULES.claim.search(line) or _RULES.report.search(line)]
    return "\n".join(sentences) if any(map(makes_claim, sentences)) else ""


def extract_repair(text: str) -> str:
    """Return the error, the cause and the fix that an output states; empty if cause or fix is missing."""
    lines = [line.strip() for line in text.splitlines()]
    found: set[int] = set()
    for rule in (_RULES.cause, _RULES.fix):
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
    found = [block for block in found if not _RULES.pleasantry.match(block)]
    if sum(map(len, found)) > ESSAY_CHARS:
        found = [block for block in found if gives_reason(block) and _RULES.concrete.search(block)]
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
    by_form = len(comment.split()) >= _MIN_REASON_WORDS and _RULES.comment_reason.search(comment)
    return bool(by_form) or gives_reason(comment)


def gives_reason(text: str) -> bool:
    """Whether a text gives a reason, a rule or a warning."""
    return bool(_RULES.reason.search(text))


def makes_claim(text: str) -> bool:
    """Whether a text gives a reason or states a finding, a decision or a change."""
    return gives_reason(text) or bool(_RULES.claim.search(text) or _RULES.report.search(text))


def _is_long_enough(text: str) -> bool:
    is_report = len(text.split()) >= _MIN_REPORT_WORDS and _RULES.short_report.match(text)
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
