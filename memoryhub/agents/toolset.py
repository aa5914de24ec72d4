"""Tools as agents see them: a name, what it does, what it takes, what it needs.

The JSON API and MCP serve what is registered in :mod:`memoryhub.agents.toolsets`, and neither knows any tool.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from memoryhub.agents.argument_schema import schema_of
from memoryhub.agents.auth import Caller
from memoryhub.vocabulary import Right

Arguments = TypeVar("Arguments", bound=BaseModel)


@dataclass(frozen=True)
class Outcome:
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
        return schema_of(self.input, nulls=not getattr(self.input, "nulls_are_left_out", False))

    @property
    def annotations(self) -> dict[str, bool]:
        """MCP's hints."""
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent or self.read_only,
            "openWorldHint": False,
        }

    def run(self, caller: Caller, arguments: dict[str, Any]) -> Outcome:
        """Check right and arguments, and run it; refusals come as the exceptions of the layers below."""
        if self.right:
            caller.require(self.right)
        given = self._read(arguments)
        return Outcome(self.handler(caller, given), sorted(given.model_extra or {}))

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
