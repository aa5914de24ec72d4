"""Facts: the graph by mouse, by keyboard and without scripts; contradictions; accessibility."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from memoryhub.facts import contradictions, services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact
from tests.browser.page_checks import find_state_problems
from tests.cases import in_case

SCRIPTS = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
GRAPH, CONTRADICTIONS = "/facts/graph/", "/facts/contradictions/"


@pytest.fixture
def world(remember: Any, actor: Any) -> dict[str, Fact]:
    """A few services, people and places; one of them is led by two."""
    source = remember("Mara took the board over", project="harbor")

    def say(subject: str, predicate: str, object: str, **fields: Any) -> Fact:
        draft = FactDraft(subject=subject, predicate=predicate, object=object, project="harbor", **fields)
        return services.create_fact(draft, actor)[0]

    say("board", "uses", "Django")
    say("board", "uses", "SQLite", confidence=0.6)
    say("app", "uses", "SQLite")
    say("Mara", "lives_in", "Skagen")
    say("Mara", "knows", "Bram")
    old = say("board", "led_by", "Bram")
    return {"old": old, "new": say("board", "led_by", "Mara", memory_id=source.uid)}


def node(page: Page, name: str) -> Locator:
    return page.locator(f'a.node[data-key="{name}"]')


def dot(page: Page, name: str) -> Locator:
    """What of a node is clicked: its middle may lie between its dot and its name."""
    return node(page, name).locator(".node-dot")


def title(page: Page) -> Locator:
    return page.locator("#panel-title")


@SCRIPTS
def test_an_opened_node_shows_its_memory_in_the_panel(
    open_page: Any, reader: Any, world: Any, scripts: bool
) -> None:
    page = open_page(GRAPH, reader, java_script_enabled=scripts)
    page.evaluate("window.same = true") if scripts else None
    dot(page, "Mara").click()
    expect(title(page)).to_have_text("Mara")
    expect(page).to_have_url(re.compile(r"/facts/graph/\?node=Mara$"))
    expect(node(page, "Django")).to_have_count(0)
    expect(
        page.locator(".graph-memories").get_by_role("link", name="Mara took the board over")
    ).to_be_visible()
    dot(page, "board").click()
    expect(title(page)).to_have_text("board")
    expect(node(page, "Django")).to_be_visible()
    page.get_by_role("link", name="Close Mara").click()
    expect(node(page, "Skagen")).to_have_count(0)
    page.get_by_role("link", name="Whole graph").click()
    expect(node(page, "Skagen")).to_be_visible()
    if scripts:
        expect(page.locator(".graph-frame.is-live")).to_have_count(1)


def test_going_back_closes_opened_rows(open_page: Any, reader: Any, world: Any) -> None:
    page = open_page(GRAPH, reader)
    dot(page, "Mara").click()
    expect(title(page)).to_have_text("Mara")
    page.go_back()
    expect(title(page)).to_have_text("Most connected")
    page.go_forward()
    expect(title(page)).to_have_text("Mara")


def test_the_whole_journey_by_keyboard(open_page: Any, reader: Any, world: Any) -> None:
    page = open_page(GRAPH, reader)
    page.get_by_label("Confidence from").focus()
    for _ in range(2):
        page.keyboard.press("Tab")  # the button, then the tools of the picture
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip the graph")).to_be_focused()
    page.keyboard.press("Tab")
    first = page.evaluate("document.activeElement.dataset.key")
    assert first == "board"  # the node with most neighbours
    expect(page.locator('a.node[tabindex="0"]')).to_have_count(1)
    seen = {first}
    for _ in range(6):
        for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
            page.keyboard.press(key)
            seen.add(page.evaluate("document.activeElement.dataset.key"))
    assert len(seen) > 3
    node(page, "Mara").focus()
    page.keyboard.press("Enter")
    expect(title(page)).to_have_text("Mara")
    expect(node(page, "Mara")).to_be_focused()
    expect(page.locator("#graph-status")).to_have_text("Mara is open: 3 facts, 1 memory.")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.node') === null")


_COVERED_LABELS = """() => {
  const shown = [...document.querySelectorAll('.edge-name, .node-name')].filter(
    (one) => getComputedStyle(one).visibility === 'visible');
  const rooms = shown.map((one) => [one.textContent, one.getBoundingClientRect()]);
  return rooms.flatMap(([text, a], at) => rooms.slice(at + 1).filter(([, b]) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4,
  ).map(([other]) => `${text} covers ${other}`));
}"""


def test_labels_around_a_busy_node_cover_no_other_on_a_phone(
    open_page: Any, reader: Any, world: Any, actor: Any
) -> None:
    for number in range(16):
        draft = FactDraft(subject="board", predicate=f"depends on part {number}", object=f"part {number}")
        services.create_fact(draft, actor)
    page = open_page(f"{GRAPH}?node=board", reader, viewport={"width": 390, "height": 844})
    expect(page.locator(".graph-frame.is-live")).to_have_count(1)
    assert page.locator(".edge-name:not(.is-cut)").count() > 4
    assert page.evaluate(_COVERED_LABELS) == []


_OUTSIDE = """() => {
  const frame = document.querySelector('.graph-frame').getBoundingClientRect();
  return [...document.querySelectorAll('.node-dot, .node:not(.is-quiet) .node-name')].filter((one) => {
    const box = one.getBoundingClientRect();
    const isWide = box.left < frame.left - 1 || box.right > frame.right + 1;
    return isWide || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
  }).map((one) => one.parentNode.dataset.key);
}"""


@pytest.mark.parametrize("query", ["", "?node=board"], ids=["whole", "opened"])
def test_the_graph_fits_a_phone(open_page: Any, reader: Any, world: Any, actor: Any, query: str) -> None:
    for number in range(12):
        draft = FactDraft(subject="board", predicate="has", object=f"part {number}")
        services.create_fact(draft, actor)
    page = open_page(f"{GRAPH}{query}", reader, viewport={"width": 390, "height": 844})
    expect(page.locator(".graph-frame.is-live")).to_have_count(1)
    assert page.locator(".node:not(.is-quiet)").count() > 8
    assert page.evaluate(_OUTSIDE) == []


def test_long_words_of_a_fact_fit_a_phone(open_page: Any, reader: Any, world: Any, actor: Any) -> None:
    draft = FactDraft(subject="s" * 90, predicate="p" * 90, object="o" * 90)
    services.create_fact(draft, actor)
    page = open_page("/facts/", reader, viewport={"width": 320, "height": 640})
    wrap = page.locator(".table-wrap")
    assert wrap.evaluate("one => one.scrollWidth - one.clientWidth") <= 1


def test_it_grows_shrinks_and_moves(open_page: Any, reader: Any, world: Any) -> None:
    page = open_page(GRAPH, reader)
    picture = page.locator("svg.graph")

    def box() -> list[float]:
        return [float(one) for one in (picture.get_attribute("viewBox") or "").split()]

    whole = box()
    page.get_by_role("button", name="Zoom in").click()
    assert box()[2] < whole[2]
    node(page, "board").focus()
    page.keyboard.press("+")
    near = box()
    place = picture.bounding_box()
    assert place
    page.mouse.move(place["x"] + 15, place["y"] + 15)
    page.mouse.down()
    page.mouse.move(place["x"] + 95, place["y"] + 55, steps=4)
    page.mouse.up()
    moved = box()
    assert moved[:2] != near[:2]
    assert moved[2:] == near[2:]
    expect(title(page)).to_have_text("Most connected")  # dragging opens nothing
    node(page, "board").focus()
    page.keyboard.press("0")
    assert box() == whole
    for width in (900, 1280, 390):  # its place on the page does not follow what is looked at
        page.set_viewport_size({"width": width, "height": 800})
        place = picture.bounding_box()
        assert place
        assert place["height"] > 0.6 * place["width"]


def test_looking_at_a_node_lights_its_connections(open_page: Any, reader: Any, world: Any) -> None:
    page = open_page(GRAPH, reader)
    dot(page, "Skagen").hover()
    expect(page.locator("a.node.is-lit")).to_have_count(2)
    lit = {one.get_attribute("data-key") for one in page.locator("a.node.is-lit").all()}
    assert lit == {"Skagen", "Mara"}


def test_things_are_suggested_while_one_types(open_page: Any, reader: Any, world: Any) -> None:
    page = open_page(GRAPH, reader)
    page.get_by_label("Find a subject or object").press_sequentially("ska")
    expect(page.locator("#things option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(title(page)).to_have_text("Skagen")


@SCRIPTS
def test_the_newer_fact_supersedes_with_one_click_and_undo(
    open_page: Any, insider: Any, world: dict[str, Fact], scripts: bool
) -> None:
    page = open_page(CONTRADICTIONS, insider, java_script_enabled=scripts)
    card = page.get_by_role("article")
    expect(card).to_have_count(1)
    card.get_by_role("button", name="is true: Mara; the others end").click()
    expect(page.get_by_text("has ended")).to_be_visible()
    world["old"].refresh_from_db()
    assert world["old"].superseded_by == world["new"]
    assert world["old"].valid_until == world["new"].valid_from
    if scripts:
        expect(page.locator(".notice.contradiction")).to_be_focused()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("article")).to_have_count(1)
    world["old"].refresh_from_db()
    assert (world["old"].superseded_by, world["old"].valid_until) == (None, None)


def test_a_contradiction_is_decided_with_single_keys(
    open_page: Any, insider: Any, world: dict[str, Fact]
) -> None:
    page = open_page(CONTRADICTIONS, insider)
    page.keyboard.press("j")
    page.keyboard.press("m")
    expect(page.locator(".notice.contradiction")).to_be_focused()
    world["old"].refresh_from_db()
    assert world["old"].superseded_by == world["new"]
    page.keyboard.press("u")
    expect(page.locator("article.contradiction")).to_be_focused()
    page.keyboard.press("a")
    expect(page.locator(".notice.contradiction")).to_be_focused()
    world["old"].refresh_from_db()
    assert world["old"].superseded_by is None


@SCRIPTS
def test_a_contradiction_is_settled_in_the_panel_and_undone(
    open_page: Any, insider: Any, world: dict[str, Fact], scripts: bool
) -> None:
    page = open_page(f"{GRAPH}?node=board", insider, java_script_enabled=scripts)
    page.get_by_role("button", name="The newest is true: led by Mara").click()
    expect(page).to_have_url(re.compile(r"/facts/graph/\?node=board$"))
    expect(node(page, "Bram")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(node(page, "Bram")).to_have_count(1)


def test_a_decision_in_another_tab_lowers_the_count_with_the_refusal(
    open_page: Any, insider: Any, world: dict[str, Fact], actor: Any, watch: Any
) -> None:
    watch.expect(422)
    page = open_page(f"{GRAPH}?node=board", insider)
    page.get_by_role("link", name=re.compile("^Decide")).click()
    expect(page.locator("#count-open")).to_have_text("1")
    contradictions.supersede_facts(world["new"].uid, [world["old"].uid], actor)
    page.get_by_role("button", name="is true: Mara; the others end").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was changed")
    expect(page.locator("#count-open")).to_have_text("0")


def test_both_facts_of_a_contradiction_can_be_true(open_page: Any, insider: Any, world: Any) -> None:
    page = open_page(CONTRADICTIONS, insider)
    page.get_by_role("button", name="All are true: board led by").click()
    expect(page.get_by_text("All 2 facts are true.")).to_be_visible()
    page.reload()
    expect(page.get_by_text("No facts contradict each other")).to_be_visible()


def test_an_ended_fact_is_made_valid_again_from_the_table(
    open_page: Any, insider: Any, world: dict[str, Fact], actor: Any
) -> None:
    contradictions.supersede_facts(world["new"].uid, [world["old"].uid], actor)
    page = open_page("/facts/?state=ended", insider)
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("button", name="True again: board led by Bram").click()
    expect(page.get_by_text("Undone")).to_be_visible()
    expect(page.get_by_text("No facts match")).to_be_visible()


def test_a_strange_name_is_a_node_like_any_other(open_page: Any, reader: Any, actor: Any) -> None:
    names = ("<img src=x onerror=alert(1)>", "'\"><svg/onload=alert(1)>", "~x", "a&node=b")
    for number, name in enumerate(names):
        services.create_fact(FactDraft(subject=name, predicate="is", object=f"strange {number}"), actor)
    page = open_page("about:blank", reader)
    page.on("dialog", lambda dialog: pytest.fail(f"it ran: {dialog.message}"))
    for name in names:
        with in_case(name):
            page.goto(GRAPH)
            page.locator("a.node").filter(has_text=name[:12]).first.locator(".node-dot").click()
            expect(title(page)).to_have_text(name)
            page.reload()
            expect(title(page)).to_have_text(name)


def test_opened_nodes_and_decisions_are_accessible_and_fit(open_page: Any, insider: Any, world: Any) -> None:
    page = open_page(f"{GRAPH}?node=board&node=Mara&find=a", insider)
    assert not find_state_problems(page)
    page.goto(CONTRADICTIONS)
    page.get_by_role("button", name="is true: Mara; the others end").click()
    expect(page.get_by_text("has ended")).to_be_visible()
    assert not find_state_problems(page)
