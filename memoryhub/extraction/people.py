"""Names of people in a text, as far as its form tells them. Pure."""

from __future__ import annotations

import re
import unicodedata

_NO_NAME = (
    r"(?!(?:I|We|You|They|He|She|It|This|That|The|These|Those|There|My|Our|Your|Who|What|If|When|And|But|So|Ok"
    r"|Please|Wir|Ich|Sie|Er|Es|Das|Die|Der|Yo|El|La|Nous|Je|One|Some|All|Each|Every|Nobody|Everyone)\b)"
)
NAME = _NO_NAME + r"[A-ZÄÖÜÉ][a-zäöüßéèáíóúñ]{1,20}(?:\s[A-ZÄÖÜÉ][a-zäöüßéèáíóúñ]{1,20}){0,2}"
# What somebody does or is, in the third person; a plural noun ("Python developers") is not among it.
DOES = (
    r"(?:is|was|has|had|will|does|did|doesn'?t|won'?t|can|can'?t|must|owns|leads?|manages?|maintains?|runs|handles?|wants|needs"
    r"|left|joined|wrote|works|worked|takes|took|knows|lives|lived|prefers?|decides?|reviews?|writes|keeps|chairs|signs"
    r"|approves|likes?|loves?|hates?|plays|started|starts|studies|studied|teaches|comes|goes|moved|moves|joins|leaves"
    r"|speaks|uses|drives|cooks|sings|sells|buys|pays|builds|organi[sz]es|looks\safter|reports\sto|sits|eats|drinks"
    r"|coordinates|supervises|responds|enjoys|graduated|grew|was\sborn|ist|hat|wohnt|arbeitet|leitet|heißt|est|a|habite|travaille"
    r"|es|vive|trabaja)"
)
# Where a name would stand, but a role or a thing does.
_ROLE = (
    r"(?!(?:User|Users|Human|Person|Customer|Client|Developer|Someone|Somebody|Name|Also|Now|Here|Currently"
    r"|Their|His|Her)\b)"
)
_SUBJECT = re.compile(rf"(?:^|[.!?\n]\s*)(?:[-*]\s)?{_ROLE}(?P<name>{NAME})(?:\s\w+ly)?\s{DOES}\b")
_INTRODUCED = re.compile(
    rf"\b(?:[Mm]y\sname\sis|[Nn]ame\s?(?:is|:)|[Cc]all\sme|(?:is|am|are)\s(?:called|named)|I\sam|I'm|[Ii]ch\sheiße|[Mm]e\sllamo|[Jj]e\sm'appelle)\s"
    rf"(?P<name>{NAME})"
)
_LOOKED_THROUGH = 4000  # characters


def named(text: str) -> set[str]:
    """The first names, folded, of those that a text about somebody is about."""
    looked = text[:_LOOKED_THROUGH]
    found = [one["name"] for pattern in (_SUBJECT, _INTRODUCED) for one in pattern.finditer(looked)]
    return {_folded(name.split()[0]) for name in found}


def different_people(one: str, other: str) -> bool:
    """Whether both texts name whom they are about, and none of these is the same."""
    mine, theirs = named(one), named(other)
    return bool(mine and theirs) and not mine & theirs


def _folded(name: str) -> str:
    apart = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in apart if not unicodedata.combining(letter))
