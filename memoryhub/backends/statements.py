"""SQL that Django's ORM does not have: lookups, index expressions, and raw statements for hot paths.

:func:`to_object` makes a model object from a row of a raw statement.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from django.db import connection, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, QuerySet, Subquery
from django.db.models.base import ModelState
from django.db.models.expressions import Expression, RawSQL
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone

from memoryhub.access.policy import LEVELS
from memoryhub.backends import JOURNAL_TABLE, MEMORY_TABLE
from memoryhub.backends.change_log import ERA_TABLE
from memoryhub.backends.dialect import sql
from memoryhub.backends.fts_query import MAX_TERMS, MAX_TRIGRAMS, TRIGRAM_LENGTH, Query
from memoryhub.core.database import adapt_moment, execute, fetch_all, fetch_one
from memoryhub.core.dates import expiry_time
from memoryhub.core.text import words
from memoryhub.core.vocabulary import SCOPES

if TYPE_CHECKING:
    _TextField = models.TextField[str, str]
else:
    _TextField = models.TextField

MAX_SPEAKER_CHARS = 95  # of a name at the beginning of a text, with a colon and a space
QUESTION_TAIL_CHARS = 120  # a question mark in these last characters makes the text a question
Saved = TypeVar("Saved", bound=models.Model)
_IS_LIVE = "deleted_at IS NULL AND (expires_at IS NULL OR expires_at > %s)"  # as MemoryQuerySet.live


def key_list(keys: Iterable[int]) -> RawSQL:
    """Return a subquery for ``filter(pk__in=key_list(keys))``."""
    return RawSQL(sql.KEYS_OF_JSON, [json.dumps(list(keys))])  # noqa: S611 a constant


def keys_of_files(paths: Iterable[str]) -> RawSQL:
    """Return a subquery for the keys of all memories of these files, even hidden ones.

    A file is given by path, end of the path, basename or folder.
    """
    parts = [_keys_of_file(path.strip().removeprefix("./")) for path in paths]
    params = [one for _, of_path in parts for one in of_path]
    none = "SELECT memory_id FROM memoryhub_filelink WHERE false"
    return RawSQL(" UNION ".join(query for query, _ in parts) or none, params)  # noqa: S611 paths are parameters


def _keys_of_file(path: str) -> tuple[str, list[Any]]:
    folder, name = path.rstrip("/") + "/", posixpath.basename(path.rstrip("/"))
    # A range that an index can serve: "0" is the character after "/".
    query = "SELECT memory_id FROM memoryhub_filelink WHERE path = %s OR path >= %s AND path < %s"
    params: list[Any] = [path, folder, folder[:-1] + "0"]
    if name:
        end = "" if name == path else "/" + path.lstrip("/")
        query += f" OR basename = %s AND {sql.ENDS_WITH}"
        params += [name, *[len(end)] * sql.ENDS_WITH_LENGTHS, end]
    return query, params


def _keys_of_touched_files(paths: Sequence[str], root: str) -> RawSQL:
    """Return a subquery for the keys of all memories of these files, even hidden ones, also after a rename.

    ``root``: the name of the folder of the repository, if the paths start there; then a file of another
    folder with the same end is another one.
    """
    by_end = keys_of_files([f"{root}/{path}" for path in paths] if root else paths)
    tables = ("memoryhub_codereference", *(["memoryhub_filelink"] if root else []))
    exact = [f"SELECT memory_id FROM {table} WHERE path {sql.IN_TEXTS}" for table in tables]
    params = [*by_end.params, *[json.dumps(list(paths))] * len(exact)]
    return RawSQL(" UNION ".join([by_end.sql, *exact]), params)  # noqa: S611 paths are parameters


def read_about_files(
    query: str,
    params: Sequence[Any],
    paths: Sequence[str],
    root: str,
    session_id: str,
    now: datetime,
    limit: int,
) -> list[tuple[int, int | None]]:
    """Return keys and replacements of live memories of touched files, the most important first.

    ``query``: the SQL of a queryset that selects both and decides access, without an order. Memories of the
    session are left out. ``root``: the name of the folder of the repository, if the paths start there.
    """
    about = _keys_of_touched_files(paths, root)
    conditions = f"{_IS_LIVE} AND (session_id <> %s OR session_id = '') AND id IN ({about.sql})"
    return fetch_all(
        f"{query} AND {conditions} ORDER BY importance DESC, updated_at DESC, id DESC LIMIT %s",
        [*params, adapt_moment(expiry_time(now)), session_id, *about.params, limit],
    )


# Columns of a memory that ranking needs, for the fields of VisibleRows.columns. A text whose beginning has a
# colon may name its speaker.
_RANKING_SQL = f"""SELECT id,
    {sql.JULIAN_DAY("updated_at")}, {sql.JULIAN_DAY("created_at")}, {sql.JULIAN_DAY("expires_at")},
    importance, trust, length(title), length(content), coalesce(superseded_by_id, 0), pinned_at IS NOT NULL,
    session_id, project,
    {sql.speaker_part(MAX_SPEAKER_CHARS)}, {sql.is_question(QUESTION_TAIL_CHARS)}
    FROM {MEMORY_TABLE} WHERE id IN (%s)"""


def read_ranking_columns(query: str, params: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the columns for ranking of the rows whose keys a query selects."""
    with connection.cursor() as cursor:
        cursor.execute(_RANKING_SQL.replace("%s", query), params)
        yield from cursor


