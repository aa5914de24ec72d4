"""Measure how long the plugin's hooks keep an agent waiting: ``python -m tools.bench.hooks``.

Sends recorded sessions through ``plugin/hooks/send.sh``, as Claude Code does, to a served hub, and one of
them to a hub that never answers and to a port without a server. Prints a table of milliseconds (median and
95th percentile), and how many hooks got memories from the served hub.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.bench import hub

SESSIONS = ("debugging", "feature", "refactor")
EDITORS = ("Edit", "MultiEdit", "Write", "NotebookEdit")
FREQUENT = frozenset({"PreToolUse", "PostToolUse"})
Times = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each session is sent")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memoryhub-bench-", ignore_cleanup_errors=True) as folder:
        print(measure(Path(folder), options.rounds))


def measure(folder: Path, rounds: int) -> str:
    environment = hub.store_environment(folder / "store")
    hub.manage(environment, "migrate", "--verbosity", "0")
    token = hub.manage(environment, "create_token", "bench").split()[-1]
    with hub.server(environment) as served:
        up, answered = play(folder, f"http://127.0.0.1:{served.port}", token, rounds)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never answers
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        slow = play_without_answers(folder, address, token, rounds)
    down = play_without_answers(folder, address, token, rounds)
    lines = ["| Hook | n | up | slow | down | with memories |", "|---|---:|---:|---:|---:|---:|"]
    for hook, found in up.items():
        share = f"{answered[hook]} of {len(found)}"
        cells = " | ".join(_quantiles(times[hook]) for times in (up, slow, down))
        lines.append(f"| `{hook}` | {len(found)} | {cells} | {share} |")
    return "\n".join(lines)


def play_without_answers(folder: Path, address: str, token: str, rounds: int) -> Times:
    """Send one session, and of all sessions the rarer hooks: each takes as long as the limit."""
    times, _ = play(folder, address, token, 1, SESSIONS[:1])
    rarer, _ = play(folder, address, token, rounds, left_out=FREQUENT)
    return times | rarer


def play(
    folder: Path,
    address: str,
    token: str,
    rounds: int,
    sessions: Sequence[str] = SESSIONS,
    left_out: frozenset[str] = frozenset(),
) -> tuple[Times, Counter[str]]:
    """Send the sessions; return the milliseconds of each hook, and how many answers had memories."""
    times: Times = defaultdict(list)
    answered: Counter[str] = Counter()
    variables = {"MEMORYHUB_URL": address, "MEMORYHUB_TOKEN": token, "MEMORYHUB_SPOOL": str(folder / "spool")}
    environment = {**os.environ, "CLAUDE_PLUGIN_DATA": str(folder / "data"), **variables}
    for number in range(rounds):
        for hook in recorded_hooks(folder, number, sessions):
            if hook["hook_event_name"] in left_out:
                continue
            began = time.perf_counter()
            done = subprocess.run(
                ["sh", hub.ROOT / "plugin" / "hooks" / "send.sh", "event"],
                input=json.dumps(hook),
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            times[hook["hook_event_name"]].append(1000 * (time.perf_counter() - began))
            answered[hook["hook_event_name"]] += "additionalContext" in done.stdout
    return times, answered


def recorded_hooks(folder: Path, number: int, sessions: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the hooks of each session with an id of its own, in a repository on this machine."""
    for name in sessions:
        text = (hub.ROOT / "fixtures" / "sessions" / f"{name}.jsonl").read_text("utf-8")
        hooks = [json.loads(line)["hook"] for line in text.splitlines()]
        project = folder / Path(hooks[0]["cwd"]).name
        if not project.exists():
            git = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org")
            subprocess.run([*git, "init", "-q", project], check=True)
            subprocess.run([*git, "commit", "-qm", "First", "--allow-empty"], cwd=project, check=True)
        for hook in hooks:
            there = json.loads(json.dumps(hook).replace(hooks[0]["cwd"], str(project)))
            there["session_id"] = f"{name}-{number}"
            if there["hook_event_name"] == "PostToolUse" and there["tool_name"] in EDITORS:
                before = {key: value for key, value in there.items() if key != "tool_response"}
                yield {**before, "hook_event_name": "PreToolUse"}  # newer than the recordings
            if there["hook_event_name"] != "Stop":  # the plugin does not report it
                yield there


def _quantiles(found: list[float]) -> str:
    if len(found) < 2:
        return "–".join(f"{one:.0f}" for one in found)
    return f"{statistics.median(found):.0f} / {statistics.quantiles(found, n=20)[-1]:.0f}"


if __name__ == "__main__":
    main()
