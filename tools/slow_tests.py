"""A plugin of pytest that lists the slow test functions, which ``manage.py test --fast`` leaves out.

``python -m pytest -p tools.slow_tests -n 0 -m "not browser and not served and not long"`` updates
``tests/slow.txt`` for the tests that it runs. It measures processor time, which depends little on other work
on the machine.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SLOW_TESTS = Path(__file__).parents[1] / "tests" / "slow.txt"
MAX_SECONDS = 0.08
_spent: dict[str, list[float]] = defaultdict(list)


def function_of(node_id: str) -> str:
    """Return the name of a test without its parameters."""
    return node_id.partition("[")[0]


def read() -> set[str]:
    return set(SLOW_TESTS.read_text("utf-8").split())


def _processor_time() -> float:
    """Return the seconds of this process and of its ended children."""
    return time.process_time() + sum(os.times()[2:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    start = _processor_time()
    result = yield
    _spent[function_of(item.nodeid)].append(_processor_time() - start)
    return result


def pytest_sessionfinish() -> None:
    slow = {name for name, spent in _spent.items() if sum(spent) / len(spent) > MAX_SECONDS}
    others = {name for name in read() if name not in _spent and Path(name.partition("::")[0]).exists()}
    SLOW_TESTS.write_text("\n".join([*sorted(slow | others), ""]), "utf-8")
