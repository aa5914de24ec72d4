"""A person's own page: rights, preferences, tokens, where they are signed in, the password."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from memoryhub.access.policy import LEVELS
from memoryhub.accounts import browser_sessions, people, roles, tokens
from memoryhub.accounts.clearance import is_confined, request_actor, user_clearance
from memoryhub.memories.errors import StoreError
from memoryhub.models import AgentToken, Profile
from memoryhub.web.accounts.forms import PasswordForm, PlainForm, PreferencesForm, TokenForm
from memoryhub.web.base.users import signed_in_user

ISSUE_PERMISSION = "memoryhub.add_agenttoken"
SESSIONS_PER_PAGE = 20  # on a page
MAX_TOKENS = 100  # tokens listed, forms remembered
_USED_FORMS_KEY = "token_forms_used"  # in the session: those that made a token


@require_safe
def you(request: HttpRequest) -> HttpResponse:
    """Everything of one's own, on one page."""
    return _render_page(request)


@require_POST
def preferences(request: HttpRequest) -> HttpResponse:
    form = PreferencesForm(request.POST)
    if not form.is_valid():
        return _render_page(request, preferences=form)
    people.save_preferences(signed_in_user(request), **form.cleaned_data)
    messages.success(request, "Kept: this is how the pages look from now on.")
    return redirect("you")


@require_POST
def password(request: HttpRequest) -> HttpResponse:
    """Every other session of the account ends with the old password."""
    user = signed_in_user(request)
    form = PasswordForm(request, request.POST)
    if form.is_valid() and not _is_refused(form, people.change_password, user, *form.passwords()):
        update_session_auth_hash(request, user)
        messages.success(
            request, "Your password is changed. Wherever else you were signed in, you are not now."
        )
        return redirect("you")
    answer = _render_page(request, password=form)
    if form.wait:
        answer.status_code = 429
        answer["Retry-After"] = str(form.wait)
    return answer


@require_POST
def token_new(request: HttpRequest) -> HttpResponse:
    """Answers with the token itself, this once; there is no redirect, which would have to keep it."""
    user = signed_in_user(request)
    if not user.has_perm(ISSUE_PERMISSION):
        raise PermissionDenied
    form = TokenForm(user, request.POST)
    used = request.session.get(_USED_FORMS_KEY, [])
    if form.is_valid() and form.cleaned_data["once"] in used:
        messages.info(request, "This form has made its token already, and showed it that once.")
        return redirect("you")
    if not form.is_valid():
        return _render_page(request, token=form)
    try:
        made, secret = tokens.issue_token(
            owner=user.get_username(),
            actor=request_actor(request),
            within=user_clearance(user),
            **form.values(),
        )
    except StoreError as error:
        form.refuse(error)
        return _render_page(request, token=form)
    request.session[_USED_FORMS_KEY] = [*used, form.cleaned_data["once"]][-MAX_TOKENS:]
    return render(request, "you/token.html", {"token": made, "secret": secret})


@require_POST
def token_rotate(request: HttpRequest, uid: str) -> HttpResponse:
    """Another token in the place of one, shown this once; the old one is refused from now on."""
    user = signed_in_user(request)
    if not user.has_perm(ISSUE_PERMISSION):
        raise PermissionDenied
    try:
        made, secret = tokens.rotate_token(
            _own_token(request, uid).uid, request_actor(request), user_clearance(user)
        )
    except StoreError as error:
        messages.error(request, f"It was not replaced: {error.message}.")
        return redirect("you")
    return render(request, "you/token.html", {"token": made, "secret": secret, "rotated": True})


@require_POST
def token_revoke(request: HttpRequest, uid: str) -> HttpResponse:
    """Ending what is one's own takes no permission."""
    token = tokens.revoke_token(_own_token(request, uid).uid, request_actor(request))
    messages.success(request, f"{token.name} is revoked: what comes with this token is refused from now on.")
    return redirect("you")


@require_POST
def tokens_revoke(request: HttpRequest) -> HttpResponse:
    """``uid``: several of one's own tokens. Asks first, and names them."""
    chosen = list(_active_tokens(request).filter(uid__in=request.POST.getlist("uid")[:MAX_TOKENS]))
    if not chosen:
        messages.warning(request, "Nothing was chosen; tick the tokens to revoke.")
        return redirect("you")
    if request.POST.get("confirmed") != "yes":
        return render(
            request,
            "you/tokens_revoke.html",
            {"chosen": chosen, "back": f"{reverse('you')}#tokens", "action": request.path},
        )
    for token in chosen:
        tokens.revoke_token(token.uid, request_actor(request))
    told = "1 token is" if len(chosen) == 1 else f"{len(chosen)} tokens are"
    messages.success(request, f"{told} revoked: what comes with one is refused from now on.")
    return redirect("you")


@require_POST
def sessions_end(request: HttpRequest) -> HttpResponse:
    """``mark``: one other session; without one, all others."""
    ended = browser_sessions.end_sessions(request, request.POST.get("mark", ""))
    text = f"{ended} session{'' if ended == 1 else 's'} ended." if ended else "There was no other session."
    messages.success(request, text)
    return redirect("you")


def _render_page(request: HttpRequest, **forms: PlainForm) -> HttpResponse:
    """The page, with the forms that were sent and refused."""
    user = signed_in_user(request)
    profile = getattr(user, "profile", None) or Profile()
    kept = {name: getattr(profile, name) for name in ("theme", "time_zone", "language")}
    may_issue = user.has_perm(ISSUE_PERMISSION)
    context: dict[str, Any] = {
        "role": next((role for role in roles.ROLES if role.name == roles.user_role(user)), None),
        "reach": _project_levels(user),
        "preferences": forms.get("preferences") or PreferencesForm(initial=kept),
        "password": forms.get("password") or PasswordForm(request),
        "organisation": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
        "identity": getattr(user, "identity", None) if settings.OIDC_ISSUER else None,
        "may_issue": may_issue,
        "token_form": forms.get("token") or (TokenForm(user) if may_issue else None),
        "tokens": _active_tokens(request)[:MAX_TOKENS],
        **_sessions_context(request),
        "wrong": next(iter(forms), ""),
    }
    return render(request, "you/page.html", context, status=422 if forms else 200)


def _sessions_context(request: HttpRequest) -> dict[str, Any]:
    """A page of where the person is signed in; a wrong number leads to the nearest one."""
    pages = Paginator(browser_sessions.list_sessions(request), SESSIONS_PER_PAGE)
    shown = pages.get_page(request.GET.get("page"))
    return {
        "sessions": shown.object_list,
        "sessions_count": pages.count,
        "number": shown.number,
        "last": pages.num_pages,
    }


def _project_levels(user: User) -> list[tuple[str, list[str]]] | None:
    """The person's projects, each with its levels; None for all of them at the same."""
    if not is_confined(user):
        return None
    clearance = user_clearance(user)
    return [
        (project, [level for level in LEVELS if level in clearance.levels_in(project)])
        for project in sorted(clearance.projects or ())
    ]


def _is_refused(form: PlainForm, write: Any, *arguments: Any) -> bool:
    try:
        write(*arguments)
    except StoreError as error:
        form.refuse(error)
        return True
    return False


def _active_tokens(request: HttpRequest) -> Any:
    return AgentToken.objects.active().filter(owner=request.user.get_username()).order_by("-created_at")


def _own_token(request: HttpRequest, uid: str) -> AgentToken:
    token: AgentToken | None = _active_tokens(request).filter(uid=uid).first()
    if token is None:
        raise Http404
    return token
