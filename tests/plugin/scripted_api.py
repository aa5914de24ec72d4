"""Stand-ins for the APIs of Gemini and of OpenAI's Responses: they stream the steps of one answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.plugin.model_api import Call, ModelHandler, Step, serving_on_loopback


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

    class Handler(ModelHandler):
        def do_POST(self) -> None:
            events = to_events(model.next_step(self.read_body()))
            if self.path.endswith(":generateContent"):
                return self.reply(json.dumps(events[0]).encode(), "application/json")
            lines = [f"data: {json.dumps(event)}\n\n" for event in events]
            return self.reply("".join(lines).encode(), "text/event-stream")

    with serving_on_loopback(Handler) as model.base_url:
        yield model
