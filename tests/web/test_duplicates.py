"""The page of near-duplicates, including parts of one profile, and its visibility."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub.models import JournalEntry, Memory
from memoryhub.web.duplicates import presenters, views
from memoryhub.web.duplicates.presenters import MAX_UNITED_LINES, unite_texts
from tests.cases import each
from tests.web.duplicates_page import (
    CURATOR_PERMISSIONS,
    DUPLICATE_TEXT,
    HTMX,
    cluster_form,
    ticked_uids,
    trashed_uids,
)
from tests.web.markup import Page, main
from tests.web.review_page import get_page

Remember = Callable[..., Memory]
pytestmark = pytest.mark.usefixtures("embedding")


class TestPage:
    def test_cluster_shows_the_kept_memory_its_reason_and_differences(
        self, curator: Client, alike: list[Memory]
    ) -> None:
        shown = main(curator.get("/duplicates/"))
        assert "Kept: it has the longest text." in shown.words
        assert "1 cluster among 2 memories" in shown.words
        assert [a["value"] for a in shown.all("input") if a.get("name") == "keep" and "checked" in a] == [
            alike[0].uid
        ]
        assert "mark" in {name for name, _ in shown.elements}

    def test_merge_shows_no_keys(self, curator: Client, alike: list[Memory]) -> None:
        Memory.objects.filter(pk=alike[0].pk).update(key="session-summary:0dcb")
        shown = main(curator.get(f"/review/cards/{alike[0].uid}/merge/")).words
        assert "Merge selected" in shown
        assert "session-summary:" not in shown

    def test_different_numbers_are_highlighted(self, curator: Client, remember: Remember) -> None:
        remember("Upgrade the parser from 1.2 to 1.3"), remember("Upgrade the parser from 1.2 to 1.4")
        assert (
            "Check before merging: only one of the two contains 3, 4"
            in main(curator.get("/duplicates/")).words
        )

    def test_member_with_different_numbers_is_not_ticked(
        self, curator: Client, alike: list[Memory], remember: Remember
    ) -> None:
        remember(f"{DUPLICATE_TEXT} at 2", project="p")
        response = curator.get("/duplicates/")
        assert len(main(response).all("article")) == 1
        assert ticked_uids(response) == {alike[1].uid}

    def test_long_texts_of_short_lines_are_united_quickly(self) -> None:
        one, other = ("\n".join(f"{n * step} {n + step}" for n in range(8000)) for step in (7, 11))
        start = process_time()
        text = unite_texts(one, [other])
        assert process_time() - start < 10
        assert text.count("\n") <= 8000 + MAX_UNITED_LINES

    @pytest.mark.parametrize(("count", "cut"), [(MAX_UNITED_LINES, False), (MAX_UNITED_LINES + 1, True)])
    def test_omitted_lines_of_the_suggested_text_are_reported(
        self, curator: Client, alike: list[Memory], count: int, cut: bool
    ) -> None:
        lines = "\n".join(f"line {n}" for n in range(count))
        Memory.objects.filter(pk=alike[1].pk).update(content=lines)
        card = curator.post("/duplicates/cluster/", cluster_form(alike), headers=HTMX)
        assert ("shortened, because there are very many lines" in Page(card.content.decode()).words) is cut

    def test_united_text_contains_each_line_once_and_no_subset(self) -> None:
        others = ["one line\nof the first", "A line, another\n\nA line, another  \nanother"]
        assert unite_texts("one line\nthe first of all\n", others) == (
            "one line\nthe first of all\nA line, another"
        )

    def test_buttons_are_hidden_without_permission(self, visitor: Client, alike: list[Memory]) -> None:
        shown = main(visitor.get("/duplicates/"))
        assert alike[0].uid in str(shown.links())
        assert not [a for a in shown.all("button") if a.get("name") == "do"]
        assert not [a for a in shown.all("input") if a.get("type") == "radio"]

    def test_filters_by_project_and_similarity(
        self, curator: Client, alike: list[Memory], remember: Remember
    ) -> None:
        other = [remember(f"Trains run late in winter{end}", project="q") for end in ("", "!")]
        shown = main(curator.get("/duplicates/?project=q"))
        assert alike[0].uid not in str(shown.links())
        assert other[0].uid in str(shown.links())
        assert "No duplicates with this filter" in main(curator.get("/duplicates/?project=z")).words
        assert curator.get("/duplicates/?similarity=0.95").status_code == 200  # as in "Merge all above 0.95"
        assert curator.get("/duplicates/?similarity=5").status_code == 422

    def test_clusters_are_paginated(self, curator: Client, remember: Remember) -> None:
        for word in "apple bridge castle desert engine forest garden harbour island jungle kettle".split():
            (
                remember(f"the {word} of {word}s", category=word),
                remember(f"the {word} of {word}s!", category=word),
            )
        first, last = main(curator.get("/duplicates/")), main(curator.get("/duplicates/?page=3"))
        assert "Page 1 of 3" in first.words
        assert (len(first.all("article")), len(last.all("article"))) == (5, 1)
        assert curator.get("/duplicates/?page=99").status_code == 200

    def test_large_clusters_take_more_pages(
        self, curator: Client, remember: Remember, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(views, "MAX_MEMBERS_ON_PAGE", 4)
        for topic, size in (("zebra", 5), ("cake", 2), ("kettle", 2), ("harbour", 2)):
            for n in range(size):
                remember(f"the {topic} of {topic}s{'!' * n}", category=topic)
        shown = [curator.get(f"/duplicates/?page={n}").context for n in (1, 2, 3)]
        sizes = [sorted(len(card.everyone) for card in context["clusters"]) for context in shown]
        assert shown[0]["last"] == len([page for page in sizes if page])
        assert sorted(size for page in sizes for size in page) == [2, 2, 2, 5]
        assert all(page == [5] or sum(page) <= 4 for page in sizes)

    def test_empty_store_is_reported(self, visitor: Client) -> None:
        assert "No duplicates" in main(visitor.get("/duplicates/")).words

    def test_missing_vectors_are_reported(
        self, curator: Client, alike: list[Memory], configure: Callable[..., None]
    ) -> None:
        configure(embeddings="none")
        words = main(curator.get("/duplicates/")).words
        assert "Only identical texts are found: no embeddings are configured." in words
        assert DUPLICATE_TEXT not in words

    def test_number_of_queries_does_not_grow(self, curator: Client, remember: Remember) -> None:
        def count() -> int:
            with CaptureQueriesContext(connection) as queries:
                assert curator.get("/duplicates/").status_code == 200
            return len(queries)

        remember("one saying"), remember("one saying!")
        count()
        few = count()
        for number in range(8):
            remember(f"saying {number}"), remember(f"saying {number}!")
        count()
        assert count() == few


class TestManyMemories:
    """Comparing many memories takes a while, so a later request of the page does it."""

    @pytest.fixture(autouse=True)
    def _few_are_many(self, embedding: Any, alike: list[Memory], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(presenters, "MAX_COMPARED_AT_ONCE", 1)

    def test_page_requests_the_clusters_later(self, curator: Client) -> None:
        page = main(curator.get("/duplicates/?project=p"))
        assert "Comparing all memories." in page.words
        assert "Kept:" not in page.words
        [later] = [a for a in page.all("div") if "hx-get" in a]
        assert (later["id"], later["hx-get"]) == ("clusters", "/duplicates/?project=p")
        found = curator.get(later["hx-get"], headers={**HTMX, "HX-Target": later["id"]}).content.decode()
        assert found.strip().startswith('<div id="clusters">')
        assert "Kept: it has the longest text." in found

    def test_link_compares_without_scripts(self, curator: Client) -> None:
        page = main(curator.get("/duplicates/?project=p"))
        [link] = [a["href"] for a in page.all("a") if "look=1" in a.get("href", "")]
        assert "Kept: it has the longest text." in main(curator.get(f"/duplicates/{link}")).words

    def test_known_clusters_show_at_once(self, curator: Client) -> None:
        curator.get("/duplicates/?look=1")
        assert "Kept: it has the longest text." in main(curator.get("/duplicates/")).words

    def test_hidden_memories_do_not_count(
        self, visitor: Client, remember: Remember, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(presenters, "MAX_COMPARED_AT_ONCE", 2)
        remember("a secret", sensitivity="secret")
        assert "Kept: it has the longest text." in main(visitor.get("/duplicates/")).words


class TestVisibility:
    @pytest.fixture
    def levels(self, remember: Remember) -> dict[str, Memory]:
        made = {}
        for number, level in enumerate(("public", "private", "secret", "cosmic")):
            made[level] = remember(f"{DUPLICATE_TEXT}{'.' * number} {level}words", project="p")
            Memory.objects.filter(pk=made[level].pk).update(sensitivity=level)
        return made

    @each("on", [(), ("private",), ("secret",), ("private", "secret")])
    def test_each_level_shows_with_its_own_switch(
        self, sign_in: Any, levels: dict[str, Memory], remember: Remember, on: tuple[str, ...]
    ) -> None:
        remember(f"{DUPLICATE_TEXT} publicwords indeed", project="p")
        client = sign_in("view_private", "view_secret", "repair_unknown", *CURATOR_PERMISSIONS, on=on)
        text = client.get("/duplicates/").content.decode()
        seen = {level for level, memory in levels.items() if memory.uid in text or f"{level}words" in text}
        assert seen == {"public", *on}
        assert f'<span class="num">{len(on) + 2}</span> memories' in text

    def test_switches_without_permissions_show_nothing(self, sign_in: Any, levels: dict[str, Memory]) -> None:
        client = sign_in(*CURATOR_PERMISSIONS, on=["private", "secret"])
        assert "No duplicates" in main(client.get("/duplicates/")).words

    def test_hidden_memories_do_not_change_clusters(
        self, curator: Client, alike: list[Memory], remember: Remember
    ) -> None:
        before = main(curator.get("/duplicates/")).words
        for number in range(5):
            remember(
                f"{DUPLICATE_TEXT} at two {'!' * number}", project="p", sensitivity="secret", key=str(number)
            )
        assert main(curator.get("/duplicates/")).words == before

    def test_cluster_with_hidden_memories_equals_one_without(
        self, curator: Client, alike: list[Memory], levels: dict[str, Memory]
    ) -> None:
        uids = [memory.uid for memory in alike]
        plain = curator.post("/duplicates/cluster/", {"member": uids})
        hidden = [levels[level].uid for level in ("private", "secret", "cosmic")]
        with_hidden = curator.post("/duplicates/cluster/", {"member": [*uids, *hidden], "keep": hidden[0]})
        assert Page(plain.content.decode()).words == Page(with_hidden.content.decode()).words
        assert curator.post("/duplicates/cluster/", {"member": [uids[0], *hidden]}).status_code == 404

    def test_hidden_memories_cannot_be_merged_or_dismissed(
        self, curator: Client, levels: dict[str, Memory]
    ) -> None:
        for level in ("private", "secret", "cosmic"):
            for pair in ([levels["public"], levels[level]], [levels[level], levels["public"]]):
                for decision in ("merge", "apart"):
                    response = curator.post(
                        "/duplicates/decide/", cluster_form(pair, do=decision), follow=True
                    )
                    assert "Nothing was changed" in main(response).words
                    assert f"{level}words" not in response.content.decode()
        assert trashed_uids() == set()
        assert not JournalEntry.objects.filter(object_type="memories").exists()

    def test_reveal_of_a_secret_is_journaled(self, insider: Client, remember: Remember) -> None:
        secret = remember(DUPLICATE_TEXT, sensitivity="secret")
        remember(f"{DUPLICATE_TEXT}!")
        insider.get("/duplicates/")
        [row] = JournalEntry.objects.filter(operation="reveal")
        assert (row.object_id, row.detail["page"]) == (secret.uid, "duplicates")


@pytest.fixture
def pieces(remember: Callable[..., Memory]) -> list[Memory]:
    texts = ("Works as an engineer at Acme", "Ada is an engineer and lives in Berlin")
    return [remember(text, project="p", category="profile") for text in texts]


def test_page_lists_them_separately_with_a_reason(curator: Client, pieces: list[Memory], alike: Any) -> None:
    page = main(curator.get("/duplicates/")).words
    assert "1 cluster among 4 memories" in page
    assert "Below them: 1 profile in several parts." in page
    assert page.index("Profiles in several parts") > page.index("Kept: it has the longest text.")
    assert "Each adds something; merge them into one text." in page
    assert "on a related topic" not in page


def test_page_with_only_profile_parts_reports_no_cluster(curator: Client, pieces: list[Memory]) -> None:
    page = main(curator.get("/duplicates/")).words
    assert "No two among 2 memories are near-duplicates." in page
    assert pieces[0].content in page


def test_health_report_does_not_count_them(visitor: Client, pieces: list[Memory]) -> None:
    assert "none" in visitor.get("/glance/duplicates/").content.decode()


def test_review_links_to_them(curator: Client, pieces: list[Memory]) -> None:
    page = get_page(curator, "/review/alike/?project=p", headers=HTMX)
    assert "No near-duplicates" in page
    assert '<a href="/duplicates/?category=profile&amp;project=p">1 profile in several parts</a>' in page


def test_review_tab_does_not_count_them(curator: Client, pieces: list[Memory], alike: Any) -> None:
    get_page(curator, "/review/alike/", headers=HTMX)
    tabs = main(curator.get("/review/?tab=new")).words
    assert "Near-duplicates 1" in " ".join(tabs.split())
