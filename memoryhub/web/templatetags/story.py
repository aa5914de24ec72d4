"""What a session's picture holds in thousands. A template's loop over as many takes ten times as long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from memoryhub.web.sessions.picture_layout import Mark, Point, SessionPicture

register = template.Library()


@register.simple_tag
def quiet_marks(picture: SessionPicture, titled: bool) -> SafeString:
    """A small mark each, and what it is as its title; one that leads somewhere is a link.

    Not ``titled``: those that lead nowhere are drawn as one line for each lane, without words.
    """
    single = [mark for mark in picture.quiet if titled or mark.what.href]
    drawn = "\n".join(map(_quiet_mark, single))
    if not titled:
        drawn = _lane_paths(picture) + drawn
    return mark_safe(drawn)  # noqa: S308  numbers, names of lanes, escaped texts


@register.simple_tag
def curve_points(picture: SessionPicture) -> SafeString:
    """The points of the curve: those that do not pass, and those that do."""
    drawn = (
        _dots_path(
            f"story-point{' passes' * passes}", [one for one in picture.points if one.passes is passes]
        )
        for passes in (False, True)
    )
    return mark_safe(_nested_svg("".join(drawn), picture))  # noqa: S308  numbers


def _nested_svg(drawn: str, picture: SessionPicture) -> str:
    """In a picture within the picture, whose measures are percent across and pixels down."""
    high = picture.height
    return f'<svg viewBox="0 0 100 {high}" height="{high}" preserveAspectRatio="none">{drawn}</svg>'


def _dots_path(kind: str, points: Sequence[Point]) -> str:
    """Lines of no length, whose round ends are the dots: a tenth of the bytes of a circle each."""
    path = "".join(f"M{point.x:g} {point.y:g}h0" for point in points)
    return f'<path class="{kind}" d="{path}"/>' if path else ""


def _lane_paths(picture: SessionPicture) -> str:
    by_lane: dict[str, list[str]] = defaultdict(list)
    for mark in picture.quiet:
        if not mark.what.href:
            by_lane[mark.what.lane].append(f"M{mark.x:g} {mark.y - 6:g}v12")
    drawn = (f'<path class="story-line is-{lane}" d="{"".join(d)}"/>' for lane, d in by_lane.items())
    return _nested_svg("".join(drawn), picture)


def _quiet_mark(mark: Mark) -> str:
    what = mark.what
    title = f"<title>{escape(what.title)}</title>"
    drawn = f'<rect class="story-mark is-{what.lane}" x="{mark.x:g}%" y="{mark.y:g}"'
    if what.href:
        return f'<a href="{escape(what.href)}" tabindex="-1">{title}{drawn}/></a>'
    return f"{drawn}>{title}</rect>"
