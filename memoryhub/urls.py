"""Doors of the hub: the pages, the admin, and the agents' API with its health."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

admin.autodiscover()  # not when the apps are loaded: most commands need no page

urlpatterns = [
    # One door for one's own password: the page that ends other sessions and tells the journal.
    path("admin/password_change/", RedirectView.as_view(pattern_name="you")),
    path("admin/", admin.site.urls),
    path("", include("memoryhub.agents.urls")),
    path("", include("memoryhub.web.urls")),
]

# Outside /api these answer with a page.
handler400 = "memoryhub.web.views.errors.bad_request"
handler403 = "memoryhub.web.views.errors.forbidden"
handler404 = "memoryhub.web.views.errors.not_found"
handler500 = "memoryhub.web.views.errors.server_error"
