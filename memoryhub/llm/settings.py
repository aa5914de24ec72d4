"""Language model settings and their validation."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.conf import settings

from memoryhub.core import http_client
from memoryhub.core.http_client import EndpointProblem


@dataclass(frozen=True)
class LlmSettings:
    """The settings that determine the model and its requests."""

    provider: str
    url: str = ""
    model: str = ""
    timeout_seconds: float = 120.0
    tries: int = 3
    key: str = field(default="", repr=False)

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
        )


def find_problems(config: LlmSettings) -> list[EndpointProblem]:
    """Return the configuration problems that are visible without a network request."""
    if config.provider == "none":
        return []
    return list(
        http_client.find_endpoint_problems("llm", config.url, config.model, config.key, "MEMORYHUB_LLM_KEY")
    )


def sends_in_clear(config: LlmSettings) -> bool:
    """Return whether conversations and the key cross a network unencrypted."""
    return config.provider != "none" and http_client.is_unencrypted(config.url)
