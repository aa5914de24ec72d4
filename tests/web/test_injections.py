"""The injection log: over all sessions, within a session, and its visibility."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub import memories as store
from memoryhub.access.policy import Actor, Clearance
from memoryhub.injection.queries import load_reports
from memoryhub.models import Event, Injection, Memory, Session
from memoryhub.web import injections as view
from tests.cases import each
from tests.web.markup import Page, list_title, main

Remember = Callable[..., Memory]
NOON = datetime(2024, 3, 10, 12, tzinfo=UTC)
LEVELS = ("public", "private", "secret", "cosmic")
ALL = Clearance.up_to("secret", owner="ada")


@pytest.fixture
def session(remember: Remember) -> Session:
    remember("what keeps the session in sight", session_id="s", project="zoo")
    return Session.objects.get(session_id="s")


def inject(session: Session | None, shown: Any = (), kept: Any = (), **fields: Any) -> Injection:
    defaults: dict[str, Any] = {"project": "zoo", "token_budget": 2000, "tokens_used": 321, "at": NOON}
    return Injection.objects.create(
        session=session,
        injected=[{"id": memory.uid, "score": 0.62, "scale": "task"} for memory in shown],
        withheld=[{"id": memory.uid, "reason": reason} for memory, reason in kept],
        **{**defaults, **fields},
    )


class TestLog:
    def test_it_lists_injected_and_withheld_memories_with_reasons(
        self, visitor: Client, session: Session, remember: Remember
    ) -> None:
        shown, full, weak = (remember(f"{name} memory") for name in ("shown", "crowded", "weak"))
        kept = [(full, "over the budget"), (weak, "below the floor")]
        inject(session, [shown], kept, prompt_preview="how do zebras sleep?", took_ms=12.4)
        words = " ".join(main(visitor.get("/injections/")).words.split())
        for said in (
            "how do zebras sleep?",
            "1 of 2 shown",
            "shown memory",
            "0.62",
            "task",
            "crowded memory",
            "no tokens left",
            "1 below the minimum score",
            "weak memory",
            "321 of 2,000 tokens",
            "12.4 ms",
        ):
            assert said in words

    def test_the_navigation_says_where_one_is(self, visitor: Client) -> None:
        html = re.sub(r"<svg.*?</svg>", "", visitor.get("/injections/").content.decode(), flags=re.DOTALL)
        assert re.findall(r'aria-current="(\w+)">(\w+)<', html) == [
            ("true", "Sessions"),
            ("page", "Injections"),
        ]

    def test_an_empty_one_says_that_nothing_was_worth_showing(
        self, visitor: Client, session: Session
    ) -> None:
        inject(session, tokens_used=0)
        assert "nothing was relevant" in main(visitor.get("/injections/")).words

    def test_stored_lists_of_another_shape_break_nothing(
        self, visitor: Client, session: Session, remember: Remember
    ) -> None:
        uid = remember("a").uid
        injection = inject(session)
        for odd in (None, {}, "text", [1, None, {"id": 7}, {"id": uid, "score": "high", "scale": None}]):
            Injection.objects.filter(pk=injection.pk).update(
                injected=odd if odd is not None else [], withheld=odd if odd is not None else []
            )
            assert visitor.get("/injections/").status_code == 200

    @each(
        "query, seen",
        [
            ({}, {"early", "late", "other"}),
            ({"q": "LATE"}, {"late"}),
            ({"project": "zoo"}, {"early", "late"}),
            ({"session_id": "s"}, {"early", "late"}),
            ({"since": "2024-03-11"}, {"late"}),
            ({"until": "2024-03-10"}, {"early", "other"}),
        ],
    )
    def test_each_filter_narrows(
        self, visitor: Client, session: Session, query: dict[str, str], seen: set[str]
    ) -> None:
        inject(session, prompt_preview="early prompt")
        inject(session, prompt_preview="late prompt", at=NOON + timedelta(days=1))
        inject(None, prompt_preview="other prompt", project="sea")
        words = main(visitor.get("/injections/", query)).words
        assert {name for name in ("early", "late", "other") if f"{name} prompt" in words} == seen

    @each("query, status", [({"since": "never"}, 422), ({"cursor": "zzz"}, 400), ({"q": "x" * 1001}, 422)])
    def test_an_invalid_address_is_refused(self, visitor: Client, query: dict[str, str], status: int) -> None:
        assert visitor.get("/injections/", query).status_code == status

    def test_each_page_starts_after_the_previous_one(
        self, visitor: Client, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(view, "INJECTIONS_PER_PAGE", 2)
        for n in range(5):
            inject(session, prompt_preview=f"prompt {n}", at=NOON + timedelta(minutes=n))
        seen: list[str] = []
        address = "/injections/"
        while address:
            response = visitor.get(address)
            seen += re.findall(r"prompt \d", main(response).words)
            following = [link for link in main(response).links() if "cursor=" in link]
            address = f"/injections/{following[-1]}" if following else ""
        assert seen == [f"prompt {n}" for n in reversed(range(5))]

    def test_the_number_of_queries_does_not_grow(
        self, visitor: Client, session: Session, remember: Remember
    ) -> None:
        counts = []
        for n in (1, 12):
            for m in range(n):
                inject(session, [remember(f"m {n} {m}")], [(remember(f"k {n} {m}"), "over the count")])
            with CaptureQueriesContext(connection) as queries:
                visitor.get("/injections/")
            counts.append(len(queries))
        assert counts[0] == counts[1]


class TestVisibility:
    @pytest.fixture
    def four(self, session: Session) -> None:
        for level in LEVELS:
            inject(session, prompt_preview=f"{level} prompt", sensitivity=level)

    @each("path", ["/injections/", "/sessions/s/", "/sessions/s/?kind=injection"])
    def test_injections_obey_their_own_level(self, sign_in: Any, four: None, path: str) -> None:
        visitor = sign_in("view_private", "view_secret")
        insider = sign_in("view_private", "view_secret", on=["private", "secret"], name="bob")
        for client, seen in ((visitor, {"public"}), (insider, {"public", "private", "secret"})):
            words = main(client.get(path)).words
            assert {level for level in LEVELS if f"{level} prompt" in words} == seen

    @pytest.mark.parametrize("side", ["shown", "kept"])
    def test_a_hidden_memory_is_neither_named_nor_counted(
        self, sign_in: Any, session: Session, four_levels: dict[str, Memory], side: str
    ) -> None:
        memories = list(four_levels.values())
        shown, kept = (
            (memories, []) if side == "shown" else ([], [(one, "over the count") for one in memories])
        )
        inject(session, shown, kept)
        visitor = sign_in("view_private", "view_secret")
        insider = sign_in("view_private", "view_secret", on=["private", "secret"], name="bob")
        for client, seen in ((visitor, {"public"}), (insider, {"public", "private", "secret"})):
            for path in ("/injections/", "/sessions/s/?kind=injection", "/sessions/s/"):
                html = client.get(path).content.decode()
                assert {level for level, one in four_levels.items() if list_title(one) in html} == seen
                assert {level for level in four_levels if four_levels[level].uid in html} == seen
            words = " ".join(main(client.get("/injections/")).words.split())
            count = len(seen)
            assert (f"{count} of {count} shown" if side == "shown" else f"0 of {count} shown") in words

    def test_the_tokens_used_are_shown_only_if_every_memory_is_visible(
        self, sign_in: Any, session: Session, remember: Remember
    ) -> None:
        inject(session, [remember("open"), remember("closed", sensitivity="private")])
        assert "321 of 2,000" not in main(sign_in().get("/injections/")).words
        insider = sign_in("view_private", on=["private"], name="bob")
        assert "321 of 2,000" in main(insider.get("/injections/")).words

    def test_someone_elses_personal_memory_is_not_named(
        self, visitor: Client, session: Session, remember: Remember
    ) -> None:
        bob = Actor("user:bob", Clearance.up_to("public", "bob"))
        inject(session, [remember("bob's own", scope="personal", by=bob)])
        assert "bob's own" not in visitor.get("/injections/").content.decode()

    def test_a_trashed_memory_is_not_named(
        self, visitor: Client, session: Session, remember: Remember, actor: Actor
    ) -> None:
        memory = remember("thrown away")
        inject(session, [memory])
        store.trash_memories([memory.uid], actor)
        html = visitor.get("/injections/").content.decode()
        assert "thrown away" not in html
        assert "nothing to list" in html

    def test_hidden_projects_stay_out(self, session: Session, remember: Remember) -> None:
        inject(session)
        inject(None, project="sea")
        confined = Clearance.up_to("secret", projects=["zoo"])
        assert [row.project for row in Injection.objects.visible_to(confined)] == ["zoo"]
        assert Injection.objects.visible_to(Clearance.up_to("secret", projects=[])).count() == 0

    def test_an_unknown_level_opens_for_no_one(self, session: Session) -> None:
        inject(session, sensitivity="cosmic")
        assert not Injection.objects.visible_to(ALL).exists()

    def test_figures_over_everything_are_there_only_for_who_sees_everything(
        self, session: Session, remember: Remember
    ) -> None:
        injection = inject(session, [remember("open")], [(remember("closed", sensitivity="secret"), "why")])
        [open_log] = load_reports([injection], Clearance())
        [whole] = load_reports([injection], ALL)
        assert (open_log.complete, open_log.tokens_used, open_log.available) == (False, None, 1)
        assert (whole.complete, whole.tokens_used, whole.available) == (True, 321, 2)


class TestSession:
    def test_injections_are_in_the_timeline_of_the_session(self, visitor: Client, session: Session) -> None:
        for n, kind in enumerate(("Tool 1", None, "Tool 2")):
            at = NOON + timedelta(minutes=n)
            if kind:
                Event.objects.create(session=session, event="tool:post", tool_name=kind, at=at)
            else:
                inject(session, at=at, prompt_preview="the prompt")
        html = visitor.get("/sessions/s/").content.decode().partition('class="day"')[2]
        assert re.findall(r"Tool \d|the prompt", html) == ["Tool 1", "the prompt", "Tool 2"]

    def test_the_tab_shows_what_the_agent_received(self, visitor: Client, session: Session) -> None:
        inject(session, prompt_preview="the prompt")
        response = visitor.get("/sessions/s/?kind=injection")
        assert "What the agent received" in main(response).words
        assert "the prompt" in main(response).words

    def test_it_sums_up_what_the_agent_knew_in_the_end(
        self, visitor: Client, session: Session, remember: Remember
    ) -> None:
        often, once, never = (remember(f"shown {name}") for name in ("often", "once", "never"))
        hidden = remember("hidden from most", sensitivity="secret")
        inject(session, [often, hidden], [(never, "over the count"), (hidden, "over the budget")])
        inject(session, [often, once], [(never, "over the count")], at=NOON + timedelta(minutes=1))
        html = visitor.get("/sessions/s/?kind=injection").content.decode()
        words = " ".join(Page(html.partition('class="card known"')[2].partition("</div>")[0]).words.split())
        assert "2 memories were shown" in words
        assert "shown often 2 times" in words
        assert "shown once" in words
        assert "too many memories 2" in words
        assert "no tokens left" not in words
        assert "hidden from most" not in html

    def test_injections_of_other_sessions_are_not_listed(
        self, visitor: Client, session: Session, remember: Remember
    ) -> None:
        remember("elsewhere", session_id="other", project="zoo")
        inject(Session.objects.get(session_id="other"), prompt_preview="another prompt")
        assert "another prompt" not in main(visitor.get("/sessions/s/")).words

    def test_the_api_knows_no_such_kind(self, session: Session) -> None:
        from memoryhub.memories.filters import MemoryFilter
        from memoryhub.stats.timeline import count_entries, load_timeline

        inject(session)
        entries, _ = load_timeline(ALL, MemoryFilter())
        assert {entry.kind for entry in entries} == {"memory", "session_start"}
        assert count_entries(ALL, MemoryFilter()) == 2
