"""The API: routers, strict JSON parser, exception handler, OpenAPI document and its pages."""

from __future__ import annotations

from functools import cached_property
from typing import Any

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
    health,
    injection,
    maintenance,
    memories,
    projects,
    records,
    reference,
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
    events.extraction_router,
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
    operations = reference.list_operations(api.get_openapi_schema())
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
