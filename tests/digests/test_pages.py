"""The pages of digests: only one's own, with preview, test, undo, and the secret shown once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memoryhub.models import Digest, JournalEntry, Memory
from tests.cases import each
from tests.clients import create_person, signed_in_client
from tests.digests.mail_server import MailServer
from tests.embeddings import servers
from tests.embeddings.servers import Endpoint

Subscribe = Callable[..., Digest]
Remember = Callable[..., Memory]
EMAIL = {"channel": "email", "period": "daily", "level": "public", "project": "", "url": ""}


@pytest.fixture
def browser(ada: User) -> Client:
    return signed_in_client(ada)


@pytest.fixture
def harbor(remember: Remember) -> Memory:
    return remember("The harbor gate opens at six", project="harbor")


def page(client: Client, path: str = "/you/digests/") -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def test_created_by_form_and_listed(browser: Client, mail: MailServer, harbor: Memory) -> None:
    response = browser.post("/you/digests/", {**EMAIL, "period": "weekly", "project": "harbor"})
    digest = Digest.objects.get()
    assert response["Location"] == f"/you/digests/{digest.uid}/"
    assert (digest.user.username, digest.period, digest.hub_url) == ("ada", "weekly", "http://testserver")
    listed = page(browser)
    assert "Every Monday by e-mail to" in listed
    assert "harbor" in listed


def test_email_is_offered_only_with_a_mail_server_and_an_address(
    browser: Client, settings: Any, ada: User
) -> None:
    settings.EMAIL_HOST = ""
    assert "MEMORYHUB_EMAIL_URL" in page(browser)
    assert 'value="email"' not in page(browser)
    assert browser.post("/you/digests/", EMAIL).status_code == 422
    settings.EMAIL_HOST = "127.0.0.1"
    assert 'value="email"' in page(browser)
    User.objects.update(email="")
    assert "Your account has no e-mail address" in page(browser)
    assert browser.post("/you/digests/", EMAIL).status_code == 422


def test_secret_of_a_webhook_is_shown_once(browser: Client) -> None:
    hook = {**EMAIL, "channel": "webhook", "url": "https://hooks.example.org/services/T0/B0/path-is-secret"}
    created = browser.post("/you/digests/", hook).content.decode()
    digest = Digest.objects.get()
    assert digest.secret in created
    for path in ("/you/digests/", f"/you/digests/{digest.uid}/", "/journal/"):
        assert digest.secret not in page(browser, path)
    assert "path-is-secret" not in page(browser)
    folded = page(browser, f"/you/digests/{digest.uid}/").partition(
        "<summary>Replace the signing secret…</summary>"
    )
    assert "The current secret stops working at once." in folded[2].partition("</details>")[0]
    replaced = browser.post(f"/you/digests/{digest.uid}/secret/").content.decode()
    old, new = digest.secret, Digest.objects.get().secret
    assert old != new
    assert new in replaced
    assert not JournalEntry.objects.filter(detail__icontains="whsec").exists()


@each(
    "values, problem",
    [
        ({"channel": "webhook", "url": "https://10.0.0.5/x"}, "Leads to a private address"),
        ({"channel": "webhook", "url": ""}, "Must be an address"),
        ({"level": "secret"}, "secret is not one of the available choices"),
        ({"project": "x" * 300}, "at most 200"),
        ({"period": "hourly"}, "hourly is not one of the available choices"),
        ({"channel": "pigeon"}, "pigeon is not one of the available choices"),
    ],
)
def test_invalid_values_are_named(
    browser: Client, mail: MailServer, values: dict[str, str], problem: str
) -> None:
    response = browser.post("/you/digests/", {**EMAIL, **values})
    assert response.status_code == 422
    assert problem in response.content.decode()
    assert not Digest.objects.exists()


def test_private_level_needs_the_permission(db: None, mail: MailServer) -> None:
    create_person("bob")
    User.objects.update(email="bob@example.org")
    bob = signed_in_client(User.objects.get())
    assert bob.post("/you/digests/", {**EMAIL, "level": "private"}).status_code == 422
    assert not Digest.objects.exists()


def test_project_of_others_is_refused(mail: MailServer, ada: User) -> None:
    ada.memberships.create(project="barn")
    confined = signed_in_client(User.objects.get(pk=ada.pk))
    response = confined.post("/you/digests/", {**EMAIL, "project": "shed"})
    assert response.status_code == 422
    assert "You have no access to this project" in response.content.decode()


def test_project_without_visible_memories_is_refused(
    browser: Client, mail: MailServer, remember: Remember
) -> None:
    remember("The vault code changes daily", project="vault", sensitivity="secret")
    for name in ("harbour", "vault"):
        response = browser.post("/you/digests/", {**EMAIL, "project": name})
        assert response.status_code == 422
        assert "There is no project of this name" in response.content.decode()
    assert not Digest.objects.exists()


def test_member_of_an_empty_project_gets_its_digest(mail: MailServer, ada: User) -> None:
    ada.memberships.create(project="barn")
    member = signed_in_client(User.objects.get(pk=ada.pk))
    assert member.post("/you/digests/", {**EMAIL, "project": "barn"}).status_code == 302


def test_digest_of_a_project_that_is_gone_can_be_turned_off(
    browser: Client, mail: MailServer, subscribe: Subscribe, harbor: Memory
) -> None:
    digest = subscribe(project="harbor")
    harbor.delete()
    form = {"period": "daily", "level": "public", "project": "harbor"}
    assert browser.post(f"/you/digests/{digest.uid}/", form).status_code == 302
    assert not Digest.objects.get().enabled


def test_digests_of_others_do_not_exist(mail: MailServer, subscribe: Subscribe) -> None:
    digest = subscribe()
    stranger = signed_in_client(create_person("bob", "view_private", "view_secret"))
    address = f"/you/digests/{digest.uid}/"
    assert stranger.get(address).status_code == 404
    for path in ("", "test/", "secret/", "delete/"):
        assert stranger.post(address + path, EMAIL).status_code == 404
    assert digest.uid not in page(stranger)
    assert Digest.objects.filter(pk=digest.pk, enabled=True).exists()


def test_preview_shows_what_a_test_sends(
    browser: Client, mail: MailServer, subscribe: Subscribe, remember: Remember
) -> None:
    remember("The harbor gate opens at six", title="Harbor gate")
    digest = subscribe()
    before = Digest.objects.values("since", "next_at", "sent_at").get()
    address = f"/you/digests/{digest.uid}/"
    assert "Harbor gate" in page(browser, address)
    response = browser.post(f"{address}test/", follow=True)
    assert "Test sent." in response.content.decode()
    assert "Harbor gate" in mail.received[0].as_string()
    assert Digest.objects.values("since", "next_at", "sent_at").get() == before
    again = browser.post(f"{address}test/", follow=True).content.decode()
    assert "wait 30 seconds" in again
    assert len(mail.received) == 1


def test_failed_test_names_the_failure(browser: Client, receiver: Endpoint, subscribe: Subscribe) -> None:
    digest = subscribe(channel="webhook", url=receiver.url)
    receiver.usual = servers.status(410)
    response = browser.post(f"/you/digests/{digest.uid}/test/", follow=True)
    assert "The test was not sent: the webhook returned status 410." in response.content.decode()


def test_changed_and_turned_off(
    browser: Client, mail: MailServer, subscribe: Subscribe, harbor: Memory
) -> None:
    digest = subscribe()
    address = f"/you/digests/{digest.uid}/"
    form = {"period": "weekly", "level": "private", "project": "harbor"}
    assert browser.post(address, form).status_code == 302
    digest.refresh_from_db()
    found = (digest.period, digest.level, digest.project, digest.enabled)
    assert found == ("weekly", "private", "harbor", False)
    assert "It is turned off." in page(browser, address)
    assert browser.post(address, {**form, "enabled": "on"}).status_code == 302
    assert Digest.objects.get().enabled


def test_deletion_is_undone(browser: Client, mail: MailServer, subscribe: Subscribe, harbor: Memory) -> None:
    digest = subscribe(project="harbor", level="private", period="weekly")
    deleted = browser.post(f"/you/digests/{digest.uid}/delete/", follow=True).content.decode()
    assert not Digest.objects.exists()
    form = re.search(r'<form[^>]*class="undo">.*?</form>', deleted, re.DOTALL)[0]  # type: ignore[index]
    values = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
    del values["csrfmiddlewaretoken"]
    assert browser.post("/you/digests/", values).status_code == 302
    again = Digest.objects.get()
    assert (again.project, again.level, again.period) == ("harbor", "private", "weekly")


def test_failure_is_listed_for_its_owner(browser: Client, mail: MailServer, subscribe: Subscribe) -> None:
    digest = subscribe()
    Digest.objects.update(error="the mail server returned the error 451")
    for address in ("/you/digests/", f"/you/digests/{digest.uid}/"):
        assert "he mail server returned the error 451." in page(browser, address)
    assert "returned the error 451" not in page(signed_in_client(create_person("bob")), "/you/digests/")


def test_failure_needs_attention_on_the_home_page_of_its_owner(
    browser: Client, mail: MailServer, subscribe: Subscribe, remember: Remember
) -> None:
    remember("The harbor gate opens at six")
    digest = subscribe()
    assert "Needs attention" not in page(browser, "/")
    Digest.objects.update(error="the mail server returned the error 451")
    assert "A digest was not delivered" in page(browser, "/")
    assert f"/you/digests/{digest.uid}/" in page(browser, "/")
    assert "not delivered" not in page(signed_in_client(create_person("bob")), "/")
    Digest.objects.update(enabled=False)
    assert "not delivered" not in page(browser, "/")
