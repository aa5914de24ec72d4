"""Summarise sessions: at their end, at checkpoints on the way, and in counts for the status line."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Prefetch, Q

from memoryhub import memories as store
from memoryhub.access.policy import LEVELS, Actor, Clearance, level_rank, stricter_level
from memoryhub.capture.events import HookContext
from memoryhub.capture.observation import tool_kind
from memoryhub.capture.projects import mode_note
from memoryhub.capture.segments import locked_state
from memoryhub.capture.services import CAPTURED_TAG
from memoryhub.core.database import write_transaction
from memoryhub.core.dates import parse_moment
from memoryhub.core.text import format_count, join_first, shorten
from memoryhub.core.vocabulary import SUMMARY_TYPES, MemoryType, Scope, TrashReason
from memoryhub.hooks import PROMPT_SUBMIT, SESSION_START
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import Event, Injection, Label, Memory, Profile, Project, Session
from memoryhub.models.querysets import EventQuerySet, MemoryQuerySet

MAX_SECTION_LINES = 12  # the most important ones, in chronological order
MAX_FILES = 20
MAX_LINE_CHARS = 200
MAX_ABSTRACT_CHARS = 200
CHECKPOINT_DAYS = 14  # time to live, for sessions that never end; a summary replaces the other checkpoints
_MAX_PROMPT_CHARS = 160
_MIN_PROMPT_WORDS = 4  # shorter prompts, like "go on", do not describe the task
_SECTIONS = (
    ("Decisions", (MemoryType.DECISION,)),
    ("Problems solved", (MemoryType.BUGFIX,)),
    ("Done", (MemoryType.FEATURE, MemoryType.REFACTOR, MemoryType.CHANGE)),
    ("Learnt", (MemoryType.DISCOVERY,)),
)


@dataclass(frozen=True)
class SummaryDraft:
    """The text and metadata of a summary. ``sensitivity``: the highest level of its content.

    ``abstract``: the memories in one line, empty if there are none.
    """

    text: str
    title: str
    abstract: str
    concepts: list[str]
    modified: list[str]
    sensitivity: str


def summarise_session(context: HookContext, captured: Sequence[Memory]) -> tuple[Memory | None, str]:
    """Write the summary of a session and merge its checkpoints into it; return it with the outcome.

    ``captured``: memories that the current event created, which is not recorded yet.

    The summary of a session that continues after its end is updated. A summary that a user deleted is
    written again only if there is new content. Without any content, the memory is None.
    """
    draft = _build_draft(context, None, captured)
    if draft is None:
        return None, "nothing to summarise"
    if context.needs_approval:
        return _store_draft(draft, context, MemoryType.SESSION_SUMMARY), "made"
    with write_transaction():
        context.session.refresh_from_db(fields=["summary"])
        memory, outcome = _save_summary(draft, context)
        if memory:
            _merge_checkpoints(memory, context.session, context.actor)
    return memory, outcome


def _save_summary(draft: SummaryDraft, context: HookContext) -> tuple[Memory | None, str]:
    session = context.session
    before = session.summary
    if before and before.content == draft.text:
        return (None, "moved to the trash before") if before.deleted_at else (before, "unchanged")
    if before and not before.has_ended(context.at):
        level = stricter_level(draft.sensitivity, before.sensitivity)
        fields = {**_fields(draft), "title": f"Session: {draft.title}", "sensitivity": level}
        hub = _hub_actor(context.actor, session.project)
        return store.update_memory(before.uid, MemoryPatch(**fields), hub), "updated"
    memory = _store_draft(draft, context, MemoryType.SESSION_SUMMARY)
    Session.objects.filter(pk=session.pk).update(summary=memory)
    session.summary = memory
    return memory, "made"


def _merge_checkpoints(summary: Memory, session: Session, actor: Actor) -> None:
    """Move the checkpoints that the summary covers to the trash and point their events to the summary.

    Checkpoints stay if a user changed or pinned them, or if their level is above that of the summary, which
    then does not contain their content.
    """
    checkpoints = Memory.objects.visible_to(_project_clearance(session.project)).live().unpinned()
    checkpoints = checkpoints.in_session(session.session_id, project=session.project)
    checkpoints = checkpoints.filter(
        type=MemoryType.CHECKPOINT.value,
        key__startswith=f"checkpoint:{_session_key(session)}:",
        sensitivity__in=LEVELS[: level_rank(summary.sensitivity) + 1],
        revisions__isnull=True,
    )
    if uids := list(checkpoints.values_list("uid", flat=True)):
        merged = store.trash_memories(
            uids, _hub_actor(actor, session.project), TrashReason.MERGED, into=summary
        )
        Event.objects.filter(session=session, memory__in=merged).update(memory=summary)


def store_checkpoint(context: HookContext, captured: Sequence[Memory] = ()) -> tuple[Memory | None, str]:
    """Store a summary of the memories since the last checkpoint; return it with the outcome."""
    with locked_state(context.session) as state:
        since = parse_moment(state.recapped_at)
        draft = _build_draft(context, since, captured)
        if draft is None or not draft.abstract:
            return None, "nothing kept since the last checkpoint"
        state.recapped_at = context.at.isoformat()
        return _store_draft(draft, context, MemoryType.CHECKPOINT), "made"


def _build_draft(
    context: HookContext, since: datetime | None, captured: Sequence[Memory]
) -> SummaryDraft | None:
    """Summarise the memories and events of a session after ``since``, including the current event."""
    memories, events, level = _session_material(context.session, captured)
    if since:
        memories, events = memories.filter(created_at__gt=since), events.filter(at__gt=since)
    concepts = Prefetch("labels", Label.objects.filter(kind=Label.Kind.CONCEPT), to_attr="concept_rows")
    items = list(memories.order_by("created_at", "pk").prefetch_related(concepts))
    modified = _modified_files(events, context.event, level)
    if not items and not modified:
        return None
    prompt = "" if since else _first_prompt(events)
    return SummaryDraft(
        text=_format_text(items, modified, prompt),
        title=_format_headline(items, modified, prompt),
        abstract=_format_abstract(items),
        concepts=_shared_concepts(items),
        modified=modified,
        sensitivity=level,
    )


def _session_material(
    session: Session, captured_now: Sequence[Memory]
) -> tuple[MemoryQuerySet, EventQuerySet, str]:
    """Return memories and events to summarise, and the level: the highest of the captured memories.

    Memories that an agent stored on purpose at a higher level are left out, so that one of them does not make
    the whole summary secret.
    """
    clearance = _project_clearance(session.project)
    memories = Memory.objects.visible_to(clearance).live()
    memories = memories.in_session(session.session_id, project=session.project)
    memories = memories.exclude(type__in=SUMMARY_TYPES).exclude(scope=Scope.PERSONAL.value)
    events = Event.objects.visible_to(clearance).filter(session=session)
    from_events = Q(pk__in=events.filter(memory__isnull=False).values("memory"))
    captured = memories.filter(from_events | Q(pk__in=[memory.pk for memory in captured_now]))
    levels = [*captured.order_by().values_list("sensitivity", flat=True).distinct(), LEVELS[0]]
    level = max(levels, key=level_rank)
    included = LEVELS[: level_rank(level) + 1]
    return memories.filter(sensitivity__in=included), events.filter(sensitivity__in=included), level


def _project_clearance(project: str) -> Clearance:
    """Return a clearance for all levels of one project, without personal memories."""
    return Clearance(frozenset(LEVELS), projects=frozenset({project}))


def _modified_files(events: EventQuerySet, current: Event, level: str) -> list[str]:
    """Return the files that tools wrote, in order; those of the current event come last."""
    recorded = events.filter(event="tool:post").order_by("at", "pk").values_list("tool_name", "files")
    calls = list(recorded)
    if current.sensitivity in LEVELS and level_rank(current.sensitivity) <= level_rank(level):
        calls.append((current.tool_name, current.files))
    return list(dict.fromkeys(path for tool, files in calls if tool_kind(tool) == "write" for path in files))


def _first_prompt(events: EventQuerySet) -> str:
    """Return the first of the earliest ten prompts that describes a task."""
    prompts = events.filter(event="prompt:submit").order_by("at", "pk").values_list("preview", flat=True)[:10]
    tasks = (prompt for prompt in prompts if len(prompt.split()) >= _MIN_PROMPT_WORDS)
    return shorten(next(tasks, ""), _MAX_PROMPT_CHARS)


def _format_text(items: Sequence[Memory], modified: Sequence[str], prompt: str) -> str:
    parts = [f"Asked for: {prompt}"] if prompt else []
    known = [kind for _, kinds in _SECTIONS for kind in kinds]
    for name, kinds in (*_SECTIONS, ("Also noted", ())):
        section = [item for item in items if (item.type in kinds if kinds else item.type not in known)]
        if section:
            parts.append("\n".join([f"{name}:", *_format_items(section)]))
    if modified:
        parts.append(_format_files(modified))
    return "\n\n".join(parts)


def _format_files(modified: Sequence[str]) -> str:
    return f"Files changed: {join_first(modified, MAX_FILES)}"


def _format_items(items: Sequence[Memory]) -> list[str]:
    best = sorted(range(len(items)), key=lambda index: -items[index].importance)[:MAX_SECTION_LINES]
    lines = [f"- {shorten(items[index].title, MAX_LINE_CHARS)}" for index in sorted(best)]
    more = len(items) - MAX_SECTION_LINES
    return [*lines, f"- and {more} more"] if more > 0 else lines


def _format_headline(items: Sequence[Memory], modified: Sequence[str], prompt: str) -> str:
    """Return the title of the most important memory, or without memories what was asked for."""
    if not items:
        return shorten(prompt, 120) or f"Changes in {format_count(len(modified), 'file')}"
    best = max(items, key=lambda item: item.importance)
    return shorten(best.title, 120)


def _format_abstract(items: Sequence[Memory]) -> str:
    """Join the most important titles in one line, as many as fit."""
    line = ""
    for item in sorted(items, key=lambda item: -item.importance):
        longer = f"{line}; {item.title}" if line else item.title
        if line and len(longer) > MAX_ABSTRACT_CHARS:
            break
        line = longer
    return shorten(line, MAX_ABSTRACT_CHARS)


def _shared_concepts(items: Sequence[Memory]) -> list[str]:
    counts = Counter(row.value for item in items for row in item.concept_rows)  # type: ignore[attr-defined]
    return sorted(counts, key=lambda name: (-counts[name], name))[:3]


def _fields(draft: SummaryDraft) -> dict[str, Any]:
    return {
        "content": draft.text,
        # The beginning of the text would repeat the title.
        "abstract": draft.abstract or shorten(_format_files(draft.modified), MAX_ABSTRACT_CHARS),
        "concepts": draft.concepts,
        "files_modified": draft.modified[:MAX_FILES],
        "sensitivity": draft.sensitivity,
    }


def _session_key(session: Session) -> str:
    """Return the common part of the keys of a session's summary and checkpoints."""
    return hashlib.sha256(session.session_id.encode()).hexdigest()[:20]


