"""A small application behind ``RequestBuffer`` for granian; it reports its state."""

from __future__ import annotations

import json
import os
import threading
import time

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from memoryhub.http.rsgi import RequestBuffer  # noqa: E402 needs Django

SECONDS = float(os.environ.get("SECONDS", 0))  # body timeout and client read timeout
PIECE = b"0123456789abcdef" * 4096

counts = {"made": 0, "closed": 0, "left": 0, "working": 0}


class InPieces:
    """A response like Django's StreamingHttpResponse."""

    streaming = True

    def __init__(self, number: int, fails: bool = False) -> None:
        self.number, self.fails = number, fails

    def __iter__(self):
        for _ in range(self.number):
            counts["made"] += len(PIECE)
            yield PIECE
        if self.fails:
            raise ZeroDivisionError

    def close(self) -> None:
        counts["closed"] += 1


def state(environ):
    return [json.dumps({**counts, "threads": threading.active_count()}).encode()]


def echo(environ):
    return [environ["wsgi.input"].read()]


def lines(environ):
    return [line.upper() for line in environ["wsgi.input"]]


def words(environ):
    return [json.dumps({name: value for name, value in environ.items() if isinstance(value, str)}).encode()]


def pieces(environ):
    return InPieces(int(environ["QUERY_STRING"]))


def failing(environ):
    return InPieces(int(environ["QUERY_STRING"]), fails=True)


def patiently(environ):
    counts["working"] += 1
    time.sleep(0.5)
    return [b"done"]


def unread(environ):
    return [b"not read"]


def broken(environ):
    raise ZeroDivisionError


def application_for_tests(environ, start_response):
    answer = globals()[environ["PATH_INFO"].strip("/").partition("/")[0]](environ)
    start_response("200 OK", [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
    return answer


def leave() -> None:
    counts["left"] += 1


application = RequestBuffer(application_for_tests, 2, SECONDS, SECONDS, leave)
