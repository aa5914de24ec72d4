"""The digests of static files in their URLs, and the style sheets and scripts of a page in bundles."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.contrib.staticfiles import finders
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString


@lru_cache(maxsize=1024)
def file_digest(path: str) -> str:
    """Return a digest of a static file for its URL; empty if there is no such file."""
    found = finders.find(path)
    return hashlib.sha256(Path(str(found)).read_bytes()).hexdigest()[:10] if found else ""


_BUNDLE_NAME = re.compile(r"bundles/([a-z_-]{1,200})\.(css|js)")


class Feature(NamedTuple):
    """Names of files in ``static/css`` and ``static/js``, without their endings, in loading order."""

    styles: str = ""
    scripts: str = ""


FEATURES = {
    "base": Feature("base layout components forms text search print", "htmx hub"),
    "signed-in": Feature(scripts="keys"),
    "memory": Feature("memory timeline", "memory"),
    "lists": Feature("lists", "lists"),
    "live": Feature("lists", "idiomorph.min live"),
    "sessions": Feature("sessions"),
    "facts": Feature("facts"),
    "graph": Feature("facts", "graph"),
    "review": Feature("review", "review"),
    "settings": Feature("settings"),
    "statistics": Feature("statistics"),
}
_HTMX = "django_htmx/htmx-2.min.js"
_CSS_COMMENT = re.compile(rb"/\*.*?\*/\s*", re.DOTALL)


class Bundle(NamedTuple):
    """The bytes of a bundle and a digest of them."""

    body: bytes
    digest: str


def find_bundle(path: str) -> Bundle | None:
    """Return the bundle at ``path`` below the URL of static files; None if there is none."""
    match = _BUNDLE_NAME.fullmatch(path)
    if match is None or not set(names := match[1].split("_")) <= FEATURES.keys():
        return None
    return (_build if settings.DEBUG else _build_once)(tuple(names), match[2])


def render_bundle_tags(names: str) -> SafeString:
    """Return the elements that load the features ``names``, separated by spaces."""
    stylesheet = _bundle_url(names, "css")
    script = _bundle_url(names, "js")
    return format_html(
        "{}{}",
        format_html('<link rel="stylesheet" href="{}">', stylesheet) if stylesheet else "",
        format_html('<script src="{}" defer></script>', script) if script else "",
    )


def _bundle_url(names: str, kind: str) -> str:
    path = f"bundles/{'_'.join(names.split())}.{kind}"
    if (bundle := find_bundle(path)) is None:
        raise ValueError(f"{names!r} names a feature that FEATURES does not have")
    return f"{static(path)}?v={bundle.digest}" if bundle.body else ""


def _build(names: tuple[str, ...], kind: str) -> Bundle:
    lists = (FEATURES[name].styles if kind == "css" else FEATURES[name].scripts for name in names)
    paths = dict.fromkeys(f"{kind}/{file}.{kind}" for files in lists for file in files.split())
    body = b"\n".join(_read(_HTMX if path == "js/htmx.js" else path) for path in paths)
    return Bundle(body, hashlib.sha256(body).hexdigest()[:10])


_build_once = lru_cache(maxsize=256)(_build)


def _read(path: str) -> bytes:
    """Read a file: a sheet without its comments, that for paper as a rule of its medium."""
    body = Path(str(finders.find(path))).read_bytes()
    if path.endswith(".css"):
        body = _CSS_COMMENT.sub(b"", body)
    return b"@media print {\n" + body + b"}\n" if path == "css/print.css" else body
