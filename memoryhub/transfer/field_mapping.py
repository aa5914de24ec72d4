"""Changes to items before they are stored: unknown fields that a person mapped, and inferred types."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from memoryhub.capture.classification import detect_type
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.transfer.records import Item, Record

MAPPING_TARGETS = (
    *("title", "subtitle", "abstract", "overview", "category", "type", "tags", "concepts", "aliases"),
    *("importance", "trust", "confidence", "project", "session_id", "key", "files_read", "files_modified"),
)
_LIST_TARGETS = frozenset({"tags", "concepts", "aliases", "files_read", "files_modified"})


def map_fields(item: Item, mapping: Mapping[str, str]) -> None:
    """Set mapped fields that the item does not have. A value that does not fit stays an unknown field."""
    draft = item.draft if isinstance(item, Record) else None
    if not isinstance(draft, MemoryDraft) or not draft.model_extra:
        return
    for name, target in mapping.items():
        if name not in draft.model_extra or target in draft.given:
            continue
        value = draft.model_extra[name]
        if target in _LIST_TARGETS and not isinstance(value, list):
            value = [value]
        try:
            patch = MemoryPatch.model_validate({target: value})
        except ValidationError:
            continue
        setattr(draft, target, getattr(patch, target))
        del draft.model_extra[name]


def infer_type(item: Item) -> None:
    """Derive the type from the text of a memory whose item has none."""
    if isinstance(item, Record) and isinstance(item.draft, MemoryDraft) and "type" not in item.draft.given:
        item.draft.type = detect_type(item.draft.content)
