"""The fact graph: spellings of names and predicates, contradictions, and what is drawn."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from memoryhub.access.policy import Actor
from memoryhub.facts import contradictions, services
from memoryhub.models import Fact
from memoryhub.web.facts import graph, views
from tests.cases import each
from tests.web.fact_graph_pages import GRAPH, Say, fact_storer, nodes, panel_of
from tests.web.markup import Page, main


@pytest.fixture
def say(db: None, actor: Actor) -> Say:
    return fact_storer(actor)


class TestSpelling:
    @pytest.fixture(autouse=True)
    def world(self, say: Say) -> None:
        say("redis", "located_in", "Oslo", project="fleet")
        say("Redis", "located in", "Bergen", project="fleet")
        say("Redis", "version", "8.8")

    def test_a_thing_in_other_letters_is_one_node(self, visitor: Client) -> None:
        assert set(nodes(visitor.get(GRAPH))) == {"Redis", "Oslo", "Bergen", "8.8"}

    @each("key", ["redis", "REDIS", " Redis "])
    def test_an_address_opens_it_in_any_letters(self, visitor: Client, key: str) -> None:
        response = visitor.get(GRAPH, {"node": key})
        assert set(nodes(response)) == {"Redis", "Oslo", "Bergen", "8.8"}
        assert "Also written “redis”" in panel_of(response).words

    def test_both_halves_of_a_contradiction_are_marked(self, visitor: Client) -> None:
        panel = visitor.get(GRAPH, {"node": "Redis"}).context["panel"]
        [where] = [group for group in panel.as_subject if group.predicate == "located in"]
        assert {line.other for line in where.lines if line.contradicts} == {"Oslo", "Bergen"}

    def test_a_long_name_is_one_in_any_letters_too(self, say: Say, visitor: Client) -> None:
        say("A long name " * 20, "is", "x")
        say("a LONG name " * 20, "is", "y")
        [key] = [key for key in nodes(visitor.get(GRAPH)) if key.startswith("~")]
        assert len(nodes(visitor.get(GRAPH, {"node": key}))) == 3

    def test_ended_facts_in_another_spelling_are_in_the_panel(
        self, say: Say, visitor: Client, actor: Actor
    ) -> None:
        services.end_facts([say("REDIS", "led_by", "Mara").uid], actor)
        assert "Mara" in panel_of(visitor.get(GRAPH, {"node": "Redis"})).words

    @each("query", ["thing=Redis", "subject=redis", "predicate=Located+In"])
    def test_the_table_finds_it_in_any_letters_too(self, visitor: Client, query: str) -> None:
        words = main(visitor.get(f"/facts/?{query}")).words
        assert "Oslo" in words
        assert "Bergen" in words

    @each("typed", ["Located In", "locatedIn", "LOCATED_IN"])
    def test_a_predicate_is_found_however_it_is_written(self, visitor: Client, typed: str) -> None:
        assert set(nodes(visitor.get(GRAPH, {"predicate": typed}))) == {"Redis", "Oslo", "Bergen"}

    def test_spellings_of_a_predicate_are_one_colour_and_one_count(self, visitor: Client) -> None:
        colours = visitor.get(GRAPH).context["picture"].colours
        assert [(one.predicate, one.count) for one in colours] == [("located in", 2), ("version", 1)]


class TestContradictions:
    @pytest.fixture(autouse=True)
    def world(self, say: Say) -> None:
        say("api", "located_in", "Oslo", project="fleet")
        say("api", "located_in", "Bergen", project="fleet")
        say("web", "located_in", "Oslo", project="moon")
        say("lone", "points_to", "other")

    def test_the_panel_names_contradictions_and_links_to_them(self, visitor: Client) -> None:
        response = visitor.get(GRAPH, {"node": "api", "project": "fleet"})
        assert "located in Bergen or Oslo in fleet" in re.sub(r"\s+", " ", panel_of(response).words)
        decide = "/facts/contradictions/?project=fleet&predicate=located_in&subject=api"
        [href] = [link for link in panel_of(response).links() if "contradictions" in link]
        assert parse_qs(urlsplit(href).query) == parse_qs(urlsplit(decide).query)
        assert [one["group"].newest.subject for one in visitor.get(href).context["groups"]] == ["api"]

    def test_the_newest_fact_is_kept_with_one_click_and_the_picture_stays(self, sign_in: Any) -> None:
        client = sign_in("change_fact")
        address = f"{GRAPH}?project=fleet&node=api"
        page = panel_of(client.get(address))
        fields = [(field["name"], field.get("value", "")) for field in page.all("input")]
        [button] = [one for one in page.all("button") if one.get("name") == "keep"]
        sent = {
            "fact": [value for name, value in fields if name == "fact"],
            "next": dict(fields)["next"],
            "keep": button["value"],
        }
        response = client.post("/facts/contradictions/decide/", sent)
        assert response["Location"] == address
        assert "Undo" in main(client.get(address)).words
        assert set(nodes(client.get(address))) == {"api", "Bergen"}

    def test_people_without_permission_see_no_button(self, visitor: Client) -> None:
        assert not list(panel_of(visitor.get(GRAPH, {"node": "api"})).all("button"))

    def test_a_contested_object_offers_no_decision(self, visitor: Client) -> None:
        response = visitor.get(GRAPH, {"node": "Oslo"})
        assert response.context["panel"].questions == []
        assert not [link for link in panel_of(response).links() if "contradictions" in link]
        marked = {
            line.other: line.contradicts
            for group in response.context["panel"].as_object
            for line in group.lines
        }
        assert marked == {"api": True, "web": False}

    def test_the_legend_counts_drawn_facts_and_links_to_all(self, visitor: Client) -> None:
        response = visitor.get(GRAPH, {"node": "lone"})
        assert response.context["picture"].contradicting == 0
        legend = re.sub(r"\s+", " ", main(response).words)
        assert "contradicts another" not in legend
        assert "All to decide: contradictions 1" in legend
        assert visitor.get(GRAPH, {"node": "api"}).context["picture"].contradicting == 2

    def test_filters_narrow_the_open_contradictions(self, say: Say, visitor: Client) -> None:
        say("api", "led_by", "Mara")
        say("api", "led_by", "Bram")
        assert visitor.get(GRAPH).context["contradictions"] == 2
        response = visitor.get(GRAPH, {"predicate": "Led By"})
        assert response.context["contradictions"] == 1
        assert "/facts/contradictions/?predicate=Led+By" in main(response).links()

    def test_contradicted_facts_come_first_whatever_their_confidence(self, say: Say, visitor: Client) -> None:
        for n in range(20):
            say("api", f"a{n}", "x")
        assert visitor.get(GRAPH, {"node": "api"}).context["panel"].as_subject[0].predicate == "located_in"

    def test_predicates_that_are_left_out_are_counted(self, say: Say, visitor: Client) -> None:
        for n in range(13):
            say("api", f"a{n}", "x")
        assert "2 more predicates in the table" in panel_of(visitor.get(GRAPH, {"node": "api"})).words
        assert "more predicate" not in panel_of(visitor.get(GRAPH, {"node": "lone"})).words

    @pytest.mark.parametrize(
        ("subject", "projects", "why"),
        [
            ("one", ("fleet", "moon"), "Facts are compared within each project only."),
            ("two", ("fleet", "fleet"), "These can all be true: this predicate usually has several values."),
        ],
    )
    def test_why_several_objects_are_no_contradiction_is_shown(
        self, say: Say, visitor: Client, subject: str, projects: tuple[str, str], why: str
    ) -> None:
        predicate = "version" if subject == "one" else "uses"
        for object, project in zip(("7", "8"), projects, strict=True):
            say(subject, predicate, object, project=project)
        response = visitor.get(GRAPH, {"node": subject})
        assert why in panel_of(response).words
        assert ("moon" in panel_of(response).words) is ("moon" in projects)

    def test_a_decision_that_all_are_true_is_shown(self, visitor: Client, actor: Actor) -> None:
        uids = Fact.objects.filter(subject="api").values_list("uid", flat=True)
        contradictions.mark_compatible(uids, actor)
        response = visitor.get(GRAPH, {"node": "api"})
        assert "Someone confirmed that all of these are true." in panel_of(response).words

    def test_hidden_facts_contradict_nothing_in_the_panel(self, say: Say, visitor: Client) -> None:
        say("lone", "points_to", "a secret place", sensitivity="secret")
        assert visitor.get(GRAPH, {"node": "lone"}).context["panel"].questions == []


class TestSuggestedPredicates:
    def suggested(self, response: Any) -> list[str]:
        listed = (
            response.content.decode().partition('<datalist id="predicates">')[2].partition("</datalist>")[0]
        )
        return [one["value"] for one in Page(listed).all("option")]

    @each("address", [GRAPH, "/facts/", "/facts/contradictions/"])
    def test_visible_predicates_are_suggested_most_common_first(
        self, say: Say, visitor: Client, address: str
    ) -> None:
        for n in range(12):
            say("api", f"verb {n}", "x")
        say("web", "verb_7", "x")
        say("web", "verb 7", "y")
        say("api", "hidden verb", "x", sensitivity="secret")
        shown = self.suggested(visitor.get(address))
        assert shown[0] == "verb 7"
        assert len(shown) == 12

    def test_suggested_predicates_stay_while_one_is_selected(self, say: Say, visitor: Client) -> None:
        say("api", "uses")
        say("api", "knows")
        assert self.suggested(visitor.get(GRAPH, {"predicate": "uses"})) == ["knows", "uses"]

    def test_suggested_predicates_are_limited(
        self, say: Say, visitor: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(views, "MAX_SUGGESTED", 2)
        for n in range(4):
            say("api", f"verb {n}", "x")
        assert len(self.suggested(visitor.get(GRAPH))) == 2


class TestDrawing:
    def test_no_node_is_drawn_without_a_neighbour_that_it_has(
        self, say: Say, visitor: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(graph, "MAX_NAMED_NODES", 7)
        for n in range(9):
            say(f"left {n}", "points_to", f"right {n}")
        drawn = visitor.get(GRAPH).context["picture"].nodes
        assert len(drawn) == 6
        assert all(node.links for node in drawn)

    def test_a_few_more_than_the_commonest_are_drawn_all(
        self, say: Say, visitor: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(graph, "MAX_NAMED_NODES", 4)
        for n in range(3):
            say(f"left {n}", "points_to", f"right {n}")
        assert len(nodes(visitor.get(GRAPH))) == 6

    @pytest.mark.parametrize("query", [{}, {"node": "Self"}])
    def test_a_fact_about_the_thing_itself_is_drawn_as_a_loop(
        self, say: Say, visitor: Client, query: dict[str, str]
    ) -> None:
        say("self", "knows", "Self")
        picture = visitor.get(GRAPH, query).context["picture"]
        [path] = [edge.path for edge in picture.edges] or [path for _, path in picture.bundles]
        assert "C" in path
        assert picture.links == 1

    def test_a_long_name_is_cut_in_the_heading_and_whole_below(self, say: Say, visitor: Client) -> None:
        name = "A very long name " * 12
        say(name, "is", "x")
        [key] = [key for key in nodes(visitor.get(GRAPH)) if key.startswith("~")]
        shown = visitor.get(GRAPH, {"node": key})
        heading = re.search(r'<h2 id="panel-title"[^>]*>([^<]*)</h2>', shown.content.decode())
        assert heading is not None
        assert len(heading[1]) <= 90
        assert name.strip() in panel_of(shown).words
