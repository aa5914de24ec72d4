"""The user's own page: rights, preferences, password, tokens, connected apps, sessions and digests."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import permission_required
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memoryhub import digests
from memoryhub.access.policy import AGENT_PREFIX, LEVELS, Sensitivity
from memoryhub.accounts import identities, oauth, people, second_factors, sign_in, tokens
from memoryhub.accounts.clearance import (
    is_confined,
    may_view_level,
    request_actor,
    request_clearance,
    user_clearance,
)
from memoryhub.accounts.permissions import ADD_TOKEN, CHANGE_TOKEN, ROLES, user_role
from memoryhub.core.text import count_with_verb, format_count
from memoryhub.digests import DeliveryFailed, collect_content
from memoryhub.injection.queries import count_helped
from memoryhub.memories.errors import StoreError
from memoryhub.models import AgentToken, Digest, OAuthClient, Profile
from memoryhub.models.account import CHANNELS, PERIODS
from memoryhub.web.accounts.forms import PasswordForm, PreferencesForm, TokenForm
from memoryhub.web.base.forms import PlainForm, ProjectField
from memoryhub.web.base.requests import numbered_page, show_success, signed_in_user

SESSIONS_PER_PAGE = 20  # on a page
MAX_TOKENS = 100  # listed; also the number of remembered forms
_USED_FORMS_KEY = "token_forms_used"  # session key of the forms that issued a token


@require_safe
def you(request: HttpRequest) -> HttpResponse:
    return _render_page(request)


@require_POST
def preferences(request: HttpRequest) -> HttpResponse:
    form = PreferencesForm(request.POST)
    if not form.is_valid():
        return _render_page(request, preferences=form)
    people.save_preferences(signed_in_user(request), **form.cleaned_data)
    messages.success(request, "Preferences saved.")
    return redirect("you")


@require_POST
def password(request: HttpRequest) -> HttpResponse:
    """Change the password, which ends all other sessions of the account."""
    user = signed_in_user(request)
    form = PasswordForm(request, request.POST)

    def change() -> bool:
        people.change_password(user, *form.passwords())
        return True

    if form.submit(change):
        update_session_auth_hash(request, user)
        messages.success(request, "Password changed. You are signed out everywhere else.")
        return redirect("you")
    response = _render_page(request, password=form)
    if form.wait:
        response.status_code = 429
        response["Retry-After"] = str(form.wait)
    return response


@require_POST
@permission_required(ADD_TOKEN, raise_exception=True)
def token_new(request: HttpRequest) -> HttpResponse:
    """Issue a token and show it once. A redirect would have to store the token somewhere."""
    user = signed_in_user(request)
    form = TokenForm(user, request.POST)
    used = request.session.get(_USED_FORMS_KEY, [])
    if form.is_valid() and form.cleaned_data["once"] in used:
        messages.info(request, "This form has already created its token, which is shown only once.")
        return redirect("you")
    issued = form.submit(
        lambda: tokens.issue_token(
            owner=user.get_username(),
            actor=request_actor(request),
            within=user_clearance(user),
            **form.values(),
        )
    )
    if issued is None:
        return _render_page(request, token=form)
    token, secret = issued
    request.session[_USED_FORMS_KEY] = [*used, form.cleaned_data["once"]][-MAX_TOKENS:]
    return render(request, "you/token.html", {"token": token, "secret": secret})


@require_POST
@permission_required(ADD_TOKEN, raise_exception=True)
def token_rotate(request: HttpRequest, uid: str) -> HttpResponse:
    """Replace a token by a new one that is shown once. The old one stops working."""
    user = signed_in_user(request)
    try:
        token, secret = tokens.rotate_token(
            _own_token(request, uid).uid, request_actor(request), user_clearance(user)
        )
    except StoreError as error:
        messages.error(request, f"The token was not replaced: {error.message}.")
        return redirect("you")
    return render(request, "you/token.html", {"token": token, "secret": secret, "rotated": True})


@require_POST
def token_revoke(request: HttpRequest, uid: str) -> HttpResponse:
    """Revoke one of the user's own tokens, which needs no permission."""
    token = tokens.revoke_token(_own_token(request, uid).uid, request_actor(request))
    messages.success(request, f"{token.name} is revoked. Requests with this token are refused from now on.")
    return redirect("you")


@require_POST
def tokens_revoke(request: HttpRequest) -> HttpResponse:
    """Revoke several of the user's own tokens (``uid``) after a confirmation page that lists them."""
    chosen = list(own_tokens(request).filter(uid__in=request.POST.getlist("uid")[:MAX_TOKENS]))
    if not chosen:
        messages.warning(request, "No token was selected. Select the tokens to revoke.")
        return redirect("you")
    if request.POST.get("confirmed") != "yes":
        return render(
            request,
            "you/tokens_revoke.html",
            {"chosen": chosen, "back": f"{reverse('you')}#tokens", "action": request.path},
        )
    for token in chosen:
        tokens.revoke_token(token.uid, request_actor(request))
    revoked = count_with_verb(len(chosen), "token", "is", "are")
    messages.success(request, f"{revoked} revoked. Requests with them are refused from now on.")
    return redirect("you")


