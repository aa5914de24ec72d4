"""What the page of a session says on paper alone: that it is a part, and where all of it is."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from memoryhub.web.sessions import views
from tests.web.markup import main

REPORT = "http://testserver/reports/sessions/night/?project=zoo"


def test_a_part_of_a_session_says_so_and_where_the_whole_is(
    visitor: Client, remember: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "ENTRIES", 2)
    for number in range(3):
        remember(f"words {number}", session_id="night", project="zoo")
    words = main(visitor.get("/sessions/night/")).words
    assert "This is a part of the session only: 2 of its entries, their texts shortened." in words
    assert f"All of it stands in its report: {REPORT}" in words


def test_a_session_on_one_page_says_where_its_texts_are_whole(visitor: Client, remember: Any) -> None:
    remember("words", session_id="night", project="zoo")
    words = main(visitor.get("/sessions/night/")).words
    assert "a part of the session" not in words
    assert f"All of it stands in its report: {REPORT}" in words
