"""The pages of facts, of a thing that facts and memories name, and of contradictions, with their filters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memoryhub import memories
from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import full_clearance, request_actor, request_clearance
from memoryhub.accounts.permissions import ADD_FACT, CHANGE_FACT, DELETE_FACT
from memoryhub.capture import segments
from memoryhub.capture.segments import BOUNDARY_FACTS
from memoryhub.capture.segments import BOUNDARY_PREDICATE as BOUNDARY
from memoryhub.core.text import count_with_verb
from memoryhub.facts import contradictions, queries
from memoryhub.facts import services as fact_store
from memoryhub.facts.contradictions import Contradiction, ContradictionReport
from memoryhub.facts.predicates import normalise_name, normalise_predicate
from memoryhub.facts.queries import GraphIndex, node_key, query_facts
from memoryhub.memories import StoreError
from memoryhub.models import Entity, Fact, FileLink, Memory
from memoryhub.models.querysets import FactQuerySet, live_memories
from memoryhub.web.base.forms import ListFilter, PastDayField, PredicateField, ProjectFilterField, WordField
from memoryhub.web.base.requests import (
    HtmxHttpRequest,
    cursor_page,
    narrow_to_project,
    numbered_page,
    return_url,
    show_success,
)
from memoryhub.web.facts.graph import MAX_OPEN_NODES
from memoryhub.web.memories.bulk_actions import parse_journal_number, parse_ticked, warn_changed_since
from memoryhub.web.memories.filters import filter_url
from memoryhub.web.memories.forms import FactForm

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


PAGE_SIZE = 30
_FACTS_URL = "/facts/"
_PREFILLED_FIELDS = ("subject", "predicate", "object", "project", "session_id", "memory_id")


@require_http_methods(["GET", "HEAD", "POST"])
def facts(request: HttpRequest) -> HttpResponse:
    """List the facts. POST stores a new one."""
    if request.method == "POST":
        return _add_fact(request)
    prefilled = _PREFILLED_FIELDS if "add" in request.GET else ()
    initial = {name: request.GET[name] for name in prefilled if request.GET.get(name)}
    return _render_table(request, FactForm(None, full_clearance(request), initial=initial))


@permission_required(ADD_FACT, raise_exception=True)
def _add_fact(request: HttpRequest) -> HttpResponse:
    form = FactForm(request.POST, full_clearance(request))
    stored = form.submit(lambda: fact_store.create_fact(form.draft, request_actor(request)))
    if stored is None:
        return _render_table(request, form, status=422)
    fact, is_new = stored
    text = "Stored." if is_new else "This fact already exists. Its confidence is updated."
    messages.success(request, text + _hidden_level_hint(request, fact))
    return redirect("memory", uid=fact.memory.uid) if fact.memory else redirect("facts")


def _hidden_level_hint(request: HttpRequest, fact: Fact) -> str:
    """Return how to show the stored fact if its level is hidden."""
    if request_clearance(request).allows(fact.project, fact.sensitivity):
        return ""
    return f" It is {fact.sensitivity}: show {fact.sensitivity} memories in the Visibility menu to see it."


def _render_table(request: HttpRequest, add: FactForm, status: int = 200) -> HttpResponse:
    form = FactFilter({} if "add" in request.GET or request.method == "POST" else request.GET)
    valid, clearance = form.is_valid(), request_clearance(request)
    rows = form.select(clearance) if valid else Fact.objects.none()
    segment_facts = Fact.objects.visible_to(clearance).filter(segments.BOUNDARY_FACTS)
    context = {
        "form": form,
        "add": add,
        "add_open": add.is_bound or "add" in request.GET,
        **cursor_page(request, rows, "updated_at", PAGE_SIZE),
        "hidden_marks": valid and form.leaves_out_marks() and segment_facts.exists(),
        "graph": _graph_address(request, form) if valid else "",
        "conflicts": GraphAddress(request.GET).conflicts(subject=form.value("subject")) if valid else "",
        "predicates": suggested_predicates(clearance, form.value("project") if valid else ""),
        "may_reinstate": valid and bool(form.value("state")) and request.user.has_perm(CHANGE_FACT),
        "past": form.moment() if valid else None,
    }
    return render(request, "facts/page.html", context, status=status if valid else 422)


def _graph_address(request: HttpRequest, form: FactFilter) -> str:
    """Return the address of the graph under the same filters, as far as it has them."""
    opened = form.value("thing") or form.value("subject")
    return GraphAddress(request.GET).of([node_key(opened)] if opened else [])


@require_safe
def fact(request: HttpRequest, uid: str) -> HttpResponse:
    """Show one fact with links to its subject, object and memory."""
    visible = Fact.objects.visible_to(request_clearance(request)).select_related("memory", "superseded_by")
    found = get_object_or_404(visible, uid=uid)
    context = {"fact": found, "facts": [found], "may_reinstate": request.user.has_perm(CHANGE_FACT)}
    return render(request, "facts/one.html", context)


@require_POST
@permission_required(DELETE_FACT, raise_exception=True)
def fact_delete(request: HttpRequest, uid: str) -> HttpResponse:
    """Ask for confirmation before one fact is deleted; the form posts to ``facts_delete``."""
    found = get_object_or_404(Fact.objects.visible_to(request_clearance(request)), uid=uid)
    context = {"chosen": [found], "back": return_url(request, _FACTS_URL), "action": reverse("facts-delete")}
    return render(request, "facts/delete.html", context)


@require_POST
@permission_required(CHANGE_FACT, raise_exception=True)
def facts_end(request: HtmxHttpRequest) -> HttpResponse:
    """End the facts in ``uid``: they are no longer true from now on."""
    back = return_url(request, _FACTS_URL)
    try:
        found = parse_ticked(request.POST.getlist("uid"))
        ended = fact_store.end_facts(found.uids, request_actor(request), seen=found.seen)
    except StoreError as refusal:
        messages.error(request, f"Nothing was changed: {refusal.message}.")
        return redirect(back)
    if ended.facts:
        context = {
            "ended": ended,
            "summary": count_with_verb(len(ended.facts), "fact", "has ended", "have ended"),
            "back": back,
        }
        show_success(request, "facts/page.html#ended", context)
    elif not ended.outdated:
        messages.warning(request, "No current fact was selected. Select the facts to end.")
    warn_changed_since(request, len(ended.outdated), "fact")
    return redirect(back)


@require_POST
@permission_required(CHANGE_FACT, raise_exception=True)
def facts_end_undo(request: HttpRequest, uid: str) -> HttpResponse:
    """Undo the end of facts. ``first`` and ``last`` are journal numbers; only the same person may do it."""
    first, last = (parse_journal_number(request.POST.get(name, "")) for name in ("first", "last"))
    again = fact_store.undo_end_facts(uid, request_actor(request), first, last)
    if again:
        hold = count_with_verb(len(again), "fact", "holds", "hold")
        messages.success(request, f"Undone: {hold} again.")
    else:
        messages.warning(request, "Nothing was undone: the facts have changed in the meantime.")
    return redirect(return_url(request, _FACTS_URL))


@require_POST
@permission_required(DELETE_FACT, raise_exception=True)
def facts_delete(request: HttpRequest) -> HttpResponse:
    """Delete the facts in ``uid`` after a confirmation page that lists them."""
    back = return_url(request, _FACTS_URL)
    found = parse_ticked(request.POST.getlist("uid")[: fact_store.MAX_FACTS])
    visible = Fact.objects.visible_to(request_clearance(request)).filter(uid__in=found.uids)
    if request.POST.get("confirmed") == "yes":
        gone = fact_store.delete_facts(found.uids, request_actor(request), seen=found.seen)
        deleted = count_with_verb(len(gone), "fact", "is", "are")
        messages.success(request, f"{deleted} deleted permanently.")
        warn_changed_since(request, visible.count(), "fact")
        return redirect(_FACTS_URL if back in {reverse("fact", args=[fact.uid]) for fact in gone} else back)
    chosen = list(visible.order_by("-pk"))
    if not chosen:
        messages.warning(request, "No fact was selected. Select the facts to delete.")
        return redirect(back)
    return render(request, "facts/delete.html", {"chosen": chosen, "back": back, "action": request.path})


MAX_FACTS, MAX_MEMORIES, MAX_NEIGHBOURS, MAX_ALIASES, MAX_TYPES = 100, 50, 16, 8, 3
_ALIAS_PREDICATES = frozenset(map(normalise_predicate, ("alias", "also known as", "aka", "is also called")))


@dataclass(frozen=True)
class ThingEntry:
    """A fact or a memory on the timeline of a thing. ``contradicts``: another fact says something else."""

    at: datetime
    fact: Fact | None = None
    memory: Memory | None = None
    contradicts: bool = False


@require_safe
def thing(request: HttpRequest) -> HttpResponse:
    """Show facts, memories and contradictions about ``name``, newest first, its aliases and neighbours."""
    if not (asked := request.GET.get("name", "")):
        return redirect("facts")
    project = request.GET.get("project", "")
    clearance = narrow_to_project(request_clearance(request), project)
    facts = query_facts(clearance, ended=None).exclude(BOUNDARY_FACTS)
    index = queries.read_graph(facts.select_related(None))
    key = index.known(asked)
    name = index.text(key) if key else asked
    names = {asked, name, *(index.spellings(key) if key else ())}
    about = facts.filter(queries.about_condition(name, names))
    rows = list(about.select_related("memory").order_by("-pk")[:MAX_FACTS])
    memories = _find_memories(names, about, clearance)
    if not rows and not memories:
        raise Http404
    questions = contradictions.find_contradictions(clearance).narrowed(subject=name).open
    contested = {row.pk for group in questions for row in group.rows}
    context = {
        "name": name,
        "types": _entity_types(names, memories),
        "aliases": _aliases(index, key, name)[:MAX_ALIASES],
        "entries": _newest_first(rows, memories, contested),
        "fact_count": len(rows),
        "memory_count": len(memories),
        "is_cut": len(rows) == MAX_FACTS or len(memories) == MAX_MEMORIES,
        "questions": len(questions),
        "conflicts": GraphAddress(request.GET).conflicts(subject=name),
        "neighbours": _neighbours(index, key),
        "graph": GraphAddress(request.GET).of([queries.node_key(name)]) if key else "",
    }
    return render(request, "facts/thing.html", context)


def _newest_first(facts: list[Fact], memories: list[Memory], contested: Collection[int]) -> list[ThingEntry]:
    entries = [
        ThingEntry(fact.valid_from or fact.created_at, fact, None, fact.pk in contested) for fact in facts
    ]
    entries += [ThingEntry(memory.created_at, memory=memory) for memory in memories]
    return sorted(entries, key=lambda entry: entry.at, reverse=True)


def _find_memories(names: Collection[str], facts: FactQuerySet, clearance: Clearance) -> list[Memory]:
    """Return the newest live memories that name the thing, touch the file, or state one of the facts."""
    named = Entity.objects.filter(entity__in=names).values("memory")
    files = FileLink.objects.filter(path__in=names).values("memory")
    sources = facts.filter(memory__isnull=False).order_by().values("memory")
    live = live_memories(clearance).defer("overview")
    found = live.filter(Q(pk__in=named) | Q(pk__in=files) | Q(pk__in=sources))
    return list(found.order_by("-created_at", "-pk")[:MAX_MEMORIES])


def _entity_types(names: Collection[str], memories: Iterable[Memory]) -> list[str]:
    """Return the types under which these memories name the thing."""
    rows = Entity.objects.filter(memory__in=[memory.pk for memory in memories], entity__in=names)
    return sorted({kind for kind in rows.values_list("entity_type", flat=True) if kind})[:MAX_TYPES]


def _aliases(index: GraphIndex, key: str | None, name: str) -> list[str]:
    """Return other spellings of the thing, and the names that facts call its aliases."""
    if key is None:
        return []
    found = dict.fromkeys(spelling for spelling in index.spellings(key) if spelling != name)
    for triple in index.of[key]:
        if normalise_predicate(triple.predicate) in _ALIAS_PREDICATES:
            is_subject = normalise_name(triple.subject) == key
            found[triple.object if is_subject else triple.subject] = None
    return list(found)


def _neighbours(index: GraphIndex, key: str | None) -> list[str]:
    """Return the things that share a fact with this one, those with most neighbours first."""
    others = index.ranked(set(index.neighbours[key]) - {key}) if key else []
    return [index.text(other) for other in others[:MAX_NEIGHBOURS]]


CONTRADICTIONS_PAGE_SIZE = 20
_TABS = {"open": "To decide", "together": "Possibly compatible"}


@require_safe
def contradiction_list(request: HttpRequest) -> HttpResponse:
    """List contradictions, filtered by ``subject``, ``predicate``, ``project`` and ``tab`` of the address."""
    form = ContradictionFilter(request.GET)
    if not form.is_valid():
        return render(request, "facts/conflicts.html", {"form": form}, status=422)
    clearance, project = request_clearance(request), form.value("project")
    survey = form.select(contradictions.find_contradictions(clearance, project=project))
    tab = request.GET.get("tab", "open")
    tab = tab if tab in _TABS else "open"
    groups = survey.open if tab == "open" else survey.together
    groups, numbers = numbered_page(request, groups, CONTRADICTIONS_PAGE_SIZE)
    address, subject = GraphAddress(request.GET), form.value("subject")
    context = {
        "form": form,
        "tab": tab,
        "tabs": [
            {"name": name, "title": title, "href": filter_url(request, tab=name), "current": name == tab}
            for name, title in _TABS.items()
        ],
        "counts": _tab_counts(survey),
        "groups": contradiction_cards(request, groups),
        **numbers,
        "back": request.get_full_path(),
        "graph": address.of([node_key(subject)] if subject else []),
        "table": address.table(**({"subject": subject} if subject else {})),
        "conflicts": address.conflicts(subject=subject),
        "predicates": suggested_predicates(clearance, project),
    }
    return render(request, "facts/conflicts.html", context)


def _tab_counts(survey: ContradictionReport) -> dict[str, int]:
    return {"open": len(survey.open), "together": len(survey.together)}


def contradiction_cards(request: HttpRequest, groups: list[Contradiction]) -> list[dict[str, Any]]:
    """Return the context of each contradiction's card; all facts are loaded in one query."""
    wanted = [row.pk for group in groups for row in group.rows]
    visible = (
        Fact.objects.visible_to(request_clearance(request)).select_related("memory").defer("memory__content")
    )
    facts = {fact.pk: fact for fact in visible.filter(pk__in=wanted)}
    return [
        {
            "group": group,
            "facts": [facts[row.pk] for row in group.rows if row.pk in facts],
            "graph": GraphAddress(request.GET).of([node_key(group.newest.subject)]),
        }
        for group in groups
    ]


