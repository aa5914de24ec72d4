"""A commit that takes another back: its memory stands for the other's from then on."""

from __future__ import annotations

from memoryhub import store
from memoryhub.encoding.naming import reverted, title_of
from memoryhub.models import Memory
from memoryhub.sensitivity import Actor


def retracted_by(text: str, project: str, tag: str, actor: Actor) -> Memory | None:
    """The memory of the commit that this one takes back, if it formed by itself and is still there."""
    what = reverted(text)
    if not what:
        return None
    told = Memory.objects.visible_to(actor.clearance).live().filter(project=project, title=title_of(what))
    return told.filter(labels__kind="tag", labels__value=tag).order_by("-created_at").first()


def files_of(memory: Memory) -> list[str]:
    """The files that the commit had changed, and that are as they were again."""
    return list(memory.files.filter(access="modified").order_by("pk").values_list("path", flat=True))


def retract(old: Memory, new: Memory, actor: Actor) -> None:
    """The old memory goes to the trash, with a note where it went; ``store.restore`` undoes it."""
    store.merge_into(new, [old.uid], actor)
