"""The setting ``durability``: what SQLite flushes to the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ASK = """
import django; django.setup()
from django.db import connection
with connection.cursor() as cursor:
    print(*cursor.execute("PRAGMA synchronous").fetchone())
"""
NORMAL, FULL = "1", "2"


@pytest.mark.parametrize(
    ("variables", "level"),
    [
        ({}, FULL),
        ({"MEMORYHUB_DURABILITY": "power-loss"}, FULL),
        ({"MEMORYHUB_DURABILITY": "crash"}, NORMAL),
    ],
)
def test_commits_are_flushed_as_configured(tmp_path: Path, variables, level):
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), "LETSGO_HOME": str(tmp_path)}
    environment |= {"DJANGO_SETTINGS_MODULE": "memoryhub.settings", **variables}
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == [level], done.stderr
