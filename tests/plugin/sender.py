"""Run the plugin's sender as Claude Code does, against a fake hub."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "plugin"
SENDER = PLUGIN / "hooks" / "send.sh"
TOKEN = "mh_test"
PROMPT = {
    "hook_event_name": "UserPromptSubmit",
    "session_id": "s1",
    "cwd": "/home/ada/shop",
    "prompt": 'a "b" \\ c',
}


class FakeHub:
    """Records requests. ``answer`` None: answers only spooled events; ``hangs_up``: it closes the others."""

    def __init__(self) -> None:
        self.answer: str | None = "{}"
        self.hangs_up = False
        self.status = 200
        self.late_answers: list[tuple[int, str]] = []  # status and body for spooled events, in turn
        self.requests: list[tuple[str, str, Any]] = []
        self.queries: list[dict[str, str]] = []
        self.waiting: list[str | None] = []
        self.never = threading.Event()
        self.arrived = threading.Semaphore(0)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:
                body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
                path, _, query = handler.path.partition("?")
                self.requests.append((path, handler.headers["Authorization"], body))
                self.queries.append(dict(parse_qsl(query)))
                self.waiting.append(handler.headers["X-Memoryhub-Waiting"])
                self.arrived.release()
                is_late = "late" in handler.path
                if self.answer is None and not is_late:
                    self.hangs_up or self.never.wait()
                    return
                answer = (self.status, self.answer or "{}")
                status, text = self.late_answers.pop(0) if is_late and self.late_answers else answer
                handler.send_response(status)
                handler.end_headers()
                handler.wfile.write(text.encode())

            def log_message(self, *arguments: Any) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    fake = FakeHub()
    thread = threading.Thread(target=fake.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield fake
    fake.never.set()
    fake.server.shutdown()
    fake.server.server_close()


def send(tmp_path: Path, url: str, event: dict[str, Any], mode: str = "event", **more: str) -> str:
    """Run the sender as Claude Code does; return what it prints. It must succeed without an error text.

    Waits until the processes that it leaves in the background have closed the pipe that they inherit.
    """
    variables = {"CLAUDE_PLUGIN_DATA": str(tmp_path / "data"), "CLAUDE_PLUGIN_OPTION_TOKEN": TOKEN}
    variables |= {"CLAUDE_PLUGIN_OPTION_URL": url, "MEMORYHUB_HOOK_TIMEOUT": "30", **more}
    background, inherited = os.pipe()
    done = subprocess.run(
        ["sh", str(SENDER), mode],
        pass_fds=[inherited],
        input=json.dumps(event, ensure_ascii=False),
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    os.close(inherited)
    with os.fdopen(background) as pipe:
        pipe.read()
    return done.stdout


def patient_curl(folder: Path) -> str:
    """Return a PATH whose curl waits for two minutes: a busy machine may miss the limit that it is given."""
    folder.mkdir()
    curl = folder / "curl"
    curl.write_text(f'#!/bin/sh\nexec {shutil.which("curl")} "$@" --max-time 120\n')
    curl.chmod(0o700)
    return f"{folder}:{os.environ['PATH']}"


def write_transcript(path: Path, *lines: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def said(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"parentUuid": None, "type": role, "message": {"role": role, "content": text}, **more}


def compaction(transcript: Path) -> dict[str, Any]:
    common = {"session_id": "s1", "cwd": "/home/ada/shop", "trigger": "auto"}
    return {"hook_event_name": "PreCompact", "transcript_path": str(transcript), **common}
