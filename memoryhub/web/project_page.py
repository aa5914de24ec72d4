"""The page of a project: read, correct, and preview what the next session receives."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, get_args

from django import forms
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from memoryhub.access.policy import Actor, Clearance, format_display_name, is_redacted
from memoryhub.accounts.clearance import request_actor, request_clearance, reveal_if_secret
from memoryhub.accounts.permissions import ADD_MEMORY, ADD_RUN, CHANGE_FACT
from memoryhub.accounts.tokens import token_actor
from memoryhub.capture import projects
from memoryhub.capture.page_corrections import Action, Corrected, Correction, correct_page
from memoryhub.core.form_fields import to_sentence
from memoryhub.core.text import collapse_whitespace, estimate_tokens, readable
from memoryhub.core.vocabulary import Right
from memoryhub.injection import context_block, selection
from memoryhub.injection.project_page import (
    OFF_PAGE,
    SECTIONS,
    PageEntry,
    build_page,
    page_memories,
    record_page_reveals,
)
from memoryhub.injection.requests import InjectionResult
from memoryhub.injection.services import preview_session_start
from memoryhub.memories import NotFound, StoreError
from memoryhub.models import AgentToken, Fact, Project
from memoryhub.web.accounts.profile import own_tokens
from memoryhub.web.base.forms import PlainForm
from memoryhub.web.base.labels import session_url
from memoryhub.web.base.markdown import to_plain_text
from memoryhub.web.base.requests import show_success
from memoryhub.web.injections import WITHHELD_TEXTS
from memoryhub.web.memories.bulk_actions import add_result_messages, allowed_actions, is_allowed

MAX_LEFT_OUT = 50  # memories listed as left out
_TYPE_REASONS = {
    "bugfix": "a fix",
    "change": "a change",
    "context": "background of the project",
    "decision": "a decision",
    "feature": "a feature",
    "preference": "a preference",
    "session_summary": "summary of a session",
}
_KIND_OF_ACTION = {"reword": "set", "pin": "pin", "unpin": "unpin", "leave_out": "tag", "not_true": "trash"}


@dataclass(frozen=True)
class PageLine:
    """A line without Markdown, its reason in words, and the address of its source.

    Neither ``text`` nor ``source`` (the line as Markdown) contains that of a secret.
    """

    entry: PageEntry
    text: str
    source: str
    reason: str
    url: str
    is_hidden: bool


@dataclass(frozen=True)
class SentItem:
    """A part of the block that a session receives: its name, address, tokens, and why it is there."""

    text: str
    url: str
    tokens: int
    reason: str
    part: str


@require_safe
def project_page(request: HttpRequest, name: str) -> HttpResponse:
    """Show the page with the reason of each line, and the forms that correct it."""
    return _render_page(request, _find_project(request, name))


def _render_page(
    request: HttpRequest, project: Project, refused: Correction | None = None, error: str = ""
) -> HttpResponse:
    """Render the page. A ``refused`` correction keeps its text in its form, with the error."""
    clearance, now, name = request_clearance(request), timezone.now(), project.name
    page = build_page(name, clearance, now)
    markdown = page.to_markdown()
    context = {
        "project": project,
        "sections": [
            (section, [_page_line(one, name) for one in entries]) for section, entries in page.sections()
        ],
        "all_sections": SECTIONS,
        "shell_name": shlex.quote(name),
        "tokens": estimate_tokens(markdown),
        "withheld": [(_page_line(one, name), reason) for one, reason in page.withheld],
        "left_out": page_memories(name, clearance, now).filter(labels__value=OFF_PAGE)[:MAX_LEFT_OUT],
        "left_out_facts": Fact.objects.visible_to(clearance).filter(uid__in=project.off_page_facts),
        "off_page": OFF_PAGE,
        "acts": allowed_actions(request),
        "may_add": request.user.has_perm(ADD_MEMORY),
        "may_change_facts": request.user.has_perm(CHANGE_FACT),
        "may_configure": request.user.has_perm(ADD_RUN),
        "refused": refused,
        "error": error,
    }
    return render(request, "projects/page.html", context, status=422 if refused else 200)


def _page_line(entry: PageEntry, project: str) -> PageLine:
    hidden = is_redacted(entry.sensitivity)
    source = format_display_name("", entry.uid, entry.sensitivity) if hidden else entry.line
    text = source if hidden else _plain_line(entry)
    is_session = entry.kind == "session"
    url = session_url(entry.uid, project) if is_session else reverse(entry.kind, args=[entry.uid])
    return PageLine(entry, text, source, _reason_in_words(entry.reason), url, hidden)


def _plain_line(entry: PageEntry) -> str:
    """Return the line without Markdown, which facts and paths of files do not have."""
    plain = to_plain_text(entry.line) if entry.kind == "memory" else entry.line
    return collapse_whitespace(plain) or entry.line


def _reason_in_words(reason: str) -> str:
    """Return the reason of an entry as a person would say it; the API returns the one of the rules."""
    is_pinned, reason = reason.startswith("pinned"), reason.removeprefix("pinned").removeprefix(", ")
    if reason.startswith("type "):
        kind = reason.removeprefix("type ")
        reason = _TYPE_REASONS.get(kind, readable(kind))
    elif reason.startswith("“"):
        reason = f"labelled {reason}"
    elif reason == "its wording":
        reason = "recognised by its wording"
    return ", ".join(filter(None, ("pinned" if is_pinned else "", reason)))


@require_POST
def project_page_correct(request: HttpRequest, name: str) -> HttpResponse:
    """Apply one correction, with a message that can undo it."""
    project, fields = _find_project(request, name), request.POST
    action, kind = fields.get("action", ""), fields.get("kind", "memory")
    if action not in get_args(Action) or kind not in ("memory", "fact"):
        raise BadRequest("unknown correction")
    _require_permission(request, action, kind)
    wanted = Correction(
        action,  # type: ignore[arg-type]
        kind,  # type: ignore[arg-type]
        fields.get("id", ""),
        fields.get("section", ""),
        fields.get("text", ""),
    )
    back = reverse("project-page", args=[project.name])
    try:
        _add_messages(request, correct_page(name, wanted, request_actor(request)), back)
    except NotFound:
        messages.warning(request, "This line is no longer on the page.")
    except StoreError as refusal:
        if refusal.field == "text":
            return _render_page(request, project, wanted, to_sentence(refusal.message))
        messages.error(request, f"Nothing was changed: {refusal.message}.")
    return redirect(back)


def _require_permission(request: HttpRequest, action: str, kind: str) -> None:
    if action == "add":
        allowed = request.user.has_perm(ADD_MEMORY)
    elif kind == "fact":
        allowed = request.user.has_perm(CHANGE_FACT)
        allowed = allowed and (action != "reword" or request.user.has_perm(ADD_MEMORY))
    else:
        allowed = is_allowed(request, _KIND_OF_ACTION[action])
    if not allowed:
        raise PermissionDenied


def _add_messages(request: HttpRequest, done: Corrected, back: str) -> None:
    if done.change:
        add_result_messages(request, done.change, back)
    if done.memory and not done.change:
        messages.success(request, "The line is stored as a pinned memory.")
    if done.ended and done.ended.facts:
        context = {"ended": done.ended, "summary": "1 fact has ended", "back": back}
        show_success(request, "facts/page.html#ended", context)
    if done.settings:
        context = {"change": done.settings, "text": "The fact is left out of the page"}
        show_success(request, "projects/page.html#changed", context)


@require_POST
def project_page_settings(request: HttpRequest, name: str) -> HttpResponse:
    """Send the page at the start of sessions or not, or include the facts again that it leaves out."""
    _find_project(request, name)
    if not request.user.has_perm(ADD_RUN):
        raise PermissionDenied
    changes: dict[str, Any] = {}
    if request.POST.get("sends") in ("yes", "no"):
        changes["sends_page"] = request.POST["sends"] == "yes"
    if request.POST.get("facts") == "all":
        changes["off_page_facts"] = []
    if not changes:
        raise BadRequest("sends must be yes or no")
    changed = projects.configure_project(name, request_actor(request), **changes)
    context = {"change": changed.undo, "text": "Settings saved"}
    show_success(request, "projects/page.html#changed", context)
    return redirect("project-page", name)


class PreviewForm(PlainForm):
    """Whose session, and the levels that its hook asks for."""

    token = forms.ChoiceField(label="Agent", required=False)
    private = forms.BooleanField(label="Include private memories, if its hook asks for them", required=False)
    secret = forms.BooleanField(label="Include secret memories, if its hook asks for them", required=False)

    def __init__(self, data: Any, tokens: list[AgentToken]) -> None:
        super().__init__(data, auto_id="for_%s")
        self.tokens = {token.uid: token for token in tokens}
        named = ((token.uid, token.name) for token in tokens)
        self.set_choices("token", [("", "An agent with your access"), *named])


@require_safe
def project_page_preview(request: HttpRequest, name: str) -> HttpResponse:
    """Show exactly what the next session of an agent receives, and why."""
    project = _find_project(request, name)
    form = PreviewForm(request.GET, list(own_tokens(request)))
    if not form.is_valid():
        raise Http404
    token = form.tokens.get(form.cleaned_data["token"])
    levels = {level: form.cleaned_data[level] for level in ("private", "secret")}
    actor = token_actor(token) if token else request_actor(request)
    problem = _preview_problem(request, project, token, actor, levels)
    found = InjectionResult() if problem else preview_session_start(name, actor, **levels)
    record_page_reveals(found.page, request_actor(request), "session preview")
    for one in found.shown:
        reveal_if_secret(request, one.candidate.memory, "session preview")
    context = {
        "project": project,
        "form": form,
        "problem": problem,
        "found": found,
        "items": _sent_items(found, name),
        "withheld": [
            (one.memory, WITHHELD_TEXTS.get(one.reason, one.reason))
            for one in (found.choice.withheld if found.choice else [])
        ],
    }
    return render(request, "projects/preview.html", context)


def _preview_problem(
    request: HttpRequest, project: Project, token: AgentToken | None, actor: Actor, levels: dict[str, bool]
) -> str:
    """Return why nothing is previewed, because the session receives nothing or the person may not see it."""
    if token and Right.READ.value not in token.rights:
        return "This token lacks the right “read”, so its sessions receive nothing."
    if not project.records_events(timezone.now()):
        note = projects.mode_note(project)
        return f"Memory is {note} in this project, so its sessions receive nothing."
    if not actor.clearance.includes_project(project.name):
        return "This token has no access to the project, so its sessions receive nothing of it."
    wanted: Clearance = actor.clearance.limited_to(**levels)
    own, places = request_clearance(request), (project.name, "")
    # A session also opens with the pinned memories of no project.
    missing = {level for place in places for level in wanted.levels_in(place) - own.levels_in(place)}
    if missing:
        return f"Show {' and '.join(sorted(missing))} memories in the Visibility menu to see this."
    return ""


def _sent_items(found: InjectionResult, project: str) -> list[SentItem]:
    """Return the parts of the block in its order, with the reason of each."""
    items = []
    for one in found.shown:
        memory = one.candidate.memory
        tokens = estimate_tokens(context_block.render_entry(one.passage, one.text))
        if one.scale == selection.PINNED:
            part, reason = "Pinned", "pinned, so every session opens with it"
        elif memory.type == "session_summary":
            part, reason = "Memory", "summary of the latest session"
        else:
            part = "Memory"
            reason = f"important ({memory.importance:.2f}) and recent, score {one.candidate.score:.2f}"
        url = reverse("memory", args=[memory.uid])
        items.append(SentItem(memory.title or memory.uid, url, tokens, reason, part))
    titles = {section.key: section.title for section in SECTIONS}
    lines = []
    for entry in found.page:
        line, tokens = _page_line(entry, project), estimate_tokens(entry.line)
        lines.append(SentItem(_plain_line(entry), line.url, tokens, line.reason, titles[entry.section]))
    pinned = sum(one.scale == selection.PINNED for one in found.shown)
    return [*items[:pinned], *lines, *items[pinned:]]


def _find_project(request: HttpRequest, name: str) -> Project:
    return projects.get_project(name, request_actor(request))
