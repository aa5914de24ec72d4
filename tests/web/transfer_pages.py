"""Helpers and fixtures for tests of the import page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from memoryhub.maintenance import executor
from memoryhub.models import MaintenanceRun


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any) -> Path:
    settings.HOME = tmp_path / "home"
    settings.HOME.mkdir()
    return Path(settings.HOME)


@pytest.fixture
def importer(sign_in: Any) -> Client:
    return sign_in("add_memory")


def send(client: Client, *lines: dict[str, Any] | bytes, do: str = "run", **more: Any) -> Any:
    raw = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    file = SimpleUploadedFile(more.pop("name", "notes.jsonl"), raw)
    return client.post("/transfer/import/", {"file": file, "do": do, **more})


def sent(client: Client, *lines: dict[str, Any] | bytes, **more: Any) -> str:
    """The address of an import that has run."""
    response = send(client, *lines, **more)
    assert response.status_code == 302, response.content.decode()
    assert executor.execute(MaintenanceRun.objects.get(uid=response.url.split("/")[-2]))
    return str(response.url)


def import_after(client: Client, address: str, **choices: Any) -> str:
    """Import the file of a dry run with choices; return the address of the finished import."""
    response = client.post(f"{address}import/", choices)
    assert response.status_code == 302, response.content.decode()
    assert executor.execute(MaintenanceRun.objects.get(uid=response.url.split("/")[-2]))
    return str(response.url)


def undo(client: Client, address: str) -> None:
    assert client.post(f"{address}undo/").status_code == 302
    assert executor.execute(MaintenanceRun.objects.get(undoes__uid=address.split("/")[-2]))
