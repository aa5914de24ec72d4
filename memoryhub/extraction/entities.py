"""Extract names of people, places, organisations, tools, files and concepts from a text. Deterministic.

Evidence is the context of a name ("works at", "lives in", "said"), its shape (a path, CamelCase, GmbH) and
lists of unambiguous names. Precision matters more than recall: a capital letter at the start of a sentence,
or in a text that capitalises everything, is no evidence.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

ENTITY_TYPES = ("person", "place", "organization", "tool", "file", "concept")
PERSON, PLACE, ORGANISATION, TOOL, FILE, CONCEPT = ENTITY_TYPES
_KNOWN_NAMES = tomllib.loads(Path(__file__).with_name("known_names.toml").read_text("utf-8"))
_GIVEN_NAMES = frozenset(_KNOWN_NAMES["given_names"].split())
_TYPE_BY_NAME = {
    name: kind
    for kind, key in ((PLACE, "places"), (ORGANISATION, "organisations"), (TOOL, "tools"))
    for name in _KNOWN_NAMES[key].split()
}
MAX_ENTITIES = 20  # returned for one text
MAX_TEXT_CHARS = 20_000  # of a text that are searched
MAX_NAME_CHARS = 200

_CAPITALISED = r"[A-ZÀ-ÖØ-Þ][\w'’-]{0,38}[\w]"  # bounded: otherwise quadratic in a long text of hyphens
_NAME = rf"(?-i:{_CAPITALISED}(?: (?:van|von|de|da|del|der|den|la|le|al|bin|{_CAPITALISED})){{0,2}})"
_NOT_NAMES = frozenset(
    """a all also always an and any api apis are as at aug august april asked because before beware both
    but by can ci com css db dec december decided decision do docs done each error every feb february finally
    first fixed fixme for friday from github had has have he her here his how however i if in is it its
    january jan july june json let llm llms log lot march maybe may memory monday most my need never new next
    mondays tuesdays wednesdays thursdays fridays saturdays sundays weekend
    no nobody none not note nov november now october oct of off ok old on one only or other our out pdf
    please pr prs problem readme reason rule sat saturday see sept september she should since so solution
    some sql sun sunday team ten that the their them then there these they this those three thursday thus
    todo tuesday two ui until url urls use used user users uses using version was we wednesday were what when
    where which while who why will with without would xml yaml yes yesterday today tomorrow you your html
    mb gb kb tb gib mib khz mhz ghz ms select insert update delete create drop where from join null true false
    get put post head patch mrs mr ms dr prof i'd i'll i'm i've english german french spanish dutch turkish
    arabic chinese japanese italian british american european
    http https utf ids id utc faq eta fyi asap imho tbd tba wip usa eu uk ceo cto hr
    """.split()
)
_FILE = re.compile(
    r"(?<![\w/.@:~-])(?:~?/|\./|\.\./)?(?:[\w@.+-]{1,80}/){0,12}[\w@+-][\w@.+-]{0,80}"
    r"\.(?:py|pyi|js|jsx|mjs|cjs|ts|tsx|go|rs|rb|java|kt|c|h|cc|cpp|hpp|cs|php|swift|scala|lua|sh|bash|zsh|ps1"
    r"|sql|html|css|scss|vue|svelte|md|mdx|rst|txt|toml|yaml|yml|json|jsonl|ini|cfg|conf|env|lock|xml|csv|tsv"
    r"|proto|tf|gradle|ipynb|db|sqlite|sqlite3|log|pdf|png|svg|service|patch|diff|zip|gz|parquet)\b(?![\w/])"
    r"|(?<![\w/.:~-])(?:~/|/(?:etc|usr|var|home|opt|tmp|srv|mnt|bin|dev)/)[\w@.+/-]{1,200}[\w/]"
    r"|(?<![\w/.-])(?:Dockerfile|Makefile|Justfile|Procfile|Jenkinsfile|CMakeLists\.txt|\.gitignore|\.env)\b"
)
_ADDRESS = re.compile(
    r"\b(?:https?|ssh|git|ftp)://\S+|\bwww\.\S+|\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+"
)
_CODE = re.compile(r"`([^`\n]{2,80})`")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.:-]*(?:\(\))?")
_CAMEL = re.compile(
    r"(?<![\w./-])(?:[A-Z][a-z0-9]+){2,}(?![\w/]|\.\w)|(?<![\w./-])[a-z]+[A-Z]\w+(?![\w/]|\.\w)"
)
_SNAKE = re.compile(r"(?<![\w./-])[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?:\(\))?(?![\w/]|\.\w)")
_ACRONYM = re.compile(r"(?<![\w./-])[A-Z][A-Z0-9]{1,7}(?![\w/-]|\.\w)")
_ROMAN = re.compile(r"[IVX]+")
_HANDLE = re.compile(r"(?<![\w@./])@([A-Za-z][\w-]{1,38})\b(?![./@])")
_HASHTAG = re.compile(r"(?<![\w#/&])#([A-Za-z][\w-]{1,40})\b")
_COMPANY = re.compile(
    rf"\b((?:{_CAPITALISED} ){{1,3}}(?:Inc|Ltd|LLC|GmbH|AG|SE|KG|SA|SAS|BV|Corp|Corporation|Company"
    r"|Foundation|Institute|University|Bank|Labs|Group|Ministry|Council|Association|Hospital)\b\.?)"
    rf"|\b((?:University|Bank|Institute|Ministry) of {_CAPITALISED})"
)
# Context patterns. Each one has one group: the name.
_CONTEXT_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (
            ORGANISATION,
            rf"\b(?:works? (?:at|for)|worked (?:at|for)|working (?:at|for)|employed (?:at|by)|job at|hired by"
            rf"|joined|acquired by|customer|the company|client|vendor|supplier) ({_NAME})",
        ),
        (PERSON, rf"\b(?:mr|mrs|ms|dr|prof|professor|sir)\.? ({_NAME})"),
        (
            PERSON,
            r"\b(?:named|called|colleague|manager|boss|wife|husband|partner|son|daughter|brother|sister|friend"
            r"|mother|father|mentor|intern|teammate|co-?founder|ceo|cto|author|maintainer|designer|developer"
            rf"|engineer|i am|i'm|my name is|name is),? ({_NAME})",
        ),
        (
            PERSON,
            rf"\b({_NAME}) (?:said|says|asked|asks|told|prefers?|preferred|wants?|wanted|likes?|hates?"
            r"|thinks?|thought|decided|suggested|suggests|reported|approved|reviewed|wrote|mentioned|explained|agreed"
            r"|insisted|works|worked|leads|owns|joined|lives|moved|married|speaks)\b",
        ),
        (
            PERSON,
            rf"\b(?:met|meeting with|talked to|spoke (?:to|with)|according to|ask|asked|told) ({_NAME})",
        ),
        (PERSON, rf"\b({_NAME})(?:'s|’s) (?:team|birthday|opinion|request|idea|email|wife|husband|laptop)\b"),
        (
            PLACE,
            r"\b(?:lives? in|living in|moved to|based in|located in|born in|travel(?:s|led)? to|flew to"
            rf"|offices? in|fly to|visit(?:ed)?|region of|city of|town of) ({_NAME})",
        ),
        (
            TOOL,
            r"\b(?:uses?|using|used|switch(?:ed)? (?:from \w+ )?to|migrat(?:e|ed|ing) (?:from \w+ )?to|via"
            r"|runs? on|install(?:ed|s)?|built (?:with|on)|powered by|deploy(?:ed)? (?:on|with|to)"
            rf"|upgrad(?:e|ed) to|tool|library|framework|database) ({_NAME})",
        ),
        (CONCEPT, rf"\b((?-i:Project|Operation|Team) (?-i:{_CAPITALISED}))"),
        (CONCEPT, rf"\b(?:project|team|feature|epic|codename|milestone|module|service|class) ({_NAME})"),
    )
)
_WORD = re.compile(r"[A-Za-zÀ-ɏ0-9][A-Za-zÀ-ɏ0-9'’+#-]*")
_LONG_PLACE = re.compile(rf"\b(?:{'|'.join(_KNOWN_NAMES['places_of_several_words'])})\b")
_FULL_NAME = re.compile(
    rf"(?<![\w-])({_CAPITALISED})((?: (?:van|von|de|der|da|del|la)){{0,2}} {_CAPITALISED})(?![\w-])"
)
_SENTENCE_START = re.compile(r"(?:^|[.!?:;•|]\s+|\n\s*|[-*>#\"“(\[]\s*)$")
_MAX_CAPITALISED_SHARE = 0.4  # of the words inside sentences; above it (headlines) capitals mean nothing
_GERMAN = re.compile(r"\b(?:der|die|das|den|und|ist|nicht|ein|eine|wir|ich|mit|für|auf|wird|sind)\b")
# Nouns that precede a person verb: "Authentication works".
_NOUN = re.compile(r"(?:tion|ing|ment|ity|ness|ware|ics|ance|ence|ism)s?$")


@dataclass(frozen=True)
class EntityMatch:
    """A name, its type and its character offset."""

    name: str
    kind: str
    at: int


def extract_entities(text: str) -> list[tuple[str, str]]:
    """Return (name, type) pairs in the order of the text, each name once, with the most reliable type."""
    # Blank out addresses, whose parts are no names.
    text = _ADDRESS.sub(lambda match: " " * len(match[0]), text[:MAX_TEXT_CHARS])
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
    return any(one < end and start < other for one, other in taken)


def _find_candidates(text: str) -> Iterator[EntityMatch]:
    """Yield matches that may overlap, the most reliable evidence first."""
    yield from _find_by_shape(text)
    yield from _find_by_context(text)
    yield from _find_known_names(text)
    yield from _find_concepts(text)


def _find_by_shape(text: str) -> Iterator[EntityMatch]:
    """Find names by shape: paths, companies, handles, places of several words."""
    for match in _FILE.finditer(text):
        yield EntityMatch(match[0].rstrip("."), FILE, match.start())
    for match in _COMPANY.finditer(text):
        name = match[1] or match[2]
        if name.split()[0].casefold() not in _NOT_NAMES:
            yield EntityMatch(name.rstrip("."), ORGANISATION, match.start())
    for match in _HANDLE.finditer(text):
        yield EntityMatch(match[1], PERSON, match.start(1))
    for match in _LONG_PLACE.finditer(text):
        yield EntityMatch(match[0], PLACE, match.start())


def _find_by_context(text: str) -> Iterator[EntityMatch]:
    """Find names by context; for known names, the list decides the type."""
    for kind, pattern in _CONTEXT_PATTERNS:
        for match in pattern.finditer(text):
            name = _trim_name(match[1])
            known = _known_type(name) if name else ""
            if known or (name and not (kind == PERSON and _NOUN.search(name))):
                yield EntityMatch(name, known or kind, match.start(1))


def _trim_name(name: str) -> str:
    """Remove trailing words that belong to no name; return "" if the first word is no name."""
    words = name.removesuffix("'s").removesuffix("’s").split()
    while words and (words[-1].casefold() in _NOT_NAMES or words[-1][0].islower()):
        words.pop()
    if not words or words[0].casefold() in _NOT_NAMES or words[0].casefold() in _PRONOUNS:
        return ""
    return " ".join(words)[:MAX_NAME_CHARS]


_PRONOUNS = frozenset("he she they we you it who everyone everybody nobody somebody someone user".split())


def _known_type(name: str) -> str:
    key = name.casefold()
    return _TYPE_BY_NAME.get(key) or (PERSON if key.split()[0] in _GIVEN_NAMES else "")


def _find_known_names(text: str) -> Iterator[EntityMatch]:
    """Find listed names: tools in any case, others only with a capital letter."""
    for match in _FULL_NAME.finditer(text):
        if match[1].casefold() in _GIVEN_NAMES and (name := _trim_name(match[0])):
            yield EntityMatch(name, PERSON, match.start())
    for match in _WORD.finditer(text):
        word = match[0].removesuffix("'s").removesuffix("’s")
        kind = _known_type(word)
        if kind == TOOL or (kind and word[0].isupper() and not word.isupper()):
            yield EntityMatch(word, kind, match.start())


def _find_concepts(text: str) -> Iterator[EntityMatch]:
    """Find concepts: identifiers in code, tags and acronyms."""
    for match in _CODE.finditer(text):
        if _IDENTIFIER.fullmatch(match[1]):
            yield EntityMatch(match[1], CONCEPT, match.start(1))
    for pattern in (_CAMEL, _SNAKE):
        for match in pattern.finditer(text):
            yield EntityMatch(match[0], CONCEPT, match.start())
    for match in _HASHTAG.finditer(text):
        yield EntityMatch(match[1], CONCEPT, match.start(1))
    for match in _ACRONYM.finditer(text):
        if (
            match[0].casefold() not in _NOT_NAMES
            and not _ROMAN.fullmatch(match[0])
            and not _is_in_capitals(text, match)
        ):
            yield EntityMatch(match[0], CONCEPT, match.start())


def _is_in_capitals(text: str, match: re.Match[str]) -> bool:
    """Return whether most words of the line are in capitals."""
    line = text[text.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0]
    words = [word for word in _WORD.findall(line) if len(word) > 1]
    return len(words) > 2 and sum(map(str.isupper, words)) > len(words) / 2


def _find_capitalised(text: str, taken: list[tuple[int, int]]) -> Iterator[EntityMatch]:
    """Find capitalised words inside sentences as concepts, where capitals mean something.

    ``taken`` holds the spans of names found so far.
    """
    inside = [
        match
        for match in _WORD.finditer(text)
        if not _starts_sentence(text, match.start()) and not _overlaps(taken, *match.span())
    ]
    capitals = [match for match in inside if match[0][0].isupper()]
    headline = not inside or len(capitals) / len(inside) > _MAX_CAPITALISED_SHARE
    if headline or len(_GERMAN.findall(text)) > 1:  # German capitalises every noun
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
    return len(word) > 2 and not word.isupper() and word.casefold() not in _NOT_NAMES


def _starts_sentence(text: str, at: int) -> bool:
    return bool(_SENTENCE_START.search(text, max(0, at - 12), at)) if at else True
