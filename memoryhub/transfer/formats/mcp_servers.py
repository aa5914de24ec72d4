"""The stores of MCP servers for memory: Memory MCP, mcp-memory-service, and the reference server."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from django.db.models import Case, CharField, Exists, F, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Length

from memoryhub.access.policy import Sensitivity
from memoryhub.core.vocabulary import MemoryType
from memoryhub.memories.schemas import FactDraft, MemoryDraft
from memoryhub.models import Entity, Fact, Memory
from memoryhub.transfer.export import ExportSelection, to_line
from memoryhub.transfer.foreign_json import JsonLinesFormat, JsonSample, SqliteOrJsonFormat, read_items
from memoryhub.transfer.foreign_sqlite import (
    EntitiesByMemory,
    ForeignDatabase,
    RowValues,
    SqliteFormat,
    chunked,
    make_entity,
    row_fields,
)
from memoryhub.transfer.records import InvalidItem, Item, Problem, ReadOptions, make_record
from memoryhub.transfer.values import (
    FieldReader,
    ReadNotes,
    days_between,
    foreign_id,
    load_field_rules,
    make_journal_row,
    make_replacement,
    make_revision,
    short_id,
)

_MEMORY_MCP = load_field_rules("memory-mcp")
_MEMORY_MCP_TYPES = ("fact", "entity", "relationship", "self")
_MAX_IMPORTANCE = 10.0


class MemoryMcp(SqliteFormat):
    """Memory MCP's SQLite file, in every schema version.

    Real files link entities by ``memory_entities``; the documented schema uses a column ``memory_id`` of
    ``entities``. Both are supported.
    """

    name = "memory-mcp"
    label = "Memory MCP (SQLite)"
    hint = "The database of the Memory MCP server, memory.db; MEMORY_DB_PATH names it where it was set."

    counted = ("memories", "provenance")

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        now = options.now or datetime.now(UTC)
        for chunk in chunked(self.rows(database, "memories")):
            named = _read_entities(database, chunk)
            for row in chunk:
                yield _read_memory_mcp(row_fields("memories", row, notes), named[row.get("id")], now)
        numbers: Counter[str] = Counter()
        rows = self.rows(database, "provenance")
        for row, memory in database.join(rows, "memory_id", "memories", "id", ()):
            yield from _read_provenance(
                row_fields("provenance", row, notes), memory is not None, numbers, options
            )
        for row in database.rows("entities", ("metadata",)):
            notes.add("metadata of entities", int(bool(FieldReader(row, notes).mapping("metadata"))))


def _read_memory_mcp(fields: FieldReader, entities: list[dict[str, str]], now: datetime) -> Item:
    created = fields.past_moment("created_at")
    expires = fields.moment("expires_at")
    metadata = fields.inner("metadata")
    fields.note_unsupported_metadata(metadata.values, frozenset({"tags"}))
    accessed = fields.past_moment("last_accessed")
    accesses = fields.count("access_count")
    return fields.memory(
        _MEMORY_MCP["memories"],
        source_id=short_id(fields.text("id")),
        type=fields.listed_type(_MEMORY_MCP_TYPES, MemoryType.FACT),
        tags=metadata.words("tags"),
        entities=entities,
        ttl_days=days_between(created, expires, now),
        created_at=created,
        accessed_count=accesses,
        last_accessed_at=accessed if accesses else None,  # without accesses this is the creation time
        expires_at=expires,
        deleted_at=(accessed or created or now) if fields.count("is_deleted") else None,
    )


def _read_entities(database: ForeignDatabase, chunk: list[RowValues]) -> EntitiesByMemory:
    """Return the entities of these memories, by memory id."""
    ids = [row["id"] for row in chunk if row.get("id") is not None]
    found: EntitiesByMemory = defaultdict(list)
    for link in database.matching_rows("entities", "memory_id", ids, ("memory_id", "entity", "entity_type")):
        found[link["memory_id"]].append(make_entity(link["entity"], link["entity_type"]))
    links = database.linked_rows(
        chunk, "memory_entities", ("memory_id", "entity_id"), "entities", ("name", "type")
    )
    for memory_id, entity in links:
        found[memory_id].append(make_entity(entity["name"], entity["type"]))
    return found


def _read_provenance(
    fields: FieldReader, has_memory: bool, numbers: Counter[str], options: ReadOptions
) -> Iterator[Item]:
    """Yield a provenance row as a journal row, and the earlier version that an update contains.

    ``numbers`` counts the versions of each memory.
    """
    fields.note_unsupported("context", "user_id", "metadata", why="of provenance")
    memory_id, source = short_id(fields.text("memory_id")), fields.text("source")
    actor = f"memory-mcp:{source}" if source else "memory-mcp"
    level = Sensitivity.PUBLIC if has_memory else Sensitivity.SECRET
    yield make_journal_row(
        fields,
        actor=actor,
        memory_id=memory_id,
        project=options.project,
        sensitivity=level.value,
    )
    if before := _replaced_values(fields) if has_memory else {}:
        numbers[memory_id] += 1
        at = fields.past_moment("timestamp")
        place = f"{fields.place}, earlier version"
        yield make_revision(place, memory_id, numbers[memory_id], at, actor, level.value, before)


def _replaced_values(fields: FieldReader) -> dict[str, Any]:
    changes = fields.mapping("changes")
    replaced = {
        name: change["from"]
        for name, change in changes.items()
        if isinstance(change, dict) and change.get("from") is not None
    }
    fields.notes.add("changes of provenance without the value before", len(changes) - len(replaced))
    before: dict[str, Any] = {}
    for name, ours in (("content", "content"), ("summary", "abstract")):
        if isinstance(replaced.get(name), str):
            before[ours] = replaced[name]
    importance = FieldReader(replaced, fields.notes).share("importance", -1.0, _MAX_IMPORTANCE)
    return before if importance < 0 else before | {"importance": importance}


_MEMORY_SERVICE = load_field_rules("mcp-memory-service")
_MEMORY_SERVICE_TYPES = {"learning": MemoryType.DISCOVERY, "observation": MemoryType.GENERAL}
_MEMORY_SERVICE_FIELDS = frozenset(
    "content content_hash tags memory_type metadata created_at updated_at created_at_iso updated_at_iso store"
    " export_source embedding".split()
)
_MEMORY_SERVICE_METADATA = frozenset(
    ("superseded_by", "importance_score", "access_count", "last_accessed_at")
)
_PROJECT_TAG = "proj:"
_NO_TAG = "untagged"  # the program adds it to memories without tags
_DEFAULT_STORE = "default"


class McpMemoryService(SqliteOrJsonFormat):
    """mcp-memory-service's SQLite file and its JSON export."""

    name = "mcp-memory-service"
    label = "mcp-memory-service"
    hint = "sqlite_vec.db in the folder mcp-memory of the user's data, or the JSON file of its export."

    counted = ("memories",)

    def is_known(self, sample: JsonSample) -> bool:
        rows = sample.get("memories", [])
        hashed = all(isinstance(row, dict) and "content_hash" in row for row in rows)
        return "export_metadata" in sample and hashed

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        replaced: list[Item] = []
        for fields in self.fields(database, "memories", notes):
            yield from _read_memory_service(fields, replaced)
        yield from replaced

    def json_items(
        self, members: Iterator[tuple[str, Any]], notes: ReadNotes, options: ReadOptions
    ) -> Iterator[Item]:
        replaced: list[Item] = []

        def read(_: str, fields: FieldReader) -> Iterator[Item]:
            fields.note_unknown(_MEMORY_SERVICE_FIELDS)
            fields.note_unsupported("embedding", why="recomputed")
            return _read_memory_service(fields, replaced)

        yield from read_items(members, {"memories": "memory"}, notes, read, {"export_metadata"})
        yield from replaced


