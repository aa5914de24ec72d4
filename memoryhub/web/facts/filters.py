"""Filter forms of the fact pages, and the addresses of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django import forms
from django.http import QueryDict
from django.urls import reverse

from memoryhub.access.policy import Clearance
from memoryhub.capture.segments import BOUNDARY_FACTS
from memoryhub.capture.segments import BOUNDARY_PREDICATE as BOUNDARY
from memoryhub.facts import queries
from memoryhub.facts.contradictions import ContradictionReport
from memoryhub.facts.queries import node_key, query_facts
from memoryhub.models.querysets import FactQuerySet
from memoryhub.web.base.forms import ListFilter, PastDayField, PredicateField, ProjectFilterField, WordField
from memoryhub.web.facts.graph import MAX_OPEN_NODES

MAX_SUGGESTED = 200
_GRAPH_FILTERS = ("project", "predicate", "min_confidence")
_CONTRADICTION_FILTERS = ("project", "predicate")


class ConfidenceField(forms.FloatField):
    """A minimum confidence from 0 to 1."""

    def __init__(self) -> None:
        widget = forms.NumberInput(attrs={"step": "0.05", "min": "0", "max": "1"})
        super().__init__(required=False, min_value=0, max_value=1, label="Confidence from", widget=widget)


class FactFilter(ListFilter):
    thing = WordField(label="Subject or object")
    subject = WordField()
    predicate = PredicateField()
    object = WordField()
    how = forms.ChoiceField(
        required=False, label="Object is", choices=[("", "containing this"), ("exact", "exactly this")]
    )
    min_confidence = forms.FloatField(
        required=False,
        min_value=0,
        max_value=1,
        label="Confidence from",
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    project = ProjectFilterField()
    session_id = WordField(label="Session")
    state = forms.ChoiceField(
        required=False, choices=[("", "true now"), ("ended", "that ended"), ("all", "all of them")]
    )
    on = PastDayField()
    marks = forms.BooleanField(required=False, label="Also where sessions change their subject")

    def leaves_out_marks(self) -> bool:
        """Whether to hide the facts that mark the start of a segment; they are shown only on request."""
        named = self.value("predicate") or self.value("subject") or self.value("thing")
        return not (named or self.value("marks"))

    def select(self, clearance: Clearance) -> FactQuerySet:
        """Return the matching facts. Names match in any spelling, an object literally with ``how=exact``."""
        is_exact, name = self.value("how") == "exact", self.value("object")
        rows = query_facts(
            clearance,
            project=self.value("project"),
            session_id=self.value("session_id"),
            object=name if is_exact else "",
            min_confidence=self.value("min_confidence") or 0.0,
            ended={"": False, "ended": True}.get(self.value("state")),
            as_of=self.moment(),
        )
        if self.leaves_out_marks():
            rows = rows.exclude(BOUNDARY_FACTS)
        if subject := self.value("subject"):
            rows = rows.filter(queries.name_condition("subject", subject))
        if predicate := self.value("predicate"):
            rows = queries.filter_by_predicate(rows, predicate)
        if thing := self.value("thing"):
            rows = rows.filter(queries.about_condition(thing))
        return rows if is_exact or not name else rows.filter(object__icontains=name)


class GraphFilter(ListFilter):
    """The filters of the graph. ``find`` names a node to open."""

    find = WordField(
        label="Find a subject or object", widget=forms.TextInput(attrs={"type": "search", "list": "things"})
    )
    predicate = PredicateField()
    project = ProjectFilterField()
    min_confidence = ConfidenceField()

    def select(self, clearance: Clearance) -> FactQuerySet:
        """Return the matching current facts, without segment boundaries unless their predicate is given."""
        predicate, project = self.value("predicate"), self.value("project")
        confidence = self.value("min_confidence") or 0.0
        facts = query_facts(clearance, project=project, min_confidence=confidence).select_related(None)
        if predicate:
            return queries.filter_by_predicate(facts, predicate)
        return facts.exclude(predicate=BOUNDARY)


class ContradictionFilter(ListFilter):
    """The filters of the contradictions; names match in any spelling."""

    subject = WordField()
    predicate = PredicateField()
    project = ProjectFilterField()

    def select(self, survey: ContradictionReport) -> ContradictionReport:
        return survey.narrowed(subject=self.value("subject"), predicate=self.value("predicate"))


def suggested_predicates(clearance: Clearance, project: str) -> list[str]:
    """Return the most common predicates of the visible current facts."""
    return queries.common_predicates(query_facts(clearance, project=project), MAX_SUGGESTED)


class GraphAddress:
    """Addresses of the graph and of related pages that keep the current filters and open nodes."""

    def __init__(self, parameters: QueryDict, opened: Sequence[str] = ()) -> None:
        self._opened = list(opened)
        self._filters = [(name, str(parameters[name])) for name in _GRAPH_FILTERS if parameters.get(name)]

    def of(self, keys: Sequence[str]) -> str:
        return _address("facts-graph", [*self._filters, *(("node", key) for key in keys)])

    def opening(self, key: str) -> str:
        """Return the address with this node opened last; the first one is closed when there are too many."""
        others = [other for other in self._opened if other != key]
        return self.of([*others[-(MAX_OPEN_NODES - 1) :], key])

    def closing(self, key: str) -> str:
        return self.of([other for other in self._opened if other != key])

    def narrowed(self, **filters: str) -> str:
        """Return the address with changed filters; empty ones are left out."""
        query = dict(self._filters) | filters
        return _address("facts-graph", [*query.items(), *(("node", key) for key in self._opened)])

    def table(self, **filters: str) -> str:
        """Return the address of the table with the same and additional filters."""
        return _address("facts", (dict(self._filters) | filters).items())

    def conflicts(self, **filters: str) -> str:
        """Return the address of the contradictions with the filters that apply there and additional ones."""
        query = {name: value for name, value in self._filters if name in _CONTRADICTION_FILTERS} | filters
        return _address("fact-conflicts", query.items())


def thing_url(name: str) -> str:
    """Return the URL of the page about a person, service, file or other name in facts and memories."""
    return reverse("thing", query={"name": node_key(name)})


def _address(view: str, query: Iterable[tuple[str, str]]) -> str:
    return reverse(view, query=[(name, value) for name, value in query if value])
