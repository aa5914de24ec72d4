"""The pages of facts, and the page of a thing that facts and memories name."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import full_clearance, request_actor, request_clearance
from memoryhub.accounts.permissions import ADD_FACT, CHANGE_FACT, DELETE_FACT
from memoryhub.capture import segments
from memoryhub.capture.segments import BOUNDARY_FACTS
from memoryhub.core.text import count_with_verb
from memoryhub.facts import contradictions, queries
from memoryhub.facts import services as fact_store
from memoryhub.facts.predicates import normalise_name, normalise_predicate
from memoryhub.facts.queries import GraphIndex, node_key, query_facts
from memoryhub.memories import StoreError
from memoryhub.models import Entity, Fact, FileLink, Memory
from memoryhub.models.querysets import FactQuerySet
from memoryhub.web.base.requests import (
    HtmxHttpRequest,
    cursor_page,
    narrow_to_project,
    return_url,
    show_success,
)
from memoryhub.web.facts.filters import FactFilter, GraphAddress, suggested_predicates
from memoryhub.web.memories.bulk_actions import parse_journal_number, parse_ticked, warn_changed_since
from memoryhub.web.memories.forms import FactForm

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
    live = Memory.objects.visible_to(clearance).live().defer("overview")
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
