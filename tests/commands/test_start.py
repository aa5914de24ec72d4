"""What a command loads before it begins: it is paid at every start."""

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
    "memoryhub.extraction.rules.patterns",
    "memoryhub.security.prompt_injection.patterns",
    "memoryhub.web.urls",
    "memoryhub.admin",
)


def loaded_by(code: str, home: Path) -> set[str]:
    """The modules of a fresh process after this code."""
    env = {**os.environ, "LETSGO_HOME": str(home), "DJANGO_SETTINGS_MODULE": "memoryhub.settings"}
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_a_command_of_the_hub_loads_no_page_and_compiles_no_rule_that_it_does_not_need(
    tmp_path: Path,
) -> None:
    code = "from django.core.management import call_command\nimport django\ndjango.setup()\n"
    code += f"from django.core.checks import run_checks\nrun_checks(tags=[{INSTALLATION!r}])"

    assert loaded_by(code, tmp_path).isdisjoint(HEAVY)


def test_a_worker_has_loaded_and_compiled_all_of_it_before_its_first_request(tmp_path: Path) -> None:
    code = "import django\ndjango.setup()\nfrom memoryhub.lifecycle import worker\n"
    code += "worker.begin = lambda *guests: None\nimport memoryhub.worker"

    assert loaded_by(code, tmp_path).issuperset(HEAVY)


def test_the_checks_of_the_admin_see_every_page_of_it(tmp_path: Path) -> None:
    code = (
        "import django\ndjango.setup()\nfrom django.core.checks import run_checks\nrun_checks(tags=['admin'])"
    )

    assert "memoryhub.admin.memories" in loaded_by(code, tmp_path)


# That of the pictures walks every page.
OWN = sorted(name for name, app in get_commands().items() if app == "memoryhub" and name != "screenshots")


@pytest.mark.parametrize("name", OWN)
def test_a_command_looks_at_the_installation_and_leaves_the_code_to_the_check_command(name: str) -> None:
    asked = load_command_class("memoryhub", name).requires_system_checks

    assert set(asked) <= {INSTALLATION}
