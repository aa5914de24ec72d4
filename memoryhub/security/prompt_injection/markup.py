"""Markup with an effect: chat tokens, tool calls, and images that send data away. No Django.

All functions expect normalised text, in which ``&lt;/memory-context&gt;`` and fullwidth brackets are plain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memoryhub.core.rule_files import PatternFile, Regex, load_rule_file

_WORDS = re.compile(r"[^\W_]+")
_BRACE = re.compile(r"[{}]")
_MAX_CALL_LENGTH = 6000


class MarkupPatterns(PatternFile):
    tokens: Regex
    system_tag: Regex
    call_openings: Regex
    json_call: Regex
    json_arguments: Regex
    image: Regex
    html_image: Regex
    carries_data: Regex


_RULES = load_rule_file(Path(__file__).parent / "rules" / "markup.toml", MarkupPatterns)


@dataclass(frozen=True)
class MarkupMatch:
    """A span of the normalised text. If ``removed`` is false, the markup stays with other brackets."""

    start: int
    end: int
    kind: str
    reason: str
    removed: bool


def find_markup(text: str) -> list[MarkupMatch]:
    """Return the markup in order of place."""
    found: list[MarkupMatch] = []
    if "<" in text or "[" in text:
        found += _find_calls(text)
        found += [
            MarkupMatch(*match.span(), "markup", "a chat or memory token", False)
            for match in _RULES.tokens.finditer(text)
        ]
        if "system>" in text:
            found += _find_system_tags(text)
    if '"' in text and "{" in text:
        found += _find_json_calls(text)
    if "//" in text:
        found += _find_images(text)
    return sorted(found, key=lambda markup: (markup.start, markup.end))


def _find_system_tags(text: str) -> Iterator[MarkupMatch]:
    """Yield system tags around prose. Around a single value they are ordinary XML."""
    for match in _RULES.system_tag.finditer(text):
        before = text[max(0, match.start() - 200) : match.start()].rpartition("<")[2]
        after = text[match.end() : match.end() + 200].partition("<")[0]
        closing = match.group() == "</system>"
        if not closing or max(len(_WORDS.findall(before)), len(_WORDS.findall(after))) > 2:
            yield MarkupMatch(*match.span(), "markup", "a system tag", False)


def _find_calls(text: str) -> Iterator[MarkupMatch]:
    """Yield tool calls on their own lines. Inside a sentence only the tags are made harmless."""
    position = 0
    for match in _RULES.call_openings.finditer(text):
        if match.start() < position:
            continue
        closing = f"</{match[1] or match[2]}>"
        end = text.find(closing, match.end(), match.end() + _MAX_CALL_LENGTH)
        position = len(text) if end < 0 and len(text) - match.end() < _MAX_CALL_LENGTH else end + len(closing)
        if end < 0 or not _is_alone_on_its_lines(text, match.start(), position):
            position = match.end()
            continue
        yield MarkupMatch(match.start(), position, "toolcall", "a tool call", True)


def _find_json_calls(text: str) -> Iterator[MarkupMatch]:
    position = 0
    closing: dict[int, int] | None = None
    for match in _RULES.json_call.finditer(text):
        opening = text.rfind("{", max(position, match.start() - 200), match.start() + 1)
        if opening < position:
            continue
        if closing is None:
            closing = _match_braces(text)
        end = closing.get(opening, 0)
        if (
            0 < end - opening < _MAX_CALL_LENGTH
            and _RULES.json_arguments.search(text, opening, end)
            and _is_alone_on_its_lines(text, opening, end)
        ):
            yield MarkupMatch(opening, end, "toolcall", "a tool call in JSON", True)
            position = end


def _match_braces(text: str) -> dict[int, int]:
    """Return the end of each object in braces, by the place of its opening brace."""
    found: dict[int, int] = {}
    open_braces: list[int] = []
    for match in _BRACE.finditer(text):
        if match.group() == "{":
            open_braces.append(match.start())
        elif open_braces:
            found[open_braces.pop()] = match.end()
    return found


def _is_alone_on_its_lines(text: str, start: int, end: int) -> bool:
    """Return True if the lines of a span contain fewer than four other words."""
    before = text[text.rfind("\n", 0, start) + 1 : start]
    newline = text.find("\n", end)
    after = text[end : newline if newline >= 0 else len(text)]
    return len(_WORDS.findall(f"{before[-200:]} {after[:200]}")) < 4


def _find_images(text: str) -> Iterator[MarkupMatch]:
    for pattern in (_RULES.image, _RULES.html_image):
        for match in pattern.finditer(text):
            if _RULES.carries_data.search(match[1]):
                yield MarkupMatch(*match.span(), "exfiltration", "an image that carries data away", True)
