"""Each journey runs twice: with and without scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import OpenPage

Walk = Callable[..., Page]


@pytest.fixture(params=[True, False], ids=["scripts", "no scripts"])
def scripts(request: Any) -> bool:
    return bool(request.param)


@pytest.fixture
def set_out(open_page: OpenPage, scripts: bool) -> Walk:
    """``set_out("/", user)``: a browser with scripts, or without."""

    def open_(path: str, user: Any, **options: Any) -> Page:
        return open_page(path, user, java_script_enabled=scripts, **options)

    return open_
