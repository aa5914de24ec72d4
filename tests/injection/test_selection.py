"""Candidates for a prompt and their selection."""

from __future__ import annotations

import time

import pytest

from memoryhub.backends.fts_query import MAX_CHARS
from memoryhub.core.text import stem
from memoryhub.injection import candidates
from memoryhub.models import Memory
from memoryhub.search import prompts
from tests.cases import each
from tests.injection.conftest import reasons, uids

CHAT = [
    "",
    "   ",
    "hello",
    "thanks, that looks good, go on",
    "yes please do that",
    "ok, commit it",
    "please fix the bug",
    "What's the weather like in Paris today?",
    "make me a poem about horses",
]


@pytest.fixture
def notes(remember):
    """Memories of a small team."""
    texts = {
        "database": "Billing uses PostgreSQL 15; the database lives in the Frankfurt region.",
        "retry": "Webhook deliveries are retried with exponential backoff, five times at most.",
        "deploy": "Deployments run from the main branch on Tuesdays, never on Fridays.",
        "style": "Always format Python with black, line length 100.",
        "search": "Search results were empty for C++ because the tokenizer dropped the signs.",
        "cache": "The fix for the stale cache was to key it by tenant and by locale.",
    }
    return {name: remember(text, project="shop") for name, text in texts.items()}


@each("prompt", CHAT)
def test_irrelevant_prompt_gets_nothing(notes, ask, prompt):
    found = ask(prompt)
    assert found.context == ""
    assert found.injected == []
    assert found.tokens_used == 0


@each(
    "prompt, name",
    [
        ("Which database do we use for billing, and where does it live?", "database"),
        ("How should I configure retry and backoff for the webhook sender in the billing service?", "retry"),
        ("how do we deploy?", "deploy"),
        ("The search finds nothing for C++, can you look into that?", "search"),
    ],
)
def test_prompt_finds_related_memories(notes, ask, prompt, name):
    found = ask(prompt, project="shop")
    assert found.injected[0].uid == notes[name].uid
    assert notes[name].content.split(".")[0] in found.context
    assert notes["style"].uid not in uids(found)


def test_one_sentence_of_a_long_prompt_is_enough(notes, ask):
    code = "\n".join(f"    result_{n} = compute(values[{n}], factor={n})" for n in range(80))
    prompt = f"Here is my function:\n```python\n{code}\n```\nHow is the webhook retry backoff limited?"
    assert len(prompt) > MAX_CHARS
    assert notes["retry"].uid in uids(ask(prompt))


def test_mentioned_file_finds_its_memories(notes, remember, ask):
    known = remember(
        "Rounding happens per line, not per invoice.", project="shop", files_modified=["src/billing/tax.py"]
    )
    found = ask("please refactor src/billing/tax.py so that rounding is clearer", project="shop")
    assert known.uid in uids(found)


def test_memories_come_from_the_project_the_team_and_no_project(remember, ask):
    mine = remember("zebra stripes of ours", project="zoo")
    team = remember("zebra stripes for the team", project="office", scope="team")
    general = remember("zebra stripes in general")
    other = remember("zebra stripes elsewhere", project="circus")
    found = ask(project="zoo")
    assert uids(found) == {mine.uid, team.uid, general.uid}
    assert other.uid not in reasons(found)
    assert other.uid in uids(ask())


def test_personal_memory_is_injected_only_for_its_owner(remember, ask, actor):
    from dataclasses import replace

    mine = remember("zebra stripes, says ada", scope="personal")
    bob = replace(actor, name="token:bob", clearance=replace(actor.clearance, owner="bob"))
    assert uids(ask()) == {mine.uid}
    assert ask(by=bob).context == ""


def test_trashed_and_expired_memories_are_not_injected(remember, ask, actor):
    from memoryhub import memories

    trashed, expired = remember("zebra stripes one"), remember("zebra stripes two")
    memories.trash_memories([trashed.uid], actor)
    memories.apply_bulk_action("expire", [expired.uid], actor)
    assert ask().context == ""


def test_memories_below_the_minimum_score_are_withheld(remember, ask, configure):
    memory = remember("zebra stripes are like finger prints")
    configure(injection_min_score=0.99)
    found = ask()
    assert found.context == ""
    assert reasons(found) == {memory.uid: "below the floor"}


@pytest.mark.conformance("guide-104")
def test_no_more_than_the_count_is_shown(remember, ask):
    made = [remember(f"zebra stripes, fact number {n}") for n in range(8)]
    found = ask(max_count=3)
    assert len(found.injected) == 3
    over = {uid for uid, reason in reasons(found).items() if reason == "over the count"}
    assert over == {one.uid for one in made} - uids(found)
    assert ask(max_count=0).context == ""


def test_count_can_exceed_the_sum_of_the_scales(remember, ask, configure):
    for n in range(12):
        remember(f"zebra stripes, fact number {n}")
    assert len(ask(max_count=9).injected) == 9
    configure(immediate_count=0, task_count=0, session_count=0, project_count=0)
    assert len(ask(max_count=2).injected) == 2


