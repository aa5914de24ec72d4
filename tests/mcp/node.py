"""The TypeScript SDK's clients: where npm installed them, and how to run their script."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

TYPESCRIPT = Path(__file__).resolve().parent / "typescript"
# Where npm installed the packages, if not next to package.json.
MODULES = Path(os.environ.get("NODE_MODULES", TYPESCRIPT / "node_modules"))


def require_node(sdk: str) -> None:
    """Skip if Node.js or the package is missing; fail in CI."""
    lacking = _lacking(sdk)
    if lacking and os.environ.get("CI"):
        pytest.fail(f"{lacking}: .ci/run installs it")
    if lacking:
        pytest.skip(f"{lacking}: npm install in {TYPESCRIPT}")


def _lacking(sdk: str) -> str:
    package, newest = {"v1": ("sdk", 18), "v2": ("client", 20)}[sdk]
    if shutil.which("node") is None:
        return "there is no Node.js"
    if not (MODULES / "@modelcontextprotocol" / package).is_dir():
        return f"@modelcontextprotocol/{package} is not installed"
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").partition(".")[0]) < newest:
        pytest.skip(f"@modelcontextprotocol/{package} needs Node.js {newest}")
    return ""


def talk(folder: Path, sdk: str, mode: str, servers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the script reports about each server. ``folder`` becomes a project with the packages."""
    shutil.copy(TYPESCRIPT / "client.mjs", folder)
    shutil.copy(TYPESCRIPT / "package.json", folder)
    modules = folder / "node_modules"
    if not modules.exists():
        modules.symlink_to(MODULES)
    done = subprocess.run(
        ["node", "client.mjs"],
        cwd=folder,
        input=json.dumps({"sdk": sdk, "mode": mode, "servers": servers}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
