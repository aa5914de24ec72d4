"""What a page says of a form that was refused, before anything else."""

from __future__ import annotations

from collections.abc import Iterable

from django import template
from django.forms import BaseForm

register = template.Library()


@register.simple_tag(takes_context=True)
def error_mark(context: template.Context) -> str:
    """What the title begins with, where a form of the page was sent and refused; else nothing.

    A page that says what was wrong in another way fills the block ``refused`` itself.
    """
    shown: Iterable[object] = context.flatten().values()
    refused = any(isinstance(one, BaseForm) and one.is_bound and bool(one.errors) for one in shown)
    return "Error: " if refused else ""
