"""HEAD is answered like GET, without a body."""

from tests.api.conftest import Agent
from tests.cases import each

PATHS = ["/healthz", "/readyz", "/stats", "/memories", "/search?query=zebra", "/openapi.json"]


@each("path", PATHS)
def test_head_answers_like_get_without_a_body(bot, path):
    bot.post("/memories", {"content": "zebra"})
    got, asked = bot.http.get(f"/api/v1{path}"), bot.http.head(f"/api/v1{path}")
    assert (asked.status_code, asked.content) == (200, b"")
    assert asked["Content-Type"] == got["Content-Type"]
    assert asked["Cache-Control"] == got["Cache-Control"]


def test_head_needs_a_token_as_get_does(db):
    assert Agent().http.head("/api/v1/memories").status_code == 401


def test_head_is_404_where_get_is_404(bot):
    assert bot.http.head("/api/v1/memories/none").status_code == 404


def test_head_is_refused_without_a_get(bot):
    response = bot.http.head("/api/v1/memories/batch")
    assert (response.status_code, response["Allow"]) == (405, "POST")
