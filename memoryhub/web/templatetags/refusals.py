"""What a page says of a form that was refused, before anything else."""

from __future__ import annotations

from django import template
from django.forms import BaseForm

register = template.Library()


@register.simple_tag(takes_context=True)
def error_mark(context: template.Context) -> str:
    """What the title begins with, where a form of the page was sent and refused; else nothing.

    A page that says what was wrong in another way fills the block ``refused`` itself.
    """
    forms = [one for one in context.flatten().values() if isinstance(one, BaseForm)]
    return "Error: " if any(form.is_bound and form.errors for form in forms) else ""
