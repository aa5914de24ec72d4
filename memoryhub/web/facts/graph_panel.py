"""What stands beside the graph: a node's facts, those that ended, and the memories it is known from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memoryhub.access.policy import Clearance
from memoryhub.facts import queries
from memoryhub.facts.contradictions import Contradiction, ContradictionReport, FactKey
from memoryhub.facts.graph_index import GraphIndex, Triple, node_key
from memoryhub.facts.predicates import normalise_name, normalise_predicate
from memoryhub.models import Fact, Memory
from memoryhub.models.querysets import FactQuerySet, MemoryQuerySet
from memoryhub.web.facts.filters import GraphAddress

MAX_GROUPS, MAX_LINES, MAX_ENDED, MAX_MEMORIES = 12, 5, 8, 5
MAX_QUESTIONS = 4
MAX_SPELLINGS = 5  # in which the node is written too, by name
MAX_HEADING_CHARS = 90  # characters of the node's name that stand over it


@dataclass(frozen=True)
class FactLine:
    """What stands at the other end of a fact; ``href`` opens it. ``project``: told where they differ."""

    triple: Triple
    other: str
    href: str
    contradicts: bool
    project: str


@dataclass(frozen=True)
class OpenContradiction:
    """Facts that cannot all be true, the newest first; ``href`` is where that is decided closer."""

    predicate: str
    objects: list[str]
    project: str
    uids: list[str]  # of the facts
    href: str


@dataclass(frozen=True)
class PredicateGroup:
    """What one predicate says of the node, what is contested first; ``more`` others are in the ``table``.

    ``why``: why several objects are no contradiction, where there are several.
    """

    predicate: str
    lines: list[FactLine]
    more: int
    table: str
    why: str = ""


@dataclass(frozen=True)
class NodePanel:
    text: str
    key: str
    spellings: list[str]  # others than the text
    count: int
    questions: list[OpenContradiction]
    unasked: int  # questions that are left out
    all_questions: str
    says: list[PredicateGroup]  # of the node
    named: list[PredicateGroup]  # of others, with the node as object
    unsaid: int  # predicates that are left out of both
    ended: list[Fact]
    memories: list[Memory]

    @property
    def is_long(self) -> bool:
        """Whether the name is cut in the heading."""
        return len(self.text) > MAX_HEADING_CHARS

    @property
    def is_contested(self) -> bool:
        """Whether something that names it is contradicted."""
        return any(line.contradicts for said in self.named for line in said.lines)


@dataclass(frozen=True)
class PanelBuilder:
    """What the panel of a node is made of."""

    index: GraphIndex
    facts: FactQuerySet  # that hold now
    ended: FactQuerySet
    clearance: Clearance
    address: GraphAddress
    survey: ContradictionReport

    def of(self, thing: str) -> NodePanel:
        """Three queries at most. ``thing`` is one of the index."""
        spellings = self.index.spellings(thing)
        text, triples = spellings[0], self.index.of[thing]
        own = [triple for triple in triples if self.index.ends[triple.pk][0] == thing]
        others = [triple for triple in triples if self.index.ends[triple.pk][0] != thing]
        compared = {group.key: group for group in self.survey.groups}
        contested = {row.pk for group in self.survey.open for row in group.rows}
        sides = _FactGrouper(self, text, compared, contested)
        questions = sides.questions(own)
        return NodePanel(
            text=text,
            key=node_key(text),
            spellings=spellings[1 : MAX_SPELLINGS + 1],
            count=len(triples),
            questions=questions[:MAX_QUESTIONS],
            unasked=max(len(questions) - MAX_QUESTIONS, 0),
            all_questions=self.address.conflicts(subject=text),
            says=sides.said(own, "subject"),
            named=sides.said(others, "object"),
            unsaid=_count_left_out(own) + _count_left_out(others),
            ended=list(
                self.ended.filter(queries.about_condition(text, spellings)).order_by("-valid_until", "-pk")[
                    :MAX_ENDED
                ]
            ),
            memories=self._memories(text, self.facts.filter(queries.about_condition(text, spellings))),
        )

    def _memories(self, text: str, facts: FactQuerySet) -> list[Memory]:
        """Those that its facts were drawn from; where there are few, those too that name it."""
        live: MemoryQuerySet = Memory.objects.visible_to(self.clearance).live()
        sources = facts.filter(memory__isnull=False).order_by().values("memory")
        found = list(live.filter(pk__in=sources).order_by("-updated_at", "-pk")[:MAX_MEMORIES])
        if len(found) < MAX_MEMORIES:
            others = live.about_entity(text).exclude(pk__in=[memory.pk for memory in found])
            found += others.order_by("-updated_at", "-pk")[: MAX_MEMORIES - len(found)]
        return found


def _count_left_out(triples: Sequence[Triple]) -> int:
    """How many predicates there are beyond those that stand in the panel."""
    return max(len({normalise_predicate(triple.predicate) for triple in triples}) - MAX_GROUPS, 0)


@dataclass(frozen=True)
class _FactGrouper:
    """What is said of a node, and what names it."""

    of: PanelBuilder
    text: str
    compared: Mapping[FactKey, Contradiction]
    contested: set[int]

    def questions(self, triples: Sequence[Triple]) -> list[OpenContradiction]:
        """What is to be decided about the facts of this subject, one for each project and predicate."""
        keys = dict.fromkeys(self._key(triple) for triple in triples)
        groups = [self.compared[key] for key in keys if key in self.compared and self.compared[key].is_open]
        return [self._question(group) for group in groups]

    def _question(self, group: Contradiction) -> OpenContradiction:
        row = group.newest
        objects: dict[str, str] = {}
        for one in group.rows:
            objects.setdefault(normalise_name(one.object), one.object)
        href = self.of.address.conflicts(subject=self.text, predicate=row.predicate, project=row.project)
        return OpenContradiction(
            row.predicate, list(objects.values()), row.project, [one.uid for one in group.rows], href
        )

    def said(self, triples: Sequence[Triple], side: str) -> list[PredicateGroup]:
        """By predicate: what is contested, then those with one object, they say most."""
        groups: dict[str, list[Triple]] = defaultdict(list)
        for triple in triples:
            groups[normalise_predicate(triple.predicate)].append(triple)
        first = sorted(groups.items(), key=lambda one: (not self._is_contested(one[1]), len(one[1]), one[0]))
        return [self._one(found, side) for _, found in first[:MAX_GROUPS]]

    def _one(self, triples: Sequence[Triple], side: str) -> PredicateGroup:
        predicate = queries.most_common_spelling(Counter(triple.predicate for triple in triples))
        first = sorted(triples, key=lambda one: (one.pk not in self.contested, -one.confidence, one.object))
        by_project = len({triple.project for triple in triples}) > 1
        return PredicateGroup(
            predicate,
            [self._line(triple, side, by_project) for triple in first[:MAX_LINES]],
            max(len(triples) - MAX_LINES, 0),
            self.of.address.table(predicate=predicate, **{side: self.text}),
            self._why(triples) if side == "subject" else "",
        )

    def _line(self, triple: Triple, side: str, by_project: bool) -> FactLine:
        ends = self.of.index.ends[triple.pk]
        other = self.of.index.text(ends[1] if side == "subject" else ends[0])
        project = (triple.project or "no project") if by_project else ""
        href = self.of.address.opening(node_key(other))
        return FactLine(triple, other, href, triple.pk in self.contested, project)

    def _why(self, triples: Sequence[Triple]) -> str:
        """Why different objects do not contradict each other, as far as they do not."""
        if len({self.of.index.ends[triple.pk][1] for triple in triples}) < 2:
            return ""
        keys = {self._key(triple) for triple in triples}
        groups = [self.compared[key] for key in keys if key in self.compared]
        if any(group.settled for group in groups):
            return "Somebody said that all of these hold."
        if groups and not any(group.is_open for group in groups):
            return f"May all hold: {groups[0].verdict.why}."
        return "Compared within each project alone." if len(keys) > 1 else ""

    def _is_contested(self, triples: Sequence[Triple]) -> bool:
        return any(triple.pk in self.contested for triple in triples)

    @staticmethod
    def _key(triple: Triple) -> FactKey:
        return triple.project, normalise_name(triple.subject), normalise_predicate(triple.predicate)
