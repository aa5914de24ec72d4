"""The search page: results, facets, scores, filters, fragments."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub.embeddings import EmbeddingError, provider
from memoryhub.memories import restore_memories, trash_memories, update_memory
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Memory, SavedSearch
from memoryhub.web.memories import views
from tests.cases import each

HTMX = {"HX-Request": "true", "HX-Target": "found"}
TYPING = {**HTMX, "HX-Trigger": "search-fields"}


def text(response: Any) -> str:
    """Return the visible text."""
    page = re.sub(r"<(script|style|title).*?</\1>", " ", response.content.decode(), flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


@pytest.fixture
def zoo(remember: Callable[..., Any]) -> None:
    remember(
        "zebra crossing",
        title="Zebra crossing",
        type="bugfix",
        category="road",
        project="town",
        tags=["paint"],
    )
    remember(
        "zebra stable", title="Zebra stable", type="feature", category="farm", project="land", tags=["wood"]
    )
    remember(
        "zebra fence", title="Zebra fence", type="feature", category="farm", project="land", tags=["wood"]
    )
    remember("giraffe house", title="Giraffe house", type="feature", project="land")


class TestCorrections:
    def test_misspelt_query_shows_results_and_the_corrected_query(self, visitor: Client, zoo: None) -> None:
        response = visitor.get("/memories/", {"q": "girafe", "project": "land"})
        page = response.content.decode()
        assert "Did you mean giraffe ?" in text(response)
        assert "No results for “girafe”" in text(response)
        assert 'href="/memories/?q=giraffe&amp;project=land"' in page
        assert "<mark>Giraffe</mark> house" in page
        assert "1 result for giraffe" in text(response)

    def test_correction_is_offered_above_the_results_of_the_typed_query(
        self, visitor: Client, zoo: None
    ) -> None:
        response = visitor.get("/memories/", {"q": "zebra stabel", "min_score": "0"})
        assert "Did you mean zebra stable ?" in text(response)
        assert "No results" not in text(response)
        assert "results for zebra stabel" in text(response)

    def test_known_words_have_no_suggestion(self, visitor: Client, zoo: None) -> None:
        assert "Did you mean" not in text(visitor.get("/memories/", {"q": "zebra"}))

    def test_words_of_redacted_memories_are_not_suggested(self, insider: Client, remember: Any) -> None:
        remember("The okapi sleeps", sensitivity="secret")
        assert "Did you mean" not in text(insider.get("/memories/", {"q": "okappi"}))

    def test_search_starts_soon_after_the_last_key_and_only_the_newest_answer_is_shown(
        self, visitor: Client
    ) -> None:
        page = visitor.get("/memories/").content.decode()
        [fields] = re.findall(r'<div id="search-fields"[^>]*>', page)
        assert int(re.findall(r"delay:(\d+)ms", fields)[0]) <= 120
        assert 'hx-sync="closest form:replace"' in fields


class TestResults:
    def test_result_shows_text_without_markdown(self, visitor: Client, remember: Any) -> None:
        remember("We *convert* in `batches`: 2 * 3, `<b>zebra</b>`", title="Zebras", abstract="**zebra**")
        page = visitor.get("/memories/", {"q": "zebra"}).content.decode()
        assert "We convert in batches: 2 * 3, &lt;b&gt;<mark>zebra</mark>&lt;/b&gt;" in page

    def test_snippet_is_of_the_field_that_matches(self, visitor: Client, remember: Any) -> None:
        remember("Nothing of the kind.", title="Animals", overview="Of **zebras** alone.")
        assert "Of <mark>zebras</mark> alone." in visitor.get("/memories/", {"q": "zebras"}).content.decode()

    def test_page_highlights_and_counts_results(self, visitor: Client, zoo: None) -> None:
        response = visitor.get("/memories/", {"q": "zebra"})
        page = response.content.decode()
        assert "<mark>Zebra</mark> crossing" in page
        assert "3 results" in text(response)
        assert "Giraffe" not in page

    def test_score_is_shown_in_four_parts(self, visitor: Client, zoo: None) -> None:
        response = visitor.get("/memories/", {"q": "zebra crossing"})
        found = re.search(
            r"Score (\d\.\d\d) match (\d\.\d\d) recency (\d\.\d\d) importance (\d\.\d\d) trust (\d\.\d\d)",
            text(response),
        )
        assert found
        score, match, recency, importance, trust = map(float, found.groups())
        assert score == pytest.approx(
            0.55 * match + 0.2 * recency + 0.15 * importance + 0.1 * trust, abs=0.02
        )
        assert response.content.decode().count('<rect class="part-') == 4 * 3

    def test_min_score_is_a_field(self, visitor: Client, zoo: None) -> None:
        none = visitor.get("/memories/", {"q": "zebra", "min_score": "0.99"})
        assert "No results" in text(none)
        assert "Show 3 weaker matches" in text(none)
        assert "min_score=0" in none.content.decode()

    def test_pages_are_numbered_and_keep_the_query(
        self, visitor: Client, remember: Any, configure: Any
    ) -> None:
        configure(search_limit=2)
        for number in range(5):
            remember(f"zebra number {number}")
        first = visitor.get("/memories/", {"q": "zebra", "project": ""})
        assert "Page 1 of 3" in text(first)
        assert "q=zebra&amp;project=&amp;page=2" in first.content.decode()
        titles = [_titles(visitor.get("/memories/", {"q": "zebra", "page": page})) for page in (1, 2, 3)]
        assert [len(one) for one in titles] == [2, 2, 1]
        assert len({title for one in titles for title in one}) == 5

    @each("page", ["0", "-1", "x", "²", "9" * 30])
    def test_invalid_page_number_is_no_error(self, visitor: Client, zoo: None, page: str) -> None:
        assert visitor.get("/memories/", {"q": "zebra", "page": page}).status_code == 200

    def test_title_is_not_repeated(self, visitor: Client, remember: Any) -> None:
        remember("Zebra crossing\n\nPainted on Monday.", title="Zebra crossing")
        page = visitor.get("/memories/", {"q": "zebra"}).content.decode()
        assert page.count("crossing") == 1
        assert "Painted on Monday." in page

    def test_text_that_is_only_the_title_is_left_out(self, visitor: Client, remember: Any) -> None:
        remember("Painted on Monday.", title="Zebra crossing", abstract="Zebra crossing")
        page = visitor.get("/memories/", {"q": "zebra"}).content.decode()
        assert page.count("crossing") == 1

    def test_scripts_without_spaces_are_found_and_highlighted(self, visitor: Client, remember: Any) -> None:
        remember("毎晩三時にバックアップを実行します", title="運用")
        assert (
            "<mark>バックアップ</mark>" in visitor.get("/memories/", {"q": "バックアップ"}).content.decode()
        )


def test_other_forms_of_a_polish_word_are_marked(visitor: Client, remember: Any) -> None:
    remember("Tokeny sesji wygasają po 15 minutach.")
    response = visitor.get("/memories/", {"q": "Kiedy wygasa token sesji?"})
    assert "<mark>wygasają</mark>" in response.content.decode()


class TestEmptyStates:
    @pytest.mark.parametrize("q", ["", " "])
    def test_empty_query_lists_what_the_filters_leave(self, visitor: Client, zoo: None, q: str) -> None:
        response = visitor.get("/memories/", {"q": q, "project": "town"})
        assert _titles(response) == ["Zebra crossing"]
        assert "1 memory" in text(response)

    def test_query_without_results_explains_searching(self, visitor: Client, zoo: None) -> None:
        assert "A phrase in quotation marks is matched exactly" in text(
            visitor.get("/memories/", {"q": "xyz"})
        )

    def test_filters_that_exclude_everything_are_reported(self, visitor: Client, zoo: None) -> None:
        response = visitor.get("/memories/", {"q": "zebra", "project": "moon"})
        assert "Search without the filters : 3 results" in text(response)
        assert 'href="/memories/?q=zebra"' in response.content.decode()

    def test_advice_counts_no_hidden_memories(self, visitor: Client, remember: Any) -> None:
        remember("zebra hideout", sensitivity="secret", project="moon")
        response = visitor.get("/memories/", {"q": "zebra", "project": "moon", "min_score": "0.9"})
        assert "weaker" not in text(response)
        assert "Search without the filters" not in text(response)


class TestFacets:
    def test_facets_count_matches_of_the_query(self, visitor: Client, zoo: None) -> None:
        facets = _facets(visitor.get("/memories/", {"q": "zebra"}))
        assert facets["Type"] == {"feature": 2, "bugfix": 1}
        assert facets["Category"] == {"farm": 2, "road": 1}
        assert facets["Project"] == {"land": 2, "town": 1}
        assert facets["Tag"] == {"wood": 2, "paint": 1}

    @pytest.mark.parametrize("q", ["", "zebra"])
    def test_tags_of_capture_are_not_offered(self, visitor: Client, remember: Any, q: str) -> None:
        remember("zebra one", tags=["captured", "segment-4", "wood"])
        remember("zebra two", tags=["captured", "paint"])
        assert _facets(visitor.get("/memories/", {"q": q}))["Tag"] == {"paint": 1, "wood": 1}

    @pytest.mark.parametrize("q", ["", "zebra"])
    def test_sources_of_one_memory_do_not_displace_other_tags(
        self, visitor: Client, remember: Any, q: str
    ) -> None:
        for number in range(25):
            remember(f"zebra {number}", tags=[f"source:{number:04}", "source:zoo.csv"])
        remember("zebra with tags", tags=["wood", "paint"])
        assert _facets(visitor.get("/memories/", {"q": q}))["Tag"] == {
            "source:zoo.csv": 25,
            "paint": 1,
            "wood": 1,
        }

    def test_chosen_source_of_one_memory_is_offered(self, visitor: Client, remember: Any) -> None:
        remember("zebra one", tags=["source:0001", "wood"])
        remember("zebra two", tags=["source:0002", "wood"])
        page = visitor.get("/memories/", {"tag": "source:0001"})
        assert _facets(page)["Tag"] == {"source:0001": 1, "wood": 1}

    def test_chosen_tag_of_capture_can_be_removed(self, visitor: Client, remember: Any) -> None:
        remember("zebra one", tags=["captured", "wood"])
        assert "captured" in _facets(visitor.get("/memories/", {"q": "zebra", "tag": "captured"}))["Tag"]

    def test_facet_keeps_the_query_and_starts_on_the_first_page(self, visitor: Client, zoo: None) -> None:
        query = {"q": "zebra", "min_score": "0.1", "page": "1"}
        page = visitor.get("/memories/", query).content.decode()
        assert 'href="/memories/?q=zebra&amp;min_score=0.1&amp;tag=wood"' in page

    def test_active_facet_filters_and_can_be_removed(self, visitor: Client, zoo: None) -> None:
        response = visitor.get("/memories/", {"q": "zebra", "type": "feature"})
        assert "2 results" in text(response)
        assert '<a href="/memories/?q=zebra" aria-current="true">' in response.content.decode()

    def test_facets_count_no_hidden_memories(self, sign_in: Any, four_levels: Any, remember: Any) -> None:
        remember(
            "zebra of the vault", sensitivity="secret", project="vault", tags=["hush"], category="coverup"
        )
        page = sign_in("view_secret").get("/memories/", {"q": "zebra"}).content.decode()
        assert "vault" not in page
        assert "hush" not in page
        assert "coverup" not in page

    def test_level_facet_requires_the_switch(self, insider: Client, four_levels: Any) -> None:
        assert _facets(insider.get("/memories/", {"q": "zebra"}))["Level"] == {
            "public": 1,
            "private": 1,
            "secret": 1,
        }


class TestFilters:
    @each(
        "name, value, found",
        [
            ("project", "town", {"Zebra crossing"}),
            ("type", "feature", {"Zebra stable", "Zebra fence"}),
            ("category", "road", {"Zebra crossing"}),
            ("tag", "paint", {"Zebra crossing"}),
            ("since", "2999-01-01", set()),
            ("until", "1999-01-01", set()),
        ],
    )
    def test_each_filter_applies(
        self, visitor: Client, zoo: None, name: str, value: str, found: set[str]
    ) -> None:
        assert set(_titles(visitor.get("/memories/", {"q": "zebra", name: value}))) == found

    def test_concept_file_and_session_filters_apply(self, visitor: Client, remember: Any) -> None:
        remember("zebra one", concepts=["gotcha"], files_modified=["src/app.py"], session_id="s 1/2")
        remember("zebra two")
        for name, value in (("concept", "gotcha"), ("file", "app.py"), ("session_id", "s 1/2")):
            assert _titles(visitor.get("/memories/", {"q": "zebra", name: value})) == ["zebra one"], name

    @each(
        "name, value, label",
        [
            ("type", "poem", "Type"),
            ("since", "yesterday", "From"),
            ("until", "2024-13-01", "To"),
            ("min_score", "2", "Lowest score"),
            ("min_score", "nan", "Lowest score"),
            ("sensitivity", "cosmic", "Level"),
            ("q", "z\x00", "Search for"),
            ("q", "z" * 1001, "Search for"),
        ],
    )
    def test_invalid_filter_is_reported_and_keeps_the_input(
        self, visitor: Client, zoo: None, name: str, value: str, label: str
    ) -> None:
        response = visitor.get("/memories/", {"q": "zebra", "project": "land", "tag": "wood", name: value})
        assert response.status_code == 422
        assert f">{label}</a>:" in response.content.decode()
        assert 'value="land"' in response.content.decode()
        assert 'value="wood"' in response.content.decode()

    def test_invalid_date_or_number_stays_visible(self, visitor: Client) -> None:
        page = visitor.get(
            "/memories/", {"q": "zebra", "since": "never", "min_score": "much"}
        ).content.decode()
        assert '<input type="text" name="since" value="never"' in page
        assert '<input type="text" name="min_score" value="much"' in page

    def test_both_days_of_a_range_are_included(self, visitor: Client, remember: Any) -> None:
        remember("zebra of may", created_at="2024-05-01T23:30:00+00:00")
        span = {"q": "zebra", "min_score": "0", "since": "2024-05-01", "until": "2024-05-01"}
        assert _titles(visitor.get("/memories/", span)) == ["zebra of may"]

    def test_hidden_level_is_not_offered(self, visitor: Client, insider_options: Any) -> None:
        assert insider_options(visitor) == ["", "public"]


class TestFragments:
    def test_htmx_gets_the_fragment(self, visitor: Client, zoo: None) -> None:
        part = visitor.get("/memories/", {"q": "zebra"}, headers=HTMX).content.decode()
        assert part.lstrip().startswith('<div id="found"')
        assert 'hx-swap-oob="true"' in part[part.index('<nav id="facets"') :]
        assert "<html" not in part
        assert "3</strong> results" in part

    def test_page_contains_the_fragment(self, visitor: Client, zoo: None) -> None:
        page = visitor.get("/memories/", {"q": "zebra crossing"}).content.decode()
        part = visitor.get("/memories/", {"q": "zebra crossing"}, headers=HTMX).content.decode()
        found, _, facets = part.partition('<nav id="facets"')
        assert found.strip() in page
        assert facets.replace(' hx-swap-oob="true"', "").strip() in page

    def test_typing_replaces_the_url_and_submitting_adds_to_the_history(
        self, visitor: Client, zoo: None
    ) -> None:
        query = {"q": "zebra", "project": "", "type": "feature", "since": ""}
        typed = visitor.get("/memories/", query, headers=TYPING)
        assert typed["HX-Replace-Url"] == "/memories/?q=zebra&type=feature"
        assert "HX-Push-Url" not in typed
        sent = visitor.get("/memories/", query, headers={**HTMX, "HX-Trigger": "search-form"})
        assert sent["HX-Push-Url"] == "/memories/?q=zebra&type=feature"

    def test_history_restore_gets_the_whole_page(self, visitor: Client, zoo: None) -> None:
        headers = {"HX-Request": "true", "HX-History-Restore-Request": "true"}
        assert b"<html" in visitor.get("/memories/", {"q": "zebra"}, headers=headers).content

    def test_facet_link_gets_the_whole_page(self, visitor: Client, zoo: None) -> None:
        headers = {"HX-Request": "true", "HX-Boosted": "true", "HX-Target": "listing"}
        response = visitor.get("/memories/", {"q": "zebra"}, headers=headers)
        assert b'<div id="listing">' in response.content
        assert "HX-Push-Url" not in response

    def test_invalid_filter_responds_422_in_a_fragment(self, visitor: Client) -> None:
        response = visitor.get("/memories/", {"q": "zebra", "since": "x"}, headers=TYPING)
        assert response.status_code == 422
        assert "Enter a valid date" in response.content.decode()


class TestOldAddress:
    def test_it_redirects_to_the_memories_page_with_its_parameters(self, visitor: Client) -> None:
        response = visitor.get("/search/?q=zebra+crossing&type=bugfix&page=2")
        assert response.status_code == 301
        assert response["Location"] == "/memories/?q=zebra+crossing&type=bugfix&page=2"

    def test_it_needs_a_sign_in(self, client: Client, db: None) -> None:
        response = client.get("/search/?q=zebra", follow=True)
        assert response.redirect_chain[-1][0] == "/login/?next=/memories/%3Fq%3Dzebra"

    def test_saved_searches_move_to_the_page_of_memories(self, django_user_model: Any, db: None) -> None:
        ada = django_user_model.objects.create(username="ada")
        old = SavedSearch.objects.create(user=ada, name="Old", page="search", query="q=tide")
        other = SavedSearch.objects.create(user=ada, name="Other", page="journal", query="q=tide")
        migration = import_module("memoryhub.migrations.0023_saved_searches_of_memories")
        migration.move_searches(apps, SimpleNamespace(connection=connection))
        old.refresh_from_db()
        other.refresh_from_db()
        assert (old.page, old.query, other.page) == ("memories", "q=tide", "journal")


class TestOrders:
    @pytest.fixture
    def ranked(self, remember: Any) -> None:
        for share in (0.2, 0.9, 0.5):
            remember(f"zebra {share}", importance=share)
        remember("giraffe", importance=1.0)
        remember("zebra vault", importance=1.0, sensitivity="secret")

    def test_results_can_be_sorted(self, visitor: Client, ranked: None) -> None:
        response = visitor.get("/memories/", {"q": "zebra", "order": "-importance"})
        assert _titles(response) == ["zebra 0.9", "zebra 0.5", "zebra 0.2"]
        assert "<mark>zebra</mark>" in response.content.decode()
        assert "3 results" in text(response)
        assert "Why this result?" not in text(response)

    def test_sorted_results_have_pages(
        self, visitor: Client, ranked: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(views, "PAGE_SIZE", 2)
        first = visitor.get("/memories/", {"q": "zebra", "order": "-importance"})
        following = re.search(r'rel="next" href="([^"]+)"', first.content.decode())
        assert following
        second = visitor.get("/memories/" + following[1].replace("&amp;", "&"))
        assert _titles(first) + _titles(second) == ["zebra 0.9", "zebra 0.5", "zebra 0.2"]

    def test_words_typed_into_a_list_are_ranked(self, visitor: Client, ranked: None) -> None:
        page = visitor.get("/memories/").content.decode()
        assert '<option value="" selected>Last changed</option>' in page
        page = visitor.get("/memories/", {"q": "zebra"}).content.decode()
        assert '<option value="" selected>Best match</option>' in page

    def test_misspelt_query_can_be_sorted(self, visitor: Client, zoo: None) -> None:
        response = visitor.get("/memories/", {"q": "girafe", "order": "-created_at"})
        assert _titles(response) == ["Giraffe house"]
        assert "Did you mean giraffe ?" in text(response)


class TestChips:
    def test_several_filters_can_be_cleared_at_once(self, visitor: Client, zoo: None) -> None:
        response = visitor.get("/memories/", {"q": "zebra", "type": "feature", "tag": "wood", "page": "1"})
        assert '<a class="button is-quiet is-small" href="/memories/?q=zebra">' in response.content.decode()
        one = visitor.get("/memories/", {"q": "zebra", "type": "feature"})
        assert "Clear filters" not in text(one)

    def test_every_filter_of_the_list_narrows_a_search(self, visitor: Client, remember: Any) -> None:
        remember("zebra soon", ttl_days=2)
        remember("zebra later", ttl_days=60)
        for query in ({"expiring": "1"}, {"ends": str(timezone.localdate() + timedelta(days=2))}):
            assert _titles(visitor.get("/memories/", {"q": "zebra", **query})) == ["zebra soon"]


HOSTILE = "<script>alert('zebra')</script><img src=x onerror=alert(1)>"


def test_hostile_markup_is_escaped_everywhere(visitor: Client, remember: Any) -> None:
    remember(f"zebra {HOSTILE}", title=HOSTILE, project=HOSTILE, category=HOSTILE, tags=[HOSTILE, "b"])
    remember("zebra plain", project="other", category="other")
    for q in ("zebra", HOSTILE, "script"):
        page = visitor.get("/memories/", {"q": q, "min_score": "0"}).content.decode()
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "&lt;" in page


class TestSemanticFailure:
    @pytest.fixture
    def down(self, embedding: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail() -> None:
            raise EmbeddingError("<b>the endpoint</b> did not answer in time")

        monkeypatch.setattr(provider, "configured", fail)

    @pytest.mark.parametrize("q", ["zebra", "quokka"])
    def test_failed_provider_is_reported(self, visitor: Client, zoo: None, down: None, q: str) -> None:
        response = visitor.get("/memories/", {"q": q})
        assert response.status_code == 200
        assert "&lt;b&gt;the endpoint&lt;/b&gt; did not answer in time" in response.content.decode()
        assert "Search by meaning is not available: searched by words only" in text(response)

    def test_working_semantic_search_reports_nothing(
        self, visitor: Client, zoo: None, embedding: Any
    ) -> None:
        assert "Meaning" not in text(visitor.get("/memories/", {"q": "zebra"}))

    def test_disabled_semantic_search_reports_nothing(
        self, visitor: Client, zoo: None, configure: Any
    ) -> None:
        configure(embeddings="none")
        assert "Meaning" not in text(visitor.get("/memories/", {"q": "zebra"}))


@each("q", ['"', "AND", "*", "C++", "foo.bar", "NEAR(", "🦓", "'; --", "%", "漢"])
def test_any_query_is_safe(visitor: Client, zoo: None, q: str) -> None:
    assert visitor.get("/memories/", {"q": q}).status_code == 200


def test_number_of_queries_does_not_grow_with_the_results(
    visitor: Client, remember: Any, configure: Any
) -> None:
    configure(search_limit=100)
    counted = []
    for upto in (3, 30):
        for number in range(upto):
            remember(f"zebra {upto} {number}", tags=[f"t{number}"], files_read=[f"f{number}"], project="zoo")
        visitor.get("/memories/", {"q": "zebra"})
        with CaptureQueriesContext(connection) as queries:
            visitor.get("/memories/", {"q": "zebra"})
        counted.append(len(queries))
    assert counted[0] == counted[1]


def _titles(response: Any) -> list[str]:
    rows = re.findall(r'<h3 class="row-title".*?</h3>', response.content.decode(), re.S)
    return [" ".join(re.sub(r"<[^>]+>", "", row).split()) for row in rows]


def _facets(response: Any) -> dict[str, dict[str, int]]:
    """Map the title of each facet to its values and counts."""
    found = {}
    for section in re.findall(r'<section class="facet">.*?</section>', response.content.decode(), re.S):
        title = re.search(r"<h2>(.*?)</h2>", section)
        items = re.findall(r"<li>(.*?)</li>", section, re.S)
        words = [" ".join(re.sub(r"<[^>]+>", " ", item).split()) for item in items]
        assert title
        found[title[1]] = {
            name: int(count)
            for name, count in (re.fullmatch(r"(.*) \( (\d+) \)", word).groups() for word in words)
        }
    return found


@pytest.fixture
def insider_options() -> Callable[[Client], list[str]]:
    def options(client: Client) -> list[str]:
        page = client.get("/memories/").content.decode()
        select = re.search(r'<select name="sensitivity".*?</select>', page, re.S)
        assert select
        return re.findall(r'value="([^"]*)"', select[0])

    return options


class TestPast:
    def test_results_are_those_of_the_day(
        self, visitor: Client, remember: Callable[..., Any], actor: Any
    ) -> None:
        memory = remember("zebra crossing", title="Crossing")
        Memory.objects.update(created_at=timezone.now() - timedelta(days=9))
        update_memory(memory.uid, MemoryPatch(content="zebra subway"), actor)
        day = timezone.localdate() - timedelta(days=3)
        page = text(visitor.get("/memories/", {"q": "zebra", "on": str(day)}))
        assert "zebra crossing" in page
        assert "zebra subway" not in page
        assert "changed since" in page
        assert "Memories at the end of" in page

    def test_memories_that_were_in_the_trash_that_day_are_not_found(
        self, visitor: Client, remember: Callable[..., Any], actor: Any
    ) -> None:
        now = timezone.now()
        back, gone = remember("zebra crossing"), remember("zebra subway")
        remember("zebra vault", sensitivity="secret")
        Memory.objects.update(created_at=now - timedelta(days=9))
        Memory.objects.filter(pk=back.pk).update(deleted_at=now - timedelta(days=5))
        restore_memories([back.uid], actor)
        trash_memories([gone.uid], actor)
        for days, found in ((7, "crossing subway"), (3, "subway"), (0, "crossing")):
            day = timezone.localdate() - timedelta(days=days)
            page = text(visitor.get("/memories/", {"q": "zebra", "on": str(day)}))
            shown = [word for word in ("crossing", "subway", "vault") if f"zebra {word}" in page]
            assert " ".join(shown) == found
            assert ("in the trash today" in page) == ("subway" in found)

    def test_day_without_words_asks_for_words(self, visitor: Client, zoo: None) -> None:
        response = visitor.get("/memories/", {"on": str(timezone.localdate() - timedelta(days=3))})
        assert "Type words to search the memories of that day." in text(response)
        assert _titles(response) == []

    @each("name, value", [("expiring", "1"), ("worth", "high"), ("ends", "2030-01-01")])
    def test_day_refuses_filters_of_the_present(
        self, visitor: Client, zoo: None, name: str, value: str
    ) -> None:
        response = visitor.get("/memories/", {"q": "zebra", "on": "2020-01-01", name: value})
        assert response.status_code == 422
        assert "A day in the past cannot be combined with" in text(response)

    def test_invalid_day_is_an_error_of_its_field(self, visitor: Client, zoo: None) -> None:
        response = visitor.get("/memories/", {"q": "zebra", "on": "soon"})
        assert response.status_code == 422
        assert "Enter a valid date" in text(response)
