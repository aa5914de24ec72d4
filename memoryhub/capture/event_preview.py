"""Reduce tool calls and prompts to what an event may store: redacted previews and keywords. Pure.

Credentials are removed before anything else reads the text. Of a file of credentials only the name is stored.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from memoryhub.capture.boundaries import MAX_KEYWORDS, extract_keywords, unique_keywords
from memoryhub.capture.distillation import strip_injected_context
from memoryhub.capture.observation import MAX_OUTPUT, TOOLS, Observation, clean_text, observe
from memoryhub.capture.shell_commands import is_status_check
from memoryhub.core.text import estimate_tokens, shorten
from memoryhub.security.secrets import is_secret_file, names_secret_file, redact


@dataclass(frozen=True)
class ToolCall:
    """One tool call: the observation, and the parts that may be stored with an event.

    ``secret``: the call touched a file of credentials. ``by_memory_tool``: its answer is stored already.
    ``shows_status``: it shows a status or a plan, not the subject of the work.
    ``tokens``: approximate cost of the call in the agent's context. ``clean_text``: its text if that contains
    no secret, so that parts of it need no other check.
    """

    observation: Observation
    secret: bool
    by_memory_tool: bool
    shows_status: bool
    files: tuple[str, ...]
    keywords: tuple[str, ...]
    preview: str
    output_digest: str
    tokens: int
    clean_text: str


def parse_tool_call(tool: str, given: Any, response: Any, cwd: str, preview_chars: int) -> ToolCall:
    """Parse a tool call; its input and response may be any JSON."""
    return reduce_call(observe(tool, given, response, cwd), preview_chars)


def reduce_call(seen: Observation, preview_chars: int) -> ToolCall:
    """Return a tool call with the parts of it that may be stored."""
    tool = seen.tool
    touched = (*seen.files_modified, *seen.files_read)
    secret = any(map(is_secret_file, touched)) or names_secret_file(seen.command)
    text = strip_injected_context(seen.text)
    shown = "" if secret else redact(text)
    return ToolCall(
        observation=seen,
        secret=secret,
        by_memory_tool=tool.rsplit("__", 1)[-1].lower() in TOOLS.memory_tools,  # mcp__server__tool
        shows_status=is_status_check(seen.command) or tool.lower() in TOOLS.planning_tools,
        # A session summary treats all files of a writing tool's event as changed.
        files=seen.files_modified if seen.kind == "write" else touched,
        keywords=() if secret else _keywords(touched, shown),
        preview=_preview(seen, secret, preview_chars),
        output_digest=hashlib.sha256(seen.output.encode()).hexdigest()[:16] if seen.output else "",
        tokens=estimate_tokens(seen.text),
        clean_text=shown if shown == text else "",
    )


def _keywords(files: tuple[str, ...], shown: str) -> tuple[str, ...]:
    """Return keywords of the file names, which connect calls of one piece of work, then of the text."""
    names = extract_keywords(" ".join(path.rpartition(".")[0] or path for path in files))
    return tuple(unique_keywords([*names, *extract_keywords(shown)]))[:MAX_KEYWORDS]


def parse_prompt(prompt: str, preview_chars: int) -> tuple[str, tuple[str, ...]]:
    """Return the preview and the keywords of a prompt."""
    shown = redact(strip_injected_context(clean_text(prompt[:MAX_OUTPUT])))
    return shorten(shown, preview_chars), tuple(extract_keywords(shown))


def _preview(seen: Observation, secret: bool, chars: int) -> str:
    files = ", ".join((*seen.files_modified, *seen.files_read))
    if secret:
        return shorten(files or "a file of credentials", chars)
    request = seen.command or seen.question or files
    result = seen.output or seen.added
    text = redact(strip_injected_context("\n".join(part for part in (request, result) if part)))
    return shorten(text, chars)
