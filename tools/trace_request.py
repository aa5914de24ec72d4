"""Count the files, functions and SQL statements of one request: ``python -m tools.trace_request``.

Sends each of three requests twice in a temporary store and traces the second one: ``POST
/api/v1/memories``, a search page, and a Claude Code prompt hook. Lists the executed files with
``--files``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = str(ROOT / "memoryhub") + os.sep


class Trace(NamedTuple):
    """The functions that a request executed, with the number of calls of each, and its SQL statements."""

    calls: Counter[CodeType]
    statements: int

    @property
    def files(self) -> list[str]:
        """Return the executed files, sorted."""
        return sorted({str(Path(code.co_filename).relative_to(ROOT)) for code in self.calls})


def trace(send: Callable[[], Any]) -> Trace:
    """Call ``send`` once to warm up, then again under a profiler. Code that runs at import is not counted."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    send()
    calls: Counter[CodeType] = Counter()

    def count(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name != "<module>":
            calls[code] += 1

    with CaptureQueriesContext(connection) as queries:
        sys.setprofile(count)
        try:
            send()
        finally:
            sys.setprofile(None)
    sent = [query for query in queries.captured_queries if not query["sql"].startswith(("BEGIN", "COMMIT"))]
    return Trace(calls, len(sent))


def _requests() -> dict[str, Callable[[], Any]]:
    from django.contrib.auth import get_user_model
    from django.test import Client

    from memoryhub.access.policy import system_actor
    from memoryhub.accounts import tokens

    _, token = tokens.issue_token(
        "tracer", "tracer", "secret", ["read", "write"], actor=system_actor("tracer")
    )
    agent = Client(headers={"authorization": f"Bearer {token}"})
    browser = Client()
    browser.force_login(get_user_model().objects.create_superuser("tracer"))
    texts = (f"The tide table of harbour {n} is printed on paper." for n in range(1000))

    def post(path: str, body: dict[str, Any]) -> None:
        _check(agent.post(path, json.dumps(body), content_type="application/json"))

    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "trace", "cwd": "/code/harbour"}
    return {
        "POST /api/v1/memories": lambda: post("/api/v1/memories", {"content": next(texts)}),
        "GET /memories/?q=": lambda: _check(browser.get("/memories/", {"q": "tide table"})),
        "POST /api/v1/hooks/claude-code": lambda: post(
            "/api/v1/hooks/claude-code", {**prompt, "prompt": "How is the tide table of the harbour printed?"}
        ),
    }


def _check(response: Any) -> None:
    if response.status_code >= 400:
        raise SystemExit(f"status {response.status_code}: {response.content[:300]!r}")


def main() -> None:
    """Print a row for each request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="list the executed files")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["LETSGO_HOME"] = home
        os.environ["MEMORYHUB_ALLOWED_HOSTS"] = "testserver"
        os.environ["MEMORYHUB_INJECTION_DEADLINE_MS"] = "60000"  # the profiler makes everything slower
        os.environ["DJANGO_SETTINGS_MODULE"] = "memoryhub.settings"
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        print(f"{'request':32} files  functions  calls  SQL")
        for name, send in _requests().items():
            found = trace(send)
            counts = (len(found.files), len(found.calls), found.calls.total(), found.statements)
            print("{:32} {:5}  {:9}  {:5}  {:3}".format(name, *counts))
            if options.files:
                print(*(f"    {file}" for file in found.files), sep="\n")


if __name__ == "__main__":
    main()