def read_memories(
    columns: str, keys: Iterable[int], among: QuerySet[Any] | None = None
) -> list[tuple[Any, ...]]:
    """Return columns of memories, in no order. The caller has checked access.

    ``among``: the memories that the caller can see. Those that are no longer among them are left out, because
    their level may have changed since the caller read the keys.
    """
    numbers = [int(key) for key in keys]
    if not numbers:
        return []
    chosen, params = sql.KEYS_OF_JSON, (json.dumps(numbers),)
    if among is not None:
        visible = among.filter(pk__in=key_list(numbers)).order_by().values("pk")
        chosen, params = visible.query.sql_with_params()
    return fetch_all(f"SELECT {columns} FROM {MEMORY_TABLE} WHERE id {sql.IN_FEW.format(chosen)}", params)


@cache
def column_names(model: type[models.Model], prefix: str = "") -> str:
    """Return the columns for :func:`to_object`, as SQL."""
    return ", ".join(f'{prefix}"{field.column}"' for field in model._meta.concrete_fields)


def to_object(model: type[Saved], cells: Sequence[Any], alias: str = "") -> Saved:
    """Return a saved object, given the cells of all its columns in the order of :func:`column_names`.

    ``alias``: of the connection, which is slow to look up for each of many objects.
    """
    names, converters = _read_plan(model)
    values = list(cells)
    for position, convert in converters:
        if values[position] is not None:
            values[position] = convert(values[position])
    found = model.__new__(model)  # like unpickling; to call it sends signals and sets each attribute
    found.__dict__ = dict(zip(names, values, strict=True))
    found._state = ModelState()
    found._state.adding, found._state.db = False, alias or connection.alias
    return found


@cache
def _read_plan(model: type[models.Model]) -> tuple[list[str], list[tuple[int, Callable[[Any], Any]]]]:
    """Return the names of all attributes, and the converters by position."""
    by_kind: dict[type, Callable[[Any], Any]] = {models.DateTimeField: _to_utc, models.JSONField: json.loads}
    fields = model._meta.concrete_fields
    converters = [(at, by_kind[type(field)]) for at, field in enumerate(fields) if type(field) in by_kind]
    return [field.attname for field in fields], converters


def _to_utc(stored: datetime) -> datetime:
    return stored.replace(tzinfo=UTC)


class StateBeforeStore(NamedTuple):
    """What a transaction that stores memories needs to know first.

    ``has_twins``: some memory has the content of one of them. ``has_room``: their projects have room for all.
    ``journal_end``: number and hash of the newest journal row, None without one. ``off_projects``: those in
    which agents may not store. ``caps``: the caps of projects that have their own.
    """

    has_twins: bool
    has_room: bool
    journal_end: tuple[int, str] | None
    off_projects: frozenset[str]
    caps: dict[str, int]


