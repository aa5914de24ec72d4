"""Passkeys with Chromium's virtual authenticator: invitation, sign-in, second step, removal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from memoryhub.accounts import people
from memoryhub.models import JournalEntry
from tests.clients import PASSWORD

pytestmark = pytest.mark.django_db(transaction=True)
DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
}


@pytest.fixture
def plug_in(live_server: Any, watch: Any, open_page: Any) -> Iterator[Any]:
    """Give a page a device with passkeys. These need the name localhost; they refuse an IP address."""
    host = live_server.url.replace("127.0.0.1", "localhost")
    watch.host = host.partition("//")[2]
    sessions = []

    def plugged(path: str) -> Page:
        page: Page = open_page("about:blank")
        session = page.context.new_cdp_session(page)
        sessions.append(session)
        session.send("WebAuthn.enable")
        session.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE})
        page.goto(host + path)
        return page

    yield plugged
    for session in sessions:
        session.send("WebAuthn.disable")


def test_invited_person_creates_a_passkey_and_signs_in_with_it(plug_in: Any, admin_user: User) -> None:
    rights = {"email": "", "role": "curator", "level": "public", "projects": [], "clearance": ""}
    user, token = people.invite("dora", admin_user, **rights)
    page = plug_in(f"/invitation/{user.pk}/{token}/")
    page.get_by_role("button", name="Create a passkey and sign in").click()
    page.wait_for_url(lambda url: "invitation" not in url)
    assert not User.objects.get(username="dora").has_usable_password()
    operations = JournalEntry.objects.filter(object_id="dora").order_by("-seq")
    assert list(operations.values_list("operation", flat=True)[:3]) == [
        "login",
        "invitation_accepted",
        "second_factor_added",
    ]

    page.get_by_role("button", name="Account of dora").click()
    page.get_by_role("button", name="Sign out").click()
    page.goto(page.url.partition("/login")[0] + "/login/?next=/trash/")
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_url(lambda url: url.endswith("/trash/") and "login" not in url)
    assert JournalEntry.objects.filter(object_id="dora", operation="login").count() == 2


def test_added_passkey_is_the_second_step_and_can_be_removed(plug_in: Any, person: Any) -> None:
    person("ada")
    page = plug_in("/login/?next=/you/")
    page.locator("#id_username").fill("ada")
    page.locator("#id_password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("link", name="Add a passkey").click()
    page.locator("#id_password").fill(PASSWORD)
    page.get_by_role("button", name="Confirm").click()
    page.get_by_label("Name").fill("Laptop")
    page.get_by_role("button", name="Add passkey").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Recovery codes")
    page.get_by_role("link", name="Done").click()
    expect(page.get_by_role("row", name="Laptop")).to_be_visible()

    page.get_by_role("button", name="Account of ada").click()
    page.get_by_role("button", name="Sign out").click()
    page.locator("#id_username").fill("ada")
    page.locator("#id_password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_url(lambda url: "/login/" not in url)

    page.goto(page.url + "you/")
    page.get_by_role("row", name="Laptop").get_by_role("link").click()
    page.get_by_role("link", name="Use a passkey").click()
    page.get_by_role("button", name="Use a passkey").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("The passkey is removed")
    assert not Authenticator.objects.exists()


def test_passkey_of_another_hub_or_none_is_refused_in_words(plug_in: Any) -> None:
    page = plug_in("/login/")
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("alert").last).to_contain_text("did not use a passkey")


def test_at_an_ip_address_the_page_names_the_address_that_works(
    open_page: Any, live_server: Any, watch: Any, admin_user: User
) -> None:
    rights = {"email": "", "role": "curator", "level": "public", "projects": [], "clearance": ""}
    user, token = people.invite("dora", admin_user, **rights)
    path = f"/invitation/{user.pk}/{token}/"
    port = live_server.url.rpartition(":")[2]
    watch.host = f"127.0.0.1:{port}"
    page = open_page("about:blank")
    page.goto(f"http://{watch.host}{path}")
    alert = page.locator("form[data-passkey] [role=alert]")
    expect(alert).to_have_text(
        f"Passkeys do not work at an IP address. Open http://localhost:{port}{path} instead."
    )
