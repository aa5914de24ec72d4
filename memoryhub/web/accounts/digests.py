"""Notifications: the digests of a person, with a preview of each."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from memoryhub import digests
from memoryhub.access.policy import Sensitivity
from memoryhub.accounts.clearance import may_view_level
from memoryhub.digests import DeliveryFailed, collect_content
from memoryhub.memories.errors import StoreError
from memoryhub.models import Digest
from memoryhub.models.account import CHANNELS, PERIODS
from memoryhub.web.base.forms import PlainForm, ProjectField
from memoryhub.web.base.requests import show_success, signed_in_user

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
