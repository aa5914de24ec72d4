"""What a command imports before it runs, which every start pays for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from memoryhub.ops.checks import INSTALLATION

# Compiled patterns, models of the API's bodies, pages.
HEAVY = (
    "memoryhub.api.router",
    "memoryhub.extraction.rules.extractor",
    "memoryhub.security.prompt_injection.detector",
    "memoryhub.web.urls",
    "memoryhub.admin",
    "granian",
)


def loaded_by(code: str, home: Path) -> set[str]:
    """Return the modules that a new process has imported after running this code."""
    env = {**os.environ, "LETSGO_HOME": str(home), "DJANGO_SETTINGS_MODULE": "memoryhub.settings"}
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_command_imports_no_page_and_no_rules(
    tmp_path: Path,
) -> None:
    code = "from django.core.management import call_command\nimport django\ndjango.setup()\n"
    code += f"from django.core.checks import run_checks\nrun_checks(tags=[{INSTALLATION!r}])"

    assert loaded_by(code, tmp_path).isdisjoint(HEAVY)


def test_server_imports_views_and_rules_before_its_workers_start(tmp_path: Path) -> None:
    code = "import django\ndjango.setup()\nfrom memoryhub.ops import worker\nworker.load()"

    assert loaded_by(code, tmp_path).issuperset(HEAVY)


def test_admin_checks_import_every_admin_page(tmp_path: Path) -> None:
    code = (
        "import django\ndjango.setup()\nfrom django.core.checks import run_checks\nrun_checks(tags=['admin'])"
    )

    assert "memoryhub.admin.memories" in loaded_by(code, tmp_path)


OWN = sorted(name for name, app in get_commands().items() if app == "memoryhub")


@pytest.mark.parametrize("name", OWN)
def test_command_runs_only_installation_checks(name: str) -> None:
    asked = load_command_class("memoryhub", name).requires_system_checks

    assert set(asked) <= {INSTALLATION}
