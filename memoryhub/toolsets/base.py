"""Tools: name, description, arguments with JSON Schema, the right that they need, and results of writes.

Writers may store rows above their clearance, but not read them. If such a row exists already, the response
only repeats the input of the writer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Set
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_type_hints

from django.http import Http404
from django.utils import timezone
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from rapidfuzz import fuzz, process

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.backends.postgres import replica
from memoryhub.core.vocabulary import Right
from memoryhub.facts import services
from memoryhub.http.authentication import AccessParams, Caller
from memoryhub.http.problems import Problem, field_error, invalid_fields, pydantic_field_errors
from memoryhub.memories import serializers
from memoryhub.memories.rows import LIST_FIELDS, list_values, unite_values
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.memories.versions import current_value
from memoryhub.models import Fact, Memory

_MIN_NAME_SIMILARITY = 60  # of 100; names that are less similar are not suggested
_NAME_CHARS = range(3, 101)
_MAX_SUGGESTIONS = 20  # so that a body full of unknown names costs little
_QUOTED = re.compile(r"'([^']+)'")
_NULL = {"type": "null"}


def build_schema(arguments: type[BaseModel], *, nulls: bool) -> dict[str, Any]:
    """Return the JSON Schema of arguments.

    ``nulls`` False: null means that an argument is absent, so the schema does not mention it.
    """
    schema = arguments.model_json_schema()
    definitions = schema.pop("$defs", {})
    for name in ("title", "description"):
        schema.pop(name, None)
    result = {"properties": {}, **_inline_references(schema, definitions, nulls)}
    properties, required = result["properties"], result.get("required", [])
    names = sorted(properties, key=lambda name: (name not in required, name.startswith("allow_")))
    result["properties"] = {name: properties[name] for name in names}
    return result


def _inline_references(schema: dict[str, Any], definitions: dict[str, Any], nulls: bool) -> dict[str, Any]:
    if reference := schema.get("$ref"):
        schema = {**definitions[reference.rpartition("/")[2]], **schema}
    result: dict[str, Any] = {}
    for name, value in schema.items():
        if name in ("$ref", "title"):
            continue
        if name == "properties":
            result[name] = {key: _inline_references(one, definitions, nulls) for key, one in value.items()}
        elif name == "anyOf":
            result[name] = [_inline_references(one, definitions, nulls) for one in value]
        elif isinstance(value, dict):
            result[name] = _inline_references(value, definitions, nulls)
        else:
            result[name] = value
    return result if nulls else _remove_null(result)


def _remove_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove the null alternative from the schema of a property."""
    if _NULL not in schema.get("anyOf", ()):
        return schema
    others = [one for one in schema["anyOf"] if one != _NULL]
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    if rest.get("default", 0) is None:
        del rest["default"]
    return {**others[0], **rest} if len(others) == 1 else {"anyOf": others, **rest}


def nearest_name(name: str, names: Iterable[str]) -> str:
    """Return the valid name that is most similar to an unknown one; empty if none is similar."""
    if len(name) not in _NAME_CHARS:
        return ""
    found = process.extractOne(
        name, list(names), scorer=_similarity, processor=_split_words, score_cutoff=_MIN_NAME_SIMILARITY
    )
    return found[0] if found else ""


def _split_words(name: str) -> str:
    return name.casefold().replace("_", " ").replace("-", " ")


