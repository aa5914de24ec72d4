"""An SMTP server on loopback that keeps what it is sent, and refuses on demand."""

from __future__ import annotations

import email
import email.policy
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage


class _Session(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self.say("220 ready")
        while line := self.rfile.readline():
            verb = line.split(b":")[0].split()[0].upper().decode() if line.split() else ""
            if answer := self.server.refusals.get(verb):
                self.say(answer)
            elif verb == "DATA":
                self._receive()
            elif verb == "EHLO":
                self.say("250-here")
                self.say("250 AUTH PLAIN")
            else:
                self.say("221 bye" if verb == "QUIT" else "235 in" if verb == "AUTH" else "250 ok")
            if verb == "QUIT":
                return

    def _receive(self) -> None:
        self.say("354 go on")
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        found = email.message_from_bytes(b"".join(lines), policy=email.policy.default)
        assert isinstance(found, EmailMessage)
        self.server.received.append(found)
        self.say("250 taken")

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class MailServer(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.received: list[EmailMessage] = []
        self.refusals: dict[str, str] = {}

    @property
    def port(self) -> int:
        return int(self.server_address[1])


@contextmanager
def serving() -> Iterator[MailServer]:
    with MailServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
