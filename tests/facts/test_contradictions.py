"""Facts that contradict each other: found, superseded, said to hold together, and all of it taken back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.access.policy import Actor, Clearance
from memoryhub.facts import contradictions, services
from memoryhub.memories import Conflict, NotFound
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact, JournalEntry

MAY = datetime(2026, 5, 1, 12, tzinfo=UTC)
PUBLIC = Clearance.up_to("public", owner="bob")


def say(actor, object, day=0, subject="hub", predicate="led by", **fields):
    draft = FactDraft(subject=subject, predicate=predicate, object=object, **fields)
    return services.create_fact(draft, actor, MAY + timedelta(days=day))[0]


def found(actor, **options):
    return [
        [row.object for row in group.rows]
        for group in contradictions.find_contradictions(actor.clearance, **options).open
    ]


@pytest.fixture
def two(db, actor):
    return say(actor, "Mara"), say(actor, "Bram", day=3)


class TestFinding:
    def test_other_objects_of_one_subject_and_predicate_newest_first(self, two, actor):
        say(actor, "Mara", day=9, subject="harbour")
        assert found(actor) == [["Bram", "Mara"]]

    def test_spelling_of_subject_and_predicate_does_not_matter(self, db, actor):
        say(actor, "Mara", subject="Hub", predicate="led_by")
        say(actor, "Bram", day=1, subject="hub", predicate="ledBy")
        assert found(actor) == [["Bram", "Mara"]]

    def test_the_same_object_in_other_letters_is_no_contradiction(self, db, actor):
        say(actor, "Mara")
        say(actor, "mara ")
        assert found(actor) == []

    def test_another_project_is_another_matter(self, two, actor):
        say(actor, "Nils", project="p")
        assert found(actor) == [["Bram", "Mara"]]
        assert found(actor, project="p") == []

    def test_what_goes_with_many_things_may_be_true_together(self, db, actor):
        say(actor, "Django", predicate="uses")
        say(actor, "SQLite", predicate="uses")
        assert found(actor) == []
        [group] = contradictions.find_contradictions(actor.clearance).together
        assert not group.verdict.one

    def test_nothing_shows_that_one_may_not_see(self, db, actor):
        say(actor, "Mara")
        say(actor, "Bram", sensitivity="private")
        assert found(actor) == [["Bram", "Mara"]]
        assert contradictions.find_contradictions(PUBLIC).groups == ()

    def test_a_confined_person_sees_those_of_their_projects(self, db, actor):
        for project in ("moon", "sun"):
            say(actor, "Mara", project=project)
            say(actor, "Bram", project=project, day=1)
        [group] = contradictions.find_contradictions(Clearance.up_to("secret", projects=["moon"])).groups
        assert {row.project for row in group.rows} == {"moon"}

    def test_what_is_hidden_is_no_evidence_either(self, db, actor):
        for number in range(5):
            say(actor, f"o{number}", predicate="paints", sensitivity="secret")
        say(actor, "a", predicate="paints")
        say(actor, "b", predicate="paints")
        assert found(actor) == []
        assert found(Actor("bob", PUBLIC)) == [["b", "a"]]

    def test_the_number_of_queries_does_not_grow(self, two, actor):
        counts = []
        for number in range(2):
            for other in range(5 * number):
                say(actor, f"x{other}", subject=f"s{other}")
                say(actor, f"y{other}", subject=f"s{other}")
            with CaptureQueriesContext(connection) as queries:
                contradictions.find_contradictions(actor.clearance)
            counts.append(len(queries))
        assert counts == [3, 3]


class TestSuperseding:
    def test_the_older_one_held_until_the_newer_began(self, two, actor):
        old, new = two
        contradictions.supersede_facts(new.uid, [old.uid], actor, MAY + timedelta(days=8))
        old.refresh_from_db()
        assert (old.valid_from, old.valid_until) == (MAY, MAY + timedelta(days=3))
        assert old.superseded_by == new
        new.refresh_from_db()
        assert (new.valid_from, new.valid_until) == (MAY + timedelta(days=3), None)

    def test_a_newer_one_that_gives_way_ends_now(self, two, actor):
        old, new = two
        now = MAY + timedelta(days=8)
        contradictions.supersede_facts(old.uid, [new.uid], actor, now)
        new.refresh_from_db()
        assert (new.valid_from, new.valid_until) == (MAY + timedelta(days=3), now)

    def test_it_is_no_contradiction_any_more_and_no_answer(self, two, actor):
        contradictions.supersede_facts(two[1].uid, [two[0].uid], actor)
        assert found(actor) == []
        assert [fact.object for fact in services.query_facts(actor.clearance)] == ["Bram"]
        assert [fact.object for fact in services.query_facts(actor.clearance, ended=True)] == ["Mara"]
        assert len(services.query_facts(actor.clearance, ended=None)) == 2

    def test_what_was_superseded_teaches_that_the_predicate_takes_one(self, db, actor):
        old, new = (say(actor, name, day=day, predicate="uses") for day, name in enumerate(("vi", "ed")))
        contradictions.supersede_facts(new.uid, [old.uid], actor)
        say(actor, "a", subject="other", predicate="uses")
        say(actor, "b", subject="other", predicate="uses", day=1)
        assert found(actor) == [["b", "a"]]

    def test_it_is_journaled_without_a_word_of_the_facts(self, two, actor):
        old, new = two
        contradictions.supersede_facts(new.uid, [old.uid], actor)
        row = JournalEntry.objects.get(operation="supersede")
        assert (row.object_type, row.object_id, row.actor) == ("fact", old.uid, actor.name)
        assert row.detail == {"by": new.uid, "valid_until": None}

    def test_its_row_stands_under_the_stricter_of_both_levels(self, db, actor):
        old, new = say(actor, "Mara"), say(actor, "Bram", day=1, sensitivity="secret")
        contradictions.supersede_facts(new.uid, [old.uid], actor)
        assert JournalEntry.objects.get(operation="supersede").sensitivity == "secret"

    def test_taken_back_all_is_as_it_was(self, two, actor):
        before = list(Fact.objects.order_by("pk").values())
        contradictions.supersede_facts(two[1].uid, [two[0].uid], actor)
        contradictions.undo_supersede([two[0].uid], actor)
        assert list(Fact.objects.order_by("pk").values()) == before
        assert found(actor) == [["Bram", "Mara"]]

    def test_an_end_that_was_set_before_comes_back(self, two, actor):
        end = datetime(2099, 1, 1, tzinfo=UTC)
        Fact.objects.filter(pk=two[0].pk).update(valid_until=end)
        contradictions.supersede_facts(two[1].uid, [two[0].uid], actor)
        contradictions.undo_supersede([two[0].uid], actor)
        two[0].refresh_from_db()
        assert two[0].valid_until == end

    def test_said_again_it_holds_anew_and_contradicts_again(self, two, actor):
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

    def test_one_that_is_yet_to_begin_takes_nobodys_place(self, two, actor):
        draft = FactDraft(subject="hub", predicate="led by", object="Ida")
        later, _ = services.import_fact(draft, ImportedHistory(valid_from=MAY + timedelta(days=900)), actor)
        with pytest.raises(Conflict, match="is not valid yet"):
            contradictions.supersede_facts(later.uid, [two[0].uid], actor, MAY + timedelta(days=9))
        two[0].refresh_from_db()
        assert two[0].superseded_by is None

    def test_twice_is_refused(self, two, actor):
        contradictions.supersede_facts(two[1].uid, [two[0].uid], actor)
        with pytest.raises(Conflict, match="ended already"):
            contradictions.supersede_facts(two[1].uid, [two[0].uid], actor)
        contradictions.undo_supersede([two[0].uid], actor)
        with pytest.raises(Conflict, match="is not superseded"):
            contradictions.undo_supersede([two[0].uid], actor)

    def test_facts_about_something_else_are_refused(self, two, actor):
        other = say(actor, "Nils", subject="harbour")
        with pytest.raises(Conflict, match="one project, subject and predicate"):
            contradictions.supersede_facts(two[1].uid, [other.uid], actor)
        with pytest.raises(Conflict, match="at least two"):
            contradictions.supersede_facts(two[1].uid, [two[1].uid], actor)

    def test_a_hidden_one_is_as_good_as_none(self, db, actor):
        old, new = say(actor, "Mara", sensitivity="private"), say(actor, "Bram", day=1)
        bob = Actor("user:bob", PUBLIC)
        with pytest.raises(NotFound):
            contradictions.supersede_facts(new.uid, [old.uid], bob)
        contradictions.supersede_facts(new.uid, [old.uid], actor)
        with pytest.raises(NotFound):
            contradictions.undo_supersede([old.uid], bob)


class TestHoldingTogether:
    def test_they_are_no_contradiction_any_more(self, two, actor):
        contradictions.mark_compatible([one.uid for one in two], actor)
        assert found(actor) == []
        [group] = contradictions.find_contradictions(actor.clearance).together
        assert group.settled

    def test_a_third_one_opens_the_question_again(self, two, actor):
        contradictions.mark_compatible([one.uid for one in two], actor)
        say(actor, "Nils", day=5)
        assert found(actor) == [["Nils", "Bram", "Mara"]]

    def test_it_can_be_taken_back_once(self, two, actor):
        decision = contradictions.mark_compatible([one.uid for one in two], actor)
        contradictions.undo_mark_compatible(decision, actor)
        assert found(actor) == [["Bram", "Mara"]]
        with pytest.raises(NotFound):
            contradictions.undo_mark_compatible(decision, actor)

    def test_a_decision_about_a_hidden_fact_is_not_known(self, db, actor):
        one, other = say(actor, "Mara"), say(actor, "Bram", sensitivity="private")
        decision = contradictions.mark_compatible([one.uid, other.uid], actor)
        assert JournalEntry.objects.get(object_id=decision).sensitivity == "private"
        with pytest.raises(NotFound):
            contradictions.undo_mark_compatible(decision, Actor("user:bob", PUBLIC))
