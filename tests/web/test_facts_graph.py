"""The fact graph: visibility, filters, opening nodes, and the panel."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.facts import contradictions
from memoryhub.models import Fact, Memory
from memoryhub.web.facts import graph
from tests.cases import each
from tests.web.fact_graph_pages import GRAPH, Say, fact_storer, nodes, panel_of
from tests.web.markup import PAYLOAD, find_dangers, main

Remember = Callable[..., Memory]


@pytest.fixture
def say(db: None, actor: Actor) -> Say:
    return fact_storer(actor)


class TestVisibility:
    @pytest.fixture(autouse=True)
    def world(self, say: Say, four_levels: dict[str, Memory]) -> None:
        for level in ("public", "private", "secret"):
            say(f"{level} subject", object=f"{level} object", sensitivity=level)
            say(f"of {level}", object="everyone", memory_id=four_levels[level].uid)
        say("of cosmic", object="everyone")
        Fact.objects.filter(subject="of cosmic").update(memory=four_levels["cosmic"])

    def test_a_node_exists_only_through_facts_that_are_visible(self, sign_in: Any) -> None:
        client = sign_in("view_private", "view_secret")
        assert set(nodes(client.get(GRAPH))) == {"public subject", "public object", "of public", "everyone"}

    def test_all_switches_show_all_known_levels(self, insider: Client) -> None:
        shown = set(nodes(insider.get(GRAPH)))
        assert {"secret subject", "of secret", "private object"} <= shown
        assert "of cosmic" not in shown

    def test_a_hidden_node_looks_like_a_missing_one(self, visitor: Client) -> None:
        answers = []
        for name in ("secret subject", "absent subject"):
            text = main(visitor.get(GRAPH, {"node": name})).words.replace(name, "X")
            answers.append(text)
        assert answers[0] == answers[1]
        assert "No fact mentions" in answers[0]

    def test_a_hidden_node_is_neither_found_nor_suggested(self, visitor: Client) -> None:
        assert "No fact mentions" in main(visitor.get(GRAPH, {"find": "secret"})).words
        assert b"secret" not in visitor.get("/facts/things/", {"find": "s"}).content
        assert b"public subject" in visitor.get("/facts/things/", {"find": "s"}).content

    def test_hidden_neighbours_are_not_counted(self, visitor: Client) -> None:
        seen = panel_of(visitor.get(GRAPH, {"node": "everyone"}))
        assert "of public" in seen.words
        assert "of secret" not in seen.words
        assert visitor.get(GRAPH, {"node": "everyone"}).context["picture"].nodes[0].neighbours == 1

    def test_the_panel_lists_visible_memories_only(
        self, say: Say, sign_in: Any, four_levels: dict[str, Memory]
    ) -> None:
        client = sign_in("view_private", "view_secret", name="bob")
        links = panel_of(client.get(GRAPH, {"node": "everyone"})).links()
        shown = {link.split("/")[2] for link in links if link.startswith("/memories/") and "?" not in link}
        assert shown == {four_levels["public"].uid}

    def test_it_asks_for_a_login(self) -> None:
        assert Client().get(GRAPH)["Location"].startswith("/login/")
        assert Client().get("/facts/things/")["Location"].startswith("/login/")


class TestOpening:
    @pytest.fixture(autouse=True)
    def world(self, say: Say) -> None:
        say("api", "uses", "Django", confidence=0.9)
        say("api", "led_by", "Mara", confidence=0.6)
        say("Mara", "lives_in", "Skagen")
        say("Skagen", "lies_in", "Denmark")

    def test_a_node_links_to_its_opened_state(self, visitor: Client) -> None:
        href = nodes(visitor.get(GRAPH))["api"]
        assert href == "/facts/graph/?node=api"
        assert set(nodes(visitor.get(href))) == {"api", "Django", "Mara"}

    def test_opening_another_adds_its_neighbours(self, visitor: Client) -> None:
        first = nodes(visitor.get(GRAPH, {"node": "api"}))
        assert set(nodes(visitor.get(first["Mara"]))) == {"api", "Django", "Mara", "Skagen"}

    def test_the_panel_shows_the_facts_of_the_node_with_links(self, visitor: Client) -> None:
        panel = panel_of(visitor.get(GRAPH, {"node": "Mara"}))
        assert re.sub(r"\s+", " ", panel.words).count("lives in Skagen") == 1
        assert "led by" in panel.words
        assert "/facts/graph/?node=Mara&node=Skagen" in panel.links()
        assert "/facts/?thing=Mara" in panel.links()

    def test_an_open_node_can_be_closed_or_shown_only(self, visitor: Client) -> None:
        links = panel_of(visitor.get(GRAPH, {"node": ["api", "Mara"]})).links()
        assert {"/facts/graph/?node=api", "/facts/graph/?node=Mara", "/facts/graph/"} <= set(links)

    def test_filters_stay_while_nodes_are_opened(self, visitor: Client) -> None:
        href = nodes(visitor.get(GRAPH, {"min_confidence": "0.8"}))["api"]
        assert parse_qs(urlsplit(href).query) == {"min_confidence": ["0.8"], "node": ["api"]}
        assert "Mara" not in nodes(visitor.get(href))

    def test_number_of_open_nodes_is_limited(self, visitor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(graph, "MAX_OPEN_NODES", 2)
        response = visitor.get(GRAPH, {"node": ["api", "Mara", "Skagen"]})
        assert "api" not in [one["name"] for one in response.context["opened"]]

    def test_the_commonest_are_drawn_and_the_rest_is_dust(
        self, visitor: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(graph, "MAX_NAMED_NODES", 2)
        response = visitor.get(GRAPH)
        assert set(nodes(response)) == {"Mara", "Skagen"}
        assert (
            response.context["picture"].dust.count("M") == 2
        )  # api and Denmark hang on these, Django does not
        assert "The 2 most connected of 5 things, 4 facts" in main(response).words

    def test_neighbours_with_the_highest_confidence_are_drawn(
        self, visitor: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(graph, "MAX_NEIGHBOURS", 1)
        response = visitor.get(GRAPH, {"node": "api"})
        assert set(nodes(response)) == {"api", "Django"}
        assert next(node for node in response.context["picture"].nodes if node.text == "api").more == 1

    def test_a_fragment_for_htmx_pushes_its_address(self, visitor: Client) -> None:
        headers = {"HX-Request": "true", "HX-Target": "graph-view"}
        response = visitor.get(GRAPH, {"node": "api"}, headers=headers)
        assert response.content.decode().lstrip().startswith('<div id="graph-view"')
        assert response["HX-Push-Url"] == "/facts/graph/?node=api"

    def test_a_long_name_has_a_short_address(self, say: Say, visitor: Client) -> None:
        say("api", "says", "a long speech " * 100)
        [key] = [key for key in nodes(visitor.get(GRAPH)) if key.startswith("~")]
        assert len(key) < 20
        assert visitor.get(GRAPH, {"node": key}).context["panel"].text.startswith("a long speech")

    def test_a_name_that_looks_like_a_short_address_is_found_too(self, say: Say, visitor: Client) -> None:
        say("~tilde", "is", "a path")
        [key] = [key for key in nodes(visitor.get(GRAPH)) if key.startswith("~")]
        assert visitor.get(GRAPH, {"node": key}).context["panel"].text == "~tilde"

    def test_a_fact_about_itself_does_no_harm(self, say: Say, visitor: Client) -> None:
        say("loop", "is", "loop")
        assert "loop" in nodes(visitor.get(GRAPH, {"node": "loop"}))


class TestFinding:
    @pytest.fixture(autouse=True)
    def world(self, say: Say) -> None:
        say("harbor-board")
        say("harbor-app")
        say("tide", object="SQLite")

    @each("typed", ["tide", "TIDE", " ti", "sqlite"])
    def test_the_only_thing_found_is_opened(self, visitor: Client, typed: str) -> None:
        assert visitor.get(GRAPH, {"find": typed}).context["panel"].text in ("tide", "SQLite")

    def test_several_are_offered(self, visitor: Client) -> None:
        response = visitor.get(GRAPH, {"find": "harbor"})
        assert "panel" not in response.context
        assert {"/facts/graph/?node=harbor-app", "/facts/graph/?node=harbor-board"} <= set(
            main(response).links()
        )

    def test_one_of_them_that_is_called_just_so_is_opened(self, say: Say, visitor: Client) -> None:
        say("harbor")
        assert visitor.get(GRAPH, {"find": "harbor"}).context["panel"].text == "harbor"

    def test_no_match_is_reported_and_shows_the_whole_graph(self, visitor: Client) -> None:
        response = visitor.get(GRAPH, {"find": "zeppelin"})
        assert "No fact mentions “zeppelin”" in main(response).words
        assert nodes(response)


class TestFilters:
    @pytest.fixture(autouse=True)
    def world(self, say: Say) -> None:
        say("a", "uses", "b", project="moon", confidence=0.9)
        say("c", "knows", "d", project="sun", confidence=0.4)
        say("session:s1", "boundary_at", "{}")

    @each(
        "query, shown",
        [
            ({}, {"a", "b", "c", "d"}),
            ({"predicate": "knows"}, {"c", "d"}),
            ({"project": "moon"}, {"a", "b"}),
            ({"min_confidence": "0.5"}, {"a", "b"}),
            ({"project": "moon", "predicate": "knows"}, set()),
            ({"predicate": "boundary_at"}, {"session:s1", "{}"}),
        ],
    )
    def test_each_narrows(self, visitor: Client, query: dict[str, str], shown: set[str]) -> None:
        assert set(nodes(visitor.get(GRAPH, query))) == shown

    @pytest.mark.parametrize(("field", "value"), [("min_confidence", "2"), ("predicate", "x" * 1001)])
    def test_a_wrong_one_is_shown_at_its_field(self, visitor: Client, field: str, value: str) -> None:
        response = visitor.get(GRAPH, {field: value})
        assert response.status_code == 422
        assert response.context["form"].errors[field]

    def test_the_table_keeps_the_filters_and_back(self, visitor: Client) -> None:
        links = main(visitor.get(GRAPH, {"project": "moon", "node": "a"})).links()
        assert "/facts/?project=moon&thing=a" in links
        back = main(visitor.get("/facts/?project=moon&thing=a")).links()
        assert "/facts/graph/?project=moon&node=a" in back


class TestTime:
    def test_a_superseded_fact_is_listed_in_the_panel_only(
        self, say: Say, visitor: Client, actor: Actor
    ) -> None:
        old, new = say("api", "led_by", "Mara"), say("api", "led_by", "Bram")
        contradictions.supersede_facts(new.uid, [old.uid], actor)
        response = visitor.get(GRAPH, {"node": "api"})
        assert set(nodes(response)) == {"api", "Bram"}
        assert "Earlier facts" in panel_of(response).words
        assert "Mara" in panel_of(response).words

    def test_a_contradiction_is_marked(self, say: Say, visitor: Client) -> None:
        say("api", "led_by", "Mara")
        say("api", "led_by", "Bram")
        response = visitor.get(GRAPH, {"node": "api"})
        assert [edge.contradicts for edge in response.context["picture"].edges] == [True, True]
        assert "/facts/contradictions/?subject=api&predicate=led_by" in panel_of(response).links()

    def test_facts_of_a_trashed_memory_end_with_it(
        self, say: Say, visitor: Client, remember: Remember, actor: Actor
    ) -> None:
        memory = remember()
        say("gone", memory_id=memory.uid)
        memories.trash_memories([memory.uid], actor)
        assert nodes(visitor.get(GRAPH)) == {}


class TestMemories:
    def test_the_panel_lists_source_memories_first(
        self, say: Say, visitor: Client, remember: Remember
    ) -> None:
        names = remember("Skagen harbour", entities=[{"entity": "Skagen", "entity_type": "place"}])
        source = remember("where Mara lives")
        say("Mara", "lives_in", "Skagen", memory_id=source.uid)
        panel = visitor.get(GRAPH, {"node": "Skagen"}).context["panel"]
        assert [memory.uid for memory in panel.memories] == [source.uid, names.uid]

    def test_a_thing_without_memories_shows_an_empty_state(self, say: Say, visitor: Client) -> None:
        say("Mara")
        assert (
            "None of these facts comes from a memory" in panel_of(visitor.get(GRAPH, {"node": "Mara"})).words
        )


class TestPage:
    @pytest.mark.slow
    @each("name", ["node", "find", "predicate", "project", "min_confidence"])
    def test_no_query_breaks_it(self, say: Say, visitor: Client, name: str) -> None:
        say("api")
        for odd in ("\x00", "'", '"><', "%", "~", "~0", "\\", "𝕏" * 300, "\u202e", " ", "a\r\nb: c"):
            assert visitor.get(GRAPH, {name: odd}).status_code in (200, 422), odd
            assert visitor.get("/facts/things/", {name: odd}).status_code == 200, odd

    def test_no_text_is_rendered_as_markup(self, say: Say, visitor: Client) -> None:
        say(PAYLOAD, PAYLOAD[:200], f"{PAYLOAD} too", project=PAYLOAD[:100])
        for query in ({}, {"node": PAYLOAD}, {"find": PAYLOAD}, {"predicate": PAYLOAD, "project": PAYLOAD}):
            assert find_dangers(visitor.get(GRAPH, query).content.decode()) == []

    def test_the_number_of_queries_does_not_grow(self, say: Say, visitor: Client, remember: Remember) -> None:
        counts = []
        for n in range(2):
            for m in range(6 + 12 * n):
                say("hub", "uses", f"o{n}{m}", memory_id=remember(f"m{n}{m}").uid)
            with CaptureQueriesContext(connection) as queries:
                visitor.get(GRAPH, {"node": "hub"})
            counts.append(len(queries))
        assert counts[0] == counts[1]

    def test_an_empty_one_says_what_a_fact_is(self, visitor: Client) -> None:
        assert "No facts yet" in main(visitor.get(GRAPH)).words
        assert "No facts match" in main(visitor.get(GRAPH, {"predicate": "x"})).words

    @pytest.mark.slow
    def test_five_thousand_facts_stay_a_light_page(self, visitor: Client, actor: Actor) -> None:
        Fact.objects.bulk_create(
            Fact(subject=f"service {n % 120}", predicate=f"p{n % 9}", object=f"thing {n * 7 % 2600}")
            for n in range(5000)
        )
        visitor.get(GRAPH)  # caches the counts of the navigation
        with CaptureQueriesContext(connection) as queries:
            response = visitor.get(GRAPH)
        assert len(response.content) < 80_000
        assert len(nodes(response)) == graph.MAX_NAMED_NODES
        assert len(queries) < 15
