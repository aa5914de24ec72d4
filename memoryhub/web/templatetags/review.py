"""The link to the review queue in the main navigation."""

from __future__ import annotations

from typing import Any

from django import template

from memoryhub.web.review import queue
from memoryhub.web.templatetags.hub import nav_link

register = template.Library()


@register.inclusion_tag("review/badge.html", takes_context=True)
def review_link(context: dict[str, Any]) -> dict[str, Any]:
    """Render the link to the queue with the number of items for this person."""
    return {**nav_link(context, "review", "Review"), "waiting": queue.badge_text(context["request"])}
