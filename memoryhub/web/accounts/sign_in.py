"""Sign-in with a password, a second factor or the organisation's provider, sign-out, and consent of OAuth.

Passkeys, authenticator apps and recovery codes are django-allauth's views, with the hub's templates, limits
and messages; so are their pages under Profile. On the consent page, a person allows or denies that an app
acts for them (docs/tools.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from allauth.account.forms import LoginForm
from allauth.account.forms import ReauthenticateForm as PasswordAgainForm
from allauth.account.internal.stagekit import clear_login, unstash_login
from allauth.account.views import LoginView, ReauthenticateView
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.base.views import AuthenticateView
from allauth.mfa.base.views import ReauthenticateView as ReauthenticateByCodeView
from allauth.mfa.recovery_codes.views import GenerateRecoveryCodesView, ViewRecoveryCodesView
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.totp.views import ActivateTOTPView, DeactivateTOTPView
from allauth.mfa.webauthn.forms import SignupWebAuthnForm
from allauth.mfa.webauthn.internal import auth as webauthn
from allauth.mfa.webauthn.internal.auth import begin_registration
from allauth.mfa.webauthn.views import (
    AddWebAuthnView,
    LoginWebAuthnView,
    ReauthenticateWebAuthnView,
    RemoveWebAuthnView,
)
from cryptography.fernet import InvalidToken
from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_login_failed
from django.contrib.auth.views import LogoutView
from django.contrib.messages.views import SuccessMessageMixin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse, reverse_lazy
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from memoryhub.accounts import identities, oauth, people, second_factors, sign_in
from memoryhub.accounts.clearance import request_actor
from memoryhub.accounts.permissions import ADD_TOKEN, CHANGE_TOKEN, user_role
from memoryhub.accounts.second_factors import SIGN_IN_REFUSED
from memoryhub.core.database import write_transaction
from memoryhub.core.vocabulary import RIGHTS
from memoryhub.http.authentication import count_started_sign_in
from memoryhub.http.middleware import page_policy
from memoryhub.memories.errors import StoreError
from memoryhub.toolsets import TOOLSETS
from memoryhub.web.accounts.forms import LEVEL_LABELS, ConsentForm, FirstPasswordForm
from memoryhub.web.base.requests import page_url, signed_in_user


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


if TYPE_CHECKING:
    from memoryhub.accounts.oauth_server import Authorization

_EXPLANATIONS = {
    "invalid_client": "The app is not registered here, or its registration expired before anyone approved it."
    " Remove the connection in the app and add it again.",
    "invalid_target": "The app asks for something that is not an MCP server of this hub."
    " Check the address that you gave to the app.",
    "invalid_scope": "The app asks for rights that this hub does not know."
    f" If you develop the app, send as scope one or more of: {', '.join(RIGHTS)}.",
    "unsupported_response_type": "The app asks for a response type that this hub does not support."
    " If you develop the app, send response_type=code.",
}


@require_http_methods(["GET", "HEAD", "POST"])
def authorize(request: HttpRequest) -> HttpResponse:
    """Show what an app asks for, and send the person back to it with their answer."""
    if not settings.PUBLIC_URL:
        raise Http404
    from memoryhub.accounts import oauth_server  # loads Authlib

    resources = {oauth.resource_url(name): name for name in TOOLSETS}
    try:
        asked = oauth_server.read_authorization(request, resources)
    except oauth_server.AuthorizationRefused as error:
        context = {"code": error.code, "why": _EXPLANATIONS.get(error.code, error.description)}
        return error.response or render(request, "authorize/refused.html", context, status=400)
    if request.method != "POST":
        return _consent_page(request, asked, ConsentForm(signed_in_user(request), asked.scopes, asked.client))
    if request.POST.get("decision") != "allow":
        return asked.deny()
    return _allow(request, asked)


def _allow(request: HttpRequest, asked: Authorization) -> HttpResponse:
    user = signed_in_user(request)
    form = ConsentForm(user, asked.scopes, asked.client, request.POST)
    if _obstacle(request, asked):
        return _consent_page(request, asked, form)

    def allow() -> HttpResponse:
        with write_transaction():
            if asked.client.approved_at is None:
                oauth.approve_client(asked.client, user, request_actor(request))
            return asked.allow(user, form.values())

    return form.submit(allow) or _consent_page(request, asked, form)


def _obstacle(request: HttpRequest, asked: Authorization) -> str:
    """Return why this person may not allow it; empty if they may."""
    if not request.user.has_perm(ADD_TOKEN):
        return "You do not have permission to give apps access. Ask an administrator of the hub."
    if asked.client.approved_at is None and not request.user.has_perm(CHANGE_TOKEN):
        return "No one has approved this app yet. Ask a maintainer of the hub to connect it first."
    return ""


def _consent_page(request: HttpRequest, asked: Authorization, form: ConsentForm) -> HttpResponse:
    obstacle = _obstacle(request, asked)
    if not obstacle and not form.fields["rights"].choices:  # type: ignore[attr-defined]
        obstacle = "The app asks for rights that you do not have."
    origin = oauth.redirect_origin(asked.redirect_uri)
    context = {
        "client": asked.client,
        "toolset": asked.audience.rpartition("/")[2],
        "origin": origin,
        "is_local": origin.startswith("http:"),
        "form": form,
        "obstacle": obstacle,
    }
    status = 403 if obstacle else 422 if form.errors else 200
    response = render(request, "authorize/consent.html", context, status=status)
    # Browsers apply form-action to the redirect that follows a form, too.
    policy = page_policy().replace("form-action 'self'", f"form-action 'self' {origin}")
    response.headers["Content-Security-Policy"] = policy
    return response


PROFILE_SECTION = reverse_lazy("you")
WRONG_CODE = "This code is wrong, has expired or was used before."
KEY_CHANGED = (
    "Codes cannot be checked, because the hub's secret key has changed. "
    "Use a passkey, or ask an administrator to remove your second factors."
)
ONLY_WAY_IN = "This passkey is your only way to sign in. Add another, or ask an administrator for a password."


def code_field() -> forms.CharField:
    widget = forms.TextInput(attrs={"autocomplete": "one-time-code", "autocapitalize": "none"})
    return forms.CharField(label="Code", max_length=20, widget=widget)


class SingleUseCode:
    """Accepts each code once, in all processes, and counts a wrong one like a wrong password."""

    def clean_code(self: Any) -> str:
        try:
            code: str = super().clean_code()  # type: ignore[misc]
        except InvalidToken:
            raise forms.ValidationError(KEY_CHANGED) from None
        except forms.ValidationError:
            raise forms.ValidationError(WRONG_CODE) from None
        is_app = self.authenticator.type == "totp"
        if is_app and not second_factors.use_code(self.authenticator, code):
            self._emit_authentication_failed(self.authenticator)
            raise forms.ValidationError(WRONG_CODE)
        return code


class CodeForm(SingleUseCode, AuthenticateForm):  # type: ignore[misc]  # the library has no types
    code = code_field()


class CodeAgainForm(SingleUseCode, ReauthenticateForm):  # type: ignore[misc]
    code = code_field()


class AppCodeForm(ActivateTOTPForm):  # type: ignore[misc]
    code = code_field()

    def clean_code(self) -> str:
        try:
            return str(super().clean_code())
        except forms.ValidationError:
            raise forms.ValidationError(WRONG_CODE) from None


class PasswordAgain(PasswordAgainForm):  # type: ignore[misc]
    password = forms.CharField(
        strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )

    def clean_password(self) -> str:
        try:
            return str(super().clean_password())
        except forms.ValidationError:
            raise forms.ValidationError("This is not your password.") from None


class Throttled:
    """Answers 429 while too many passwords or codes of this person were wrong."""

    request: HttpRequest

    def person(self) -> Any:
        return self.request.user

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if seconds := sign_in.login_wait(request, self.person().get_username()):
            context = {**self.get_context_data(), "minutes": -(-seconds // 60)}  # type: ignore[attr-defined]
            response: HttpResponse = self.render_to_response(context, status=429)  # type: ignore[attr-defined]
            response["Retry-After"] = str(seconds)
            return response
        answer: HttpResponse = super().post(request, *args, **kwargs)  # type: ignore[misc]
        return answer


@method_decorator(login_not_required, name="dispatch")
class SecondStep(Throttled, AuthenticateView):  # type: ignore[misc]
    """The second step of a sign-in: a passkey, a code of the app, or a recovery code."""

    template_name = "registration/second_step.html"
    form_class = CodeForm

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Start again if an administrator has removed the factors meanwhile."""
        pending = unstash_login(request, peek=True)
        if pending and not (pending.user and second_factors.has_second_factor(pending.user)):
            clear_login(request)
            messages.info(request, "Your second factors were removed. Sign in with your password.")
            return redirect("login")
        response: HttpResponse = super().dispatch(request, *args, **kwargs)
        return response

    def person(self) -> Any:
        return self.stage.login.user

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        kinds = {one.type for one in second_factors.list_second_factors(self.person())}
        return {**super().get_context_data(), "kinds": kinds, "person": self.person()}


