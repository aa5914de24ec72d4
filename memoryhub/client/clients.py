"""``Client`` and ``AsyncClient``. Both have the methods of :class:`_Methods` and send the calls they make."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, Unpack, overload
from urllib.parse import quote
from uuid import uuid4

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
    next_page,
    retry_options,
)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Item = TypeVar("Item")
Returned_co = TypeVar("Returned_co", covariant=True)
Awaited_co = TypeVar("Awaited_co", covariant=True)
TIMEOUT_SECONDS = 30.0  # for each try
TRIES = 4
_FAILURES = (httpx2.TransportError, httpx2.DecodingError)


class _Method(Protocol[Parameters, Returned_co, Awaited_co]):
    """A method of both clients, which return the first or the second type."""

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[Parameters, Returned_co]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[Parameters, Awaited_co]: ...


def _request_method(
    make: Callable[Concatenate[Any, Parameters], Call[Result]],
) -> _Method[Parameters, Result, Awaitable[Result]]:
    """Turn a method that makes a call into one that sends it."""

    @wraps(make)
    def method(client: Client | AsyncClient, *arguments: Any, **options: Any) -> Any:
        return client.send(make(client, *arguments, **options))

    return method  # type: ignore[return-value]


def _list_method(
    make: Callable[Concatenate[Any, Parameters], Call[ListOf[Item]]],
) -> _Method[Parameters, Iterator[Item], AsyncIterator[Item]]:
    """Turn a method that makes the call for a first page into one that iterates over all pages."""

    @wraps(make)
    def method(client: Client | AsyncClient, *arguments: Any, **options: Any) -> Any:
        return client.pages(make(client, *arguments, **options))

    return method  # type: ignore[return-value]


class _Methods:
    """The methods of both clients."""

    @_request_method
    def remember(self, content: str, **fields: Unpack[NewMemory]) -> Call[Stored]:
        """Store a memory. The same content or ``key`` again refreshes or updates the one that exists."""
        return Call("POST", "/memories", Stored, body={"content": content, **fields})

    @_request_method
    def remember_many(self, memories: Sequence[Mapping[str, Any]]) -> Call[BatchResults]:
        """Store up to 1000 memories. One result each, in order; a refused one does not affect the others."""
        return Call("POST", "/memories/batch", BatchResults, body={"memories": list(memories)})

    @_request_method
    def get(self, id: str, *, trashed: bool = False, **levels: Unpack[Levels]) -> Call[Memory]:
        """Return a whole memory. Counts as one access."""
        return Call("GET", _memory(id), Memory, {"trashed": trashed, **levels})

    @_request_method
    def update(self, id: str, *, if_match: str = "", **fields: Unpack[MemoryPatch]) -> Call[Changed]:
        """Change the given fields. With ``if_match``, raise Conflict if the memory has changed since."""
        headers = {"If-Match": if_match} if if_match else {}
        # A repeated request would fail: its own change has replaced the ETag.
        return Call("PATCH", _memory(id), Changed, body=fields, headers=headers, repeatable=not if_match)

    @_request_method
    def forget(self, id: str, *, hard: bool = False) -> Call[Ended]:
        """Move a memory to the trash, or erase it (``hard``)."""
        return Call("DELETE", _memory(id), Ended, {"hard": hard}, repeatable=False)

    @_request_method
    def restore(self, id: str) -> Call[Changed]:
        """Restore a memory from the trash, or an expired one."""
        return Call("POST", f"{_memory(id)}/restore", Changed)

    @_request_method
    def search(self, query: str, **options: Unpack[SearchOptions]) -> Call[SearchResults]:
        """Return the best matches first."""
        return Call("POST", "/search", SearchResults, body={**options, "query": query})

    @_request_method
    def recall(
        self, query: str, *, max_tokens: int = 1000, **filters: Unpack[PastFilters]
    ) -> Call[RecallShape]:
        """Return an index of all matches, and the best of them whole, within a budget of tokens."""
        body = {**filters, "query": query, "max_tokens": max_tokens}
        return Call("POST", "/recall", RecallShape, body=body)

    @_request_method
    def inject(self, prompt: str, **options: Unpack[InjectOptions]) -> Call[InjectionShape]:
        """Return a block of relevant memories to put before a prompt; it may be empty."""
        # Not repeatable in a session: the hub does not show a memory to the same session twice.
        body = {**options, "prompt": prompt}
        return Call("POST", "/inject", InjectionShape, body=body, repeatable=not options.get("session_id"))

    @_request_method
    def session(self, id: str, *, project: str | None = None, **levels: Unpack[Levels]) -> Call[Session]:
        """Return a session with its newest entries."""
        params = {**levels, "limit": 200, **({} if project is None else {"project": project})}
        return Call("GET", f"/sessions/{_quote(id)}", Session, params)

    @_request_method
    def add_fact(
        self, subject: str, predicate: str, object: str, **fields: Unpack[FactFields]
    ) -> Call[StoredFact]:
        """Store a fact. The same triple again updates its confidence."""
        body = {**fields, "subject": subject, "predicate": predicate, "object": object}
        return Call("POST", "/facts", StoredFact, body=body)

    @_request_method
    def delete_fact(self, id: str) -> Call[Ended]:
        """Delete a fact."""
        return Call("DELETE", f"/facts/{_quote(id)}", Ended, repeatable=False)

    @_request_method
    def report_event(
        self,
        event: Event,
        session_id: str,
        data: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[EventFields],
    ) -> Call[EventAnswer]:
        """Report what happens in a session. A second event with the same idempotency key is ignored."""
        data = data or {}
        key = idempotency_key or data.get("tool_use_id") or uuid4().hex  # the hub calls it ``tool_use_id``
        body = {**fields, "event": event, "session_id": session_id, "data": {**data, "tool_use_id": key}}
        return Call("POST", "/events", EventAnswer, body=body)

    @_request_method
    def check_past_session(
        self,
        session_id: str,
        events: Sequence[Mapping[str, Any]],
        *,
        cwd: str = "",
        project: str = "",
        repository: Mapping[str, str] | None = None,
    ) -> Call[PastSessionShape]:
        """Return what a backfill of a session would find. ``events``: ``event`` and ``id`` of each."""
        question = {"session_id": session_id, "events": list(events), "cwd": cwd, "project": project}
        body = {**question, "repository": repository} if repository else question
        return Call("POST", "/backfills/check", PastSessionShape, body=body)

    @_request_method
    def store_past_events(self, run: str, events: Sequence[Mapping[str, Any]]) -> Call[BackfillResult]:
        """Store up to 100 events of past sessions under a run. ``run``: an id that the caller chooses."""
        path = f"/backfills/{_quote(run)}/events"  # the hub recognises a repeated event by its id
        return Call("POST", path, BackfillResult, body={"events": list(events)})

    @_request_method
    def undo_backfill(self, run: str) -> Call[BackfillUndo]:
        """Remove what a run stored: memories go to the trash, its events and sessions are deleted."""
        return Call("DELETE", f"/backfills/{_quote(run)}", BackfillUndo, repeatable=False)

    @_request_method
    def project(self, name: str) -> Call[ProjectShape]:
        """Return the settings of a project."""
        return Call("GET", f"/projects/{_quote(name)}", ProjectShape)

    @_request_method
    def configure_project(self, name: str, **settings: Unpack[ProjectSettings]) -> Call[ProjectShape]:
        """Change the given settings of a project."""
        return Call("PATCH", f"/projects/{_quote(name)}", ProjectShape, body=settings)

    @_request_method
    def project_page(self, name: str, **levels: Unpack[Levels]) -> Call[PageShape]:
        """Return the page of a project: what a new colleague should know."""
        return Call("GET", f"/projects/{_quote(name)}/page", PageShape, levels)

    @_request_method
    def correct_project_page(self, name: str, **correction: Unpack[PageCorrection]) -> Call[CorrectedShape]:
        """Correct a line of a project's page."""
        path = f"/projects/{_quote(name)}/page/corrections"
        return Call("POST", path, CorrectedShape, body=correction, repeatable=False)

    @_request_method
    def project_identities(self, name: str) -> Call[IdentitiesShape]:
        """Return the repositories and former names that a project is recognised by."""
        return Call("GET", f"/project-identities/{_quote(name)}", IdentitiesShape)

    @_request_method
    def rename_project(self, name: str, into: str) -> Call[ProjectShape]:
        """Rename a project. ``change`` of the answer is for the undo."""
        return _move_project("rename", name, into)

    @_request_method
    def merge_projects(self, name: str, into: str) -> Call[ProjectShape]:
        """Move everything of a project into another one."""
        return _move_project("merge", name, into)

    @_request_method
    def split_project(self, name: str, into: str, **part: Unpack[ProjectPart]) -> Call[ProjectShape]:
        """Move a part of a project into a new one."""
        return _move_project("split", name, into, part)

    @_request_method
    def undo_project_change(self, change: str) -> Call[ProjectShape]:
        """Undo a change of settings, a rename, a merge or a split."""
        return Call("POST", f"/project-changes/{_quote(change)}/undo", ProjectShape, repeatable=False)

    @_request_method
    def statistics(self, **levels: Unpack[Levels]) -> Call[Statistics]:
        """Return counts of visible rows."""
        return Call("GET", "/stats", Statistics, levels)

    @_request_method
    def call_tool(self, toolset: str, tool: str, /, **arguments: Any) -> Call[ToolResult]:
        """Run a tool of a toolset."""
        path = f"/tools/{_quote(toolset)}/{_quote(tool)}"
        return Call("POST", path, ToolResult, body=arguments, repeatable=False)

    @_request_method
    def export(self, **filters: Unpack[Filters]) -> Call[list[dict[str, Any]]]:
        """Return the lines of an export: whole memories, and their replacements."""
        return Call("GET", "/export", list[dict[str, Any]], filters)

    @_list_method
    def memories(
        self, *, order: str = "-updated_at", **filters: Unpack[Filters]
    ) -> Call[ListOf[PreviewShape]]:
        """Iterate over the memories that match all filters, page by page."""
        return Call("GET", "/memories", ListOf[PreviewShape], {**filters, "order": order, "limit": 200})

    @_list_method
    def sessions(self, **filters: Unpack[SessionFilters]) -> Call[ListOf[SessionShape]]:
        """Iterate over the sessions, most recent first."""
        return Call("GET", "/sessions", ListOf[SessionShape], {"limit": 200, **filters})

    @_list_method
    def timeline(self, **filters: Unpack[History]) -> Call[ListOf[TimelineEntry]]:
        """Iterate over memories, events and boundaries, newest first."""
        return Call("GET", "/timeline", ListOf[TimelineEntry], {"limit": 200, **filters})

    @_list_method
    def facts(self, **filters: Unpack[FactFilters]) -> Call[ListOf[FactShape]]:
        """Iterate over the facts that match all filters, newest first."""
        return Call("GET", "/facts", ListOf[FactShape], {"limit": 200, **filters})


