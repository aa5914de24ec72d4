"""Real agents: where npm installed them, and a user's machine to run them on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.conftest import served  # noqa: F401 fixture
from tests.plugin.sender import hub  # noqa: F401 fixture

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
# Where npm installed the packages, if not next to package.json.
PROGRAMS = Path(os.environ.get("AGENT_MODULES", HERE / "node_modules")) / ".bin"


def require_program(name: str) -> Path:
    """Return the path of an agent's program. Skip if npm did not install it; fail in CI."""
    program = PROGRAMS / name
    if not program.exists():
        reason = f"{name} is not installed: npm install in {HERE}"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return program


@dataclass(frozen=True)
class Machine:
    """``home`` is an empty home of a user, ``project`` a folder that the user works in."""

    home: Path
    project: Path

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            # A busy machine takes its time.
            "CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS": "60000",
            "MCP_TIMEOUT": "120000",
            **more,
        }

    def write(self, path: str, content: str | dict[str, Any]) -> None:
        """Write a configuration file in the home."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))

    def run(self, program: str, *arguments: str, **more: str) -> str:
        """Run an agent's program to its end and return what it printed."""
        done = subprocess.run(
            [str(require_program(program)), *arguments],
            cwd=self.project,
            env=self.environment(**more),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout or done.stderr

    def install_plugin(self, *options: str, **more: str) -> None:
        """Install the plugin from a copy of the repository, which is a marketplace."""
        marketplace = self.home / "memoryhub"
        for folder in (".claude-plugin", "plugin"):
            shutil.copytree(ROOT / folder, marketplace / folder)
        hooks = marketplace / "plugin" / "hooks" / "hooks.json"
        hooks.write_text(hooks.read_text().replace('"timeout": 2', '"timeout": 60'))  # if the machine is busy
        self.run("claude", "plugin", "marketplace", "add", str(marketplace), **more)
        self.run("claude", "plugin", "install", "memoryhub@memoryhub", *options, **more)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    home, project = tmp_path / "home", tmp_path / "shop"
    home.mkdir()
    project.mkdir()
    trusted = {"projects": {str(project): {"hasTrustDialogAccepted": True}}}
    made = Machine(home, project)
    made.write(".claude.json", {"hasCompletedOnboarding": True, **trusted})
    return made
