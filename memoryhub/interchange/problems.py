"""What is wrong with one thing in a file, in words for people that never repeat a value."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import ValidationError


class UnreadableFile(Exception):
    """The file as a whole cannot be read; the message says what to do instead."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong: a field (empty: the thing itself), and why; never the value."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def problems_of(error: ValidationError) -> list[Problem]:
    """What pydantic found, field by field."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [_problem(item["loc"], item["type"], item["msg"]) for item in found]


def _problem(location: tuple[int | str, ...], kind: str, message: str) -> Problem:
    field = ".".join(map(str, location))
    if kind == "model_type" and not location:
        message = "is not a JSON object"
    elif kind == "json_invalid":
        message = "is not JSON: " + message.removeprefix("Invalid JSON: ").replace(
            "at line 1 column", "at column"
        )
    elif kind == "missing":
        message = "is missing"
    message = re.sub(r"^(Value error, |Input )", "", message)
    return Problem(field, message)
