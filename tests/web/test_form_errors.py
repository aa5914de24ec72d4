"""A rejected form says so in the title and in a focused summary."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.cases import each

POSTED = [
    ("/memories/new/", {"content": ""}, 422),
    ("/facts/", {"subject": ""}, 422),
    ("/you/password/", {}, 422),
    ("/you/preferences/", {"theme": "purple"}, 422),
    ("/you/tokens/", {"name": ""}, 422),
    ("/connect/codex/snippet/", {"name": ""}, 422),
    ("/people/", {"username": ""}, 422),
    ("/people/ada/password/", {}, 422),
    ("/transfer/import/", {"do": "run"}, 422),
    ("/maintenance/start/", {"operation": "consolidate", "do": "run", "project": "x" * 300}, 422),
    ("/preview/", {"prompt": ""}, 422),
]
FILTER_URLS = [
    "/memories/?since=x",
    "/memories/?q=a&min_score=x",
    "/facts/?min_confidence=x",
    "/facts/graph/?min_confidence=x",
    "/journal/?since=x",
    "/injections/?since=x",
    "/timeline/entries/?since=x",
    "/timeline/?month=2026-99",
]


@pytest.fixture
def admin(admin_client: Client) -> Client:
    User.objects.create_user("ada")
    return admin_client


def says_it_first(response: Any) -> None:
    page = response.content.decode()
    [title] = re.findall(r"<title>(.*?)</title>", page)
    assert title.startswith("Error: "), title
    first = re.findall(r"<[a-z]+[^>]*\sautofocus[\s>]?[^>]*", page)[0]
    assert 'role="alert"' in first, first
    assert 'tabindex="-1"' in first, first


@pytest.mark.parametrize(("address", "form", "status"), POSTED, ids=[one[0] for one in POSTED])
def test_rejected_form_has_an_error_title_and_summary(
    admin: Client, address: str, form: dict[str, str], status: int
) -> None:
    response = admin.post(address, form)
    assert response.status_code == status
    says_it_first(response)


@each("address", FILTER_URLS)
def test_invalid_filter_has_an_error_title(admin: Client, address: str) -> None:
    response = admin.get(address)
    assert response.status_code == 422
    says_it_first(response)


def test_wrong_password_has_an_error_title(client: Client, db: None) -> None:
    says_it_first(client.post("/login/", {"username": "ada", "password": "wrong"}))


def test_valid_page_has_its_own_title(admin: Client) -> None:
    for address in ("/memories/new/", "/facts/", "/you/", "/login/"):
        page = admin.get(address, follow=True).content.decode()
        assert "<title>Error" not in page
        assert "form-errors" not in page


def test_focus_stays_in_the_field_while_typing(admin: Client) -> None:
    headers = {"HX-Request": "true", "HX-Target": "found"}
    page = admin.get("/memories/?q=a&min_score=x", headers=headers).content.decode()
    assert "The filter is invalid" in page
    assert "autofocus" not in page
