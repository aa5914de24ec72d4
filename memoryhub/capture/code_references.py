"""Note the code that new memories are about, and compare memories with code that changed."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from memoryhub import memories
from memoryhub.access.policy import LEVELS, stricter_level
from memoryhub.capture.code_lines import MAX_FILES, line_hashes, lines_of_memory
from memoryhub.capture.events import HookContext
from memoryhub.capture.observation import relative_path
from memoryhub.capture.shell_commands import moved_paths, removed_paths
from memoryhub.core.vocabulary import SUMMARY_TYPES
from memoryhub.memories import FileChange
from memoryhub.models import Event, Memory, Session

logger = logging.getLogger(__name__)

MAX_EVENTS = 150  # of a session whose lines a new memory may be about
MAX_STORED_BY_TOOL = 3  # memories that one call of a memory tool may have stored
STORED_WITHIN = timedelta(minutes=2)  # before the event of the call
_REMOVES_FILES = re.compile(r"\b(?:rm|mv)\s")


def add_references(found: Iterable[Memory], session: Session, at: datetime, current: Event) -> None:
    """Link the new memories of a session to the lines of code that they are about.

    A memory never depends on events above its level, because its readers see when it is marked. A failure is
    logged; the memory stays.
    """
    try:
        for memory in found:
            if memory.type not in SUMMARY_TYPES:
                _add_references(memory, session, at, current)
    except Exception:
        logger.exception("the code that a memory is about could not be noted")


def _add_references(memory: Memory, session: Session, at: datetime, current: Event) -> None:
    links = list(memory.files.order_by("pk").values_list("access", "path"))
    files = [path for access, path in links if access == "modified"] or [path for _, path in links]
    files = [relative_path(path, session.top) for path in files]  # an agent may name whole paths
    if not files:
        return
    levels = [level for level in LEVELS if stricter_level(level, memory.sensitivity) == memory.sensitivity]
    rows = Event.objects.filter(session=session, lines__has_key="path", sensitivity__in=levels)
    digests = list(rows.order_by("-at", "-pk").values_list("lines", flat=True)[:MAX_EVENTS])[::-1]
    if current.lines and current.sensitivity in levels:
        digests.append(current.lines)
    lines = lines_of_memory(memory.titled_content, digests, files[: 4 * MAX_FILES])
    memories.store_references(memory, lines, at)


def add_references_of_tool(context: HookContext) -> None:
    """Note the code of the memories that the agent itself has just stored with a memory tool."""
    span = (context.at - STORED_WITHIN, context.at)
    stored = (
        Memory.objects.visible_to(context.actor.clearance)
        .live()
        .filter(
            project=context.session.project,
            author=context.actor.name,
            created_at__range=span,
            code_references__isnull=True,
            files__isnull=False,
        )
    )
    found = stored.distinct().order_by("-pk")[:MAX_STORED_BY_TOOL]
    add_references(found, context.session, context.at, context.event)


def drop_lines(session: Session) -> None:
    """Delete the hashes of lines of a session that has ended."""
    Event.objects.filter(session=session, lines__has_key="path").update(lines=None)


def compare_event(context: HookContext) -> None:
    """Mark or unmark the memories about the files of a recorded tool call. A failure is logged."""
    try:
        changes = list(_file_changes(context))
        if changes:
            session, level = context.session, context.event.sensitivity
            memories.compare_with_code(
                changes, session.project, level, context.actor, context.at, session.session_id
            )
    except Exception:
        logger.exception("memories could not be compared with the code")


def _file_changes(context: HookContext) -> Iterable[FileChange]:
    call, view = context.call, context.file_view
    if call is None or call.secret:
        return
    if view is not None and context.session.has_code_references:
        shown, removed = line_hashes(view.shown), line_hashes(view.removed)
        yield FileChange(view.path, shown, removed - shown, view.is_whole)
    command = call.observation.command
    if command and not call.observation.failed and _REMOVES_FILES.search(command):
        cwd, root = context.cwd, context.root
        for path in removed_paths(command):
            yield FileChange(relative_path(path, cwd, root), is_whole=True)
        for path, target in moved_paths(command).items():
            moved_to = relative_path(target, cwd, root)
            yield FileChange(relative_path(path, cwd, root), moved_to=moved_to)
