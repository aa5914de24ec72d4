"""Stand-ins for the APIs of Gemini and of OpenAI's Responses: they stream the steps of one answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.plugin.model_api import Call, Step


@dataclass
class ScriptedApi:
    """``requests``: bodies of the requests that had tools. The ``steps`` answer them, one after the other."""

    steps: Sequence[Step]
    requests: list[dict[str, Any]] = field(default_factory=list)
    base_url: str = ""

    def next_step(self, body: dict[str, Any]) -> Step:
        if not body.get("tools"):
            return "ok"
        self.requests.append(body)
        return self.steps[min(len(self.requests), len(self.steps)) - 1]


def gemini_events(step: Step) -> list[dict[str, Any]]:
    part: dict[str, Any] = {"text": step}
    if isinstance(step, Call):
        part = {"functionCall": {"name": step.tool, "args": step.arguments}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return [{"candidates": [candidate], "usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 2}}]


def responses_events(step: Step) -> list[dict[str, Any]]:
    """Return the events of a step. A tool may have a namespace: ``mcp__memoryhub/store_memory``."""
    item: dict[str, Any] = {"type": "message", "role": "assistant", "id": "message"}
    item["content"] = [{"type": "output_text", "text": step}]
    if isinstance(step, Call):
        namespace, _, name = step.tool.rpartition("/")
        call = {"name": name, "arguments": json.dumps(step.arguments), "call_id": "call"}
        item = {"type": "function_call", **call, **({"namespace": namespace} if namespace else {})}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return [
        {"type": "response.created", "response": {"id": "response"}},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": {"id": "response", "usage": usage}},
    ]


@contextmanager
def serving(to_events: Callable[[Step], list[dict[str, Any]]], *steps: Step) -> Iterator[ScriptedApi]:
    """Serve the steps on loopback, as the events of one of the APIs."""
    model = ScriptedApi(steps)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
            events = to_events(model.next_step(body))
            lines = [f"data: {json.dumps(event)}\n\n" for event in events]
            content, kind = "".join(lines).encode(), "text/event-stream"
            if self.path.endswith(":generateContent"):
                content, kind = json.dumps(events[0]).encode(), "application/json"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.base_url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
