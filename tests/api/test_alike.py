"""Related memories, near-duplicates and merging over the API, with hidden memories."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.memories.schemas import EntityDraft
from memoryhub.models import Memory
from tests.api.conftest import is_problem
from tests.api.test_visibility import FLAGS, LEVELS, expected
from tests.cases import each

pytestmark = pytest.mark.usefixtures("embedding")
SAYING = "The build cache lives on the runner and is emptied every night"


def likes(remember, *levels):
    """Nearly equal memories, one per level; an unknown level is written directly to the table."""
    made = {}
    for number, level in enumerate(levels):
        known = level if level in LEVELS else "public"
        made[level] = remember(f"{SAYING}{'.' * number}", sensitivity=known, project="p")
        Memory.objects.filter(pk=made[level].pk).update(sensitivity=level)
    return made


def ids(cluster):
    return {cluster["keep"]["id"], *(other["memory"]["id"] for other in cluster["others"])}


class TestRelated:
    def test_similar_memories_come_with_reasons(self, bot, remember):
        one = remember(SAYING, tags=["ci"], files_read=["ci.yml"], entities=[EntityDraft(entity="runner")])
        other = remember(SAYING + "!", tags=["ci"], entities=[EntityDraft(entity="runner")])
        remember("Marmalade is made of oranges")
        [found] = bot.get(f"/memories/{one.uid}/related").json()["items"]
        assert found["memory"]["id"] == other.uid
        assert found["similarity"] > 0.9
        assert found["reasons"][0].startswith("nearly identical")
        assert found["reasons"][1:] == ["shares the tag ci", "shares the entity runner"]

    def test_shared_files_are_a_reason(self, bot, remember):
        one = remember("Marmalade is made of oranges", files_read=["a.py", "b.py"])
        remember("Trains leave on time", files_modified=["a.py", "b.py"])
        [found] = bot.get(f"/memories/{one.uid}/related").json()["items"]
        assert found["reasons"] == ["shares the files a.py, b.py"]

    def test_words_are_used_without_vectors(self, bot, remember, configure):
        configure(embeddings="none")
        one, other = remember(SAYING), remember("The build cache on the runner is full")
        remember("Marmalade is made of oranges")
        body = bot.get(f"/memories/{one.uid}/related").json()
        assert [found["memory"]["id"] for found in body["items"]] == [other.uid]
        assert body["items"][0]["similarity"] is None
        assert body["items"][0]["reasons"][0].startswith("shares the words ")
        assert body["note"] == "compared by words: no embeddings are configured"

    def test_reading_counts_no_access(self, bot, remember):
        one, other = remember(SAYING), remember(SAYING + "!")
        bot.get(f"/memories/{one.uid}/related")
        assert set(Memory.objects.values_list("accessed_count", flat=True)) == {0}
        assert other.uid

    def test_query_count_is_constant(self, bot, remember):
        def count():
            with CaptureQueriesContext(connection) as queries:
                assert bot.get(f"/memories/{one.uid}/related", limit=50).status_code == 200
            return len(queries)

        one = remember(SAYING, files_read=["a.py"], tags=["t"])
        remember(f"{SAYING}!", files_read=["a.py"], tags=["t"])
        count()
        few = count()
        for number in range(30):
            remember(f"{SAYING} {number}", files_read=["a.py"], tags=["t"])
        count()
        assert count() <= few + 1

    @pytest.mark.slow
    @each("flags", FLAGS)
    @each("clearance", LEVELS)
    @each("embeddings", ["wordllama", "none"])
    def test_levels_are_shown_if_requested_and_cleared(
        self, remember, agent, configure, clearance, flags, embeddings
    ):
        configure(embeddings=embeddings)
        made = likes(remember, "public", "private", "secret", "cosmic")
        one = remember(SAYING + " indeed", project="p")
        found = agent(clearance).get(f"/memories/{one.uid}/related", limit=50, **flags).json()
        shown = {item["memory"]["id"] for item in found["items"]}
        assert shown == {made[level].uid for level in expected(clearance, flags)}
        assert found["total"] == len(shown)

    @pytest.mark.parametrize("embeddings", ["wordllama", "none"])
    def test_hidden_memories_change_nothing(self, remember, agent, configure, embeddings):
        configure(embeddings=embeddings)
        one, two = remember(SAYING, files_read=["a.py"], tags=["t"]), None
        two = remember(SAYING + "!", files_read=["a.py"], tags=["t"])
        before = agent("public").get(f"/memories/{one.uid}/related").json()
        for number in range(9):
            remember(f"{SAYING}{number}", sensitivity="secret", files_read=["a.py"], tags=["t"])
        assert agent("public", name="b").get(f"/memories/{one.uid}/related").json() == before
        assert [item["memory"]["id"] for item in before["items"]] == [two.uid]

    def test_hidden_memory_is_404(self, agent, four_levels):
        for level in ("private", "secret", "cosmic"):
            is_problem(agent("public", name=level).get(f"/memories/{four_levels[level].uid}/related"), 404)


class TestDuplicates:
    def test_cluster_names_the_kept_memory_and_the_reason(self, bot, remember):
        short, long = remember(SAYING, project="p"), remember(SAYING + " at two", project="p")
        remember("Marmalade is made of oranges", project="p")
        body = bot.get("/duplicates").json()
        [cluster] = body["items"]
        assert (cluster["keep"]["id"], cluster["why"]) == (long.uid, "it has the longest text")
        assert [other["memory"]["id"] for other in cluster["others"]] == [short.uid]
        assert 0.7 < cluster["similarity"] <= 1
        assert (body["complete"], body["notes"], body["memories"], body["total"]) == (True, [], 3, 1)

    def test_pages_and_filters(self, bot, remember):
        for number, words in enumerate(("apples fall", "trains run late", "the moon is cheese")):
            project = "q" if number == 2 else "p"
            remember(words, project=project), remember(f"{words}!", project=project)
        first = bot.get("/duplicates", limit=2).json()
        second = bot.get("/duplicates", limit=2, cursor=first["next_cursor"]).json()
        assert (first["total"], len(first["items"]), len(second["items"])) == (3, 2, 1)
        assert second["next_cursor"] is None
        assert bot.get("/duplicates", project="q").json()["total"] == 1
        assert bot.get("/duplicates", similarity=1).json()["total"] <= 3
        is_problem(bot.get("/duplicates", cursor="x"), 422)
        is_problem(bot.get("/duplicates", similarity=2), 422)

    @pytest.mark.slow
    @pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: "+".join(flags) or "unasked")
    @pytest.mark.parametrize("clearance", LEVELS)
    def test_levels_are_shown_if_requested_and_cleared(self, remember, agent, clearance, flags):
        made = likes(remember, "public", "private", "secret", "cosmic")
        one = remember(SAYING + " indeed", project="p")
        body = agent(clearance).get("/duplicates", **flags).json()
        wanted = {one.uid, *(made[level].uid for level in expected(clearance, flags))}
        assert set().union(*map(ids, body["items"])) == wanted
        assert body["memories"] == body["compared"] == len(wanted)

    def test_token_of_one_project_sees_no_other(self, remember, agent):
        for project in ("p", "q"):
            remember(SAYING, project=project), remember(SAYING + "!", project=project)
        body = agent(projects=["p"]).get("/duplicates").json()
        assert [cluster["keep"]["project"] for cluster in body["items"]] == ["p"]


class TestMerging:
    def test_merge_and_undo(self, bot, remember):
        one, other = remember(SAYING, tags=["a"]), remember(SAYING + "!", tags=["b"])
        response = bot.post(f"/memories/{one.uid}/merge", {"others": [other.uid]})
        body = response.json()
        assert response.status_code == 200
        assert (body["outcome"], body["others"], body["memory"]["tags"]) == (
            "merged",
            [other.uid],
            ["a", "b"],
        )
        assert response["ETag"] == bot.get(f"/memories/{one.uid}")["ETag"]
        is_problem(bot.get(f"/memories/{other.uid}"), 404)
        undone = bot.post(f"/merges/{body['merge']}/undo").json()
        assert (undone["outcome"], undone["memory"]["tags"]) == ("undone", ["a"])
        assert bot.get(f"/memories/{other.uid}").status_code == 200
        is_problem(bot.post(f"/merges/{body['merge']}/undo"), 409, "conflict")

    def test_merge_with_a_new_text(self, bot, remember):
        one, other = remember(SAYING), remember(SAYING + "!")
        body = {"others": [other.uid], "content": "Caches live on runners"}
        assert bot.post(f"/memories/{one.uid}/merge", body).json()["memory"]["content"] == body["content"]
        [revision] = bot.get(f"/memories/{one.uid}/history").json()["revisions"]
        assert revision["before"]["content"] == SAYING

    @each(
        "body",
        [{}, {"others": []}, {"others": ["x"] * 101}, {"others": "x"}, {"others": ["x"], "content": " "}],
    )
    def test_invalid_values_are_named(self, bot, remember, body):
        is_problem(bot.post(f"/memories/{remember().uid}/merge", body), 422)

    def test_memories_of_different_places_conflict(self, bot, remember):
        one, other = remember("one", project="p"), remember("other", project="q")
        problem = is_problem(bot.post(f"/memories/{one.uid}/merge", {"others": [other.uid]}), 409, "conflict")
        assert problem["errors"][0]["field"] == "others"

    def test_merging_needs_the_right_to_write(self, agent, remember):
        reader = agent(rights=["read"])
        is_problem(reader.post(f"/memories/{remember().uid}/merge", {"others": ["x"]}), 403)
        is_problem(reader.post("/merges/x/undo"), 403)

    @each("clearance", LEVELS)
    def test_hidden_memories_look_like_missing_ones(self, agent, four_levels, clearance):
        someone, public = agent(clearance), four_levels["public"]
        absent = is_problem(someone.post(f"/memories/{public.uid}/merge", {"others": ["nothing"]}), 422)
        gone = is_problem(someone.post("/memories/nothing/merge", {"others": [public.uid]}), 404)
        for level, memory in four_levels.items():
            if level in expected(clearance, {"allow_private": True, "allow_secret": True}):
                continue
            asked = someone.post(f"/memories/{public.uid}/merge", {"others": [memory.uid]})
            problem = is_problem(asked, 422)
            assert (
                problem["errors"][0]["message"].replace(memory.uid, "nothing")
                == absent["errors"][0]["message"]
            )
            asked = someone.post(f"/memories/{memory.uid}/merge", {"others": [public.uid]})
            assert is_problem(asked, 404)["detail"] == gone["detail"]

    def test_merge_of_hidden_memories_cannot_be_undone(self, agent, remember):
        one, secret = remember(SAYING), remember(SAYING + "!", sensitivity="secret")
        merge = agent("secret").post(f"/memories/{one.uid}/merge", {"others": [secret.uid]}).json()["merge"]
        for path in (merge, "nothing"):
            is_problem(agent("private", name=path).post(f"/merges/{path}/undo"), 404)
