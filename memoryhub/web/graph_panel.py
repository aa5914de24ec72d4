"""What stands beside the graph: a node's facts, those that ended, and the memories it is known from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db.models import Q

from memoryhub.models import Fact, Memory
from memoryhub.querysets import FactQuerySet, MemoryQuerySet
from memoryhub.sensitivity import Clearance
from memoryhub.web.fact_filters import GraphAddress
from memoryhub.web.graph import Index, Triple, key_of

GROUPS, LINES, ENDED, MEMORIES = 12, 5, 8, 5


@dataclass(frozen=True)
class Line:
    """What stands at the other end of a fact; ``href`` opens it."""

    triple: Triple
    other: str
    href: str
    contradicts: bool


@dataclass(frozen=True)
class Said:
    """What one predicate says of the node, surest first; ``more`` others are in the ``table``."""

    predicate: str
    lines: list[Line]
    more: int
    table: str


@dataclass(frozen=True)
class Panel:
    text: str
    key: str
    count: int
    says: list[Said]  # of the node
    named: list[Said]  # of others, with the node as object
    ended: list[Fact]
    memories: list[Memory]

    @property
    def contradicts(self) -> bool:
        return any(line.contradicts for said in (*self.says, *self.named) for line in said.lines)


@dataclass(frozen=True)
class Beside:
    """What the panel of a node is made of."""

    index: Index
    facts: FactQuerySet  # that hold now
    ended: FactQuerySet
    clearance: Clearance
    address: GraphAddress
    contradicting: Collection[int] = ()

    def of(self, text: str) -> Panel:
        """Three queries at most."""
        about = Q(subject=text) | Q(object=text)
        triples = self.index.of[text]
        return Panel(
            text=text,
            key=key_of(text),
            count=len(triples),
            says=self._said(text, [t for t in triples if t.subject == text], "subject"),
            named=self._said(text, [t for t in triples if t.subject != text], "object"),
            ended=list(self.ended.filter(about).order_by("-valid_until", "-pk")[:ENDED]),
            memories=self._memories(text, self.facts.filter(about)),
        )

    def _said(self, text: str, triples: Sequence[Triple], side: str) -> list[Said]:
        """By predicate; those with one object come first, they say most."""
        groups: dict[str, list[Triple]] = defaultdict(list)
        for triple in triples:
            groups[triple.predicate].append(triple)
        first = sorted(groups, key=lambda predicate: (len(groups[predicate]), predicate))[:GROUPS]
        return [
            Said(
                predicate,
                [self._line(triple, side) for triple in sorted(groups[predicate], key=_surest)[:LINES]],
                max(len(groups[predicate]) - LINES, 0),
                self.address.table(predicate=predicate, **{side: text}),
            )
            for predicate in first
        ]

    def _line(self, triple: Triple, side: str) -> Line:
        other = triple.object if side == "subject" else triple.subject
        return Line(triple, other, self.address.opening(key_of(other)), triple.pk in self.contradicting)

    def _memories(self, text: str, facts: FactQuerySet) -> list[Memory]:
        """Those that its facts were drawn from; where there are few, those too that name it."""
        live: MemoryQuerySet = Memory.objects.visible_to(self.clearance).live()
        sources = facts.filter(memory__isnull=False).order_by().values("memory")
        found = list(live.filter(pk__in=sources).order_by("-updated_at", "-pk")[:MEMORIES])
        if len(found) < MEMORIES:
            others = live.about_entity(text).exclude(pk__in=[memory.pk for memory in found])
            found += others.order_by("-updated_at", "-pk")[: MEMORIES - len(found)]
        return found


def _surest(triple: Triple) -> tuple[float, str]:
    return -triple.confidence, triple.object
