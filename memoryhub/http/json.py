"""JSON over HTTP: a strict parser for request bodies, and responses that are not validated.

Views return :func:`json_response`, so the response schemas of the OpenAPI document cost nothing at run
time. Contract tests check that responses match them.
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
# Half of a UTF-16 surrogate pair: JSON can contain one alone, valid text cannot.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class InvalidJson(ValueError):
    """The body is not JSON, or contains text that is not valid Unicode."""


class StrictParser(Parser):
    """Accepts UTF-8 JSON only: no NaN, duplicate names, lone surrogates or excessive nesting.

    Claude Code truncates long outputs in the middle of a surrogate pair, so its hooks get U+FFFD instead
    of an error.
    """

    def parse_body(self, request: HttpRequest) -> Any:
        require_json(request)
        try:
            return parse_json(request.body, replace_surrogates=request.path_info == HOOK_PATH)
        except InvalidJson as error:
            raise Problem(400, "not_json", str(error)) from None


def parse_json(body: bytes, *, replace_surrogates: bool = False) -> Any:
    """Decode a body. :class:`InvalidJson` gives the position of an error, never the content.

    ``replace_surrogates``: replace half of a surrogate pair instead of refusing it.
    """
    try:
        text = body.decode("utf-8")
        data = _DECODER.decode(text)
        if _SURROGATE.search(text):
            decoded = json.dumps(data, ensure_ascii=False)
            if replace_surrogates:
                return json.loads(decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
            decoded.encode("utf-8")
    except InvalidJson:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise InvalidJson(f"the body is not JSON: {error.msg} at {where}") from None
    except UnicodeDecodeError as error:
        raise InvalidJson(f"the body is not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise InvalidJson("the body contains half of a surrogate pair, which is not a character") from None
    except RecursionError:
        raise InvalidJson("the body is nested too deep") from None
    except ValueError:
        raise InvalidJson("the body contains a number with too many digits") from None
    return data


def require_json(request: HttpRequest) -> None:
    """Raise 415 unless the body is declared as JSON in UTF-8 and not compressed.

    The size of a compressed body is not known before it is unpacked.
    """
    if request.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise Problem(415, "unsupported_encoding", "send the body as it is, without Content-Encoding")
    charset = (request.content_params or {}).get("charset", "utf-8").lower()
    if not _JSON_TYPE.fullmatch(request.content_type or "") or charset not in ("utf-8", "utf8"):
        detail = "send the body as JSON in UTF-8, with Content-Type: application/json"
        raise Problem(415, "unsupported_media_type", detail)


def _reject_constant(_: str) -> NoReturn:
    raise InvalidJson("the body is not JSON: JSON has no NaN or Infinity")


def _reject_duplicate_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise InvalidJson("the body has an object with the same name twice, so its value is ambiguous")
    return result


_DECODER = json.JSONDecoder(object_pairs_hook=_reject_duplicate_names, parse_constant=_reject_constant)


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return HttpResponse(body, status=status, content_type="application/json", headers=dict(headers or {}))