def _move_project(action: str, name: str, into: str, part: ProjectPart | None = None) -> Call[ProjectShape]:
    body = {**(part or {}), "project": name, "into": into}
    return Call("POST", f"/project-{action}s", ProjectShape, body=body, repeatable=False)


def _memory(id: str) -> str:
    return f"/memories/{_quote(id)}"


def _quote(part: str) -> str:
    return quote(part, safe="", errors="replace")


class Client(_Methods):
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

    def __exit__(self, *error: object) -> None:
        self.close()

    def send(self, call: Call[Result]) -> Result:
        result: Result = tenacity.Retrying(**retry_options(call, self._tries))(self._send_once, call)
        return result

    def _send_once(self, call: Call[Result]) -> Result:
        try:
            response = self._http.request(**call.request())
        except _FAILURES as error:
            raise call.failed(error) from error
        return call.parse(response)

    def pages(self, first: Call[ListOf[Item]]) -> Iterator[Item]:
        call: Call[ListOf[Item]] | None = first
        while call:
            page = self.send(call)
            yield from page.items
            call = next_page(call, page)


class AsyncClient(_Methods):
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

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def send(self, call: Call[Result]) -> Result:
        retrying = tenacity.AsyncRetrying(**retry_options(call, self._tries))
        return await retrying(self._send_once, call)

    async def _send_once(self, call: Call[Result]) -> Result:
        try:
            response = await self._http.request(**call.request())
        except _FAILURES as error:
            raise call.failed(error) from error
        return call.parse(response)

    async def pages(self, first: Call[ListOf[Item]]) -> AsyncIterator[Item]:
        call: Call[ListOf[Item]] | None = first
        while call:
            page = await self.send(call)
            for item in page.items:
                yield item
            call = next_page(call, page)
