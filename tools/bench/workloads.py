"""The requests that are measured, made from a corpus. The same seed makes the same requests."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tools.bench import corpus
from tools.bench.clients import Request

Lines = list[dict[str, Any]]
BATCH = 50
SEARCHES = ("hybrid", "lexical", "semantic")
PAGES = {
    "home": "/",
    "memories": "/memories/",
    "search": "/memories/?q=index+of+the+tests",
    "review": "/review/",
    "duplicates": "/duplicates/",
    "statistics": "/glance/",
}
_RUN = int(time.time())  # each run stores other texts, so that none is a duplicate


@dataclass(frozen=True)
class Workload:
    """Requests of one kind. ``requests(count, seed)`` makes them.

    ``units``: what the rate counts of each request. ``mode``: of a search.
    """

    name: str
    requests: Callable[[int, int], list[Request]]
    units: int = 1
    is_page: bool = False
    mode: str = ""


def workloads(lines: Lines) -> list[Workload]:
    """Return all workloads, in the order in which they are measured: those that write come last."""
    made = [Workload(f"search, {mode}", _searches(lines, mode), mode=mode) for mode in SEARCHES]
    made += [
        Workload("recall", lambda count, seed: _post("recall", "query", make_queries(lines, count, seed))),
        Workload("inject", lambda count, seed: _injections(lines, count, seed)),
        *(Workload(f"{name} page, first byte", _visits(path), is_page=True) for name, path in PAGES.items()),
        Workload("prompt hook", lambda count, seed: _prompt_events(lines, count, seed)),
        Workload("tool hook", lambda count, seed: _tool_events(lines, count, seed)),
        Workload("store", lambda count, seed: [_store(one) for one in _plain(lines, count, seed)]),
        Workload(
            f"store, batch of {BATCH} (rate: memories)",
            lambda count, seed: _batches(lines, count, seed),
            BATCH,
        ),
        Workload(
            "store, with files and a session",
            lambda count, seed: [_store(one) for one in _fresh(lines, count, seed)],
        ),
    ]
    return made


def make_queries(lines: Lines, count: int, seed: int) -> list[str]:
    """Return queries of one to four words out of a title, as people type them."""
    pick = random.Random(seed)
    made: list[str] = []
    while len(made) < count:
        words = [word for word in _subject(pick.choice(lines)).split() if word.isalpha()]
        if words:
            made.append(" ".join(pick.sample(words, min(len(words), pick.randint(1, 4)))))
    return made


def _subject(line: dict[str, Any]) -> str:
    return str(line.get("title") or line["content"][:80])


def _post(call: str, field: str, values: list[str], **more: Any) -> list[Request]:
    return [("POST", f"/api/v1/{call}", {field: value, **more}) for value in values]


def _searches(lines: Lines, mode: str) -> Callable[[int, int], list[Request]]:
    return lambda count, seed: _post("search", "query", make_queries(lines, count, seed), mode=mode)


def _visits(path: str) -> Callable[[int, int], list[Request]]:
    return lambda count, seed: [("GET", path, None)] * count


def _store(memory: dict[str, Any]) -> Request:
    return ("POST", "/api/v1/memories", memory)


def _fresh(lines: Lines, count: int, seed: int | str) -> Iterator[dict[str, Any]]:
    """Return memories that are not in the store yet."""
    return islice(corpus.memories(lines, len(lines) + count, f"{_RUN}-{seed}"), len(lines), None)


def _plain(lines: Lines, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Return memories of a title and a text, without lists and sessions."""
    for memory in _fresh(lines, count, f"plain-{seed}"):
        yield {name: memory[name] for name in ("title", "content", "project") if name in memory}


def _batches(lines: Lines, count: int, seed: int) -> list[Request]:
    memories = list(_plain(lines, count * BATCH, -seed))
    return [
        ("POST", "/api/v1/memories/batch", {"memories": memories[start : start + BATCH]})
        for start in range(0, len(memories), BATCH)
    ]


def _prompts(lines: Lines, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Return prompts of two or three sentences about the corpus, and their projects."""
    pick = random.Random(seed)
    for _ in range(count):
        line, other = pick.choice(lines), pick.choice(lines)
        text = (
            f"Please look at {_subject(line)}. I think it has to do with {_subject(other)[:60]};"
            " what did we decide there, and which tests cover it?"
        )
        yield text, line.get("project") or "bench"


def _injections(lines: Lines, count: int, seed: int) -> list[Request]:
    return [
        ("POST", "/api/v1/inject", {"prompt": text, "project": project, "session_id": f"bench-{number}"})
        for number, (text, project) in enumerate(_prompts(lines, count, seed))
    ]


def _event(event: str, number: int, project: str, data: dict[str, Any]) -> Request:
    session = f"bench-{number % 20}"
    return (
        "POST",
        "/api/v1/events",
        {"event": event, "session_id": session, "project": project, "data": data},
    )


def _prompt_events(lines: Lines, count: int, seed: int) -> list[Request]:
    prompts = enumerate(_prompts(lines, count, seed))
    return [_event("prompt:submit", number, project, {"prompt": text}) for number, (text, project) in prompts]


def _tool_events(lines: Lines, count: int, seed: int) -> list[Request]:
    """Return reads, edits, test runs and commits, mixed as in a session."""
    pick = random.Random(seed)
    calls = (_read, _read, _read, _edit, _edit, _run, _run, _commit)
    made = []
    for number in range(count):
        line = pick.choice(lines)
        names = ("tool_name", "tool_input", "tool_response")
        data = dict(zip(names, pick.choice(calls)(line, number), strict=True))
        made.append(_event("tool:post", number, line.get("project") or "bench", data))
    return made


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
    message = f"{_subject(line)} ({number})\n\n{line['content'][:600]}".replace("'", "")
    return "Bash", {"command": f"git commit -m '{message}'"}, {"stdout": "1 file changed", "stderr": ""}