def _store_draft(draft: SummaryDraft, context: HookContext, kind: MemoryType) -> Memory:
    session, at = context.session, context.at
    memory_draft = MemoryDraft(
        **_fields(draft),
        **_fields_of_kind(draft.title, session, at, kind),
        subtitle=f"{session.project or 'no project'}, {at.date().isoformat()}",
        type=kind,
        trust=0.6,
        tags=[CAPTURED_TAG],
        project=session.project,
        session_id=session.session_id,
        created_at=at,
    )
    return store.create_memory(
        memory_draft, context.actor, needs_approval=context.needs_approval, imported_at=context.imported_at
    ).memory


def _fields_of_kind(title: str, session: Session, at: datetime, kind: MemoryType) -> dict[str, Any]:
    """Return the fields that differ between the summary of a session and a checkpoint."""
    # The key keeps sessions with identical summaries apart, for example two that changed the same file.
    key = _session_key(session)
    if kind is not MemoryType.CHECKPOINT:
        return {"title": f"Session: {title}", "importance": 0.6, "key": f"session-summary:{key}"}
    usual = settings.MEMORYHUB.default_ttl_days or CHECKPOINT_DAYS
    return {
        "title": f"So far: {title}",
        "importance": 0.4,
        "key": f"checkpoint:{key}:{at.isoformat()}",
        "ttl_days": min(usual, CHECKPOINT_DAYS),
    }


