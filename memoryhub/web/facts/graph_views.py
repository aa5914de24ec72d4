"""The pages of the fact graph, which is drawn on the server and explored node by node."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.facts import contradictions, queries
from memoryhub.facts.contradictions import Contradiction, ContradictionReport, FactKey, fact_key
from memoryhub.facts.predicates import normalise_name, normalise_predicate
from memoryhub.facts.queries import GraphIndex, Triple, node_key, query_facts
from memoryhub.models import Fact, Memory
from memoryhub.models.querysets import FactQuerySet, live_memories
from memoryhub.web.base.requests import HtmxHttpRequest, page_or_fragment, update_address_bar
from memoryhub.web.facts import graph
from memoryhub.web.facts.views import GraphAddress, GraphFilter, suggested_predicates

MAX_TOP_NODES, MAX_FOUND, MAX_SUGGESTED = 14, 12, 50


@require_safe
def facts_graph(request: HtmxHttpRequest) -> HttpResponse:
    """Show the graph with the nodes, filters and search term (``find``) of the address."""
    form = GraphFilter(request.GET)
    if not form.is_valid():
        return render(request, "facts/graph.html", {"form": form}, status=422)
    clearance = request_clearance(request)
    index = queries.read_graph(form.select(clearance))
    opened, missing = _parse_open_nodes(index, request.GET.getlist("node"))
    found = index.like(form.value("find"), MAX_FOUND) if form.value("find") else []
    if exact := _exact_match(found, form.value("find")):
        opened, found = [*(name for name in opened if name != exact), exact], []
    opened = opened[-graph.MAX_OPEN_NODES :]
    texts = [index.text(name) for name in opened]
    address = GraphAddress(request.GET, [queries.node_key(text) for text in texts])
    context = {
        "form": form,
        "address": address,
        "opened": _opened_links(texts, address),
        "missing": missing,
        "found": _node_links(index, found, address),
        "found_nothing": bool(form.value("find")) and not found and not exact,
        "here": address.narrowed(),
        "table": address.table(thing=texts[-1]) if texts else address.table(),
        "whole": address.of(()),
        "conflicts": address.conflicts(),
        **_picture_context(index, opened, form, clearance, address),
    }
    if not request.htmx:
        context["predicates"] = suggested_predicates(clearance, form.value("project"))
    response = page_or_fragment(request, "facts/graph.html", context, target="graph-view")
    return update_address_bar(request, response, context["here"], replace=False)


def _opened_links(texts: list[str], address: GraphAddress) -> list[dict[str, Any]]:
    """Return the open nodes, each with links that open or close it."""
    keys = [queries.node_key(text) for text in texts]
    return [
        {"name": text, "key": key, "open": address.opening(key), "close": address.closing(key)}
        for text, key in zip(texts, keys, strict=True)
    ]


def _picture_context(
    index: queries.GraphIndex,
    opened: list[str],
    form: GraphFilter,
    clearance: Clearance,
    address: GraphAddress,
) -> dict[str, Any]:
    project = form.value("project")
    survey = contradictions.find_contradictions(clearance, project=project)
    survey = survey.narrowed(predicate=form.value("predicate"))
    picture = graph.draw_graph(index, opened, {row.pk for group in survey.open for row in group.rows})
    context: dict[str, Any] = {
        "picture": picture,
        "nodes": [(node, address.opening(node.key)) for node in picture.nodes],
        "colours": [(colour, address.narrowed(predicate=colour.predicate)) for colour in picture.colours],
        "contradictions": len(survey.open),
        "foremost": _node_links(index, index.ranked(index.of)[:MAX_TOP_NODES], address),
    }
    if opened:
        ended = query_facts(clearance, project=project, ended=True)
        panel = build_panel(opened[-1], index, form.select(clearance), ended, survey, address, clearance)
        context |= {
            "panel": panel,
            "alone": address.of([panel.key]),
            "past": address.table(thing=panel.text, state="ended"),
            "without": address.closing(panel.key),
        }
    return context


def _parse_open_nodes(index: queries.GraphIndex, keys: list[str]) -> tuple[list[str], list[str]]:
    """Return the distinct nodes that the address names, and the keys without a node."""
    names = {key: index.known(key) for key in keys}
    return list(dict.fromkeys(filter(None, names.values()))), [key for key, name in names.items() if not name]


def _exact_match(found: list[str], typed: str) -> str | None:
    """Return the only node found, or the one with exactly this name."""
    if len(found) == 1:
        return found[0]
    wanted = normalise_name(typed)
    return wanted if wanted in found else None


def _node_links(index: queries.GraphIndex, names: list[str], address: GraphAddress) -> list[tuple[str, str]]:
    texts = [index.text(name) for name in names]
    return [(text, address.opening(queries.node_key(text))) for text in texts]


@require_safe
def suggest_things(request: HttpRequest) -> HttpResponse:
    """Return ``<datalist>`` options: names in visible facts that contain the text in ``find``."""
    form = GraphFilter(request.GET)
    names: list[str] = []
    if form.is_valid():
        index = queries.read_graph(form.select(request_clearance(request)))
        names = [index.text(name) for name in index.like(form.value("find"), MAX_SUGGESTED)]
    return render(request, "suggest/projects.html", {"names": names})


MAX_GROUPS, MAX_LINES, MAX_ENDED, MAX_MEMORIES = 12, 5, 8, 5
MAX_QUESTIONS = 4
MAX_SPELLINGS = 5  # other spellings of the node's name
MAX_HEADING_CHARS = 90  # of the node's name


@dataclass(frozen=True)
class FactLine:
    """The other end of a fact; ``href`` opens it. ``project`` is set if the projects of the facts differ."""

    triple: Triple
    other: str
    href: str
    contradicts: bool
    project: str


@dataclass(frozen=True)
class OpenContradiction:
    """Contradictory facts, newest first; ``href`` is the page that settles them."""

    predicate: str
    objects: list[str]
    project: str
    uids: list[str]  # of the facts
    href: str


@dataclass(frozen=True)
class PredicateGroup:
    """The node's facts of one predicate, contradictory ones first; ``more`` others are in the ``table``.

    ``why``: why several objects do not contradict each other.
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
    unasked: int  # number of omitted questions
    all_questions: str
    as_subject: list[PredicateGroup]  # with the node as subject
    as_object: list[PredicateGroup]  # with the node as object
    omitted: int  # number of omitted predicates
    ended: list[Fact]
    memories: list[Memory]

    @property
    def is_long(self) -> bool:
        """Return whether the name is cut in the heading."""
        return len(self.text) > MAX_HEADING_CHARS

    @property
    def is_contested(self) -> bool:
        """Return whether a fact with the node as object is contradicted."""
        return any(line.contradicts for fact_group in self.as_object for line in fact_group.lines)


