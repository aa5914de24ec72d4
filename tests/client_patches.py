"""Patches of the test client that save time: static files are found once, and few contexts are copied."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import django.test.client
from django.template import Context, Template
from django.test.utils import ContextList
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile


def _find_static_files_once(find: Callable[[WhiteNoiseMiddleware], None]) -> Callable[..., None]:
    """Cache the static files that whitenoise finds for the middleware of each client."""
    found: dict[str, StaticFile] = {}

    def add_files_from_finders(middleware: WhiteNoiseMiddleware) -> None:
        if not found:
            find(middleware)
            found.update(middleware.files)
        middleware.files.update(found)

    return add_files_from_finders


WhiteNoiseMiddleware.add_files_from_finders = _find_static_files_once(  # type: ignore[method-assign]
    WhiteNoiseMiddleware.add_files_from_finders
)


def _store_rendered_page(
    stored: dict[str, Any], sender: object, template: Template, context: Context, **_: object
) -> None:
    """Copy the context of a page for ``response.context``, but not of each of its includes and widgets."""
    if context.template is template and not (template.name or "").startswith("django/forms/"):
        stored.setdefault("templates", []).append(template)
        stored.setdefault("context", ContextList()).append(copy(context))


django.test.client.store_rendered_templates = _store_rendered_page
