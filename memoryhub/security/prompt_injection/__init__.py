"""Prompt-injection detection: no memory gives orders to the agent that reads it. No Django.

:func:`inspect` inspects one text, :func:`inspect_fields` all texts of a memory. Both return the text without
orders, and the findings. ``role_prefixes`` removes prefixes such as "assistant:" from line starts. See
``docs/security.md``.
"""

from memoryhub.security.prompt_injection.inspection import (
    INSTRUCTION_REMOVED,
    FieldFinding,
    FieldsVerdict,
    Finding,
    Verdict,
    digest_fields,
    inspect,
    inspect_fields,
    rules_version,
)
