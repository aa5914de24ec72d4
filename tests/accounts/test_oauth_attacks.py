"""OAuth against thieves and liars: stolen codes and tokens, redirect tricks, mix-up, open registration."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from django.test import Client
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.accounts import oauth
from memoryhub.models import AgentToken, JournalEntry, OAuthClient, OAuthCode, OAuthRefresh
from tests.accounts.oauth_app import CALLBACK, CHALLENGE, HUB, METADATA, App, call, query_of, register
from tests.cases import each

pytestmark = pytest.mark.django_db
THIEF = "203.0.113.9"


@pytest.fixture(autouse=True)
def _public_hub(settings: Any) -> None:
    settings.PUBLIC_URL = HUB


@pytest.fixture
def app() -> App:
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss", password="a good password"))
    return App(browser)


@pytest.fixture
def approved(app: App) -> App:
    app.connect()
    return app


@pytest.fixture
def other(approved: App) -> App:
    """Another approved client of the same person."""
    other = App(approved.browser)
    other.connect()
    return other


# A client that lies when it registers


@pytest.mark.parametrize(
    "uri",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "http://app.example.com/callback",
        "http://127.0.0.1.evil.example/cb",
        "http://localhost:80@evil.example/cb",
        "https://user:word@app.example.com/cb",
        "https://app.example.com/cb#fragment",
        "https://app.example.com\\@evil.example/cb",
        "https://app.example.com;script-src *",
        "https://app.example.com /cb",
        "https://app.example.com/cb\n",
        "https://аpp.example.com/cb",
        "https://app.example.com:４４３/cb",
        "https:///cb",
        "//evil.example",
        "/you/",
        "",
        "https://a.example/" + "x" * 500,
    ],
)
def test_dangerous_redirect_uri_is_refused(uri: str) -> None:
    response = register(redirect_uris=[CALLBACK, uri])
    assert (response.status_code, response.json()["error"]) == (400, "invalid_redirect_uri")
    assert not OAuthClient.objects.exists()


@pytest.mark.parametrize(
    "lie",
    [
        {**METADATA, "redirect_uris": []},
        {**METADATA, "redirect_uris": CALLBACK},
        {**METADATA, "redirect_uris": [7]},
        {**METADATA, "redirect_uris": [CALLBACK] * 11},
        {"client_name": "Claude"},
        {**METADATA, "client_name": "Claude\u202eedualC"},
        {**METADATA, "client_name": "x" * 101},
        {**METADATA, "client_name": ["Claude"]},
        {**METADATA, "token_endpoint_auth_method": "private_key_jwt"},
        {**METADATA, "grant_types": ["client_credentials"]},
        {**METADATA, "response_types": ["token"]},
        [],
        None,
        b"{",
        b"\xff",
        b'{"redirect_uris": ["https://a.example"], "redirect_uris": ["https://b.example"]}',
        b"[" * 100_000,
    ],
)
def test_false_metadata_is_refused_with_a_reason(lie: Any) -> None:
    response = register(b"null" if lie is None else lie)
    assert response.status_code == 400
    assert response["Content-Type"] == "application/json"
    assert response.json()["error"] in ("invalid_client_metadata", "invalid_redirect_uri")
    assert response.json()["error_description"]
    assert not OAuthClient.objects.exists()


def test_large_registration_is_refused() -> None:
    assert register(b" " * 2_000_000).status_code == 413


def test_markup_in_a_name_is_text(app: App) -> None:
    OAuthClient.objects.update(name="<script>alert(1)</script>")
    assert "<script>alert(1)" not in app.ask().content.decode()


def test_client_cannot_choose_its_id_or_approve_itself() -> None:
    lie = {"client_id": "mine", "approved_at": "2026-01-01", "approved_by": "boss", "client_secret": "x"}
    found = register(**lie).json()
    assert found["client_id"] != "mine"
    assert OAuthClient.objects.get().approved_at is None


# Redirect tricks


@each(
    "uri",
    [
        CALLBACK + "/",
        CALLBACK + "?x=1",
        CALLBACK + "/../evil",
        CALLBACK.upper(),
        "https://app.example.com.evil.example/callback",
        "https://app.example.com@evil.example/callback",
        "https://app.example.com:8443/callback",
        "http://app.example.com/callback",
        "http://localhost/callback",
        'https://evil.example/"<>',
        "https://evil.example/ü",
        None,
        [CALLBACK, "https://evil.example/"],
    ],
)
def test_other_redirect_uri_is_never_followed(approved: App, uri: Any) -> None:
    for response in (approved.ask(redirect_uri=uri), approved.decide(redirect_uri=uri)):
        assert response.status_code == 400
        assert "Location" not in response


@pytest.mark.parametrize("registered", ["http://127.0.0.1/cb", "http://localhost:1234/cb?x=1"])
def test_port_of_the_own_machine_may_differ(app: App, registered: str) -> None:
    local = App(app.browser, {"redirect_uris": [registered]})
    host = registered.split("/")[2].partition(":")[0]
    path = registered.partition("/cb")[2]
    assert local.ask(redirect_uri=f"http://{host}:56789/cb{path}").status_code == 200
    swapped = "localhost" if host == "127.0.0.1" else "127.0.0.1"
    for wrong in (
        f"http://{host}:56789/other",
        f"http://{swapped}:56789/cb{path}",
        f"https://{host}/cb{path}",
    ):
        assert local.ask(redirect_uri=wrong).status_code == 400


@pytest.mark.parametrize("wrong", [{"resource": "https://evil.example/mcp"}, {"code_challenge": None}])
def test_hub_redirects_to_no_unapproved_app_without_a_click(app: App, wrong: dict[str, Any]) -> None:
    assert app.ask(**wrong).status_code == 400
    app.connect()
    found = query_of(app.ask(**wrong))
    assert found["error"] in ("invalid_target", "invalid_request")
    assert (found["iss"], found["state"]) == (HUB, "xyz")


@pytest.mark.parametrize(
    ("changes", "field", "fix"),
    [
        ({"redirect_uri": "https://evil.example/"}, "redirect_uri", "equals a registered"),
        ({"redirect_uri": None}, "redirect_uri", "It must send"),
        ({"response_type": "token"}, "response_type", "send response_type=code"),
        ({"scope": "everything"}, "scope", "one or more of: read"),
        ({"code_challenge": "short"}, "code_challenge", "must be a SHA-256 hash"),
    ],
)
def test_refused_request_names_the_parameter_and_the_fix(
    app: App, changes: dict[str, Any], field: str, fix: str
) -> None:
    explanation = app.ask(**changes).content.decode().partition('class="error-text">')[2].partition("</p>")[0]
    assert field in explanation
    assert fix in explanation
    assert "evil.example" not in explanation


def test_unknown_client_is_explained_to_the_person(app: App) -> None:
    for changes in (
        {"client_id": "nothing"},
        {"client_id": None},
        {"client_id": "https://evil.example/c.json"},
    ):
        response = app.ask(**changes)
        assert response.status_code == 400
        assert b"not registered here" in response.content


@pytest.mark.parametrize(
    "changes",
    [
        {"response_type": "token"},
        {"response_type": 'x"\\'},
        {"response_type": None},
        {"scope": 'read" \x00'},
        {"state": ["a", "b"]},
        {"resource": ["https://a.example", "https://b.example"]},
        {"client_id": "\x00"},
        {"code_challenge": "é" * 43},
        {"redirect_uri": "http://[::1"},
        {"resource": "http://[::1"},
    ],
)
def test_malformed_request_is_refused(app: App, changes: dict[str, Any]) -> None:
    response = app.ask(**changes)
    assert response.status_code == 400
    assert "Location" not in response


def test_state_comes_back_unchanged(approved: App) -> None:
    state = 'a+b %20"\\<é>&code=stolen'
    found = query_of(approved.decide(state=state))
    assert found["state"] == state
    assert found["code"] != "stolen"


def test_consent_needs_the_token_of_its_form(app: App) -> None:
    app.browser.handler.enforce_csrf_checks = True
    assert app.decide().status_code == 403
    assert not OAuthCode.objects.exists()


# PKCE


@each(
    "changes",
    [
        {"code_challenge": None},
        {"code_challenge": "short"},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
    ],
)
def test_request_without_s256_is_refused(approved: App, changes: dict[str, Any]) -> None:
    assert query_of(approved.ask(**changes))["error"] == "invalid_request"


@pytest.mark.parametrize("verifier", [None, "w" * 43, "v", CHALLENGE, "v" * 44])
def test_code_without_its_verifier_is_worthless(app: App, verifier: str | None) -> None:
    code = app.code()
    response = app.post(
        "token", grant_type="authorization_code", code=code, redirect_uri=CALLBACK, code_verifier=verifier
    )
    assert response.json()["error"] in ("invalid_grant", "invalid_request")
    assert not AgentToken.objects.exists()


# Stolen codes and tokens


def test_second_use_of_a_code_revokes_its_token(app: App) -> None:
    code = app.code()
    answer = app.exchange(code).json()
    assert app.exchange(code).json()["error"] == "invalid_grant"
    assert call(answer["access_token"]).status_code == 401
    assert app.refresh(answer["refresh_token"]).json()["error"] == "invalid_grant"
    row = JournalEntry.objects.get(operation="revoke")
    assert (row.actor, row.detail["reused"]) == ("anonymous", "authorization code")


def test_code_of_another_client_is_refused(app: App, other: App) -> None:
    code = app.code()
    assert other.exchange(code).json()["error"] == "invalid_grant"
    assert app.exchange(code).status_code == 200


def test_expired_code_is_refused(app: App) -> None:
    code = app.code()
    OAuthCode.objects.update(expires_at=timezone.now())
    assert app.exchange(code).json()["error"] == "invalid_grant"


def test_code_is_bound_to_its_redirect_uri(app: App) -> None:
    changed = app.post(
        "token", grant_type="authorization_code", code=app.code(), redirect_uri="https://evil.example/"
    )
    assert changed.json()["error"] == "invalid_grant"


def test_reused_refresh_token_revokes_the_grant(app: App) -> None:
    first = app.connect()
    second = app.refresh(first["refresh_token"]).json()
    third = app.refresh(second["refresh_token"]).json()
    assert app.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    assert call(third["access_token"]).status_code == 401
    assert app.refresh(third["refresh_token"]).json()["error"] == "invalid_grant"
    row = JournalEntry.objects.get(operation="revoke")
    assert row.detail["reused"] == "refresh token"


def test_refresh_whose_response_was_lost_can_be_repeated(app: App) -> None:
    first = app.connect()
    lost = app.refresh(first["refresh_token"]).json()
    second = app.refresh(first["refresh_token"]).json()
    assert (call(second["access_token"]).status_code, call(lost["access_token"]).status_code) == (200, 401)
    assert app.refresh(second["refresh_token"]).status_code == 200


def test_app_notices_a_thief_who_repeats_its_refresh(app: App) -> None:
    first = app.connect()
    second = app.refresh(first["refresh_token"]).json()
    stolen = app.refresh(first["refresh_token"]).json()
    assert app.refresh(second["refresh_token"]).json()["error"] == "invalid_grant"
    assert call(stolen["access_token"]).status_code == 401
    assert app.refresh(stolen["refresh_token"]).json()["error"] == "invalid_grant"


@pytest.mark.parametrize("later", [oauth.REFRESH_GRACE, -timedelta(hours=1)])
def test_refresh_token_that_was_not_just_used_revokes_the_grant(app: App, later: timedelta) -> None:
    first = app.connect()
    second = app.refresh(first["refresh_token"]).json()
    OAuthRefresh.objects.exclude(used_at=None).update(used_at=F("used_at") - later)
    assert app.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    assert call(second["access_token"]).status_code == 401


def test_refresh_token_of_another_client_is_refused(app: App, other: App) -> None:
    answer = app.connect()
    assert other.refresh(answer["refresh_token"]).json()["error"] == "invalid_grant"
    assert app.refresh(answer["refresh_token"]).status_code == 200


def test_client_cannot_revoke_the_grant_of_another(app: App, other: App) -> None:
    answer = app.connect()
    assert other.post("revoke", token=answer["access_token"]).status_code == 400
    assert call(answer["access_token"]).status_code == 200


def test_refresh_token_is_no_access_token(app: App) -> None:
    assert call(app.connect()["refresh_token"]).status_code == 401


def test_old_access_token_ends_with_a_refresh(app: App) -> None:
    first = app.connect()
    app.refresh(first["refresh_token"])
    assert call(first["access_token"]).status_code == 401


@pytest.mark.parametrize("grant_type", ["client_credentials", "password", "implicit", 'x"', None])
def test_other_grant_types_are_refused(app: App, grant_type: str | None) -> None:
    response = app.post("token", grant_type=grant_type, username="boss", password="a good password")
    assert response.json()["error"] in ("unsupported_grant_type", "invalid_request")
    assert response.status_code == 400


def test_too_many_or_broken_fields_are_refused(app: App) -> None:
    assert app.post("token", **{f"field{number}": "x" for number in range(4000)}).status_code == 400
    broken = Client().post("/api/v1/oauth/token", b"--x", content_type="multipart/form-data; boundary=")
    assert broken.status_code == 400
    assert Client().post("/api/v1/oauth/token", b"\xff=%ff", content_type="text/plain").status_code == 400


@pytest.mark.parametrize("credentials", [b"\xff\xfe:x", b"id\x00:x", 'name:é"'.encode()])
def test_broken_credentials_in_the_header_are_refused(app: App, credentials: bytes) -> None:
    header = {"Authorization": f"Basic {base64.b64encode(credentials).decode()}"}
    code = {"grant_type": "authorization_code", "code": "x"}
    response = Client().post("/api/v1/oauth/token", code, headers=header)
    assert (response.status_code, response.json()["error"]) == (401, "invalid_client")


@pytest.mark.parametrize("name", ["code", "refresh_token", "client_secret", "token"])
def test_secret_in_the_address_is_refused(app: App, name: str) -> None:
    for endpoint in ("token", "revoke"):
        body = {"grant_type": "authorization_code", "client_id": app.id, "token": "x"}
        response = Client().post(f"/api/v1/oauth/{endpoint}?{name}=%22x", body)
        assert (response.status_code, response.json()["error"]) == (400, "invalid_request")


def test_guessing_is_throttled(app: App, configure: Any) -> None:
    configure(refusals_per_minute=3)
    thief = Client(REMOTE_ADDR=THIEF)
    guess = {"grant_type": "refresh_token", "client_id": app.id, "refresh_token": "mh_guess"}
    sent = [thief.post("/api/v1/oauth/token", guess).status_code for _ in range(4)]
    assert sent == [400, 400, 400, 429]


# Mix-up, and tokens of other servers


@each(
    "resource",
    [
        "https://other.example/mcp/letsgo",
        f"{HUB}/mcp/nothing",
        f"{HUB}/mcp",
        HUB,
        f"{HUB}/mcp/letsgo#x",
        None,
    ],
)
def test_token_for_another_server_is_not_granted(approved: App, resource: str | None) -> None:
    assert query_of(approved.ask(resource=resource))["error"] == "invalid_target"


def test_exchange_for_another_resource_is_refused(app: App) -> None:
    code = app.code()
    wrong = f"{HUB}/mcp/mira"
    answer = app.post(
        "token", grant_type="authorization_code", code=code, redirect_uri=CALLBACK, resource=wrong
    )
    assert answer.json()["error"] == "invalid_target"
    refresh = app.exchange(code).json()["refresh_token"]
    assert app.refresh(refresh, resource=wrong).json()["error"] == "invalid_target"
    assert app.refresh(refresh).status_code == 200


def test_token_ends_when_the_hub_moves(app: App, settings: Any) -> None:
    access = app.connect()["access_token"]
    settings.PUBLIC_URL = "https://new.example.org"
    assert call(access).status_code == 401
    settings.PUBLIC_URL = ""
    assert call(access).status_code == 401


def test_forged_host_does_not_change_the_metadata(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    evil = Client(headers={"host": "evil.example", "x-forwarded-host": "evil.example"})
    for path in (".well-known/oauth-authorization-server", ".well-known/oauth-protected-resource/mcp/letsgo"):
        assert "evil" not in evil.get(f"/{path}").content.decode()
    response = evil.post("/mcp/letsgo", "{}", content_type="application/json")
    assert "evil" not in response["WWW-Authenticate"]


# Open registration


def test_registered_client_can_do_nothing_by_itself() -> None:
    client_id = register(token_endpoint_auth_method="none").json()["client_id"]
    sent = {"client_id": client_id, "grant_type": "authorization_code", "code": "x", "redirect_uri": CALLBACK}
    assert Client().post("/api/v1/oauth/token", sent).json()["error"] == "invalid_grant"
    assert Client().get(f"/authorize/?client_id={client_id}")["Location"].startswith("/login/")


def test_registrations_are_shown_to_managers_of_tokens_alone(app: App) -> None:
    rows = JournalEntry.objects.filter(object_type="client")
    assert not rows.visible_to(Clearance.up_to("secret", owner="eve")).exists()
    assert not rows.visible_to(Clearance.up_to("secret")).exists()
    assert app.browser.get("/journal/").content.decode().count("register") > 0
