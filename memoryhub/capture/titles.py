"""Make the title, abstract and subtitle of a captured memory. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memoryhub.core.text import collapse_whitespace, first_line, shorten

MAX_TITLE_CHARS = 100
MAX_ABSTRACT_CHARS = 200
MAX_HEADLINE_CHARS = 1000
_MIN_TITLE_CHARS = 25  # shorter clauses are no title
_GOOD_TITLE_CHARS = 50  # from here on, a title may end at a comma
# Prefixes of conventional commits.
PREFIX = re.compile(
    r"^(?P<kind>(?:bug|hot)?fix|feat(?:ure)?|refactor|perf|decision|decide|docs|chore|tests?|style|build|ci|revert)"
    r"(?:\([^)]*\))?!?:\s+",
    re.IGNORECASE,
)
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
        return f"Reverted: {PREFIX.sub('', reverted)}"
    return _without_references(_NUMBER.sub("", PREFIX.sub("", head)))


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
        return f"in {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
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
