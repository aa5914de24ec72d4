"""Helpers for tests of the review queue."""

from __future__ import annotations

from typing import Any

from django.test import Client

from memoryhub.access.policy import Actor, Clearance
from memoryhub.models import Memory
from tests.web.markup import Page

EVE = Actor("token:eve", Clearance.up_to("secret", owner="eve"))
HTMX = {"HTTP_HX_REQUEST": "true"}


def get_page(client: Client, address: str = "/review/?tab=new", **more: Any) -> str:
    response = client.get(address, **more)
    assert response.status_code == 200, response.status_code
    return response.content.decode()


def post_action(client: Client, action: str, memory: Memory, **more: Any) -> Any:
    headers = more.pop("headers", {})
    fields = {"act": action, "uid": memory.uid, "tab": "new", "next": "/review/?tab=new", **more}
    return client.post("/review/act/", fields, **headers)


def undo_fields(markup: str) -> dict[str, Any]:
    """Return the hidden fields of the undo form."""
    fields: dict[str, Any] = {"undo": []}
    for attributes in Page(markup).all("input"):
        name, value = attributes.get("name", ""), attributes.get("value", "")
        if name == "undo":
            fields["undo"].append(value)
        elif name in ("uid", "tab", "next"):
            fields[name] = value
    assert fields["undo"]
    return fields
