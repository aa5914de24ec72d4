"""ChatGPT's data export (conversations and saved memories), and the base class of Claude's.

An export is a zip archive, or one of its JSON files. Its memories are personal if the import has an owner.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memoryhub.core.text import collapse_whitespace
from memoryhub.core.vocabulary import MemoryType, Scope
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.transfer.files import member_names, select_members
from memoryhub.transfer.foreign_json import JsonSample, open_json, read_items, read_json, sample_json
from memoryhub.transfer.records import Conversation, Format, InvalidItem, Item, ReadOptions, UnreadableFile
from memoryhub.transfer.values import FieldReader, ReadNotes, foreign_id, printable_name

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
CONVERSATIONS = re.compile(r"(?:^|/)conversations(?:-\d+)?\.json$")
_Member = tuple[str, str]  # what a JSON file contains, and its name in the archive (empty: the file itself)


class ChatExport(Format):
    """Base of both formats. ``parts`` maps each kind to the names of its files, in the order of reading."""

    name: str
    program: str
    extensions = (".zip", ".json")
    parts: dict[str, re.Pattern[str]]
    ignored: frozenset[str] = frozenset()  # members without information of their own

    def kind_of(self, sample: JsonSample) -> str:
        """Return the kind of a JSON file by its first items, or an empty string."""
        raise NotImplementedError

    def reader(self, notes: ReadNotes, options: ReadOptions) -> ExportReader:
        raise NotImplementedError

    def recognises(self, path: Path) -> bool:
        return any(kind for kind, _ in self._members(path))

    def _members(self, path: Path) -> Iterator[_Member]:
        if not member_names(path):
            yield self.kind_of(sample_json(path)), ""
            return
        for pattern in self.parts.values():
            for name in select_members(path, pattern):
                yield self.kind_of(sample_json(path, name)), name

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        notes = ReadNotes()
        reader = self.reader(notes, options)
        members = [member for member in self._members(path) if member[0]]
        if not members:
            raise UnreadableFile(f"{path.name}: contains no conversations or memories of {self.program}")
        for kind, name in members:
            with open_json(path, name) as stream:
                items = _as_list(read_json(stream, name or path.name))
                yield from read_items(items, {"": kind}, notes, reader.read)
        yield from reader.finish()
        self._note_other_members(path, {name for _, name in members}, notes)
        yield from notes.items()

    def _note_other_members(self, path: Path, read: set[str], notes: ReadNotes) -> None:
        for base, name in member_names(path).items():
            if name not in read and base and base not in self.ignored:
                known = base.endswith((".json", ".html"))
                notes.add(f"file {printable_name(base)}" if known else "other files of the archive")


def _as_list(members: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list, or the object as the only item."""
    whole: dict[str, Any] = {}
    for key, value in members:
        if key == "":
            yield key, value
        elif key in whole and isinstance(whole[key], list):
            whole[key].append(value)
        else:
            whole[key] = [value] if key in _LIST_KEYS else value
    if whole:
        yield "", whole


_LIST_KEYS = frozenset(("memory_files", "docs", "chat_messages"))


class ExportReader:
    """Reads the items of an export."""

    program = ""

    def __init__(self, notes: ReadNotes, options: ReadOptions) -> None:
        self.notes = notes
        self.scope = Scope.PERSONAL if options.has_owner else Scope.PROJECT

    def read(self, kind: str, fields: FieldReader) -> Iterator[Item]:
        raise NotImplementedError

    def finish(self) -> Iterator[Item]:
        """Yield the items that need the whole file."""
        yield from ()

    def memory(
        self, fields: FieldReader, content: str, source_id: str = "", *, part: str = "", **values: Any
    ) -> Item:
        """Return a memory. If it has a ``key``, the import of a later export updates it."""
        updated = values.pop("updated_at", None)
        uid = foreign_id(self.program, source_id)
        past = ImportedHistory(uid=uid, updated_at=updated or values.get("created_at"))
        tags = [f"source:{self.program}", *values.pop("tags", [])]
        draft = {"type": MemoryType.FACT, "ttl_days": 0, **values, "tags": tags}
        draft |= {"content": content, "scope": self.scope}
        if values.get("key"):
            return fields.record(MemoryDraft, draft, part=part)
        return fields.record(MemoryDraft, draft, source_id=uid, past=past, part=part)

    def conversation(
        self,
        fields: FieldReader,
        source_id: str,
        messages: list[dict[str, Any]],
        times: tuple[str, str],
    ) -> Iterator[Item]:
        """Yield a conversation. ``times`` names the fields with its first and last moment."""
        started, last = (fields.past_moment(name) for name in times)
        if not source_id:
            fields.refuse("id", "is missing")
        if fields.problems:
            yield InvalidItem(fields.place, fields.problems)
        elif messages:
            start = started or last or _EARLIEST
            session = f"{self.program}:{source_id}"[:200]
            end = max(last or start, start)
            yield Conversation(fields.place, session, self.program, messages, start, end, self.scope)
        else:
            self.notes.add("conversations without a text")

    def note_fields(self, values: Mapping[str, Any], known: frozenset[str], what: str) -> None:
        for name, value in values.items():
            if name not in known and value not in (None, "", [], {}, False):
                self.notes.add(f"{printable_name(name)} of {what}")


_SAVED = re.compile(r"^[^\S\n]*\d+\. \[(\d{4}-\d{2}-\d{2})\]\.?\s*", re.M)


