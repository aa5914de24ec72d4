"""The page of a thing: a person, service or file that facts and memories name."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.capture.segments import BOUNDARY_FACTS
from memoryhub.facts import contradictions, queries
from memoryhub.facts.predicates import normalise_name, normalise_predicate
from memoryhub.facts.queries import GraphIndex
from memoryhub.facts.services import query_facts
from memoryhub.models import Entity, Fact, FileLink, Memory
from memoryhub.models.querysets import FactQuerySet
from memoryhub.web.base.project_scope import narrow_to_project
from memoryhub.web.facts.filters import GraphAddress

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
    entries = [
        ThingEntry(fact.valid_from or fact.created_at, fact, None, fact.pk in contested) for fact in rows
    ]
    entries += [ThingEntry(memory.created_at, memory=memory) for memory in memories]
    context = {
        "name": name,
        "types": _entity_types(names, memories),
        "aliases": _aliases(index, key, name)[:MAX_ALIASES],
        "entries": sorted(entries, key=lambda entry: entry.at, reverse=True),
        "fact_count": len(rows),
        "memory_count": len(memories),
        "is_cut": len(rows) == MAX_FACTS or len(memories) == MAX_MEMORIES,
        "questions": len(questions),
        "conflicts": GraphAddress(request.GET).conflicts(subject=name),
        "neighbours": _neighbours(index, key),
        "graph": GraphAddress(request.GET).of([queries.node_key(name)]) if key else "",
    }
    return render(request, "facts/thing.html", context)


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
