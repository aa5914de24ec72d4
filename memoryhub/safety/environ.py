"""A request of granian's RSGI interface in the words of WSGI (PEP 3333)."""

from __future__ import annotations

import sys
from typing import IO, Any

from granian.rsgi import Scope

UNREADABLE = "?"
_UNPREFIXED = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}
_ALWAYS = {
    "HTTP_HOST": "",  # of a request that names none, which is then refused
    "SCRIPT_NAME": "",
    "SERVER_SOFTWARE": "Granian",
    "wsgi.errors": sys.stderr,
    "wsgi.input_terminated": True,  # so that a body in chunks is read to its end
    "wsgi.multiprocess": True,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.version": (1, 0),
}


def environ_of(scope: Scope, body: IO[bytes]) -> dict[str, Any]:
    """The environment of the request, with ``body`` to be read."""
    server, port = _address(scope.server)
    client, client_port = _address(scope.client)
    return {
        **_ALWAYS,
        **_headers([*_unreadable(scope), *scope.headers.items()]),
        "PATH_INFO": _as_latin(scope.path),
        "QUERY_STRING": _as_latin(scope.query_string),
        "REMOTE_ADDR": client,
        "REMOTE_PORT": client_port,
        "REQUEST_METHOD": scope.method,
        "SERVER_NAME": server,
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": "HTTP/1.0" if scope.http_version == "1" else f"HTTP/{scope.http_version}",
        "wsgi.input": body,
        "wsgi.url_scheme": scope.scheme,
    }


def _unreadable(scope: Scope) -> list[tuple[str, str]]:
    """The headers that were sent, but not in ASCII: granian (2.8) gives their names alone.

    They must not pass for headers that nobody sent: without what a proxy says, its own address would count.
    """
    read = {name for name, _ in scope.headers.items()}
    return [(name, UNREADABLE) for name in set(scope.headers.keys()) - read]


def _headers(items: list[tuple[str, str]]) -> dict[str, str]:
    """Repeated ones are joined. A name with an underscore is left out: it would pass for another."""
    found: dict[str, str] = {}
    for name, value in items:
        if "_" in name:
            continue
        key = _UNPREFIXED.get(name) or f"HTTP_{name.upper().replace('-', '_')}"
        joint = ";" if name == "cookie" else ","
        found[key] = f"{found[key]}{joint}{value}" if key in found else value
    return found


def _address(said: str) -> tuple[str, str]:
    """``host:port`` or ``[host]:port`` as its parts."""
    host, _, port = said.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def _as_latin(text: str) -> str:
    """WSGI's texts are bytes, each as the character of its number."""
    return text.encode().decode("latin-1")
