"""The content pages are gone over by axe-core, light on a large screen and dark on a small one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.utils import timezone
from playwright.sync_api import Page

from memoryhub import facts, store
from memoryhub.drafts import EntityDraft, FactDraft, MemoryPatch
from memoryhub.models import Event, Memory, Session
from tests.browser.conftest import DESKTOP, PHONE

TEXT = """# Heading

A [link](https://a.example) and `code`, **bold**.

```python
a_long_line = "that has to be scrolled because it does not fit into the narrow column of a small screen"
```

| a | b |
|---|--:|
| 1 | 2 |

> quoted
"""
PATHS = [
    "/memories/{full}/",
    "/memories/{full}/history/",
    "/memories/{full}/edit/",
    "/memories/{full}/erase/",
    "/memories/{trashed}/",
    "/memories/{expired}/",
    "/memories/new/",
    "/sessions/twice/",
    "/sessions/twice/?project=p",
    "/sessions/twice/?project=p&kind=event&order=newest",
    "/timeline/?project=p",
    "/timeline/?month=never",
    "/timeline/entries/?project=p",
    "/timeline/entries/?since=never",
    "/facts/?add=1",
    "/facts/?min_confidence=2",
    "/journal/?operation=update",
    "/duplicates/",
    "/duplicates/?project=nowhere",
    "/duplicates/?similarity=2",
]


@pytest.fixture
def things(remember: Any, actor: Any) -> dict[str, str]:
    """A memory with everything, one in the trash, an expired one, a session in two projects."""
    place = {"session_id": "twice", "project": "p", "files_modified": ["a.py", "b/c.py"]}
    full = remember(
        TEXT,
        **place,
        title="A memory with everything",
        subtitle="and a subtitle",
        overview="an overview",
        tags=["one", "two"],
        concepts=["gotcha"],
        entities=[EntityDraft(entity="Ann", entity_type="person")],
        files_read=["d.py"],
        key="k",
    )
    store.update(
        full.uid, MemoryPatch(content=TEXT.replace("quoted", "said"), tags=["one"], trust=0.9), actor
    )
    facts.store_fact(FactDraft(subject="a", predicate="b", object="c", memory_id=full.uid), actor)
    remember("its neighbour", **place)
    remember("elsewhere", session_id="twice", project="q")
    part, trashed, expired = remember("a part of it"), remember("a broken chair"), remember("old milk")
    store.trash([part.uid, trashed.uid], actor)
    Memory.objects.filter(pk=part.pk).update(merged_into=full)
    store.expire([expired.uid], actor)
    session = Session.objects.get(session_id="twice", project="p")
    Session.objects.filter(pk=session.pk).update(
        summary=full, ended_at=timezone.now(), cwd="/home", agent="agent"
    )
    for n in range(3):
        at = timezone.now() - timedelta(minutes=n)
        Event.objects.create(
            session=session,
            event="tool:post",
            tool_name="Edit",
            at=at,
            boundary=n == 1,
            files=["a.py"],
            keywords=["key"],
            skip_reason="below threshold",
            memorability=0.2,
            preview="output",
        )
    return {"full": full.uid, "trashed": trashed.uid, "expired": expired.uid}


def complaints(page: Page) -> str:
    """What axe finds, with every fold of the page open; empty when there is nothing."""
    page.evaluate("for (const fold of document.querySelectorAll('main details')) fold.open = true")
    report: str = Axe().run(page).generate_report()
    return "" if report.startswith("Found 0") else f"{page.url}\n{report}"


@pytest.mark.parametrize(("theme", "viewport"), [("light", DESKTOP), ("dark", PHONE)], ids=["light", "dark"])
class TestAxe:
    RIGHTS = ("add_memory", "change_memory", "delete_memory", "erase_memory", "add_fact", "delete_fact")

    def test_it_finds_nothing_to_mend(
        self, open_page: Any, person: Any, watch: Any, things: dict[str, str], theme: str, viewport: Any
    ) -> None:
        watch.expect(422)
        page = open_page("/facts/", person("ada", *self.RIGHTS), color_scheme=theme, viewport=viewport)
        wrong = []
        for path in PATHS:
            page.goto(path.format(**things), wait_until="load")
            wrong.append(complaints(page))
        assert not any(wrong), "\n\n".join(filter(None, wrong))

    def test_nor_in_refusals_conflicts_and_verdicts(
        self, open_page: Any, person: Any, watch: Any, remember: Any, actor: Any, theme: str, viewport: Any
    ) -> None:
        watch.expect(409, 422)
        memory = remember("the first text", tags=["old"])
        page = open_page("/memories/new/", person("ada", *self.RIGHTS), color_scheme=theme, viewport=viewport)
        page.get_by_label("Importance").fill("7")
        page.get_by_role("button", name="Store").click()
        wrong = [complaints(page)]
        page.goto(f"/memories/{memory.uid}/edit/")
        store.update(memory.uid, MemoryPatch(content="the second text", tags=["new"]), actor)
        page.get_by_label("Content").fill("the third text")
        page.get_by_label("Tags").fill("newer")
        page.get_by_role("button", name="Save").click()
        wrong.append(complaints(page))
        page.goto(f"/memories/{memory.uid}/")
        page.get_by_role("button", name="Move to trash").click()
        wrong.append(complaints(page))
        page.goto("/journal/")
        page.get_by_role("button", name="Verify the chain").click()
        page.get_by_text("The chain is whole.").wait_for()
        wrong.append(complaints(page))
        assert not any(wrong), "\n\n".join(filter(None, wrong))