def _memory_service_id(content_hash: str) -> str:
    return foreign_id(McpMemoryService.name, content_hash)


def _read_memory_service(fields: FieldReader, replaced: list[Item]) -> Iterator[Item]:
    """Yield the memory. ``replaced`` collects the replacements, which may refer to later memories."""
    metadata = fields.inner("metadata")
    fields.note_unsupported_metadata(metadata.values, _MEMORY_SERVICE_METADATA)
    kind, tags = _type_and_tags(fields)
    memory_id = _memory_service_id(fields.text("content_hash"))
    computed = {
        "type": kind,
        "tags": tags,
        "project": next((tag[len(_PROJECT_TAG) :] for tag in tags if tag.startswith(_PROJECT_TAG)), ""),
        "importance": metadata.share("importance_score", 0.5),
        "accessed_count": metadata.count("access_count"),
        "last_accessed_at": fields.past_moment("last_accessed") or metadata.past_moment("last_accessed_at"),
    }
    yield fields.memory(_MEMORY_SERVICE["memories"], uid=memory_id, **computed)
    if by := fields.text("superseded_by") or metadata.text("superseded_by"):
        replaced.append(make_replacement(f"{fields.place}, superseded_by", memory_id, _memory_service_id(by)))


def _type_and_tags(fields: FieldReader) -> tuple[str, list[str]]:
    """Return the type and the tags, which include an unknown type and a store other than the default."""
    kind, unknown = fields.memory_type("memory_type", _MEMORY_SERVICE_TYPES)
    tags = [*(tag for tag in fields.words("tags") if tag != _NO_TAG), *unknown]
    if (store := fields.text("store", _DEFAULT_STORE)) != _DEFAULT_STORE:
        tags.append(f"store:{store}")
    return kind, tags


_TYPE_PREDICATE = "is a"  # predicate of the fact that states the type of an entity
_GRAPH_FIELDS = {
    "entity": frozenset(("type", "name", "entityType", "observations")),
    "relation": frozenset(("type", "from", "to", "relationType")),
}


class KnowledgeGraph(JsonLinesFormat):
    """Knowledge graph of the MCP reference server: a line for each entity with observations, or relation.

    On import, an observation becomes a memory that begins with its entity's name; relations and entity types
    become facts. The export reverses this.
    """

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
        fields.note_unknown(_GRAPH_FIELDS.get(kind, frozenset(fields.values)))
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
