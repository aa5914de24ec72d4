"""The knowledge graph of the MCP reference server (``memory.jsonl``), both ways.

Entities with observations and relations between them, one a line. An observation becomes a memory that
begins with its entity's name; a relation, and what kind of thing an entity is, become facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memoryhub.drafts import FactDraft, MemoryDraft
from memoryhub.interchange.json_lines import first_objects, line_count, objects
from memoryhub.interchange.problems import Problem
from memoryhub.interchange.records import Bad, Item, Options
from memoryhub.interchange.values import Fields, Notes, named
from memoryhub.vocabulary import MemoryType

if TYPE_CHECKING:
    from memoryhub.interchange.dump import Selection

KIND = "is a"  # the predicate of the fact that says what kind of thing an entity is
_KNOWN = {
    "entity": frozenset(("type", "name", "entityType", "observations")),
    "relation": frozenset(("type", "from", "to", "relationType")),
}


class KnowledgeGraph:
    name = "knowledge-graph"
    label = "MCP reference server's knowledge graph (memory.jsonl)"
    extensions: tuple[str, ...] = (".jsonl", ".json")
    hint = "The file that MEMORY_FILE_PATH names; memory.jsonl (earlier memory.json) in the server's folder."
    extension = ".jsonl"
    content_type = "application/x-ndjson"
    lossy = (
        "Carries each memory's text as an observation of the things it names (of its project, when it names "
        "none) and the facts as relations; not dates, types, tags, files, importance, levels and expiry."
    )

    def recognises(self, path: Path) -> bool:
        found = first_objects(path)
        return bool(found) and all(_is_node(one) for one in found)

    def count(self, path: Path) -> int | None:
        return line_count(path)

    def read(self, path: Path, options: Options) -> Iterator[Item]:
        notes = Notes()
        for found in objects(path):
            if isinstance(found, Bad):
                yield found
            else:
                yield from _items(Fields(found[1], notes), found[0])
        yield from notes.items()

    def write(self, selection: Selection) -> Iterator[bytes]:
        from memoryhub.interchange.graph import lines

        yield from lines(selection, KIND)


def _is_node(one: dict[str, Any]) -> bool:
    if one.get("type") == "entity":
        return "name" in one and "entityType" in one
    return one.get("type") == "relation" and "relationType" in one


def _items(fields: Fields, number: int) -> Iterator[Item]:
    kind, place = fields.text("type"), f"line {number}"
    for name in sorted(set(fields.values) - _KNOWN.get(kind, frozenset(fields.values))):
        fields.notes.add(f"field {named(name)}")
    if kind == "entity":
        yield from _entity(fields, place)
    elif kind == "relation":
        draft = {"subject": fields.text("from"), "predicate": fields.text("relationType")}
        yield fields.record(place, FactDraft, {**draft, "object": fields.text("to")})
    else:
        yield Bad(place, [Problem("type", "is neither entity nor relation")])


def _entity(fields: Fields, place: str) -> Iterator[Item]:
    name, kind = fields.text("name"), fields.text("entityType", "unknown")
    observations = fields.get("observations")
    if observations is not None and not isinstance(observations, list):
        fields.refuse("observations", "is not a list")
    yield fields.record(place, FactDraft, {"subject": name, "predicate": KIND, "object": kind})
    if fields.problems:
        return
    for number, observation in enumerate(observations or (), start=1):
        yield _observation(observation, name, kind, f"{place}, observation {number}")


def _observation(observation: Any, name: str, kind: str, place: str) -> Item:
    if not isinstance(observation, str) or not observation.strip():
        return Bad(place, [Problem("observations", "is not a text")])
    draft = {
        "content": f"{name}: {observation.strip()}",
        "type": MemoryType.ENTITY.value,
        "category": "entities",
        "entities": [{"entity": name, "entity_type": kind[:50]}],
        "ttl_days": 0,  # a graph forgets nothing by itself
    }
    return Fields({}, Notes()).record(place, MemoryDraft, draft)
