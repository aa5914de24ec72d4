"""From bytes to a message's JSON, as strictly as the API reads its bodies."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from memoryhub.agents.api.wire import NotJson, parse
from memoryhub.agents.mcp.messages import PARSE_ERROR, Id, RpcError, id_of


def decode(raw: bytes) -> Any:
    """What came; RpcError when it is no JSON that can be used.

    Half of a surrogate pair, which a model's text may hold and nobody can mend, is read as U+FFFD.
    """
    try:
        return parse(raw, halves=True)
    except NotJson as problem:
        raise RpcError(PARSE_ERROR, str(problem), id=id_in(raw)) from None


def id_in(raw: bytes) -> Id | None:
    """Whose error it is: a client that cannot tell waits for its answer until it gives up."""
    with suppress(ValueError, RecursionError):
        return id_of(json.loads(raw))
    return None
