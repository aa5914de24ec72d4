"""Store the contents of a file in batches, and count the outcomes.

Imported conversations are extracted here too.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from memoryhub import memories as store
from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.extraction import rules
from memoryhub.extraction.comparison import Destination
from memoryhub.extraction.conversation import parse_turns
from memoryhub.extraction.services import extract_by_model, resolve_destination
from memoryhub.facts import services
from memoryhub.memories import TooCostlyToCheck
from memoryhub.memories.create import CHUNK_CHARACTERS, CHUNK_SIZE
from memoryhub.memories.errors import NotFound, SecretDetected, StoreError
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.rows import PreparedVectors, embedding_text
from memoryhub.memories.schemas import FactDraft, MemoryDraft
from memoryhub.memories.secret_check import (
    HISTORY_TEXT_FIELDS,
    MEMORY_FIELDS,
    find_refusal,
    join_texts,
    refusal_change,
)
from memoryhub.models import Fact, Memory, Session
from memoryhub.security.secrets import CheckTooCostly
from memoryhub.transfer import restore
from memoryhub.transfer.import_files import IdMap, ImportMark, ImportReader
from memoryhub.transfer.records import (
    NO_HISTORY,
    Conversation,
    HistoryItem,
    InvalidItem,
    Item,
    Problem,
    Record,
    UnmappedField,
    infer_type,
    map_fields,
    memory_draft,
    set_default_project,
    set_default_ttl,
)
from memoryhub.transfer.reports import Tally
from memoryhub.transfer.text_workers import TextWorkers, take_result

# A batch is stored in one transaction, so other writers wait for it.
BATCH_SIZE = CHUNK_SIZE
BATCH_CHARACTERS = CHUNK_CHARACTERS  # of its contents, unless it is a single item
_OPEN_KIND = "replacement"  # the only history that every import includes: an ordinary field of a memory
_RESTORE_ONLY = "imported only with permission to restore the store"


@dataclass(frozen=True)
class LoadOptions:
    """Settings of a load. ``project`` is the default project; ``report`` is called for each failure.

    ``ttl_days``: the lifetime of memories whose item has none; 0 is for ever, None the configured default.
    ``restores``: the actor may restore the store, so ids, authors, owners and history are imported.
    ``mapping``: unknown fields and the fields of a memory that take their values.
    ``infer_types``: derive the type of a memory from its text if its item has none.
    """

    actor: Actor
    report: Callable[[str, Problem], None]
    project: str = ""
    ttl_days: float | None = None
    dry_run: bool = False
    strict: bool = False
    restores: bool = False
    mapping: Mapping[str, str] = field(default_factory=dict)
    infer_types: bool = False


def load_items(
    reader: ImportReader, options: LoadOptions, tally: Tally, ids: IdMap, workers: TextWorkers | None = None
) -> Iterator[ImportMark]:
    """Store the items; yield the mark after each batch.

    Invalid or refused items do not stop the others, unless ``strict`` is set.
    """
    for batch, mark, invalid in _look_ahead(_read_batches(reader, options, ids, workers)):
        stops = bool(batch.store(tally)) and options.strict
        if not stops:
            yield mark
        if invalid is not None:
            _report_invalid(invalid, options.report, tally)
        if stops:
            return


_BatchRead = tuple["Batch", ImportMark, InvalidItem | None]


def _read_batches(
    reader: ImportReader, options: LoadOptions, ids: IdMap, workers: TextWorkers | None
) -> Iterator[_BatchRead]:
    """Yield batches, each with the mark after it and the invalid item that ends a strict import there."""
    items: list[Item] = []
    characters = 0
    for item in reader:
        if options.strict and isinstance(item, InvalidItem):
            yield Batch(items, options, ids, workers), reader.mark(before=True), item
            return
        size = _count_characters(item)
        if items and characters + size > BATCH_CHARACTERS:
            yield Batch(items, options, ids, workers), reader.mark(before=True), None
            items, characters = [], 0
        items.append(item)
        characters += size
        if len(items) >= BATCH_SIZE:
            yield Batch(items, options, ids, workers), reader.mark(), None
            items, characters = [], 0
    yield Batch(items, options, ids, workers), reader.mark(), None


def _count_characters(item: Item) -> int:
    if draft := memory_draft(item):
        return len(draft.content)
    if isinstance(item, Conversation):
        return sum(len(str(message["content"])) for message in item.messages)
    return 0


def _look_ahead(batches: Iterator[_BatchRead]) -> Iterator[_BatchRead]:
    """Yield batches in order while workers prepare later ones. An error follows the batches before it."""
    waiting: deque[_BatchRead] = deque()
    try:
        for one in batches:
            waiting.append(one)
            if len(waiting) > one[0].ahead:
                yield waiting.popleft()
    except Exception:
        yield from waiting
        raise
    yield from waiting


def _report_invalid(item: InvalidItem, report: Callable[[str, Problem], None], tally: Tally) -> None:
    tally.failed += 1
    for problem in item.problems:
        report(item.place, problem)


class Batch:
    """Items that are stored in one transaction, with vectors computed before it.

    The project cap does not apply: it limits agents, but a person requests an import. Access times count
    from now, so that old memories do not expire or fade in the next night.
    """

    def __init__(
        self, items: Sequence[Item], options: LoadOptions, ids: IdMap, workers: TextWorkers | None = None
    ) -> None:
        self._items, self._options, self._ids = items, options, ids
        for item in items:
            map_fields(item, options.mapping)
            if options.infer_types:
                infer_type(item)
            if options.project:
                set_default_project(item, options.project)
            if options.ttl_days is not None:
                set_default_ttl(item, options.ttl_days)
        self.ahead = workers.count + 1 if workers else 0  # later batches to read before this one is stored
        self._memories = [
            item for item in items if isinstance(item, Record) and isinstance(item.draft, MemoryDraft)
        ]
        self._embedded = list(dict.fromkeys(embedding_text(one.draft) for one in self._memories))
        self._task = (
            workers.submit([join_texts(one.draft, MEMORY_FIELDS) for one in self._memories], self._embedded)
            if workers
            else None
        )
        self._is_prepared = False

    def prepare(self) -> None:
        """Check the items for secrets, compute vectors and extract the memories of conversations.

        Call this before a transaction is opened: a language model may extract, and the extraction stores each
        memory by itself. A repeated extraction adds nothing.
        """
        done = take_result(self._task)
        suspects = done.suspect if done else [True] * len(self._memories)
        self._clean = {id(one) for one, suspect in zip(self._memories, suspects, strict=True) if not suspect}
        self._vectors = PreparedVectors(self._embedded, done.vectors if done else None)
        self._refusals = {id(item): refusal for item in self._items if (refusal := self._check_secrets(item))}
        self._extracted = {
            id(item): self._extract(item) for item in self._items if isinstance(item, Conversation)
        }
        self._is_prepared = True

    def _extract(self, conversation: Conversation) -> ConversationOutcome | StoreError:
        try:
            return extract_memories(conversation, self._options.actor, dry_run=self._options.dry_run)
        except StoreError as refusal:
            return refusal

    def store(self, tally: Tally) -> int:
        """Store the items; return the number of refusals, which are reported in the order of the file."""
        if not self._items:
            return 0
        if not self._is_prepared:
            self.prepare()
        failed, self._tally, now = tally.failed, tally, timezone.now()
        self._problems: list[tuple[str, Problem]] = []
        with write_transaction():
            for kind, items in self._by_kind().items():
                self._store_kind(kind, items, now)
            if self._options.dry_run:
                transaction.set_rollback(True)
        order = {getattr(item, "place", ""): number for number, item in enumerate(self._items)}
        for place, problem in sorted(self._problems, key=lambda one: order[one[0]]):
            self._options.report(place, problem)
        return tally.failed - failed

    def _report(self, place: str, problem: Problem) -> None:
        self._problems.append((place, problem))

    def _check_secrets(self, item: Item) -> StoreError | None:
        if isinstance(item, HistoryItem):
            kind = _kind_of(item)
            return restore.find_line_refusal(kind, item.shape) if self._options.restores else None
        if not isinstance(item, Record):
            return None
        past = self._past(item.past)
        if isinstance(item.draft, FactDraft):
            return services.check_fact_secrets(item.draft, past)
        if id(item) in self._clean:
            return find_refusal(past, HISTORY_TEXT_FIELDS) if past else None
        return store.check_drafts([item.draft], [past])[0]

    def _by_kind(self) -> dict[str, list[Item]]:
        """Group by kind: sessions before memories (which would create them), references last."""
        found: dict[str, list[Item]] = {"": [], "session": [], "memory": []}
        for item in self._items:
            found.setdefault(_kind_of(item), []).append(item)
        return {kind: items for kind, items in found.items() if items}

    def _store_kind(self, kind: str, items: list[Item], now: datetime) -> None:
        if kind == "memory":
            self._store_memories([item for item in items if isinstance(item, Record)], now)
        elif kind == "fact":
            self._store_facts([item for item in items if isinstance(item, Record)], now)
        elif kind:
            self._restore_history(kind, [item for item in items if isinstance(item, HistoryItem)])
        for item in items:
            if isinstance(item, InvalidItem):
                _report_invalid(item, self._report, self._tally)
            elif isinstance(item, UnmappedField):
                self._tally.unsupported(item.what, item.count)
            elif isinstance(item, Conversation):
                self._count_extracted(item.place, self._extracted[id(item)])

    def _count_extracted(self, place: str, result: ConversationOutcome | StoreError) -> None:
        if isinstance(result, StoreError):
            self._refuse(place, result)
            return
        self._tally.count("conversations", result.outcome)
        for outcome, count in result.memories.items():
            self._tally.count("extracted memories", outcome, count)
        for note in result.notes:
            self._tally.unsupported(note)

    def _store_memories(self, records: list[Record], now: datetime) -> None:
        options = self._options
        drafts = [record.draft for record in records if isinstance(record.draft, MemoryDraft)]
        histories = [self._past(record.past) for record in records]
        results = store.create_memories(
            drafts,
            options.actor,
            enforce_cap=False,
            imported_at=now,
            vectors=self._vectors,
            histories=histories,
            refusals=[self._refusals.get(id(record)) for record in records],
        )
        stored_ids: dict[str, str] = {}
        for record, draft, past, result in zip(records, drafts, histories, results, strict=True):
            if isinstance(result, StoreError):
                self._refuse(record.place, result)
                continue
            if record.source_id:
                stored_ids[record.source_id] = result.memory.uid
            ended = past is not None and past.has_ended(now)
            self._tally.memory(draft, result, ended=ended, trusted=options.restores)
            if result.outcome == "created" or result.revived:
                self._tally.add_created("memories", result.memory)
        self._ids.add(stored_ids)

    def _past(self, past: ImportedHistory) -> ImportedHistory | None:
        if past is NO_HISTORY:
            return None
        return past if self._options.restores else past.anonymous()

    def _store_facts(self, records: list[Record], now: datetime) -> None:
        pairs = [(record, record.draft) for record in records if isinstance(record.draft, FactDraft)]
        known = self._ids.find(draft.memory_id or "" for _, draft in pairs)
        stored_ids: dict[str, str] = {}
        for record, draft in pairs:
            try:
                fact, outcome = self._store_fact(draft, record, known, now)
            except StoreError as refusal:
                self._refuse(record.place, refusal)
                continue
            self._tally.count("facts", outcome)
            if outcome == "created":
                self._tally.add_created("facts", fact)
            if record.source_id:
                stored_ids[restore.fact_key(record.source_id)] = fact.uid
        self._ids.add(stored_ids)

    def _store_fact(
        self, draft: FactDraft, record: Record, known: dict[str, str], now: datetime
    ) -> tuple[Fact, str]:
        """Store a fact. Refuse one whose memory was not imported: it could become visible to others."""
        if refusal := self._refusals.get(id(record)):
            if isinstance(refusal, SecretDetected):
                change = refusal_change(refusal, draft, self._options.actor, "fact")
                journal.record(self._options.actor, [change], now)
            raise refusal
        if draft.memory_id:
            memory_id = known.get(draft.memory_id)
            if memory_id is None and not (self._options.restores and self._is_stored(draft.memory_id)):
                raise NotFound("its memory was not imported", "memory_id")
            memory_id = memory_id or draft.memory_id
            # In a dry run, memories of earlier batches do not exist.
            draft = draft.model_copy(update={"memory_id": None if self._options.dry_run else memory_id})
        past = self._past(record.past)
        if past is None:
            fact, is_new = services.create_fact(draft, self._options.actor, now, checked=True)
            return fact, "created" if is_new else "updated"
        fact, is_new = services.import_fact(draft, past, self._options.actor, now)
        return fact, "created" if is_new else "unchanged"

    def _is_stored(self, uid: str) -> bool:
        return Memory.objects.visible_to(self._options.actor.clearance).filter(uid=uid).exists()

    def _restore_history(self, kind: str, items: list[HistoryItem]) -> None:
        if not self._options.restores and kind != _OPEN_KIND:
            self._tally.unsupported(f"{restore.KINDS[kind].label}: {_RESTORE_ONLY}", len(items))
            return
        shapes = [item.shape for item in items]
        refusals = [self._refusals.get(id(item)) for item in items]
        results = restore.restore_lines(
            kind, shapes, self._options.actor, self._ids, dry_run=self._options.dry_run, refusals=refusals
        )
        for item, result in zip(items, results, strict=True):
            if isinstance(result, StoreError):
                self._refuse(item.place, result)
            else:
                self._tally.count(restore.KINDS[kind].label, "created" if result else "unchanged")

    def _refuse(self, place: str, refusal: StoreError) -> None:
        self._tally.failed += 1
        self._report(place, Problem(refusal.field, refusal.message))


def _kind_of(item: Item) -> str:
    if isinstance(item, Record):
        return "fact" if isinstance(item.draft, FactDraft) else "memory"
    return str(getattr(item.shape, "kind", "")) if isinstance(item, HistoryItem) else ""


@dataclass
class ConversationOutcome:
    """The outcome of a conversation, the outcomes of its memories, and deviations from the configuration."""

    outcome: str
    memories: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


def extract_memories(conversation: Conversation, actor: Actor, *, dry_run: bool) -> ConversationOutcome:
    """Extract and store the memories of a conversation, or count the candidates of the rules in a dry run.

    A conversation that has not grown since the last import is ``unchanged``. Raise StoreError.
    """
    destination = resolve_destination(
        Destination(
            conversation.project,
            conversation.session_id,
            conversation.scope.value,
            tags=(f"source:{conversation.program}",),
            created_at=conversation.started_at,
        ),
        actor,
    )
    if _is_imported(conversation, destination, actor):
        return ConversationOutcome("unchanged")
    try:
        turns = parse_turns(conversation.messages)
    except CheckTooCostly:
        raise TooCostlyToCheck("messages") from None
    if dry_run:
        return ConversationOutcome("read", Counter({"candidate": len(rules.extract(turns))}))
    found = extract_by_model(turns, destination, actor)
    _mark_as_imported(conversation, destination, actor)
    return ConversationOutcome("read", Counter(one["outcome"] for one in found.results), found.notes)


def _importer(actor: Actor) -> dict[str, str]:
    """Return the session state that identifies the importer, so that it reveals no imports of others."""
    return {"imported_by": actor.owner or actor.name}


def _is_imported(conversation: Conversation, destination: Destination, actor: Actor) -> bool:
    sessions = Session.objects.filter(session_id=destination.session_id, project=destination.project)
    return sessions.filter(ended_at__gte=conversation.last_at, state=_importer(actor)).exists()


def _mark_as_imported(conversation: Conversation, destination: Destination, actor: Actor) -> None:
    session_id, project = destination.session_id, destination.project
    span = (session_id, project, conversation.started_at, conversation.last_at)
    with write_transaction():
        Session.widen([span], conversation.program)
        Session.objects.filter(session_id=session_id, project=project).update(
            ended_at=conversation.last_at, end_reason="imported", state=_importer(actor)
        )
