"""The title prefix of a page with a rejected form."""

from __future__ import annotations

from collections.abc import Iterable

from django import template
from django.forms import BaseForm

register = template.Library()


@register.simple_tag(takes_context=True)
def error_mark(context: template.Context) -> str:
    """Return "Error: " if a submitted form of the page has errors, else nothing.

    A page that reports errors in another way fills the block ``refused`` itself.
    """
    values: Iterable[object] = context.flatten().values()
    has_errors = any(isinstance(one, BaseForm) and one.is_bound and bool(one.errors) for one in values)
    return "Error: " if has_errors else ""
