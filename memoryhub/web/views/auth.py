"""Signing in and out."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse

from memoryhub import signing


class Login(LoginView):
    """Someone who is signed in already goes straight on; who guesses passwords has to wait."""

    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if seconds := signing.wait(request, request.POST.get("username", "")):
            context = self.get_context_data(form=self.get_form_class()(request), minutes=-(-seconds // 60))
            answer = self.render_to_response(context, status=429)
            answer["Retry-After"] = str(seconds)
            return answer
        return super().post(request, *args, **kwargs)


class Logout(LogoutView):
    """POST only; ends the session, and with it the switches."""
