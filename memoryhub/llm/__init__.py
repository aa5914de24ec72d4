"""Access to an optional language model."""

from memoryhub.llm.base import Chat, Message, Meter, ModelError, Reply

__all__ = ["Chat", "Message", "Meter", "ModelError", "Reply", "configured"]


def configured(meter: Meter) -> Chat | None:
    """Return the configured model, or None for ``llm = "none"``. Raise ModelError if it is invalid.

    Each request is charged to ``meter``.
    """
    # Import late: the endpoint needs Django's settings, the protocol in this package does not.
    from memoryhub.llm import base, endpoint

    return endpoint.create_chat(base.LlmSettings.now(), meter)
