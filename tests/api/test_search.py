"""Search over HTTP: its response, and that no input breaks it."""

import pytest

from tests.api.conftest import bad_fields
from tests.cases import each

HOSTILE = [
    *(
        "foo.bar",
        "C++",
        '"',
        '""',
        "'",
        "AND",
        "OR",
        "NOT",
        "NEAR(",
        "NEAR(a b)",
        "*",
        "foo*",
        "^foo",
        "^",
        "{}",
    ),
    *(
        "col:val",
        "title:foo",
        "-foo",
        "(",
        ")",
        "((((",
        "foo AND",
        "AND foo",
        '"unbalanced',
        'a"b',
        "\\",
        "%",
        "_",
    ),
    *(
        "",
        " ",
        "\t\n",
        "\x00",
        "a\x00b",
        "日本語",
        "データベース",
        "한국어",
        "中",
        "🦓",
        "🏳️‍🌈",
        "é",
        "É",
        "ﬁ",
        "ß",
    ),
    *(
        ";DROP TABLE memoryhub_memory;--",
        "<script>alert(1)</script>",
        "\u202eabc",
        "\ufeff",
        "\u200b",
        "a" * 5000,
    ),
    *(
        "foo " * 2000,
        '"' * 999,
        "(" * 999,
        "https://example.org/a?b=c&d#e",
        "C:\\path\\file.py",
        "--flag=1",
        "foo/bar",
    ),
]


@pytest.mark.slow
@each("query", HOSTILE)
def test_get_and_post_search_agree_for_any_query(bot, query):
    bot.post("/memories", {"content": 'foo.bar in C++ 日本語データベース 🦓 said "AND" <b>bold</b>'})
    results = []
    for response in (bot.get("/search", query=query), bot.post("/search", {"query": query})):
        assert response.status_code == 200, response.content
        body = response.json()
        assert body["total"] >= len(body["results"])
        results.append(body["results"])
    assert results[0] == results[1]
    assert bot.post("/tools/letsgo/search_memories", {"query": query}).status_code == 200


@each(
    "query",
    ["foo.bar", "C++", "日本語", "データベース", "🦓", "bar in C", '"AND"', "oo.ba", "FOO.BAR", "<b>bold"],
)
def test_words_are_found_in_any_spelling(bot, query):
    bot.post("/memories", {"content": 'foo.bar in C++ 日本語データベース 🦓 said "AND" <b>bold</b>'})
    assert bot.get("/search", query=query, min_score=0).json()["total"] == 1


def test_results_are_sorted_above_min_score_and_explained(bot):
    bot.post("/memories", {"content": "notes about the weather", "title": "weather"})
    bot.post("/memories", {"content": "the migration of the database dropped triggers"})
    bot.post("/memories", {"content": "a database", "title": "Database migration drops triggers"})
    body = bot.get("/search", query="database migration drops triggers").json()
    scores = [hit["score"] for hit in body["results"]]
    assert scores == sorted(scores, reverse=True)
    assert all(score >= 0.35 for score in scores)
    assert body["results"][0]["memory"]["title"] == "Database migration drops triggers"
    for hit in body["results"]:
        parts = hit["components"]
        assert hit["score"] == pytest.approx(
            0.55 * parts["match"]
            + 0.20 * parts["recency"]
            + 0.15 * parts["importance"]
            + 0.10 * parts["trust"],
            abs=1e-3,
        )
    assert body["took_ms"] > 0


def test_a_snippet_marks_hits_and_escapes_the_rest(bot):
    bot.post("/memories", {"content": "<script>alert(1)</script> zebra & <mark>fake</mark>"})
    [hit] = bot.get("/search", query="zebra").json()["results"]
    assert "<mark>zebra</mark>" in hit["snippet"]
    assert "<script>" not in hit["snippet"]
    assert "&lt;mark&gt;fake" in hit["snippet"]


@each("mode", ["hybrid", "lexical", "semantic"])
def test_every_mode_is_accepted_and_the_response_says_what_ran(bot, mode):
    bot.post("/memories", {"content": "zebra"})
    body = bot.get("/search", query="zebra", mode=mode).json()
    assert body["mode"] == "lexical"
    assert body["dense"]["configured"] is False
    assert body["total"] == 1


def test_limit_and_filters_apply(bot):
    for n in range(6):
        bot.post("/memories", {"content": f"zebra number {n}", "project": f"p{n % 2}", "tags": [f"t{n % 3}"]})
    body = bot.get("/search", query="zebra", limit=2).json()
    assert (len(body["results"]), body["total"]) == (2, 6)
    assert bot.get("/search", query="zebra", project="p1").json()["total"] == 3
    assert bot.post("/search", {"query": "zebra", "project": "p1", "tag": "t1"}).json()["total"] == 1
    assert bot.get("/search", query="zebra", since="2999-01-01").json()["total"] == 0


def test_limit_and_min_score_default_to_the_configuration(bot, configure):
    for n in range(6):
        bot.post("/memories", {"content": f"zebra number {n}"})
    configure(search_limit=3)
    assert len(bot.get("/search", query="zebra").json()["results"]) == 3
    configure(min_score=1.0)
    assert bot.get("/search", query="zebra").json()["results"] == []


@each(
    "body, fields",
    [
        ({}, {"query"}),
        ({"query": None}, {"query"}),
        ({"query": 5}, {"query"}),
        ({"query": "x", "limit": 0}, {"limit"}),
        ({"query": "x", "limit": 201}, {"limit"}),
        ({"query": "x", "min_score": -0.1}, {"min_score"}),
        ({"query": "x", "min_score": 1.1, "mode": "psychic"}, {"min_score", "mode"}),
        ({"query": "x", "since": "0001-01-01T00:00:00+23:59"}, {"since"}),
        ({"query": "x", "since": 1e300}, {"since"}),
        ({"query": "x", "allow_secret": "maybe"}, {"allow_secret"}),
        ({"query": "x", "tag": ["a"]}, {"tag"}),
    ],
)
def test_invalid_search_names_every_field(bot, body, fields):
    assert bad_fields(bot.post("/search", body)) == fields


def test_searching_counts_no_access(bot):
    bot.post("/memories", {"content": "zebra"})
    bot.get("/search", query="zebra")
    assert bot.get("/memories").json()["items"][0]["accessed_count"] == 0
