"""The profile page: rights, preferences, tokens, sessions, password."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from memoryhub.access.policy import system_actor
from memoryhub.accounts import sign_in as accounts_sign_in
from memoryhub.accounts import tokens
from memoryhub.core import dates
from memoryhub.models import AgentToken, JournalEntry, Memory
from memoryhub.web.accounts import profile
from tests.cases import each
from tests.clients import signed_in_client

GOOD = "a good password"
BETTER = "quite another phrase"


def sign_in(name: str = "ada", agent: str = "Firefox/140.0 Linux", address: str = "10.0.0.1") -> Client:
    client = Client(REMOTE_ADDR=address, headers={"User-Agent": agent})
    assert client.post("/login/", {"username": name, "password": GOOD}).status_code == 302
    return client


def page(client: Client, path: str = "/you/") -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def secret_in(response: Any) -> str:
    assert response.status_code == 200, response.content
    return re.search(r"mh_[\w-]+", response.content.decode())[0]  # type: ignore[index]


def token_form(client: Client, **changed: Any) -> dict[str, Any]:
    once = re.search(r'name="once" value="([^"]+)"', page(client))[1]  # type: ignore[index]
    return {"name": "bot", "clearance": "public", "rights": ["read"], "once": once, **changed}


@pytest.fixture
def ada(member: Any) -> User:
    return member("add_agenttoken", "add_memory")


class TestRights:
    def test_page_lists_projects_and_levels(self, member):
        member(farm="private", barn="")
        text = page(sign_in())
        assert "farm" in text
        assert "badge-private" in text
        assert "badge-secret" not in text

    def test_levels_are_named_only_if_the_person_can_see_them(self, member):
        member(barn="")
        assert "Private and secret memories" not in page(sign_in())

    def test_page_says_when_no_project_is_visible(self, member):
        member(farm="").memberships.all().delete()
        assert "You have no projects" in page(sign_in())

    def test_role_is_shown_with_its_permissions(self, member):
        from django.contrib.auth.models import Group

        member().groups.add(Group.objects.get(name="curator"))
        assert "Curator: writes and corrects memories" in page(sign_in())


class TestTokens:
    def test_token_is_created_and_shown_once(self, ada):
        client = sign_in()
        raw = secret_in(client.post("/you/tokens/", token_form(client, days="30")))
        assert raw not in page(client)
        token = tokens.authenticate_token(raw)
        assert (token.name, token.owner, token.rights) == ("bot", "ada", ["read"])
        assert token.expires_at - timezone.now() < timedelta(days=30, minutes=1)

    def test_form_creates_one_token(self, ada):
        client = sign_in()
        form = token_form(client)
        client.post("/you/tokens/", form)
        assert client.post("/you/tokens/", form).status_code == 302
        assert AgentToken.objects.count() == 1

    def test_right_that_the_person_lacks_is_not_granted(self, ada):
        client = sign_in()
        assert client.post("/you/tokens/", token_form(client, rights=["read", "maintain"])).status_code == 422
        assert client.post("/you/tokens/", token_form(client, clearance="secret")).status_code == 422
        assert not AgentToken.objects.exists()

    def test_no_token_is_created_without_the_permission(self, member):
        member()
        client = sign_in()
        assert 'name="once"' not in page(client)
        assert client.post("/you/tokens/", {"name": "bot"}).status_code == 403

    def test_member_chooses_among_their_projects(self, member):
        member("add_agenttoken", farm="", barn="")
        client = sign_in()
        assert client.post("/you/tokens/", token_form(client)).status_code == 422
        assert client.post("/you/tokens/", token_form(client, projects=["zoo"])).status_code == 422
        assert client.post("/you/tokens/", token_form(client, projects=["farm"])).status_code == 200
        assert AgentToken.objects.get().projects == ["farm"]

    def test_level_that_one_project_lacks_is_refused(self, member):
        member("add_agenttoken", farm="secret", barn="")
        client = sign_in()
        form = token_form(client, clearance="secret", projects=["farm", "barn"])
        refused = client.post("/you/tokens/", form)
        assert refused.status_code == 422
        assert "You cannot read secret memories of barn" in refused.content.decode()

    def test_page_says_how_many_events_wait_on_the_machine(self, ada, admin_client):
        client = sign_in()
        client.post("/you/tokens/", token_form(client))
        assert "waiting" not in page(client)
        tokens.record_waiting(AgentToken.objects.get(), 3)
        assert "3 events waiting on the agent's machine" in page(client)
        assert "3 events waiting" in admin_client.get("/admin/memoryhub/agenttoken/").content.decode()

    def test_rotated_token_is_refused_and_the_new_one_works(self, ada):
        client = sign_in()
        old = secret_in(client.post("/you/tokens/", token_form(client)))
        token = AgentToken.objects.get()
        new = secret_in(client.post(f"/you/tokens/{token.uid}/rotate/"))
        assert tokens.authenticate_token(old) is None
        assert tokens.authenticate_token(new).pk == token.pk
        assert JournalEntry.objects.filter(operation="rotate", object_id=token.uid).count() == 1

    def test_revoked_or_expired_token_is_not_rotated(self, ada):
        token, _ = tokens.issue_token("bot", "ada", actor=system_actor("tests"))
        tokens.revoke_token(token.uid, system_actor("tests"))
        with pytest.raises(tokens.Conflict):
            tokens.rotate_token(token.uid, system_actor("tests"))

    def test_revoking_own_tokens_needs_no_permission(self, member):
        member()
        token, raw = tokens.issue_token("bot", "ada", actor=system_actor("tests"))
        assert sign_in().post(f"/you/tokens/{token.uid}/revoke/").status_code == 302
        assert tokens.authenticate_token(raw) is None

    @pytest.mark.parametrize("what", ["rotate", "revoke"])
    def test_token_of_another_owner_is_not_found(self, ada, what):
        token, raw = tokens.issue_token("theirs", "bob", actor=system_actor("tests"))
        client = sign_in()
        assert "theirs" not in page(client)
        assert client.post(f"/you/tokens/{token.uid}/{what}/").status_code == 404
        assert tokens.authenticate_token(raw)

    def test_several_tokens_are_revoked_after_confirmation(self, ada):
        made = [tokens.issue_token(f"bot {n}", "ada", actor=system_actor("tests")) for n in range(3)]
        client = sign_in()
        form = {"uid": [token.uid for token, _ in made[:2]]}
        asked = client.post("/you/tokens/revoke/", form).content.decode()
        assert "Revoke 2 tokens permanently?" in asked
        assert "bot 1" in asked
        assert "bot 2" not in asked
        assert all(tokens.authenticate_token(raw) for _, raw in made)
        done = client.post("/you/tokens/revoke/", {**form, "confirmed": "yes"}, follow=True)
        assert "2 tokens are revoked" in done.content.decode()
        assert [bool(tokens.authenticate_token(raw)) for _, raw in made] == [False, False, True]

    def test_tokens_of_others_are_not_revoked(self, ada):
        theirs, raw = tokens.issue_token("theirs", "bob", actor=system_actor("tests"))
        form = {"uid": theirs.uid, "confirmed": "yes"}
        answer = sign_in().post("/you/tokens/revoke/", form, follow=True)
        assert "No token was selected" in answer.content.decode()
        assert tokens.authenticate_token(raw)

    def test_last_use_is_shown_with_its_address(self, ada):
        _, raw = tokens.issue_token("bot", "ada", actor=system_actor("tests"))
        Client(REMOTE_ADDR="10.9.8.7", headers={"Authorization": f"Bearer {raw}"}).get("/api/v1/memories")
        assert "from 10.9.8.7" in page(sign_in())


class TestSessions:
    def test_session_is_listed_with_device_and_address(self, ada):
        sign_in(agent="Mozilla/5.0 (iPhone) Safari/604.1", address="10.0.0.2")
        text = page(sign_in())
        assert "Safari on iPhone" in text
        assert "10.0.0.2" in text
        assert "Firefox on Linux" in text

    @pytest.mark.slow
    def test_sessions_are_paged_with_the_current_one_first(self, ada):
        for number in range(profile.SESSIONS_PER_PAGE + 4):
            sign_in(address=f"10.0.1.{number}")
        this = sign_in(address="10.0.2.1")
        first, second = page(this), page(this, "/you/?page=2")
        assert ">this device<" in first
        assert "Page 1 of 2" in first
        assert ">this device<" not in second
        found = [set(re.findall(r"10\.0\.1\.\d+", text)) for text in (first, second)]
        assert [len(one) for one in found] == [profile.SESSIONS_PER_PAGE - 1, 5]
        assert "Page 1 of 2" in page(this, "/you/?page=nonsense")

    def test_session_without_login_is_marked(self, ada):
        made = SessionStore()
        made[SESSION_KEY] = str(ada.pk)
        made.create()
        text = page(sign_in())
        assert ">a script or command<" in text
        assert text.count(">not recorded<") == 3
        assert "unknown" not in text

    def test_sessions_of_others_are_not_listed(self, ada, member):
        member(name="bob")
        sign_in("bob", address="10.6.6.6")
        assert "10.6.6.6" not in page(sign_in())

    def test_one_session_is_ended(self, ada):
        other, third, mine = sign_in(), sign_in(), sign_in()
        marks = re.findall(r'name="mark" value="([^"]+)"', page(mine))
        assert len(marks) == 2
        mine.post("/you/sessions/end/", {"mark": marks[0]})
        assert sorted(client.get("/you/").status_code for client in (other, third)) == [200, 302]
        assert mine.get("/you/").status_code == 200

    def test_all_other_sessions_are_ended_and_journaled(self, ada):
        other, third, mine = sign_in(), sign_in(), sign_in()
        mine.post("/you/sessions/end/")
        assert [client.get("/you/").status_code for client in (other, third, mine)] == [302, 302, 200]
        assert JournalEntry.objects.get(operation="sessions_ended").detail == {"count": 2}

    def test_mark_of_another_persons_session_ends_nothing(self, ada, member):
        member(name="bob")
        bob, mine = sign_in("bob"), sign_in()
        sign_in("bob")
        mark = re.search(r'name="mark" value="([^"]+)"', page(bob))[1]  # type: ignore[index]
        mine.post("/you/sessions/end/", {"mark": mark})
        assert bob.get("/you/").status_code == 200
        assert Session.objects.count() == 3

    def test_no_page_contains_a_session_key(self, ada):
        client = sign_in()
        assert client.session.session_key not in page(client)

    def test_last_seen_is_written_every_five_minutes(self, ada):
        client = sign_in()
        client.get("/")
        first = client.session["seen"]
        client.get("/")
        assert client.session["seen"] == first
        session = client.session
        session["seen"] = (timezone.now() - timedelta(minutes=6)).isoformat()
        session.save()
        client.get("/")
        assert client.session["seen"] >= first


class TestPassword:
    def test_new_password_ends_other_sessions(self, ada):
        other, mine = sign_in(), sign_in()
        form = {"old": GOOD, "password": BETTER, "again": BETTER}
        assert mine.post("/you/password/", form).status_code == 302
        assert mine.get("/you/").status_code == 200
        assert other.get("/you/").status_code == 302
        assert User.objects.get(pk=ada.pk).check_password(BETTER)
        assert JournalEntry.objects.filter(operation="password_change", object_id="ada").count() == 1

    @pytest.mark.slow
    def test_guessing_the_old_password_is_throttled(self, ada):
        client = sign_in()
        for _ in range(accounts_sign_in.PER_PAIR):
            assert self.change(client, old="guess").status_code == 422
        held = self.change(client)
        assert held.status_code == 429
        assert 0 < int(held["Retry-After"]) <= accounts_sign_in.FAILURE_WINDOW.total_seconds() + 1
        assert "Wait 15 minutes, then try again" in held.content.decode()
        assert User.objects.get(pk=ada.pk).check_password(GOOD)

    @pytest.mark.slow
    def test_wrong_old_passwords_are_journaled_and_throttled_ones_are_not(self, ada):
        client = sign_in()
        for _ in range(accounts_sign_in.PER_PAIR + 3):
            self.change(client, old="guess")
        rows = JournalEntry.objects.filter(operation="login_failed", object_id="ada")
        assert rows.count() == accounts_sign_in.PER_PAIR
        assert (rows[0].actor, rows[0].detail["asked_on"]) == ("user:ada", "/you/password/")
        assert rows[0].detail["from"] == "10.0.0.1"

    @pytest.mark.slow
    def test_failures_at_login_and_on_the_page_count_together(self, ada):
        client = sign_in()
        for _ in range(accounts_sign_in.PER_PAIR - 1):
            self.change(client, old="guess")
        elsewhere = Client(REMOTE_ADDR="10.0.0.1")
        elsewhere.post("/login/", {"username": "ada", "password": "guess"})
        assert self.change(client).status_code == 429
        assert elsewhere.post("/login/", {"username": "ada", "password": GOOD}).status_code == 429

    def test_spaces_are_part_of_a_password(self, ada):
        client = sign_in()
        assert self.change(client, password=f" {BETTER} ", again=f" {BETTER} ").status_code == 302
        assert User.objects.get(pk=ada.pk).check_password(f" {BETTER} ")
        assert self.change(client, old=f" {BETTER} ").status_code == 302

    def change(self, client: Client, **changed: str) -> Any:
        return client.post("/you/password/", {"old": GOOD, "password": BETTER, "again": BETTER, **changed})

    @each(
        "changed, words",
        [
            ({"old": "wrong"}, "not your password"),
            ({"again": "other"}, "do not match"),
            ({"password": "12345678", "again": "12345678"}, "too common"),
        ],
    )
    def test_errors_are_shown_next_to_their_fields(self, ada, changed, words):
        form = {"old": GOOD, "password": BETTER, "again": BETTER, **changed}
        refused = sign_in().post("/you/password/", form)
        assert refused.status_code == 422
        assert words in refused.content.decode()
        assert User.objects.get(pk=ada.pk).check_password(GOOD)


class TestPreferences:
    def keep(self, client: Client, **values: str) -> Any:
        return client.post("/you/preferences/", {"theme": "", "time_zone": "", "language": "", **values})

    def test_theme_is_set_before_any_script(self, ada):
        client = sign_in()
        assert "data-theme" not in page(client)[:200]
        self.keep(client, theme="dark")
        assert '<html lang="en" data-theme="dark">' in page(client)

    def test_times_are_in_the_persons_time_zone(self, ada, member, remember):
        member(name="bob")
        remember("noon", title="noon")
        Memory.objects.update(created_at="2026-01-15T12:00:00Z", updated_at="2026-01-15T12:00:00Z")
        mine, other = sign_in(), sign_in("bob")
        self.keep(mine, time_zone="Asia/Tokyo")
        assert "2026-01-15 21:00:00 JST" in mine.get("/").content.decode()
        assert "2026-01-15 12:00:00 UTC" in other.get("/").content.decode()

    def test_every_zone_is_offered(self, ada):
        text = page(sign_in())
        zones = dates.time_zones()
        assert len(zones) > 300
        assert all(f'<option value="{zone}">' in text for zone in zones)

    def test_pages_name_the_chosen_language_of_dates(self, ada, remember):
        remember("noon", title="noon")
        Memory.objects.update(created_at="2026-05-15T12:00:00Z", updated_at="2026-05-15T12:00:00Z")
        client = sign_in()
        self.keep(client, language="de")
        text = client.get("/").content.decode()
        assert '<html lang="en" data-language="de">' in text
        assert ">2026-05-15 12:00</time>" in text

    @each("wrong", [{"time_zone": "Mars/Base"}, {"language": "xx"}, {"theme": "neon"}])
    def test_unknown_choice_is_refused(self, ada, wrong):
        assert self.keep(sign_in(), **wrong).status_code == 422

    def test_unknown_time_zone_does_not_break_pages(self, ada):
        client = sign_in()
        self.keep(client, time_zone="Asia/Tokyo")
        ada.profile.time_zone = "Gone/City"
        ada.profile.save()
        assert client.get("/").status_code == 200

    def test_preferences_do_not_confine(self, ada):
        self.keep(sign_in(), theme="dark")
        assert not User.objects.get(pk=ada.pk).profile.confined


def test_page_has_a_fixed_number_of_queries(ada, django_assert_max_num_queries):
    for number in range(20):
        tokens.issue_token(f"bot{number}", "ada", actor=system_actor("tests"))
    client = signed_in_client(ada)
    client.get("/trash/")  # the review count is cached until the store changes
    with django_assert_max_num_queries(13):
        client.get("/you/")


def test_heading_is_profile_and_names_the_account(ada: User) -> None:
    html = page(sign_in())
    assert "<h1>Profile</h1>" in html
    assert 'Signed in as <strong dir="auto">ada</strong>' in html
