"""How a memory that formed by itself is called: its title, its abstract and where it happened. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memoryhub.core.text import collapse_whitespace, first_line, shorten

MAX_TITLE_CHARS = 100
MAX_ABSTRACT_CHARS = 200
MAX_HEADLINE_CHARS = 1000
_MIN_TITLE_CHARS = 25  # a clause shorter than this says too little by itself
_GOOD_TITLE_CHARS = 50  # one that a comma ends says enough from here on
# Conventional commits say outright what they are.
PREFIX = re.compile(
    r"^(?P<kind>(?:bug|hot)?fix|feat(?:ure)?|refactor|perf|decision|decide|docs|chore|tests?|style|build|ci|revert)"
    r"(?:\([^)]*\))?!?:\s+",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"^(?:(?:ADR|RFC|DR)[- ]?)?\d{1,4}\s?[.):]\s+|^(?:ADR|RFC)[- ]?\d{1,4}\s*[-–—]\s*", re.IGNORECASE
)
_REVERTED = re.compile(r'^Revert:?\s+"(?P<what>.+)"\s*$')
_REFERENCE = re.compile(r"(?:[A-Za-z][\w./-]*+)?#\d+|https?://\S+")
_REFERRING = frozenset(
    "ref refs close closes closed fixes resolves resolved see issue issues and - –".split()
)
_LABELLED_LINE = re.compile(r"^(?:Asked|Problem): ")
_SENTENCE = re.compile(r".+?(?:[.!?](?=\s|$)|[。！？]|$)\s*", re.DOTALL)
_CLAUSE = re.compile(r"(?:;|:|,| [–—-])(?=\s)|[、，；：]")
_CODE_NAME = re.compile(r"[\w]*[./_()\[\]{}`$@#\\-]|[a-z]+[A-Z]|\w*\d")  # a file, a function, an option


def reverted_headline(text: str) -> str:
    """The headline of the commit that this one takes back; empty for any other."""
    found = _REVERTED.match(first_line(text))
    return found["what"] if found else ""


def headline(text: str) -> str:
    """What a text begins with, without a commit prefix or a document's number."""
    head = first_line(text)[:MAX_HEADLINE_CHARS].replace("**", "")
    if what := reverted_headline(text):
        return f"Taken back: {PREFIX.sub('', what)}"
    return _without_references(_NUMBER.sub("", PREFIX.sub("", head)))


def make_title(text: str) -> str:
    """The first sentence, or as many clauses of it as there is room for."""
    head = collapse_whitespace(headline(text))
    line = _first_sentence(head)
    if len(line) > MAX_TITLE_CHARS:
        ends = [found.start() for found in _CLAUSE.finditer(line, _MIN_TITLE_CHARS, MAX_TITLE_CHARS)]
        whole = [end for end in ends if end >= _GOOD_TITLE_CHARS or line[end] in ";；"]
        line = line[: whole[-1]] if whole else shorten(line, MAX_TITLE_CHARS)
    line = line.rstrip(" .。")
    named = _CODE_NAME.match(line.partition(" ")[0])
    line = line.replace("`", "")  # a title is shown as it is
    return line if named else line[:1].upper() + line[1:]


def make_abstract(text: str) -> str:
    """What is said below the headline, in whole sentences; the headline where there is nothing more."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    body = collapse_whitespace(" ".join(line for line in lines[1:] if not _LABELLED_LINE.match(line)))
    head = collapse_whitespace(headline(text))
    if len(_first_sentence(head)) < len(head) or len(head) > MAX_TITLE_CHARS or not body:
        body = collapse_whitespace(f"{head} {body}")
    said = ""
    for sentence in _SENTENCE.findall(body):
        if said and len(said) + len(sentence.rstrip()) > MAX_ABSTRACT_CHARS:
            break
        said += sentence
    return shorten(said.rstrip(), MAX_ABSTRACT_CHARS)


def make_subtitle(files: Sequence[str], text: str = "") -> str:
    """Where it happened, or what it was the answer to, in one line."""
    names = list(dict.fromkeys(path.rsplit("/", 1)[-1] for path in files))
    if names:
        return f"in {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    asked = [line for line in text.splitlines() if line.startswith("Asked: ")]
    return shorten(asked[-1], 200) if asked else ""


def _without_references(head: str) -> str:
    """Without the issues and addresses at its end."""
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
