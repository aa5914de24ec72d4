"""A memory as a plain text, to be copied: by a script from its page, by hand where none runs."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from memoryhub.web import copies, reading
from memoryhub.web.access import reveal

# Markdown goes out as plain text: a browser shows it and runs nothing in it.
FORMS = {
    "markdown": (copies.as_markdown, "text/plain; charset=utf-8"),
    "json": (copies.as_json, "application/json"),
}


@require_safe
def memory_as(request: HttpRequest, uid: str, form: str) -> HttpResponse:
    """``form`` is one of :data:`FORMS`; opening a secret is journaled, as on its page."""
    if form not in FORMS:
        raise Http404
    found = reading.find(request, uid)
    write, content_type = FORMS[form]
    text = write(found)
    if reading.is_secret(found.sensitivity):
        reveal(request, found, form)
    return HttpResponse(text, content_type=content_type)
