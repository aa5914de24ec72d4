"""``claude mcp`` of Claude Code connects to every toolset. Skipped without it, except in CI."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from memoryhub.toolsets import TOOLSETS
from tests.mcp.conftest import Served
from tests.plugin.conftest import require_program

OFFLINE = {
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}


def test_claude_code_connects_to_every_toolset(served: Served, tmp_path: Path) -> None:
    program = require_program("claude")

    def claude(*arguments: str) -> str:
        done = subprocess.run(
            [str(program), "mcp", *arguments],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **OFFLINE},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return done.stdout

    bearer = f"Authorization: Bearer {served.token}"
    for name in TOOLSETS:
        claude("add", "--transport", "http", f"hub-{name}", served.url(name), "--header", bearer)
    connected = [line for line in claude("list").splitlines() if line.endswith("✔ Connected")]
    assert [line.partition(":")[0] for line in connected] == [f"hub-{name}" for name in TOOLSETS]