@require_POST
@permission_required(CHANGE_TOKEN, raise_exception=True)
def app_remove(request: HttpRequest, uid: str) -> HttpResponse:
    """Withdraw the approval of an app for everyone, which revokes all its tokens."""
    client = oauth.remove_client(uid, signed_in_user(request), request_actor(request))
    if client is None:
        raise Http404
    messages.success(request, f"{client.name} is removed. All its tokens are revoked.")
    return redirect("you")


@require_POST
def sessions_end(request: HttpRequest) -> HttpResponse:
    """End the other session with this ``mark``, or all others without one."""
    ended = sign_in.end_sessions(request, request.POST.get("mark", ""))
    text = f"{format_count(ended, 'session')} ended." if ended else "You have no other sessions."
    messages.success(request, text)
    return redirect("you")


def _render_page(request: HttpRequest, **forms: PlainForm) -> HttpResponse:
    """Render the page with the given forms in place of fresh ones."""
    user = signed_in_user(request)
    profile = getattr(user, "profile", None) or Profile()
    kept = {name: getattr(profile, name) for name in ("theme", "time_zone", "language")}
    may_issue = user.has_perm(ADD_TOKEN)
    role_name = user_role(user)
    factors = second_factors.list_second_factors(user)
    identity = identities.find_identity(user)
    all_sessions = sign_in.list_sessions(request)
    sessions, numbers = numbered_page(request, all_sessions, SESSIONS_PER_PAGE)
    context: dict[str, Any] = {
        "role": next((role for role in ROLES if role.name == role_name), None),
        "project_levels": _project_levels(user),
        "preferences": forms.get("preferences") or PreferencesForm(initial=kept),
        "password": forms.get("password") or PasswordForm(request),
        "organisation": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
        "identity": identity if identities.signs_in(identity) else None,
        "second_factors": factors,
        "kinds": {one.type for one in factors},
        "may_issue": may_issue,
        "token_form": forms.get("token") or (TokenForm(user) if may_issue else None),
        "tokens": _tokens_with_results(request),
        "grants": own_tokens(request).filter(client__isnull=False).select_related("client")[:MAX_TOKENS],
        "apps": _approved_apps(user),
        "sessions": sessions,
        "sessions_count": len(all_sessions),
        **numbers,
        "wrong": next(iter(forms), ""),
    }
    return render(request, "you/page.html", context, status=422 if forms else 200)


def _tokens_with_results(request: HttpRequest) -> list[Any]:
    """Return the tokens, with ``helped``: in how many of its injections a memory helped the agent."""
    tokens = list(own_tokens(request).filter(client=None)[:MAX_TOKENS])
    found = count_helped(request_clearance(request), timezone.now()) if tokens else {}
    for token in tokens:
        token.helped = found.get(f"{AGENT_PREFIX}{token.name}")
    return tokens


def _approved_apps(user: User) -> QuerySet[OAuthClient] | None:
    """Return the approved OAuth clients; None for people without permission to remove them."""
    if not user.has_perm(CHANGE_TOKEN):
        return None
    return oauth.usable_clients().filter(approved_at__isnull=False)[:MAX_TOKENS]


def _project_levels(user: User) -> list[tuple[str, list[str]]] | None:
    """Return the levels in each of the user's projects; None for users who see every project."""
    if not is_confined(user):
        return None
    clearance = user_clearance(user)
    return [
        (project, [level for level in LEVELS if level in clearance.levels_in(project)])
        for project in sorted(clearance.projects or ())
    ]


def own_tokens(request: HttpRequest) -> Any:
    """Return the active tokens of the signed-in user, newest first."""
    return (
        AgentToken.objects.active().filter(owner=request.user.get_username()).order_by("-created_at", "-pk")
    )


def _own_token(request: HttpRequest, uid: str) -> AgentToken:
    token: AgentToken = get_object_or_404(own_tokens(request), uid=uid)
    return token


_LEVELS = [("public", "Public memories"), ("private", "Public and private memories")]


