"""Direct access to the test database, past the services of the app."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.db import connection

from memoryhub.backends import schema


def run_sql(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    """Run SQL directly, bypassing the app."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall() if cursor.description else []


def index_is_sound() -> bool:
    return not schema.find_problems(deep=True)


@contextmanager
def without_journal_triggers() -> Iterator[None]:
    """Allow changes of journal rows. The app never does this."""
    schema.drop_triggers()
    try:
        yield
    finally:
        schema.install()


def cut_journal(after: int) -> None:
    """Delete the newest journal rows, as if the write-ahead log was lost."""
    with without_journal_triggers(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM memoryhub_journalentry WHERE seq > %s", [after])


def run_in_new_process(code: str, home: Path) -> Any:
    """Run code with the settings of the app. Return the JSON of the last line that it prints."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("LETSGO_", "MEMORYHUB_"))
    }
    environment |= {"DJANGO_SETTINGS_MODULE": "memoryhub.settings", "LETSGO_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=django_settings.BASE_DIR,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
