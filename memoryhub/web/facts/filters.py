"""The forms over the pages of facts, and the addresses of their graph."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict
from django.urls import reverse

from memoryhub.access.policy import Clearance
from memoryhub.capture.segments import BOUNDARY_PREDICATE as BOUNDARY
from memoryhub.facts import queries
from memoryhub.facts.contradictions import ContradictionReport
from memoryhub.facts.services import query_facts
from memoryhub.models.querysets import FactQuerySet
from memoryhub.web.base.filters import ListFilter, PredicateField, ProjectField, WordField
from memoryhub.web.facts.graph import MAX_OPEN_NODES

MAX_SUGGESTED = 200
_GRAPH_FILTERS = ("project", "predicate", "min_confidence")
_CONTRADICTION_FILTERS = ("project", "predicate")


class ConfidenceField(forms.FloatField):
    """A lowest confidence, 0 to 1."""

    def __init__(self) -> None:
        widget = forms.NumberInput(attrs={"step": "0.05", "min": "0", "max": "1"})
        super().__init__(required=False, min_value=0, max_value=1, label="Confidence from", widget=widget)


class GraphFilter(ListFilter):
    """What the graph is made of; ``find`` names what to open."""

    find = WordField(
        label="Find a subject or object", widget=forms.TextInput(attrs={"type": "search", "list": "things"})
    )
    predicate = PredicateField()
    project = ProjectField()
    min_confidence = ConfidenceField()

    def select(self, clearance: Clearance) -> FactQuerySet:
        """The facts that hold now and fit; where sessions fall into segments only when it is asked for."""
        asked, project = self.value("predicate"), self.value("project")
        least = self.value("min_confidence") or 0.0
        facts = query_facts(clearance, project=project, min_confidence=least).select_related(None)
        return queries.filter_by_predicate(facts, asked) if asked else facts.exclude(predicate=BOUNDARY)


class ContradictionFilter(ListFilter):
    """Which contradictions are shown; names are found however they are written."""

    subject = WordField()
    predicate = PredicateField()
    project = ProjectField()

    def select(self, survey: ContradictionReport) -> ContradictionReport:
        """Of a survey of the project, what is asked for."""
        return survey.narrowed(subject=self.value("subject"), predicate=self.value("predicate"))


def suggested_predicates(clearance: Clearance, project: str = "") -> list[str]:
    """What a field of predicates suggests: the commonest of the facts that hold now and may be seen."""
    return queries.common_predicates(query_facts(clearance, project=project), MAX_SUGGESTED)


class GraphAddress:
    """Addresses of the graph under the filters in force, by the keys of the nodes that are opened."""

    def __init__(self, asked: QueryDict, opened: Sequence[str] = ()) -> None:
        self._opened = list(opened)
        self._filters = [(name, asked[name]) for name in _GRAPH_FILTERS if asked.get(name)]

    def of(self, keys: Sequence[str]) -> str:
        query = urlencode([*self._filters, *(("node", key) for key in keys)])
        return f"{reverse('facts-graph')}?{query}" if query else reverse("facts-graph")

    def opening(self, key: str) -> str:
        """With this node opened too, the last of them; the first gives way when there are too many."""
        others = [other for other in self._opened if other != key]
        return self.of([*others[-(MAX_OPEN_NODES - 1) :], key])

    def closing(self, key: str) -> str:
        return self.of([other for other in self._opened if other != key])

    def narrowed(self, **filters: str) -> str:
        """With other filters; an empty one is left out."""
        query = dict(self._filters) | filters
        kept = [(name, value) for name, value in query.items() if value]
        encoded = urlencode([*kept, *(("node", key) for key in self._opened)])
        return f"{reverse('facts-graph')}?{encoded}" if encoded else reverse("facts-graph")

    def table(self, **filters: str) -> str:
        """The same facts as a table, narrowed further."""
        query = dict(self._filters) | filters
        return f"{reverse('facts')}?{urlencode(query)}" if query else reverse("facts")

    def conflicts(self, **filters: str) -> str:
        """The page of contradictions, under those of the filters that it has and what narrows it further."""
        query = {name: value for name, value in self._filters if name in _CONTRADICTION_FILTERS} | filters
        kept = {name: value for name, value in query.items() if value}
        return f"{reverse('fact-conflicts')}?{urlencode(kept)}" if kept else reverse("fact-conflicts")
