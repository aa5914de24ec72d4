"""A prompt brings the memories whose subject it names, and no others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memoryhub.access.policy import Actor, Clearance
from memoryhub.backends.fts_query import parse_query
from memoryhub.memories import update_memory
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Memory
from memoryhub.search.hybrid import search_memories
from memoryhub.search.prompts import parse_prompt, without_actions
from tests.cases import each

RAMBLING = (
    "Good morning! I hope you slept better than I did, because the neighbours had a party until three. "
    "Anyway, before my coffee gets cold I would like to look at something that a colleague mentioned in the "
    "kitchen on Friday: apparently the pool between our services and the database, pgbouncer, was put into "
    "some mode that surprised half of the team, and I never understood what the reason for it was."
)


@pytest.fixture(autouse=True)
def team(remember):
    """Store twenty memories about different subjects, a year old."""
    subjects = (
        "Kubernetes Keycloak Fastly Vitest Playwright Mosquitto Loki Grafana Restic Wireguard Weblate Ansible"
        " Terraform Celery Redis Sentry Storybook Webpack"
    ).split()
    for subject in subjects:
        remember(
            f"The team agreed on how everyone uses it: {subject} is set up by the platform group.",
            title=f"{subject} is maintained by the platform group",
            created_at="2021-01-01T00:00:00Z",
        )
    return remember(
        "Transaction mode, because prepared statements are not used.",
        title="PgBouncer runs in transaction mode",
        created_at="2021-01-01T00:00:00Z",
        aliases=["pooler"],
    )


def shown(result):
    return sorted(one.uid for one in result.injected)


def titles(result):
    return sorted(one.candidate.memory.title.split()[0] for one in result.shown)


def test_rambling_prompt_that_names_one_subject_brings_it(ask, team):
    assert shown(ask(RAMBLING)) == [team.uid]


LONG = (
    "I had a call with finance yesterday, and they were upset because the numbers of the last quarter differ "
    "from the documents that customers get after they pay. I promised to look at it before lunch, although "
    "my plate is full. The new colleague believes that {} has a limit there, but I am not sure at all. "
    "Could you find the time to explain it in plain words, so that the meeting at three is a short one, and "
    "so that nobody in the kitchen whispers that engineers never answer emails?"
)


@each("name", ["PgBouncer", "the pooler", "Redis"])
def test_long_prompt_with_a_name_does_not_bring_what_its_other_words_name(ask, remember, recalled, name):
    remember("Cards and bank transfers.", title="Customers pay in advance", created_at="2021-01-01T00:00:00Z")
    prompt = LONG.format(f"Keycloak, or {name},")
    wanted = ["Keycloak", name.replace("the pooler", "PgBouncer")]
    assert titles(ask(prompt)) == sorted(wanted)
    memories = Memory.objects.filter(uid__in=recalled(prompt))
    assert sorted(one.title.split()[0] for one in memories) == sorted(wanted)


def test_long_prompt_without_a_name_brings_what_its_words_name(ask, remember):
    remember("Cards and bank transfers.", title="Customers pay in advance", created_at="2021-01-01T00:00:00Z")
    assert titles(ask(LONG.format("something"))) == ["Customers"]


def test_alias_of_a_hidden_memory_makes_no_word_a_name(ask, remember):
    bob, prompt = Actor("token:bob", Clearance()), LONG.format("Keycloak or the pooler")
    remember("Cards", title="Customers pay in advance", created_at="2021-01-01T00:00:00Z")

    def injected():
        return [(one.uid, one.score) for one in ask(prompt, by=bob, record=False).injected]

    before = injected()
    remember("About nothing", title="Other", aliases=["customers", "pay"], sensitivity="secret", project="p")
    assert before == injected() != []
    remember("About nothing in public", title="Others", aliases=["customers", "pay"])
    assert before != injected()


def test_name_in_a_title_counts_however_many_texts_mention_it(ask, remember):
    for number in range(4):
        remember(f"It uses Redis {number}.", title=f"Port {number}", created_at="2021-01-01T00:00:00Z")
    prompt = "Keycloak; Fastly; Vitest; Redis; Restic"
    assert {"Fastly", "Keycloak", "Redis", "Restic", "Vitest"} <= set(titles(ask(prompt)))


def test_prompt_that_names_several_subjects_brings_all_of_them(ask):
    result = ask("Write a page about Keycloak, Fastly, Vitest, Loki and Restic, please.")
    assert titles(result) == ["Fastly", "Keycloak", "Loki", "Restic", "Vitest"]


@each(
    "prompt", ["any open questions?", "ok continue", "what tools do we use?", "What did we decide last time?"]
)
def test_prompt_without_a_content_word_brings_nothing(ask, prompt):
    assert ask(prompt).context == ""


@each("prompt", ["continue", "ok continue", "please proceed", "carry on", "Yes, continue."])
def test_prompt_to_continue_finds_no_memory_by_its_words(ask, remember, prompt):
    remember("Proceed with the import: agents carry the cursor and continue after a pause", title="Continue")
    assert ask(prompt).context == ""


def test_unrelated_prompt_brings_nothing(ask):
    assert ask("Suggest a vegetarian dinner for six guests, one of whom cannot eat nuts.").context == ""


def test_alias_names_a_memory(ask, team):
    assert shown(ask("how is the pooler configured?")) == [team.uid]


def test_question_about_a_replaced_memory_brings_its_replacement(ask, team, remember, actor):
    old = remember("Pgpool balances the connections.", title="Pgpool balances connections")
    assert shown(ask("what about pgpool?")) == [old.uid]
    update_memory(old.uid, MemoryPatch(superseded_by=team.uid), actor)
    assert shown(ask("what about pgpool?")) == [team.uid]


@each("place", ["", ":88", ":88:4"])
def test_memory_that_contains_a_path_is_found_by_the_path_with_a_line(ask, remember, place):
    about = remember("Fixed in firmware/src/dog.rs by a comparison.", created_at="2021-01-01T00:00:00Z")
    prompt = f"firmware/src/dog.rs{place} panics with overflow"
    assert parse_prompt(prompt).terms[0].literal == "firmware/src/dog.rs"
    assert shown(ask(prompt)) == [about.uid]


def test_commit_messages_are_a_subject(ask, remember):
    rule = remember(
        "They follow Conventional Commits, from which the changelog is written.",
        title="Commit messages follow a convention",
        created_at="2021-01-01T00:00:00Z",
    )
    assert shown(ask("Before I hand anything in: how do we write commit messages these days?")) == [rule.uid]


@pytest.fixture
def elastic(remember):
    """Store a memory whose alias is a German word."""
    return remember("An index for addresses.", title="Elasticsearch", aliases=["es"])


def test_german_function_word_is_no_alias(ask, elastic, recalled):
    prompt = "Wie spät ist es gerade in Lissabon, und regnet es dort?"
    assert shown(ask(prompt)) == recalled(prompt) == []


def test_alias_that_is_a_german_word_is_found_in_english(ask, elastic, recalled):
    assert shown(ask("the es index for addresses")) == recalled("the es index for addresses") == [elastic.uid]


@pytest.fixture
def recalled(db):
    def recall(prompt, now=None):
        memories = Memory.objects.visible_to(Clearance()).live()
        return [hit.memory.uid for hit in search_memories(memories, prompt, is_prompt=True, now=now).hits]

    return recall


@each("prompt", ["go on", "Anything else?", "Thanks!! Great"])
def test_two_words_of_conversation_recall_nothing(recalled, remember, prompt):
    remember("Everything else goes on to the channel, thanks to a great script, or anything like it")
    assert recalled(prompt) == []


def test_one_word_of_conversation_is_a_search_query(recalled, remember):
    memory = remember("How an issue is reported", title="Issue")
    assert recalled("issue") == [memory.uid]


@each("prompt", ["yes", "Yes!", "got", "look"])
def test_one_word_of_conversation_recalls_no_part_of_a_word(recalled, remember, prompt):
    remember("A classifier by Bayes, gotcha and outlook")
    assert recalled(prompt) == []
    assert recalled("class") != []


def test_typing_error_next_to_a_known_word_is_corrected(ask):
    assert titles(ask("wiregaurd platform group")) == titles(ask("wireguard platform group"))


def test_word_of_a_hidden_title_is_no_correction(ask, remember):
    bob = Actor("token:bob", Clearance())

    def injected():
        return [(one.uid, one.score) for one in ask("zanzibarum keycloak", by=bob, record=False).injected]

    before = injected()
    remember("About Keycloak", title="Zanzibarium", sensitivity="secret", project="other")
    assert before == injected() != []
    remember("About nothing", title="Zanzibarium in public")
    assert before != injected()


@each(
    "alias, prompt, is_named",
    [
        ("グラファナ", "グラファナの設定ファイルはどこにありますか", True),
        ("グラファナ", "新しいグラファナをどうやって起動するのか教えてください", True),
        ("ダム", "ランダムな値をどうやって作るのか教えてください", False),
        ("看板", "本番の看板ページを更新したいのですがどうすればいいですか", True),
        ("本番DB", "昨日から本番DBの応答が遅いので調べてほしいです", True),
        ("es", "Kubernetesの設定ファイルはどこにありますか", False),
        ("監控平台", "請告訴我監控平台的設定在哪裡", True),
        ("그라파나", "그라파나에서 알림을 어떻게 설정하나요", True),
        ("라파나", "그라파나에서 알림을 어떻게 설정하나요", False),
    ],
)
def test_alias_in_a_text_without_spaces_names_a_memory(ask, remember, recalled, alias, prompt, is_named):
    about = remember(
        "Charts of every station, edited as code.", aliases=[alias], created_at="2021-01-01T00:00:00Z"
    )
    assert (about.uid in shown(ask(prompt)), about.uid in recalled(prompt)) == (is_named, is_named)


@pytest.fixture
def habits(remember):
    """Store memories that name common actions of agents."""
    remember("Commit messages follow a convention; every commit is signed", title="Commit messages")
    remember("The tests run in threads mode, and failed tests run once more", title="Vitest runs the tests")
    remember("The next step after a stop of the server is a restart", title="Restart of the server")
    remember("Der nächste Commit startet die Tests", title="Tests nach dem Commit")
    remember("テストを実行してからコミットしてください", title="テスト環境の実行モード")


@each(
    "prompt",
    [
        "what's the next step?",
        "stop",
        "Wait, stop!",
        "commit this",
        "looks good, go on",
        "try again",
        "run the tests",
        "Restart the server and rerun the failed tests, please.",
        "lgtm, merge it",
        "führ die Tests nochmal aus",
        "committe das bitte",
        "続けてください",
        "テストを実行してください",
    ],
)
def test_order_without_a_subject_brings_nothing(ask, recalled, habits, prompt):
    assert ask(prompt).context == ""
    assert len(prompt.split()) == 1 or recalled(prompt) == []


@each(
    "prompt, text",
    [
        ("clean this up", "Clean up unused imports before a release"),
        ("is this correct?", "Corrected the indentation of the guide"),
        ("read the file again", "Reads need a permission for the file"),
        ("how long will it take?", "Long names are shortened"),
        ("why did that fail?", "Failing imports are listed"),
        ("what's left to do?", "Tables are aligned at the left"),
        ("that's enough", "Enough disk space is checked"),
        ("still broken", "Broken links are reported"),
        ("make sure it is faster", "A faster parser"),
        ("wait a moment", "Moments are stored in UTC"),
        ("the second one", "Once a second, the cache is written"),
    ],
)
def test_remark_or_usual_order_brings_nothing(ask, recalled, remember, prompt, text):
    remember(text)
    assert (ask(prompt).context, recalled(prompt)) == ("", [])


@each(
    "prompt, title",
    [
        ("how do we write commit messages?", "Commit messages"),
        ("Should we commit here?", "Commit messages"),
        ("Commit this, but check our convention for messages first.", "Commit messages"),
        ("commit", "Commit messages"),
        ("How do we run the tests?", "Vitest runs the tests"),
        ("Run the Vitest tests", "Vitest runs the tests"),
    ],
)
def test_question_or_order_with_a_subject_brings_it(ask, habits, prompt, title):
    assert title in [one.candidate.memory.title for one in ask(prompt).shown]


@each(
    "prompt, count",
    [
        ("バックアップの保存期間を教えてください", 1),
        ("新しいデータベースはバックアップされますか", 1),
        ("今日の夕食に何を食べればいいか教えてください", 0),
        ("天気はどうですか", 0),
    ],
)
def test_subject_in_japanese_is_kanji_and_katakana(ask, remember, prompt, count):
    """Not the hiragana of endings and particles, which any two texts share."""
    about = remember(
        "データベースは毎晩二時にバックアップされます。保存期間は三十日です。",
        created_at="2021-01-01T00:00:00Z",
    )
    remember("本番環境への配備は金曜日に禁止されています。", created_at="2021-01-01T00:00:00Z")
    assert shown(ask(prompt)) == [about.uid] * count


@each("prompt", ["What did we change last week?", "Last week was long, thanks", "What was 2 years ago?"])
def test_time_counted_from_now_is_no_subject(ask, remember, prompt):
    remember(
        "Probes are calibrated every six weeks, the last ones after a year", title="Weeks between two changes"
    )
    assert ask(prompt).context == ""


def test_recall_of_a_time_returns_what_was_stored_then(remember, recalled):
    # Not on a Monday: today is then the day after last week, which counts, too.
    thursday = datetime(2026, 6, 4, 12, tzinfo=UTC)
    made = remember("Probes are calibrated by hand", created_at=thursday - timedelta(days=7))
    remember("The port of the broker is open", created_at=thursday)
    assert recalled("what did we change last week?", now=thursday) == [made.uid]


def test_chinese_question_words_do_not_count(ask, remember, recalled):
    memory = remember("数据库迁移在每周一凌晨两点执行,失败时回滚。", title="数据库迁移")
    other = remember("什么时候开会由小组决定。")
    for prompt in ("数据库迁移什么时候执行?", "请问数据库迁移怎么执行?"):
        assert shown(ask(prompt)) == [memory.uid]
    assert other.uid not in recalled("数据库迁移什么时候执行?")


def test_words_of_an_order_bring_no_memory_next_to_a_name(remember, recalled):
    formatter = remember("Python code has lines of 110 characters", title="Black formatter")
    remember("Hourly backups run at night and are kept for a week")
    assert recalled("run black on it") == [formatter.uid]


def test_words_of_conversation_remain_a_part_of_what_a_prompt_says():
    query = without_actions(parse_query("I need to run the watchdog"))
    assert query.words == ("need", "watchdog")


def test_name_with_punctuation_is_recalled(remember, recalled):
    memory = remember("The call fails when the option is set, see a.b.c")
    assert recalled("a.b.c") == [memory.uid]
