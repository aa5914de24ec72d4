"""What the configuration says about the language model, and what of it cannot work."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.conf import settings

from memoryhub.core import http_client
from memoryhub.core.http_client import EndpointProblem


@dataclass(frozen=True)
class LlmSettings:
    """Everything that decides who is asked, and how."""

    provider: str
    url: str = ""
    model: str = ""
    timeout_seconds: float = 120.0
    tries: int = 3
    key: str = field(default="", repr=False)

    @classmethod
    def now(cls) -> LlmSettings:
        """As the settings stand."""
        config = settings.MEMORYHUB
        return cls(
            config.llm,
            config.llm_url,
            config.llm_model,
            config.llm_timeout_seconds,
            config.llm_tries,
            settings.LLM_KEY,
        )


def find_problems(chosen: LlmSettings) -> list[EndpointProblem]:
    """Why this configuration cannot work, as far as can be told without asking anybody."""
    if chosen.provider == "none":
        return []
    return list(
        http_client.find_endpoint_problems("llm", chosen.url, chosen.model, chosen.key, "MEMORYHUB_LLM_KEY")
    )


def sends_in_clear(chosen: LlmSettings) -> bool:
    """Whether conversations, and the key, cross a network unencrypted."""
    return chosen.provider != "none" and http_client.is_unencrypted(chosen.url)
