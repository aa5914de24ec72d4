"""From a conversation to candidates by rules alone: no model, the same result each time, each one explained.

What the user states about themself, their people and their work, what was decided, what is always or never to
be done, and a problem with its solution. Questions, thanks, requests for this one time, what is only
considered, and what the assistant explains are not remembered.
"""

from memoryhub.extraction.rules.reading import extract

__all__ = ["extract"]
