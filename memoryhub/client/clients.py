"""``Client`` and ``AsyncClient``: they send the calls of :mod:`memoryhub.client.calls`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx2
import tenacity

from memoryhub.api.schemas import (
    BackfillResult,
    BackfillUndo,
    BatchResults,
    Changed,
    CorrectedShape,
    Ended,
    EventAnswer,
    FactShape,
    IdentitiesShape,
    InjectionShape,
    ListOf,
    PageShape,
    PastSessionShape,
    PreviewShape,
    ProjectShape,
    RecallShape,
    SearchResults,
    SessionShape,
    Statistics,
    Stored,
    StoredFact,
    ToolResult,
)
from memoryhub.client import calls
from memoryhub.client.calls import (
    Call,
    Connection,
    Event,
    EventFields,
    FactFields,
    FactFilters,
    Filters,
    History,
    InjectOptions,
    Levels,
    Memory,
    MemoryPatch,
    NewMemory,
    PageCorrection,
    PastFilters,
    ProjectPart,
    ProjectSettings,
    SearchOptions,
    Session,
    SessionFilters,
    TimelineEntry,
)

Result = TypeVar("Result")
Item = TypeVar("Item")
TIMEOUT_SECONDS = 30.0  # for each try
TRIES = 4
_FAILURES = (httpx2.TransportError, httpx2.DecodingError)


class Client:
    """Talks to a hub. ``server`` and ``token`` default to MEMORYHUB_URL and MEMORYHUB_TOKEN.

    Failed requests are repeated if the hub can recognise a repetition, and if nothing was changed. Errors are
    :class:`memoryhub.client.MemoryhubError`. Use it as a context manager, or close it.
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        tries: int = TRIES,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        connection = Connection.configured(server, token)
        self.server = connection.server
        self._tries = tries
        self._http = httpx2.Client(**connection.http_options(timeout), transport=transport)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def remember(self, content: str, **fields: Unpack[NewMemory]) -> Stored:
        """Store a memory. The same content or ``key`` again refreshes or updates the one that exists."""
        return self._send(calls.remember(content, fields))

    def remember_many(self, memories: Sequence[Mapping[str, Any]]) -> BatchResults:
        """Store up to 1000 memories. One result each, in order; a refused one does not affect the others."""
        return self._send(calls.remember_many(memories))

    def get(self, id: str, *, trashed: bool = False, **levels: Unpack[Levels]) -> Memory:
        """Return a whole memory. Counts as one access."""
        return self._send(calls.get(id, trashed, levels))

    def update(self, id: str, *, if_match: str = "", **fields: Unpack[MemoryPatch]) -> Changed:
        """Change the given fields. With ``if_match``, raise Conflict if the memory has changed since."""
        return self._send(calls.update(id, if_match, fields))

    def forget(self, id: str, *, hard: bool = False) -> Ended:
        """Move a memory to the trash, or erase it (``hard``)."""
        return self._send(calls.forget(id, hard))

    def restore(self, id: str) -> Changed:
        """Restore a memory from the trash, or an expired one."""
        return self._send(calls.restore(id))

    def search(self, query: str, **options: Unpack[SearchOptions]) -> SearchResults:
        """Return the best matches first."""
        return self._send(calls.search(query, options))

    def recall(self, query: str, *, max_tokens: int = 1000, **filters: Unpack[PastFilters]) -> RecallShape:
        """Return an index of all matches, and the best of them whole, within a budget of tokens."""
        return self._send(calls.recall(query, max_tokens, filters))

    def inject(self, prompt: str, **options: Unpack[InjectOptions]) -> InjectionShape:
        """Return a block of relevant memories to put before a prompt; it may be empty."""
        return self._send(calls.inject(prompt, options))

    def session(self, id: str, *, project: str | None = None, **levels: Unpack[Levels]) -> Session:
        """Return a session with its newest entries."""
        return self._send(calls.session(id, project, levels))

    def add_fact(self, subject: str, predicate: str, object: str, **fields: Unpack[FactFields]) -> StoredFact:
        """Store a fact. The same triple again updates its confidence."""
        return self._send(calls.add_fact(subject, predicate, object, fields))

    def delete_fact(self, id: str) -> Ended:
        """Delete a fact."""
        return self._send(calls.delete_fact(id))

    def report_event(
        self,
        event: Event,
        session_id: str,
        data: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[EventFields],
    ) -> EventAnswer:
        """Report what happens in a session. A second event with the same idempotency key is ignored."""
        return self._send(calls.report_event(event, session_id, data or {}, idempotency_key, fields))

    def check_past_session(
        self,
        session_id: str,
        events: Sequence[Mapping[str, Any]],
        *,
        cwd: str = "",
        project: str = "",
        repository: Mapping[str, str] | None = None,
    ) -> PastSessionShape:
        """Return what a backfill of a session would find. ``events``: ``event`` and ``id`` of each."""
        return self._send(calls.check_past_session(session_id, events, cwd, project, repository))

    def store_past_events(self, run: str, events: Sequence[Mapping[str, Any]]) -> BackfillResult:
        """Store up to 100 events of past sessions under a run. ``run``: an id that the caller chooses."""
        return self._send(calls.store_past_events(run, events))

    def undo_backfill(self, run: str) -> BackfillUndo:
        """Remove what a run stored: memories go to the trash, its events and sessions are deleted."""
        return self._send(calls.undo_backfill(run))

    def project(self, name: str) -> ProjectShape:
        """Return the settings of a project."""
        return self._send(calls.project(name))

    def configure_project(self, name: str, **settings: Unpack[ProjectSettings]) -> ProjectShape:
        """Change the given settings of a project."""
        return self._send(calls.configure_project(name, settings))

    def project_page(self, name: str, **levels: Unpack[Levels]) -> PageShape:
        """Return the page of a project: what a new colleague should know."""
        return self._send(calls.project_page(name, levels))

    def correct_project_page(self, name: str, **correction: Unpack[PageCorrection]) -> CorrectedShape:
        """Correct a line of a project's page."""
        return self._send(calls.correct_project_page(name, correction))

    def project_identities(self, name: str) -> IdentitiesShape:
        """Return the repositories and former names that a project is recognised by."""
        return self._send(calls.project_identities(name))

    def rename_project(self, name: str, into: str) -> ProjectShape:
        """Rename a project. ``change`` of the answer is for the undo."""
        return self._send(calls.move_project("rename", name, into, {}))

    def merge_projects(self, name: str, into: str) -> ProjectShape:
        """Move everything of a project into another one."""
        return self._send(calls.move_project("merge", name, into, {}))

    def split_project(self, name: str, into: str, **part: Unpack[ProjectPart]) -> ProjectShape:
        """Move a part of a project into a new one."""
        return self._send(calls.move_project("split", name, into, part))

    def undo_project_change(self, change: str) -> ProjectShape:
        """Undo a change of settings, a rename, a merge or a split."""
        return self._send(calls.undo_project_change(change))

    def statistics(self, **levels: Unpack[Levels]) -> Statistics:
        """Return counts of visible rows."""
        return self._send(calls.statistics(levels))

    def call_tool(self, toolset: str, tool: str, /, **arguments: Any) -> ToolResult:
        """Run a tool of a toolset."""
        return self._send(calls.call_tool(toolset, tool, arguments))

    def memories(self, *, order: str = "-updated_at", **filters: Unpack[Filters]) -> Iterator[PreviewShape]:
        """Iterate over the memories that match all filters, page by page."""
        return self._pages(calls.memories(filters, order))

    def export(self, **filters: Unpack[Filters]) -> list[dict[str, Any]]:
        """Return the lines of an export: whole memories, and their replacements."""
        return self._send(calls.export(filters))

    def sessions(self, **filters: Unpack[SessionFilters]) -> Iterator[SessionShape]:
        """Iterate over the sessions, most recent first."""
        return self._pages(calls.sessions(filters))

    def timeline(self, **filters: Unpack[History]) -> Iterator[TimelineEntry]:
        """Iterate over memories, events and boundaries, newest first."""
        return self._pages(calls.timeline(filters))

    def facts(self, **filters: Unpack[FactFilters]) -> Iterator[FactShape]:
        """Iterate over the facts that match all filters, newest first."""
        return self._pages(calls.facts(filters))

    def _pages(self, first: Call[ListOf[Item]]) -> Iterator[Item]:
        call: Call[ListOf[Item]] | None = first
        while call:
            page = self._send(call)
            yield from page.items
            call = calls.next_page(call, page)

    def _send(self, call: Call[Result]) -> Result:
        result: Result = tenacity.Retrying(**calls.retry_options(call, self._tries))(self._send_once, call)
        return result

    def _send_once(self, call: Call[Result]) -> Result:
        try:
            response = self._http.request(**call.request())
        except _FAILURES as error:
            raise call.failed(error) from error
        return call.parse(response)


