"""Corrections of a project's page: changes of the memories and facts that its lines come from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.utils import timezone

from memoryhub.access.policy import Actor, Sensitivity
from memoryhub.capture.projects import configure_project
from memoryhub.core.database import write_transaction
from memoryhub.core.text import collapse_whitespace
from memoryhub.facts.services import EndedFacts, end_facts
from memoryhub.injection.project_page import OFF_PAGE, SECTIONS, memory_line, page_memories
from memoryhub.memories import BulkResult, Conflict, NotFound, StoreError, apply_bulk_action, create_memory
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Fact, Memory, Project

Action = Literal["add", "reword", "pin", "unpin", "leave_out", "not_true"]
MAX_TEXT = 500  # characters of a line
LINE_IMPORTANCE = 0.8  # of a line that a person writes
_BULK_KINDS = {"pin": "pin", "unpin": "unpin", "not_true": "trash", "leave_out": "tag"}


@dataclass(frozen=True)
class Correction:
    """A change of one line. ``kind`` and ``uid`` name its source; a new line has a ``section`` instead."""

    action: Action
    kind: Literal["memory", "fact"] = "memory"
    uid: str = ""
    section: str = ""
    text: str = ""


@dataclass(frozen=True)
class Corrected:
    """The result. ``memory``: the changed or new one.

    An undo needs the others: the ``change`` of a memory, ``ended`` facts, the id of a change of ``settings``.
    """

    memory: Memory | None = None
    change: BulkResult | None = None
    ended: EndedFacts | None = None
    settings: str = ""


def correct_page(project: str, correction: Correction, actor: Actor) -> Corrected:
    """Apply a correction to the memory or fact that the line comes from, or store a new pinned memory.

    Journaled, and undone like any change of a memory or fact. Raise :class:`StoreError` for an invalid text
    or section, and :class:`NotFound` for a line that the actor cannot see.
    """
    now = timezone.now()
    text = _check_text(correction)
    if correction.action == "add":
        return Corrected(_add_line(project, correction.section, text, actor, now))
    if correction.kind == "fact":
        return _correct_fact(project, correction, text, actor, now)
    memory = page_memories(project, actor.clearance, now).filter(uid=correction.uid).first()
    if memory is None:
        raise NotFound("there is no such line on the page")
    if correction.action == "reword":
        kind, values = "set", _reworded(memory, text)
    else:
        kind = _BULK_KINDS[correction.action]
        values = {"tag": OFF_PAGE} if kind == "tag" else {}
    result = apply_bulk_action(kind, [memory.uid], actor, reason="project page", now=now, **values)
    if result.refused:
        raise Conflict(result.refused[0][1], "id")
    return Corrected(result.done[0] if result.done else memory, result)


def _check_text(correction: Correction) -> str:
    text = collapse_whitespace(correction.text)
    if correction.action not in ("add", "reword"):
        return ""
    if not text:
        raise StoreError("must not be empty", "text")
    if len(text) > MAX_TEXT:
        raise StoreError(f"must have at most {MAX_TEXT} characters; a line of the page is short", "text")
    return text


def _add_line(
    project: str,
    section: str,
    text: str,
    actor: Actor,
    now: datetime,
    level: Sensitivity = Sensitivity.PUBLIC,
) -> Memory:
    rules = next((one for one in SECTIONS if one.key == section), None)
    if rules is None:
        raise StoreError(f"must be one of: {', '.join(one.key for one in SECTIONS)}", "section")
    draft = MemoryDraft(
        content=text,
        project=project,
        type=rules.draft_type,
        tags=[rules.tag],
        importance=LINE_IMPORTANCE,
        sensitivity=level,
        pinned=True,
    )
    return create_memory(draft, actor, now).memory


def _reworded(memory: Memory, text: str) -> dict[str, Any]:
    """Return the changed fields: the text if the line shows all of it, otherwise the title."""
    _, is_whole = memory_line(memory, memory.content)
    if is_whole:
        return {"content": text, "title": "", "abstract": ""}
    first, separator, rest = memory.content.partition("\n")
    if separator and collapse_whitespace(first.lstrip("# ")) == collapse_whitespace(memory.title):
        return {"title": text, "content": f"# {text}\n{rest}"}
    return {"title": text}


def _correct_fact(project: str, correction: Correction, text: str, actor: Actor, now: datetime) -> Corrected:
    """End a fact, leave it out, or replace it by a pinned memory with the new text and the same level."""
    facts = Fact.objects.visible_to(actor.clearance).current(now)
    fact = facts.filter(project=project, uid=correction.uid).first()
    if fact is None:
        raise NotFound("there is no such line on the page")
    if correction.action == "leave_out":
        return Corrected(settings=_leave_out_fact(fact, actor, now))
    if correction.action not in ("reword", "not_true"):
        raise StoreError("a fact cannot be pinned; reword it, or add a line", "action")
    memory = None
    if correction.action == "reword":
        level = Sensitivity(fact.sensitivity)
        memory = _add_line(project, correction.section or "decisions", text, actor, now, level)
    return Corrected(memory, ended=end_facts([fact.uid], actor, now))


def _leave_out_fact(fact: Fact, actor: Actor, now: datetime) -> str:
    """Leave a public fact out of its project's page. The settings of a project are public themselves."""
    levels = {fact.sensitivity, fact.memory.sensitivity if fact.memory else fact.sensitivity}
    if levels != {Sensitivity.PUBLIC.value}:
        raise StoreError("only a public fact can be left out; end it if it is not true any more", "action")
    with write_transaction():
        left_out = [*Project.named(fact.project).off_page_facts, fact.uid]
        return configure_project(fact.project, actor, now, off_page_facts=left_out).undo
