"""What the tools of several toolsets take."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from memoryhub.agents.asking import Asking


def _as_text(value: object) -> object:
    """Ids are opaque texts; an agent may well send one as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Id = Annotated[
    str,
    Field(
        min_length=1, max_length=64, description="The memory's or fact's id, as an earlier answer gave it."
    ),
    BeforeValidator(_as_text),
]


def without_nulls(data: Any, *, but: str = "") -> Any:
    """Arguments without those that are null; ``but``: the one of which a null says something."""
    if not isinstance(data, dict):
        return data
    return {name: value for name, value in data.items() if value is not None or name == but}


class Arguments(BaseModel):
    """Arguments that a tool does not know are not an error; the answer names them.

    Agents send null for what they leave out: it is as if it had not been sent.
    """

    model_config = ConfigDict(extra="allow")
    nulls_are_left_out: ClassVar[bool] = True

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, data: Any) -> Any:
        return without_nulls(data)


class Reading(Arguments, Asking):
    """What every read takes."""


class One(Arguments):
    id: Id