@require_POST
@permission_required(CHANGE_FACT, raise_exception=True)
def decide_contradiction(request: HtmxHttpRequest) -> HttpResponse:
    """Settle a contradiction. ``fact``: the ids of its facts; ``keep``: the true one; empty: all are."""
    uids, keep = request.POST.getlist("fact"), request.POST.get("keep", "")
    try:
        if keep:
            others = [uid for uid in uids if uid != keep]
            holds, gone = contradictions.supersede_facts(keep, others, request_actor(request))
            context = {"holds": holds, "gone": gone}
        else:
            context = {
                "decision": contradictions.mark_compatible(uids, request_actor(request)),
                "count": len(uids),
            }
    except memories.StoreError as refusal:
        return _refused_response(request, refusal)
    return _decided_response(request, context | {"fact_ids": uids})


@require_POST
@permission_required(CHANGE_FACT, raise_exception=True)
def undo_decision(request: HtmxHttpRequest) -> HttpResponse:
    """Undo a decision. ``gone``: the ids of superseded facts, or ``decision``: that all are true."""
    gone = request.POST.getlist("gone")
    try:
        if gone:
            contradictions.undo_supersede(gone, request_actor(request))
        else:
            contradictions.undo_mark_compatible(request.POST.get("decision", ""), request_actor(request))
    except memories.StoreError as refusal:
        return _refused_response(request, refusal)
    if request.htmx:
        return _card_response(request)
    messages.success(request, "Undone.")
    return redirect(_back_address(request))


