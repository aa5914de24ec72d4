"""Architecture: import layers, pure modules, and the writers of each table."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
CONTRACTS = {contract["id"]: contract for contract in TOOLS["importlinter"]["contracts"]}
PURE = CONTRACTS["pure"]["source_modules"]
WRITES = (
    r"objects\b[^#\n]*\.(?:create|update|delete|bulk_create|bulk_update|get_or_create|update_or_create)\("
)


def test_import_contracts_hold():
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_modules_do_not_import_each_other_in_a_circle():
    """Imports within functions and imports for type checking count too."""
    graph = grimp.build_graph("memoryhub", cache_dir=None, exclude_type_checking_imports=False)
    TopologicalSorter(
        {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    ).prepare()


IMPORT_WITHOUT_DJANGO = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    assert "django" not in sys.modules, name
"""


def test_pure_modules_run_without_django():
    """The imports include the parent packages, which the linter does not check."""
    command = [sys.executable, "-c", IMPORT_WITHOUT_DJANGO, *PURE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("model", "writers"),
    [
        ("Memory", {"memories"}),
        ("Revision", {"memories"}),
        ("Label", {"memories"}),
        ("FileLink", {"memories"}),
        ("Entity", {"memories"}),
        ("Fact", {"facts", "memories"}),
        ("JournalEntry", {"audit"}),
    ],
)
def test_table_has_one_writer(model, writers):
    found = set()
    for path in (ROOT / "memoryhub").rglob("*.py"):
        if re.search(rf"\b{model}\.{WRITES}", path.read_text("utf-8")):
            found.add(path.relative_to(ROOT / "memoryhub").parts[0])
    assert found <= writers
