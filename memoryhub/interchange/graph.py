"""Memories and facts as a knowledge graph: what they name, what is known of it, and how it hangs together."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from django.db.models import Case, CharField, Exists, F, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Length

from memoryhub.interchange.dump import Selection
from memoryhub.models import Entity, Fact, Memory

WITHOUT_PROJECT = "memories"  # what carries the memories that name nothing and belong to no project
_PROJECT = "project"
_UNKNOWN = "unknown"
_NAMES = 200  # whose observations are in memory at once
_IDS = 500
# A longer object is no name of a thing: it becomes an observation. A memory about more things than these is
# told of the first of them alone.
_LONGEST_NAME = 200
_MOST_THINGS = 10


@dataclass
class _Thing:
    kinds: Counter[str] = field(default_factory=Counter)
    said: str = ""  # what a fact says it is
    observations: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.said or (self.kinds.most_common(1)[0][0] if self.kinds else _UNKNOWN)


def lines(selection: Selection, is_a: str) -> Iterator[bytes]:
    """First every thing with its observations, then the relations; ``is_a``: who says what a thing is."""
    memories = selection.memories()
    if selection.whole:
        memories = memories.live()
    graph = _Graph(memories, _facts(selection, memories), is_a)
    names = graph.names().iterator(chunk_size=_NAMES)
    while chunk := [name for (name,) in islice(names, _NAMES)]:
        for name, thing in graph.things(chunk).items():
            said = list(dict.fromkeys(thing.observations))
            yield _line({"type": "entity", "name": name, "entityType": thing.kind, "observations": said})
    rows = graph.relations().order_by("pk").values_list("subject", "predicate", "object")
    for subject, predicate, target in rows.iterator():
        yield _line({"type": "relation", "from": subject, "to": target, "relationType": predicate})


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _facts(selection: Selection, memories: QuerySet[Memory]) -> QuerySet[Fact]:
    """The facts of the project and the session that are asked for; of the memories, if more is asked for."""
    facts = Fact.objects.visible_to(selection.actor.clearance).order_by()
    asked = selection.filter.model_dump(exclude_defaults=True, exclude_none=True)
    facts = facts.filter(**{name: asked.pop(name) for name in ("project", "session_id") if name in asked})
    found: QuerySet[Fact] = facts.filter(memory__in=memories) if asked and not selection.whole else facts
    return found


@dataclass(frozen=True)
class _Graph:
    memories: QuerySet[Memory]
    facts: QuerySet[Fact]
    is_a: str

    def names(self) -> QuerySet[Any]:
        """Everything that is a thing of the graph, each once, in a fixed order."""
        named = Entity.objects.filter(memory__in=self.memories).values_list("entity")
        places = self._without_things().order_by().values_list("place")
        subjects, targets = self.facts.values_list("subject"), self.relations().values_list("object")
        return named.union(places, subjects, targets).order_by("entity")

    def relations(self) -> QuerySet[Fact]:
        """Facts whose object can be the name of a thing."""
        short = self.facts.annotate(length=Length("object")).filter(length__lte=_LONGEST_NAME)
        return short.exclude(object__contains="\n").exclude(predicate=self.is_a)

    def things(self, names: list[str]) -> dict[str, _Thing]:
        """What there is to tell of these."""
        things = {name: _Thing() for name in names}
        self._observe_named(things)
        alone = self._without_things().filter(place__in=names)
        for place, content in alone.values_list("place", "content").iterator():
            things[place].kinds[_PROJECT] += 1
            things[place].observations.append(content)
        self._observe_facts(things)
        return things

    def _without_things(self) -> QuerySet[Any]:
        """The memories that name nothing, with the name of their project as ``place``."""
        nowhere = When(project="", then=Value(WITHOUT_PROJECT))
        place = Case(nowhere, default=F("project"), output_field=CharField())
        nothing = ~Exists(Entity.objects.filter(memory=OuterRef("pk")))
        return self.memories.filter(nothing).annotate(place=place)

    def _observe_named(self, things: dict[str, _Thing]) -> None:
        """The memories that name these: each with all of them, or with the one that it begins with."""
        links = Entity.objects.filter(memory__in=self.memories, entity__in=list(things))
        columns = ("entity", "entity_type", "memory_id", "memory__content")
        rows = links.order_by("memory_id", "pk").values_list(*columns).iterator()
        while chunk := list(islice(rows, _IDS)):
            told = _told_of(memory for _, _, memory, _ in chunk)
            for name, kind, memory, content in chunk:
                things[name].kinds[kind] += 1
                head, _, rest = content.partition(": ")
                if head not in told[memory] or not rest.strip():
                    head, rest = name, content
                if head == name and name in told[memory]:
                    things[name].observations.append(rest)

    def _observe_facts(self, things: dict[str, _Thing]) -> None:
        """What kind of thing it is, and facts whose object is a text rather than a thing."""
        about = self.facts.filter(subject__in=list(things))
        kinds = about.filter(predicate=self.is_a).order_by("updated_at", "pk")
        for subject, kind in kinds.values_list("subject", "object").iterator():
            things[subject].said = kind
        texts = about.exclude(Q(predicate=self.is_a) | Q(pk__in=self.relations().values("pk")))
        rows = texts.order_by("pk").values_list("subject", "predicate", "object")
        for subject, predicate, text in rows.iterator():
            things[subject].observations.append(f"{predicate}: {text}")


def _told_of(memory_ids: Iterable[int]) -> dict[int, list[str]]:
    """The things that each of these memories is told of, the first named first."""
    found: dict[int, list[str]] = defaultdict(list)
    links = Entity.objects.filter(memory_id__in=set(memory_ids)).order_by("pk")
    for memory, name in links.values_list("memory_id", "entity").iterator():
        if len(found[memory]) < _MOST_THINGS and name not in found[memory]:
            found[memory].append(name)
    return found
