"""Logins are journaled, and password guessing is throttled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memoryhub.access.policy import Clearance
from memoryhub.accounts import sign_in as accounts_sign_in
from memoryhub.http.middleware import ClientAddressMiddleware
from memoryhub.models import JournalEntry

GOOD = "a good password"


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_user("ada", password=GOOD, is_staff=True)


def sign_in(password: str = GOOD, name: str = "ada", door: str = "/login/", address: str = "10.0.0.1") -> Any:
    return Client(REMOTE_ADDR=address).post(door, {"username": name, "password": password})


def rows(**exact: Any) -> list[tuple[str, str, str]]:
    found = JournalEntry.objects.filter(object_type="person", **exact).order_by("seq")
    return [(row.operation, row.object_id, row.actor) for row in found]


def fail(times: int, **who: Any) -> None:
    for _ in range(times):
        assert sign_in("guess", **who).status_code == 200


@pytest.mark.parametrize("door", ["/login/", "/admin/login/"])
def test_logins_failures_and_logouts_are_journaled_from_every_form(ada, door):
    client = Client(headers={"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0"})
    client.post(door, {"username": "ada", "password": "guess"})
    client.post(door, {"username": "ada", "password": GOOD})
    client.post("/logout/")
    assert rows() == [
        ("login_failed", "ada", "nobody"),
        ("login", "ada", "user:ada"),
        ("logout", "ada", "user:ada"),
    ]
    detail = JournalEntry.objects.get(operation="login").detail
    assert (detail["from"], detail["with"]) == ("127.0.0.1", "Firefox on Linux")


def test_no_password_and_no_unknown_name_is_stored(ada):
    sign_in("hunter2 hunter2", name="my password by mistake")
    [row] = JournalEntry.objects.filter(object_type="person")
    kept = f"{row.object_id} {row.owner} {row.actor} {row.detail}"
    assert "hunter2" not in kept
    assert "mistake" not in kept


def test_person_sees_only_their_own_logins_in_the_journal(ada):
    sign_in()
    sign_in(name="unknown")
    mine, others = Clearance(owner="ada"), Clearance.up_to("secret", owner="bob")
    assert [row.operation for row in JournalEntry.objects.visible_to(mine)] == ["login"]
    assert not JournalEntry.objects.visible_to(others).exists()


@pytest.mark.parametrize("door", ["/login/", "/admin/login/"])
def test_right_password_is_refused_after_five_failures(ada, door):
    fail(accounts_sign_in.PER_PAIR, door=door)
    answer = sign_in(door=door)
    assert "sessionid" not in answer.cookies
    assert not JournalEntry.objects.filter(operation="login").exists()


@pytest.mark.parametrize("door", ["/login/", "/admin/login/"])
def test_login_page_shows_the_wait(ada, door):
    fail(accounts_sign_in.PER_PAIR)
    answer = sign_in(door=door)
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= accounts_sign_in.FAILURE_WINDOW.total_seconds() + 1
    assert b"Wait 15 minutes" in answer.content


@pytest.mark.parametrize("door", ["/login/", "/admin/login/"])
def test_form_of_a_throttled_login_keeps_the_requested_page(ada, door):
    fail(accounts_sign_in.PER_PAIR)
    form = {"username": "ada", "password": GOOD, "next": "/admin/memoryhub/"}
    page = Client(REMOTE_ADDR="10.0.0.1").post(door, form).content.decode()
    assert 'name="next" value="/admin/memoryhub/"' in page
    assert 'autofocus value="ada"' in page
    assert '<form method="post" class="stack">' in page  # sent to the same address again


def test_throttled_attempt_does_not_extend_the_wait(ada):
    fail(accounts_sign_in.PER_PAIR)
    for _ in range(10):
        sign_in(door="/admin/login/")
    assert len(rows(operation="login_failed")) == accounts_sign_in.PER_PAIR


def test_the_wait_ends(ada, rf):
    fail(accounts_sign_in.PER_PAIR)
    request = rf.post("/login/", REMOTE_ADDR="10.0.0.1")
    last = JournalEntry.objects.first().at
    assert accounts_sign_in.login_wait(request, "ada", last) > 0
    assert accounts_sign_in.login_wait(request, "ada", last + accounts_sign_in.FAILURE_WINDOW) == 0


def test_failures_elsewhere_do_not_lock_the_person_out(ada):
    fail(accounts_sign_in.PER_PAIR, address="10.6.6.6")
    assert sign_in(address="10.0.0.1").status_code == 302


def test_right_password_resets_the_count(ada):
    fail(accounts_sign_in.PER_PAIR - 1)
    assert sign_in().status_code == 302
    fail(accounts_sign_in.PER_PAIR - 1)
    assert sign_in().status_code == 302


def test_address_that_tries_many_names_is_throttled(ada):
    for number in range(accounts_sign_in.PER_ADDRESS):
        sign_in("guess", name=f"name{number}", address="10.6.6.6")
    assert sign_in(address="10.6.6.6").status_code == 429
    assert sign_in(address="10.0.0.1").status_code == 302


@pytest.mark.slow
def test_name_tried_from_many_addresses_is_throttled(ada):
    for number in range(accounts_sign_in.PER_NAME):
        sign_in("guess", address=f"10.6.6.{number}")
    assert sign_in(address="10.0.0.1").status_code == 429


@pytest.mark.slow
def test_known_address_is_not_locked_out_by_a_distributed_attack(ada):
    assert sign_in(address="10.0.0.1").status_code == 302
    for number in range(accounts_sign_in.PER_NAME):
        sign_in("guess", address=f"10.6.6.{number}")
    assert sign_in(address="10.0.0.1").status_code == 302
    assert sign_in(address="10.0.0.2").status_code == 429
    fail(accounts_sign_in.PER_PAIR, address="10.0.0.1")
    assert sign_in(address="10.0.0.1").status_code == 429


def test_case_and_spaces_do_not_make_another_name(ada):
    for name in ("ada", "ADA", " ada", "Ada", "aDa"):
        sign_in("guess", name=name)
    assert sign_in().status_code == 429


def test_scripted_login_is_not_recorded(ada):
    Client().force_login(ada)
    assert not rows()


def test_old_failures_do_not_count(ada, rf):
    fail(3)
    later = JournalEntry.objects.first().at + timedelta(hours=2)
    assert accounts_sign_in.login_wait(rf.post("/login/", REMOTE_ADDR="10.0.0.1"), "ada", later) == 0


def test_proxy_reports_the_client_address(ada, rf, settings):
    settings.BEHIND_PROXY = True
    request = rf.get("/", headers={"X-Forwarded-For": "1.2.3.4, 5.6.7.8"}, REMOTE_ADDR="127.0.0.1")
    ClientAddressMiddleware(lambda request: None)(request)
    assert request.META["REMOTE_ADDR"] == "5.6.7.8"


def test_flood_elsewhere_does_not_hide_relevant_failures(ada, rf):
    fail(accounts_sign_in.PER_PAIR)
    newest = JournalEntry.objects.latest("seq")
    detail = {"from": "10.9.9.9", "with": "curl", "name": "0" * 16}
    JournalEntry.objects.bulk_create(
        JournalEntry(
            seq=newest.seq + n, at=newest.at, operation="login_failed", object_type="person", detail=detail
        )
        for n in range(1, 401)
    )
    assert sign_in().status_code == 429


def test_one_ipv6_network_counts_as_one_address(ada):
    for n in range(accounts_sign_in.PER_PAIR):
        fail(1, address=f"2001:db8::{n:x}")
    assert sign_in(address="2001:db8::ffff").status_code == 429
    assert sign_in(address="2001:db8:0:1::1").status_code == 302


def test_right_password_among_concurrent_attempts_counts_earlier_failures(ada, monkeypatch):
    waits = iter([0, 0, 60])  # on the page, before and after the password check
    monkeypatch.setattr(accounts_sign_in, "login_wait", lambda request, name: next(waits))
    assert sign_in().status_code == 200
    assert rows() == []
