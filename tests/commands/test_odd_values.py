"""Values of commands with bytes that are not UTF-8, as a shell passes on."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("home")]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("name", ["create_token", "\udcff"]),
        ("owner", ["create_token", "scribe", "--owner=\udcff"]),
        ("file", ["export_memories", "\udcff.jsonl"]),
        ("release", ["scan_secrets", "--release=\udcff"]),
        ("file", ["import_memories", "\udcff.jsonl"]),
    ],
)
def test_value_that_is_not_utf8_is_refused(run: Any, name: str, arguments: list[str]) -> None:
    ran = run(*arguments)
    assert ran.code == 1
    assert f"{name}: is not valid UTF-8; use another name" in ran.err