@method_decorator(limit_started_sign_ins, name="get")
class PasskeySignIn(LoginWebAuthnView):  # type: ignore[misc]
    """Sign-in with a passkey alone. GET returns the challenge for the script."""

    def form_invalid(self, form: Any) -> HttpResponse:
        messages.error(self.request, SIGN_IN_REFUSED)
        return redirect(page_url("login", next=self.request.POST.get("next", "")))


class _Confirm(Throttled):
    template_name = "registration/confirm.html"


class ConfirmWithPassword(_Confirm, ReauthenticateView):  # type: ignore[misc]
    """Asks for the password again before second factors are shown or changed."""

    form_class = PasswordAgain


class ConfirmWithCode(_Confirm, ReauthenticateByCodeView):  # type: ignore[misc]
    form_class = CodeAgainForm


class ConfirmWithPasskey(_Confirm, ReauthenticateWebAuthnView):  # type: ignore[misc]
    def form_invalid(self, form: Any) -> HttpResponse:
        messages.error(self.request, "The passkey was not accepted. Try again.")
        return self.render_to_response(self.get_context_data())  # type: ignore[no-any-return]


class SetUpApp(SuccessMessageMixin, ActivateTOTPView):  # type: ignore[misc,type-arg]
    template_name = "you/authenticator.html"
    form_class = AppCodeForm
    success_message = "The authenticator app is set up."