def _similarity(first: str, second: str, **_: Any) -> float:
    """Compare letters and words: ``store`` is similar to ``memory store``."""
    return (fuzz.ratio(first, second) + fuzz.token_set_ratio(first, second)) / 2


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a hint for the end of a message about an unknown name; empty without a similar name."""
    nearest = nearest_name(name, names)
    return f"; did you mean {nearest}?" if nearest else ""


Arguments = TypeVar("Arguments", bound=BaseModel)


@dataclass(frozen=True)
class ToolOutcome:
    """The result of a tool (an object, a sentence or a list) and the names of ignored arguments.

    ``suggestions``: the nearest valid name of ignored names that the tool does not have; None: not known yet.
    """

    result: Any
    ignored: list[str]
    suggestions: dict[str, str] | None = None


Refusal = Callable[[ValidationError], Exception]


def _explain(error: ValidationError) -> Problem:
    """Return the problem of invalid arguments, with the nearest valid values."""
    details = error.errors(include_url=False)
    found = pydantic_field_errors(details)
    for one, detail in zip(found, details, strict=True):
        if detail["type"] in ("literal_error", "enum") and isinstance(detail["input"], str):
            one["message"] += did_you_mean(detail["input"], _QUOTED.findall(detail["ctx"]["expected"]))
    return invalid_fields(found)


@dataclass(frozen=True)
class Tool(Generic[Arguments]):
    """One operation. ``handler`` gets the caller and the validated arguments, and returns the result.

    ``destructive``: it may delete or overwrite data. ``idempotent``: repeating a call changes nothing more.
    ``right`` None: the right depends on the arguments and the handler checks it. ``refusal`` turns a
    validation error into one with the wording of the documented system.
    """

    name: str
    description: str
    input: type[Arguments]
    handler: Callable[[Caller, Arguments], Any]
    right: Right | None
    destructive: bool = False
    idempotent: bool = False
    refusal: Refusal | None = None

    @property
    def read_only(self) -> bool:
        return self.right is Right.READ

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        return build_schema(self.input, nulls=not getattr(self.input, "nulls_are_left_out", False))

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self.annotations,
        }

    @property
    def annotations(self) -> dict[str, bool]:
        """Return the hints of MCP."""
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent or self.read_only,
            "openWorldHint": False,
        }

    def run(self, caller: Caller, arguments: dict[str, Any]) -> ToolOutcome:
        """Check right and arguments, and call the handler. Exceptions of the layers below propagate."""
        if self.right:
            caller.require(self.right)
        try:
            parsed = self._parse(arguments)
            with replica.reading(caller.actor.name) if self.read_only else nullcontext():
                result = self.handler(caller, parsed)
        except Problem as problem:
            if problem.status == HTTPStatus.UNPROCESSABLE_ENTITY:
                problem.errors += self._spelling_errors(arguments, {one["field"] for one in problem.errors})
            raise
        # A handler that ignores more than unknown arguments returns an outcome.
        outcome = (
            result if isinstance(result, ToolOutcome) else ToolOutcome(result, unknown_arguments(parsed))
        )
        if outcome.suggestions is not None:
            return outcome
        return replace(outcome, suggestions=self._suggest(outcome.ignored))

    def _parse(self, arguments: dict[str, Any]) -> Arguments:
        try:
            return self.input.model_validate(arguments)
        except ValidationError as error:
            raise (self.refusal or _explain)(error) from None

    def _spelling_errors(self, arguments: dict[str, Any], named: Set[str]) -> list[dict[str, str]]:
        """Return an error for each unknown argument that is similar to one that is not given."""
        return [
            field_error(name, f"is unknown; did you mean {near}?")
            for name, near in self._suggest(arguments.keys() - named).items()
            if near not in arguments
        ]

    def _suggest(self, names: Iterable[str]) -> dict[str, str]:
        """Return the nearest valid name of the first names that are not those of arguments."""
        known = {**self.input_schema["properties"], **dict.fromkeys(getattr(self.input, "other_names", ()))}
        unknown = sorted(name for name in names if name not in known)[:_MAX_SUGGESTIONS]
        nearest = {name: nearest_name(name, known) for name in unknown}
        return {name: near for name, near in nearest.items() if near}


Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass
class Toolset:
    """The tools of one documented system. :meth:`tool` adds one.

    ``recall`` and ``remember``: the tools that search by ``query`` and store a ``content``, with the
    arguments that they need besides.
    """

    name: str
    description: str
    recall: tuple[str, dict[str, Any]]
    remember: tuple[str, dict[str, Any]]
    tools: tuple[Tool[Any], ...] = ()

    def tool(
        self,
        right: Right | None,
        *,
        destructive: bool = False,
        idempotent: bool = False,
        refusal: Refusal | None = None,
    ) -> Callable[[Handler], Handler]:
        """Add a function as a tool. Its name, docstring and second parameter describe the tool."""

        def add(handler: Handler) -> Handler:
            _, arguments, *_ = get_type_hints(handler).values()
            description = " ".join((handler.__doc__ or "").split())
            new = Tool(
                handler.__name__, description, arguments, handler, right, destructive, idempotent, refusal
            )
            self.tools += (new,)
            return handler

        return add

    def find(self, name: str) -> Tool[Any] | None:
        return next((tool for tool in self.tools if tool.name == name), None)


def unknown_arguments(parsed: BaseModel) -> list[str]:
    """Return the names of the given arguments that the tool does not have."""
    return sorted(parsed.model_extra or {})


def int_to_text(value: object) -> object:
    """Return an id as text: agents sometimes send a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Id = Annotated[
    str,
    Field(min_length=1, max_length=64, description="Id of the memory or fact."),
    BeforeValidator(int_to_text),
]