def _hub_actor(actor: Actor, project: str) -> Actor:
    """Return an actor with the agent's name and access to everything that was captured in the project."""
    return Actor(actor.name, _project_clearance(project))


WEEK = timedelta(days=7)


@dataclass(frozen=True)
class SessionUse:
    """How many visible memories a session was shown, and how many it left, without its summaries."""

    shown: int
    kept: int

    def __str__(self) -> str:
        return f"{format_count(self.shown, 'memory')} shown, {self.kept} kept"


def count_session_use(session_id: str, project: str, actor: Actor) -> SessionUse:
    """Count the memories of a session that the actor may see."""
    visible = Memory.objects.visible_to(actor.clearance)
    logged = Injection.objects.visible_to(actor.clearance).filled()
    logged = logged.filter(session__session_id=session_id, project=project)
    shown = {one["id"] for injected in logged.values_list("injected", flat=True) for one in injected}
    kept = visible.live().in_session(session_id, project=project).exclude(type__in=SUMMARY_TYPES)
    return SessionUse(visible.filter(uid__in=shown).count() if shown else 0, kept.count())


def last_shown(session_id: str, project: str, actor: Actor) -> list[Memory]:
    """Return the memories that the session was shown last, as far as the actor may see them, in order."""
    logged = Injection.objects.visible_to(actor.clearance).filled()
    row = logged.filter(session__session_id=session_id, project=project).order_by("-at", "-pk").first()
    shown = [one["id"] for one in row.injected] if row else []
    visible = Memory.objects.visible_to(actor.clearance).live().filter(uid__in=shown)
    return sorted(visible, key=lambda memory: shown.index(memory.uid))


