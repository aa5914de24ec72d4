"""Claude's data export: conversations, memories and projects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from memoryhub.core.text import collapse_whitespace, make_title
from memoryhub.core.vocabulary import MemoryType
from memoryhub.transfer.foreign_json import JsonSample
from memoryhub.transfer.formats.chatgpt import (
    CONVERSATIONS,
    ChatExport,
    ExportReader,
    as_mapping,
    follow_parents,
)
from memoryhub.transfer.records import Item, ReadOptions
from memoryhub.transfer.values import FieldReader, ReadNotes

_SECTION = re.compile(r"^(?:#{1,6}[^\S\n]+(\S.*)|\*\*([^*\n]+)\*\*\s*)$", re.M)


class _ClaudeReader(ExportReader):
    program = "claude"
    _conversation = frozenset("uuid name summary created_at updated_at account chat_messages".split()) | {
        "current_leaf_message_uuid"
    }
    _project = frozenset("uuid name prompt_template docs created_at updated_at creator is_private".split())
    _memories = frozenset(("conversations_memory", "project_memories", "memory_files", "account_uuid"))

    def __init__(self, notes: ReadNotes, options: ReadOptions) -> None:
        super().__init__(notes, options)
        self._projects: dict[str, str] = {}

    def read(self, kind: str, fields: FieldReader) -> Iterator[Item]:
        if kind == "project":
            yield from self._read_project(fields)
        elif kind == "memories":
            yield from self._read_memories(fields)
        else:
            yield from self._read_conversation(fields)

    def _read_project(self, fields: FieldReader) -> Iterator[Item]:
        self.note_fields(fields.values, self._project, "projects")
        name = collapse_whitespace(fields.text("name"))[:200]
        uuid = fields.text("uuid")
        self._projects[uuid] = name
        common: dict[str, Any] = {"project": name, "created_at": fields.past_moment("created_at")}
        if instructions := fields.text("prompt_template"):
            about = {"type": MemoryType.PREFERENCE, "title": f"Instructions of {name}"[:500]}
            yield self.memory(
                fields, instructions, f"{uuid}/prompt", part=", prompt_template", **common, **about
            )
        docs = fields.get("docs")
        for number, doc in enumerate(docs if isinstance(docs, list) else (), start=1):
            inner = FieldReader(as_mapping(doc), self.notes, f"{fields.place}, document {number}")
            if text := inner.text("content"):
                yield self.memory(
                    inner,
                    text,
                    f"{uuid}/{inner.text('uuid') or number}",
                    type=MemoryType.CONTEXT,
                    title=inner.text("filename")[:500],
                    project=name,
                    created_at=inner.past_moment("created_at"),
                )

    def _read_memories(self, fields: FieldReader) -> Iterator[Item]:
        self.note_fields(fields.values, self._memories, "memories")
        yield from self._sections(
            f"{fields.place}, conversations_memory", fields.text("conversations_memory"), ""
        )
        for uuid, text in fields.mapping("project_memories").items():
            if isinstance(text, str):
                project = self._projects.get(uuid, "")
                yield from self._sections(f"{fields.place}, project_memories", text, project, uuid)
        files = fields.get("memory_files")
        for number, file in enumerate(files if isinstance(files, list) else (), start=1):
            inner = FieldReader(as_mapping(file), self.notes, f"{fields.place}, memory file {number}")
            path = inner.text("path")
            if text := inner.text("content"):
                yield self.memory(
                    inner,
                    text,
                    title=path[:500],
                    key=f"claude:file:{path}"[:200],
                    created_at=inner.past_moment("updated_at"),
                )

    def _sections(self, place: str, text: str, project: str, uuid: str = "") -> Iterator[Item]:
        """Yield a memory for each section. Claude rewrites them, so a later export updates them by key."""
        found = ((match[1] or match[2], match) for match in _SECTION.finditer(text))
        headings = [("", 0, 0), *((heading.rstrip(), *match.span()) for heading, match in found)]
        ends = [start for _, start, _ in headings[1:]] + [len(text)]
        for number, ((heading, _, start), end) in enumerate(zip(headings, ends, strict=True), start=1):
            if content := text[start:end].strip():
                yield self.memory(
                    FieldReader({}, self.notes, f"{place} {number}"),
                    content,
                    key=":".join(["claude", uuid or "memory", heading or "text"])[:200],
                    title=heading[:500],
                    project=project,
                    type=MemoryType.CONTEXT,
                )

    def _read_conversation(self, fields: FieldReader) -> Iterator[Item]:
        self.note_fields(fields.values, self._conversation, "conversations")
        uuid = fields.text("uuid")
        messages = [one for row in _claude_branch(fields) if (one := self._to_message(row))]
        summary, name = fields.text("summary"), fields.text("name")
        if summary and not fields.problems:
            yield self.memory(
                fields,
                summary,
                f"{uuid}/summary",
                part=", summary",
                type=MemoryType.SESSION_SUMMARY,
                title=make_title(name) if name else "",
                session_id=f"claude:{uuid}"[:200],
                created_at=fields.past_moment("created_at"),
                updated_at=fields.past_moment("updated_at"),
            )
        yield from self.conversation(fields, uuid, messages, ("created_at", "updated_at"))

    def _to_message(self, row: dict[str, Any]) -> dict[str, Any] | None:
        for name in ("attachments", "files"):
            if row.get(name):
                self.notes.add(f"{name} of messages", len(row[name]))
        content = row.get("content") or row.get("text")
        return {"role": row.get("sender"), "content": content} if content else None


def _claude_branch(fields: FieldReader) -> list[dict[str, Any]]:
    """Return the messages from the first to the current one, or all messages if they have no parents."""
    rows = fields.get("chat_messages")
    messages = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    by_id = {str(row.get("uuid")): row for row in messages}
    if not any(str(row.get("parent_message_uuid")) in by_id for row in messages):
        return messages
    leaf = fields.text("current_leaf_message_uuid") or str(messages[-1].get("uuid"))
    return follow_parents(by_id, leaf, "parent_message_uuid")


class Claude(ChatExport):
    name = "claude"
    program = "Claude"
    label = "Claude (data export)"
    hint = "The zip archive of Settings › Privacy › Export data, or a JSON file of it."
    parts = {
        "project": re.compile(r"(?:^|/)(?:projects\.json|projects/[^/]+\.json)$"),
        "memories": re.compile(r"(?:^|/)(?:memories\.json|memories/[^/]+\.json)$"),
        "conversation": CONVERSATIONS,
    }

    def kind_of(self, sample: JsonSample) -> str:
        first = as_mapping(next(iter(sample.get("", [])), None)) or sample
        if "chat_messages" in first:
            return "conversation"
        if first.keys() & {"conversations_memory", "project_memories", "memory_files"}:
            return "memories"
        is_project = {"uuid", "prompt_template"} <= first.keys() or {"uuid", "docs", "name"} <= first.keys()
        return "project" if is_project else ""

    def reader(self, notes: ReadNotes, options: ReadOptions) -> ExportReader:
        return _ClaudeReader(notes, options)
