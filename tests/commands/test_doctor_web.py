"""``doctor``: how the hub is served."""

from __future__ import annotations

import pytest

from memoryhub import config
from memoryhub.ops.doctor import Status, installation, ok
from tests.commands.examining import look, named
from tests.digests import mail_server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_store", "on_loopback")]


def test_loopback_alone_needs_no_encryption(settings):
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
    assert look(named("hosts")) == ok("127.0.0.1, localhost")


def test_other_hosts_without_https_are_warned_about(settings):
    settings.ALLOWED_HOSTS = ["hub.example"]
    assert "without encryption" in look(named("hosts")).text
    settings.HTTPS = True
    assert look(named("hosts")) == ok("hub.example over HTTPS")


def test_public_hub_without_https_is_warned_about(monkeypatch, settings):
    monkeypatch.setenv("MEMORYHUB_PUBLIC_URL", "https://hub.example.org")
    settings.ALLOWED_HOSTS = config.load_operator().allowed_hosts
    found = look(named("hosts"))
    assert found.status is Status.WARN
    assert "hub.example.org: passwords and tokens are sent without encryption" in found.text


def test_any_host_debug_and_half_a_proxy_are_found(settings):
    settings.ALLOWED_HOSTS, settings.DEBUG, settings.BEHIND_PROXY = ["*"], True, True
    found = named("hosts").findings()
    assert [one.status for one in found] == ["fail", "warn", "warn", "warn"]
    assert "X-Forwarded-For is trusted" in found[-1].text
    settings.ALLOWED_HOSTS, settings.BEHIND_PROXY = ["localhost"], False
    assert look(named("hosts")).status is Status.OK


def test_a_static_file_that_is_missing_fails(monkeypatch):
    assert look(named("static files")).status is Status.OK
    monkeypatch.setattr(installation, "ALWAYS_NEEDED", ("no/such/file.css",))
    assert look(named("static files")).text == "no/such/file.css is not found: pages look broken"


def test_findings_of_djangos_own_checks_are_printed(settings):
    settings.SILENCED_SYSTEM_CHECKS = []
    settings.X_FRAME_OPTIONS = "DENY"
    settings.LANGUAGE_CODE = "no such language"
    found = named("system checks").findings()
    assert found[0].status is Status.FAIL


def test_mail_server_is_asked_and_its_password_is_not_shown(settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST = ""
    assert "not set" in look(named("e-mail")).text
    with mail_server.serving() as server:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "hub", "swordfish"
        settings.DEFAULT_FROM_EMAIL = "hub@example.org"
        assert look(named("e-mail")).status is Status.OK
        settings.DEFAULT_FROM_EMAIL = "memoryhub@localhost"
        assert [one.status for one in named("e-mail").findings()] == ["warn", "ok"]
        server.refusals["AUTH"] = "535 swordfish is wrong"
        found = look(named("e-mail"))
    assert found.status is Status.FAIL
    assert found.text.endswith("the mail server refuses the username or the password")


def test_mail_server_that_is_away_fails(settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    with mail_server.serving() as server:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
    assert "cannot be reached" in look(named("e-mail")).text
