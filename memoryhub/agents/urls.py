"""The agents' doors: the API under ``/api/v1``, and health at the root, where watchers look for it."""

from django.urls import include, path

from memoryhub.agents import health

urlpatterns = [
    path("api/v1/", include("memoryhub.agents.api.service")),
    path("healthz", health.at_root(health.healthz)),
    path("readyz", health.at_root(health.readyz)),
]
