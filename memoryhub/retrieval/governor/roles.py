"""Role prefixes: "assistant: Certainly!" is a turn of a conversation, "user: www-data" a setting. Pure."""

from __future__ import annotations

from memoryhub.retrieval.governor.lexicon import LEXICON, SIGNS
from memoryhub.retrieval.governor.normalise import normalise
from memoryhub.retrieval.governor.reading import Reading, read

_ROLES = frozenset((SIGNS["rolesys"], SIGNS["roleuser"]))
_SPEECH = frozenset().union(*(LEXICON.members[part] for part in ("you", "your", "me", "soft", "what")))
_ORDER = frozenset().union(*(LEXICON.members[part] for part in ("answer", "show", "run", "ignore", "donot")))
_BEGINNING = 12  # words of a turn that are looked at


def strip_role_prefixes(text: str) -> str:
    """The text without "system:", "user:", "assistant:" ... where these open a turn of a conversation.

    A prefix before something that nobody says to anybody ("user: alice has admin rights") is part of the
    text and stays.
    """
    plain = normalise(text)
    reading = read(plain, text)
    clean = text
    for place in reversed([place for place, symbol in enumerate(reading.symbols) if symbol in _ROLES]):
        if _is_turn(reading, place):
            start, end = plain.span(reading.starts[place], reading.ends[place])
            clean = clean[:start] + clean[end:].lstrip(" \t")
    return clean


def _is_turn(reading: Reading, place: int) -> bool:
    """Whether what follows is spoken: to or by somebody, a question, or an order."""
    said = reading.symbols[place + 1 : place + 1 + _BEGINNING].partition("\n")[0]
    return not _SPEECH.isdisjoint(said) or said[:1] in _ORDER
