"""Helpers for tests of the statistics page: its text, and events to count."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils import timezone

from memoryhub.models import Event, FileLink, Injection, Memory, Session


def text_of(markup: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", markup.replace("<wbr>", "")).split())


def table_row(client: Client, name: str, address: str = "/glance/") -> str:
    """Return the text of the table row that starts with this name."""
    page = client.get(address).content.decode()
    rows = [text_of(one) for one in re.findall(r"<tr>(.*?)</tr>", page, re.S)]
    return next((one for one in rows if one.startswith(name)), f"no row {name} in {rows}")


def section_text(client: Client, heading: str, address: str = "/glance/") -> str:
    """Return the text between a heading and the next one."""
    page = client.get(address).content.decode()
    found = re.search(rf"<h[23][^>]*>{heading}</h[23]>(.*?)(<h[23]|</main>)", page, re.S)
    return text_of(found[1]) if found else f"no part {heading}"


def create_event(
    level: str = "public", memory: Memory | None = None, reason: str = "", days: int = 0
) -> Event:
    session, _ = Session.objects.get_or_create(session_id="s", project="zoo")
    at = timezone.now() - timedelta(days=days)
    fields: Any = {"sensitivity": level, "memory": memory, "skip_reason": reason, "at": at}
    return Event.objects.create(session=session, event="tool:post", **fields)


def create_injection(level: str = "public", shown: int = 1, days: int = 0) -> Injection:
    fields: Any = {"injected": [{"id": str(n)} for n in range(shown)], "withheld": [{"id": "x"}]}
    at = timezone.now() - timedelta(days=days)
    return Injection.objects.create(project="zoo", sensitivity=level, at=at, **fields)


def set_age(memory: Memory, days: int, **fields: Any) -> None:
    then = timezone.now() - timedelta(days=days)
    Memory.objects.filter(pk=memory.pk).update(created_at=then, updated_at=then, **fields)


def link_file(memory: Memory) -> None:
    FileLink.objects.create(memory=memory, access="read", path="src/a.py", basename="a.py")


def count_listed(client: Client, address: str) -> int:
    """Return the number of memories in the list at a URL."""
    page_text = text_of(client.get(address.replace("&amp;", "&")).content.decode())
    found = re.search(r"(\d+) memor(?:y|ies) Sort", page_text)
    return int(found[1]) if found else 0