class AsyncClient:
    """The same methods as :class:`Client`, to be awaited; ``async for`` iterates over lists."""

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        tries: int = TRIES,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        connection = Connection.configured(server, token)
        self.server = connection.server
        self._tries = tries
        self._http = httpx2.AsyncClient(**connection.http_options(timeout), transport=transport)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def remember(self, content: str, **fields: Unpack[NewMemory]) -> Stored:
        return await self._send(calls.remember(content, fields))

    async def remember_many(self, memories: Sequence[Mapping[str, Any]]) -> BatchResults:
        return await self._send(calls.remember_many(memories))

    async def get(self, id: str, *, trashed: bool = False, **levels: Unpack[Levels]) -> Memory:
        return await self._send(calls.get(id, trashed, levels))

    async def update(self, id: str, *, if_match: str = "", **fields: Unpack[MemoryPatch]) -> Changed:
        return await self._send(calls.update(id, if_match, fields))

    async def forget(self, id: str, *, hard: bool = False) -> Ended:
        return await self._send(calls.forget(id, hard))

    async def restore(self, id: str) -> Changed:
        return await self._send(calls.restore(id))

    async def search(self, query: str, **options: Unpack[SearchOptions]) -> SearchResults:
        return await self._send(calls.search(query, options))

    async def recall(
        self, query: str, *, max_tokens: int = 1000, **filters: Unpack[PastFilters]
    ) -> RecallShape:
        return await self._send(calls.recall(query, max_tokens, filters))

    async def inject(self, prompt: str, **options: Unpack[InjectOptions]) -> InjectionShape:
        return await self._send(calls.inject(prompt, options))

    async def session(self, id: str, *, project: str | None = None, **levels: Unpack[Levels]) -> Session:
        return await self._send(calls.session(id, project, levels))

    async def add_fact(
        self, subject: str, predicate: str, object: str, **fields: Unpack[FactFields]
    ) -> StoredFact:
        return await self._send(calls.add_fact(subject, predicate, object, fields))

    async def delete_fact(self, id: str) -> Ended:
        return await self._send(calls.delete_fact(id))

    async def report_event(
        self,
        event: Event,
        session_id: str,
        data: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[EventFields],
    ) -> EventAnswer:
        return await self._send(calls.report_event(event, session_id, data or {}, idempotency_key, fields))

    async def check_past_session(
        self,
        session_id: str,
        events: Sequence[Mapping[str, Any]],
        *,
        cwd: str = "",
        project: str = "",
        repository: Mapping[str, str] | None = None,
    ) -> PastSessionShape:
        return await self._send(calls.check_past_session(session_id, events, cwd, project, repository))

    async def store_past_events(self, run: str, events: Sequence[Mapping[str, Any]]) -> BackfillResult:
        return await self._send(calls.store_past_events(run, events))

    async def undo_backfill(self, run: str) -> BackfillUndo:
        return await self._send(calls.undo_backfill(run))

    async def project(self, name: str) -> ProjectShape:
        return await self._send(calls.project(name))

    async def configure_project(self, name: str, **settings: Unpack[ProjectSettings]) -> ProjectShape:
        return await self._send(calls.configure_project(name, settings))

    async def project_page(self, name: str, **levels: Unpack[Levels]) -> PageShape:
        """Return the page of a project: what a new colleague should know."""
        return await self._send(calls.project_page(name, levels))

    async def correct_project_page(self, name: str, **correction: Unpack[PageCorrection]) -> CorrectedShape:
        """Correct a line of a project's page."""
        return await self._send(calls.correct_project_page(name, correction))

    async def project_identities(self, name: str) -> IdentitiesShape:
        return await self._send(calls.project_identities(name))

    async def rename_project(self, name: str, into: str) -> ProjectShape:
        return await self._send(calls.move_project("rename", name, into, {}))

    async def merge_projects(self, name: str, into: str) -> ProjectShape:
        return await self._send(calls.move_project("merge", name, into, {}))

    async def split_project(self, name: str, into: str, **part: Unpack[ProjectPart]) -> ProjectShape:
        return await self._send(calls.move_project("split", name, into, part))

    async def undo_project_change(self, change: str) -> ProjectShape:
        return await self._send(calls.undo_project_change(change))

    async def statistics(self, **levels: Unpack[Levels]) -> Statistics:
        return await self._send(calls.statistics(levels))

    async def call_tool(self, toolset: str, tool: str, /, **arguments: Any) -> ToolResult:
        return await self._send(calls.call_tool(toolset, tool, arguments))

    def memories(
        self, *, order: str = "-updated_at", **filters: Unpack[Filters]
    ) -> AsyncIterator[PreviewShape]:
        return self._pages(calls.memories(filters, order))

    async def export(self, **filters: Unpack[Filters]) -> list[dict[str, Any]]:
        return await self._send(calls.export(filters))

    def sessions(self, **filters: Unpack[SessionFilters]) -> AsyncIterator[SessionShape]:
        return self._pages(calls.sessions(filters))

    def timeline(self, **filters: Unpack[History]) -> AsyncIterator[TimelineEntry]:
        return self._pages(calls.timeline(filters))

    def facts(self, **filters: Unpack[FactFilters]) -> AsyncIterator[FactShape]:
        return self._pages(calls.facts(filters))

    async def _pages(self, first: Call[ListOf[Item]]) -> AsyncIterator[Item]:
        call: Call[ListOf[Item]] | None = first
        while call:
            page = await self._send(call)
            for item in page.items:
                yield item
            call = calls.next_page(call, page)

    async def _send(self, call: Call[Result]) -> Result:
        retrying = tenacity.AsyncRetrying(**calls.retry_options(call, self._tries))
        return await retrying(self._send_once, call)

    async def _send_once(self, call: Call[Result]) -> Result:
        try:
            response = await self._http.request(**call.request())
        except _FAILURES as error:
            raise call.failed(error) from error
        return call.parse(response)
