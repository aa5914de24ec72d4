"""Extract names of people, places, organisations, tools, files and concepts from a text. Deterministic.

Evidence is the context of a name ("works at", "lives in", "said"), its shape (a path, CamelCase, GmbH) and
lists of unambiguous names. Precision matters more than recall: a capital letter at the start of a sentence,
or in a text that capitalises everything, is not evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Literal

from memoryhub.core.rule_files import PatternFile, Regex, RuleSchema, Words, load_rule_file

ENTITY_TYPES = ("person", "place", "organization", "tool", "file", "concept")
PERSON, PLACE, ORGANISATION, TOOL, FILE, CONCEPT = ENTITY_TYPES
MAX_ENTITIES = 20  # returned for one text
MAX_TEXT_CHARS = 20_000  # of a text that are searched
MAX_NAME_CHARS = 200

_WORD = re.compile(r"[A-Za-zÀ-ɏ0-9][A-Za-zÀ-ɏ0-9'’+#-]*")
_MAX_CAPITALISED_SHARE = 0.4  # of the words inside sentences; above it (headlines) capitals mean nothing


class NameShapes(RuleSchema):
    file: Regex
    address: Regex
    code: Regex
    identifier: Regex
    camel: Regex
    snake: Regex
    acronym: Regex
    roman: Regex
    handle: Regex
    hashtag: Regex
    company: Regex
    full_name: Regex
    sentence_start: Regex
    german: Regex
    noun: Regex


class NameContext(RuleSchema):
    """The words around a name that show its type. The regex has one group: the name."""

    kind: Literal["person", "place", "organization", "tool", "concept"]
    regex: Regex


class EntityRules(PatternFile):
    not_names: Words
    pronouns: Words
    tools: Words
    organisations: Words
    places: Words
    given_names: Words
    places_of_several_words: tuple[str, ...]
    shapes: NameShapes
    contexts: tuple[NameContext, ...]


RULES = load_rule_file(Path(__file__).with_suffix(".toml"), EntityRules)
SHAPES = RULES.shapes
_LONG_PLACE = re.compile(rf"\b(?:{'|'.join(RULES.places_of_several_words)})\b")
_TYPE_BY_NAME = {
    name: kind
    for kind, names in ((PLACE, RULES.places), (ORGANISATION, RULES.organisations), (TOOL, RULES.tools))
    for name in names
}


@dataclass(frozen=True)
class EntityMatch:
    """A name, its type and its character offset."""

    name: str
    kind: str
    at: int


def extract_entities(text: str) -> list[tuple[str, str]]:
    """Return (name, type) pairs in the order of the text, each name once, with the most reliable type."""
    # Blank out addresses, whose parts are not names.
    text = SHAPES.address.sub(lambda match: " " * len(match[0]), text[:MAX_TEXT_CHARS])
    kept: dict[str, EntityMatch] = {}
    taken: list[tuple[int, int]] = []
    for found in chain(_find_candidates(text), _find_capitalised(text, taken)):
        end = found.at + len(found.name)
        if _overlaps(taken, found.at, end):
            continue
        taken.append((found.at, end))
        known = kept.get(found.name.casefold())
        if known is None or found.at < known.at:
            kept[found.name.casefold()] = EntityMatch(
                found.name, known.kind if known else found.kind, found.at
            )
    parts = {part for one in kept.values() if one.kind == PERSON for part in one.name.casefold().split()[:-1]}
    whole = [one for key, one in kept.items() if not (one.kind == PERSON and key in parts)]
    return [(one.name, one.kind) for one in sorted(whole, key=lambda one: one.at)][:MAX_ENTITIES]


def _overlaps(taken: list[tuple[int, int]], start: int, end: int) -> bool:
    return any(first < end and start < last for first, last in taken)


def _find_candidates(text: str) -> Iterator[EntityMatch]:
    """Yield matches that may overlap, the most reliable evidence first."""
    yield from _find_by_shape(text)
    yield from _find_by_context(text)
    yield from _find_known_names(text)
    yield from _find_concepts(text)


def _find_by_shape(text: str) -> Iterator[EntityMatch]:
    """Find names by shape: paths, companies, handles, places of several words."""
    for match in SHAPES.file.finditer(text):
        yield EntityMatch(match[0].rstrip("."), FILE, match.start())
    for match in SHAPES.company.finditer(text):
        name = match[1] or match[2]
        if name.split()[0].casefold() not in RULES.not_names:
            yield EntityMatch(name.rstrip("."), ORGANISATION, match.start())
    for match in SHAPES.handle.finditer(text):
        yield EntityMatch(match[1], PERSON, match.start(1))
    for match in _LONG_PLACE.finditer(text):
        yield EntityMatch(match[0], PLACE, match.start())


def _find_by_context(text: str) -> Iterator[EntityMatch]:
    """Find names by context; for known names, the list decides the type."""
    for context in RULES.contexts:
        for match in context.regex.finditer(text):
            name = _trim_name(match[1])
            known = _known_type(name) if name else ""
            if known or (name and not (context.kind == PERSON and SHAPES.noun.search(name))):
                yield EntityMatch(name, known or context.kind, match.start(1))


def _trim_name(name: str) -> str:
    """Remove trailing words that are not part of a name; return "" if the first word is not."""
    words = name.removesuffix("'s").removesuffix("’s").split()
    while words and (words[-1].casefold() in RULES.not_names or words[-1][0].islower()):
        words.pop()
    if not words or words[0].casefold() in RULES.not_names or words[0].casefold() in RULES.pronouns:
        return ""
    return " ".join(words)[:MAX_NAME_CHARS]


def _known_type(name: str) -> str:
    key = name.casefold()
    return _TYPE_BY_NAME.get(key) or (PERSON if key.split()[0] in RULES.given_names else "")


def _find_known_names(text: str) -> Iterator[EntityMatch]:
    """Find listed names: tools in any case, others only with a capital letter."""
    for match in SHAPES.full_name.finditer(text):
        if match[1].casefold() in RULES.given_names and (name := _trim_name(match[0])):
            yield EntityMatch(name, PERSON, match.start())
    for match in _WORD.finditer(text):
        word = match[0].removesuffix("'s").removesuffix("’s")
        kind = _known_type(word)
        if kind == TOOL or (kind and word[0].isupper() and not word.isupper()):
            yield EntityMatch(word, kind, match.start())


def _find_concepts(text: str) -> Iterator[EntityMatch]:
    """Find concepts: identifiers in code, tags and acronyms."""
    for match in SHAPES.code.finditer(text):
        if SHAPES.identifier.fullmatch(match[1]):
            yield EntityMatch(match[1], CONCEPT, match.start(1))
    for pattern in (SHAPES.camel, SHAPES.snake):
        for match in pattern.finditer(text):
            yield EntityMatch(match[0], CONCEPT, match.start())
    for match in SHAPES.hashtag.finditer(text):
        yield EntityMatch(match[1], CONCEPT, match.start(1))
    for match in SHAPES.acronym.finditer(text):
        if (
            match[0].casefold() not in RULES.not_names
            and not SHAPES.roman.fullmatch(match[0])
            and not _is_in_capitals(text, match)
        ):
            yield EntityMatch(match[0], CONCEPT, match.start())


def _is_in_capitals(text: str, match: re.Match[str]) -> bool:
    """Return whether most words of the line are in capitals."""
    end = text.find("\n", match.end())
    return _has_most_in_capitals(text[text.rfind("\n", 0, match.start()) + 1 : end if end >= 0 else None])


@lru_cache(maxsize=1)  # for the next match in the same line
def _has_most_in_capitals(line: str) -> bool:
    words = [word for word in _WORD.findall(line) if len(word) > 1]
    return len(words) > 2 and sum(map(str.isupper, words)) > len(words) / 2


def _find_capitalised(text: str, taken: list[tuple[int, int]]) -> Iterator[EntityMatch]:
    """Find capitalised words inside sentences as concepts, unless the text is a headline or German.

    ``taken`` contains the spans of the names found so far.
    """
    inside = [
        match
        for match in _WORD.finditer(text)
        if not _starts_sentence(text, match.start()) and not _overlaps(taken, *match.span())
    ]
    capitals = [match for match in inside if match[0][0].isupper()]
    headline = not inside or len(capitals) / len(inside) > _MAX_CAPITALISED_SHARE
    if headline or len(SHAPES.german.findall(text)) > 1:  # German capitalises every noun
        return
    run: list[re.Match[str]] = []
    for match in (*capitals, None):
        if run and (match is None or match.start() != run[-1].end() + 1 or text[run[-1].end()] != " "):
            name = text[run[0].start() : run[-1].end()]
            yield EntityMatch(name.removesuffix("'s").removesuffix("’s"), CONCEPT, run[0].start())
            run = []
        if match is not None and _is_name(match[0]):
            run.append(match)


def _is_name(word: str) -> bool:
    return len(word) > 2 and not word.isupper() and word.casefold() not in RULES.not_names


def _starts_sentence(text: str, at: int) -> bool:
    return bool(SHAPES.sentence_start.search(text, max(0, at - 12), at)) if at else True
