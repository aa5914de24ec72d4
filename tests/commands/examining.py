"""What the tests of ``doctor`` do again and again: fill a store, and look at one check."""

from __future__ import annotations

from memoryhub import doctor, store
from memoryhub.doctor.registry import Check, Finding
from memoryhub.drafts import MemoryDraft
from memoryhub.models import Memory
from memoryhub.sensitivity import Actor, Clearance

WRITER = Actor("token:writer", Clearance.up_to("secret", "ada"))


def remember(content: str = "words", **fields: object) -> Memory:
    return store.remember(MemoryDraft(content=content, **fields), WRITER).memory


def look(one: Check) -> Finding:
    """The only finding of a check."""
    [found] = one.findings()
    return found


def look_first(name: str) -> Finding:
    return named(name).findings()[0]


def named(name: str) -> Check:
    return next(one for one in doctor.CHECKS if one.name == name)
