"""Language models: the protocol, the settings that choose one, and the chosen model.

Models answer at an OpenAI-compatible endpoint (``POST {url}/chat/completions``).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Literal, Protocol

from django.conf import settings

from memoryhub.core import network
from memoryhub.core.network import (
    CircuitBreaker,
    EndpointProblem,
    RequestFailed,
    retry_request,
    to_request_failed,
    with_path,
)
from memoryhub.core.text import estimate_tokens


class ModelError(Exception):
    """The model is unavailable; the message is safe for clients (no key, content or traceback)."""


@dataclass(frozen=True)
class Message:
    """One message of a request."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Reply:
    """An answer, with tokens as counted by the endpoint or else estimated."""

    text: str
    prompt_tokens: int
    completion_tokens: int


class Settle(Protocol):
    """Replaces the tokens that a request reserved by the used ones. Called once."""

    def __call__(self, prompt_tokens: int, completion_tokens: int, *, failed: bool = False) -> None: ...


# Reserves one call of a model and this number of tokens. Raises ModelError if the budget is exhausted.
Reserve = Callable[[str, int], Settle]


class Chat(Protocol):
    """A language model. Thread-safe."""

    @property
    def name(self) -> str:
        """Name of the model, for people and for the daily count."""

    def ask(self, messages: Sequence[Message], max_tokens: int) -> Reply:
        """Return an answer of at most ``most_tokens`` tokens.

        Raise ModelError with a message that is safe for clients.
        """


@dataclass(frozen=True)
class LlmSettings:
    """The settings that determine the model and its requests."""

    provider: str
    url: str = ""
    model: str = ""
    timeout_seconds: float = 120.0
    tries: int = 3
    key: str = field(default="", repr=False)
    private_names: bool = False

    @classmethod
    def now(cls) -> LlmSettings:
        """Return the current settings."""
        config = settings.MEMORYHUB
        return cls(
            config.llm,
            config.llm_url,
            config.llm_model,
            config.llm_timeout_seconds,
            config.llm_tries,
            settings.LLM_KEY,
            config.endpoint_private_names,
        )


def find_problems(config: LlmSettings) -> list[EndpointProblem]:
    """Return the configuration problems that are visible without a network request."""
    if config.provider == "none":
        return []
    return list(network.find_endpoint_problems("llm", config.url, config.model, config.key))


def sends_in_clear(config: LlmSettings) -> bool:
    """Return whether conversations and the key cross a network unencrypted."""
    return config.provider != "none" and network.is_unencrypted(config.url)


def configured(reserve: Reserve, max_seconds: float = math.inf) -> Chat | None:
    """Return the configured model, or None for ``llm = "none"``. Raise ModelError if it is invalid.

    Each request calls ``reserve`` first. It takes ``llm_timeout_seconds``, at most ``max_seconds``.
    """

    config = LlmSettings.now()
    config = replace(config, timeout_seconds=min(config.timeout_seconds, max_seconds))
    for problem in find_problems(config):
        raise ModelError(f"{problem.text}. {problem.fix}")
    return None if config.provider == "none" else EndpointChat(config, reserve, _shared_pause(config))


# Token counts below this share of our estimate, or above this maximum, are implausible.
_MIN_TOKEN_SHARE, _MAX_TOKENS = 0.25, 1_000_000


def parse_completion(body: bytes, sent_tokens: int, estimate: Callable[[str], int]) -> Reply:
    """Return the answer in a response body. Raise ModelError if it is invalid, empty, truncated or refused.

    ``sent_tokens`` is the estimated size of the request; ``estimate`` counts the tokens of a text.
    """
    try:
        data = json.loads(body)
        choice = data["choices"][0]
        message = choice["message"]
        text = _content_text(message.get("content"))
        refusal = message.get("refusal")
        finish = choice.get("finish_reason")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        raise ModelError("the language model's endpoint did not return a chat completion") from None
    if refusal or finish == "content_filter":
        raise ModelError("the language model refuses to answer")
    if not text.strip():
        raise ModelError("the language model's answer is empty")
    usage = data.get("usage")
    counted = usage if isinstance(usage, dict) else {}
    return Reply(
        text,
        _plausible_count(counted.get("prompt_tokens"), sent_tokens),
        _plausible_count(counted.get("completion_tokens"), estimate(text)),
    )


