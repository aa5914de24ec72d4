"""Create, change, end and delete facts. The only module that writes them.

Each change and its journal row are one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from memoryhub.access.filters import level_filter, memory_filter
from memoryhub.access.policy import LEVELS, Actor
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.core.dates import parse_moment
from memoryhub.core.text import new_uid
from memoryhub.core.vocabulary import ProjectMode
from memoryhub.memories.errors import Conflict, NotFound, StoreError
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.rows import is_unchanged, refuse_if_off, resolve_project, written_by, written_only_by
from memoryhub.memories.schemas import FactDraft
from memoryhub.memories.secret_check import FACT_FIELDS, find_refusal, journal_refusals
from memoryhub.memories.undo import Inverse, Undo, inverse_of
from memoryhub.memories.update import FACT_IDENTITY, next_copy_number
from memoryhub.models import Fact, JournalEntry, Memory, Project
from memoryhub.models.querysets import FactQuerySet

_TRIPLE_FIELDS = ("subject", "predicate", "object")
MAX_FACTS = 500  # ended or deleted in one action


def create_fact(
    draft: FactDraft, actor: Actor, now: datetime | None = None, *, checked: bool = False
) -> tuple[Fact, bool]:
    """Store a triple. An existing one gets the new confidence. Returns the fact and whether it is new.

    An ended fact becomes valid again from now on and counts as new. ``checked``: the caller is in a
    transaction and has already called :func:`check_fact_secrets`.
    """
    now = now or timezone.now()
    if not checked:
        with journal_refusals(draft, actor, "fact"):
            if refusal := check_fact_secrets(draft):
                raise refusal
    with write_transaction():
        identity = _identity(draft, actor)
        off = [identity["project"]] if Project.named(identity["project"]).mode == ProjectMode.OFF else []
        refuse_if_off(identity["project"], actor, off)
        memory = _find_memory(draft.memory_id, actor)
        equal_facts = _same_facts(identity)
        copy = next_copy_number(equal_facts)  # 0: there is none
        repeated = _find_repeated(equal_facts, actor) if copy else None
        created = repeated is None or _starts_again(repeated, actor, now)
        period = _ended_period(repeated) if repeated and created else {}
        fact = repeated or Fact(**identity, author=actor.name, created_at=now, valid_from=now, copy=copy)
        _apply_draft(fact, draft, memory, actor, now, restart=created)
        fact.save()
        journal.record(actor, [journal.fact_change("insert" if created else "update", fact, **period)], now)
    return fact, created


def check_fact_secrets(draft: FactDraft, past: ImportedHistory | None = None) -> StoreError | None:
    """Return an error if the fact contains a secret. Call it before a transaction starts."""
    return find_refusal(draft, FACT_FIELDS) or (find_refusal(past, ("author",)) if past else None)


def import_fact(
    draft: FactDraft, past: ImportedHistory, actor: Actor, now: datetime | None = None
) -> tuple[Fact, bool]:
    """Store a triple with its history. A fact that the actor may know of is not changed.

    The caller has already called :func:`check_fact_secrets`.
    """
    now = now or timezone.now()
    with write_transaction():
        identity = _identity(draft, actor)
        memory = _find_imported_memory(draft.memory_id, actor)
        if existing := _find_imported(identity, past, actor):
            return existing, False
        equal_facts = _same_facts(identity)
        is_free = past.uid and not equal_facts.filter(copy=past.copy).exists()
        fact = Fact(
            **identity,
            author=past.author or actor.name,
            copy=past.copy if is_free else next_copy_number(equal_facts),
        )
        if past.uid and not Fact.objects.filter(uid=past.uid).exists():
            fact.uid = past.uid
        fact.confidence, fact.session_id, fact.memory = draft.confidence, draft.session_id, memory
        fact.created_at = min(past.created_at or past.valid_from or past.updated_at or now, now)
        fact.updated_at = min(past.updated_at or fact.created_at, now)
        fact.valid_from = past.valid_from or fact.created_at
        fact.valid_until = past.valid_until
        fact.save()
        journal.record(actor, [journal.fact_change("insert", fact)], now)
    return fact, True


def import_superseded(uid: str, by: str, actor: Actor) -> bool:
    """Set the successor of an ended fact; False if it is set already. Call it in a transaction."""
    found = {fact.uid: fact for fact in _not_hidden(Fact.objects.filter(uid__in=[uid, by]), actor)}
    if len(found) < 2:
        raise NotFound("a fact of this pair is not in this store", "fact_id")
    fact, successor = found[uid], found[by]
    if fact.superseded_by_id == successor.pk:
        return False
    if fact.superseded_by_id or fact.valid_until is None:
        raise Conflict("this fact did not end here for another one", "fact_id")
    fact.superseded_by = successor
    fact.save(update_fields=["superseded_by"])
    return True


def _identity(draft: FactDraft, actor: Actor) -> dict[str, str]:
    """Return the values that make a fact unique, together with ``copy``."""
    return {
        **{name: getattr(draft, name) for name in _TRIPLE_FIELDS},
        "project": resolve_project(draft.project, actor),
        "sensitivity": draft.sensitivity.value,
    }


def _find_imported(identity: Mapping[str, object], past: ImportedHistory, actor: Actor) -> Fact | None:
    """Return the existing fact with the imported id, or with the same content in the same place."""
    found: Fact | None = None
    if past.uid:
        found = _not_hidden(Fact.objects.filter(uid=past.uid), actor).first()
    if found is None:
        hidden = Fact.objects.hidden_from(actor.clearance)
        own_above = written_by(actor) & ~level_filter(actor.clearance)
        equal_facts = _same_facts(identity).filter(own_above | ~Q(pk__in=hidden.values("pk")))
        found = (equal_facts.filter(copy=past.copy) if past.uid else equal_facts.order_by("copy")).first()
    return found


def _find_imported_memory(uid: str | None, actor: Actor) -> Memory | None:
    """Return the memory that a fact was extracted from, also one in the trash.

    The actor may also have imported it at a level that they cannot read.
    """
    if not uid:
        return None
    known = memory_filter(actor.clearance) | written_only_by(actor)
    memory: Memory | None = Memory.objects.filter(known, uid=uid, sensitivity__in=LEVELS).first()
    if memory is None:
        raise NotFound("its memory is not in this store", "memory_id")
    return memory


def _find_repeated(equal_facts: FactQuerySet, actor: Actor) -> Fact | None:
    """Return the fact to update: one that the actor may know of, or stored at a level that they cannot read.

    Other facts with the same content are neither revealed nor changed; the actor gets a separate row.
    """
    hidden = Fact.objects.hidden_from(actor.clearance).filter(pk=OuterRef("pk"))
    own_above = written_by(actor) & ~level_filter(actor.clearance)
    visible = Fact.objects.visible_to(actor.clearance).filter(pk=OuterRef("pk"))
    known = equal_facts.filter(own_above | ~Exists(hidden)).annotate(shown=Exists(visible))
    fact: Fact | None = known.select_related("memory").order_by("-shown", "copy").first()
    return fact


def _starts_again(fact: Fact, actor: Actor, now: datetime) -> bool:
    """Return whether the fact has ended for an actor who can read its level."""
    at_level = actor.clearance.allows(fact.project, fact.sensitivity)
    current = Fact.objects.visible_to(actor.clearance).current(now)
    return at_level and not current.filter(pk=fact.pk).exists()


def start_time(fact: Fact) -> datetime:
    """Return the time from which a fact is valid."""
    return fact.valid_from or fact.created_at


def _ended_period(fact: Fact) -> dict[str, str]:
    """Return the period of an ended fact, for the journal entry of its restart."""
    if fact.valid_until is None:
        return {}
    return {"held_from": start_time(fact).isoformat(), "held_until": fact.valid_until.isoformat()}


def _apply_draft(
    fact: Fact, draft: FactDraft, memory: Memory | None, actor: Actor, now: datetime, *, restart: bool
) -> None:
    """Apply a draft. ``restart``: the fact is new, or valid again after it had ended."""
    fact.confidence, fact.updated_at = draft.confidence, now
    if restart:
        fact.memory, fact.session_id, fact.author = memory, draft.session_id, actor.name
        fact.created_at = fact.valid_from = now
        fact.valid_until = fact.superseded_by = None
    fact.memory = memory or fact.memory
    fact.session_id = draft.session_id or fact.session_id


def update_fact(uid: str, draft: FactDraft, actor: Actor, *, unchanged_since: datetime | None = None) -> Fact:
    """Replace the values of a fact by those of a draft.

    Raises :class:`NotFound` if the actor cannot see it, and :class:`Conflict` if the actor may know of
    another fact with the new content, or if the fact changed after ``unchanged_since``, the ``updated_at`` of
    the edited version.
    """
    now = timezone.now()
    with journal_refusals(draft, actor, "fact", uid):
        if refusal := check_fact_secrets(draft):
            _find_fact(uid, actor)  # NotFound comes first
            raise refusal
    with write_transaction():
        fact = _find_fact(uid, actor)
        if unchanged_since and fact.updated_at != unchanged_since:
            raise Conflict("someone has changed this fact since you opened it; reload it", "updated_at")
        values = {
            **_identity(draft, actor),
            "session_id": draft.session_id,
            "confidence": draft.confidence,
            "memory": _find_memory(draft.memory_id, actor),
        }
        changed = sorted(name for name, value in values.items() if getattr(fact, name) != value)
        if not changed:
            return fact
        if not set(FACT_IDENTITY).isdisjoint(changed):
            fact.copy = _copy_for_update(_same_facts(values).exclude(pk=fact.pk), actor)
        for name, value in values.items():
            setattr(fact, name, value)
        fact.updated_at = now
        fact.save()
        journal.record(actor, [journal.fact_change("update", fact, fields=changed)], now)
    return fact


def _copy_for_update(equal_facts: FactQuerySet, actor: Actor) -> int:
    """Return the ``copy`` among facts with the same content. Conflict if the actor may know of one."""
    if _not_hidden(equal_facts, actor).exists():
        raise Conflict("the same fact exists in this project and level; change that one", "object")
    return next_copy_number(equal_facts)


def delete_fact(uid: str, actor: Actor) -> Fact:
    """Delete a fact. Raises NotFound if the actor cannot see it."""
    if not (deleted := delete_facts([uid], actor)):
        raise NotFound("there is no such fact")
    return deleted[0]


def delete_facts(
    uids: Iterable[str],
    actor: Actor,
    now: datetime | None = None,
    *,
    seen: Mapping[str, datetime] | None = None,
) -> list[Fact]:
    """Delete the visible facts, at most :data:`MAX_FACTS`. ``seen``: as in :func:`end_facts`."""
    with write_transaction():
        visible = _visible_facts(actor)
        facts, _ = _split_outdated(visible.filter(uid__in=_unique_uids(uids)), seen)
        journal.record(actor, [journal.fact_change("delete", fact) for fact in facts], now or timezone.now())
        Fact.objects.filter(pk__in=[fact.pk for fact in facts]).delete()
    return facts


@dataclass(frozen=True)
class EndedFacts:
    """``first`` and ``last``: numbers of the journal rows, which :func:`undo_end_facts` needs with the id.

    ``outdated``: facts that changed since the person read them, and were not ended.
    """

    id: str
    facts: list[Fact]
    outdated: list[Fact]
    first: int = 0
    last: int = 0


def end_facts(
    uids: Iterable[str],
    actor: Actor,
    now: datetime | None = None,
    *,
    seen: Mapping[str, datetime] | None = None,
) -> EndedFacts:
    """End the visible current facts now. Others are skipped.

    ``seen``: ``updated_at`` of the facts as the person read them; later changes prevent the end. Raises
    StoreError for more than :data:`MAX_FACTS`.
    """
    now = now or timezone.now()
    wanted, action = _unique_uids(uids), new_uid()
    with write_transaction():
        before = journal.last_seq()
        visible = _visible_facts(actor).current(now)
        facts, outdated = _split_outdated(visible.filter(uid__in=wanted).order_by("pk"), seen)
        changes = []
        for fact in facts:
            was = fact.valid_until.isoformat() if fact.valid_until else None
            fact.valid_until = now
            fact.save(update_fields=["valid_until"])
            changes.append(journal.fact_change("end", fact, act=action, was=was))
        journal.record(actor, changes, now)
    return EndedFacts(action, facts, outdated, before + 1 if facts else 0, before + len(facts))


def undo_end_facts(action: str, actor: Actor, first: int, last: int) -> list[Fact]:
    """Undo :func:`end_facts` of this actor: the facts are valid as before.

    Facts that were ended or superseded again since are skipped. Raises :class:`NotFound` if there is no such
    action.
    """
    return Undo.of_span(action, actor, first, last, about="fact").run().restored


def _restore_ended(undo: Undo, rows: Sequence[JournalEntry]) -> int:
    entries = {row.object_id: row for row in rows}
    restored = [
        fact
        for fact in _visible_facts(undo.actor).filter(uid__in=entries).order_by("pk")
        if fact.valid_until == entries[fact.uid].at and fact.superseded_by_id is None
    ]
    for fact in restored:
        fact.valid_until = parse_moment(entries[fact.uid].detail["was"])
        fact.save(update_fields=["valid_until"])
    changes = [journal.fact_change("undo_end", fact, undoes=undo.id) for fact in restored]
    journal.record(undo.actor, changes, undo.now)
    undo.restored += restored
    return len(restored)


inverse_of(Inverse(lambda rows: rows[::-1], _restore_ended), "end", about="fact")


def _split_outdated(
    facts: FactQuerySet, seen: Mapping[str, datetime] | None
) -> tuple[list[Fact], list[Fact]]:
    """Return the facts that are unchanged since the person read them, and those that changed."""
    same: list[Fact] = []
    outdated: list[Fact] = []
    for fact in facts:
        (same if is_unchanged(fact, seen or {}) else outdated).append(fact)
    return same, outdated


def _unique_uids(uids: Iterable[str]) -> list[str]:
    wanted = list(dict.fromkeys(uids))
    if len(wanted) > MAX_FACTS:
        raise StoreError(f"at most {MAX_FACTS} facts at once; narrow the selection", "uid")
    return wanted


def _not_hidden(facts: FactQuerySet, actor: Actor) -> FactQuerySet:
    """Return the facts that the actor may know of."""
    return facts.exclude(pk__in=Fact.objects.hidden_from(actor.clearance).values("pk"))


def _visible_facts(actor: Actor) -> FactQuerySet:
    return Fact.objects.visible_to(actor.clearance).select_related("memory")


def _find_fact(uid: str, actor: Actor) -> Fact:
    fact: Fact | None = _visible_facts(actor).filter(uid=uid).first()
    if fact is None:
        raise NotFound("there is no such fact")
    return fact


def _same_facts(values: Mapping[str, object]) -> FactQuerySet:
    """Return the facts with the same content, project and level."""
    identity = {name: values[name] for name in FACT_IDENTITY}
    return Fact.objects.filter(**identity)


def _find_memory(uid: str | None, actor: Actor) -> Memory | None:
    if not uid:
        return None
    memory: Memory | None = Memory.objects.visible_to(actor.clearance).live().filter(uid=uid).first()
    if memory is None:
        raise NotFound(
            "there is no such memory; omit memory_id, or send the id of a memory that you can see",
            "memory_id",
        )
    return memory
