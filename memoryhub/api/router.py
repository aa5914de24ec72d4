"""The API: routers, strict JSON parser, exception handler, OpenAPI document, and pages that show it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

import memoryhub
from memoryhub.api import (
    events,
    extraction,
    health,
    injection,
    maintenance,
    memories,
    projects,
    records,
    search,
    tools,
    transfer,
)
from memoryhub.http.problems import MEDIA_TYPE, StrictParser, handle_exception

_DESCRIPTION = """Store, search, correct and delete the memories of agents.

Every operation except the two health checks needs a token. `manage.py create_token NAME` prints one. A read
returns public memories. `allow_private` and `allow_secret` add the other levels if the token has clearance
for them. Errors are RFC 9457 problems."""

_PROBLEM = "#/components/schemas/ProblemShape"


class Api(NinjaAPI):
    """Ninja with view names as operation ids and problem responses for every error."""

    def set_default_exception_handlers(self) -> None:
        """Register one handler instead of ninja's own."""
        self.add_exception_handler(Exception, handle_exception)

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def get_openapi_schema(self, **kwargs: Any) -> OpenAPISchema:
        return self._description

    @cached_property
    def _description(self) -> OpenAPISchema:
        document = super().get_openapi_schema()
        for operations in document["paths"].values():
            for operation in operations.values():
                for status, response in operation["responses"].items():
                    if status >= 400:
                        response["content"] = {MEDIA_TYPE: {"schema": {"$ref": _PROBLEM}}}
        return document


api = Api(
    title="memoryhub",
    version=memoryhub.__version__,
    description=_DESCRIPTION,
    urls_namespace="api",
    parser=StrictParser(),
    docs_url=None,  # served below, after login
    docs_decorator=require_safe,
)
for router in (
    injection.router,  # before memories, whose path /memories/{id} would match too
    memories.router,
    memories.related_router,
    search.router,
    extraction.router,
    records.router,
    events.router,
    injection.checks_router,
    projects.router,
    tools.router,
    maintenance.router,
    transfer.router,
    health.router,
):
    api.add_router("", router)


@require_safe
@login_required
def docs(request: HttpRequest, name: str = "") -> HttpResponse:
    """Show all operations of the API, or the one of this name, to people who are logged in."""
    operations = list_operations(api.get_openapi_schema())
    context: dict[str, Any] = {"about": _DESCRIPTION.split("\n\n"), "operations": operations}
    if name:
        operation = next((one for one in operations if one.name == name), None)
        if operation is None:
            raise Http404
        context |= {"operation": operation, "example": operation.example(request.build_absolute_uri("/"))}
    return render(request, "api_docs.html", context)


urlpatterns = [
    path("docs", docs, name="api-docs"),
    path("docs/<slug:name>", docs, name="api-operation"),
    path("", api.urls),
]


Schema = dict[str, Any]
# The page of all operations explains them.
_COMMON_STATUSES = frozenset(["400", "401", "403", "413", "415", "422", "429", "503"])
_LIMITS = {
    "minimum": "at least {:,}",
    "maximum": "at most {:,}",
    "maxLength": "at most {:,} characters",
    "maxItems": "at most {:,} items",
}
_PLURAL = frozenset(["string", "integer", "number", "boolean", "object"])
_SAMPLES = {"string": "…", "boolean": True, "object": {}, "date-time": "2026-01-31T12:00:00Z"}


class Field(NamedTuple):
    """A parameter, or a field of a JSON object."""

    name: str
    type: str
    of: str  # the name of the object that it contains
    is_required: bool
    description: str
    place: str = ""


