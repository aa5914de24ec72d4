"""Two small proxies: one stalls or cuts connections to a database, one distributes requests over nodes."""

from __future__ import annotations

import http.client
import itertools
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HEALTH_SECONDS = 1.0  # between two checks of a node
PATIENCE = 120  # seconds for an answer: a busy machine takes its time
_COMMIT = b"COMMIT\0"  # the statement in the protocol of PostgreSQL
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


@dataclass
class Cut:
    """A commit that a proxy cuts off: that of the next connection that has sent ``text`` before.

    ``is_committed``: PostgreSQL commits and its answer is lost; otherwise it never gets the commit.
    ``reached``: set when the connection is cut.
    """

    text: str
    is_committed: bool
    reached: threading.Event = field(default_factory=threading.Event)


class _Conversation:
    """What passes on one connection to PostgreSQL, until a commit is cut off."""

    def __init__(self, proxy: StallingProxy) -> None:
        self._proxy, self._sent = proxy, b""  # since the last commit
        self._cut: Cut | None = None

    def passes_request(self, content: bytes) -> bool:
        """Return whether the proxy forwards what the client has sent."""
        self._sent += content
        if _COMMIT not in content:
            return True
        cut, sent = self._proxy.cut, self._sent
        self._sent = b""
        if cut is None or cut.text.encode() not in sent:
            return True
        self._cut, self._proxy.cut = cut, None
        if not cut.is_committed:
            cut.reached.set()
        return cut.is_committed

    def passes_answer(self, content: bytes) -> bool:
        """Return whether the proxy forwards what PostgreSQL has answered."""
        if self._cut is None:
            return True
        self._cut.reached.set()
        return False


class StallingProxy:
    """Forwards TCP connections to a Unix socket. While it stalls, nothing passes and nothing is closed.

    ``cut``: the commit that it cuts off next.
    """

    def __init__(self, target: Path) -> None:
        self.cut: Cut | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.move(target)
        threading.Thread(target=self._accept, daemon=True).start()

    def move(self, target: Path) -> None:
        """Forward new connections to another socket. Stalled connections never resume."""
        self._target, self._flows = str(target), threading.Event()
        self._flows.set()

    def stall(self) -> None:
        self._flows.clear()

    def resume(self) -> None:
        self._flows.set()

    def close(self) -> None:
        self._flows.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts

    def _accept(self) -> None:
        with self._listener, suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                arguments = (client, self._target, self._flows)
                threading.Thread(target=self._connect, args=arguments, daemon=True).start()

    def _connect(self, client: socket.socket, target: str, flows: threading.Event) -> None:
        flows.wait()
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(target)
            talk = _Conversation(self)
            arguments = (server, client, flows, talk.passes_answer)
            back = threading.Thread(target=self._copy, args=arguments, daemon=True)
            back.start()
            self._copy(client, server, flows, talk.passes_request)
            back.join()

    def _copy(
        self,
        source: socket.socket,
        sink: socket.socket,
        flows: threading.Event,
        passes: Callable[[bytes], bool],
    ) -> None:
        with suppress(OSError):
            while (content := source.recv(65_536)) and passes(content):
                flows.wait()
                sink.sendall(content)
        flows.wait()
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: a browser closes connections before it has read the answers."""


class BalancingProxy:
    """Sends each request to the next node whose ``/readyz`` answers 200.

    A request that could not be sent goes to another node. One that may have been executed gets 502.
    """

    def __init__(self, ports: Sequence[int], port: int = 0) -> None:
        self.ready = dict.fromkeys(ports, False)
        self.cut_off = 0  # requests that may have been executed, and got no answer
        self._turns = itertools.count()
        self._server = _QuietServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        for one in ports:
            threading.Thread(target=self._check, args=(one,), daemon=True).start()
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _check(self, port: int) -> None:
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            try:
                connection.request("GET", "/readyz")
                self.ready[port] = connection.getresponse().status == 200
            except (OSError, http.client.HTTPException):
                self.ready[port] = False
            finally:
                connection.close()
            time.sleep(HEALTH_SECONDS)

    def choose(self) -> int | None:
        """Return the port of the next node that is ready."""
        ports = [port for port, is_ready in self.ready.items() if is_ready]
        return ports[next(self._turns) % len(ports)] if ports else None

    def forward(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Return status, headers and body of a node's answer."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            port = self.choose()
            if port is None:
                time.sleep(0.1)
                continue
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            try:
                connection.connect()
            except OSError:
                self.ready[port] = False
                continue
            try:
                connection.request(method, path, body or None, headers)
                response = connection.getresponse()
                return response.status, response.getheaders(), response.read()
            except (OSError, http.client.HTTPException):
                self.ready[port] = False
                if method not in ("GET", "HEAD"):
                    self.cut_off += 1
                    return 502, [], b""
            finally:
                connection.close()
        return 503, [("Retry-After", "1")], b""

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                sent = {
                    name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP
                }
                status, headers, content = proxy.forward(self.command, self.path, body, sent)
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() not in _HOP_BY_HOP:
                        self.send_header(name, value)
                if status not in (204, 304):
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _answer

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        return Handler
