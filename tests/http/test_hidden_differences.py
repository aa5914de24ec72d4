"""Stores that differ only in hidden rows give equal answers: API, tools, MCP and pages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from memoryhub.api.router import api
from memoryhub.core.vocabulary import Right
from memoryhub.models import Fact, Injection, MaintenanceRun, Membership, Memory, MemoryCheck
from memoryhub.toolsets import TOOLSETS
from memoryhub.transfer.formats import WRITERS
from memoryhub.web import urls
from memoryhub.web.review import TITLES
from tests.api.conftest import API, Agent, agent
from tests.clients import signed_in_client
from tests.http.hidden_store import HIDDEN, PROJECT, SESSION, StoppedWorld, fill

__all__ = ["agent"]

QUERY = "zebra quokka gateway hush"
LEVELS = {"allow_private": True, "allow_secret": True}
ANSWERS = dict[str, Any]
Call = Callable[[Agent], Any]
PAGE_SIZE, MAX_PAGES = 10, 2  # all visible rows without notes


def visible(model: Any = Memory, **filters: Any) -> str:
    return str(
        model.objects.filter(project=PROJECT, **filters).order_by("pk").values_list("uid", flat=True)[0]
    )


def get(path: str, /, **query: Any) -> Call:
    return lambda bot: bot.get(path, **query)


def post(path: str, /, **body: Any) -> Call:
    return lambda bot: bot.post(path, body)


def pages(path: str, /, **query: Any) -> Call:
    """The first pages of a list."""

    def read(bot: Agent) -> list[Any]:
        found, cursor = [], {}
        while True:
            response = bot.get(path, limit=PAGE_SIZE, **query, **cursor)
            found.append(response)
            cursor = {"cursor": json.loads(response.content).get("next_cursor")}
            if not cursor["cursor"] or len(found) == MAX_PAGES:
                return found

    return read


def api_reads() -> dict[str, list[Call]]:
    """Return the calls of each read operation, with arguments from the visible rows."""
    one, gone = visible(), visible(deleted_at__isnull=False)
    run, searched = visible(MaintenanceRun), {"query": QUERY, "min_score": 0, "limit": 100, **LEVELS}
    modes = ("hybrid", "lexical", "semantic")
    event = {"session_id": "new", "project": PROJECT, "data": {"prompt": QUERY}}
    return {
        "get /memories": [
            pages("/memories", **LEVELS, order=order)
            for order in ("-updated_at", "-created_at", "-accessed_count")
        ]
        + [pages("/memories", **{name: value}) for name, value in FILTERS.items()],
        "get /memories/{id}/rating": [get(f"/memories/{one}/rating", **LEVELS)],
        "get /memories/{id}": [get(f"/memories/{one}", **LEVELS), get(f"/memories/{gone}", trashed=True)],
        "get /memories/{id}/history": [get(f"/memories/{one}/history", **LEVELS)],
        "get /memories/{id}/related": [get(f"/memories/{one}/related", limit=50, **LEVELS)],
        "get /memories/prompt": [get("/memories/prompt", **LEVELS)],
        "get /project-identities/{name}": [get(f"/project-identities/{PROJECT}")],
        "post /backfills/check": [post("/backfills/check", session_id=SESSION, project=PROJECT)],
        "get /projects/{name}": [get(f"/projects/{PROJECT}")],
        "get /projects/{name}/page": [get(f"/projects/{PROJECT}/page", **LEVELS)],
        "get /duplicates": [pages("/duplicates"), pages("/duplicates", similarity=0.3, **LEVELS)],
        "get /search": [get("/search", mode=mode, **searched) for mode in modes]
        + [
            get("/search", query=text, min_score=0)
            for text in ("zebr", "qoukka", "gatewya", '"the fence"', "hush", "when did zebras move last week")
        ]
        + [get("/search", as_of=timezone.now().isoformat(), **searched)],
        "post /search": [post("/search", **searched)],
        "post /recall": [
            post("/recall", query=QUERY, max_tokens=most, ranking=ranking, **LEVELS)
            for most in (300, 20_000)
            for ranking in ("letsgo", "memory-mcp")
        ],
        "post /inject": [
            post(
                "/inject",
                prompt=text,
                session_id=session,
                project=project,
                token_budget=50_000,
                max_count=100,
            )
            for text in (f"what about {QUERY}?", "the fence in src/gate.py", "qoukka gatewya last month")
            for session, project in (("", ""), (SESSION, PROJECT))
        ],
        "get /checks": [pages("/checks", **LEVELS)],
        "get /checks/{check_id}": [get(f"/checks/{visible(MemoryCheck)}", **LEVELS)],
        "post /checks/{check_id}/run": [post(f"/checks/{visible(MemoryCheck)}/run")],
        "post /injection/effect": [post("/injection/effect", trash=[one])],
        "get /timeline": [pages("/timeline", **LEVELS), pages("/timeline", session_id=SESSION)],
        "get /sessions": [pages("/sessions", **LEVELS)],
        "get /sessions/{session_id}": [pages(f"/sessions/{SESSION}", **LEVELS)],
        "get /facts": [pages("/facts"), pages("/facts", subject="gateway", **LEVELS)],
        "get /journal": [pages("/journal", **LEVELS), pages("/journal", operation="insert")],
        "get /journal/verify": [get("/journal/verify")],
        "get /stats": [get("/stats", **LEVELS), get("/stats")],
        "get /tools": [get("/tools")],
        "get /tools/{toolset}": [get(f"/tools/{name}") for name in TOOLSETS],
        "post /tools/{toolset}/{tool}": [
            post(f"/tools/{toolset}/{tool}", **body)
            for (toolset, tool), bodies in tool_reads(one).items()
            for body in bodies
        ],
        "post /tools/{toolset}": [
            post("/tools/mira", name="memory", arguments={"action": "recall", "query": QUERY, "limit": 50})
        ],
        "post /hooks/claude-code/status": [
            post("/hooks/claude-code/status", session_id=SESSION, cwd=f"/{PROJECT}")
        ],
        "post /events": [
            post("/events", event="prompt:submit", **event),
            post("/events", event="session:start", **event),
        ],
        "post /hooks/claude-code": [
            post(
                "/hooks/claude-code",
                hook_event_name="UserPromptSubmit",
                session_id="new",
                prompt=QUERY,
                cwd="/zoo",
            ),
            post(
                "/hooks/claude-code",
                hook_event_name="SessionStart",
                session_id="new",
                source="startup",
                cwd="/zoo",
            ),
        ],
        "post /hooks/{agent}": [
            post(
                "/hooks/codex", hook_event_name="UserPromptSubmit", session_id="new", prompt=QUERY, cwd="/zoo"
            ),
            post(
                "/hooks/cursor",
                hook_event_name="sessionStart",
                conversation_id="new",
                workspace_roots=["/zoo"],
            ),
        ],
        "get /maintenance": [pages("/maintenance")],
        "get /maintenance/{id}": [get(f"/maintenance/{run}", **LEVELS)],
        "get /import": [get("/import")],
        "get /import/{id}": [get(f"/import/{run}")],
        "get /extract/{id}": [get("/extract/none")],
        "get /export": [get("/export", whole=True, **LEVELS)]
        + [get("/export", format=name, **LEVELS) for name in WRITERS],
        "get /healthz": [get("/healthz")],
        "get /readyz": [get("/readyz")],
    }


FILTERS = {
    "tag": "zebra",
    "concept": "gotcha",
    "file": "gate.py",
    "entity": "quokka",
    "session_id": SESSION,
    "category": "ops",
    "type": "decision",
    "trashed": True,
}
# Operations that change the store. Their answers about hidden duplicates are tested elsewhere.
WRITES = {
    *("post /memories", "post /memories/batch", "patch /memories/{id}", "delete /memories/{id}"),
    *("post /memories/{id}/rating", "delete /memories/{id}/rating"),
    *("post /memories/{id}/restore", "post /memories/{id}/merge", "post /merges/{id}/undo", "post /extract"),
    *(
        "post /facts",
        "delete /facts/{id}",
        "post /import",
        "post /import/{id}/stop",
        "post /import/{id}/resume",
    ),
    *("post /maintenance", "post /maintenance/{id}/undo", "post /maintenance/{id}/resume"),
    *(
        "post /maintenance/{id}/stop",
        "patch /projects/{name}",
        "post /projects/{name}/page/corrections",
        "post /project-changes/{change}/undo",
    ),
    *("post /project-renames", "post /project-merges", "post /project-splits"),
    *("post /checks", "put /checks/{check_id}", "delete /checks/{check_id}"),
    *("post /backfills/{run}/events", "delete /backfills/{run}"),
}


def tool_reads(one: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the arguments with which each reading tool is called."""
    searches = [{"query": QUERY, "limit": 100, **LEVELS}, {"query": "qoukka gatewya"}, {"query": "hush"}]
    letsgo: dict[str, list[dict[str, Any]]] = {
        "search_memories": [*searches, {"query": QUERY, "min_score": 0, "limit": 100}],
        "list_memories": [{"limit": 200, **LEVELS}],
        "get_memory": [{"id": one}],
        "search_by_file": [{"path": "src/gate.py", "limit": 200, **LEVELS}],
        "search_by_concept": [{"concept": "gotcha", "limit": 200, **LEVELS}],
        "get_timeline": [{"limit": 200, **LEVELS}],
        "query_facts": [{"limit": 200, **LEVELS}],
    }
    recalls = [{**one, "max_tokens": 20_000} for one in searches]
    return {
        **{("letsgo", tool): bodies for tool, bodies in letsgo.items()},
        ("letsgo", "memory"): [{"operation": "search_memories", **one} for one in searches],
        ("memory-mcp", "memory_recall"): recalls,
        ("mira", "memory"): [{"action": "recall", **one} for one in searches],
        ("pigo", "memory_recall"): searches,
    }