def build_panel(
    thing: str,
    index: GraphIndex,
    facts: FactQuerySet,
    ended: FactQuerySet,
    survey: ContradictionReport,
    address: GraphAddress,
    clearance: Clearance,
) -> NodePanel:
    """Return the panel of a node of the index, from current and ended facts, in at most three queries."""
    spellings = index.spellings(thing)
    text, triples = spellings[0], index.of[thing]
    own = [triple for triple in triples if index.ends[triple.pk][0] == thing]
    others = [triple for triple in triples if index.ends[triple.pk][0] != thing]
    grouper = _FactGrouper(
        index,
        address,
        text,
        {group.key: group for group in survey.groups},
        {row.pk for group in survey.open for row in group.rows},
    )
    questions = grouper.questions(own)
    about = queries.about_condition(text, spellings)
    return NodePanel(
        text=text,
        key=node_key(text),
        spellings=spellings[1 : MAX_SPELLINGS + 1],
        count=len(triples),
        questions=questions[:MAX_QUESTIONS],
        unasked=max(len(questions) - MAX_QUESTIONS, 0),
        all_questions=address.conflicts(subject=text),
        as_subject=grouper.by_predicate(own, "subject"),
        as_object=grouper.by_predicate(others, "object"),
        omitted=_count_left_out(own) + _count_left_out(others),
        ended=list(ended.filter(about).order_by("-valid_until", "-pk")[:MAX_ENDED]),
        memories=_find_memories(text, facts.filter(about), clearance),
    )


