"""A stand-in for the Gemini API: it streams the steps of one answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.plugin.model_api import Call, Step


@dataclass
class GeminiApi:
    """``requests``: bodies of the requests that had tools. The ``steps`` answer them, one after the other."""

    steps: Sequence[Step]
    requests: list[dict[str, Any]] = field(default_factory=list)
    base_url: str = ""

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        step: Step = "ok"
        if body.get("tools"):
            self.requests.append(body)
            step = self.steps[min(len(self.requests), len(self.steps)) - 1]
        part = (
            {"functionCall": {"name": step.tool, "args": step.arguments}}
            if isinstance(step, Call)
            else {"text": step}
        )
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 2}}


@contextmanager
def serving(*steps: Step) -> Iterator[GeminiApi]:
    """Serve the steps on loopback."""
    model = GeminiApi(steps)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
            content = json.dumps(model.answer(body)).encode()
            kind = "application/json"
            if "alt=sse" in self.path:
                content, kind = b"data: " + content + b"\n\n", "text/event-stream"
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
