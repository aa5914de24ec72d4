"""Where a form leads when it is done: back to the page it stood on, and never to another site."""

from __future__ import annotations

from django.http import HttpRequest, QueryDict
from django.utils.http import url_has_allowed_host_and_scheme


def return_url(
    request: HttpRequest,
    otherwise: str = "/memories/",
    within: str | tuple[str, ...] = "/",
    asked: QueryDict | None = None,
) -> str:
    """``next``, where it is a page of this hub whose path starts with ``within``.

    ``asked``: the fields that may name it, when these are not the form's.
    """
    wanted = (request.POST if asked is None else asked).get("next", "")
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if safe and wanted.startswith(within) else otherwise
