"""Rule files: TOML with regexes and words, checked against a schema. No Django.

Line breaks in a regex are for readability and are removed. A list of regexes contains alternatives. Regexes
ignore case unless they begin with ``(?-i)``. They insert a named part of ``[fragments]`` with ``(?&name)``.
The fragment ``uuid`` is always known.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

_FRAGMENT = re.compile(r"\(\?&(\w+)\)")
_EXACT_CASE = "(?-i)"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


class RuleFileError(ValueError):
    """A rule file is not valid TOML or does not match its schema."""


class RuleSchema(BaseModel):
    """Base class of the schemas. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PatternFile(RuleSchema):
    """Base class of files with regexes. ``fragments`` are named parts of regexes."""

    fragments: dict[str, str] = {}

    @model_validator(mode="before")
    @classmethod
    def _insert_fragments(cls, data: dict[str, Any]) -> dict[str, Any]:
        own = data.get("fragments", {})
        if not isinstance(own, dict):
            return data  # the validation of the fields reports the error
        known = {"uuid": _UUID}
        for name, regex in own.items():
            known[name] = insert_fragments(regex, known)
        return {**insert_fragments(data, known), "fragments": known}


def insert_fragments(value: Any, known: dict[str, str]) -> Any:
    """Replace ``(?&name)`` in a text, or in all texts of a list or table."""

    def insert(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise ValueError(f"unknown fragment {match[1]!r}")
        return f"(?:{known[match[1]]})"

    if isinstance(value, list):
        return [insert_fragments(one, known) for one in value]
    if isinstance(value, dict):
        return {name: insert_fragments(one, known) for name, one in value.items()}
    return _FRAGMENT.sub(insert, value) if isinstance(value, str) else value


def compile_regex(value: str | list[str]) -> re.Pattern[str]:
    """Compile a regex of a rule file, or a list of alternatives."""
    regex = (value if isinstance(value, str) else "|".join(value)).replace("\n", "")
    exact = regex.startswith(_EXACT_CASE)
    try:
        return re.compile(regex.removeprefix(_EXACT_CASE), 0 if exact else re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"not a regex: {error}") from error


Regex = Annotated[re.Pattern[str], BeforeValidator(compile_regex)]
Words = Annotated[
    frozenset[str], BeforeValidator(lambda words: words.split() if isinstance(words, str) else words)
]
Schema = TypeVar("Schema", bound=RuleSchema)


def load_rule_file(path: Path, schema: type[Schema]) -> Schema:
    """Return the content of one file. :class:`RuleFileError` names the file and the keys that are wrong."""
    try:
        return schema.model_validate(tomllib.loads(path.read_text("utf-8")))
    except tomllib.TOMLDecodeError as error:
        raise RuleFileError(f"{path.name}: {error}") from error
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise RuleFileError(f"{path.name}: {'; '.join(problems)}") from error