# The parameters: a JSON array of projects, and the default cap.
_CAPPED = f"""FROM ({sql.TEXTS_OF_JSON}) AS names
            LEFT JOIN memoryhub_project AS p ON p.name = names.value WHERE coalesce(p.max_memories, %s) > 0"""
# Live memories are only counted if more memories changed since the last count than there was room for. The
# levels and scopes let the database seek the project in the index, which begins with them.
_STATE_SQL = f"""SELECT
    EXISTS (SELECT 1 FROM {MEMORY_TABLE} WHERE content_hash {sql.IN_TEXTS}),
    CASE WHEN changes.era = %s AND changes.newest BETWEEN %s AND %s THEN NULL ELSE (SELECT count(*) FROM
        (SELECT 1 FROM {MEMORY_TABLE} WHERE sensitivity IN {LEVELS} AND scope IN {SCOPES}
        AND project {sql.IN_FEW.format(f"SELECT names.value {_CAPPED}")} AND {_IS_LIVE} LIMIT (
            SELECT coalesce(min(coalesce(p.max_memories, %s)), 0) + 1 {_CAPPED})) AS live) END,
    (SELECT {sql.JSON_LIST_OF(f"{sql.JSON_ARRAY}(name, mode, max_memories)")} FROM memoryhub_project
        WHERE (mode = 'off' OR max_memories IS NOT NULL) AND name {sql.IN_TEXTS}),
    changes.era, changes.newest, seq, hash
    FROM (SELECT (SELECT era FROM {ERA_TABLE}) AS era, {sql.LAST_CHANGE} AS newest) AS changes
    LEFT JOIN (SELECT seq, hash FROM {JOURNAL_TABLE} ORDER BY seq DESC LIMIT 1) AS journal ON true"""


class _Room(NamedTuple):
    """How many memories projects had room for at a position of the change log. ``cap``: their lowest cap."""

    cap: int
    memories: int
    era: str
    last_change: int


_MAX_ROOMS = 1000
_NO_ROOM = _Room(0, 0, "", 0)
_rooms: dict[tuple[str, int], _Room] = {}  # by projects and default cap


def read_state_before_store(
    hashes: Sequence[str], projects: Collection[str], cap: int | None, now: datetime
) -> StateBeforeStore:
    """Read what storing memories with these content hashes needs to know, in one statement.

    ``cap``: the default cap, for projects without their own; 0 means no limit, and None that no cap applies.
    The lowest cap counts for all capped projects together.
    """
    names = json.dumps(sorted(projects))
    capped = ("[]", 0) if cap is None else (names, cap)
    count, moment, room = len(hashes), adapt_moment(expiry_time(now)), _rooms.get(capped, _NO_ROOM)
    known = (room.era, room.last_change, room.last_change + room.memories - count)
    params = [json.dumps(hashes), *known, *capped, moment, capped[1], *capped, names]
    has_twins, live, listed, era, last_change, *end = fetch_one(_STATE_SQL, params)
    settings = json.loads(listed)
    off = frozenset(name for name, mode, _ in settings if mode == "off")
    caps = {name: own for name, _, own in settings if own is not None}
    limits = [] if cap is None else [limit for name in projects if (limit := caps.get(name, cap))]
    lowest = min(limits, default=0)
    if live is None and lowest != room.cap:
        del _rooms[capped]
        return read_state_before_store(hashes, projects, cap, now)
    has_room = live is None or not lowest or live + count <= lowest
    # A transaction around this one may roll back changes that it has counted.
    if live is not None and lowest > live and not connection.savepoint_ids:
        _remember_room(capped, _Room(lowest, lowest - live, era or "", last_change or 0))
    journal_end = (end[0], end[1]) if end[0] else None
    return StateBeforeStore(bool(has_twins), has_room, journal_end, off, caps)


def _remember_room(capped: tuple[str, int], room: _Room) -> None:
    if len(_rooms) >= _MAX_ROOMS:
        _rooms.clear()
    _rooms[capped] = room


