"""Sign in and out, with a password or through the organisation's provider."""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView, LogoutView
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from memoryhub.accounts import sign_in


class Login(LoginView):
    """Someone who is signed in already goes straight on; who guesses passwords has to wait."""

    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        organisation = settings.OIDC_NAME if settings.OIDC_ISSUER else ""
        return {**super().get_context_data(**kwargs), "organisation": organisation}

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if seconds := sign_in.login_wait(request, request.POST.get("username", "")):
            context = self.get_context_data(form=self.get_form_class()(request), minutes=-(-seconds // 60))
            answer = self.render_to_response(context, status=429)
            answer["Retry-After"] = str(seconds)
            return answer
        return super().post(request, *args, **kwargs)


class Logout(LogoutView):
    """POST only; ends the session, and with it the switches."""


logger = logging.getLogger(__name__)


@login_not_required
@require_safe
def single_sign_on_start(request: HttpRequest) -> HttpResponse:
    """``next``: a page of this site to come back to."""
    if not settings.OIDC_ISSUER:
        raise Http404
    # The library comes with an extra that is not installed everywhere.
    from memoryhub.accounts.single_sign_on import FAILED_URL, ProviderUnavailable, StartSingleSignOnView

    try:
        answer: HttpResponse = StartSingleSignOnView.as_view()(request)
    except ProviderUnavailable as error:
        logger.warning("%s", error)
        return redirect(FAILED_URL)
    return answer


@login_not_required
@require_safe
def single_sign_on_return(request: HttpRequest) -> HttpResponse:
    """Where the provider sends the browser back to; 429 where too many from there were not let in."""
    if not settings.OIDC_ISSUER:
        raise Http404
    if seconds := sign_in.single_sign_on_wait(request):
        return _render_wait(request, seconds)
    from memoryhub.accounts.single_sign_on import SingleSignOnCallbackView

    answer: HttpResponse = SingleSignOnCallbackView.as_view()(request)
    return answer


def _render_wait(request: HttpRequest, seconds: int) -> HttpResponse:
    """The login page, where a password can be given meanwhile."""
    context = {
        "organisation": settings.OIDC_NAME,
        "organisation_minutes": -(-seconds // 60),
        "action": reverse("login"),
    }
    answer = render(request, "registration/login.html", context, status=429)
    answer["Retry-After"] = str(seconds)
    return answer
