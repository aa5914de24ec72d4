"""The fixtures of a store of the test's own."""

from __future__ import annotations

from tests.commands.conftest import home, own_store, run  # noqa: F401 fixtures
