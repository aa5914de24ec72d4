"""What of a memory is embedded. Pure."""

from __future__ import annotations

from memoryhub.text import collapse, first_line

# About 1500 tokens of English; with one token a character (CJK) still within what endpoints take (8192).
MOST_CHARS = 6000


def passage(title: str, subtitle: str, abstract: str, overview: str, content: str) -> str:
    """The text that stands for a memory, at most ``MOST_CHARS`` characters long.

    The title, unless the content begins with it (one that the hub made does), then the content. A content
    that is too long to be read whole is led by what somebody wrote to sum it up.
    """
    body = content.strip()
    lead = [title, subtitle]
    if len(body) > MOST_CHARS:
        lead += [abstract, overview]
    parts = [part.strip() for part in lead if part.strip() and not _begins(body, part)]
    return "\n".join([*parts, body])[:MOST_CHARS].strip()


def _begins(body: str, part: str) -> bool:
    """Whether the text opens with these words, Markdown's marks and an ellipsis aside."""
    opening = part.strip().removesuffix("…").rstrip(" ,;:-")
    head = body[: len(part) * 8 + 1000]
    return collapse(first_line(head)).startswith(opening) or collapse(head).startswith(opening)
