"""A chat endpoint on loopback with scripted misbehaviour."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.embeddings.servers import (  # noqa: F401 the same misbehaviour on every endpoint
    Behaviour,
    Endpoint,
    Handler,
    endless,
    hanging_up,
    no_http,
    raw,
    run,
    silent,
    status,
    trickling,
    unused_url,
)

Answering = Callable[[dict[str, Any]], str]


class ChatServer(Endpoint):
    """Records path, headers and body of requests in ``asked``."""

    def __init__(self) -> None:
        super().__init__()
        self.usual = saying("fine")


@contextmanager
def serving() -> Iterator[ChatServer]:
    with run(ChatServer()) as server:
        yield server


def completion(text: Any, **more: Any) -> dict[str, Any]:
    """Return a completion; ``more`` overrides fields of the choice."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "c-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **more}],
        "usage": {"prompt_tokens": 40, "completion_tokens": 5, "total_tokens": 45},
    }


def saying(text: Any, **more: Any) -> Behaviour:
    return lambda handler, _: handler.say_json(completion(text, **more))


def answering(answer: Answering) -> Behaviour:
    """Answer with a text that depends on the request."""
    return lambda handler, body: handler.say_json(completion(answer(body)))


def answer_json(shape: Any) -> Behaviour:
    return saying(json.dumps(shape))


def whole(shape: Any) -> Behaviour:
    return lambda handler, _: handler.say_json(shape)


def only_form(limit: str) -> Behaviour:
    """Accept the token limit under one name, and no temperature with the newer name."""

    def behave(handler: Handler, body: dict[str, Any]) -> None:
        fits = limit in body and ("temperature" in body) == (limit == "max_tokens")
        (saying("fine") if fits else status(400, "unsupported parameter"))(handler, body)

    return behave
