"""The agents' doors: the API under ``/api/v1``, MCP, and health at the root, where watchers look for it."""

from django.urls import include, path, re_path

from memoryhub.agents import health
from memoryhub.agents.mcp import http as mcp

urlpatterns = [
    path("api/v1/", include("memoryhub.agents.api.service")),
    re_path(r"^mcp(?:/(?P<toolset>[^/]+))?/?$", mcp.endpoint),
    path("healthz", health.at_root(health.healthz)),
    path("readyz", health.at_root(health.readyz)),
]
