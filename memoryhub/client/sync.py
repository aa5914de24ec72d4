"""``memoryhub sync``: keep a project of a hub and a folder of Markdown files the same, in both directions.

A memory that changed on one side since the last sync is copied to the other. One that changed on both sides
is a conflict: the file stays, and the version of the hub is written next to it.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from memoryhub.api.schemas import HiddenShape, MemoryShape
from memoryhub.client.calls import ApiError, ConfigurationError, Conflict, Levels, NotFound
from memoryhub.client.clients import Client
from memoryhub.client.environment import make_safe, open_client
from memoryhub.client.sync_files import (
    LEVELS,
    Document,
    Entry,
    FileProblem,
    Folder,
    LocalFile,
    State,
    conflict_name,
)
from memoryhub.core.vocabulary import Scope
from memoryhub.security.secrets import CheckTooCostly, find_secrets

_ID_LINE = re.compile(r"^id:[ \t]*['\"]?([A-Za-z0-9_-]{1,64})", re.M)
_STORE_AS_NEW = "remove the line with its id to store it as a new memory"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("project", help="project of the memories")
    parser.add_argument("folder", type=Path, help="folder of the Markdown files; it is created")
    parser.add_argument("--dry-run", action="store_true", help="show the changes without applying them")
    parser.add_argument(
        "--delete",
        action="store_true",
        help="delete what was deleted on the other side (in the hub: to the trash)",
    )
    parser.add_argument("--include-private", action="store_true", help="also write private memories to files")
    parser.add_argument(
        "--include-secret", action="store_true", help="also write private and secret memories to files"
    )
    parser.add_argument(
        "--include-personal", action="store_true", help="also write personal memories of the token's owner"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.folder.exists() and not options.folder.is_dir():
        raise ConfigurationError(f"{options.folder} is not a folder.")
    included = 3 if options.include_secret else 2 if options.include_private else 1
    with open_client(options.server) as client:
        folder, levels = Folder(options.folder), LEVELS[:included]
        sync = Sync(
            client, options.project, folder, levels, options.dry_run, personal=options.include_personal
        )
        sync.plan()
        return sync.apply(delete=options.delete)


@dataclass
class Change:
    """A planned change. ``apply`` makes it. ``before`` and ``after`` are the texts of a diff."""

    kind: str
    path: str
    apply: Callable[[], None]
    before: str = ""
    after: str = ""

    def diff(self) -> Iterator[str]:
        lines = (self.before.splitlines(), self.after.splitlines())
        return difflib.unified_diff(*lines, f"a/{self.path}", f"b/{self.path}", lineterm="")


_DELETIONS = {
    "delete file": "files whose memory is in the trash",
    "move to trash": "memories whose file is gone",
}


@dataclass
class Sync:
    """One run: :meth:`plan` reads both sides, :meth:`apply` makes the changes."""

    client: Client
    project: str
    folder: Folder
    levels: tuple[str, ...]
    dry_run: bool = False
    personal: bool = False
    problems: list[FileProblem] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    new_texts: dict[str, str] = field(default_factory=dict)

    def plan(self) -> None:
        self.state: State = self.folder.load_state(self.project)
        self.remote = self._load_remote()
        files, broken = self._scan()
        self.taken = {one.path for one in files} | {entry.file for entry in self.state.entries.values()}
        local = self._index(files)
        for uid in sorted({*local, *self.remote, *self.state.entries} - broken):
            self._plan_memory(uid, local.get(uid))
        for file in files:
            if not file.document.id:
                self._plan_new(file)

    @property
    def _level_options(self) -> Levels:
        return {"allow_private": "private" in self.levels, "allow_secret": "secret" in self.levels}

    def _load_remote(self) -> dict[str, Document]:
        lines = self.client.export(project=self.project, **self._level_options)
        replaced = {line["memory_id"]: line["by"] for line in lines if line["kind"] == "replacement"}
        memories = [line for line in lines if line["kind"] == "memory" and self._is_included(line)]
        self.known = {line["id"] for line in memories}
        return {
            line["id"]: Document.from_memory({**line, "superseded_by": replaced.get(line["id"])})
            for line in memories
        }

    def _is_included(self, memory: dict[str, Any]) -> bool:
        return memory["project"] == self.project and (self.personal or memory["scope"] != Scope.PERSONAL)

    def _to_document(self, memory: MemoryShape) -> Document:
        """Return the document of a memory, without a replacement outside of the project, as in an export."""
        document = Document.from_memory(memory.model_dump(mode="json"))
        return document if document.superseded_by in self.known else replace(document, superseded_by="")

    def _scan(self) -> tuple[list[LocalFile], set[str]]:
        """Return the files, and the ids of files that cannot be used, which count as unchanged."""
        scanned = list(self.folder.scan())
        self.problems += [one for one in scanned if isinstance(one, FileProblem)]
        paths = {one.path for one in self.problems}
        broken = {uid for uid, entry in self.state.entries.items() if entry.file in paths}
        broken |= {match[1] for one in self.problems if (match := _ID_LINE.search(one.text))}
        return [one for one in scanned if isinstance(one, LocalFile)], broken

    def _index(self, files: list[LocalFile]) -> dict[str, LocalFile]:
        """Return the files by id. Of two with the same id, the one of the last sync counts."""
        files_by_id: dict[str, LocalFile] = {}
        for file in files:
            uid = file.document.id
            if not uid:
                continue
            entry = self.state.entries.get(uid)
            if uid in files_by_id and (entry is None or entry.file != file.path):
                self._problem(file.path, f"has the same id as {files_by_id[uid].path}; {_STORE_AS_NEW}")
                continue
            if uid in files_by_id:
                self._problem(files_by_id[uid].path, f"has the same id as {file.path}; {_STORE_AS_NEW}")
            files_by_id[uid] = file
        return files_by_id

    def _problem(self, path: str, message: str, line: int = 0) -> None:
        self.problems.append(FileProblem(path, line, message))

    def _plan_memory(self, uid: str, file: LocalFile | None) -> None:
        remote, entry = self.remote.get(uid), self.state.entries.get(uid)
        if file and remote:
            self._plan_both(uid, file, remote, entry)
        elif remote:
            self._plan_without_file(uid, remote, entry)
        elif file and entry:
            self._plan_without_memory(uid, file, entry)
        elif file:
            self._problem(
                file.path, f"is about a memory that this token does not see in the project; {_STORE_AS_NEW}"
            )
        else:
            del self.state.entries[uid]

    def _plan_both(self, uid: str, file: LocalFile, remote: Document, entry: Entry | None) -> None:
        here, there = file.document.digest(), remote.digest()
        base = entry.hash if entry else ""
        resolved = entry and entry.conflict == there and not self.folder.exists(conflict_name(file.path))
        if here == there:
            self.state.entries[uid] = Entry(file.path, there)
        elif here == base:
            self._plan_pull(uid, file.path, remote, file.text)
        elif there == base or resolved:
            self._plan_push(uid, file, remote)
        else:
            self._plan_conflict(uid, file, remote, base)

    def _plan_pull(self, uid: str, path: str, remote: Document, before: str = "") -> None:
        def write() -> None:
            self._write(path, remote)
            self.state.entries[uid] = Entry(path, remote.digest())

        self.changes.append(Change("from hub", path, write, before, remote.to_text()))

    def _plan_conflict(self, uid: str, file: LocalFile, remote: Document, base: str) -> None:
        if not self._may_send(file):  # nor may its text be shown
            return

        def write() -> None:
            self._write(conflict_name(file.path), remote)
            self.state.entries[uid] = Entry(file.path, base, remote.digest())

        self.changes.append(Change("conflict", file.path, write, file.text, remote.to_text()))

    def _plan_without_file(self, uid: str, remote: Document, entry: Entry | None) -> None:
        if entry is None or entry.hash != remote.digest():
            usable = entry and entry.file.endswith(".md") and self.folder.contains(entry.file)
            path = entry.file if entry and usable else self.folder.free_name(remote, self.taken)
            self.taken.add(path)
            self._plan_pull(uid, path, remote)
            return

        def trash() -> None:
            self.client.forget(uid)
            del self.state.entries[uid]

        self.changes.append(Change("move to trash", entry.file, trash, remote.to_text()))

    def _plan_without_memory(self, uid: str, file: LocalFile, entry: Entry) -> None:
        memory = self._find_outside(uid)
        if memory is None:
            self.counts["no longer visible to this token"] += 1
            return
        ended = memory.deleted_at or (memory.expires_at and memory.expires_at <= datetime.now(UTC))
        if not self._is_included(memory.model_dump()) and memory.project == self.project:
            self.counts["not included"] += 1
        elif memory.project != self.project:
            self._problem(file.path, f"is about a memory that is in another project now; {_STORE_AS_NEW}")
        elif not ended:  # it came back in the meantime
            self.counts["changed in the hub during the sync"] += 1
        elif file.document.digest() != entry.hash:
            self._problem(file.path, f"was changed, but its memory is in the trash; {_STORE_AS_NEW}")
        else:

            def delete() -> None:
                self.folder.delete(file.path)
                del self.state.entries[uid]

            self.changes.append(Change("delete file", file.path, delete, file.text))

    def _find_outside(self, uid: str) -> MemoryShape | None:
        """Return a memory that the export lacks: it is in the trash, or no longer in the project."""
        for trashed in (True, False):
            try:
                return self.client.get(uid, trashed=trashed, **self._level_options)
            except NotFound:
                continue
        return None

    def _plan_push(self, uid: str, file: LocalFile, remote: Document) -> None:
        if not self._may_send(file):
            return
        fields = file.document.changes_from(remote)

        def send() -> None:
            current = self.client.get(uid, **self._level_options)
            if self._to_document(current).digest() != remote.digest():
                raise FileProblem(file.path, 0, "changed in the hub during the sync; run it again")
            changed = self.client.update(uid, if_match=current.etag, **fields)
            self._store(file, changed.memory)

        self.changes.append(Change("to hub", file.path, send, remote.to_text(), file.text))

    def _plan_new(self, file: LocalFile) -> None:
        content = file.document.content
        if any(one.content == content for one in self.remote.values()):
            self._problem(file.path, "has the same text as another memory of the project")
            return
        if file.path != self.new_texts.setdefault(content, file.path):
            self._problem(file.path, f"has the same text as {self.new_texts[content]}; delete one of them")
            return
        if not self._may_send(file):
            return
        fields = file.document.changes_from(Document(content))

        def send() -> None:
            stored = self.client.remember(content, project=self.project, ttl_days=0, **fields).memory
            if isinstance(stored, HiddenShape):
                raise FileProblem(file.path, 0, "was stored, but this token may not read it")
            self.known.add(stored.id)
            missing = file.document.changes_from(self._to_document(stored)).keys() & fields.keys()
            if missing:  # the hub had this text already, perhaps in the trash
                patch: Any = {name: fields[name] for name in missing}
                stored = self.client.update(stored.id, **patch).memory
            self._store(file, stored)

        self.changes.append(Change("new in hub", file.path, send, "", file.text))

    def _may_send(self, file: LocalFile) -> bool:
        """Return whether the file may be sent, and report why not. Never show texts with a credential."""
        level = file.document.sensitivity
        if level not in self.levels:
            self._problem(file.path, f"has the level {level}; add --include-{level}")
            return False
        if file.document.scope == Scope.PERSONAL and not self.personal:
            self._problem(file.path, "is personal; add --include-personal")
            return False
        try:
            credentials = find_secrets(file.text)
        except CheckTooCostly:
            self._problem(file.path, "is too costly to check for credentials; split it")
            return False
        for kind, line in credentials:
            self._problem(file.path, f"contains what looks like a credential ({kind}); remove it", line)
        return not credentials

    def _store(self, file: LocalFile, memory: MemoryShape) -> None:
        """Write the version of the hub to the file, with its id."""
        document = self._to_document(memory)
        self._write(file.path, document)
        self.state.entries[document.id] = Entry(file.path, document.digest())

    def _write(self, path: str, document: Document) -> None:
        self.folder.write(path, document.to_text(), private=document.sensitivity != LEVELS[0])

    def apply(self, *, delete: bool) -> int:
        """Apply the changes, or show them in a dry run. Return 1 if there are conflicts or problems."""
        wanted = [one for one in self.changes if one.kind not in _DELETIONS]
        deletions = [one for one in self.changes if one.kind in _DELETIONS]
        confirmed = delete or (bool(deletions) and not self.dry_run and self._confirm(deletions))
        if confirmed or self.dry_run:
            wanted += deletions
        try:
            for change in wanted:
                self._apply(change)
        finally:
            if not self.dry_run:
                self.folder.save_state(self.state)
        for problem in self.problems:
            print(" ".join(make_safe(str(problem)).splitlines()), file=sys.stderr)
        self._print_summary(unconfirmed=0 if confirmed else len(deletions))
        return int(bool(self.problems or self.counts["conflict"]))

    def _apply(self, change: Change) -> None:
        if self.dry_run:
            print(f"Would change: {change.kind}: {make_safe(change.path)}")
            print("".join(f"{make_safe(line)}\n" for line in change.diff()), end="")
        else:
            try:
                change.apply()
            except FileProblem as problem:
                self.problems.append(problem)
                return
            except Conflict as error:
                is_stale = error.status == HTTPStatus.PRECONDITION_FAILED
                hint = "changed in the hub during the sync; run it again" if is_stale else str(error)
                self._problem(change.path, hint)
                return
            except (ApiError, OSError) as error:
                self._problem(change.path, str(error))
                return
            print(f"{change.kind}: {make_safe(change.path)}")
        self.counts[change.kind] += 1

    def _confirm(self, deletions: list[Change]) -> bool:
        for change in deletions:
            print(f"{change.kind}? {make_safe(change.path)}")
        return sys.stdin.isatty() and input("Delete these too? [y/N] ").strip().lower() in ("y", "yes")

    def _print_summary(self, *, unconfirmed: int) -> None:
        counted = [f"{count} {kind}" for kind, count in sorted(self.counts.items()) if count]
        print(f"{self.project}: {', '.join(counted) or 'nothing to do'}")
        if unconfirmed:
            print(f"Deletions not made: {unconfirmed}. Add --delete to make them.")
        if self.counts["conflict"]:
            print("Conflicts: merge FILE.conflict.md into FILE.md, delete it, and run this again.")
