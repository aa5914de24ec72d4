"""Asking a language model, where one is configured. The hub works without."""

from memoryhub.llm.base import Chat, Message, Meter, ModelError, Reply

__all__ = ["Chat", "Message", "Meter", "ModelError", "Reply", "configured"]


def configured(meter: Meter) -> Chat | None:
    """The model in force, None for ``llm = "none"``; ModelError when the configuration cannot work.

    ``meter``: what each request is charged to.
    """
    # It reads Django's settings, and the pure modules of this package are to be had without Django.
    from memoryhub.llm import endpoint, settings

    return endpoint.create_chat(settings.LlmSettings.now(), meter)
