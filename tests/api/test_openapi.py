"""The OpenAPI document: public, correct, and readable in a browser."""

import html
import json
import re
import shlex

import pytest
from django.contrib.staticfiles import finders

from memoryhub.api import router
from memoryhub.web.base import static_files
from tests.api.conftest import Agent, is_problem

OPERATIONS = {
    *(
        "GET /memories",
        "POST /memories",
        "POST /memories/batch",
        "GET /memories/{id}",
        "PATCH /memories/{id}",
    ),
    *("GET /memories/{id}/rating", "POST /memories/{id}/rating", "DELETE /memories/{id}/rating"),
    *("DELETE /memories/{id}", "POST /memories/{id}/restore", "GET /memories/{id}/history"),
    *("GET /memories/{id}/related", "GET /duplicates", "POST /memories/{id}/merge", "POST /merges/{id}/undo"),
    *("GET /search", "POST /search", "GET /timeline", "GET /sessions", "GET /sessions/{session_id}"),
    *("GET /facts", "POST /facts", "DELETE /facts/{id}", "GET /journal", "GET /journal/verify", "GET /stats"),
    *("POST /maintenance", "GET /maintenance", "GET /maintenance/{id}"),
    *(f"POST /maintenance/{{id}}/{action}" for action in ("undo", "resume", "stop")),
    *("GET /projects/{name}/page", "POST /projects/{name}/page/corrections"),
    *("GET /projects/{name}", "PATCH /projects/{name}", "POST /project-changes/{change}/undo"),
    *("POST /project-renames", "POST /project-merges", "POST /project-splits"),
    "GET /project-identities/{name}",
    "POST /hooks/claude-code/status",
    *("POST /events", "POST /hooks/claude-code", "POST /hooks/{agent}", "POST /inject", "POST /recall"),
    *("POST /injection/effect", "GET /checks", "POST /checks", "POST /checks/{check_id}/run"),
    *("GET /checks/{check_id}", "PUT /checks/{check_id}", "DELETE /checks/{check_id}"),
    *("POST /backfills/check", "POST /backfills/{run}/events", "DELETE /backfills/{run}"),
    *("GET /import", "POST /import", "GET /import/{id}", "GET /export"),
    *("POST /import/{id}/stop", "POST /import/{id}/resume"),
    *("POST /tools/{toolset}", "GET /memories/prompt"),
    *("POST /extract", "GET /extract/{id}"),
    *("GET /tools", "GET /tools/{toolset}", "POST /tools/{toolset}/{tool}", "GET /healthz", "GET /readyz"),
}


@pytest.fixture
def description(db):
    response = Agent().get("/openapi.json")
    assert response.status_code == 200
    return response.json()


def test_every_operation_of_the_contract_is_described(description):
    described = {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, operations in description["paths"].items()
        for method in operations
    }
    assert described == OPERATIONS


def test_operation_ids_are_short_and_unique(description):
    ids = [op["operationId"] for operations in description["paths"].values() for op in operations.values()]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-z_]+", name) for name in ids)


def test_problems_are_described_under_their_media_type(description):
    for path, operations in description["paths"].items():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                expected = "application/problem+json" if int(status) >= 400 else "application/json"
                types = list(response["content"])
                assert types == [expected] or (path.endswith("/export") and "application/x-ndjson" in types)


def test_every_operation_but_health_needs_a_token(description):
    assert set(description["components"]["securitySchemes"]) == {"BearerToken", "ApiKey"}
    for path, operations in description["paths"].items():
        for operation in operations.values():
            assert ("security" in operation) is not path.endswith("z")


def test_page_needs_a_login(db, client):
    response = client.get("/api/v1/docs")
    assert response.status_code == 302
    assert response["Location"].startswith("/login/")


def test_page_loads_nothing_from_other_sites(admin_client):
    page = admin_client.get("/api/v1/docs").content.decode()
    sources = re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="([^"?]+)', page)
    assert sources
    for source in sources:
        assert source.startswith("/static/")
        assert finders.find(source.removeprefix("/static/")) or static_files.find_bundle(
            source.removeprefix("/static/")
        )
    assert not re.search(r"<script>|<style>|\son\w+=|https?://", page)


def test_page_links_every_operation_by_its_group(admin_client):
    page = admin_client.get("/api/v1/docs").content.decode()
    shown = re.findall(r"<td><code>(\w+)</code></td><td><code>/api/v1([^<]+)</code>", page)
    assert {" ".join(one) for one in shown} == OPERATIONS
    assert '<nav id="site-nav"' in page
    assert page.count(">Memories</h2>") == 1


def test_every_operation_has_a_page_with_its_fields_and_a_request(admin_client, description):
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            response = admin_client.get(f"/api/v1/docs/{operation['operationId']}")
            assert response.status_code == 200
            page = response.content.decode()
            for parameter in operation.get("parameters", []):
                assert f"<code>{parameter['name']}</code>" in page
            command = html.unescape(re.search(r'id="command">([^<]+)', page)[1])
            sent = shlex.split(command.replace("\\\n", " "))
            assert sent[:3] == ["curl", "-X", method.upper()]
            assert sent[3].startswith("http://testserver/api/v1/")
            assert ("Authorization: Bearer $TOKEN" in sent) is not path.endswith("z")
            assert not set("{}") & set(sent[3])


def test_page_of_an_operation_names_the_fields_of_its_body(admin_client):
    page = admin_client.get("/api/v1/docs/store_memory").content.decode()
    assert "<code>content</code> <span" in page  # required
    assert "Importance, 0 to 1." in page
    assert "EntityDraft" in page
    assert "list of strings, at most 1,000 items" in page
    assert "number, 0 to 1, default 0.5" in page
    assert "<code>201</code> Created" in page
    assert "--json &#x27;{&quot;content&quot;: &quot;…&quot;}&#x27;" in page


def test_request_of_an_operation_is_one_that_the_hub_accepts(bot, description):
    operation = router.DocumentedOperation(description, "/api/v1/memories", "post")
    body = json.loads(shlex.split(operation.example("http://hub/").replace("\\\n", " "))[-1])
    assert bot.post("/memories", body).status_code == 201


def test_operation_that_does_not_exist_is_not_found(admin_client):
    assert admin_client.get("/api/v1/docs/no_such_operation").status_code == 404


def test_summaries_are_sentences(description):
    for operations in description["paths"].values():
        for operation in operations.values():
            assert operation["summary"] != operation["operationId"].replace("_", " ").title()


def test_policy_of_the_page_lets_its_scripts_run(admin_client):
    assert "script-src 'self'" in admin_client.get("/api/v1/docs")["Content-Security-Policy"]
    description = admin_client.get("/api/v1/openapi.json")["Content-Security-Policy"]
    assert description.startswith("default-src 'none'")
    assert "script-src" not in description


def test_page_allows_only_safe_methods(admin_client):
    is_problem(admin_client.post("/api/v1/docs"), 405)
