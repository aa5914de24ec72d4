"""Serve the hub from this process, whose clock is frozen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application

from memoryhub.maintenance.worker import Worker

HOST = "127.0.0.1"


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the browser reports failed requests."""


class _IdleWorker(Worker):
    """A worker that does nothing: pages show that one is running, but nothing changes between pictures."""

    def run(self) -> None:
        Event().wait()


@contextmanager
def serving() -> Iterator[int]:
    """Serve on a free port and yield the port."""
    with ThreadedWSGIServer((HOST, 0), _QuietHandler, allow_reuse_address=False) as server:
        server.set_app(get_wsgi_application())
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        _IdleWorker(dry_runs=False).start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