def _decided_response(request: HtmxHttpRequest, context: dict[str, Any]) -> HttpResponse:
    """Show the decision with an undo button: in place of the card, or as a message without htmx."""
    context |= {"back": _back_address(request)}
    if request.htmx:
        return render(request, "facts/conflicts.html#decided", context | _current_counts(request))
    show_success(request, "facts/page.html#undo", context)
    return redirect(_back_address(request))


def _card_response(request: HtmxHttpRequest) -> HttpResponse:
    """Show the card of these facts again."""
    uids = set(request.POST.getlist("fact"))
    survey = contradictions.find_contradictions(request_clearance(request))
    group = next((group for group in survey.groups if uids & {row.uid for row in group.rows}), None)
    if group is None:
        raise Http404
    [card] = contradiction_cards(request, [group])
    context = {"one": card, "back": _back_address(request), "is_fresh": True, **_current_counts(request)}
    return render(request, "facts/conflicts.html#conflict_again", context)


def _refused_response(request: HtmxHttpRequest, refusal: memories.StoreError) -> HttpResponse:
    """Show why the action was refused; 404 for facts that are not visible."""
    if isinstance(refusal, memories.NotFound):
        raise Http404
    if request.htmx:
        context = {"refusal": refusal.message, "back": _back_address(request), **_current_counts(request)}
        return render(request, "facts/page.html#refused", context, status=422)
    messages.error(request, f"Nothing was changed: {refusal.message}.")
    return redirect(_back_address(request))


def _current_counts(request: HttpRequest) -> dict[str, Any]:
    """Return the new counts under the filters of the page of contradictions; nothing for another page."""
    path, _, query = _back_address(request).partition("?")
    form = ContradictionFilter(QueryDict(query))
    if path != reverse("fact-conflicts") or not form.is_valid():
        return {}
    survey = contradictions.find_contradictions(request_clearance(request), project=form.value("project"))
    return {"counts": _tab_counts(form.select(survey)), "names": list(_TABS)}


def _back_address(request: HttpRequest) -> str:
    """Return the page to go back to: a page of facts, or the review queue."""
    return return_url(request, "/facts/contradictions/", ("/facts/", "/review/"))
