"""The refusals of the store. A message says what is wrong with which field, and what to do."""

from __future__ import annotations


class StoreError(Exception):
    """A refusal: nothing was written. ``field`` names the wrong field, clients branch on ``code``."""

    code = "refused"

    def __init__(self, message: str, field: str = "") -> None:
        self.message, self.field = message, field
        super().__init__(message)


class NotFound(StoreError):
    """The object does not exist, or the actor may not know of it: both look the same."""

    code = "not_found"


class Forbidden(StoreError):
    """The actor may not do this. The refusal reveals nothing hidden."""

    code = "forbidden"


class Conflict(StoreError):
    """The change conflicts with an object that the actor may see."""

    code = "conflict"


class TooCostlyToCheck(StoreError):
    """A text is too costly to check for secrets, so it is not stored."""

    code = "too_costly_to_check"

    def __init__(self, field: str) -> None:
        super().__init__(f"{field} is too costly to check for secrets. Shorten it or split it.", field)


class Busy(StoreError):
    """A part of a batch was not stored because the database was busy."""

    code = "database_busy"

    def __init__(self) -> None:
        super().__init__("the database is busy. This item was not stored. Send it again.")


class SecretDetected(StoreError):
    """A text contains what looks like a secret. The message has its kind and position, never the value.

    ``line`` counts from 1; with ``unit="item"`` it is the position in a list.
    """

    code = "secret_detected"

    def __init__(self, kind: str, line: int, field: str, unit: str = "line") -> None:
        self.kind, self.line, self.unit = kind, line, unit
        self.noted = False  # set when the refusal is in the journal
        article = "an" if kind[0] in "AEIOaeio" or kind.startswith("npm") else "a"
        super().__init__(
            f"{unit} {line} of {field} contains what looks like {article} {kind}; remove it and store again",
            field,
        )
