"""Sign-in with a password or through the organisation's provider, and sign-out."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from allauth.account.forms import LoginForm
from allauth.account.views import LoginView
from allauth.mfa.webauthn.forms import SignupWebAuthnForm
from allauth.mfa.webauthn.internal.auth import begin_registration
from django.conf import settings
from django.contrib import admin
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_login_failed
from django.contrib.auth.views import LogoutView
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from memoryhub.accounts import people, sign_in
from memoryhub.accounts.permissions import user_role
from memoryhub.http.authentication import count_started_sign_in
from memoryhub.memories.errors import StoreError
from memoryhub.web.accounts.forms import LEVEL_LABELS, FirstPasswordForm


class SignInForm(LoginForm):  # type: ignore[misc]  # the library has no types
    """The name is sent as ``username``."""

    def add_prefix(self, field_name: str) -> str:
        return "username" if field_name == "login" else field_name


class Login(LoginView):  # type: ignore[misc]
    """The sign-in page. Signed-in users are redirected; too many wrong passwords response 429."""

    template_name = "registration/login.html"
    form_class = SignInForm

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        organisation = settings.OIDC_NAME if settings.OIDC_ISSUER else ""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return {**context, "organisation": organisation, "next": self.get_next_url() or ""}

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        name = request.POST.get("username", "")
        if seconds := sign_in.login_wait(request, name):
            form = self.get_form_class()(request=request, initial={"login": name})
            context = self.get_context_data(form=form)
            return _render_wait(request, seconds, {**context, "minutes": -(-seconds // 60)})
        response: HttpResponse = super().post(request, *args, **kwargs)
        return response


@login_not_required
@never_cache
def admin_login(request: HttpRequest) -> HttpResponse:
    """The same sign-in page for the admin, whose own would skip the second step."""
    if request.user.is_authenticated and not admin.site.has_permission(request):
        raise PermissionDenied
    response: HttpResponse = Login.as_view(success_url=reverse("admin:index"))(request)
    return response


@method_decorator(login_not_required, name="dispatch")
class Logout(LogoutView):
    """End the session, and with it the sensitivity switches, or leave a sign-in after its first step."""


@login_not_required
@never_cache
@sensitive_post_parameters("password", "again")
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, account: int, token: str) -> HttpResponse:
    """Let an invited person set their password or passkey. Wrong links are throttled like wrong passwords."""
    throttled_as = f"invitation:{account}"  # not a valid user name
    if seconds := sign_in.login_wait(request, throttled_as):
        response = render(request, INVITATION_TEMPLATE, {"minutes": -(-seconds // 60)}, status=429)
        response["Retry-After"] = str(seconds)
        return response
    found = people.find_invitation(account, token)
    if found is None:
        user_login_failed.send(__name__, credentials={"username": throttled_as}, request=request)
        return render(request, INVITATION_TEMPLATE, status=404)
    return _answer_invitation(request, *found, token)


def _answer_invitation(request: HttpRequest, user: User, inviter: User, token: str) -> HttpResponse:
    by_passkey = "credential" in request.POST
    form = FirstPasswordForm(request.POST if request.method == "POST" and not by_passkey else None)
    passkey = SignupWebAuthnForm(request.POST if by_passkey else None, user=user)
    if form.is_valid() or passkey.is_valid():
        try:
            accepted = _accept_invitation(user, token, form, passkey)
        except StoreError as error:
            form.refuse(error)
        else:
            login(request, accepted, backend=settings.AUTHENTICATION_BACKENDS[0])
            return redirect("home")
    context = {
        "form": form,
        "passkey": passkey,
        "options": begin_registration(user, True),
        "person": user,
        "inviter": inviter,
        "role": user_role(user),
        "memberships": user.memberships.all(),
        "level": LEVEL_LABELS[people.permitted_level(user)],
    }
    return render(request, INVITATION_TEMPLATE, context, status=422 if form.errors or passkey.errors else 200)


def _accept_invitation(user: User, token: str, form: FirstPasswordForm, passkey: SignupWebAuthnForm) -> User:
    if passkey.is_bound:
        data = passkey.cleaned_data
        return people.accept_with_passkey(user.pk, token, data["name"], data["credential"])
    return people.accept_invitation(user.pk, token, form.cleaned_data["password"])


INVITATION_TEMPLATE = "registration/invitation.html"


def limit_started_sign_ins(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Limit GET requests of one address, because each stores a session of an unknown visitor."""

    @wraps(view)
    def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        seconds = count_started_sign_in(request.META.get("REMOTE_ADDR", "")) if request.method == "GET" else 0
        if not seconds:
            return view(request, *args, **kwargs)
        text = "Too many sign-ins were started from here. Wait a minute, then try again."
        return HttpResponse(text, status=429, content_type="text/plain", headers={"Retry-After": "60"})

    return limited


@login_not_required
@require_safe
@limit_started_sign_ins
def single_sign_on_start(request: HttpRequest) -> HttpResponse:
    """Redirect to the organisation's provider. ``next``: a page of this site to return to."""
    if not settings.OIDC_ISSUER:
        raise Http404
    from memoryhub.accounts.single_sign_on import start_sign_in  # its library is an optional extra

    return start_sign_in(request)


@login_not_required
@require_safe
def single_sign_on_return(request: HttpRequest) -> HttpResponse:
    """Handle the return from the provider; too many failed sign-ins response 429."""
    if not settings.OIDC_ISSUER:
        raise Http404
    if seconds := sign_in.single_sign_on_wait(request):
        # The page accepts a password meanwhile.
        context = {"organisation": settings.OIDC_NAME, "action": reverse("login")}
        return _render_wait(request, seconds, {**context, "organisation_minutes": -(-seconds // 60)})
    from memoryhub.accounts.single_sign_on import finish_sign_in

    response: HttpResponse = finish_sign_in(request)
    return response


def _render_wait(request: HttpRequest, seconds: int, context: dict[str, Any]) -> HttpResponse:
    response = render(request, "registration/login.html", context, status=429)
    response["Retry-After"] = str(seconds)
    return response
