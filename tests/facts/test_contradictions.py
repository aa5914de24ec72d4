"""Contradictions: found, superseded, marked as compatible, and undone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.access.policy import Actor, Clearance
from memoryhub.facts import contradictions, queries, services
from memoryhub.memories import Conflict, NotFound
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact, JournalEntry

MAY = datetime(2026, 5, 1, 12, tzinfo=UTC)
PUBLIC = Clearance.up_to("public", owner="bob")


def store(actor, object, day=0, subject="hub", predicate="led by", **fields):
    draft = FactDraft(subject=subject, predicate=predicate, object=object, **fields)
    return services.create_fact(draft, actor, MAY + timedelta(days=day))[0]


def found(actor, **options):
    return [
        [row.object for row in group.rows]
        for group in contradictions.find_contradictions(actor.clearance, **options).open
    ]


@pytest.fixture
def two(db, actor):
    return store(actor, "Mara"), store(actor, "Bram", day=3)


class TestFinding:
    def test_different_objects_are_found_newest_first(self, two, actor):
        store(actor, "Mara", day=9, subject="harbour")
        assert found(actor) == [["Bram", "Mara"]]

    def test_spelling_of_subject_and_predicate_does_not_matter(self, db, actor):
        store(actor, "Mara", subject="Hub", predicate="led_by")
        store(actor, "Bram", day=1, subject="hub", predicate="ledBy")
        assert found(actor) == [["Bram", "Mara"]]

    def test_same_object_in_other_case_is_no_contradiction(self, db, actor):
        store(actor, "Mara")
        store(actor, "mara ")
        assert found(actor) == []

    def test_other_projects_are_separate(self, two, actor):
        store(actor, "Nils", project="p")
        assert found(actor) == [["Bram", "Mara"]]
        assert found(actor, project="p") == []

    def test_predicate_with_many_objects_is_compatible(self, db, actor):
        store(actor, "Django", predicate="uses")
        store(actor, "SQLite", predicate="uses")
        assert found(actor) == []
        [group] = contradictions.find_contradictions(actor.clearance).together
        assert not group.verdict.one

    def test_hidden_facts_are_not_found(self, db, actor):
        store(actor, "Mara")
        store(actor, "Bram", sensitivity="private")
        assert found(actor) == [["Bram", "Mara"]]
        assert contradictions.find_contradictions(PUBLIC).groups == ()

    def test_confined_viewer_sees_only_their_projects(self, db, actor):
        for project in ("moon", "sun"):
            store(actor, "Mara", project=project)
            store(actor, "Bram", project=project, day=1)
        [group] = contradictions.find_contradictions(Clearance.up_to("secret", projects=["moon"])).groups
        assert {row.project for row in group.rows} == {"moon"}

    def test_hidden_facts_are_no_evidence(self, db, actor):
        for number in range(5):
            store(actor, f"o{number}", predicate="paints", sensitivity="secret")
        store(actor, "a", predicate="paints")
        store(actor, "b", predicate="paints")
        assert found(actor) == []
        assert found(Actor("bob", PUBLIC)) == [["b", "a"]]

    def test_number_of_queries_is_constant(self, two, actor):
        counts = []
        for number in range(2):
            for other in range(5 * number):
                store(actor, f"x{other}", subject=f"s{other}")
                store(actor, f"y{other}", subject=f"s{other}")
            with CaptureQueriesContext(connection) as queries:
                contradictions.find_contradictions(actor.clearance)
            counts.append(len(queries))
        assert counts == [1, 1]


class TestSuperseding:
    def test_older_fact_ends_when_the_newer_begins(self, two, actor):
        old, new = two
        contradictions.supersede_facts(new.uid, [old.uid], actor, MAY + timedelta(days=8))
        old.refresh_from_db()
        assert (old.valid_from, old.valid_until) == (MAY, MAY + timedelta(days=3))
        assert old.superseded_by == new
        new.refresh_from_db()
        assert (new.valid_from, new.valid_until) == (MAY + timedelta(days=3), None)

    def test_newer_superseded_fact_ends_now(self, two, actor):
        old, new = two
        now = MAY + timedelta(days=8)
        contradictions.supersede_facts(old.uid, [new.uid], actor, now)
        new.refresh_from_db()
        assert (new.valid_from, new.valid_until) == (MAY + timedelta(days=3), now)

    def test_superseded_fact_is_neither_contradiction_nor_current(self, two, actor):
        contradictions.supersede_facts(two[1].uid, [two[0].uid], actor)
        assert found(actor) == []
        assert [fact.object for fact in queries.query_facts(actor.clearance)] == ["Bram"]
        assert [fact.object for fact in queries.query_facts(actor.clearance, ended=True)] == ["Mara"]
        assert len(queries.query_facts(actor.clearance, ended=None)) == 2

    def test_superseded_fact_shows_that_the_predicate_takes_one_object(self, db, actor):
        old, new = (store(actor, name, day=day, predicate="uses") for day, name in enumerate(("vi", "ed")))
        contradictions.supersede_facts(new.uid, [old.uid], actor)
        store(actor, "a", subject="other", predicate="uses")
        store(actor, "b", subject="other", predicate="uses", day=1)
        assert found(actor) == [["b", "a"]]

    def test_journal_does_not_contain_the_facts(self, two, actor):
        old, new = two
        contradictions.supersede_facts(new.uid, [old.uid], actor)
        row = JournalEntry.objects.get(operation="supersede")
        assert (row.object_type, row.object_id, row.actor) == ("fact", old.uid, actor.name)
        assert row.detail == {"by": new.uid, "valid_until": None}

    def test_journal_row_has_the_stricter_level(self, db, actor):
        old, new = store(actor, "Mara"), store(actor, "Bram", day=1, sensitivity="secret")
        contradictions.supersede_facts(new.uid, [old.uid], actor)
        assert JournalEntry.objects.get(operation="supersede").sensitivity == "secret"

    def test_undo_restores_everything(self, two, actor):
        before = list(Fact.objects.order_by("pk").values())
        contradictions.supersede_facts(two[1].uid, [two[0].uid], actor)
        contradictions.undo_supersede([two[0].uid], actor)
        assert list(Fact.objects.order_by("pk").values()) == before
        assert found(actor) == [["Bram", "Mara"]]

    def test_undo_restores_an_earlier_end(self, two, actor):
        end = datetime(2099, 1, 1, tzinfo=UTC)
        Fact.objects.filter(pk=two[0].pk).update(valid_until=end)
        contradictions.supersede_facts(two[1].uid, [two[0].uid], actor)
        contradictions.undo_supersede([two[0].uid], actor)
        two[0].refresh_from_db()
        assert two[0].valid_until == end

    def test_superseded_fact_stored_again_contradicts_again(self, two, actor):
        contradictions.supersede_facts(two[1].uid, [two[0].uid], actor, MAY + timedelta(days=4))
        again, created = services.create_fact(
            FactDraft(subject="hub", predicate="led by", object="Mara"), actor, MAY + timedelta(days=9)
        )
        assert created
        assert (again.pk, again.valid_from) == (two[0].pk, MAY + timedelta(days=9))
        assert (again.valid_until, again.superseded_by) == (None, None)
        assert found(actor) == [["Mara", "Bram"]]
        last = JournalEntry.objects.order_by("seq").last()
        assert last.detail["held_until"] == (MAY + timedelta(days=3)).isoformat()

    def test_future_fact_cannot_supersede(self, two, actor):
        draft = FactDraft(subject="hub", predicate="led by", object="Ida")
        later, _ = services.import_fact(draft, ImportedHistory(valid_from=MAY + timedelta(days=900)), actor)
        with pytest.raises(Conflict, match="is not valid yet"):
            contradictions.supersede_facts(later.uid, [two[0].uid], actor, MAY + timedelta(days=9))
        two[0].refresh_from_db()
        assert two[0].superseded_by is None

    def test_second_decision_is_refused(self, two, actor):
        contradictions.supersede_facts(two[1].uid, [two[0].uid], actor)
        with pytest.raises(Conflict, match="ended already"):
            contradictions.supersede_facts(two[1].uid, [two[0].uid], actor)
        contradictions.undo_supersede([two[0].uid], actor)
        with pytest.raises(Conflict, match="is not superseded"):
            contradictions.undo_supersede([two[0].uid], actor)

    def test_facts_of_another_subject_are_refused(self, two, actor):
        other = store(actor, "Nils", subject="harbour")
        with pytest.raises(Conflict, match="the same project, subject and predicate"):
            contradictions.supersede_facts(two[1].uid, [other.uid], actor)
        with pytest.raises(Conflict, match="at least two"):
            contradictions.supersede_facts(two[1].uid, [two[1].uid], actor)

    def test_hidden_fact_is_not_found(self, db, actor):
        old, new = store(actor, "Mara", sensitivity="private"), store(actor, "Bram", day=1)
        bob = Actor("user:bob", PUBLIC)
        with pytest.raises(NotFound):
            contradictions.supersede_facts(new.uid, [old.uid], bob)
        contradictions.supersede_facts(new.uid, [old.uid], actor)
        with pytest.raises(NotFound):
            contradictions.undo_supersede([old.uid], bob)


class TestCompatibleFacts:
    def test_compatible_facts_are_no_contradiction(self, two, actor):
        contradictions.mark_compatible([one.uid for one in two], actor)
        assert found(actor) == []
        [group] = contradictions.find_contradictions(actor.clearance).together
        assert group.settled

    def test_decisions_take_one_more_query(self, two, actor, django_assert_num_queries):
        contradictions.mark_compatible([one.uid for one in two], actor)
        with django_assert_num_queries(2):
            contradictions.find_contradictions(actor.clearance)

    def test_third_fact_contradicts_again(self, two, actor):
        contradictions.mark_compatible([one.uid for one in two], actor)
        store(actor, "Nils", day=5)
        assert found(actor) == [["Nils", "Bram", "Mara"]]

    def test_decision_can_be_undone_once(self, two, actor):
        decision = contradictions.mark_compatible([one.uid for one in two], actor)
        contradictions.undo_mark_compatible(decision, actor)
        assert found(actor) == [["Bram", "Mara"]]
        with pytest.raises(NotFound):
            contradictions.undo_mark_compatible(decision, actor)

    def test_decision_about_a_hidden_fact_is_not_found(self, db, actor):
        one, other = store(actor, "Mara"), store(actor, "Bram", sensitivity="private")
        decision = contradictions.mark_compatible([one.uid, other.uid], actor)
        assert JournalEntry.objects.get(object_id=decision).sensitivity == "private"
        with pytest.raises(NotFound):
            contradictions.undo_mark_compatible(decision, Actor("user:bob", PUBLIC))