# Whether the latest event of a session (the key in the first gap) has one of these marks and is recent.
IS_LATEST_EVENT = f"""EXISTS (SELECT 1 FROM
    (SELECT mark, at FROM memoryhub_event WHERE session_id = %s ORDER BY at DESC, id DESC LIMIT 1)
    AS latest WHERE mark {sql.IN_TEXTS.replace("%s", "%%s")} AND at > %%s)"""
# A session and the settings of a project (null without any), whether an event repeats its latest one, whether
# one of its events has this mark, and whether any memory, even a hidden one, names a file like those of the
# event, or has hashes of its lines: if not, there is nothing to look for.
SESSION_OF_EVENT = f"""SELECT {{columns}}, p.id, p.mode, p.paused_until, p.ignored_paths,
    {IS_LATEST_EVENT % "s.id"} AS is_repeated, EXISTS (
    SELECT 1 FROM memoryhub_event WHERE session_id = s.id AND mark = %s AND mark <> '') AS has_mark, EXISTS (
    SELECT 1 FROM memoryhub_filelink WHERE basename {sql.IN_TEXTS}) AS has_file_links,
    EXISTS (SELECT 1 FROM memoryhub_codereference
        WHERE basename {sql.IN_TEXTS}) AS has_code_references,
    EXISTS (SELECT 1 FROM memoryhub_injection WHERE session_id = s.id AND injected <> '[]') AS has_injections
    FROM (SELECT 1) AS one LEFT JOIN memoryhub_session s ON s.session_id = %s AND s.project = %s
    LEFT JOIN memoryhub_project p ON p.name = %s"""


def read_session_of_event(columns: str, params: Sequence[Any]) -> list[Any]:
    """Return one row of :data:`SESSION_OF_EVENT` with these columns of the session."""
    return list(fetch_one(SESSION_OF_EVENT.format(columns=columns), params))


def read_project(columns: str, name: str) -> tuple[Any, ...] | None:
    """Return columns of the settings of a project, None if it has none."""
    found: tuple[Any, ...] | None = fetch_one(
        f"SELECT {columns} FROM memoryhub_project WHERE name = %s", [name]
    )
    return found


def read_session_state(key: int) -> tuple[dict[str, Any], int] | None:
    """Return the state and the segment of a session, None if it was deleted."""
    row = fetch_one("SELECT state, segment FROM memoryhub_session WHERE id = %s", [key])
    return (json.loads(row[0]), row[1]) if row else None


def update_session(key: int, changes: Mapping[str, Sequence[Any]]) -> None:
    """Apply changes to a session: SQL assignments, each with its parameters."""
    params = [value for values in changes.values() for value in values]
    execute(f"UPDATE memoryhub_session SET {', '.join(changes)} WHERE id = %s", [*params, key])


_INJECTIONS_SQL = f"""SELECT at, injected FROM memoryhub_injection
    WHERE session_id = (SELECT id FROM memoryhub_session WHERE session_id = %s AND project = %s)
    AND project = %s AND sensitivity {sql.IN_TEXTS} AND at >= %s AND injected <> '[]'
    ORDER BY at DESC LIMIT %s"""


def read_injections(
    session_id: str, project: str, levels: Iterable[str], since: datetime, limit: int
) -> list[tuple[datetime, list[dict[str, Any]]]]:
    """Return the latest injections of memories in a session at these levels: moment and memories of each."""
    params = [session_id, project, project, json.dumps(list(levels)), adapt_moment(since), limit]
    return [
        (at.replace(tzinfo=UTC), json.loads(injected)) for at, injected in fetch_all(_INJECTIONS_SQL, params)
    ]


_ACCESS_SQL = f"""UPDATE {MEMORY_TABLE} SET accessed_count = accessed_count + 1, last_accessed_at = %s,
    scale = CASE WHEN (accessed_count + 1) %% %s = 0
        THEN coalesce({sql.VALUE_OF_KEY}, scale) ELSE scale END
    WHERE id {sql.IN_KEYS}"""


