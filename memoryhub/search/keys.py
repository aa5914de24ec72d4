"""Many primary keys as one parameter of a query: three times faster than one for each, and any number."""

from __future__ import annotations

import json
from collections.abc import Iterable

from django.db.models.expressions import RawSQL


def any_of(keys: Iterable[int]) -> RawSQL:
    """For ``filter(pk__in=any_of(keys))``."""
    return RawSQL("SELECT value FROM json_each(%s)", [json.dumps(list(keys))])
