"""What a screen reader calls the parts of the admin's lists."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

pytestmark = pytest.mark.django_db


def test_a_list_has_a_name(admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:auth_user_changelist"))
    assert '<table id="result_list" aria-label="Users">' in page.content.decode()


def test_the_box_to_search_in_is_named_in_words(admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:auth_user_changelist"))
    label = '<label for="searchbar"><img src="/static/admin/img/search.svg" alt="">'
    assert f'{label}<span class="visually-hidden">Search</span></label>' in page.content.decode()
