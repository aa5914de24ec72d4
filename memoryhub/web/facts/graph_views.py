"""The pages of the fact graph, which is drawn on the server and explored node by node."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.facts import contradictions, graph_index
from memoryhub.facts.predicates import normalise_name
from memoryhub.facts.services import query_facts
from memoryhub.web.base.htmx import HtmxHttpRequest, page_or_fragment, update_address_bar
from memoryhub.web.facts import graph
from memoryhub.web.facts.filters import GraphAddress, GraphFilter, suggested_predicates
from memoryhub.web.facts.graph_panel import build_panel

TARGET = "graph-view"
MAX_TOP_NODES, MAX_FOUND, MAX_SUGGESTED = 14, 12, 50


@require_safe
def facts_graph(request: HtmxHttpRequest) -> HttpResponse:
    """Show the graph with the nodes, filters and search term (``find``) of the address."""
    form = GraphFilter(request.GET)
    if not form.is_valid():
        return render(request, "facts/graph.html", {"form": form}, status=422)
    clearance = request_clearance(request)
    index = graph_index.read_graph(form.select(clearance))
    opened, missing = _parse_open_nodes(index, request.GET.getlist("node"))
    found = index.like(form.value("find"), MAX_FOUND) if form.value("find") else []
    if exact := _exact_match(found, form.value("find")):
        opened, found = [*(name for name in opened if name != exact), exact], []
    opened = opened[-graph.MAX_OPEN_NODES :]
    texts = [index.text(name) for name in opened]
    keys = [graph_index.node_key(text) for text in texts]
    address = GraphAddress(request.GET, keys)
    context = {
        "form": form,
        "address": address,
        "opened": [
            {"name": text, "key": key, "open": address.opening(key), "close": address.closing(key)}
            for text, key in zip(texts, keys, strict=True)
        ],
        "missing": missing,
        "found": _node_links(index, found, address),
        "found_nothing": bool(form.value("find")) and not found and not exact,
        "here": address.narrowed(),
        "table": address.table(thing=texts[-1]) if texts else address.table(),
        "whole": address.of(()),
        "conflicts": address.conflicts(),
        **_picture_context(index, opened, form, clearance, address),
    }
    if not request.htmx:
        context["predicates"] = suggested_predicates(clearance, form.value("project"))
    response = page_or_fragment(
        request, "facts/graph.html", context, fragment="facts/graph_view.html", target=TARGET
    )
    return update_address_bar(request, response, context["here"], replace=False)


def _picture_context(
    index: graph_index.GraphIndex,
    opened: list[str],
    form: GraphFilter,
    clearance: Clearance,
    address: GraphAddress,
) -> dict[str, Any]:
    """Return the picture and, with open nodes, the panel of the last one."""
    project = form.value("project")
    survey = contradictions.find_contradictions(clearance, project=project)
    survey = survey.narrowed(predicate=form.value("predicate"))
    picture = graph.draw_graph(index, opened, {row.pk for group in survey.open for row in group.rows})
    context: dict[str, Any] = {
        "picture": picture,
        "nodes": [(node, address.opening(node.key)) for node in picture.nodes],
        "colours": [(colour, address.narrowed(predicate=colour.predicate)) for colour in picture.colours],
        "contradictions": len(survey.open),
        "foremost": _node_links(index, index.ranked(index.of)[:MAX_TOP_NODES], address),
    }
    if opened:
        ended = query_facts(clearance, project=project, ended=True)
        panel = build_panel(opened[-1], index, form.select(clearance), ended, survey, address, clearance)
        context |= {
            "panel": panel,
            "alone": address.of([panel.key]),
            "past": address.table(thing=panel.text, state="ended"),
            "without": address.closing(panel.key),
        }
    return context


def _parse_open_nodes(index: graph_index.GraphIndex, keys: list[str]) -> tuple[list[str], list[str]]:
    """Return the distinct nodes that the address names, and the keys without a node."""
    names = {key: index.known(key) for key in keys}
    return list(dict.fromkeys(filter(None, names.values()))), [key for key, name in names.items() if not name]


def _exact_match(found: list[str], typed: str) -> str | None:
    """Return the only node found, or the one with exactly this name."""
    if len(found) == 1:
        return found[0]
    wanted = normalise_name(typed)
    return wanted if wanted in found else None


def _node_links(
    index: graph_index.GraphIndex, names: list[str], address: GraphAddress
) -> list[tuple[str, str]]:
    texts = [index.text(name) for name in names]
    return [(text, address.opening(graph_index.node_key(text))) for text in texts]


@require_safe
def suggest_things(request: HttpRequest) -> HttpResponse:
    """Return ``<datalist>`` options: names in visible facts that contain the text in ``find``."""
    form = GraphFilter(request.GET)
    names: list[str] = []
    if form.is_valid():
        index = graph_index.read_graph(form.select(request_clearance(request)))
        names = [index.text(name) for name in index.like(form.value("find"), MAX_SUGGESTED)]
    return render(request, "suggest/projects.html", {"names": names})