def _content_text(content: Any) -> str:
    """Return the text of a content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if not isinstance(content, list):
        raise TypeError
    return "".join(
        part["text"]
        for part in content
        if isinstance(part, dict)
        and part.get("type") in (None, "text", "output_text")
        and isinstance(part.get("text"), str)
    )


def _plausible_count(counted: Any, estimated: int) -> int:
    """Return the endpoint's count if plausible, else the estimate. It may include hidden reasoning tokens."""
    if type(counted) is not int or not estimated * _MIN_TOKEN_SHARE <= counted <= _MAX_TOKENS:
        return estimated
    return counted


_ENDPOINT_LABEL = "the language model's endpoint"
_FORM_ERRORS = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
_MAX_RESPONSE_BYTES = 2_000_000  # of a response
_TOKENS_PER_MESSAGE = 8  # overhead of a message


class _FormRefused(Exception):
    """The endpoint refuses this form of the request; another form may succeed."""


# Newer models of some services refuse the old parameter name and any custom temperature.
_REQUEST_FORMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("max_tokens", {"temperature": 0}),
    ("max_completion_tokens", {}),
)


class EndpointChat:
    """Sends requests with retries, and pauses after a failure. Each attempt is charged."""

    def __init__(self, config: LlmSettings, reserve: Reserve, pause: CircuitBreaker) -> None:
        self._config, self._reserve, self._pause = config, reserve, pause
        self._url = with_path(config.url, "/chat/completions")
        self.name = config.model

    def ask(self, messages: Sequence[Message], max_tokens: int) -> Reply:
        if left := self._pause.left(self._config.timeout_seconds):
            raise ModelError(
                f"{_ENDPOINT_LABEL} failed recently; the next try is in {math.ceil(left)} seconds"
            )
        until = time.monotonic() + self._config.timeout_seconds
        try:
            reply = self._send_in_any_form(messages, max_tokens, until)
        except RequestFailed as error:
            self._pause.begin(error.pause)
            raise ModelError(str(error)) from None
        self._pause.end()
        return reply

    def _send_in_any_form(self, messages: Sequence[Message], max_tokens: int, until: float) -> Reply:
        """Send the request in the common form, then in the newer one."""
        for limit, more in _REQUEST_FORMS:
            body = {
                "model": self._config.model,
                "messages": [{"role": one.role, "content": one.content} for one in messages],
                limit: max_tokens,
                **more,
            }
            try:
                return self._send_with_retries(body, messages, max_tokens, until)
            except _FormRefused:
                continue
        raise RequestFailed(
            f"{_ENDPOINT_LABEL} rejects the request: check llm_url and llm_model, and llm_prompt_tokens"
        )

    def _send_with_retries(
        self, body: dict[str, Any], messages: Sequence[Message], max_tokens: int, until: float
    ) -> Reply:
        sent_tokens = sum(estimate_tokens(one.content) + _TOKENS_PER_MESSAGE for one in messages)

        def send(seconds: float) -> Reply:
            settle = self._reserve(self.name, sent_tokens + max_tokens)
            return self._send(body, settle, sent_tokens, seconds)

        return retry_request(send, until, self._config.tries)

    def _send(self, body: dict[str, Any], settle: Settle, sent_tokens: int, seconds: float) -> Reply:
        """Send one request. It is charged if the model may have processed it, even without an answer."""
        try:
            answer = network.post_json(
                self._url,
                body,
                self._config.key,
                seconds,
                _MAX_RESPONSE_BYTES,
                private_names=self._config.private_names,
            )
        except network.Unreachable as error:
            settle(sent_tokens if error.sent else 0, 0, failed=True)
            raise RequestFailed(f"{_ENDPOINT_LABEL} {error}", passes=error.passes) from None
        if answer.status != HTTPStatus.OK:
            settle(0, 0, failed=True)
            if answer.status in _FORM_ERRORS:
                raise _FormRefused
            raise to_request_failed(answer, _ENDPOINT_LABEL, "llm")
        try:
            reply = parse_completion(answer.body, sent_tokens, estimate_tokens)
        except ModelError:
            settle(sent_tokens, len(answer.body) // 4, failed=True)
            raise
        settle(reply.prompt_tokens, reply.completion_tokens)
        return reply


@lru_cache(maxsize=8)
def _shared_pause(config: LlmSettings) -> CircuitBreaker:
    return CircuitBreaker()
