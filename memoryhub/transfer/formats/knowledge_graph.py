"""Knowledge graph of the MCP reference server (``memory.jsonl``), import and export.

The file has one entity with observations, or one relation, per line. On import, an observation becomes a
memory that begins with its entity's name; relations and entity types become facts. The export reverses this.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from django.db.models import Case, CharField, Exists, F, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Length

from memoryhub.core.vocabulary import MemoryType
from memoryhub.memories.schemas import FactDraft, MemoryDraft
from memoryhub.models import Entity, Fact, Memory
from memoryhub.transfer.export import ExportSelection, to_line
from memoryhub.transfer.foreign_json import JsonLinesFormat
from memoryhub.transfer.records import InvalidItem, Item, Problem, make_record
from memoryhub.transfer.values import FieldReader

_TYPE_PREDICATE = "is a"  # predicate of the fact that states the type of an entity
_KNOWN_FIELDS = {
    "entity": frozenset(("type", "name", "entityType", "observations")),
    "relation": frozenset(("type", "from", "to", "relationType")),
}


class KnowledgeGraph(JsonLinesFormat):
    name = "knowledge-graph"
    label = "MCP reference server's knowledge graph (memory.jsonl)"
    extensions = (".jsonl", ".json")
    hint = "The file that MEMORY_FILE_PATH names; memory.jsonl (earlier memory.json) in the server's folder."
    extension = ".jsonl"
    content_type = "application/x-ndjson"
    lossy = (
        "Contains each memory's text as an observation of the things it names (of its project, when it names "
        "none) and the facts as relations; not dates, types, tags, aliases, replacements, pins, files, "
        "importance, levels and expiry."
    )

    def is_known(self, value: dict[str, Any]) -> bool:
        if value.get("type") == "entity":
            return "name" in value and "entityType" in value
        return value.get("type") == "relation" and "relationType" in value

    def items(self, fields: FieldReader) -> Iterator[Item]:
        kind = fields.text("type")
        fields.note_unknown(_KNOWN_FIELDS.get(kind, frozenset(fields.values)))
        if kind == "entity":
            yield from _read_entity(fields)
        elif kind == "relation":
            draft = {"subject": fields.text("from"), "predicate": fields.text("relationType")}
            yield fields.record(FactDraft, {**draft, "object": fields.text("to")})
        else:
            yield InvalidItem(fields.place, [Problem("type", "is neither entity nor relation")])

    def write(self, selection: ExportSelection) -> Iterator[bytes]:
        return _export_lines(selection)


def _read_entity(fields: FieldReader) -> Iterator[Item]:
    name, kind = fields.text("name"), fields.text("entityType", "unknown")
    observations = fields.get("observations")
    if observations is not None and not isinstance(observations, list):
        fields.refuse("observations", "is not a list")
    yield fields.record(FactDraft, {"subject": name, "predicate": _TYPE_PREDICATE, "object": kind})
    if fields.problems:
        return
    for number, observation in enumerate(observations or (), start=1):
        yield _make_observation(observation, name, kind, f"{fields.place}, observation {number}")


def _make_observation(observation: Any, name: str, kind: str, place: str) -> Item:
    if not isinstance(observation, str) or not observation.strip():
        return InvalidItem(place, [Problem("observations", "is not a string")])
    draft = {
        "content": f"{name}: {observation.strip()}",
        "type": MemoryType.ENTITY.value,
        "category": "entities",
        "entities": [{"entity": name, "entity_type": kind[:50]}],
        "ttl_days": 0,  # the format has no expiry
    }
    return make_record(place, MemoryDraft, draft)


DEFAULT_ENTITY = "memories"  # entity of memories without entities and project
_PROJECT_TYPE = "project"
_UNKNOWN_TYPE = "unknown"
_NAMES_PER_QUERY = 200  # whose observations are in memory at once
_IDS_PER_QUERY = 500
# A longer object is exported as an observation. A memory is attached to at most this many entities.
_MAX_NAME_CHARS = 200
_MAX_ENTITIES = 10


@dataclass
class _GraphNode:
    kinds: Counter[str] = field(default_factory=Counter)
    stated_kind: str = ""  # type according to a fact
    observations: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.stated_kind or (self.kinds.most_common(1)[0][0] if self.kinds else _UNKNOWN_TYPE)


def _export_lines(selection: ExportSelection) -> Iterator[bytes]:
    """Yield entities with their observations, then relations."""
    memories = selection.memories()
    graph = _GraphExport(memories, _exported_facts(selection, memories))
    names = graph.names().iterator(chunk_size=_NAMES_PER_QUERY)
    while chunk := [name for (name,) in islice(names, _NAMES_PER_QUERY)]:
        for name, node in graph.nodes(chunk).items():
            observations = list(dict.fromkeys(node.observations))
            yield to_line(
                {"type": "entity", "name": name, "entityType": node.kind, "observations": observations}
            )
    rows = graph.relations().order_by("pk").values_list("subject", "predicate", "object")
    for subject, predicate, target in rows.iterator():
        yield to_line({"type": "relation", "from": subject, "to": target, "relationType": predicate})


def _exported_facts(selection: ExportSelection, memories: QuerySet[Memory]) -> QuerySet[Fact]:
    """Return the facts of the selected project and session, or of the selected memories for other filters."""
    facts = Fact.objects.visible_to(selection.actor.clearance).order_by()
    filters = selection.filter.model_dump(exclude_defaults=True, exclude_none=True)
    facts = facts.filter(**{name: filters.pop(name) for name in ("project", "session_id") if name in filters})
    return facts.filter(memory__in=memories) if filters else facts


@dataclass(frozen=True)
class _GraphExport:
    memories: QuerySet[Memory]
    facts: QuerySet[Fact]

    def names(self) -> QuerySet[Any]:
        """Return each entity name once, in a fixed order."""
        named = Entity.objects.filter(memory__in=self.memories).values_list("entity")
        places = self._memories_without_entities().order_by().values_list("place")
        subjects, targets = self.facts.values_list("subject"), self.relations().values_list("object")
        return named.union(places, subjects, targets).order_by("entity")

    def relations(self) -> QuerySet[Fact]:
        """Return the facts whose object can be an entity."""
        short = self.facts.annotate(length=Length("object")).filter(length__lte=_MAX_NAME_CHARS)
        return short.exclude(object__contains="\n").exclude(predicate=_TYPE_PREDICATE)

    def nodes(self, names: list[str]) -> dict[str, _GraphNode]:
        """Return the entities with their observations and types."""
        nodes = {name: _GraphNode() for name in names}
        self._add_memories(nodes)
        unattached = self._memories_without_entities().filter(place__in=names)
        for place, content in unattached.values_list("place", "content").iterator():
            nodes[place].kinds[_PROJECT_TYPE] += 1
            nodes[place].observations.append(content)
        self._add_facts(nodes)
        return nodes

    def _memories_without_entities(self) -> QuerySet[Any]:
        """Return the memories without entities, with their project as ``place``."""
        no_project = When(project="", then=Value(DEFAULT_ENTITY))
        place = Case(no_project, default=F("project"), output_field=CharField())
        no_entities = ~Exists(Entity.objects.filter(memory=OuterRef("pk")))
        return self.memories.filter(no_entities).annotate(place=place)

    def _add_memories(self, nodes: dict[str, _GraphNode]) -> None:
        """Add each memory to all its entities, or to the one whose name begins its content."""
        links = Entity.objects.filter(memory__in=self.memories, entity__in=list(nodes))
        columns = ("entity", "entity_type", "memory_id", "memory__content")
        rows = links.order_by("memory_id", "pk").values_list(*columns).iterator()
        while chunk := list(islice(rows, _IDS_PER_QUERY)):
            entities = _entities_by_memory(memory for _, _, memory, _ in chunk)
            for name, kind, memory, content in chunk:
                nodes[name].kinds[kind] += 1
                head, _, rest = content.partition(": ")
                if head not in entities[memory] or not rest.strip():
                    head, rest = name, content
                if head == name and name in entities[memory]:
                    nodes[name].observations.append(rest)

    def _add_facts(self, nodes: dict[str, _GraphNode]) -> None:
        """Add entity types, and the facts whose object is a text."""
        about = self.facts.filter(subject__in=list(nodes))
        kinds = about.filter(predicate=_TYPE_PREDICATE).order_by("updated_at", "pk")
        for subject, kind in kinds.values_list("subject", "object").iterator():
            nodes[subject].stated_kind = kind
        texts = about.exclude(Q(predicate=_TYPE_PREDICATE) | Q(pk__in=self.relations().values("pk")))
        rows = texts.order_by("pk").values_list("subject", "predicate", "object")
        for subject, predicate, text in rows.iterator():
            nodes[subject].observations.append(f"{predicate}: {text}")


def _entities_by_memory(memory_ids: Iterable[int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    links = Entity.objects.filter(memory_id__in=set(memory_ids)).order_by("pk")
    for memory, name in links.values_list("memory_id", "entity").iterator():
        if len(found[memory]) < _MAX_ENTITIES and name not in found[memory]:
            found[memory].append(name)
    return found
