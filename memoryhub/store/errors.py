"""What the store refuses, in words that name the field and the mend."""

from __future__ import annotations


class StoreError(Exception):
    """A refusal; nothing was written. ``field`` is what to mend, ``code`` what clients branch on."""

    code = "refused"

    def __init__(self, message: str, field: str = "") -> None:
        self.message, self.field = message, field
        super().__init__(message)


class NotFound(StoreError):
    """There is no such thing, or the actor may not know of it: the two look the same."""

    code = "not_found"


class Forbidden(StoreError):
    """The actor may not do this, and learns nothing by being told so."""

    code = "forbidden"


class Conflict(StoreError):
    """The change would collide with something that the actor may see."""

    code = "conflict"
