"""Session summaries and checkpoints: memories made from the events of a session."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Prefetch, Q

from memoryhub import memories as store
from memoryhub.access.policy import LEVELS, Actor, Clearance, level_rank, stricter_level
from memoryhub.capture.observation import tool_kind
from memoryhub.capture.services import CAPTURED_TAG
from memoryhub.capture.session_state import locked_state
from memoryhub.core.text import shorten
from memoryhub.core.transactions import write_transaction
from memoryhub.core.vocabulary import MemoryType, Scope
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import Event, Label, Memory, Session
from memoryhub.models.querysets import EventQuerySet, MemoryQuerySet

MAX_SECTION_LINES = 12  # of one section; the most important ones, in the order of time
MAX_FILES = 20
MAX_LINE_CHARS = 200
_SECTIONS = (
    ("Decisions", (MemoryType.DECISION,)),
    ("Problems solved", (MemoryType.BUGFIX,)),
    ("Done", (MemoryType.FEATURE, MemoryType.REFACTOR, MemoryType.CHANGE)),
    ("Learnt", (MemoryType.DISCOVERY,)),
)


@dataclass(frozen=True)
class SummaryItem:
    """One memory of the session, as far as a summary tells of it."""

    type: str
    title: str
    importance: float
    concepts: tuple[str, ...] = ()


def format_summary(told: Sequence[SummaryItem], modified: Iterable[str], asked: str = "") -> str:
    """The text of a summary; empty when nothing was kept and no file was changed."""
    files = list(dict.fromkeys(modified))
    if not told and not files:
        return ""
    parts = [f"Asked for: {asked}"] if asked else []
    known = [kind for _, kinds in _SECTIONS for kind in kinds]
    for name, kinds in (*_SECTIONS, ("Also noted", ())):
        lines = [one for one in told if (one.type in kinds if kinds else one.type not in known)]
        if lines:
            parts.append("\n".join([f"{name}:", *_format_items(lines)]))
    if files:
        more = f" and {len(files) - MAX_FILES} more" if len(files) > MAX_FILES else ""
        parts.append(f"Files changed: {', '.join(files[:MAX_FILES])}{more}")
    return "\n\n".join(parts)


def format_headline(told: Sequence[SummaryItem], modified: Sequence[str]) -> str:
    """What stands above it: the most important thing, and how many more there are."""
    if not told:
        return f"Changes in {len(modified)} file{'s' if len(modified) != 1 else ''}"
    best = max(told, key=lambda one: one.importance)
    return shorten(best.title, 120) + (f", and {len(told) - 1} more" if len(told) > 1 else "")


def format_abstract(told: Sequence[SummaryItem], chars: int = 200) -> str:
    """The most important things in one line, as many as there is room for; empty when nothing was kept."""
    line = ""
    for one in sorted(told, key=lambda one: -one.importance):
        longer = f"{line}; {one.title}" if line else one.title
        if line and len(longer) > chars:
            break
        line = longer
    return shorten(line, chars)


def shared_concepts(told: Sequence[SummaryItem], most: int = 3) -> list[str]:
    """The concepts of most of them."""
    counted: dict[str, int] = {}
    for one in told:
        for concept in one.concepts:
            counted[concept] = counted.get(concept, 0) + 1
    return sorted(counted, key=lambda name: (-counted[name], name))[:most]


def _format_items(told: Sequence[SummaryItem]) -> list[str]:
    best = sorted(range(len(told)), key=lambda number: -told[number].importance)[:MAX_SECTION_LINES]
    shown = [f"- {shorten(told[number].title, MAX_LINE_CHARS)}" for number in sorted(best)]
    return [
        *shown,
        *([f"- and {len(told) - MAX_SECTION_LINES} more"] if len(told) > MAX_SECTION_LINES else []),
    ]


CHECKPOINT_DAYS = 14  # of one whose session never ends; the summary takes in the others
_SUMMARY_TYPES = (
    MemoryType.SESSION_SUMMARY.value,
    MemoryType.CHECKPOINT.value,
    MemoryType.COMPRESSED_SUMMARY.value,
)
_MAX_PROMPT_CHARS = 160
_MIN_PROMPT_WORDS = 4  # of a prompt that says what is wanted; "go on" does not


@dataclass(frozen=True)
class SummaryDraft:
    """The text with what goes beside it; ``sensitivity``: the highest of what it tells.

    ``gist``: what was kept, in one line; empty when nothing was.
    """

    text: str
    title: str
    gist: str
    concepts: list[str]
    modified: list[str]
    sensitivity: str


@dataclass(frozen=True)
class CurrentEvent:
    """The event that a recap comes with, which is recorded after it, and what was captured there."""

    event: Event
    captured: Sequence[Memory] = ()


def summarise_session(
    session: Session, at: datetime, actor: Actor, passing: CurrentEvent | None = None
) -> tuple[Memory | None, str]:
    """The summary of a session so far, and what became of it; none when nothing happened.

    A session that went on after its end gets its summary updated; one that a person threw away stays
    there unless there is more to tell. The checkpoints on the way are merged into it.
    """
    recap = _build_draft(session, None, passing)
    if recap is None:
        return None, "nothing to sum up"
    with write_transaction():
        session.refresh_from_db(fields=["summary"])
        memory, outcome = _save_summary(recap, session, at, actor)
        if memory:
            _merge_checkpoints(memory, session, actor)
    return memory, outcome


def _save_summary(
    recap: SummaryDraft, session: Session, at: datetime, actor: Actor
) -> tuple[Memory | None, str]:
    before = session.summary
    if before and before.content == recap.text:
        return (None, "thrown away before") if before.deleted_at else (before, "unchanged")
    if before and not before.deleted_at and (before.expires_at is None or before.expires_at > at):
        return _update_summary(before, recap, actor, session.project), "updated"
    memory = _store_draft(recap, session, at, actor, MemoryType.SESSION_SUMMARY)
    Session.objects.filter(pk=session.pk).update(summary=memory)
    session.summary = memory
    return memory, "made"


def _merge_checkpoints(summary: Memory, session: Session, actor: Actor) -> None:
    """What was told on the way is told by the summary now: the checkpoints go to the trash and name it.

    Not those that a person changed, nor those above the summary's level: it does not tell what they tell.
    The events that led to them lead to the summary.
    """
    made = Memory.objects.visible_to(_project_clearance(session.project)).live()
    made = made.in_session(session.session_id, project=session.project)
    made = made.filter(
        type=MemoryType.CHECKPOINT.value,
        key__startswith=f"checkpoint:{_session_key(session)}:",
        sensitivity__in=LEVELS[: level_rank(summary.sensitivity) + 1],
        revisions__isnull=True,
    )
    if uids := list(made.values_list("uid", flat=True)):
        taken = store.trash_merged(summary, uids, _hub_actor(actor, session.project))
        Event.objects.filter(session=session, memory__in=taken).update(memory=summary)


def store_checkpoint(
    session: Session, at: datetime, actor: Actor, passing: CurrentEvent | None = None
) -> tuple[Memory | None, str]:
    """What was kept since the last checkpoint, as a memory of its own; none when that is nothing."""
    with locked_state(session) as state:
        since = datetime.fromisoformat(state.recapped_at) if state.recapped_at else None
        recap = _build_draft(session, since, passing)
        if recap is None or not recap.gist:
            return None, "nothing kept since the last checkpoint"
        state.recapped_at = at.isoformat()
        return _store_draft(recap, session, at, actor, MemoryType.CHECKPOINT), "made"


def _build_draft(
    session: Session, since: datetime | None, passing: CurrentEvent | None
) -> SummaryDraft | None:
    """From the memories and events of a session, later than ``since``, and those of the event that passes."""
    memories, events, level = _session_material(session, passing)
    if since:
        memories, events = memories.filter(created_at__gt=since), events.filter(at__gt=since)
    concepts = Prefetch("labels", Label.objects.filter(kind=Label.Kind.CONCEPT), to_attr="concept_rows")
    rows = memories.order_by("created_at", "pk").prefetch_related(concepts)
    told = [SummaryItem(row.type, row.title, row.importance, _concepts(row)) for row in rows]
    modified = _modified_files(events, passing.event if passing else None, level)
    text = format_summary(told, modified, "" if since else _first_prompt(events))
    if not text:
        return None
    return SummaryDraft(
        text, format_headline(told, modified), format_abstract(told), shared_concepts(told), modified, level
    )


def _session_material(
    session: Session, passing: CurrentEvent | None
) -> tuple[MemoryQuerySet, EventQuerySet, str]:
    """What may be told, and the level that it is told under: the highest of what was captured.

    What an agent stored on purpose at a higher level is left out: it does not make a whole summary secret.
    """
    reach = _project_clearance(session.project)
    memories = Memory.objects.visible_to(reach).live().in_session(session.session_id, project=session.project)
    memories = memories.exclude(type__in=_SUMMARY_TYPES).exclude(scope=Scope.PERSONAL.value)
    events = Event.objects.visible_to(reach).filter(session=session)
    by_events = Q(pk__in=events.filter(memory__isnull=False).values("memory"))
    captured = memories.filter(by_events | Q(pk__in=[one.pk for one in passing.captured] if passing else []))
    levels = [*captured.order_by().values_list("sensitivity", flat=True).distinct(), LEVELS[0]]
    level = max(levels, key=level_rank)
    told = LEVELS[: level_rank(level) + 1]
    return memories.filter(sensitivity__in=told), events.filter(sensitivity__in=told), level


def _project_clearance(project: str) -> Clearance:
    """All of one project, as the hub's own upkeep of its sessions needs it; nobody's personal memories."""
    return Clearance(frozenset(LEVELS), projects=frozenset({project}))


def _concepts(memory: Memory) -> tuple[str, ...]:
    return tuple(sorted(row.value for row in memory.concept_rows))  # type: ignore[attr-defined]


def _modified_files(events: EventQuerySet, passing: Event | None, level: str) -> list[str]:
    """The files that were written, each once, in order; the event that passes comes last."""
    recorded = events.filter(event="tool:post").order_by("at", "pk").values_list("tool_name", "files")
    calls = list(recorded)
    if passing and passing.sensitivity in LEVELS and level_rank(passing.sensitivity) <= level_rank(level):
        calls.append((passing.tool_name, passing.files))
    return list(dict.fromkeys(path for tool, files in calls if tool_kind(tool) == "write" for path in files))


def _first_prompt(events: EventQuerySet) -> str:
    """The first prompt that says something."""
    prompts = events.filter(event="prompt:submit").order_by("at", "pk").values_list("preview", flat=True)[:10]
    return next(
        (shorten(one, _MAX_PROMPT_CHARS) for one in prompts if len(one.split()) >= _MIN_PROMPT_WORDS), ""
    )


def _fields(recap: SummaryDraft) -> dict[str, Any]:
    return {
        "content": recap.text,
        "abstract": recap.gist,
        "concepts": recap.concepts,
        "files_modified": recap.modified[:MAX_FILES],
        "sensitivity": recap.sensitivity,
    }


def _session_key(session: Session) -> str:
    """What the keys of a session's summary and checkpoints have in common."""
    return hashlib.sha256(session.session_id.encode()).hexdigest()[:20]