def without_nulls(data: Any, *, keep: str = "") -> Any:
    """Return arguments without nulls. ``keep``: an argument for which null has a meaning."""
    if not isinstance(data, dict):
        return data
    return {name: value for name, value in data.items() if value is not None or name == keep}


class ToolArguments(BaseModel):
    """Base of arguments. Unknown arguments are allowed and reported; null means absent."""

    model_config = ConfigDict(extra="allow")
    nulls_are_left_out: ClassVar[bool] = True

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, data: Any) -> Any:
        return without_nulls(data)


class ReadArguments(ToolArguments, AccessParams):
    """Base of the arguments of reads."""


class IdArguments(ToolArguments):
    id: Id


def trash_memory(uid: str, actor: Actor) -> dict[str, Any]:
    """Move a memory to the trash. Raise Http404 if the actor sees no such memory."""
    if not memories.trash_memories([uid], actor):
        raise Http404
    return {"id": uid, "outcome": "trashed"}


_IDENTITY_FIELDS = frozenset({"content", "project", "scope", "key"})  # fields that identify a repeat


def merge_repeat(
    result: memories.StoreResult,
    draft: MemoryDraft,
    actor: Actor,
    *,
    replaced: Set[str] = frozenset(),
    applied: Set[str] = frozenset(),
) -> list[str]:
    """Merge the given fields into a memory that was stored again with the same content.

    Lists are united, a higher importance and the ``replaced`` fields are set. Return the names of the given
    fields that differ from those of the memory, except ``applied`` ones. A hidden memory stays as it is.
    """
    if result.outcome == "created":
        return []
    given = draft.given - _IDENTITY_FIELDS - applied
    memory = Memory.objects.visible_to(actor.clearance).filter(pk=result.memory.pk).first()
    if memory is None:  # storing by key has set the fields, storing the content has not
        given &= {"created_at"} if result.outcome == "updated" else given - {"ttl_days", "sensitivity"}
        return sorted(given)
    values: dict[str, Any] = {}
    if result.outcome == "refreshed":
        values = {name: getattr(draft, name) for name in given & replaced}
        for name in given & set(LIST_FIELDS) - replaced:
            values[name] = unite_values(name, list_values(memory, name), draft.model_dump()[name])
        if "importance" in given - replaced and draft.importance > memory.importance:
            values["importance"] = draft.importance
    if values:
        memory = memories.update_memory(memory.uid, MemoryPatch.model_validate(values), actor)
        result.memory.refresh_from_db()
    return sorted(name for name in given if _differs(memory, name, draft, actor))


def _differs(memory: Memory, name: str, draft: MemoryDraft, actor: Actor) -> bool:
    """Return whether a memory lacks a given value or item. Nothing lacks an empty value."""
    value = draft.model_dump(include={name})[name]
    if name == "ttl_days":
        return bool(memory.ttl_days != (value or None))
    if value in (None, "", []):
        return False
    current = getattr(memory, name) if name == "created_at" else current_value(memory, name, actor.clearance)
    return any(item not in current for item in value) if name in LIST_FIELDS else value != current


def update_with_outcome(
    uid: str, patch: MemoryPatch, actor: Actor, unchanged_since: datetime | None = None
) -> tuple[Memory, str]:
    """Update a memory; return it with ``updated`` or ``unchanged``."""
    now = timezone.now()
    memory = memories.update_memory(uid, patch, actor, now, unchanged_since=unchanged_since)
    return memory, "updated" if memory.updated_at == now else "unchanged"


def store_fact_with_outcome(draft: FactDraft, actor: Actor) -> dict[str, Any]:
    """Store a fact; return ``outcome``, ``id`` and ``fact``.

    An existing fact that the writer may not read looks like a new one.
    """
    fact, created = services.create_fact(draft, actor)
    if created or Fact.objects.visible_to(actor.clearance).filter(pk=fact.pk).exists():
        return {
            "outcome": "created" if created else "updated",
            "id": fact.uid,
            "fact": serializers.fact(fact),
        }
    sent = draft.model_dump(mode="json", exclude=set(draft.model_extra or {}))
    return {"outcome": "created", "id": fact.uid, "fact": {"id": fact.uid, **sent, "project": fact.project}}
