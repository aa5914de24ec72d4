"""What a session's picture holds in thousands. A template's loop over as many takes ten times as long."""

from __future__ import annotations

from collections.abc import Iterable

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from memoryhub.web.session_picture import Mark, Point

register = template.Library()


@register.simple_tag
def quiet_marks(marks: Iterable[Mark]) -> SafeString:
    """A small mark each, and what it is as its title; one that leads somewhere is a link."""
    return mark_safe("\n".join(map(_quiet, marks)))  # noqa: S308  numbers, names of lanes, escaped texts


@register.simple_tag
def curve_points(points: Iterable[Point]) -> SafeString:
    """The points of the curve."""
    drawn = (
        f'<circle class="story-point{" passes" * point.passes}" cx="{point.x}%" cy="{point.y}" r="2.5"/>'
        for point in points
    )
    return mark_safe("".join(drawn))  # noqa: S308  numbers


def _quiet(mark: Mark) -> str:
    what = mark.what
    title = f"<title>{escape(what.title)}</title>"
    drawn = f'<rect class="story-mark is-{what.lane}" x="{mark.x}%" y="{mark.y}"'
    if what.href:
        return f'<a href="{escape(what.href)}" tabindex="-1">{title}{drawn} width="9" height="9"/></a>'
    return f'{drawn} width="3" height="12">{title}</rect>'