class _ChatGptReader(ExportReader):
    """Saved memories are the newest list in the conversations, and the additions after it."""

    program = "chatgpt"
    _known = frozenset(
        "id conversation_id create_time update_time mapping current_node title moderation_results safe_urls"
        " blocked_urls default_model_slug conversation_origin async_status voice sugar_item_id owner"
        " is_archived is_starred is_read_only is_do_not_remember memory_scope disabled_tool_ids"
        " plugin_ids".split()
    )

    def __init__(self, notes: ReadNotes, options: ReadOptions) -> None:
        super().__init__(notes, options)
        self._list_at, self._list = 0.0, ""
        self._added: dict[str, float] = {}  # text and time

    def read(self, kind: str, fields: FieldReader) -> Iterator[Item]:
        if kind == "memory":
            yield self._read_saved(fields)
            return
        self.note_fields(fields.values, self._known, "conversations")
        mapping = fields.mapping("mapping")
        for node in mapping.values():
            self._find_saved(_message(node))
        source_id = fields.text("conversation_id") or fields.text("id")
        branch = _current_branch(mapping, fields.text("current_node"))
        messages = [one for node in branch if (one := self._to_message(_message(node)))]
        yield from self.conversation(fields, source_id, messages, ("create_time", "update_time"))

    def _read_saved(self, fields: FieldReader) -> Item:
        text = fields.text("content") or fields.text("memory") or fields.text("text")
        times: dict[str, Any] = {name: fields.past_moment(name) for name in ("created_at", "updated_at")}
        self.note_fields(fields.values, frozenset(("id", "content", "memory", "text", *times)), "memories")
        return self.memory(fields, text, fields.text("id") or text, **times)

    def _to_message(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Return a message that a person wrote or saw."""
        role = as_mapping(message.get("author")).get("role")
        metadata = as_mapping(message.get("metadata"))
        hidden = metadata.get("is_visually_hidden_from_conversation")
        if role not in ("user", "assistant") or hidden or message.get("recipient", "all") != "all":
            return None
        text = self._text(as_mapping(message.get("content")))
        return {"role": role, "content": text} if text else None

    def _text(self, content: dict[str, Any]) -> str:
        if content.get("content_type") not in ("text", "multimodal_text"):
            return ""
        texts = []
        for part in content.get("parts") or ():
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str):
                texts.append(text)
            elif part:
                self.notes.add("images and files of messages")
        return "\n\n".join(text for text in texts if text.strip())

    def _find_saved(self, message: dict[str, Any]) -> None:
        content, moment = as_mapping(message.get("content")), _moment(message)
        kind = content.get("content_type")
        saved = content.get("model_set_context")
        if kind == "model_editable_context" and isinstance(saved, str) and saved.strip():
            if moment >= self._list_at:
                self._list_at, self._list = moment, saved
        elif kind == "user_editable_context":
            self.notes.add("custom instructions")
        elif message.get("recipient") == "bio":
            for line in filter(None, map(str.strip, self._text(content).splitlines())):
                self._added.setdefault(line, moment)

    def finish(self) -> Iterator[Item]:
        listed = _SAVED.split(self._list)
        saved = dict(zip(map(collapse_whitespace, listed[2::2]), listed[1::2], strict=False))
        for number, (text, day) in enumerate(saved.items(), start=1):
            fields = FieldReader({"created_at": day}, self.notes, f"saved memory {number}")
            created = fields.past_moment("created_at")
            yield self.memory(fields, text, text, created_at=created)
        for number, (text, moment) in enumerate(self._added.items(), start=1):
            if collapse_whitespace(text) in saved:
                continue
            if moment < self._list_at:
                self.notes.add("additions to the saved memories that the newest list no longer contains")
                continue
            fields = FieldReader({"create_time": moment or None}, self.notes, f"added memory {number}")
            created = fields.past_moment("create_time")
            yield self.memory(fields, text, text, created_at=created)


def as_mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _message(node: Any) -> dict[str, Any]:
    return as_mapping(as_mapping(node).get("message"))


def _current_branch(mapping: dict[str, Any], leaf: str) -> list[dict[str, Any]]:
    """Return the nodes from the root to the current one, or to the newest message if no node is current."""
    if leaf not in mapping:
        leaf = max(mapping, key=lambda key: _moment(_message(mapping[key])), default="")
    return follow_parents(mapping, leaf, "parent")


def follow_parents(nodes: Mapping[str, Any], leaf: str, parent: str) -> list[dict[str, Any]]:
    """Return the nodes from the root to a leaf. ``parent`` is the field with the id of the node above."""
    branch: dict[str, dict[str, Any]] = {}
    while leaf in nodes and leaf not in branch:
        branch[leaf] = as_mapping(nodes[leaf])
        leaf = str(branch[leaf].get(parent))
    return list(branch.values())[::-1]


def _moment(message: dict[str, Any]) -> float:
    at = message.get("create_time")
    return float(at) if isinstance(at, int | float) else 0.0


class ChatGpt(ChatExport):
    name = "chatgpt"
    program = "ChatGPT"
    label = "ChatGPT (data export)"
    hint = "The zip archive of Settings › Data controls › Export data, or its conversations.json."
    parts = {"memory": re.compile(r"(?:^|/)memor(?:y|ies)\.json$"), "conversation": CONVERSATIONS}
    ignored = frozenset(("chat.html",))

    def kind_of(self, sample: JsonSample) -> str:
        first = as_mapping(next(iter(sample.get("", [])), None))
        if "mapping" in first:
            return "conversation"
        is_memory = first.keys() & {"content", "memory", "text"} and "enabled" in first
        return "memory" if is_memory else ""

    def reader(self, notes: ReadNotes, options: ReadOptions) -> ExportReader:
        return _ChatGptReader(notes, options)
