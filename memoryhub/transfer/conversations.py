"""Extract the memories of imported conversations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from memoryhub.access.policy import Actor
from memoryhub.core.database import write_transaction
from memoryhub.extraction import queue, rules
from memoryhub.extraction.comparison import Destination
from memoryhub.extraction.conversation import parse_turns
from memoryhub.extraction.services import extract_by_model
from memoryhub.memories import TooCostlyToCheck
from memoryhub.models import Session
from memoryhub.security.secrets import CheckTooCostly
from memoryhub.transfer.records import Conversation


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
    destination = queue.resolve_destination(
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
