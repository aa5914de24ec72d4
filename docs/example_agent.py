"""A small agent: it remembers each statement on standard input, and answers each question from memory."""

import sys

from memoryhub.client import Client


def reply(hub: Client, prompt: str) -> str:
    """Return the answer to a prompt. A real agent would give what it recalls to a language model."""
    if not prompt.endswith("?"):
        return f"Remembered ({hub.remember(prompt, project='example', ttl_days=0).outcome})."
    found = hub.recall(prompt, max_tokens=500, project="example")
    return "\n".join(memory.content for memory in found.details) or "I do not know."


with Client() as hub:
    for line in sys.stdin:
        print(reply(hub, line.strip()), flush=True)
