"""Memory rows, their list-valued fields and vectors: built from drafts, read, compared and replaced.

A memory can be superseded by another one, which is validated when set and hidden from some callers. A local
provider computes vectors in the transaction that writes the texts. A missing, failing or remote one never
prevents storing: the ``embed`` operation adds the vector later.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Exists, Max, Model, OuterRef, Q
from django.db.models.base import ModelState

from memoryhub import embeddings
from memoryhub.access.policy import AGENT_PREFIX, LEVELS, Actor, Clearance, level_rank
from memoryhub.backends import EMBEDDED_COLUMNS, bulk
from memoryhub.backends.change_log import STORED_TYPE
from memoryhub.backends.dialect import sql
from memoryhub.backends.statements import column_names, read_memories, to_object
from memoryhub.core.database import batched, write_transaction
from memoryhub.core.text import make_summary, make_title, new_uid
from memoryhub.core.vocabulary import Scope
from memoryhub.embeddings import Embedder, EmbeddingError, Vectors, provider
from memoryhub.embeddings.base import EmbeddingSettings
from memoryhub.embeddings.provider import current_settings, log_failure
from memoryhub.memories.errors import Forbidden, StoreError
from memoryhub.memories.schemas import (
    MAX_ALIASES,
    MAX_LIST,
    EntityDraft,
    MemoryDraft,
    remove_repeats_ignoring_case,
)
from memoryhub.models import AgentToken, Embedding, Entity, Fact, FileLink, Label, Memory, Revision, Session
from memoryhub.models.querysets import MemoryQuerySet

CHUNK_SIZE = 500  # rows in one statement: SQLite limits the number of parameters
SCALAR_FIELDS = (
    "title subtitle abstract overview category type importance trust confidence sensitivity scope project"
    " session_id key discovery_tokens pinned ttl_days content"
).split()
_NO_PROJECT = "you do not belong to a project; ask an administrator to add you to one"
LIST_FIELDS = ("tags", "concepts", "aliases", "files_read", "files_modified", "entities")
LABEL_KINDS = {"tags": "tag", "concepts": "concept", "aliases": "alias"}


def hash_content(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def resolve_project(project: str, actor: Actor) -> str:
    """Return the project to write to: the named one, or the only one that is open to the actor."""
    allowed = actor.clearance.projects
    if not project and allowed and len(allowed) == 1:
        return next(iter(allowed))
    if not actor.clearance.includes_project(project):
        named = ", ".join(sorted(allowed or ()))
        words = f"you can write only to: {named}; use one of them as project" if named else _NO_PROJECT
        raise Forbidden(words, "project")
    return project


def refuse_if_off(project: str, actor: Actor, off_projects: Collection[str]) -> None:
    """Refuse what an agent stores in a project whose mode is off. People may store there."""
    if project in off_projects and actor.name.startswith(AGENT_PREFIX):
        raise Forbidden(f"memory is switched off in the project {project}; a person can change its mode")


def resolve_owner(scope: str, actor: Actor, imported: str = "") -> str:
    """Return the owner of a new memory: the actor's for a personal one, empty for a shared one.

    ``imported``: the owner that an import names. It may be someone else if the actor writes for every owner.
    """
    if scope != Scope.PERSONAL.value:
        return ""
    if imported and imported != actor.owner:
        if not actor.clearance.every_owner:
            raise Forbidden("this personal memory belongs to someone else, who must import it", "owner")
        return imported
    if not actor.owner:
        raise Forbidden("a personal memory needs an owner; store it as project or team", "scope")
    return actor.owner


def written_by(actor: Actor) -> Q:
    """Return the condition on rows whose author is certainly the actor.

    Rows contain only the name of the agent. If agents of several people have or had it, no row matches.
    """
    if not actor.name.startswith(AGENT_PREFIX):
        return Q(author=actor.name)
    namesakes = AgentToken.objects.ever_named(actor.name.removeprefix(AGENT_PREFIX))
    return Q(~Exists(namesakes.exclude(owner=actor.owner)), author=actor.name)


def written_only_by(actor: Actor) -> Q:
    """Return the condition on memories that the actor wrote and no one else has changed.

    The actor may know that these exist, whatever their level is now.
    """
    changed_by_others = Revision.objects.filter(memory=OuterRef("pk")).exclude(actor=actor.name)
    return Q(~Exists(changed_by_others)) & written_by(actor)


def strictest_known(twins: Iterable[Memory], content_hash: str) -> Memory | None:
    """Return the twin under the strictest level among those that the actor may know of."""
    known = [twin for twin in twins if is_known(twin)]
    return max(
        known,
        key=lambda twin: (level_rank(twin.sensitivity), twin.content_hash == content_hash),
        default=None,
    )


def is_known(twin: Memory) -> bool:
    """Whether the actor may know of the twin. No one may know of one with an unknown level."""
    return twin.known and twin.sensitivity in LEVELS  # type: ignore[attr-defined]


def compute_expiry(ttl_days: float | None, now: datetime) -> datetime | None:
    """Return the time of expiry. None and 0 mean never."""
    return now + timedelta(days=ttl_days) if ttl_days else None


def restart_expiry(memory: Memory, now: datetime) -> None:
    """Set the time of expiry from the days to live. A pinned memory has none: it does not expire."""
    memory.expires_at = None if memory.pinned else compute_expiry(memory.ttl_days, now)


def build_memory(
    draft: MemoryDraft, actor: Actor, now: datetime, imported_at: datetime | None, owner: str | None
) -> Memory:
    """Return an unsaved memory made from a draft. ``expires_at`` counts from now, for old memories too.

    ``owner``: the owner, if it does not follow from the actor and the scope.
    """
    values = {name: getattr(draft, name) for name in SCALAR_FIELDS}
    if "ttl_days" not in draft.given and draft.expires_by_default:
        values["ttl_days"] = settings.MEMORYHUB.default_ttl_days
    values["ttl_days"] = values["ttl_days"] or None
    pinned = values.pop("pinned")
    values["title"] = draft.title or make_title(draft.content)
    values["abstract"] = draft.abstract or make_abstract(draft.content)
    for name in ("type", "sensitivity", "scope"):
        values[name] = str(values[name])
    at = draft.created_at or now
    values |= {
        **_default_values(),
        "uid": new_uid(),
        "project": resolve_project(draft.project, actor),
        "superseded_by_id": resolve_replacement(draft.superseded_by, actor.clearance),
        "alias_text": join_aliases(draft.aliases),
        "flags": [],
        "owner": resolve_owner(values["scope"], actor) if owner is None else owner,
        "content_hash": hash_content(draft.content),
        "author": actor.name,
        "created_at": at,
        "updated_at": at,
        "imported_at": imported_at,
        "pinned_at": now if pinned else None,
        "expires_at": None if pinned else compute_expiry(values["ttl_days"], now),
    }
    memory = Memory.__new__(Memory)  # its constructor sets one attribute at a time
    memory.__dict__.update(values, _state=ModelState())
    return memory


@cache
def _default_values() -> dict[str, Any]:
    """Return the defaults of the columns that :func:`build_memory` does not set. Computing them is slow."""
    built = {*SCALAR_FIELDS, "uid", "flags", "owner", "content_hash", "author", "superseded_by", "alias_text"}
    built |= {"created_at", "updated_at", "imported_at", "expires_at", "pinned_at"}
    return {
        field.attname: field.get_default()
        for field in Memory._meta.concrete_fields
        if field.name not in built and not (field.has_default() and callable(field.default))
    }


def join_aliases(aliases: Iterable[str]) -> str:
    """Return the value of ``Memory.alias_text``."""
    return "\n".join(sorted(aliases))


def make_abstract(content: str) -> str:
    return make_summary(content, settings.MEMORYHUB.summary_words)


_LIST_COLUMNS: dict[type[Model], tuple[str, ...]] = {
    Label: ("memory_id", "kind", "value"),
    FileLink: ("memory_id", "access", "path", "basename"),
    Entity: ("memory_id", "entity", "entity_type"),
}


def save_lists(memories: Iterable[tuple[Memory, Any]], names: Iterable[str] = LIST_FIELDS) -> None:
    """Insert the join rows of list-valued fields, for pairs of a saved memory and its draft."""
    names = list(names)
    found: dict[type[Model], list[tuple[Any, ...]]] = {model: [] for model in _LIST_COLUMNS}
    for memory, draft in memories:
        for name in names:
            for value in getattr(draft, name):
                model, row = _to_list_row(name, value)
                found[model].append((memory.pk, *row))
    for model, rows in found.items():
        if rows:
            bulk.insert(model, _LIST_COLUMNS[model], rows)


def _to_list_row(name: str, value: Any) -> tuple[type[Model], tuple[str, ...]]:
    """Return the table and the values (without the memory's key) of one item of a list-valued field."""
    if name == "entities":
        return Entity, (value.entity, value.entity_type)
    if name in LABEL_KINDS:
        return Label, (LABEL_KINDS[name], value)
    return FileLink, (name.removeprefix("files_"), value, value.rstrip("/").rpartition("/")[2])


def field_value(memory: Memory, name: str) -> Any:
    """Return a field in the shape that revisions store. The caller may not see ``superseded_by``."""
    if name == "superseded_by":
        return memory.superseded_by.uid if memory.superseded_by else None
    return list_values(memory, name) if name in LIST_FIELDS else getattr(memory, name)


def list_values(memory: Memory, name: str) -> list[Any]:
    """Return a list-valued field in the shape of the API. Uses loaded lists or prefetched rows, if any."""
    if memory.loaded_lists is not None:
        return list(memory.loaded_lists[name])
    if name == "entities":
        named = sorted((row.entity, row.entity_type) for row in memory.entities.all())
        return [{"entity": entity, "entity_type": entity_type} for entity, entity_type in named]
    if name in LABEL_KINDS:
        return sorted(row.value for row in memory.labels.all() if row.kind == LABEL_KINDS[name])
    access = name.removeprefix("files_")
    return sorted(row.path for row in memory.files.all() if row.access == access)


def to_list_values(values: Iterable[Any]) -> list[Any]:
    """Return a list of a draft in the order and shape of :func:`list_values`."""
    plain = [value.model_dump() if isinstance(value, EntityDraft) else value for value in values]
    return sorted(plain, key=lambda value: tuple(value.values()) if isinstance(value, dict) else value)


def union_list_values(memories: Iterable[Memory], name: str) -> list[Any]:
    """Return all values of a list field, the most frequent first, at most as many as it may have."""
    values = [value for memory in memories for value in list_values(memory, name)]
    if name == "entities":
        pairs = Counter((value["entity"], value["entity_type"]) for value in values)
        return [{"entity": entity, "entity_type": kind} for (entity, kind), _ in pairs.most_common(MAX_LIST)]
    return unite_values(name, [], [value for value, _ in Counter(values).most_common(MAX_LIST)])


def unite_values(name: str, own: list[Any], others: Iterable[Any]) -> list[Any]:
    """Return the own values of a list field and then the new ones, at most as many as it may have."""
    if name == "aliases":
        return remove_repeats_ignoring_case([*own, *others])[:MAX_ALIASES]
    return [*own, *(value for value in others if value not in own)][:MAX_LIST]


def update_alias_text(memory: Memory, aliases: Iterable[str]) -> None:
    """Write the denormalised column of the aliases. Call this whenever their rows change."""
    memory.alias_text = join_aliases(aliases)
    memory.save(update_fields=["alias_text"])


def extend_sessions(memories: Iterable[Memory], actor: Actor) -> None:
    """Create or extend the session that each memory names, so that it spans the memory's time."""
    spans: dict[tuple[str, str], list[datetime]] = defaultdict(list)
    for memory in memories:
        if memory.session_id:
            spans[(memory.session_id, memory.project)].append(memory.created_at)
    if spans:
        found = [(sid, project, min(times), max(times)) for (sid, project), times in spans.items()]
        Session.widen(found, actor.name)


def is_unchanged(row: Memory | Fact, seen: Mapping[str, datetime]) -> bool:
    """Whether ``updated_at`` is the same as when the person read the row. True for rows not in ``seen``."""
    return seen.get(row.uid, row.updated_at) == row.updated_at


def fetch_by_uids(memories: MemoryQuerySet, uids: Iterable[str]) -> list[Memory]:
    """Return the memories with these ids. There is no limit to the number of ids."""
    found: list[Memory] = []
    for chunk in batched(dict.fromkeys(uids), CHUNK_SIZE):
        found += memories.filter(uid__in=chunk).order_by("pk")
    return found


def fetch_by_uid(memories: MemoryQuerySet, uids: Iterable[str]) -> dict[str, Memory]:
    """Return the memories with these ids by id."""
    return {memory.uid: memory for memory in fetch_by_uids(memories, uids)}


_FIELD_NAMES = {kind: name for name, kind in LABEL_KINDS.items()}
_FIELD_NAMES |= {"read": "files_read", "modified": "files_modified"}
# The lists of a memory as JSON, in the order of the API: [kind, value, extra] of each item.
_LISTS_SQL = " UNION ALL ".join(
    f"SELECT {kind} AS kind, {value} AS value, {extra} AS extra FROM {model._meta.db_table}"  # noqa: S608
    f" WHERE memory_id = {Memory._meta.db_table}.id"
    for model, kind, value, extra in (
        (Label, "kind", "value", "''"),
        (FileLink, "access", "path", "''"),
        (Entity, "''", "entity", "entity_type"),
    )
)
_LIST_SQL = sql.JSON_LIST_OF(f"{sql.JSON_ARRAY}(kind, value, extra)")
_LISTS_SQL = f"(SELECT {_LIST_SQL} FROM ({_LISTS_SQL} ORDER BY 2, 3) AS lists)"  # noqa: S608 own names
ListValues = dict[str, list[Any]]


def load_memories(keys: Iterable[int], among: MemoryQuerySet) -> dict[int, Memory]:
    """Return memories with their list-valued fields by primary key, in one statement.

    ``among``: the memories that the caller can see, see :func:`read_memories`.
    """
    found, alias = {}, connection.alias
    for *cells, lists in read_memories(f"{column_names(Memory)}, {_LISTS_SQL}", keys, among):
        memory = to_object(Memory, cells, alias)
        memory.loaded_lists = _parse_lists(lists)
        found[memory.pk] = memory
    return found


def attach_lists(memories: Sequence[Memory]) -> None:
    """Load the list-valued fields of memories, for :func:`list_values`."""
    lists = load_lists(memories)
    for memory in memories:
        memory.loaded_lists = lists[memory.pk]


def load_lists(memories: Iterable[Memory]) -> dict[int, ListValues]:
    """Return the list-valued fields of memories by primary key, in the shape and order of the API.

    One statement for those that have none yet. ``with_details()`` makes an object of every label and path,
    which is slow for a page of memories that name a thousand files.
    """
    by_key = {memory.pk: memory for memory in memories}
    found = {key: memory.loaded_lists for key, memory in by_key.items()}
    if missing := [key for key, lists in found.items() if lists is None]:
        for key, *access, lists in read_memories(f"id, sensitivity, project, owner, {_LISTS_SQL}", missing):
            memory = by_key[key]
            # The memory may have been hidden from the caller since it was read, and its lists changed.
            if access == [memory.sensitivity, memory.project, memory.owner]:
                found[key] = _parse_lists(lists)
    # A memory may be deleted meanwhile.
    return {key: _parse_lists("[]") if lists is None else lists for key, lists in found.items()}


def _parse_lists(stored: str) -> ListValues:
    lists: ListValues = {name: [] for name in LIST_FIELDS}
    for kind, value, extra in json.loads(stored):
        if kind:
            lists[_FIELD_NAMES[kind]].append(value)
        else:
            lists["entities"].append({"entity": value, "entity_type": extra})
    return lists


def resolve_replacement(uid: str | None, clearance: Clearance) -> int | None:
    """Return the primary key of the memory with this id, which is to replace another one.

    Raise :class:`StoreError` for an unknown or hidden id, which look the same.
    """
    if uid is None:
        return None
    pk = Memory.objects.visible_to(clearance).filter(uid=uid).values_list("pk", flat=True).first()
    if pk is None:
        raise StoreError(
            "there is no memory with this id; use the id of a memory that you can see", "superseded_by"
        )
    return int(pk)


def visible_replacements(memories: Iterable[Memory], clearance: Clearance) -> dict[int, str]:
    """Return the ids of the visible memories that replace these, by primary key.

    One query, and none if no memory is superseded, which is the usual case.
    """
    pks = {memory.superseded_by_id for memory in memories if memory.superseded_by_id is not None}
    if not pks:
        return {}
    visible = Memory.objects.visible_to(clearance).filter(pk__in=pks)
    return dict(visible.values_list("pk", "uid"))


def add_revision(
    memory: Memory, before: dict[str, Any], level: str, actor: Actor, now: datetime, reason: str
) -> int:
    """Store the values that a change replaced, at the level that they had. Return the revision's number."""
    number = int(memory.revisions.aggregate(last=Max("number"))["last"] or 0) + 1
    build_revision(memory, number, before, level, actor, now, reason).save(force_insert=True)
    return number


def build_revision(
    memory: Memory, number: int, before: dict[str, Any], level: str, actor: Actor, now: datetime, reason: str
) -> Revision:
    """Return a revision that is not stored. ``level``: that of the values ``before`` the change."""
    return Revision(
        memory=memory,
        number=number,
        at=now,
        actor=actor.name,
        reason=reason,
        sensitivity=level,
        before=before,
    )


logger = logging.getLogger(__name__)
STORED_WITHOUT_VECTORS = "memories are stored without vectors, which come later"


def embedding_text(texts: Any) -> str:
    """Return the text to embed for a memory, a draft or a patch."""
    return embeddings.text_to_embed(*(getattr(texts, column) or "" for column in EMBEDDED_COLUMNS))


class PreparedVectors:
    """Vectors that are computed before the transaction that writes their texts, so that it stays short.

    ``made``: the vectors of these texts (without repeats), if another process has computed them.
    """

    def __init__(self, texts: Iterable[str] = (), made: Vectors | None = None) -> None:
        self._embedder = _local_provider()
        self._known: dict[str, Vectors] = {}
        if self._embedder is not None and made is not None:
            self._known.update(zip(dict.fromkeys(texts), made, strict=True))
        else:
            self._embed(texts)

    def insert(self, memories: Sequence[Memory]) -> None:
        if self._embedder is None or not memories:
            return
        texts = [embedding_text(memory) for memory in memories]
        self._embed(texts)
        rows = [
            (memory.pk, self._known[text])
            for memory, text in zip(memories, texts, strict=True)
            if text in self._known
        ]
        if rows:
            _insert_vectors(self._embedder.name, rows)

    def refresh(self, memory: Memory) -> None:
        """Insert the vector of a changed memory. A trigger has deleted it if a text changed."""
        if self._embedder is None:
            return
        stored = Embedding.objects.filter(memory=memory)
        if stored.filter(model=self._embedder.name).exists():
            return
        stored.delete()
        self.insert([memory])

    def _embed(self, texts: Iterable[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if self._embedder is None or not new:
            return
        try:
            self._known.update(zip(new, self._embedder.documents(new), strict=True))
        except EmbeddingError as error:
            log_failure(logger, STORED_WITHOUT_VECTORS, error)


_left_out: ContextVar[bool] = ContextVar("left_out", default=False)


@contextmanager
def without_vectors() -> Iterator[None]:
    """Write no vectors in this context: for changes that are rolled back, so that they take less time."""
    token = _left_out.set(True)
    try:
        yield
    finally:
        _left_out.reset(token)


def _local_provider() -> Embedder | None:
    """Return the provider if it runs in this process."""
    if _left_out.get():
        return None
    try:
        embedder = provider.configured()
    except EmbeddingError as error:
        log_failure(logger, STORED_WITHOUT_VECTORS, error)
        return None
    return embedder if embedder and embedder.in_process else None


def local_settings() -> EmbeddingSettings | None:
    """Return the settings of the provider if it runs in this process."""
    return current_settings() if _local_provider() else None


def memories_without_vector(model: str) -> MemoryQuerySet:
    """Return all memories without a vector of this model, including trashed ones, of every level."""
    own = Embedding.objects.filter(memory=OuterRef("pk"), model=model)
    return Memory.objects.filter(~Exists(own))


def store_vectors(model: str, passages: dict[int, str], made: Vectors) -> set[int]:
    """Store the vectors that were made of these passages. Return the keys of memories that got one.

    Skips memories whose texts changed, that were deleted, or that got a vector in the meantime.
    """
    taken: list[tuple[int, Vectors]] = []
    by_key = dict(zip(passages, made, strict=True))
    with write_transaction():
        for keys in batched(passages, CHUNK_SIZE):
            rows = memories_without_vector(model).filter(pk__in=keys).values_list("pk", *EMBEDDED_COLUMNS)
            still = [pk for pk, *texts in rows if embeddings.text_to_embed(*texts) == passages[pk]]
            Embedding.objects.filter(memory__in=still).delete()
            taken += [(pk, by_key[pk]) for pk in still]
        if taken:
            _insert_vectors(model, taken)
    return {pk for pk, _ in taken}


def _insert_vectors(model: str, rows: Sequence[tuple[int, Vectors]]) -> None:
    values = [(pk, model, encode_vector(vector)) for pk, vector in rows]
    bulk.insert(Embedding, ("memory_id", "model", "vector"), values)


def encode_vector(vector: Vectors) -> bytes:
    """Return a vector as the table stores it."""
    return vector.astype(STORED_TYPE).tobytes()


def embed_drafts(drafts: Iterable[MemoryDraft]) -> PreparedVectors:
    """Compute the drafts' vectors before a transaction is opened, if the provider runs in this process."""
    return PreparedVectors(map(embedding_text, drafts))
