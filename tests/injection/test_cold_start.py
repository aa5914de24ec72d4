"""The first injection of a large store may miss the deadline; the next one does not."""

from __future__ import annotations

import time

import pytest

from memoryhub.access.policy import Actor, Clearance
from memoryhub.injection import services
from memoryhub.search import visible_rows


@pytest.mark.django_db(transaction=True)
def test_missed_injection_loads_the_rows_for_the_next_one(remember, monkeypatch):
    def find(*args):
        raise services.DeadlinePassed

    actor = Actor("agent:tests", Clearance())
    remember("zebra stripes")
    visible_rows.clear_cache()
    request = services.InjectionRequest("zebra stripes")
    assert services._inject(find, request, actor, record=False).context == ""
    for _ in range(600):
        if visible_rows._cache._rows and not visible_rows._loading.locked():
            break
        time.sleep(0.05)
    assert [len(rows) for rows in visible_rows._cache._rows.values()] == [1]
