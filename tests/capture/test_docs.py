"""Test that docs/hooks.md matches the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

from memoryhub import capture
from memoryhub.core import claude_code

PAGE = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text("utf-8")


def test_documented_settings_match_the_generated_ones():
    [block] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert json.loads(block) == claude_code.settings_snippet("http://127.0.0.1:8000", None)


def test_documented_handlers_match_the_registered_ones():
    for event in capture.EVENTS:
        [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `{event}`")]
        handlers = re.findall(r"`(\w+)` @(\d+)", row)
        assert handlers == [(hook.name, str(hook.priority)) for hook in capture.HOOKS if hook.event == event]
