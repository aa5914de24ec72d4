"""Helpers for maintenance tests: age memories, start runs, read pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from html import unescape
from typing import Any

from django.test import Client
from django.utils import timezone

from memoryhub.maintenance import executor
from memoryhub.maintenance.operations import OPERATIONS
from memoryhub.models import MaintenanceRun, Memory


def set_age(memories: Iterable[Memory], days: float) -> None:
    Memory.objects.filter(pk__in=[one.pk for one in memories]).update(
        updated_at=timezone.now() - timedelta(days=days)
    )


def text_of(response: Any) -> str:
    html = re.sub(r"<[^>]+>", " ", response.content.decode().partition("<main")[2])
    return " ".join(unescape(html).split())


def start_run(client: Client, operation: str = "consolidate", do: str = "run", **values: Any) -> Any:
    """Start a run; one that can be undone is already confirmed."""
    if operation in OPERATIONS and OPERATIONS[operation].undoable:
        values = {"confirmed": "yes", **values}
    return client.post("/maintenance/start/", {"operation": operation, "do": do, **values})


def completed_run(client: Client, *args: Any, **values: Any) -> tuple[MaintenanceRun, str]:
    """Start a run and work it off; the run and its address."""
    response = start_run(client, *args, **values)
    assert response.status_code == 302, text_of(response)
    run = MaintenanceRun.objects.order_by("-pk")[0]
    assert response["Location"] == f"/maintenance/runs/{run.uid}/"
    assert executor.execute(run)
    return run, response["Location"]


def importances(memories: Iterable[Memory]) -> list[float]:
    return [round(Memory.objects.get(pk=one.pk).importance, 2) for one in memories]
