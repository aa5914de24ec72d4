"""What counts as evidence of an order to the model, by kind. Pure data.

A row holds what the evidence says, its weight, options and a pattern. A pattern is a sequence of parts
(``words/``) with gaps: ``~4`` is a gap of up to four words inside one sentence, ``_4`` one without a comma,
``%4`` one that may cross a sentence's end; ``.`` is any word, ``\\n`` the end of a sentence, ``<youmust>``
"you must" in any of its forms.

Options: ``!`` the first word must stand where an order begins, not in a description ("users who ignore
..."); ``@`` the same, and the object must not be in some place ("the instructions in the README");
``+name`` evidence for the same part of an order does not add up, evidence for another part does.
"""

from memoryhub.security.prompt_injection.evidence.harm import DESTRUCTIVE, EXFILTRATION, SECRECY
from memoryhub.security.prompt_injection.evidence.leak import LEAK
from memoryhub.security.prompt_injection.evidence.newtask import NEW_TASK
from memoryhub.security.prompt_injection.evidence.override import OVERRIDE
from memoryhub.security.prompt_injection.evidence.persona import PERSONA
from memoryhub.security.prompt_injection.evidence.row import Row
from memoryhub.security.prompt_injection.evidence.voices import ADDRESSED, NOTICE, ROLE

EVIDENCE: dict[str, tuple[Row, ...]] = {
    "override": OVERRIDE,
    "newtask": NEW_TASK,
    "persona": PERSONA,
    "leak": LEAK,
    "secrecy": SECRECY,
    "exfiltration": EXFILTRATION,
    "destructive": DESTRUCTIVE,
    "addressed": ADDRESSED,
    "role": ROLE,
    "notice": NOTICE,
}

__all__ = ["EVIDENCE"]
