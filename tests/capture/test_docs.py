"""Test that docs/hooks.md matches the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

from memoryhub import capture
from memoryhub.core.agent_hooks import AGENTS, hooks_configuration

PAGE = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text("utf-8")
BLOCKS = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]


def test_documented_hook_of_copilot_matches_the_generated_one():
    generated = hooks_configuration(AGENTS["copilot"], "http://127.0.0.1:8000")
    [event] = BLOCKS[0]["hooks"]
    assert BLOCKS[0] == {**generated, "hooks": {event: generated["hooks"][event]}}


def test_documented_agents_are_the_known_ones():
    table = PAGE.partition("## Other agents")[2].partition("## ")[0]
    assert re.findall(r"^\| \[(.+?)\]\((.+?)\) \| `/api/v1/hooks/(\w+)`", table, re.MULTILINE) == [
        (agent.title, agent.documentation, key) for key, agent in AGENTS.items()
    ]


def test_documented_handlers_match_the_registered_ones():
    for event in capture.EVENTS:
        [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `{event}`")]
        handlers = re.findall(r"`(\w+)` @(\d+)", row)
        assert handlers == [(hook.name, str(hook.priority)) for hook in capture.HOOKS if hook.event == event]
