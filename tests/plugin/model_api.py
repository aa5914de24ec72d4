"""A stand-in for the model API: it streams the answers of a script, as the real API would."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

SUMMARY = "<summary>The invoice import was repaired.</summary>"


@dataclass(frozen=True)
class Call:
    """A tool call of the model."""

    tool: str
    arguments: dict[str, Any]


Step = Call | str  # a string is the final answer to a prompt


@dataclass
class ModelApi:
    """``script``: the steps that answer each prompt. ``requests``: bodies of the requests that had tools."""

    script: dict[str, Sequence[Step]]
    requests: list[dict[str, Any]] = field(default_factory=list)
    base_url: str = ""

    def answer(self, body: dict[str, Any]) -> Step:
        """Return the next step of the prompt that the conversation is at."""
        if not body.get("tools"):
            return SUMMARY if "summary" in _text(body["messages"][-1]).lower() else "ok"
        self.requests.append(body)
        if "summary of the conversation" in _text(body["messages"][-1]):
            return SUMMARY
        done = 0
        for message in reversed(body["messages"]):
            if message["role"] == "assistant":
                done += 1
                continue
            for prompt, steps in self.script.items():
                if prompt in _text(message):
                    return steps[done] if done < len(steps) else "Nothing more to do."
        return "ok"

    def text_for(self, prompt: str) -> str:
        """Return the conversation that the model received with the first request for a prompt."""
        for body in self.requests:
            if any(prompt in _text(message) for message in body["messages"]):
                return json.dumps(body["messages"], ensure_ascii=False)
        raise AssertionError(f"the model never received {prompt!r}")


class ModelHandler(BaseHTTPRequestHandler):
    """Reads and writes bodies of a known length."""

    def read_body(self) -> dict[str, Any]:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")

    def reply(self, content: bytes, content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        """Print nothing."""


@contextmanager
def serving_on_loopback(handler: type[ModelHandler]) -> Iterator[str]:
    """Serve until the block ends. Yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def serving(script: dict[str, Sequence[Step]]) -> Iterator[ModelApi]:
    """Serve the script on loopback."""
    model = ModelApi(script)

    class Handler(ModelHandler):
        def do_POST(self) -> None:
            body = self.read_body()
            if self.path.split("?")[0] != "/v1/messages":
                return self.reply(b'{"input_tokens": 100}', "application/json")
            step = model.answer(body)
            if body.get("stream"):
                return self.reply(b"".join(_stream(step, body["model"])), "text/event-stream")
            return self.reply(json.dumps(_message(step, body["model"])).encode(), "application/json")

        def do_GET(self) -> None:
            self.send_error(404)

        do_HEAD = do_GET

    with serving_on_loopback(Handler) as model.base_url:
        yield model


def _text(message: dict[str, Any]) -> str:
    """Return the text of a message, without tool calls and their results."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def _block(step: Step) -> dict[str, Any]:
    if isinstance(step, str):
        return {"type": "text", "text": step}
    return {"type": "tool_use", "id": f"toolu_{uuid4().hex}", "name": step.tool, "input": step.arguments}


def _message(step: Step, model: str) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [_block(step)],
        "stop_reason": "end_turn" if isinstance(step, str) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 20},
    }


def _stream(step: Step, model: str) -> Iterator[bytes]:
    """Return the server-sent events of one message."""
    message = _message(step, model)
    block = message["content"][0]
    if isinstance(step, str):
        start, delta = {**block, "text": ""}, {"type": "text_delta", "text": step}
    else:
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": {**message, "content": [], "stop_reason": None}}),
        ("content_block_start", {"index": 0, "content_block": start}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": end, "usage": {"output_tokens": 20}}),
        ("message_stop", {}),
    ]
    for name, data in events:
        yield f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()
