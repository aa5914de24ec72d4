"""Sessions over HTTP tell nothing of hidden memories: not by themselves, their bounds or their order."""

from tests.api.conftest import is_problem


def test_a_session_with_nothing_to_see_in_it_is_404(agent):
    boss, low = agent("secret"), agent("public")
    boss.post("/memories", {"content": "x", "sensitivity": "secret", "session_id": "night"})
    is_problem(low.get("/sessions/night"), 404)
    assert low.get("/sessions").json()["items"] == []
    is_problem(boss.get("/sessions/night"), 404)
    assert boss.get("/sessions/night", allow_secret=True).status_code == 200


def test_a_session_tells_nothing_of_hidden_memories_in_it(agent):
    keeper, reader = agent("secret", "tok-secret"), agent("public", "tok-public")
    days = {"sensitivity": "secret", "created_at": "2019-05-05"}, {"created_at": "2024-05-05"}
    for who, fields in zip((keeper, reader), days, strict=True):
        who.post("/memories", {"content": "words", "session_id": "hs", **fields})
    [shown] = reader.get("/sessions").json()["items"]
    assert shown == reader.get("/sessions/hs").json()["session"]
    assert (shown["started_at"], shown["last_at"]) == ("2024-05-05T00:00:00Z",) * 2
    assert shown["agent"] == "token:tok-public"
    lines = reader.get("/timeline", session_id="hs").json()["items"]
    assert {line["at"] for line in lines} == {"2024-05-05T00:00:00Z"}


def test_sessions_are_bounded_and_paged_by_what_the_reader_may_see(agent):
    keeper, reader = agent("secret", "tok-secret"), agent("public", "tok-public")
    for n in (1, 2, 3):
        reader.post("/memories", {"content": f"{n}", "session_id": f"s{n}", "created_at": f"2024-05-0{n}"})
    hidden = {"content": "hidden", "session_id": "s1", "sensitivity": "secret"}
    keeper.post("/memories", {**hidden, "created_at": "2025-05-05"})
    asked, order, cursor = {"allow_secret": "true"}, [], {}
    while True:
        page = reader.get("/sessions", limit=1, **asked, **cursor).json()
        order += [item["session_id"] for item in page["items"]]
        if not page["next_cursor"]:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert order == ["s3", "s2", "s1"]
    assert reader.get("/sessions", since="2024-06-01", **asked).json()["total"] == 0
    assert keeper.get("/sessions", since="2024-06-01", **asked).json()["total"] == 1
    assert keeper.get("/sessions", limit=1, **asked).json()["items"][0]["session_id"] == "s1"
