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


class TooCostlyToCheck(StoreError):
    """A text takes too much work to check for secrets. It is not stored, because it is unchecked."""

    code = "too_costly_to_check"

    def __init__(self, field: str) -> None:
        super().__init__(f"{field} is too costly to check for secrets. Shorten it or split it.", field)


class Busy(StoreError):
    """A part of a batch was not stored, because other writers kept the database busy."""

    code = "database_busy"

    def __init__(self) -> None:
        super().__init__("the database is busy. This item was not stored. Send it again.")


class SecretDetected(StoreError):
    """A text holds what looks like a credential. Says its kind and place, never the value.

    ``line`` counts from 1; with ``unit="item"`` it is the place in a list.
    """

    code = "secret_detected"

    def __init__(self, kind: str, line: int, field: str, unit: str = "line") -> None:
        self.kind, self.line, self.unit = kind, line, unit
        self.noted = False  # in the journal
        article = "an" if kind[0] in "AEIOaeio" or kind.startswith("npm") else "a"
        super().__init__(
            f"{unit} {line} of {field} holds what looks like {article} {kind}; remove it and store again",
            field,
        )
