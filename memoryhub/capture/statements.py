"""What in a text was said by someone: sentences, comments that give a reason, the error that matters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memoryhub.core.text import CJK, collapse_whitespace, shorten

MAX_CHARS = 2000
MIN_WORDS = 6
ESSAY_CHARS = 1000  # an answer longer than this is more than a finding
_MIN_CJK_CHARS = 15  # of a script without spaces that say as much as MIN_WORDS
_COMMENT = re.compile(r"^\s*(?:#|//|--|/?\*+|;)\s?(?P<said>.+?)\s*(?:\*/)?$")
_TRAILING_COMMENT = re.compile(r"\s(?:#|//)\s(?P<said>.{20,})$")
# Words of cause, rule, limit and warning; the languages are those that code is most often commented in.
_REASON = re.compile(
    r"\b(?:because|otherwise|so that|note|hack|workaround|gotcha|beware|caution|must|never|always|instead of"
    r"|rather than|careful|on purpose|deliberately|unlike|since|due to|unless|no longer|turns out"
    r"|(?:that(?:'s| is)|which is) why"
    r"|weil|sonst|damit|bewusst|absichtlich|anstatt|statt|niemals|achtung|vorsicht|wegen|nur weil"
    r"|parce que|car|sinon|afin de|au lieu de|jamais|attention|exprès"
    r"|porque|si no|para que|en lugar de|nunca|cuidado|ojo)\b"
    r"|(?:ため|ので|なぜなら|理由|注意|必ず|代わりに|意図的|禁止|しないと|原因|因为|否则|以便|注意|必须|故意|原因)"
    r"|(?:때문|위해|주의|반드시)",
    re.IGNORECASE,
)
# Words by which an output, or an answer, claims to have found, decided or done something.
_CLAIM = re.compile(
    r"\b(?:root cause|caused by|discovered|turn(?:s|ed) out|found (?:that|out)|learn(?:ed|t) that|realized"
    r"|decided|chose|agreed|rejected|opted for|settled on|fix(?:es|ed) (?:the|a|an)|the fix|resolved the"
    r"|implement(?:s|ed) (?:the|a|an)|introduc(?:es|ed) (?:the|a|an)|refactored|extracted|renamed"
    r"|silently|undocumented|deprecated)\b"
    r"|(?:根本原因|発見|判明|決定|修正|实现|发现|修复|决定)",
    re.IGNORECASE,
)
_ERROR_LINE = re.compile(
    r"^(?:E\s+|\s{1,4}(?=error: \S{3}))?(?P<said>(?:[\w.]*(?:Error|Exception|Failure|Warning)\b.*"
    r"|[^\s:(]{1,300}(?:\(\d+(?:,\d+)?\)|(?::\d+){1,2}): (?:fatal )?error\b.*"
    r"|error(?:\[\w+\])?:.*|fatal:.*|panic:.*|not ok \d+ .*|FAILED .*|.*\bFAIL(?:ED)?\b.*"
    r"|AssertionError.*))$",
    re.MULTILINE,
)
# pytest shortens its summary; the line that it marks with E is whole.
_PYTEST_FAILED = re.compile(r"^FAILED (?P<test>\S+::.+?)(?: - .*)?$", re.MULTILINE)
_PYTEST_ERROR = re.compile(r"^E\s+(?P<said>[\w.]*(?:Error|Exception|Failure|Warning)\b.*)$", re.MULTILINE)
_NO_ERROR = re.compile(r"\b0 (?:errors?|failed|failures)\b|# fail", re.IGNORECASE)
_LETTER = re.compile(r"[^\W\d_]")
_SENTENCE_END = re.compile(r"[.!?。！？…][)\]\"'»”’`]*$")
_PLEASANTRY = re.compile(
    r"(?:certainly|sure|of course|absolutely|great|got it|good question|happy to|thanks?"
    r"|i(?:'d| would) be happy|that(?:'s| sounds)|you(?:'re| are) (?:very )?welcome|here(?:'s| is| are)"
    r"|let(?:'s| us| me))\b",
    re.IGNORECASE,
)
# A file, a function, an option, an identifier: what a finding is about.
_CONCRETE = re.compile(
    r"`[^`]+`|\w+\(\)|\b\w+/[\w./-]+|\b\w+\.(?:py|js|ts|go|rs|c|java|rb|toml|json|ya?ml|md|sql)\b"
    r"|\b[a-z]+_[a-z_]+\b|\b[a-z]+[A-Z]\w+|--\w+|\b[A-Z]\w*Error\b"
)
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_BLOCK_START = re.compile(r"^\s*(?:#{1,6}\s|[-*+•]\s|\d{1,3}[.)]\s|\||>\s)|^\s*$")
_HEADING = re.compile(r"^\s*#{1,6}\s")


def last_error(output: str) -> str:
    """The last line of an output that names an error, as one line; with the test that it failed."""
    tests, errors = list(_PYTEST_FAILED.finditer(output)), list(_PYTEST_ERROR.finditer(output))
    if tests and errors:
        return shorten(f"{errors[-1]['said']} in {tests[-1]['test']}", 300)
    found = [match["said"] for match in _ERROR_LINE.finditer(output) if not _NO_ERROR.search(match[0])]
    return shorten(found[-1], 300) if found else ""


def extract_prose(text: str) -> str:
    """The lines of a text that are sentences, not data, code or log."""
    kept = [line.strip() for line in text.splitlines() if _is_sentence(line)]
    return "\n".join(kept)[:MAX_CHARS]


def extract_claims(text: str) -> str:
    """The whole sentences among the lines of an output, if one of them claims something; else empty."""
    kept = [line for line in extract_prose(text).splitlines() if _SENTENCE_END.search(line)]
    return "\n".join(kept) if any(map(makes_claim, kept)) else ""


def extract_paragraphs(text: str) -> str:
    """What a document says: a heading and its paragraphs, each on one line; no code, no tables.

    The heading is the first of more than one word: "Gotchas" or "Context" names a kind of text, not what it
    says.
    """
    blocks = list(_blocks(text))
    headings = [block for block in blocks if _HEADING.match(block)]
    telling = (one for one in headings if len(_HEADING.sub("", one).split()) > 1)
    heading = next(telling, headings[0] if headings else "")
    said = [block for block in blocks if not _HEADING.match(block) and _is_sentence(block)]
    return "\n".join([heading, *said] if heading and said else said)[:MAX_CHARS]


def extract_findings(text: str) -> str:
    """What an answer found out: all of a short one, if it claims something.

    A long one is an essay: of it those paragraphs that give a reason and name something (a file, a function,
    a number), for advice that would fit anybody is found again when it is needed.
    """
    said = [block for block in _blocks(text) if not _HEADING.match(block) and _is_sentence(block)]
    said = [block for block in said if not _PLEASANTRY.match(block)]
    if sum(map(len, said)) > ESSAY_CHARS:
        said = [block for block in said if gives_reason(block) and _CONCRETE.search(block)]
    return "\n".join(said)[:MAX_CHARS] if any(map(makes_claim, said)) else ""


def extract_reason_comments(added: str, removed: str = "") -> list[str]:
    """Comments in new code that give a reason, joined where they run over several lines."""
    old = set(removed.splitlines())
    blocks: list[list[str]] = [[]]
    for line in added.splitlines():
        found = _COMMENT.match(line) or _TRAILING_COMMENT.search(line)
        if found and line not in old:
            blocks[-1].append(found["said"].strip())
        elif blocks[-1]:
            blocks.append([])
    said = [collapse_whitespace(" ".join(block)) for block in blocks if block]
    return [one[:MAX_CHARS] for one in said if gives_reason(one) and _is_long_enough(one)]


def gives_reason(text: str) -> bool:
    """Whether a text says why, or what must or must not be."""
    return bool(_REASON.search(text))


def makes_claim(text: str) -> bool:
    """Whether a text gives a reason, or claims to have found, decided or done something."""
    return gives_reason(text) or bool(_CLAIM.search(text))


def _is_long_enough(text: str) -> bool:
    return len(text.split()) >= MIN_WORDS or len(CJK.findall(text)) >= _MIN_CJK_CHARS


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs, list items and headings, each joined to one line; what is fenced as code is left out."""
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
    """At least six words, mostly letters, and not the look of a log line or of code."""
    bare = line.strip().lstrip("#>*-• ").strip()
    if not bare or bare[0] in "{}[]<|+=@$\\/" or bare.endswith(("{", ";", "(", "[", ",", "\\")):
        return False
    letters = sum(1 for char in bare if _LETTER.match(char))
    wide = len(CJK.findall(bare)) >= _MIN_CJK_CHARS
    shape = letters / len(bare.replace(" ", "")) > 0.75 if not wide else letters / len(bare) > 0.7
    return _is_long_enough(bare) and shape and not re.match(r"\d{2,4}[-:/.]\d{1,2}|\w+=|\S+:\d+", bare)
