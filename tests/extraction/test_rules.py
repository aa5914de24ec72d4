"""Rule-based extraction: which sentences become candidates, and which people they name."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.extraction.comparison import CATEGORIES, Destination
from memoryhub.extraction.conversation import Turn, parse_turns
from memoryhub.extraction.rules import extract
from memoryhub.extraction.rules.extractor import name_different_people
from memoryhub.security.secrets import find_secrets
from tests.cost import cost_ratio, ordinary_text
from tools.commands.evaluate_extraction import evaluate, figures

LABELLED = Path(__file__).parents[2] / "fixtures" / "conversations"


def kept(*said: str) -> list[tuple[str, str]]:
    """Return category and content of the candidates; user and assistant alternate."""
    found = extract([Turn("assistant" if at % 2 else "user", text) for at, text in enumerate(said)])
    return [(one.category, one.content) for one in found]


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("I prefer tabs over spaces.", "preferences"),
        ("Please never send me long mails.", "preferences"),
        ("From now on use British spelling.", "preferences"),
        ("Don't add comments unless I ask for them.", "preferences"),
        ("Ich möchte immer kurze Antworten.", "preferences"),
        ("We always squash before merging.", "patterns"),
        ("Every migration must be reversible.", "patterns"),
        ("We release by pushing a tag.", "patterns"),
        ("I'm a nurse in Leeds.", "profile"),
        ("My name is Ada Byron.", "profile"),
        ("Ich arbeite als Lehrerin in Kiel.", "profile"),
        ("Soy profesora de música en Sevilla.", "profile"),
        ("Delphine owns the billing service.", "entities"),
        ("My brother is allergic to nuts.", "entities"),
        ("The staging cluster is hosted in Paris.", "entities"),
        ("We decided to drop Python 3.9.", "events"),
        ("We agreed on weekly releases.", "events"),
        ("The deadline is 15 September.", "events"),
        ("Wir haben beschlossen, den Shop abzuschalten.", "events"),
        ("来週から React を使うことにしました。", "events"),
        ("I have a dog, Moka.", "profile"),
        ("I'm lactose intolerant.", "profile"),
        ("My left knee hurts on hills.", "profile"),
        ("I teach chemistry in Graz.", "profile"),
        ("I have to watch my salt.", "profile"),
        ("We use Django with htmx.", "patterns"),
        ("Our warehouse is on BigQuery.", "entities"),
        ("It's deployed on two machines.", "entities"),
        ("Samira keeps the dashboards.", "entities"),
        ("Retention will be seven days.", "entities"),
        ("There are five of us.", "entities"),
        ("Nobody here has operated Kafka.", "entities"),
        ("Unsere Datenbank läuft auf zwei Servern.", "entities"),
        ("Nuestra tienda está en Sevilla.", "entities"),
        ("Don't touch the migrations folder.", "patterns"),
        ("Use pnpm, not npm.", "patterns"),
        ("Ask me before you install anything.", "patterns"),
        ("Run the linter after every change.", "patterns"),
        ("Flashcards work for me.", "preferences"),
        ("I got a new job at the aquarium two weeks ago.", "events"),
        ("We moved from logrus to slog last year.", "events"),
        ("We'll go with Typesense.", "events"),
        ("I've enrolled in a course that starts on April 10, but I'm not sure how to prepare.", "events"),
    ],
)
def test_statement_becomes_a_candidate_of_its_category(text: str, category: str) -> None:
    [(found, content)] = kept(text)
    assert found == category
    assert content.rstrip(".。") in text


@pytest.mark.parametrize(
    "text",
    [
        "Hello there!",
        "Thanks, that is great!",
        "Can you write a test for this?",
        "Please add a button to the page.",
        "Do you always use tabs?",
        "Maybe we should use Redis one day.",
        "I'm not sure whether we always need it.",
        "What if we decided to use Rust?",
        "Why is the build slow?",
        "Let's keep going",
        "ok do it",
        "You are an expert copywriter. Always answer in JSON.",
        'Proofread this: "I am a nurse and I prefer quiet streets. We decided to move."',
        "Translate this to German:\n\nI am a doctor and I always work at night.",
        "```\n# we always trust the id\nI prefer tabs\n```",
        "    I prefer tabs",
        "| I prefer | tabs |",
        "> I prefer tabs",
        "I changed line 14 to use int()",
        "I have a question about Flask.",
        "I've tried two indexes, but it is as before.",
        "I'm going to lunch, back at 2.",
        "Wow, that sounds great, Ada!",
        "It must be so rewarding.",
        "from flask import Flask",
        "2024-11-02 03:11:53,221 INFO The server is running on port 8080.",
        "$ npm install\nnpm WARN deprecated glob@7.2.3: Glob is no longer supported",
        "What do you think of this text?\n\nBerlin is the capital of Germany. Ada lives in Paris.",
    ],
)
def test_other_sentences_are_ignored(text: str) -> None:
    assert kept(text) == []


def test_explanations_of_the_assistant_are_ignored() -> None:
    said = "You should always use lists. I prefer tuples. We decided so. It fails because of X."
    assert kept("what is a list?", said) == []


def test_problem_with_cause_and_solution_is_a_case() -> None:
    [(category, content)] = kept(
        "The upload fails with status 413.",
        "The cause is the limit of nginx. I've raised client_max_body_size to 20m.",
        "works now, thanks",
    )
    assert category == "cases"
    assert content.splitlines() == [
        "Problem: The upload fails with status 413.",
        "Cause: The cause is the limit of nginx.",
        "Solution: I've raised client_max_body_size to 20m. works now, thanks",
    ]


@pytest.mark.parametrize(
    ("text", "cause", "fix"),
    [
        ("The bug was in the date parser; fixed it by using UTC.", "date parser", "using UTC"),
        ("Root cause: the key ignored the locale. Fix: add the locale to it.", "ignored", "add the locale"),
        ("It was DNS. Solved by flushing the resolver cache.", "DNS", "flushing"),
        ("Turns out the worker had no memory limit, so we set 512Mi.", "no memory limit", "512Mi"),
    ],
)
def test_cause_and_solution_in_one_sentence_are_a_case(text: str, cause: str, fix: str) -> None:
    [(category, content)] = kept(text, "OK.")
    assert category == "cases"
    first, second = content.splitlines()
    assert first.startswith("Cause: ")
    assert cause in first
    assert second.startswith("Solution: ")
    assert fix in second


def test_unsolved_problem_is_no_case() -> None:
    assert kept("The upload fails with status 413.", "That is odd. Could you send me the log?") == []


def test_failed_attempt_is_not_the_solution() -> None:
    [(_, content)] = kept(
        "The upload fails with status 413.",
        "I've raised the limit of nginx.",
        "still 413",
        "I've raised the limit of the load balancer.",
        "that did it",
    )
    assert "Solution: I've raised the limit of the load balancer." in content


def cases(*said: str) -> list[str]:
    """Return the problems and solutions; lines of the assistant begin with "> "."""
    turns = [Turn("assistant" if one[:2] == "> " else "user", one.removeprefix("> ")) for one in said]
    return [one.content.replace("\n", " ") for one in extract(turns) if one.category == "cases"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            (
                "The login page crashes when the password is empty.",
                "> Let me look at the login code.",
                "Also, the nightly export times out after 30 minutes.",
                "> I fixed the login crash by a check.",
                "Great.",
                "> I fixed the export timeout by streaming the rows.",
            ),
            [
                "Problem: The login page crashes when the password is empty. Solution: I fixed the login"
                " crash by a check.",
                "Problem: Also, the nightly export times out after 30 minutes. Solution: I fixed the export"
                " timeout by streaming the rows.",
            ],
        ),
        (
            (
                "Redis connection refused in CI.",
                "> Looking into it.",
                "Our webhook returns 500 for unicode names.",
                "> I changed the encoding of the webhook to utf-8.",
                "Works. And redis?",
                "> I added redis to the workflow.",
            ),
            [
                "Problem: Redis connection refused in CI. Solution: I added redis to the workflow.",
                "Problem: Our webhook returns 500 for unicode names. Solution: I changed the encoding of the"
                " webhook to utf-8.",
            ],
        ),
        (
            (
                "CSV fails on umlauts. The search page is slow with 10k rows.",
                "> I added an index on created_at for the search page. I fixed the umlauts by UTF-8.",
            ),
            [
                "Problem: CSV fails on umlauts. Solution: I fixed the umlauts by UTF-8.",
                "Problem: The search page is slow with 10k rows. Solution: I added an index on"
                " created_at for the search page.",
            ],
        ),
    ],
)
def test_interleaved_problems_have_their_own_solutions(said: tuple[str, ...], expected: list[str]) -> None:
    assert cases(*said) == expected


@pytest.mark.parametrize(
    "said",
    [
        (
            "The build is broken on Windows.",
            "The docs site shows a 404.",
            "> I fixed it by adding a trailing slash.",
        ),
        ("Kafka consumer lag keeps growing.", "The bundle is too slow.", "> I split the vendor chunk."),
        ("The mobile app crashes at startup.", "> Meanwhile I renamed the changelog and updated the readme."),
        ("The printer driver crashes.", "> Not sure yet.", "By the way, I moved the meeting to Friday."),
        (
            "The cache returns stale prices. The cart total is wrong.",
            "> I lowered the TTL of the price cache to 60 seconds.",
        ),
    ],
)
def test_solution_that_may_belong_to_another_problem_is_dropped(said: tuple[str, ...]) -> None:
    assert cases(*said) == []


DEPLOY = "We decided to deploy on Tuesdays, because the vendor is at work then."


@pytest.mark.parametrize(
    "said",
    [
        ("The import of invoices fails. Please repair it.", DEPLOY),
        (f"The import of invoices fails. Please repair it. {DEPLOY}",),
    ],
)
def test_decision_with_a_reason_is_not_the_cause_of_an_open_problem(said: tuple[str, ...]) -> None:
    assert [one.content for one in extract([Turn("user", text) for text in said])] == [DEPLOY]


def test_selected_option_is_quoted() -> None:
    [(_, content)] = kept(
        "The suite is slow and times out.",
        "The cause is the stub. Two ways:\n1. Raise the limit.\n2. Set the delay to zero.",
        "let's go with 2",
    )
    assert "Solution: Set the delay to zero." in content


def test_referring_sentence_includes_the_previous_one() -> None:
    [(_, content)] = kept("Could you explain with examples? I learn better that way.")
    assert content == "Could you explain with examples? I learn better that way."


def test_here_it_is_is_no_acknowledgement() -> None:
    assert kept("Go on with step 3.", "Here it is.") == []


def test_off_the_record_is_ignored() -> None:
    assert kept("I prefer tea, my boss Ada hates it. Don't write that down... don't store this.") == []


def test_sentence_with_a_credential_is_ignored() -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    said = parse_turns([{"role": "user", "content": f"We always use {secret} for releases. I prefer tea."}])
    assert [one.content for one in extract(said)] == ["I prefer tea."]


def test_duplicates_are_dropped() -> None:
    assert len(kept("I prefer tea.", "ok", "I PREFER TEA!")) == 1


def test_reasons_are_given() -> None:
    [one] = extract([Turn("user", "I prefer tea.")])
    assert one.why == "says what they prefer"


def test_candidate_becomes_a_memory_with_three_layers() -> None:
    draft = extract([Turn("user", "It is hot. We decided to close the office at noon.")])[0].draft(
        Destination("p", "s", "team", "private")
    )
    assert draft.content == "We decided to close the office at noon."
    assert draft.abstract == draft.content
    assert draft.overview == "It is hot. We decided to close the office at noon."
    assert (draft.category, draft.type, draft.tags) == ("events", "decision", ["extracted"])
    assert (draft.project, draft.session_id, draft.scope, draft.sensitivity) == ("p", "s", "team", "private")


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=300)), max_size=6))
def test_any_conversation_can_be_read(said: list[tuple[str, str]]) -> None:
    for one in extract(parse_turns([{"role": role, "content": text} for role, text in said])):
        one.draft(Destination())
        assert one.category in CATEGORIES
        assert not find_secrets(one.content)


_PARTS = [
    *("I prefer ", "we always ", "because ", "until ", "the ", "My boss Ada ", "fails ", "\n", ". ", "? "),
    *('"', "1. ", "```\n", "deadline ", "decided ", "Dear ", "in March ", "nobody ", "必ず", "must be "),
    *("my x is a ", "we will be ", "use x, not ", "x, but i'm ", "tried but ", "my text\n\n", "import a, "),
]


@given(st.lists(st.sampled_from(_PARTS), max_size=60))
def test_any_mixture_of_signs_can_be_read(parts: list[str]) -> None:
    for one in extract([Turn("user", "".join(parts)), Turn("assistant", "Noted.")]):
        one.draft(Destination())


@pytest.mark.parametrize("part", [*_PARTS, "a", " ", "a ", '"a', "(", "not a ", "I am a ", "no a "])
def test_no_text_takes_long(part: str) -> None:
    """The longest readable text does not block a request."""

    def took(size: int) -> float:
        said = [Turn("user", (part * size)[:size])]
        began = time.process_time()
        extract(said)
        return time.process_time() - began

    took(5000)
    assert took(100_000) < 5


def test_labelled_conversations_reach_the_documented_scores() -> None:
    judged = evaluate(LABELLED)
    found = figures(judged)
    assert len(judged) >= 12
    assert found.precision >= 0.9
    assert found.recall >= 0.85
    assert found.in_category >= 0.9


def test_unseen_conversations_reach_nearly_the_same_scores() -> None:
    found = figures([one for one in evaluate(LABELLED) if one.part == "unseen"])
    assert found.labels >= 50
    assert found.precision >= 0.85
    assert found.recall >= 0.7


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Maria is a data engineer", "Jonas lives in Porto"),
        ("My name is Maria", "My name is Jonas."),
        ("User's name is Maria", "I'm Jonas, a nurse"),
        ("Short answers. Maria prefers them", "Jonas Weber works at the port"),
    ],
)
def test_different_names_are_different_people(one: str, other: str) -> None:
    assert name_different_people(one, other)
    assert name_different_people(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Maria is a data engineer", "Maria lives in Porto"),
        ("Maria is a data engineer", "Lives in Porto"),
        ("Maria is a data engineer", "The user lives in Porto"),
        ("User is a data engineer", "Maria lives in Porto"),
        ("Maria Silva works in Porto", "María is a mother"),
        ("Jonas is her boss. Maria is a data engineer", "Maria lives in Porto"),
        ("", "Maria lives in Porto"),
    ],
)
def test_same_or_missing_names_are_not_different_people(one: str, other: str) -> None:
    assert not name_different_people(one, other)
    assert not name_different_people(other, one)


def test_names_are_found_quickly_among_line_breaks():
    def compare(text):
        name_different_people(text, text)

    assert cost_ratio(compare, "\n" * 4000, ordinary_text(4000), enough=100) < 200


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Please remember that the staging database is wiped every Sunday.", "events"),
        ("Remember: our API keys rotate on the first Monday of the month.", "entities"),
        ("I prefer small pull requests, at most 300 lines.", "preferences"),
        ("Decision: we use pnpm, not npm.", "events"),
    ],
)
def test_explicit_request_preference_or_decision_is_kept(text: str, category: str) -> None:
    assert [found for found, _ in kept(text)] == [category]


def test_decision_stated_by_the_assistant_is_kept() -> None:
    said = "We decided to use SQLAlchemy Core instead of the ORM, because the reports need window functions."
    assert kept("Which ORM?", said) == [("events", said)]


def test_decision_in_a_text_that_the_user_asked_for_is_ignored() -> None:
    assert (
        kept("Write a letter to the club.", "We decided to cancel the party in June because of rain.") == []
    )


def test_assistant_repeating_a_decision_adds_nothing() -> None:
    text = "We decided to use Postgres for the ledger."
    assert len(kept(text, f"Understood. {text}")) == 1


def test_change_that_fixed_a_failure_is_its_solution() -> None:
    said = "Raising the limit from 256 to 512 MiB fixed the deploy."
    [case] = cases("Deploy fails with exit code 137.", f"> {said}")
    assert case == f"Problem: Deploy fails with exit code 137. Solution: {said}"


@pytest.mark.parametrize(
    "said",
    [
        "And the csv export has a wrong header; I fixed the csv header by quoting it.",
        "I fixed the csv export by quoting the header.",
    ],
)
def test_solution_of_a_similar_subject_is_no_solution(said: str) -> None:
    assert cases("The pdf export is broken.", f"> {said}", "great") == []


def test_label_of_a_cause_is_not_repeated() -> None:
    [case] = cases("Requests hang under load.", "> The cause: each worker opens its own pool. I fixed it.")
    assert " Cause: each worker opens its own pool." in case
