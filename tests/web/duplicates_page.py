"""Helpers for tests of the near-duplicates page: submit its form and read its cards."""

from __future__ import annotations

from typing import Any

from memoryhub.models import Memory
from tests.web.markup import Page

DUPLICATE_TEXT = "The build cache lives on the runner and is emptied every night"
CURATOR_PERMISSIONS = ("change_memory", "delete_memory")
HTMX = {"HX-Request": "true"}


def cluster_form(memories: list[Memory], **more: Any) -> dict[str, Any]:
    """Return the form data that merges the others into the first memory."""
    uids = [memory.uid for memory in memories]
    seen = [f"{memory.uid} {memory.updated_at.isoformat()}" for memory in memories]
    return {"keep": uids[0], "uid": uids[1:], "member": uids, "seen": seen, "do": "merge", **more}


def trashed_uids() -> set[str]:
    return set(Memory.objects.trashed().values_list("uid", flat=True))


def ticked_uids(response: Any) -> set[str]:
    """Return the ids of the ticked memories."""
    boxes = Page(response.content.decode().partition("</main>")[0]).all("input")
    return {a["value"] for a in boxes if a.get("type") == "checkbox" and "checked" in a}


def initial_text_digest(response: Any) -> str:
    """Return the digest of the suggested text."""
    [mark] = [a["value"] for a in Page(response.content.decode()).all("input") if a.get("name") == "begun"]
    return str(mark)


def undo_fields(response: Any) -> dict[str, Any]:
    """Return the fields of the undo button."""
    fields = [a for a in Page(response.content.decode()).all("input") if a.get("type") == "hidden"]
    found: dict[str, Any] = {"member": []}
    for field in fields:
        if field["name"] == "member":
            found["member"].append(field["value"])
        elif field["name"] in ("merge", "apart", "next"):
            found.setdefault(field["name"], field["value"])
    return found
