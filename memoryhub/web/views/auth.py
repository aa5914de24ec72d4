"""Signing in and out."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse

from memoryhub.team import signing


class Login(LoginView):
    """Someone who is signed in already goes straight on; who guesses passwords has to wait."""

    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        organisation = settings.OIDC_NAME if settings.OIDC_ISSUER else ""
        return {**super().get_context_data(**kwargs), "organisation": organisation}

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if seconds := signing.wait(request, request.POST.get("username", "")):
            context = self.get_context_data(form=self.get_form_class()(request), minutes=-(-seconds // 60))
            answer = self.render_to_response(context, status=429)
            answer["Retry-After"] = str(seconds)
            return answer
        return super().post(request, *args, **kwargs)


class Logout(LogoutView):
    """POST only; ends the session, and with it the switches."""
