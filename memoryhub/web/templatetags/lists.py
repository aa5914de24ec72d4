"""Template tags for the frame of pages and lists: bulk actions, saved searches, the sidebar."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import template
from django.forms import BaseForm
from django.utils import timezone

from memoryhub.access.policy import LEVELS
from memoryhub.accounts.clearance import full_clearance
from memoryhub.core.vocabulary import SCOPES, TYPES
from memoryhub.memories.bulk_actions import MAX_MEMORIES
from memoryhub.models import Fact, Memory
from memoryhub.web.base.navigation import navigation_links
from memoryhub.web.base.requests import current_project
from memoryhub.web.memories import bulk_actions
from memoryhub.web.memories.filters import filter_url
from memoryhub.web.review import queue
from memoryhub.web.saved_searches import list_address_of, saved_items

register = template.Library()


@register.simple_tag(takes_context=True, name="may_act")
def may_use_bulk_actions(context: dict[str, Any]) -> bool:
    """Whether this person may do any bulk action: then each row has a checkbox."""
    return any(bulk_actions.allowed_actions(context["request"]).values())


@register.filter("as_read")
def checkbox_value(row: Memory | Fact) -> str:
    """Return the value of a row's checkbox: the id, and the version that the page shows."""
    return f"{row.uid} {row.updated_at.isoformat()}"


@register.inclusion_tag("includes/bulk_bar.html", takes_context=True)
def bulk_bar(
    context: dict[str, Any],
    total: int = 0,
    ended: bool = False,
    demote: str = "demote",
    outdated: bool = False,
) -> dict[str, Any]:
    """Render the bar.

    ``total``: the number of matches on all pages; 0 if the list cannot be selected as a whole. ``ended``: the
    list is of trashed or expired memories. ``demote``: the action of that button. ``outdated``: the list is
    of memories that may be outdated.
    """
    request = context["request"]
    offered = full_clearance(request).levels_in_any_project()
    return {
        "request": request,
        "csrf_token": context.get("csrf_token"),
        "perms": context.get("perms"),
        "may": bulk_actions.allowed_actions(request),
        "ended": ended,
        "demote": demote,
        "outdated": outdated,
        "may_erase": ended and request.user.has_perm("memoryhub.erase_memory"),
        "total": total,
        "most": MAX_MEMORIES,
        "list": filter_url(request, as_of=timezone.now().isoformat()),
        "levels": [level for level in LEVELS if level in offered],
        "types": [(kind, kind.replace("_", " ")) for kind in TYPES],
        "scopes": SCOPES,
    }


@register.simple_tag(takes_context=True)
def error_mark(context: template.Context) -> str:
    """Return "Error: " if a submitted form of the page has errors, else nothing.

    A page that reports errors in another way fills the block ``refused`` itself.
    """
    values: Iterable[object] = context.flatten().values()
    has_errors = any(isinstance(one, BaseForm) and one.is_bound and bool(one.errors) for one in values)
    return "Error: " if has_errors else ""


@register.inclusion_tag("includes/sidebar.html", takes_context=True)
def sidebar(context: dict[str, Any]) -> dict[str, Any]:
    """Render the main navigation, with the number of items to review and the saved searches."""
    request = context["request"]
    sections = navigation_links(request.user, request.path)
    may_review = any(section.name == "review" for section in sections)
    is_memories = any(section.name == "memories" and section.current == "page" for section in sections)
    return {
        "sections": sections,
        "waiting": queue.badge_text(request) if may_review else "",
        "project": current_project(request),
        "saved": saved_items(request.user, "memories") if is_memories else [],
        "request": request,
        "csrf_token": context.get("csrf_token"),
    }


@register.inclusion_tag("saved/page.html#here", takes_context=True)
def saved_here(context: dict[str, Any]) -> dict[str, Any]:
    """Render the menu; empty on a page that cannot be saved. The page needs ``{% assets "lists" %}``."""
    return {"place": list_address_of(context["request"])}
