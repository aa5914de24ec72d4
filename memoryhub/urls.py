"""Doors of the hub: the pages, the admin; the API and health have theirs in agents."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("memoryhub.web.urls")),
]
