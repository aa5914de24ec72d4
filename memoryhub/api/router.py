"""The API put together: routers, strict JSON, problems for every error, the OpenAPI description, its page."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.openapi.docs import Swagger
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

import memoryhub
from memoryhub.api import (
    duplicates,
    events,
    extraction,
    health,
    injection,
    maintenance,
    memories,
    prompt,
    records,
    search,
    tools,
    transfer,
)
from memoryhub.http.json import StrictParser
from memoryhub.http.problems import MEDIA_TYPE, handle_exception

_DESCRIPTION = """What agents remember: stored, searched, corrected, forgotten.

Every call but the two of health needs a token: `manage.py create_token NAME` prints one. A read shows public
memories unless it asks for more with `allow_private` and `allow_secret`, and its token may. Errors are
RFC 9457 problems."""

_PROBLEM = "#/components/schemas/ProblemShape"


class Api(NinjaAPI):
    """Ninja, with short operation ids, problems under their media type, and one description for all."""

    def set_default_exception_handlers(self) -> None:
        """One for all, in the place of ninja's own."""
        self.add_exception_handler(Exception, handle_exception)

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def get_openapi_schema(self, **kwargs: Any) -> OpenAPISchema:
        return self._description

    @cached_property
    def _description(self) -> OpenAPISchema:
        made = super().get_openapi_schema()
        for operations in made["paths"].values():
            for operation in operations.values():
                for status, response in operation["responses"].items():
                    if status >= 400:
                        response["content"] = {MEDIA_TYPE: {"schema": {"$ref": _PROBLEM}}}
        return made


api = Api(
    title="memoryhub",
    version=memoryhub.__version__,
    description=_DESCRIPTION,
    urls_namespace="api",
    parser=StrictParser(),
    docs_url=None,  # served below, behind a login
    docs_decorator=require_safe,
)
for router in (
    prompt.router,  # before memories: a path of theirs takes any word as an id
    memories.router,
    duplicates.router,
    search.router,
    injection.router,
    extraction.router,
    records.router,
    events.router,
    tools.router,
    maintenance.router,
    transfer.router,
    health.router,
):
    api.add_router("", router)


@require_safe
@login_required
def docs(request: HttpRequest) -> HttpResponse:
    """Swagger UI out of ninja's static files, for people who are logged in."""
    # Without a validator: its badge would be fetched from a site outside.
    return Swagger({"validatorUrl": None}).render_page(request, api)


urlpatterns = [path("docs", docs, name="api-docs"), path("", api.urls)]
