"""Who sends slowly holds up nobody else."""

from __future__ import annotations

import threading
from contextlib import suppress
from io import BytesIO

import pytest

from memoryhub.safety.slow_clients import MOST, BodyFirst


def echo(environ, start_response):
    """An application that answers with the body it was sent, and its own thread's name."""
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("X-Thread", threading.current_thread().name)])
    return [body]


class Stuck:
    """A body that never comes, until the client is gone."""

    def __init__(self):
        self.gone = threading.Event()

    def read(self, size=-1):
        assert self.gone.wait(30)
        raise OSError("the client is gone")


@pytest.fixture
def stuck():
    one = Stuck()
    yield one
    one.gone.set()


def ask(application, body, **environ):
    told = []
    answer = application({"wsgi.input": body, **environ}, lambda *said: told.extend(said))
    return told[0], b"".join(answer), dict(told[1])


def _let_go(application, body, **environ):
    with suppress(OSError):
        ask(application, body, **environ)


def test_a_body_comes_through_whole():
    for size in (0, 1, 1000, MOST - 1, MOST, MOST + 1, 3 * MOST):
        sent = bytes(size % 251 for size in range(min(size, 1000))) * (size // 1000 or 1)
        status, got, _ = ask(BodyFirst(echo, 1), BytesIO(sent), CONTENT_LENGTH=str(len(sent)))
        assert (status, got) == ("200 OK", sent)


def test_a_body_in_chunks_comes_through_whole():
    sent = b"chunk " * 400_000
    assert ask(BodyFirst(echo, 1), BytesIO(sent), HTTP_TRANSFER_ENCODING="chunked")[1] == sent


def test_lines_of_a_body_are_lines():
    def lines(environ, start_response):
        start_response("200 OK", [])
        return [line.upper() for line in environ["wsgi.input"]]

    assert ask(BodyFirst(lines, 1), BytesIO(b"one\ntwo\nthree"), CONTENT_LENGTH="13")[1] == b"ONE\nTWO\nTHREE"


class Slow(BytesIO):
    """A body of which a little comes at a time; knows whether anybody is reading it."""

    is_read = False

    def read(self, size=-1):
        self.is_read = True
        piece = super().read(min(size, 10))
        self.is_read = False
        return piece


def test_a_body_that_comes_too_slowly_is_408_and_nobody_reads_it_then():
    body = Slow(bytes(100))
    status, answer, headers = ask(BodyFirst(echo, 1, seconds=0), body, CONTENT_LENGTH="100")
    assert status == "408 Request Timeout"
    assert b"too_slow" in answer
    assert headers["Content-Type"] == "application/problem+json"
    assert not body.is_read
    assert body.tell() < 100


def test_a_body_that_has_come_is_never_too_late():
    body = Slow(bytes(10))
    assert ask(BodyFirst(echo, 1, seconds=0), body, CONTENT_LENGTH="10")[1] == bytes(10)


def test_a_client_that_sends_nothing_holds_up_no_other(stuck):
    application = BodyFirst(echo, 1)
    told = {"CONTENT_LENGTH": "9"}
    waiting = [threading.Thread(target=_let_go, args=(application, stuck), kwargs=told) for _ in range(8)]
    for thread in waiting:
        thread.start()
    assert ask(application, BytesIO())[0] == "200 OK"
    assert ask(application, BytesIO(b"hay"), CONTENT_LENGTH="3")[1] == b"hay"
    assert all(thread.is_alive() for thread in waiting)


def test_a_body_that_breaks_off_is_told_to_who_reads_it(stuck):
    stuck.gone.set()
    with pytest.raises(OSError, match="gone"):
        ask(BodyFirst(echo, 1), stuck, CONTENT_LENGTH="100")


def test_few_threads_work_whoever_asks():
    application = BodyFirst(echo, 2)
    names = {ask(application, BytesIO())[2]["X-Thread"] for _ in range(10)}
    assert names <= {"working_0", "working_1"}


def test_what_an_application_raises_is_raised():
    def broken(environ, start_response):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask(BodyFirst(broken, 1), BytesIO())


def test_the_thread_that_gave_the_answer_away_keeps_nothing():
    told = []

    class Pieces:
        def __iter__(self):
            told.append("pieces")
            return iter([b"one", b"two"])

        def close(self):
            told.append("closed")

    def in_pieces(environ, start_response):
        start_response("200 OK", [])
        return Pieces()

    answer = BodyFirst(in_pieces, 1, leave=lambda: told.append("left"))(
        {"wsgi.input": BytesIO()}, lambda *said: None
    )
    assert b"".join(answer) == b"onetwo"
    answer.close()
    assert told == ["pieces", "closed", "left"]
