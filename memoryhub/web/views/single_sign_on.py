"""To the organisation's sign-in and back; 404 where there is none."""

from __future__ import annotations

import logging

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from memoryhub.team import signing

logger = logging.getLogger(__name__)


@login_not_required
@require_safe
def start(request: HttpRequest) -> HttpResponse:
    """``next``: a page of this site to come back to."""
    if not settings.OIDC_ISSUER:
        raise Http404
    # The library comes with an extra that is not installed everywhere.
    from memoryhub.team.single_sign_on import FAILED, NoProvider, ToProvider

    try:
        answer: HttpResponse = ToProvider.as_view()(request)
    except NoProvider as error:
        logger.warning("%s", error)
        return redirect(FAILED)
    return answer


@login_not_required
@require_safe
def back(request: HttpRequest) -> HttpResponse:
    """Where the provider sends the browser back to; 429 where too many from there were not let in."""
    if not settings.OIDC_ISSUER:
        raise Http404
    if seconds := signing.wait_for_organisation(request):
        return _wait(request, seconds)
    from memoryhub.team.single_sign_on import FromProvider

    answer: HttpResponse = FromProvider.as_view()(request)
    return answer


def _wait(request: HttpRequest, seconds: int) -> HttpResponse:
    """The login page, where a password can be given meanwhile."""
    context = {
        "organisation": settings.OIDC_NAME,
        "organisation_minutes": -(-seconds // 60),
        "action": reverse("login"),
    }
    answer = render(request, "registration/login.html", context, status=429)
    answer["Retry-After"] = str(seconds)
    return answer
