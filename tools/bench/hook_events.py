"""Events as hooks send them: tool calls and prompts made from a corpus, the same ones every time."""

from __future__ import annotations

import random
from typing import Any

from tools.bench.clients import Request

_EVENTS = "/api/v1/events"


def tool_calls(lines: list[dict[str, Any]], count: int, seed: int = 5) -> list[Request]:
    """Reads, edits, test runs and commits, as a session mixes them; the text is the corpus's own."""
    pick = random.Random(seed)
    makers = (_read, _read, _read, _edit, _edit, _run, _run, _commit)
    return [
        _post("tool:post", number, project, dict(zip(_CALL, pick.choice(makers)(line, number), strict=True)))
        for number in range(count)
        for line in [pick.choice(lines)]
        for project in [line.get("project") or "bench"]
    ]


def prompts(lines: list[dict[str, Any]], count: int, seed: int = 6) -> list[Request]:
    """Questions of two or three sentences about what the corpus tells."""
    pick = random.Random(seed)
    made = []
    for number in range(count):
        line, other = pick.choice(lines), pick.choice(lines)
        text = (
            f"Please look at {line.get('title') or line['content'][:80]}. I think it has to do with"
            f" {(other.get('title') or other['content'])[:60]}; what did we decide there, and which tests"
            " cover it?"
        )
        made.append(_post("prompt:submit", number, line.get("project") or "bench", {"prompt": text}))
    return made


_CALL = ("tool_name", "tool_input", "tool_response")


def _post(event: str, number: int, project: str, data: dict[str, Any]) -> Request:
    session = f"bench-{number % 20}"
    return ("POST", _EVENTS, {"event": event, "session_id": session, "project": project, "data": data})


def _path(line: dict[str, Any]) -> str:
    files = line.get("files_modified") or line.get("files_read") or ["src/main.py"]
    return str(files[0])


def _read(line: dict[str, Any], number: int) -> tuple[str, dict[str, Any], Any]:
    return "Read", {"file_path": _path(line)}, {"file": {"content": line["content"] * 3}}


def _edit(line: dict[str, Any], number: int) -> tuple[str, dict[str, Any], Any]:
    new = f"# step {number}, because {line['content'][:300]}"
    edit = {"file_path": _path(line), "old_string": "pass", "new_string": new}
    return "Edit", edit, {"success": True}


def _run(line: dict[str, Any], number: int) -> tuple[str, dict[str, Any], Any]:
    output = f"{line['content']}\n\n{number % 90 + 1} passed in 1.2s"
    return "Bash", {"command": "pytest -q"}, {"stdout": output, "stderr": ""}


def _commit(line: dict[str, Any], number: int) -> tuple[str, dict[str, Any], Any]:
    message = f"{line.get('title') or 'Change'} ({number})\n\n{line['content'][:600]}".replace("'", "")
    return "Bash", {"command": f"git commit -m '{message}'"}, {"stdout": "1 file changed", "stderr": ""}