class DigestForm(PlainForm):
    """A digest. Its channel cannot be changed later: only a webhook has an address and a secret."""

    channel = forms.ChoiceField(label="Send to", choices=CHANNELS)
    url = forms.CharField(
        label="Webhook URL",
        required=False,
        max_length=500,
        help_text="For example an incoming webhook in Slack. It gets public memories only."
        " Anyone who knows the URL can post there.",
        widget=forms.URLInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    period = forms.ChoiceField(label="How often", choices=PERIODS)
    project = ProjectField(help_text="Leave empty for all projects that you can see.")
    level = forms.ChoiceField(
        label="E-mails contain", choices=_LEVELS, required=False, help_text="Never secret memories."
    )
    enabled = forms.BooleanField(label="Send this digest", required=False)

    def __init__(self, user: User, data: Any = None, digest: Digest | None = None, **options: Any) -> None:
        super().__init__(data, auto_id="for_%s", **options)
        by_mail = [(Digest.EMAIL, f"E-mail: {user.email}")] if settings.EMAIL_HOST and user.email else []
        self.set_choices("channel", [*by_mail, (Digest.WEBHOOK, "Webhook")])
        if not may_view_level(user, Sensitivity.PRIVATE.value):
            self.set_choices("level", _LEVELS[:1])
        unused = ["enabled"] if digest is None else ["channel"]
        if digest and digest.channel == Digest.EMAIL:
            unused.append("url")
        elif digest or not by_mail:
            unused.append("level")
        for name in unused:
            del self.fields[name]

    def values(self) -> dict[str, Any]:
        """Return the arguments of the services from a valid form."""
        level = self.cleaned_data.get("level") or Sensitivity.PUBLIC.value
        values = {"url": "", **self.cleaned_data, "level": level}
        return values | ({"url": ""} if values.get("channel") == Digest.EMAIL else {})


@require_http_methods(["GET", "HEAD", "POST"])
def digest_list(request: HttpRequest) -> HttpResponse:
    """List one's digests, or create one."""
    user = signed_in_user(request)
    if request.method != "POST":
        return _render_list(request, DigestForm(user))
    form, hub = DigestForm(user, request.POST), request.build_absolute_uri("/").rstrip("/")
    digest = form.submit(lambda: digests.create_digest(user, **form.values(), hub=hub))
    if digest is None:
        return _render_list(request, form, 422)
    if digest.channel == Digest.WEBHOOK:
        return _render_list(request, DigestForm(user), shown=digest)
    messages.success(request, "Digest created.")
    return redirect("digest", digest.uid)


@require_http_methods(["GET", "HEAD", "POST"])
def digest_page(request: HttpRequest, uid: str) -> HttpResponse:
    """Show what the next digest contains so far, and change the digest."""
    user, digest = signed_in_user(request), _find(request, uid)
    if request.method != "POST":
        names = ("url", "period", "project", "level", "enabled")
        initial = {name: getattr(digest, name) for name in names}
        return _render_digest(request, digest, DigestForm(user, digest=digest, initial=initial))
    form = DigestForm(user, request.POST, digest)
    if form.submit(lambda: digests.change_digest(user, uid, **form.values())) is None:
        return _render_digest(request, digest, form, 422)
    messages.success(request, "Digest saved.")
    return redirect("digest", uid)


@require_POST
def digest_test(request: HttpRequest, uid: str) -> HttpResponse:
    """Send the preview now."""
    _find(request, uid)
    try:
        digests.send_test(signed_in_user(request), uid)
    except (DeliveryFailed, StoreError) as error:
        messages.error(request, f"The test was not sent: {error}.")
    else:
        messages.success(request, "Test sent.")
    return redirect("digest", uid)


@require_POST
def digest_secret(request: HttpRequest, uid: str) -> HttpResponse:
    """Replace the secret of a webhook, and show the new one once."""
    user = signed_in_user(request)
    _find(request, uid)
    try:
        digest = digests.replace_secret(user, uid)
    except StoreError as error:
        messages.error(request, f"The secret was not replaced: {error.message}.")
        return redirect("digest", uid)
    return _render_list(request, DigestForm(user), shown=digest)


@require_POST
def digest_delete(request: HttpRequest, uid: str) -> HttpResponse:
    """Delete a digest, with a message that can create it again."""
    digest = _find(request, uid)
    digests.delete_digest(signed_in_user(request), uid)
    show_success(request, "you/digests.html#undo", {"digest": digest})
    return redirect("digests")


def _find(request: HttpRequest, uid: str) -> Digest:
    return digests.get_digest(signed_in_user(request), uid)


def _render_list(
    request: HttpRequest, form: DigestForm, status: int = 200, shown: Digest | None = None
) -> HttpResponse:
    """Render the list. ``shown``: a webhook whose secret the page shows."""
    user = signed_in_user(request)
    context = {
        "digests": digests.list_digests(user),
        "form": form,
        "shown": shown,
        "sends_mail": bool(settings.EMAIL_HOST),
        "has_address": bool(user.email),
    }
    return render(request, "you/digests.html", context, status=status)


def _render_digest(request: HttpRequest, digest: Digest, form: DigestForm, status: int = 200) -> HttpResponse:
    context = {"digest": digest, "form": form, "content": collect_content(digest, timezone.now())}
    return render(request, "you/digest.html", context, status=status)
