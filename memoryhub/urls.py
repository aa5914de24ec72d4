"""URLs: the pages, the admin, the JSON API, MCP, OAuth and the health checks."""

from django.contrib import admin
from django.urls import include, path, re_path
from django.views.generic import RedirectView

from memoryhub.api import health, oauth
from memoryhub.http import monitoring
from memoryhub.mcp import http as mcp
from memoryhub.web.accounts.sign_in import admin_login

admin.autodiscover()  # not when the apps are loaded: most commands need no page

urlpatterns = [
    # The profile page also ends other sessions and writes to the journal.
    path("admin/password_change/", RedirectView.as_view(pattern_name="you")),
    path("admin/login/", admin_login),
    path("admin/", admin.site.urls),
    path("api/v1/oauth/register", oauth.register),
    path("api/v1/oauth/token", oauth.token),
    path("api/v1/oauth/revoke", oauth.revoke),
    path("api/v1/", include("memoryhub.api.router")),
    re_path(r"^mcp(?:/(?P<toolset>[^/]+))?/?$", mcp.mcp_endpoint),
    path(".well-known/oauth-authorization-server", oauth.server_metadata),
    path(".well-known/oauth-protected-resource/mcp/<slug:toolset>", oauth.resource_metadata),
    path("healthz", health.serve_at_root(health.healthz)),
    path("readyz", health.serve_at_root(health.readyz)),
    path("metrics", monitoring.metrics),
    path("", include("memoryhub.web.urls")),
]

# Outside /api these answer with a page.
handler400 = "memoryhub.web.base.views.bad_request"
handler403 = "memoryhub.web.base.views.forbidden"
handler404 = "memoryhub.web.base.views.not_found"
handler500 = "memoryhub.web.base.views.server_error"
