"""Facts: subject, predicate, object. The only writer of them; each change and its journal row are one transaction."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from memoryhub import journal
from memoryhub.drafts import FactDraft
from memoryhub.models import Fact, Memory
from memoryhub.querysets import FactQuerySet
from memoryhub.sensitivity import Actor, Clearance
from memoryhub.store.errors import NotFound
from memoryhub.store.rows import project_for


def store_fact(draft: FactDraft, actor: Actor, now: datetime | None = None) -> tuple[Fact, bool]:
    """Store a triple; the same one again updates its confidence. Returns the fact and whether it is new."""
    now = now or timezone.now()
    with transaction.atomic():
        project = project_for(draft.project, actor)
        memory = _memory(draft.memory_id, actor)
        fact, created = Fact.objects.get_or_create(
            subject=draft.subject,
            predicate=draft.predicate,
            object=draft.object,
            project=project,
            sensitivity=draft.sensitivity.value,
            defaults={
                "confidence": draft.confidence,
                "session_id": draft.session_id,
                "memory": memory,
                "author": actor.name,
                "created_at": now,
                "updated_at": now,
                "valid_from": now,
            },
        )
        if not created:
            fact.confidence, fact.updated_at = draft.confidence, now
            fact.memory = memory or fact.memory
            fact.session_id = draft.session_id or fact.session_id
            fact.save()
        journal.record(actor, [journal.of_fact("insert" if created else "update", fact)], now)
    return fact, created


def query_facts(
    clearance: Clearance,
    *,
    subject: str = "",
    predicate: str = "",
    object: str = "",
    min_confidence: float = 0.0,
    project: str = "",
    session_id: str = "",
) -> FactQuerySet:
    """Facts that fit every filter that is given, newest first. Lazy."""
    facts: FactQuerySet = Fact.objects.visible_to(clearance)
    wanted = {
        "subject": subject,
        "predicate": predicate,
        "object": object,
        "project": project,
        "session_id": session_id,
    }
    facts = facts.filter(**{name: value for name, value in wanted.items() if value})
    if min_confidence > 0:
        facts = facts.filter(confidence__gte=min_confidence)
    return facts.select_related("memory").order_by("-updated_at", "-pk")


def delete_fact(uid: str, actor: Actor, now: datetime | None = None) -> Fact:
    """Remove a fact; NotFound when there is none that the actor may see."""
    with transaction.atomic():
        fact = Fact.objects.visible_to(actor.clearance).filter(uid=uid).select_related("memory").first()
        if fact is None:
            raise NotFound(f"there is no fact {uid}")
        journal.record(actor, [journal.of_fact("delete", fact)], now or timezone.now())
        fact.delete()
    return fact  # type: ignore[no-any-return]


def _memory(uid: str | None, actor: Actor) -> Memory | None:
    if not uid:
        return None
    memory: Memory | None = Memory.objects.visible_to(actor.clearance).filter(uid=uid).first()
    if memory is None:
        raise NotFound(f"there is no memory {uid}; leave memory_id out or name one", "memory_id")
    return memory