@pytest.mark.conformance("guide-75", "guide-92")
def test_each_scale_has_its_count(remember, ask, aged):
    """One immediate, two task, one session and one project memory, although new ones score best."""
    ages = {"immediate": 1, "task": 10, "session": 60, "project": 60 * 24}
    made = {}
    for name, minutes in ages.items():
        for n in range(4):
            made[aged(remember(f"zebra stripes {name} {n}"), minutes=minutes).uid] = name
    found = ask()
    assert [one.scale for one in found.injected] == [made[one.uid] for one in found.injected]
    assert sorted(one.scale for one in found.injected) == ["immediate", "project", "session", "task", "task"]


@pytest.mark.conformance("guide-20")
def test_without_the_temporal_capability_the_best_are_taken(remember, ask, aged, configure):
    for n in range(6):
        remember(f"zebra stripes now {n}")
    old = aged(remember("zebra stripes then"), days=30)
    assert old.uid in uids(ask(record=False))
    configure(capability_temporal=False)
    found = ask()
    assert len(found.injected) == 5
    assert old.uid not in uids(found)
    assert {one.scale for one in found.injected} == {""}
    assert found.skipped == ["memory.temporal is switched off"]


@pytest.mark.conformance("guide-21")
def test_failing_temporal_capability_does_not_stop_the_injection(remember, ask, monkeypatch):
    memory = remember("zebra stripes")
    monkeypatch.setattr("memoryhub.injection.selection.memory_scale", lambda *_: 1 / 0)
    found = ask(record=False)
    assert uids(found) == {memory.uid}
    assert found.skipped == ["memory.temporal failed; the log has the details"]


def test_context_block_in_the_prompt_is_ignored(notes):
    asked = prompts.parse_prompt("<memory-context>zebra stripes</memory-context> how do we deploy?")
    assert asked.words == ("deploy",)


def test_long_prompt_gives_a_bounded_query():
    asked = prompts.parse_prompt(" ".join(f"word{n}" for n in range(5000)))
    assert len(asked.words) <= prompts.MAX_LOOKED_UP_WORDS
    sought = candidates.build_query(asked, {stem(word): 3 for word in asked.words}, 1000)
    assert sought is not None
    assert len(sought.query.terms) <= candidates.MAX_TERMS


@pytest.mark.parametrize(
    "piece", ["a+", "a/", "a.", "<memory-context>", "a-", '"', "@", "日", "( ", "x.y/", "not about "]
)
def test_parsing_takes_linear_time(piece):
    began = time.process_time()
    prompts.parse_prompt(piece * (1_000_000 // len(piece)))
    assert time.process_time() - began < 2


def test_rarest_terms_are_searched():
    asked = prompts.parse_prompt("the quagga lives in the zoo beside the house")
    frequencies = {stem(word): 500 for word in asked.words} | {stem("quagga"): 2}
    sought = candidates.build_query(asked, frequencies, 1000)
    assert sought is not None
    assert "quagga" in sought.query.text


def test_the_last_of_equally_rare_terms_are_searched():
    named = [f"animal{letter}" for letter in "abcdefghijklmnop"]
    asked = prompts.parse_prompt(" ".join(named))
    sought = candidates.build_query(asked, {stem(word): 3 for word in named}, 1000)
    assert sought is not None
    assert [term.words[0] for term in sought.query.terms] == named[1 - candidates.MAX_TERMS :]


HOSTILE_PROMPTS = [
    '"',
    "AND OR NOT",
    "a" * 100_000,
    "\x00\x01",
    "日本語の検索",
    "🦓" * 500,
    "foo.bar() -> [*] C++",
    "%s %d {}",
]


def test_any_text_is_a_safe_prompt(notes, ask):
    for prompt in HOSTILE_PROMPTS:
        assert not ask(prompt).skipped, prompt[:20]


def test_hidden_memory_does_not_change_results(remember, ask, actor):
    """Its words do not count, not even as frequencies."""
    from dataclasses import replace

    from memoryhub.access.policy import Clearance

    for n in range(30):
        remember(f"quokka habitat report number {n}")
    public = replace(actor, clearance=Clearance())
    prompt = "quokka habitat and the swordfish9 password"

    def seen():
        found = ask(prompt, by=public, record=False)
        return [(one.uid, one.score) for one in found.injected], reasons(found)

    before = seen()
    assert before[0]
    remember("the password hint is swordfish9", sensitivity="secret")
    assert seen() == before
    assert Memory.objects.filter(sensitivity="secret").exists()


def test_title_is_shown_once_if_the_text_continues_in_the_next_line(remember, ask):
    remember("The zebra stripes confuse flies\nand keep them away", project="p")
    assert ask("why do zebra stripes confuse flies?", project="p").context.count("confuse flies") == 1
