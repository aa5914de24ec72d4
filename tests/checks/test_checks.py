"""Memory checks: what they expect, what their runs see, and when they run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from pydantic import ValidationError

from memoryhub import checks, memories
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.accounts.clearance import user_clearance
from memoryhub.capture.projects import configure_project
from memoryhub.checks import CheckDraft, create_check, describe_failures, may_see_result, run_check
from memoryhub.maintenance import runs
from memoryhub.maintenance.executor import execute
from memoryhub.maintenance.runs import enqueue_daily
from memoryhub.memories.errors import Forbidden, NotFound, StoreError
from memoryhub.models import Injection, JournalEntry, MaintenanceRun, Membership, MemoryCheck
from tests.clients import create_person

PROMPT = "what do we know about zebra stripes?"
ZEBRA = "zebra stripes are like finger prints"


@pytest.fixture
def ada(db: None) -> Actor:
    user = create_person("ada", "view_private", "view_secret", "change_memory")
    return Actor("user:ada", user_clearance(user))


@pytest.fixture
def check(ada):
    def make(by=None, **fields):
        return create_check(CheckDraft(**{"prompt": PROMPT, "must_words": ["zebra"], **fields}), by or ada)

    return make


def said(one, viewer):
    return describe_failures(run_check(one, viewer.clearance), viewer.clearance)


def confine(name, *projects):
    user = create_person(name, "change_memory")
    for project in projects:
        Membership.objects.create(user=user, project=project)
    user = User.objects.get(pk=user.pk)
    return Actor(f"user:{name}", user_clearance(user))


def test_check_passes_if_the_memory_comes(check, remember, ada):
    memory = remember(ZEBRA)
    assert said(check(must_words=[], must_bring=[memory.uid]), ada) == []


def test_failure_says_that_a_memory_is_below_the_minimum(check, remember, ada, configure):
    memory = remember(ZEBRA, title="Zebras")
    configure(injection_min_score=0.99)
    [text] = said(check(must_words=[], must_bring=[memory.uid]), ada)
    assert text.startswith("Expected “Zebras”; its score 0.")
    assert text.endswith("is below the minimum of 0.99.")


def test_failure_names_the_rank_of_a_memory(check, remember, ada, configure):
    weak = remember(ZEBRA, title="Zebras", importance=0.1)
    remember(f"{ZEBRA}, really", importance=1.0)
    configure(max_inject_count=1)
    [text] = said(check(must_words=[], must_bring=[weak.uid]), ada)
    assert "its rank is 2 with score 0." in text
    assert text.endswith("below the limit of 1.")


def test_memory_that_shares_nothing_with_the_prompt_fails(check, remember, ada):
    memory = remember("harbour lights")
    [text] = said(check(must_words=[], must_bring=[memory.uid]), ada)
    assert "does not match the prompt well enough" in text


def test_erased_memory_fails_without_its_title(check, remember, ada):
    memory = remember(ZEBRA, title="Zebras")
    one = check(must_words=[], must_bring=[memory.uid])
    memories.erase_memories([memory.uid], ada)
    [text] = said(checks.get_check(one.uid, ada.clearance), ada)
    assert "a memory that no longer exists" in text


@pytest.mark.parametrize(
    ("expectation", "text"),
    [
        ({"must_words": ["quagga"]}, "Expected a memory with “quagga”"),
        ({"never_words": ["FINGER"]}, "no memory with “FINGER” may be returned"),
        ({"never_projects": ["zoo"]}, "no memory of the project zoo may be returned"),
        ({"never_level": "private", "level": "secret"}, "no private memory may be returned"),
    ],
)
def test_failed_expectation_is_named(check, remember, ada, expectation, text):
    remember(ZEBRA, project="zoo", sensitivity="private" if "level" in expectation else "public")
    [failure] = said(check(project="zoo", **{"must_words": [], **expectation}), ada)
    assert text in failure


@pytest.mark.parametrize(("mode", "words"), [("off", "off"), ("observe", "only observed")])
def test_project_whose_agents_receive_nothing_fails(check, remember, ada, mode, words):
    remember(ZEBRA, project="zoo")
    expecting, forbidding = check(project="zoo"), check(project="zoo", must_words=[], never_words=["x"])
    assert said(expecting, ada) == []
    configure_project("zoo", ada, mode=mode)
    assert said(expecting, ada) == [f"The project is {words}, so agents receive no memories in it."]
    assert said(forbidding, ada) == []


def test_pause_of_the_project_does_not_matter(check, remember, ada):
    remember(ZEBRA, project="zoo")
    configure_project("zoo", ada, pause_hours=1)
    assert said(check(project="zoo"), ada) == []


def test_memory_that_must_never_come_fails(check, remember, ada):
    memory = remember(ZEBRA, title="Zebras")
    [failure] = said(check(must_words=[], never_bring=[memory.uid]), ada)
    assert failure == "“Zebras” was returned, but it must never be returned."


def test_run_is_not_logged_and_counts_no_access(check, remember, ada):
    memory = remember(ZEBRA)
    run_check(check(), ada.clearance)
    memory.refresh_from_db()
    assert (memory.accessed_count, memory.shown_count, Injection.objects.count()) == (0, 0, 0)


def test_run_sees_only_levels_that_the_check_asks_for(check, remember, ada):
    remember(ZEBRA, sensitivity="private")
    assert said(check(), ada)
    assert not said(check(level="private"), ada)


def test_run_sees_no_personal_memory(check, remember, ada):
    remember(ZEBRA, by=ada, scope="personal")
    assert said(check(), ada)


def test_run_sees_no_more_than_its_owner_may_see_now(check, remember, ada):
    remember(ZEBRA, sensitivity="private")
    one = check(level="private")
    User.objects.get(username="ada").user_permissions.clear()
    [failure] = run_check(one, ada.clearance)
    assert failure["rule"] == "owner_left"


def test_check_of_an_owner_who_left_fails(check, remember, ada):
    remember(ZEBRA)
    one = check()
    User.objects.filter(username="ada").update(is_active=False)
    assert "Save the check again" in said(one, ada)[0]


@pytest.mark.parametrize("level", ["private", "secret", "cosmic"])
def test_check_that_names_a_hidden_memory_is_hidden(check, remember, ada, level):
    memory = remember(ZEBRA)
    one = check(must_words=[], never_bring=[memory.uid])
    type(memory).objects.filter(pk=memory.pk).update(sensitivity=level)
    with pytest.raises(NotFound):
        checks.get_check(one.uid, Clearance())


def test_check_has_the_strictest_level_of_its_memories(check, remember):
    memory = remember(ZEBRA, sensitivity="secret")
    assert check(must_words=[], must_bring=[memory.uid]).sensitivity == "secret"


def test_confined_person_sees_checks_of_their_projects_only(check):
    inside, outside, without = check(project="zoo"), check(project="circus"), check()
    bob = confine("bob", "zoo")
    assert [one.uid for one in checks.visible_checks(bob.clearance)] == [inside.uid]
    assert {outside.uid, without.uid} <= {
        one.uid for one in checks.visible_checks(system_actor("tests").clearance)
    }


def test_result_that_depends_on_hidden_memories_is_not_shown_or_stored(check, remember, ada):
    remember(ZEBRA, project="circus", scope="team")
    one = check(project="zoo")
    assert run_check(one, ada.clearance) == []
    bob = confine("bob", "zoo")
    assert not may_see_result(one, bob.clearance)
    assert run_check(one, bob.clearance)  # the team memory of another project is hidden from bob
    assert MemoryCheck.objects.get().passed is True


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"must_bring": ["nothere"]}, "must_bring"),
        ({"never_bring": ["nothere"]}, "never_bring"),
        ({"prompt": "the key is AKIAQ3EGTRVH7KJ2WPLM"}, "prompt"),
    ],
)
def test_refusal_names_the_field(check, fields, field):
    with pytest.raises(StoreError) as refusal:
        check(**fields)
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"project": "circus"}, "project"),
        ({"project": "zoo", "level": "secret"}, "level"),
        ({"project": "zoo", "never_projects": ["circus"]}, "never_projects"),
    ],
)
def test_check_beyond_the_clearance_is_refused(check, fields, field):
    with pytest.raises(Forbidden) as refusal:
        check(by=confine("bob", "zoo"), **fields)
    assert refusal.value.field == field


def test_hidden_memory_is_refused_like_an_unknown_one(check, four_levels, ada):
    reader = replace(ada, clearance=replace(ada.clearance, levels=frozenset({"public"})))
    texts = set()
    for uid in (four_levels["secret"].uid, "nothere"):
        with pytest.raises(StoreError) as refusal:
            check(by=reader, must_bring=[uid])
        texts.add(refusal.value.message.replace(uid, "ID"))
    assert len(texts) == 1


@pytest.mark.parametrize(
    "fields", [{"prompt": " "}, {"prompt": "x" * 4001}, {"must_words": []}, {"must_words": ["x" * 201]}]
)
def test_bad_draft_is_refused(db, fields):
    with pytest.raises(ValidationError):
        CheckDraft(**{"prompt": PROMPT, "must_words": ["zebra"], **fields})


def test_private_part_of_a_prompt_is_not_stored(check):
    assert check(prompt="zebra <private>stripes</private> facts").prompt == "zebra  facts"
    with pytest.raises(ValidationError, match="must not be empty"):
        CheckDraft(prompt="<private>zebra", must_words=["zebra"])


def test_changes_are_journaled_without_texts(check, ada):
    one = check(project="zoo")
    checks.update_check(one.uid, CheckDraft(prompt=PROMPT, must_words=["quagga"]), ada)
    checks.delete_check(one.uid, ada)
    rows = JournalEntry.objects.filter(object_type="check").order_by("seq")
    assert [row.operation for row in rows] == ["check_create", "check_update", "check_delete"]
    assert "quagga" not in str([row.detail for row in rows])


def test_operation_stores_the_results_of_enabled_checks(check, remember):
    remember(ZEBRA)
    passing, failing, off = check(), check(must_words=["quagga"]), check(enabled=False)
    [run] = [one for one in enqueue_daily(system_actor("tests"), None) if one.operation == "memory_checks"]
    execute(run)
    assert MaintenanceRun.objects.get(pk=run.pk).status == "done"
    passed = dict(MemoryCheck.objects.values_list("uid", "passed"))
    assert passed == {passing.uid: True, failing.uid: False, off.uid: None}


def test_daily_maintenance_without_checks_queues_no_run_of_them(db):
    queued = enqueue_daily(system_actor("tests"), None)
    assert "memory_checks" not in {one.operation for one in queued}


@pytest.mark.django_db(transaction=True)
def test_run_that_changed_memories_queues_the_checks(check, remember):
    check()
    memory = remember(ZEBRA)
    memories.trash_memories([memory.uid], system_actor("tests"))
    execute(runs.enqueue("empty_trash", {}, system_actor("tests")))
    assert MaintenanceRun.objects.filter(operation="memory_checks", status="queued").count() == 1


def test_run_that_changed_nothing_queues_no_checks(check):
    check()
    execute(runs.enqueue("empty_trash", {}, system_actor("tests")))
    assert not MaintenanceRun.objects.filter(operation="memory_checks").exists()
