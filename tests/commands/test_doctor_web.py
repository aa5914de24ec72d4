"""``doctor``: how the hub is served."""

from __future__ import annotations

import pytest

from memoryhub.config import environment
from memoryhub.ops.doctor import Status, installation, ok
from tests.commands.examining import look, named

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
    settings.ALLOWED_HOSTS = environment.load_operator().allowed_hosts
    found = look(named("hosts"))
    assert found.status is Status.WARN
    assert "hub.example.org: passwords and tokens travel without encryption" in found.text


def test_any_host_debug_and_half_a_proxy_are_found(settings):
    settings.ALLOWED_HOSTS, settings.DEBUG, settings.BEHIND_PROXY = ["*"], True, True
    found = named("hosts").findings()
    assert [one.status for one in found] == ["fail", "warn", "warn", "warn"]
    settings.ALLOWED_HOSTS, settings.BEHIND_PROXY = ["localhost"], False
    assert look(named("hosts")).status is Status.OK


def test_a_static_file_that_is_missing_fails(monkeypatch):
    assert look(named("static files")).status is Status.OK
    monkeypatch.setattr(installation, "ALWAYS_NEEDED", ("no/such/file.css",))
    assert look(named("static files")).text == "no/such/file.css is not found: pages look broken"


def test_what_djangos_own_checks_find_is_told(settings):
    settings.SILENCED_SYSTEM_CHECKS = []
    settings.X_FRAME_OPTIONS = "DENY"
    settings.LANGUAGE_CODE = "no such language"
    found = named("system checks").findings()
    assert found[0].status is Status.FAIL
