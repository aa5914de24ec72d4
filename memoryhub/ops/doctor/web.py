"""Web checks: hosts, HTTPS, static files, and Django's system checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.checks import run_checks

from memoryhub.ops.doctor.registry import Finding, check, fail, of_messages, ok, warn

_STATIC = re.compile(r"""{%\s*static\s+["']([^"']+)["']""")
ALWAYS_NEEDED = ("admin/css/base.css", "django_htmx/htmx-2.min.js")


@check("hosts")
def hosts() -> Iterator[Finding]:
    hosts = set(settings.ALLOWED_HOSTS)
    beyond = sorted(hosts - set(settings.LOOPBACK_HOSTS))
    found = []
    if settings.DEBUG and beyond:
        found.append(
            fail("MEMORYHUB_DEBUG shows secrets to anyone who provokes an error", "Unset MEMORYHUB_DEBUG.")
        )
    if "*" in hosts:
        found.append(warn("any host name is answered", "Name the hosts in MEMORYHUB_ALLOWED_HOSTS."))
    if beyond and not settings.HTTPS:
        found.append(
            warn(
                f"{', '.join(beyond)}: passwords and tokens travel without encryption",
                "Put a proxy with TLS in front; set MEMORYHUB_HTTPS=true and MEMORYHUB_BEHIND_PROXY=true.",
            )
        )
    if settings.BEHIND_PROXY and not settings.HTTPS:
        found.append(
            warn("MEMORYHUB_BEHIND_PROXY without MEMORYHUB_HTTPS does nothing", "Set both or neither.")
        )
    yield from found or [ok(", ".join(sorted(hosts)) + (" over HTTPS" if settings.HTTPS else ""))]


@check("static files")
def static_files() -> Iterator[Finding]:
    named = {*ALWAYS_NEEDED, *_named_in_templates()}
    missing = sorted(name for name in named if not finders.find(name))
    for name in missing:
        yield fail(f"{name} is not found: pages look broken", "Install memoryhub and its requirements again.")
    if not missing:
        yield ok(f"all {len(named)} found")


def _named_in_templates() -> set[str]:
    pages = Path(settings.BASE_DIR, "templates").rglob("*.html")
    return {name for page in pages for name in _STATIC.findall(page.read_text("utf-8"))}


@check("system checks")
def system_checks() -> Iterator[Finding]:
    # The checks of memoryhub run above.
    others = [message for message in run_checks() if not (message.id or "").startswith("memoryhub.")]
    yield from list(of_messages(others)) or [ok("Django has no complaint")]
