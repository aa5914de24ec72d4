"""The menu of saved searches above a list."""

from __future__ import annotations

from typing import Any

from django import template

from memoryhub.web.saved_searches import list_address_of

register = template.Library()


@register.inclusion_tag("saved/here.html", takes_context=True)
def saved_here(context: dict[str, Any], assets: bool = True) -> dict[str, Any]:
    """Save what this page shows, or open what was saved; nothing on a page that cannot be saved.

    ``assets``: whether the style and the script come along; else the page has them in its head.
    """
    return {"place": list_address_of(context["request"]), "assets": assets}
