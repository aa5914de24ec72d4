"""Labels for people: titles of sessions, operations of the journal, skipped events, kinds of instructions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.db.models import OuterRef, Q, Subquery
from django.urls import reverse

from memoryhub.access.policy import Clearance, Sensitivity, format_display_name
from memoryhub.core.text import collapse_whitespace, shorten
from memoryhub.memories.update import PROMPT_INJECTION_FLAG
from memoryhub.models import Event, Session
from memoryhub.models.querysets import live_memories

# By the stored name, in the order of the suggestions of the filter. Others keep their stored name.
OPERATION_LABELS = {
    "insert": "Stored",
    "update": "Edited",
    "dedup_refresh": "Stored again",
    "dedup_skip": "Duplicate skipped",
    "delete": "Deleted",
    "restore": "Restored",
    "expire": "Expired",
    "evict": "Moved to the trash: over the cap",
    "purge": "Deleted permanently",
    "erase": "Erased",
    "login": "Signed in",
    "login_failed": "Sign-in failed",
    "login_refused": "Sign-in refused",
    "logout": "Signed out",
    "rights": "Rights changed",
    "joined": "Joined a project",
    "left": "Left a project",
    "password_change": "Password changed",
    "password_set": "Password set",
    "invited": "Invited",
    "invitation_accepted": "Invitation accepted",
    "invitation_revoked": "Invitation revoked",
    "account_made": "Account created",
    "account_deleted": "Account deleted",
    "bound": "Identity linked",
    "unbound": "Identity unlinked",
    "second_factor_added": "Second factor added",
    "second_factor_removed": "Second factor removed",
    "recovery_codes_created": "Recovery codes created",
    "issue": "Token created",
    "revoke": "Token revoked",
    "digest_created": "Digest created",
    "digest_changed": "Digest changed",
    "digest_deleted": "Digest deleted",
    "digest_secret": "Digest secret renewed",
    "digest_sent": "Digest sent",
    "digest_failed": "Digest failed",
    "reveal": "Hidden memories viewed",
    "secrets_on": "Secret memories shown",
    "secret_blocked": "Credential refused",
    "compressed": "Compressed",
    "merged": "Merged",
    "evidence": "Evidence added",
    "supersede": "Replaced",
    "reinstate": "Replacement undone",
    "end": "Validity ended",
    "undo_end": "End of validity undone",
    "flag": "Flagged",
    "review": "Reviewed",
    "undo_review": "Review undone",
    "accept": "Accepted",
    "undo_accept": "Acceptance undone",
    "rate": "Rated",
    "undo_rate": "Rating undone",
    "mark_outdated": "Marked as outdated",
    "unmark_outdated": "Outdated mark removed",
    "still_true": "Confirmed",
    "undo_still_true": "Confirmation undone",
    "configure": "Settings changed",
    "undo_configure": "Change of settings undone",
    "identify": "Project identified",
    "rename": "Project renamed",
    "split": "Project split",
    "undo_move": "Move undone",
    "backfill": "Past sessions stored",
    "import": "Imported",
    "undo_backfill": "Past sessions removed",
    "hold_together": "Marked as compatible",
    "undo_hold_together": "Compatible mark removed",
    "consolidate": "Consolidated",
    "run": "Run started",
    "run_stop": "Run stopped",
    "run_resume": "Run resumed",
    "run_undo": "Run undone",
    "journal_loss": "Loss of rows reported",
    "journal_loss_acknowledged": "Loss acknowledged",
    "clock_confirmed": "Clock confirmed",
    "repair_schema": "Schema repaired",
    "register": "App registered",
}
BELOW_THRESHOLD = "below the gate"  # the stored reason why capture did not keep an event
SKIP_REASON_LABELS = {BELOW_THRESHOLD: "below the memorability threshold"}
_EVENT_NAMES = {
    "prompt:submit": "Prompt",
    "session:start": "Session start",
    "session:end": "Session end",
    "session:checkpoint": "Checkpoint",
}
# Kinds of instructions that the detector of prompt injections finds.
_INSTRUCTION_LABELS = {
    "override": "replaces instructions",
    "newtask": "gives a new task",
    "persona": "changes the agent's role",
    "leak": "asks for hidden text",
    "secrecy": "hides something from the user",
    "exfiltration": "sends data away",
    "destructive": "destroys something",
    "addressed": "speaks to the agent",
    "role": "imitates a conversation",
    "notice": "claims authority",
    "toolcall": "calls a tool",
    "wording": "worded like instructions",
}


def instruction_label(kind: object) -> str:
    """Return the label of a kind of instructions, or of a flag with it; stored flags may be anything."""
    name = str(kind).removeprefix(f"{PROMPT_INJECTION_FLAG}:")
    return _INSTRUCTION_LABELS.get(name, name)


def operation_label(operation: str) -> str:
    """Return the label of a stored operation, such as ``Signed in`` for ``login``."""
    return OPERATION_LABELS.get(operation) or operation.replace("_", " ").capitalize()


def event_name(event: Event) -> str:
    """Return the tool that was called, or a label of the event."""
    return event.tool_name or _EVENT_NAMES.get(event.event, event.event)


def skip_reason(reason: str) -> str:
    """Return why an event did not become a memory, in words."""
    return SKIP_REASON_LABELS.get(reason, reason)


IS_PROMPT = Q(event="prompt:submit")
_SESSION_ID_CHARS = 40
_NAMING_FIELDS = ("title", "uid", "sensitivity")  # of the summary, in the order of format_display_name


def session_name(session: Session | None, session_id: str = "") -> str:
    """Return the title that ``name_sessions`` found for a session, else the start of its id."""
    title = session.title if session else ""
    return title or f"Session {shorten(session.session_id if session else session_id, _SESSION_ID_CHARS)}"


def session_url(session_id: str, project: str) -> str:
    return reverse("session", args=[session_id], query={"project": project})


def name_sessions(sessions: Iterable[Session], clearance: Clearance) -> None:
    """Set the ``title`` of each session, see :func:`make_title`. One query."""
    by_key: dict[int, list[Any]] = defaultdict(list)
    for session in sessions:
        session.title = ""
        by_key[session.pk].append(session)
    if not by_key:
        return
    rows = Session.objects.filter(pk__in=by_key).annotate(**title_columns(clearance))
    for row in rows.only("pk"):
        for session in by_key[row.pk]:
            session.title = make_title(row)


def title_columns(clearance: Clearance) -> dict[str, Subquery]:
    """Return the annotations of sessions that :func:`make_title` needs."""
    prompts = Event.objects.visible_to(clearance).filter(IS_PROMPT, session=OuterRef("pk"))
    prompts = prompts.exclude(memory__sensitivity=Sensitivity.SECRET.value).order_by("at", "pk")
    memories = live_memories(clearance)
    summaries = memories.filter(pk=OuterRef("summary_id"))
    stored = memories.in_session(OuterRef("session_id"), project=OuterRef("project"))
    stored = stored.exclude(sensitivity=Sensitivity.SECRET.value).order_by("created_at", "pk")
    return {
        "first_prompt": Subquery(prompts.values("preview")[:1]),
        "first_memory": Subquery(stored.values("title")[:1]),
        **{f"summary_{name}": Subquery(summaries.values(name)[:1]) for name in _NAMING_FIELDS},
    }


def make_title(session: Any) -> str:
    """Return the title of a session with the annotations of :func:`title_columns`.

    It comes from the visible summary, else the first visible prompt, else the first visible memory, as in
    imported sessions.
    """
    summary = [getattr(session, f"summary_{name}") for name in _NAMING_FIELDS]
    title = format_display_name(*summary) if session.summary_uid else ""
    title = title or session.first_prompt or session.first_memory or ""
    return collapse_whitespace(title).removeprefix("Session: ")