class DocumentedOperation:
    """An operation of the OpenAPI document."""

    def __init__(self, document: Schema, path: str, method: str) -> None:
        described = document["paths"][path][method]
        self.schemas: dict[str, Schema] = document["components"]["schemas"]
        self.path, self.method, self.responses = path, method.upper(), described["responses"]
        self.name: str = described["operationId"]
        self.summary: str = described["summary"]
        self.group: str = described["tags"][0]
        self.paragraphs: list[str] = described.get("description", "").split("\n\n")
        self.needs_token = "security" in described
        self.parameters = [
            self._field(one["name"], one["schema"], one.get("required", False), one["in"])
            for one in described.get("parameters", [])
        ]
        self._accepted: Schema | None = described.get("requestBody", {}).get("content")

    @property
    def takes_file(self) -> bool:
        return "application/octet-stream" in (self._accepted or {})

    @property
    def body(self) -> Schema:
        return (self._accepted or {}).get("application/json", {}).get("schema", {})  # type: ignore[no-any-return]

    @property
    def answer(self) -> Schema:
        """The schema of the first answer that is not an error."""
        content = next(iter(self.responses.values()))["content"]
        return content.get("application/json", {}).get("schema", {})  # type: ignore[no-any-return]

    def body_objects(self) -> list[tuple[str, list[Field]]]:
        return list(self._objects(self.body))

    def answer_objects(self) -> list[tuple[str, list[Field]]]:
        return list(self._objects(self.answer))

    def statuses(self) -> list[tuple[str, str]]:
        """Return the statuses of this operation, without the common ones."""
        own = {str(status): answer["description"] for status, answer in self.responses.items()}
        return [(status, meaning) for status, meaning in own.items() if status not in _COMMON_STATUSES]

    def example(self, base_url: str) -> str:
        """Return a command that sends this request with what it requires."""
        path, query = self.path, []
        for one in self.parameters:
            if one.place == "path":
                path = path.replace(f"{{{one.name}}}", one.name.upper())
            elif one.is_required or one.name == "query":
                query.append(f"{one.name}={one.name.upper()}")
        url = base_url.rstrip("/") + path + ("?" + "&".join(query) if query else "")
        parts = [f"curl -X {self.method} {shlex.quote(url)}"]
        if self.needs_token:
            parts.append('-H "Authorization: Bearer $TOKEN"')
        if self.takes_file:
            parts.append("--data-binary @FILE")
        elif self._accepted is not None:
            parts.append(f"--json {shlex.quote(json.dumps(self._sample(self.body), ensure_ascii=False))}")
        return " \\\n  ".join(parts)

    def _field(self, name: str, schema: Schema, is_required: bool, place: str = "") -> Field:
        kind, of = self._type(schema)
        if "minimum" in schema and "maximum" in schema:
            limits = ["{minimum:,} to {maximum:,}".format_map(schema)]
        else:
            limits = [text.format(schema[key]) for key, text in _LIMITS.items() if key in schema]
        if schema.get("default") not in (None, "", [], {}):
            limits.append(f"default {json.dumps(schema['default'])}")
        return Field(name, ", ".join([kind, *limits]), of, is_required, schema.get("description", ""), place)

    def _type(self, schema: Schema) -> tuple[str, str]:
        """Return the type in words, and the name of the object that it contains."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            found = self.schemas[name]
            return (name, name) if "properties" in found else self._type(found)
        if choices := schema.get("anyOf") or schema.get("allOf"):
            types = [self._type(one) for one in choices if one != {"type": "null"}]
            return " or ".join(kind for kind, _ in types), next((name for _, name in types if name), "")
        if values := schema.get("enum") or [schema[key] for key in ("const",) if key in schema]:
            return "one of " * (len(values) > 1) + ", ".join(map(str, values)), ""
        if schema.get("type") == "array":
            kind, name = self._type(schema.get("items", {}))
            return f"list of {kind}" + "s" * (kind in _PLURAL), name
        return schema.get("format") or schema.get("type", "any value"), ""

    def _objects(self, schema: Schema) -> Iterator[tuple[str, list[Field]]]:
        """Yield the object of a schema, and those within it, each once."""
        waiting, seen = [self._type(schema)[1]], {""}
        while waiting:
            if (name := waiting.pop(0)) in seen:
                continue
            seen.add(name)
            fields = self._fields(name)
            yield name, fields
            waiting += [field.of for field in fields]

    def _fields(self, name: str) -> list[Field]:
        required = self.schemas[name].get("required", [])
        properties = self.schemas[name]["properties"]
        return [self._field(key, schema, key in required) for key, schema in properties.items()]

    def _sample(self, schema: Schema) -> Any:
        """Return a value of this type: of an object, the required fields or else the first one."""
        if "$ref" in schema:
            return self._sample(self.schemas[schema["$ref"].rpartition("/")[2]])
        if choices := schema.get("anyOf") or schema.get("allOf"):
            return self._sample(choices[0])
        if values := schema.get("enum"):
            return values[0]
        if properties := schema.get("properties"):
            names = schema.get("required") or list(properties)[:1]
            return {name: self._sample(properties[name]) for name in names}
        if schema.get("type") == "array":
            return [self._sample(schema.get("items", {}))]
        return _SAMPLES.get(schema.get("format") or schema.get("type", ""), schema.get("minimum", 1))


def list_operations(document: Schema) -> list[DocumentedOperation]:
    """Return all operations in the order of the document, those of a group together."""
    found = [
        DocumentedOperation(document, path, method)
        for path in document["paths"]
        for method in document["paths"][path]
    ]
    groups = list(dict.fromkeys(one.group for one in found))
    return sorted(found, key=lambda one: groups.index(one.group))
