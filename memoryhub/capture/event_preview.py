"""A tool call or a prompt as an event keeps it: what may be shown of it, never the whole. Pure.

Credentials are taken out before anything else looks at the text; of a file made to hold them nothing but its
name is kept.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from memoryhub.capture.boundaries import MAX_KEYWORDS, extract_keywords, unique_keywords
from memoryhub.capture.distillation import strip_injected_context
from memoryhub.capture.observation import MAX_OUTPUT, Observation, clean_text, observe
from memoryhub.capture.shell_commands import is_status_check
from memoryhub.core.text import estimate_tokens, shorten
from memoryhub.security.secrets import redact
from memoryhub.security.secrets.secret_files import is_secret_file, names_secret_file

# The tools of the hub's own toolsets, and LetsGo's: what they answer is remembered already.
MEMORY_TOOLS = frozenset(
    """store_memory search_memories list_memories get_memory update_memory delete_memory search_by_file
    search_by_concept get_timeline store_fact query_facts delete_fact purge_expired summarize_old
    memory_store memory_recall memory_forget memory_remember memory tool-memory-store tool_memory_store
    """.split()
)

PLANNING_TOOLS = frozenset(
    {"todowrite", "todo_write", "update_plan", "exitplanmode", "taskcreate", "taskupdate"}
)


@dataclass(frozen=True)
class ToolCall:
    """One tool call. ``secret``: it touched a file made for credentials; ``own``: a tool of memory itself.

    ``looks_around``: it shows where things stand or what is planned, not what the work is about.
    ``keywords``, ``preview`` and ``output_digest`` are what an event and the session's state may keep;
    ``tokens`` is about what the call cost the agent's context.
    """

    seen: Observation
    secret: bool
    own: bool
    looks_around: bool
    files: tuple[str, ...]
    keywords: tuple[str, ...]
    preview: str
    output_digest: str
    tokens: int


def parse_tool_call(tool: str, given: Any, response: Any, cwd: str, preview_chars: int) -> ToolCall:
    """Read a tool call, whatever JSON its input and response are."""
    seen = observe(tool, given, response, cwd)
    touched = (*seen.files_modified, *seen.files_read)
    secret = any(map(is_secret_file, touched)) or names_secret_file(seen.command)
    shown = "" if secret else redact(strip_injected_context(seen.text))
    return ToolCall(
        seen=seen,
        secret=secret,
        own=is_memory_tool(tool),
        looks_around=is_status_check(seen.command) or tool.lower() in PLANNING_TOOLS,
        # By the tool's name alone a session's summary takes a writer's files for changed.
        files=seen.files_modified if seen.kind == "write" else touched,
        keywords=() if secret else _keywords(touched, shown),
        preview=_preview(seen, secret, preview_chars),
        output_digest=hashlib.sha256(seen.output.encode()).hexdigest()[:16] if seen.output else "",
        tokens=estimate_tokens(seen.text),
    )


def _keywords(files: tuple[str, ...], shown: str) -> tuple[str, ...]:
    """The words of the files' names before those of the text: they hold a piece of work together."""
    names = extract_keywords(" ".join(path.rpartition(".")[0] or path for path in files))
    return tuple(unique_keywords([*names, *extract_keywords(shown)]))[:MAX_KEYWORDS]


def is_memory_tool(tool: str) -> bool:
    """Whether a tool, by its own name or as ``mcp__server__tool``, is one of memory."""
    return tool.rsplit("__", 1)[-1].lower() in MEMORY_TOOLS


def parse_prompt(prompt: str, preview_chars: int) -> tuple[str, tuple[str, ...]]:
    """The preview and the keywords of what a person asked."""
    shown = redact(strip_injected_context(clean_text(prompt[:MAX_OUTPUT])))
    return shorten(shown, preview_chars), tuple(extract_keywords(shown))


def _preview(seen: Observation, secret: bool, chars: int) -> str:
    if secret:
        return shorten(", ".join((*seen.files_modified, *seen.files_read)) or "a file of credentials", chars)
    asked = seen.command or seen.question or ", ".join((*seen.files_modified, *seen.files_read))
    found = seen.output or seen.added
    whole = redact(strip_injected_context("\n".join(part for part in (asked, found) if part)))
    return shorten(whole, chars)
