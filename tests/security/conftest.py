"""A made-up token, and a search for it in all places where it must not be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection

from tests.api.conftest import agent, bot  # noqa: F401 the same agents

# Put together here, so that no file contains a whole one.
TOKEN = "gh" + "p_" + "aB3dE6gH9jK2mN5pQ8rS1tV4wX7yZ0cF" + "aB3d"
URL = "postgres://app:" + "vK7qLm2Zt9xW" + "@db.internal/shop"


@pytest.fixture
def assert_nowhere(caplog: pytest.LogCaptureFixture, journal_mirror: Path) -> Callable[..., None]:
    """Return a function that asserts that the token is in no response, table, log or mirror."""
    caplog.set_level("DEBUG")

    def look(*answers: object, token: str = TOKEN) -> None:
        for answer in answers:
            assert token not in str(getattr(answer, "content", answer))
        assert token not in stored()
        assert token not in caplog.text
        assert not journal_mirror.exists() or token not in journal_mirror.read_text()

    return look


def stored() -> str:
    """Return the content of all tables, including those of the indexes."""
    with connection.cursor() as cursor:
        tables = [name for name in connection.introspection.table_names(cursor) if "vector" not in name]
        return "\n".join(str(cursor.execute(f'SELECT * FROM "{name}"').fetchall()) for name in tables)