def test_every_operation_is_compared_or_changes_the_store(db, monkeypatch):
    fill(StoppedWorld(monkeypatch), [], 0)
    known = {
        f"{method} {path.removeprefix(API)}"
        for path, operations in api.get_openapi_schema()["paths"].items()
        for method in operations
    }
    assert known == set(api_reads()) | WRITES
    reading = {
        (toolset.name, tool.name)
        for toolset in TOOLSETS.values()
        for tool in toolset.tools
        if tool.right in (Right.READ, None)
    }
    assert reading == set(tool_reads(""))


def mcp_reads(bot: Agent) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield a name and a call of each reading tool over MCP."""
    for (toolset, tool), bodies in tool_reads(visible()).items():
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": bodies[0]},
        }
        body = json.dumps(message)
        yield (
            f"mcp {toolset} {tool}",
            lambda path=f"/mcp/{toolset}", body=body: bot.http.post(
                path, body, content_type="application/json", headers={"Accept": "application/json"}
            ),
        )


PAGE_QUERIES = {
    "memories": [
        *("tag=zebra", "order=-importance", "q=zebr", "q=qoukka", f"q={QUERY.replace(' ', '+')}&min_score=0"),
        "q=zebra&min_score=0&order=-importance",
    ],
    "palette": ["q=zebra", "q=hush"],
    "project-names": ["q=f", "q=z"],
    "fact-things": ["q=gate", "thing=gate"],
    "preview": ["prompt=what+about+zebra+quokka%3F"],
    "duplicates": ["similarity=0.95"],
    "review": [f"tab={tab}" for tab in TITLES],
    "facts": ["subject=gateway"],
    "timeline-entries": [f"project={PROJECT}"],
    "trash": ["tab=expired"],
    "export": ["format=memoryhub", "format=markdown"],
    "glance": ["days=7"],
}
NOT_READ = {"logout", "login", "single-sign-on", "single-sign-on-back", "journal-row"}


def addresses() -> Iterator[str]:
    """Yield the pages without arguments, and those about visible rows."""
    models = {
        "memory": Memory,
        "review-card": Memory,
        "fact": Fact,
        "injection": Injection,
        "run": MaintenanceRun,
    }
    for pattern in urls.urlpatterns:
        name, converters = pattern.name or "", set(pattern.pattern.converters)
        if not converters and name and name not in NOT_READ:
            yield from (f"{reverse(name)}?{query}" for query in ["", *PAGE_QUERIES.get(name, [])])
        elif converters == {"session_id"}:
            yield reverse(name, kwargs={"session_id": SESSION}) + f"?project={PROJECT}"
        elif converters == {"uid"}:
            model = next((models[start] for start in models if name.startswith(start)), Memory)
            yield reverse(name, kwargs={"uid": visible(model)})


# Tokens of forms, keys of rows in anchors and cursors, and what the clock says.
_MASKED = re.compile(
    r'name="csrfmiddlewaretoken" value="[^"]+"|"X-CSRFToken": *"[^"]+"|event-\d+-[0-9a-f]{12}|cursor=[\w-]+'
    r'|"?next_cursor"?: ?"[^"]*"|"(?:took_ms|request_id|exported_at)":[^,}]+|checked <time.*?</time>'
    r"|\d+(?:\.\d+)? ?ms\b"
)


def shown(response: Any) -> Any:
    if isinstance(response, list):
        return [shown(one) for one in response]
    body = b"".join(response.streaming_content) if response.streaming else response.content
    return response.status_code, _MASKED.sub("…", body.decode(errors="replace"))


class Compared:
    """Takes the answers of a caller in a store; everything is rolled back."""

    def __init__(self, world: StoppedWorld, notes: int) -> None:
        self.world, self.notes = world, notes

    def answers(
        self, hidden: list[dict[str, Any]], ask: Callable[[], Iterable[tuple[str, Callable[[], Any]]]]
    ) -> ANSWERS:
        found: ANSWERS = {}
        with transaction.atomic():
            fill(self.world, hidden, self.notes)
            for name, call in ask():
                with transaction.atomic(), self.world.ids_of("call", anew=True):
                    found[name] = shown(call())
                    transaction.set_rollback(True)
            transaction.set_rollback(True)
        return found


@pytest.fixture
def world(configure: Any, monkeypatch: pytest.MonkeyPatch) -> StoppedWorld:
    configure(
        max_memories=0,
        injection_deadline_ms=60_000,
        embeddings="wordllama",
        session_end_consolidation="manual",
        session_end_compression="manual",
    )
    return StoppedWorld(monkeypatch)


def differences(without: ANSWERS, having: ANSWERS) -> list[str]:
    assert without.keys() == having.keys()
    return [
        _first_difference(name, str(without[name]), str(having[name]))
        for name in without
        if without[name] != having[name]
    ]


def _first_difference(name: str, one: str, other: str) -> str:
    start = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    start = max(start - 60, 0)
    return f"{name}: …{one[start : start + 150]} != …{other[start : start + 150]}"


TOKENS: dict[str, dict[str, Any]] = {
    "public": {"clearance": "public"},
    "confined": {"clearance": "secret", "projects": [PROJECT]},
}


# Operations that search; a search compares all matches in a small store, and only some in a large one.
SEARCHES = re.compile(r"search|recall|inject|related|duplicates|prompt|tools|hooks|events|checks")


@pytest.mark.long
@pytest.mark.parametrize(
    ("caller", "notes", "wanted"),
    [("public", 0, re.compile("")), ("public", 230, SEARCHES), ("confined", 230, re.compile(""))],
    ids=["public", "searches in a large store", "confined in a large store"],
)
def test_api_and_tools_answer_the_same_with_hidden_rows(agent, world, caller, notes, wanted):
    bot = agent(owner="kim", **TOKENS[caller])

    def ask() -> Iterator[tuple[str, Callable[[], Any]]]:
        for name, calls in api_reads().items():
            for number, call in enumerate(calls if wanted.search(name) else []):
                yield f"{name} {number}", lambda call=call: call(bot)
        yield from mcp_reads(bot)

    compared = Compared(world, notes)
    without, having = (compared.answers(hidden, ask) for hidden in ([], HIDDEN[caller]))
    refused = [name for name, answer in without.items() if isinstance(answer, tuple) and answer[0] != 200]
    assert refused == ([] if wanted is SEARCHES else ["get /import/{id} 0", "get /extract/{id} 0"])
    assert differences(without, having) == []


@pytest.mark.long
@pytest.mark.parametrize("caller", TOKENS)
def test_pages_show_the_same_with_hidden_rows(db, world, caller):
    kim = User.objects.create_user("kim", is_staff=False)
    if caller == "confined":
        Membership.objects.create(user=kim, project=PROJECT, clearance="secret")
    names = ("view_maintenancerun", "add_memory", "change_memory", "delete_memory")
    kim.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = signed_in_client(User.objects.get(pk=kim.pk), "private", "secret")

    def ask() -> Iterator[tuple[str, Callable[[], Any]]]:
        for address in addresses():
            yield address, lambda address=address: client.get(address, headers={"HX-Request": "true"})

    compared = Compared(world, 0)
    without = compared.answers([], ask)
    only_forms = {name for name, (status, _) in without.items() if status == 405}  # they show the same page
    having = compared.answers(HIDDEN[caller], lambda: (one for one in ask() if one[0] not in only_forms))
    pages = {name: answer for name, answer in without.items() if name not in only_forms}
    assert differences(pages, having) == []