def status_line(session_id: str, project: Project, actor: Actor, now: datetime) -> str:
    """Return what memory did in a session, and the mode of its project unless that is automatic."""
    note = mode_note(project, now, time_zone(actor))
    if not project.records_events(now):
        return f"memoryhub: {note}"
    line = f"memoryhub: {count_session_use(session_id, project.name, actor)}"
    return f"{line}, {note}" if note else line


def time_zone(actor: Actor) -> ZoneInfo | None:
    """Return the time zone that the owner of a token has chosen."""
    chosen = Profile.objects.filter(user__username=actor.owner).values_list("time_zone", flat=True).first()
    return ZoneInfo(chosen) if chosen else None


def is_week_new(actor: Actor, now: datetime) -> bool:
    """Whether the agent has started no session since Monday (UTC)."""
    monday = now.date() - timedelta(days=now.weekday())
    starts = Event.objects.live().filter(event=SESSION_START, at__gte=f"{monday}T00:00:00Z", at__lt=now)
    return not starts.filter(session__agent=actor.name, session__last_at__gte=f"{monday}T00:00:00Z").exists()


def weekly_line(actor: Actor, now: datetime) -> str:
    """Return in how many prompts of the last week a memory helped, or was shown; empty without prompts."""
    prompts = (
        Event.objects.visible_to(actor.clearance)
        .live()
        .filter(session__agent=actor.name, event=PROMPT_SUBMIT, at__gte=now - WEEK)
    )
    shown = Injection.objects.visible_to(actor.clearance).filled()
    shown = shown.filter(session=OuterRef("session"), at=OuterRef("at"))
    counts = prompts.aggregate(
        prompts=Count("pk"),
        shown=Count("pk", filter=Exists(shown)),
        used=Count("pk", filter=Exists(shown.filter(helped=True))),
    )
    if not counts["prompts"]:
        return ""
    used, total, seen = counts["used"], counts["prompts"], counts["shown"]
    return f"memories were used in {used} of {total} prompts of the last 7 days, and shown in {seen}"
