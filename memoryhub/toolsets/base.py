"""Tools: a name, a description, arguments with their JSON Schema, and the rights that they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from memoryhub.core.vocabulary import Right
from memoryhub.http.authentication import AccessParams, Caller

_NULL = {"type": "null"}


def build_schema(arguments: type[BaseModel], *, nulls: bool) -> dict[str, Any]:
    """``nulls`` False: a null means that an argument is left out, so the schema does not speak of it."""
    whole = arguments.model_json_schema()
    definitions = whole.pop("$defs", {})
    for name in ("title", "description"):
        whole.pop(name, None)
    made = {"properties": {}, **_inline_references(whole, definitions, nulls)}
    made["properties"] = _order_properties(made["properties"], made.get("required", []))
    return made


def _order_properties(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """What is needed first, what opens further levels last."""
    names = sorted(properties, key=lambda name: (name not in required, name.startswith("allow_")))
    return {name: properties[name] for name in names}


def _inline_references(schema: dict[str, Any], definitions: dict[str, Any], nulls: bool) -> dict[str, Any]:
    if reference := schema.get("$ref"):
        schema = {**definitions[reference.rpartition("/")[2]], **schema}
    made: dict[str, Any] = {}
    for name, value in schema.items():
        if name in ("$ref", "title"):
            continue
        if name == "properties":
            made[name] = {key: _inline_references(one, definitions, nulls) for key, one in value.items()}
        elif name == "anyOf":
            made[name] = [_inline_references(one, definitions, nulls) for one in value]
        elif isinstance(value, dict):
            made[name] = _inline_references(value, definitions, nulls)
        else:
            made[name] = value
    return made if nulls else _remove_null(made)


def _remove_null(schema: dict[str, Any]) -> dict[str, Any]:
    """What is left where a null is not spoken of."""
    if _NULL not in schema.get("anyOf", ()):
        return schema
    others = [one for one in schema["anyOf"] if one != _NULL]
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    if rest.get("default", 0) is None:
        del rest["default"]
    return {**others[0], **rest} if len(others) == 1 else {"anyOf": others, **rest}


Arguments = TypeVar("Arguments", bound=BaseModel)


@dataclass(frozen=True)
class ToolOutcome:
    """A tool's result (an object, or what its document says: a sentence, a list), and the arguments that it
    does not know."""

    result: Any
    ignored: list[str]


@dataclass(frozen=True)
class Tool(Generic[Arguments]):
    """One operation. ``handler`` gets the caller and the validated arguments and returns the result.

    ``destructive``: it may end something that was there. ``idempotent``: the same call again adds nothing.
    ``right`` None: it depends on the arguments, and the handler asks for it. ``refusal`` says in the words of
    the tool's document what is wrong with arguments.
    """

    name: str
    description: str
    input: type[Arguments]
    handler: Callable[[Caller, Arguments], Any]
    right: Right | None
    destructive: bool = False
    idempotent: bool = False
    refusal: Callable[[ValidationError], Exception] | None = None

    @property
    def read_only(self) -> bool:
        return self.right is Right.READ

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return build_schema(self.input, nulls=not getattr(self.input, "nulls_are_left_out", False))

    @property
    def annotations(self) -> dict[str, bool]:
        """MCP's hints."""
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent or self.read_only,
            "openWorldHint": False,
        }

    def run(self, caller: Caller, arguments: dict[str, Any]) -> ToolOutcome:
        """Check right and arguments, and run it; refusals come as the exceptions of the layers below."""
        if self.right:
            caller.require(self.right)
        given = self._read(arguments)
        return ToolOutcome(self.handler(caller, given), sorted(given.model_extra or {}))

    def _read(self, arguments: dict[str, Any]) -> Arguments:
        try:
            return self.input.model_validate(arguments)
        except ValidationError as error:
            if self.refusal is None:
                raise
            raise self.refusal(error) from None


@dataclass(frozen=True)
class Toolset:
    """The tools of one documented system, under its name."""

    name: str
    description: str
    tools: tuple[Tool[Any], ...]

    def find(self, name: str) -> Tool[Any] | None:
        return next((tool for tool in self.tools if tool.name == name), None)


def int_to_text(value: object) -> object:
    """Ids are opaque texts; an agent may well send one as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Id = Annotated[
    str,
    Field(
        min_length=1, max_length=64, description="The memory's or fact's id, as an earlier answer gave it."
    ),
    BeforeValidator(int_to_text),
]


def without_nulls(data: Any, *, but: str = "") -> Any:
    """Arguments without those that are null; ``but``: the one of which a null says something."""
    if not isinstance(data, dict):
        return data
    return {name: value for name, value in data.items() if value is not None or name == but}


class ToolArguments(BaseModel):
    """Arguments that a tool does not know are not an error; the answer names them.

    Agents send null for what they leave out: it is as if it had not been sent.
    """

    model_config = ConfigDict(extra="allow")
    nulls_are_left_out: ClassVar[bool] = True

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, data: Any) -> Any:
        return without_nulls(data)


class ReadArguments(ToolArguments, AccessParams):
    """What every read takes."""


class IdArguments(ToolArguments):
    id: Id
