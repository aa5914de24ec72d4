"""Which rows a queryset means, whatever the moment it was made in: what is remembered of it for a while."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from django.core.exceptions import EmptyResultSet

from memoryhub.querysets import MemoryQuerySet

Key = tuple[str, tuple[object, ...]]
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.]+([+-]\d\d:\d\d)?")


def key_of(memories: MemoryQuerySet) -> Key | None:
    """The same for querysets with the same gate and filters; None for one that can hold nothing."""
    try:
        sql, params = memories.order_by().query.sql_with_params()
    except EmptyResultSet:
        return None
    return sql, tuple(one for one in params if not _is_now(one))


def _is_now(param: object) -> bool:
    """Whether a parameter is the moment in which the queryset was made."""
    if not isinstance(param, str | datetime) or not _MOMENT.fullmatch(str(param)):
        return False
    try:
        moment = datetime.fromisoformat(str(param))
    except ValueError:
        return False
    return abs((moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()) < 2
