"""The JSON Schema of a tool's arguments, as small and plain as it can be said: models read it each time.

References are replaced by what they refer to (some clients follow none), and titles that repeat a name are
left out. Pure.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

_NULL = {"type": "null"}


def schema_of(arguments: type[BaseModel], *, nulls: bool) -> dict[str, Any]:
    """``nulls`` False: a null means that an argument is left out, so the schema does not speak of it."""
    whole = arguments.model_json_schema()
    definitions = whole.pop("$defs", {})
    for name in ("title", "description"):
        whole.pop(name, None)
    made = {"properties": {}, **_plain(whole, definitions, nulls)}
    made["properties"] = _ordered(made["properties"], made.get("required", []))
    return made


def _ordered(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """What is needed first, what opens further levels last."""
    names = sorted(properties, key=lambda name: (name not in required, name.startswith("allow_")))
    return {name: properties[name] for name in names}


def _plain(schema: dict[str, Any], definitions: dict[str, Any], nulls: bool) -> dict[str, Any]:
    if reference := schema.get("$ref"):
        schema = {**definitions[reference.rpartition("/")[2]], **schema}
    made: dict[str, Any] = {}
    for name, value in schema.items():
        if name in ("$ref", "title"):
            continue
        if name == "properties":
            made[name] = {key: _plain(one, definitions, nulls) for key, one in value.items()}
        elif name == "anyOf":
            made[name] = [_plain(one, definitions, nulls) for one in value]
        elif isinstance(value, dict):
            made[name] = _plain(value, definitions, nulls)
        else:
            made[name] = value
    return made if nulls else _without_null(made)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """What is left where a null is not spoken of."""
    if _NULL not in schema.get("anyOf", ()):
        return schema
    others = [one for one in schema["anyOf"] if one != _NULL]
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    if rest.get("default", 0) is None:
        del rest["default"]
    return {**others[0], **rest} if len(others) == 1 else {"anyOf": others, **rest}