def _store_draft(
    recap: SummaryDraft, session: Session, at: datetime, actor: Actor, kind: MemoryType
) -> Memory:
    # A key of its own: two sessions that changed the same file have the same words to say, and are two.
    key = _session_key(session)
    own: dict[str, Any] = {
        "title": f"Session: {recap.title}",
        "importance": 0.6,
        "key": f"session-summary:{key}",
    }
    if kind is MemoryType.CHECKPOINT:
        usual = settings.MEMORYHUB.default_ttl_days or CHECKPOINT_DAYS
        own = {
            "title": f"So far: {recap.title}",
            "importance": 0.4,
            "key": f"checkpoint:{key}:{at.isoformat()}",
            "ttl_days": min(usual, CHECKPOINT_DAYS),
        }
    draft = MemoryDraft(
        **_fields(recap),
        **own,
        subtitle=f"{session.project or 'no project'}, {at.date().isoformat()}",
        type=kind,
        trust=0.6,
        tags=[CAPTURED_TAG],
        project=session.project,
        session_id=session.session_id,
        created_at=at,
    )
    return store.create_memory(draft, actor).memory


def _update_summary(memory: Memory, recap: SummaryDraft, actor: Actor, project: str) -> Memory:
    level = stricter_level(recap.sensitivity, memory.sensitivity)
    patch = MemoryPatch(**{**_fields(recap), "title": f"Session: {recap.title}", "sensitivity": level})
    return store.update_memory(memory.uid, patch, _hub_actor(actor, project))


def _hub_actor(actor: Actor, project: str) -> Actor:
    """In the agent's name, whatever its clearance: the hub tells here what it captured itself."""
    return Actor(actor.name, _project_clearance(project))
