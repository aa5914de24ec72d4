"""Loading of rule files: TOML, checked against a schema. No Django."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError


class RuleFileError(ValueError):
    """A rule file is not valid TOML or does not match its schema."""


class RuleSchema(BaseModel):
    """Base class of the schemas. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