def count_accesses(keys: Sequence[int], at: datetime, scales: Mapping[int, str], every: int) -> None:
    """Count one access of each memory. Every ``every``-th access sets the scale given for its key."""
    execute(_ACCESS_SQL, [adapt_moment(at), every, json.dumps(scales), json.dumps(list(keys))])


_LAST_ROWS_SQL = """SELECT (SELECT hash FROM memoryhub_journalentry ORDER BY seq DESC LIMIT 1),
    (SELECT max(id) FROM memoryhub_event),
    (SELECT max(id) FROM memoryhub_injection), (SELECT max(last_at) FROM memoryhub_session),
    (SELECT min(expires_at) FROM memoryhub_memory WHERE expires_at > %s)"""


class ChangeToken(NamedTuple):
    """The newest rows of the store, and the next expiry of a memory."""

    journal: str | None
    event: int | None
    injection: int | None
    session: datetime | None
    next_expiry: datetime | None

    @property
    def without_events(self) -> tuple[object, ...]:
        """The part that changes with memories and facts, which are journaled, and not with events."""
        return self.journal, self.next_expiry


def change_token() -> ChangeToken:
    """Return a token that differs after each change of the store and each expiry. Five index lookups.

    Internal only: it depends on every project and level, so no response may contain it.
    """
    return ChangeToken(*fetch_one(_LAST_ROWS_SQL, [adapt_moment(expiry_time(timezone.now()))]))


class MatchField(_TextField):
    """The hidden FTS5 column with the name of its table: ``filter(terms__match='"word"')``."""


@MatchField.register_lookup
class Match(models.Lookup):
    """``column MATCH 'expression'``; the expression comes from :mod:`memoryhub.backends.fts_query`."""

    lookup_name = "match"
    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        left, left_params = self.process_lhs(compiler, connection)
        right, right_params = self.process_rhs(compiler, connection)
        return sql.MATCH(index=left, expression=right), (*left_params, *right_params)


class CurrentMoment(Expression):
    """The expiry time when the statement runs, so that a queryset can be used again later."""

    output_field = models.DateTimeField()

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        return "%s", (connection.ops.adapt_datetimefield_value(expiry_time(timezone.now())),)


class DocumentContains(Func):
    """``DocumentContains("detail", uids)``: the JSON document contains one of these texts, at any depth.

    ``uids`` is a queryset of one column, evaluated once for all rows.
    """

    output_field = BooleanField()

    def __init__(self, column: str, texts: QuerySet[Any], **extra: Any) -> None:
        super().__init__(F(column), Subquery(texts), **extra)

    def as_sql(  # type: ignore[override]  # a template cannot place two sources
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper
    ) -> tuple[str, tuple[str | int, ...]]:
        document, texts = self.get_source_expressions()
        column, first = compiler.compile(document)
        among, rest = compiler.compile(texts)
        return sql.DOCUMENT_HAS_ATOM(column=column, texts=among), (*first, *rest)


match_any, in_titles = sql.match_any, sql.in_titles


def word_expression(query: Query) -> str:
    """Return an expression for the word index: any word of the query."""
    return match_any(query.words)


def title_like_expression(text: str) -> str:
    """Return an expression for the word index: titles with words that start with all of these words."""
    return sql.title_beginnings(dict.fromkeys(words(text)[:MAX_TERMS]))


def trigram_expression(texts: Iterable[str]) -> str:
    """Return an expression for the trigram index: any of the texts that are long enough.

    The index stores no positions, which makes it six times smaller. So it matches all trigrams of a text in
    any order, and the scoring checks that the text is really there.
    """
    return sql.trigram_groups(_trigrams(text) for text in texts if len(text) >= TRIGRAM_LENGTH)


def _trigrams(text: str) -> Iterable[str]:
    last = min(len(text), MAX_TRIGRAMS) - TRIGRAM_LENGTH + 1
    return dict.fromkeys(text[at : at + TRIGRAM_LENGTH] for at in range(last))


def any_trigram(trigrams: Iterable[str]) -> str:
    """Return an expression for the trigram index: any of these trigrams."""
    return sql.trigram_groups([one] for one in trigrams)
