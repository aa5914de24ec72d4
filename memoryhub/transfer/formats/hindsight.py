"""Hindsight's archive of a bank or of documents: a zip file with its facts and observations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from memoryhub.core.vocabulary import MemoryType
from memoryhub.transfer.files import member_names, select_members
from memoryhub.transfer.foreign_json import open_json, read_items, read_json, sample_json
from memoryhub.transfer.records import Format, Item, ReadOptions, UnreadableFile
from memoryhub.transfer.values import FieldReader, ReadNotes, foreign_id, load_field_rules, printable_name

_FIELDS = load_field_rules("hindsight")
_MANIFEST, _OBSERVATIONS = "manifest.json", "observations.json"
_DOCUMENT = re.compile(r"(?:^|/)documents/\d+\.json$")
_KNOWN_FIELDS = frozenset(
    "text source_id fact_type context event_date occurred_start occurred_end mentioned_at metadata tags"
    " entities created_at observation_scopes chunk_index causal_relations consolidated_at"
    " consolidation_failed_at proof_count sources".split()
)
_TYPES = {
    "world": MemoryType.FACT,
    "experience": MemoryType.CONTEXT,
    "observation": MemoryType.DISCOVERY,
    "opinion": MemoryType.SELF,
}


class Hindsight(Format):
    name = "hindsight"
    label = "Hindsight (archive)"
    extensions = (".zip",)
    hint = "The archive of: hindsight-admin export-bank --bank BANK --output FILE.zip."

    def recognises(self, path: Path) -> bool:
        manifest = member_names(path).get(_MANIFEST)
        return bool(manifest) and "source_bank_id" in sample_json(path, manifest or "")

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        notes, names = ReadNotes(), member_names(path)
        if _MANIFEST not in names:
            raise UnreadableFile(f"{path.name}: contains no {_MANIFEST}; is it an archive of Hindsight?")
        bank = str(sample_json(path, names[_MANIFEST]).get("source_bank_id", [""])[0])
        documents = select_members(path, _DOCUMENT)
        for name in documents:
            yield from _read_document(path, name, bank, notes)
        if _OBSERVATIONS in names:
            with open_json(path, names[_OBSERVATIONS]) as stream:
                members = read_json(stream, _OBSERVATIONS)
                yield from read_items(members, {"": "observation"}, notes, _fact_reader(bank, ""))
        for base, name in names.items():
            if base and name not in documents and base not in (_MANIFEST, _OBSERVATIONS):
                notes.add(f"file {printable_name(base)}" if base.endswith(".json") else "attachments")
        yield from notes.items()


def _read_document(path: Path, name: str, bank: str, notes: ReadNotes) -> Iterator[Item]:
    """Yield the facts of a document. The hub does not store the text from which they were extracted."""
    document = str(sample_json(path, name).get("id", [""])[0])
    with open_json(path, name) as stream:
        members = read_json(stream, name)
        read, labels = _fact_reader(bank, document), {"facts": f"{name}, fact"}
        yield from read_items(members, labels, notes, read, ("id", "created_at"))


def _fact_reader(bank: str, document: str) -> Callable[[str, FieldReader], list[Item]]:
    return lambda _, fields: [_read_fact(fields, bank, document)]


def _read_fact(fields: FieldReader, bank: str, document: str) -> Item:
    fields.note_unknown(_KNOWN_FIELDS)
    fields.note_unsupported("occurred_start", "occurred_end", "causal_relations", "sources")
    fields.note_unsupported_metadata(fields.mapping("metadata"))
    default = MemoryType.GENERAL if document else MemoryType.DISCOVERY  # an observation has no document
    kind, tags = fields.memory_type("fact_type", _TYPES, default)
    uid = foreign_id(Hindsight.name, fields.text("source_id") or f"{bank}/{document}/{fields.text('text')}")
    return fields.memory(
        _FIELDS["fact"],
        uid=uid,
        type=kind,
        tags=[*fields.words("tags"), *tags, *([f"document:{document}"[:100]] if document else [])],
        entities=[{"entity": name[:200]} for name in fields.words("entities")],
        project=bank[:200],
    )
