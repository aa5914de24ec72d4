"""Passkeys, authenticator apps and recovery codes: their use at sign-in, and their pages under Profile.

The views are django-allauth's, with the hub's templates, limits and messages.
"""

from __future__ import annotations

from typing import Any

from allauth.account.forms import ReauthenticateForm as PasswordAgainForm
from allauth.account.internal.stagekit import clear_login, unstash_login
from allauth.account.views import ReauthenticateView
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.base.views import AuthenticateView
from allauth.mfa.base.views import ReauthenticateView as ReauthenticateByCodeView
from allauth.mfa.recovery_codes.views import GenerateRecoveryCodesView, ViewRecoveryCodesView
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.totp.views import ActivateTOTPView, DeactivateTOTPView
from allauth.mfa.webauthn.internal import auth as webauthn
from allauth.mfa.webauthn.views import (
    AddWebAuthnView,
    LoginWebAuthnView,
    ReauthenticateWebAuthnView,
    RemoveWebAuthnView,
)
from cryptography.fernet import InvalidToken
from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.messages.views import SuccessMessageMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse_lazy
from django.utils.decorators import method_decorator

from memoryhub.accounts import identities, second_factors, sign_in
from memoryhub.accounts.second_factors import SIGN_IN_REFUSED
from memoryhub.web.accounts.sign_in import limit_started_sign_ins
from memoryhub.web.base.requests import page_url, signed_in_user

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
