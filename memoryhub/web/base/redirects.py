"""Safe redirect targets after a form submission."""

from __future__ import annotations

from django.http import HttpRequest, QueryDict
from django.utils.http import url_has_allowed_host_and_scheme


def return_url(
    request: HttpRequest,
    default: str = "/memories/",
    prefix: str | tuple[str, ...] = "/",
    fields: QueryDict | None = None,
) -> str:
    """Return the field ``next`` if it is a URL of this host that starts with ``prefix``, else the default.

    ``fields`` replaces the submitted form.
    """
    target = (request.POST if fields is None else fields).get("next", "")
    is_safe = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
    return target if is_safe and target.startswith(prefix) else default
