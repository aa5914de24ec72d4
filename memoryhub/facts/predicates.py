"""Whether what a fact says of its subject can be true only once. Pure.

``located_in`` takes one object, ``depends_on`` as many as there are. Nobody writes down which is which, so it
is told from what people decided about such facts, from what the words mean, and from how they are used; a
predicate of which nothing is known takes one, because two objects of it are worth a look.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_GAPS = re.compile(r"[\s_\-.]+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# Learnt from use: of so many subjects, this share with several objects; or one subject with so many of them.
MIN_SUBJECTS, MIN_SHARE, MIN_LIST_LENGTH = 8, 1 / 2, 5
MIN_DECISIONS = 2  # one decision that objects hold together may be an exception; so many are the rule

# Verbs that go with many things at once, as :func:`plain` has them.
MULTI_OBJECT_PREDICATES = frozenset(
    " ".join(word.split())
    for word in """
    affects, alias, also known as, asked about, attended, belongs to, blocked by, blocks, boundary at,
    calls, causes, collaborates with, configures, connects to, consumes, contains, contributes to,
    covers, created, depends on, discussed, dislikes, documents, enjoys, exports, extends, fixed, fixes,
    handles, has, has alias, has feature, has member, has part, has skill, has tag, implements, imports,
    includes, integrates with, interested in, introduced, involves, is a, is an, is related to, knows,
    knows about, learned, likes, listens to, loves, maintains, member of, mentions, met, met with,
    modified, modifies, needs, observed, owns, part of, participates in, prefers, produces, provides,
    publishes, reads, reads from, references, related to, relates to, relies on, requires, responsible
    for, see also, sees also, sends to, serves, solves, speaks, subscribes to, supports, tag,
    tagged, talks to, teaches, tested by, tests, touches, triggers, understands, used by, used for,
    uses, visited, wants, watches, worked on, works on, works with, writes, writes to, wrote
    """.split(",")
)


@dataclass(frozen=True)
class PredicateUse:
    """How a predicate is used, and what people decided about it.

    ``subjects`` have it, ``several`` of them with more than one object, ``most`` is the largest number of
    objects. ``superseded``: facts of it that gave way to another; ``held``: subjects whose objects somebody
    said are all true.
    """

    subjects: int = 0
    several: int = 0
    most: int = 0
    superseded: int = 0
    held: int = 0


@dataclass(frozen=True)
class Verdict:
    """Whether a predicate takes one object, and in a few words why."""

    one: bool
    why: str


def normalise_predicate(predicate: str) -> str:
    """``usesDatabase``, ``uses_database`` and ``Uses database`` are the same predicate."""
    return _GAPS.sub(" ", _HUMPS.sub(" ", predicate)).strip().casefold()


def normalise_name(text: str) -> str:
    """Subjects and objects that differ only in case and white space are the same thing."""
    return " ".join(text.split()).casefold()


def judge_predicate(predicate: str, evidence: PredicateUse) -> Verdict:
    """``predicate`` as :func:`plain` has it. People's decisions count most, then words, then use."""
    if evidence.superseded > evidence.held:
        return Verdict(True, "others of it gave way to a newer one")
    if evidence.held >= evidence.superseded + MIN_DECISIONS:
        return Verdict(False, "several were said to hold together")
    if predicate in MULTI_OBJECT_PREDICATES:
        return Verdict(False, "such words go with many things")
    if evidence.most >= MIN_LIST_LENGTH:
        return Verdict(False, f"one subject has {evidence.most} of them")
    if evidence.subjects >= MIN_SUBJECTS and evidence.several > MIN_SHARE * evidence.subjects:
        return Verdict(False, f"{evidence.several} of {evidence.subjects} subjects have several")
    if evidence.subjects >= MIN_SUBJECTS:
        return Verdict(
            True, f"{evidence.subjects - evidence.several} of {evidence.subjects} subjects have one"
        )
    return Verdict(True, "nothing says that there can be several")
