"""The menu of saved searches above a list."""

from __future__ import annotations

from typing import Any

from django import template

from memoryhub.web.saved_searches import list_address_of

register = template.Library()


@register.inclusion_tag("saved/here.html", takes_context=True)
def saved_here(context: dict[str, Any], assets: bool = True) -> dict[str, Any]:
    """Render the menu; empty on a page that cannot be saved.

    ``assets``: include style sheet and script; else the page has them in its head.
    """
    return {"place": list_address_of(context["request"]), "assets": assets}
