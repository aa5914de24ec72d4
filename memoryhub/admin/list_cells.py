"""The template tag for the cells of a list, which phones show without its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.utils.html import escape, strip_tags
from django.utils.safestring import SafeString, mark_safe

from memoryhub.admin.base import EMPTY_CELL

register = template.Library()
_NEEDS_LABEL = re.compile(r"[\d.,]+|never")
_MOMENT = 'class="hub-moment"'


@register.simple_tag
def list_cells(cells: Sequence[str], headers: Sequence[Mapping[str, Any]]) -> SafeString:
    """Return the cells of a row with the name of the column (``data-label``) where the value needs it.

    These are numbers, and moments if the row has several. Empty values get ``data-empty`` instead.
    """
    several = sum(_MOMENT in cell for cell in cells) > 1
    labelled = [
        _with_label(cell, str(header["text"]), several) for cell, header in zip(cells, headers, strict=True)
    ]
    return mark_safe("".join(labelled))  # noqa: S308  Django's cells, and an escaped attribute


def _with_label(cell: str, name: str, is_one_of_several: bool) -> str:
    text = strip_tags(cell).strip()
    if _NEEDS_LABEL.fullmatch(text) or (is_one_of_several and _MOMENT in cell):
        attribute = f' data-label="{escape(name[:1].upper() + name[1:])}"'
    elif text == EMPTY_CELL:
        attribute = " data-empty"
    else:
        return cell
    return re.sub(r"^<t[dh]", lambda start: start[0] + attribute, cell, count=1)