class TurnOffApp(SuccessMessageMixin, DeactivateTOTPView):  # type: ignore[misc,type-arg]
    template_name = "you/second_factor_remove.html"
    success_url = PROFILE_SECTION
    success_message = "The authenticator app is removed."


class RecoveryCodes(ViewRecoveryCodesView):  # type: ignore[misc]
    """Shows new recovery codes once."""

    template_name = "you/recovery_codes.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return {**context, "unused_code_count": len(context["unused_codes"])}


class NewRecoveryCodes(GenerateRecoveryCodesView):  # type: ignore[misc]
    template_name = "you/recovery_codes.html"


class AddPasskey(SuccessMessageMixin, AddWebAuthnView):  # type: ignore[misc,type-arg]
    template_name = "you/passkey.html"
    success_message = "The passkey is added."

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        options = webauthn.begin_registration(self.request.user, True)
        form = kwargs.get("form") or self.get_form()
        return {"form": form, "options": options, "view": self}


class RemovePasskey(SuccessMessageMixin, RemoveWebAuthnView):  # type: ignore[misc,type-arg]
    """Removes a passkey, unless it is the only way to sign in."""

    template_name = "you/second_factor_remove.html"
    success_url = PROFILE_SECTION
    success_message = "The passkey is removed."

    def form_valid(self, form: Any) -> HttpResponse:
        user = signed_in_user(self.request)
        others = self.get_queryset().exclude(pk=self.object.pk).exists()
        by_provider = identities.signs_in(identities.find_identity(user))
        if not others and not user.has_usable_password() and not by_provider:
            messages.error(self.request, ONLY_WAY_IN)
            return redirect("you")
        return super().form_valid(form)
