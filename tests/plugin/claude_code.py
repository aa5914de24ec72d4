"""A session of the real Claude Code, driven over its JSON stream, with a stand-in for the model."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, cast

from tests.plugin.conftest import Machine, require_program
from tests.plugin.model_api import ModelApi

_OPTIONS = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
_OPTIONS += ["--include-hook-events", "--permission-prompt-tool", "stdio", "--allowedTools", "Bash", "Write"]


@dataclass
class Session:
    """``answers``: what the user answers to a question of AskUserQuestion. ``hooks``: the hooks that ran."""

    process: subprocess.Popen[str]
    answers: dict[str, str]
    hooks: list[dict[str, Any]] = field(default_factory=list)

    def prompt(self, text: str) -> None:
        """Send a prompt and wait until the turn ends."""
        self._send({"type": "user", "message": {"role": "user", "content": text}})
        for message in self._messages():
            if message["type"] == "control_request":
                self._allow(message)
            if message["type"] == "result":
                assert not message["is_error"], message
                return
        raise AssertionError(f"Claude Code ended at the prompt {text!r}")

    def end(self) -> None:
        """End the session as the user does, and wait for the last hooks."""
        cast(IO[str], self.process.stdin).close()
        for _ in self._messages():
            pass
        assert self.process.wait(180) == 0

    def _messages(self) -> Iterator[dict[str, Any]]:
        for line in iter(cast(IO[str], self.process.stdout).readline, ""):
            message = json.loads(line)
            if message.get("subtype") == "hook_response":
                self.hooks.append(message)
            yield message

    def _allow(self, message: dict[str, Any]) -> None:
        """Allow a tool call. A question is answered in its input."""
        given = message["request"]["input"]
        if questions := given.get("questions"):
            given["answers"] = {one["question"]: self.answers[one["question"]] for one in questions}
        allowed = {"behavior": "allow", "updatedInput": given}
        response = {"subtype": "success", "request_id": message["request_id"], "response": allowed}
        self._send({"type": "control_response", "response": response})

    def _send(self, message: dict[str, Any]) -> None:
        stdin = cast(IO[str], self.process.stdin)
        stdin.write(json.dumps(message) + "\n")
        stdin.flush()


@contextmanager
def running(machine: Machine, model: ModelApi, answers: dict[str, str], **more: str) -> Iterator[Session]:
    """Start Claude Code in the project."""
    process = subprocess.Popen(
        [str(require_program("claude")), "-p", *_OPTIONS],
        cwd=machine.project,
        env=machine.environment(ANTHROPIC_BASE_URL=model.base_url, ANTHROPIC_API_KEY="sk-none", **more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield Session(process, answers)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            cast(IO[str], stream).close()
