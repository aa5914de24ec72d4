"""JSON on the wire: bodies are read strictly, answers are written once and without validation.

Views return what :func:`answer` makes, so that the response schemas of the OpenAPI description cost nothing
when a request is served; the contract tests hold the two together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from django.http import HttpRequest, HttpResponse
from ninja.parser import Parser

from memoryhub.core.claude_code import HOOK_PATH
from memoryhub.http.problems import Problem

_JSON_TYPE = re.compile(r"application/(?:[\w.!#$&^-]+\+)?json")
# Half of a UTF-16 pair: JSON can spell one alone, text cannot hold it.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class InvalidJson(ValueError):
    """The body is not JSON, or is JSON that no text can stand for."""


class StrictParser(Parser):
    """UTF-8 JSON only: no NaN, no name twice in one object, no lone surrogates, no bottomless nesting.

    Claude Code cuts a long output between the halves of a pair, and no one can tell it to mend that: of its
    hooks a half is read as U+FFFD.
    """

    def parse_body(self, request: HttpRequest) -> Any:
        require_json(request)
        try:
            return parse_json(request.body, halves=request.path_info == HOOK_PATH)
        except InvalidJson as error:
            raise Problem(400, "not_json", str(error)) from None


def parse_json(body: bytes, *, halves: bool = False) -> Any:
    """Decode a body; :class:`NotJson` says what is wrong, by position and not by content.

    ``halves``: half of a surrogate pair is replaced, not refused.
    """
    try:
        text = body.decode("utf-8")
        data = _DECODER.decode(text)
        if _SURROGATE.search(text):
            told = json.dumps(data, ensure_ascii=False)
            if halves:
                return json.loads(told.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
            told.encode("utf-8")
    except InvalidJson:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise InvalidJson(f"the body is not JSON: {error.msg} at {where}") from None
    except UnicodeDecodeError as error:
        raise InvalidJson(f"the body is not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise InvalidJson("the body holds half of a surrogate pair, which is no character") from None
    except RecursionError:
        raise InvalidJson("the body is nested too deep") from None
    except ValueError:
        raise InvalidJson("the body holds a number with too many digits") from None
    return data


def require_json(request: HttpRequest) -> None:
    """415 for a body that is not said to be JSON in UTF-8, or that is compressed: it may be of any size."""
    if request.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise Problem(415, "unsupported_encoding", "send the body as it is, without Content-Encoding")
    charset = (request.content_params or {}).get("charset", "utf-8").lower()
    if not _JSON_TYPE.fullmatch(request.content_type or "") or charset not in ("utf-8", "utf8"):
        detail = "send the body as JSON in UTF-8, with Content-Type: application/json"
        raise Problem(415, "unsupported_media_type", detail)


def _reject_constant(_: str) -> NoReturn:
    raise InvalidJson("the body is not JSON: NaN and Infinity are no numbers of JSON")


def _reject_duplicate_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise InvalidJson(
            "the body has an object that holds a name twice; which value is meant cannot be told"
        )
    return made


_DECODER = json.JSONDecoder(object_pairs_hook=_reject_duplicate_names, parse_constant=_reject_constant)


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """A JSON response in UTF-8."""
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return HttpResponse(body, status=status, content_type="application/json", headers=dict(headers or {}))
