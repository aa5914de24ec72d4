"""The memory governor: no memory gives orders to the agent that reads it. Pure.

``inspect`` looks at one text, ``inspect_fields`` at every text of a memory; both answer with the text made
fit for a prompt and with what was found. ``roles.strip_role_prefixes`` removes "assistant:" and the like from
line starts. See ``docs/governor.md``.
"""

from memoryhub.security.prompt_injection.detector import (
    INSTRUCTION_REMOVED,
    FieldFinding,
    FieldsVerdict,
    Finding,
    Verdict,
)
from memoryhub.security.prompt_injection.inspection import inspect, inspect_fields
from memoryhub.security.prompt_injection.normalisation import NormalisedText, normalise

__all__ = [
    "INSTRUCTION_REMOVED",
    "FieldFinding",
    "FieldsVerdict",
    "Finding",
    "NormalisedText",
    "Verdict",
    "inspect",
    "inspect_fields",
    "normalise",
]
