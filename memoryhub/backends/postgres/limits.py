"""A connection to PostgreSQL that gives up on a server that does not answer."""

from __future__ import annotations

import time
from typing import Any

import psycopg
from django.db import connections
from psycopg.abc import PQGen
from psycopg.waiting import Ready

from memoryhub.core.database import answer_limit


class LimitedConnection(psycopg.Connection[Any]):
    """Closes itself if the answer takes longer than the request may wait.

    The server cancels statements that take too long, but no answer comes if the network stalls.
    """

    def wait(self, gen: PQGen[Any], *arguments: Any, **options: Any) -> Any:
        seconds = answer_limit()
        return super().wait(self._limit(gen, seconds) if seconds else gen, *arguments, **options)

    def _limit(self, gen: PQGen[Any], seconds: float) -> PQGen[Any]:
        until = time.monotonic() + seconds
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready == Ready.NONE and time.monotonic() > until:  # several times a second
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the database did not answer within {seconds:.0f} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


def limit_connections() -> None:
    """Use this class for the connections of the pools."""
    for one in connections.all():
        one.settings_dict["OPTIONS"]["pool"]["connection_class"] = LimitedConnection