def _find_memories(text: str, facts: FactQuerySet, clearance: Clearance) -> list[Memory]:
    """Return the memories that the facts come from and, if they are few, others that mention the node."""
    live = live_memories(clearance)
    sources = facts.filter(memory__isnull=False).order_by().values("memory")
    found = list(live.filter(pk__in=sources).order_by("-updated_at", "-pk")[:MAX_MEMORIES])
    if len(found) < MAX_MEMORIES:
        others = live.about_entity(text).exclude(pk__in=[memory.pk for memory in found])
        found += others.order_by("-updated_at", "-pk")[: MAX_MEMORIES - len(found)]
    return found


def _count_left_out(triples: Sequence[Triple]) -> int:
    """Return the number of predicates that exceed the panel's limit."""
    return max(len({normalise_predicate(triple.predicate) for triple in triples}) - MAX_GROUPS, 0)


@dataclass(frozen=True)
class _FactGrouper:
    """Groups the facts of the node ``text`` by predicate.

    ``compared``: the contradictions and compatible groups of the survey; ``contested``: keys of facts in open
    contradictions.
    """

    index: GraphIndex
    address: GraphAddress
    text: str
    compared: Mapping[FactKey, Contradiction]
    contested: set[int]

    def questions(self, triples: Sequence[Triple]) -> list[OpenContradiction]:
        """Return the open contradictions of this subject, one for each project and predicate."""
        keys = dict.fromkeys(map(fact_key, triples))
        groups = (self.compared[key] for key in keys if key in self.compared)
        return [self._question(group) for group in groups if group.is_open]

    def _question(self, group: Contradiction) -> OpenContradiction:
        row = group.newest
        objects: dict[str, str] = {}
        for fact in group.rows:
            objects.setdefault(normalise_name(fact.object), fact.object)
        href = self.address.conflicts(subject=self.text, predicate=row.predicate, project=row.project)
        return OpenContradiction(
            row.predicate, list(objects.values()), row.project, [fact.uid for fact in group.rows], href
        )

    def by_predicate(self, triples: Sequence[Triple], side: str) -> list[PredicateGroup]:
        """Group facts by predicate: contradictory ones first, then by ascending number of facts."""
        groups: dict[str, list[Triple]] = defaultdict(list)
        for triple in triples:
            groups[normalise_predicate(triple.predicate)].append(triple)

        def rank(item: tuple[str, list[Triple]]) -> tuple[bool, int, str]:
            name, found = item
            return self.contested.isdisjoint(triple.pk for triple in found), len(found), name

        ordered = sorted(groups.items(), key=rank)
        return [self._group(found, side) for _, found in ordered[:MAX_GROUPS]]

    def _group(self, triples: Sequence[Triple], side: str) -> PredicateGroup:
        predicate = queries.most_common_spelling(Counter(triple.predicate for triple in triples))
        ordered = sorted(triples, key=lambda t: (t.pk not in self.contested, -t.confidence, t.object))
        by_project = len({triple.project for triple in triples}) > 1
        return PredicateGroup(
            predicate,
            [self._line(triple, side, by_project) for triple in ordered[:MAX_LINES]],
            max(len(triples) - MAX_LINES, 0),
            self.address.table(predicate=predicate, **{side: self.text}),
            self._why(triples) if side == "subject" else "",
        )

    def _line(self, triple: Triple, side: str, by_project: bool) -> FactLine:
        ends = self.index.ends[triple.pk]
        other = self.index.text(ends[1] if side == "subject" else ends[0])
        project = (triple.project or "no project") if by_project else ""
        href = self.address.opening(node_key(other))
        return FactLine(triple, other, href, triple.pk in self.contested, project)

    def _why(self, triples: Sequence[Triple]) -> str:
        """Return why different objects do not contradict each other; empty if they do."""
        if len({self.index.ends[triple.pk][1] for triple in triples}) < 2:
            return ""
        keys = set(map(fact_key, triples))
        groups = [self.compared[key] for key in keys if key in self.compared]
        if any(group.settled for group in groups):
            return "Someone confirmed that all of these are true."
        if groups and not any(group.is_open for group in groups):
            return f"These can all be true: {groups[0].verdict.why}."
        return "Facts are compared within each project only." if len(keys) > 1 else ""
