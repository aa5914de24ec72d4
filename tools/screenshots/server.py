"""The hub, served to one browser out of this process, where the clock stands still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application

from memoryhub.maintenance.worker import Worker

HOST = "127.0.0.1"


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """What was asked for is not told; an error of a page shows in its picture and stops the command."""


class _Idle(Worker):
    """A worker that waits: pages tell that there is one, and nothing changes between two pictures."""

    def run(self) -> None:
        Event().wait()


@contextmanager
def serving() -> Iterator[int]:
    """Serve at a free port, which is given; ended at the end."""
    with ThreadedWSGIServer((HOST, 0), _Quiet, allow_reuse_address=False) as server:
        server.set_app(get_wsgi_application())
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        _Idle(dry_runs=False).start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
