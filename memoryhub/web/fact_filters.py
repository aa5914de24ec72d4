"""The forms over the pages of facts, and the addresses of their graph."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict
from django.urls import reverse

from memoryhub.encoding.segmentation import PREDICATE as BOUNDARY
from memoryhub.facts import query_facts
from memoryhub.querysets import FactQuerySet
from memoryhub.sensitivity import Clearance
from memoryhub.web.filters import ListFilter, ProjectField, WordField
from memoryhub.web.graph import MOST_OPEN

_FOR_ALL = ("project", "predicate", "min_confidence")


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
    predicate = WordField(widget=forms.TextInput(attrs={"list": "predicates"}))
    project = ProjectField()
    min_confidence = ConfidenceField()

    def select(self, clearance: Clearance) -> FactQuerySet:
        """The facts that hold now and fit; where sessions fall into segments only when it is asked for."""
        facts = query_facts(
            clearance,
            predicate=self.value("predicate"),
            project=self.value("project"),
            min_confidence=self.value("min_confidence") or 0.0,
        ).select_related(None)
        return facts if self.value("predicate") == BOUNDARY else facts.exclude(predicate=BOUNDARY)


class ConflictFilter(ListFilter):
    project = ProjectField()


class GraphAddress:
    """Addresses of the graph under the filters in force, by the keys of the nodes that are opened."""

    def __init__(self, asked: QueryDict, opened: Sequence[str] = ()) -> None:
        self._opened = list(opened)
        self._filters = [(name, asked[name]) for name in _FOR_ALL if asked.get(name)]

    def of(self, keys: Sequence[str]) -> str:
        query = urlencode([*self._filters, *(("node", key) for key in keys)])
        return f"{reverse('facts-graph')}?{query}" if query else reverse("facts-graph")

    def opening(self, key: str) -> str:
        """With this node opened too, the last of them; the first gives way when there are too many."""
        others = [other for other in self._opened if other != key]
        return self.of([*others[-(MOST_OPEN - 1) :], key])

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
