"""A personal memory over HTTP: its owner's alone, whatever the clearance."""

import pytest

from tests.api.conftest import is_problem


class TestPersonalScope:
    """A personal memory is its owner's alone, whatever the clearance."""

    @pytest.fixture
    def diary(self, agent):
        ada = agent("secret", "ada-bot", owner="ada")
        return ada.post("/memories", {"content": "dear diary", "scope": "personal", "project": "p"}).json()[
            "memory"
        ]

    def test_its_owner_sees_it(self, agent, diary):
        same_owner = agent("public", "other-bot", owner="ada")
        assert same_owner.get(f"/memories/{diary['id']}").status_code == 200
        assert same_owner.get("/search", query="dear diary").json()["total"] == 1

    def test_nobody_else_sees_anything_of_it(self, agent, diary):
        bob = agent("secret", "bob-bot", owner="bob")
        is_problem(bob.get(f"/memories/{diary['id']}"), 404)
        is_problem(bob.patch(f"/memories/{diary['id']}", {"scope": "team"}), 404)
        is_problem(bob.delete(f"/memories/{diary['id']}"), 404)
        for path in ("/memories", "/timeline", "/sessions"):
            assert bob.get(path).json()["total"] == 0
        assert bob.get("/search", query="dear diary", min_score=0).json()["results"] == []
        assert bob.get("/stats").json()["total"] == 0
        assert bob.get("/journal", object_id=diary["id"]).json()["total"] == 0

    def test_its_past_does_not_come_along_when_it_is_shared(self, agent, diary):
        ada = agent("secret", "ada-bot", owner="ada")
        ada.patch(f"/memories/{diary['id']}", {"content": "dear team"})
        ada.patch(f"/memories/{diary['id']}", {"scope": "team"})
        shown = agent("secret", "bob-bot", owner="bob").get(f"/memories/{diary['id']}/history")
        assert shown.status_code == 200
        assert b"diary" not in shown.content
