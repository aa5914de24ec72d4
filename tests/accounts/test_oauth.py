"""OAuth 2.1 for MCP: discovery, registration, consent, tokens, refresh, revocation."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from memoryhub import config
from memoryhub.accounts import oauth, tokens
from memoryhub.config import ConfigError
from memoryhub.models import AgentToken, JournalEntry, OAuthClient, OAuthCode, OAuthRefresh
from tests.accounts.oauth_app import CALLBACK, HUB, RESOURCE, App, call, query_of, register

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _public_hub(settings: Any) -> None:
    settings.PUBLIC_URL = HUB


@pytest.fixture
def boss() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("boss", password="a good password"))
    return client


@pytest.fixture
def app(boss: Client) -> App:
    return App(boss)


def operations(kind: str) -> list[str]:
    rows = JournalEntry.objects.filter(object_type=kind).order_by("seq")
    return list(rows.values_list("operation", flat=True))


# Discovery


def test_refused_mcp_request_names_the_metadata() -> None:
    response = Client().post("/mcp/letsgo", "{}", content_type="application/json")
    assert response.status_code == 401
    where = f'resource_metadata="{HUB}/.well-known/oauth-protected-resource/mcp/letsgo"'
    assert where in response["WWW-Authenticate"]
    assert 'scope="read write"' in response["WWW-Authenticate"]
    assert "invalid_token" not in response["WWW-Authenticate"]


def test_wrong_token_is_an_invalid_token() -> None:
    assert 'error="invalid_token"' in call("mh_wrong")["WWW-Authenticate"]


def test_hub_without_public_address_has_no_oauth(settings: Any, boss: Client) -> None:
    settings.PUBLIC_URL = ""
    response = Client().post("/mcp/letsgo", "{}", content_type="application/json")
    assert response["WWW-Authenticate"] == 'Bearer realm="memoryhub"'
    for path in ("/.well-known/oauth-authorization-server", "/authorize/"):
        assert boss.get(path).status_code == 404
    for path in ("/api/v1/oauth/register", "/api/v1/oauth/token", "/api/v1/oauth/revoke"):
        assert boss.post(path).status_code == 404


def test_server_metadata_is_valid_and_complete(settings: Any) -> None:
    settings.PUBLIC_URL = HUB
    found = Client().get("/.well-known/oauth-authorization-server").json()
    AuthorizationServerMetadata(found).validate()
    assert found["issuer"] == HUB
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["authorization_response_iss_parameter_supported"] is True
    assert found["client_id_metadata_document_supported"] is False
    endpoints = {value for name, value in found.items() if name.endswith("_endpoint")}
    assert all(one.startswith(f"{HUB}/") for one in endpoints)


def test_resource_metadata_names_the_mcp_server() -> None:
    found = Client().get("/.well-known/oauth-protected-resource/mcp/mira").json()
    assert found["resource"] == f"{HUB}/mcp/mira"
    assert found["authorization_servers"] == [HUB]
    assert Client().get("/.well-known/oauth-protected-resource/mcp/nothing").status_code == 404


# Registration


def test_registration_returns_the_stored_metadata() -> None:
    response = register(scope="read", logo_uri="https://app.example.com/logo.png")
    assert response.status_code == 201
    assert response["Cache-Control"] == "no-store"
    found = response.json()
    assert found["redirect_uris"] == [CALLBACK]
    assert found["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in found
    assert "logo_uri" not in found
    assert operations("client") == ["register"]


def test_confidential_client_gets_a_secret_that_is_stored_hashed() -> None:
    found = register(token_endpoint_auth_method="client_secret_post").json()
    client = OAuthClient.objects.get(uid=found["client_id"])
    assert client.secret_digest == tokens.hash_token(found["client_secret"])


def test_registration_can_be_closed(configure: Callable[..., None]) -> None:
    configure(oauth_registration=False)
    response = register()
    assert (response.status_code, response.json()["error"]) == (403, "access_denied")
    found = Client().get("/.well-known/oauth-authorization-server").json()
    assert "registration_endpoint" not in found


def test_unapproved_clients_are_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "MAX_PENDING", 2)
    assert [register().status_code for _ in range(3)] == [201, 201, 429]
    OAuthClient.objects.update(registered_at=timezone.now() - oauth.PENDING_LIFETIME_AT_CAP)
    assert register().status_code == 201


def test_unapproved_clients_expire(app: App) -> None:
    long_ago = timezone.now() - oauth.PENDING_LIFETIME
    OAuthClient.objects.update(registered_at=long_ago)
    assert app.ask().status_code == 400
    register()
    assert not OAuthClient.objects.filter(uid=app.id).exists()


def test_registrations_of_one_address_are_limited() -> None:
    agent, body = Client(REMOTE_ADDR="203.0.113.7"), json.dumps({"redirect_uris": [CALLBACK]})
    path = "/api/v1/oauth/register"
    sent = [agent.post(path, body, content_type="application/json") for _ in range(11)]
    assert [one.status_code for one in sent] == [201] * 10 + [429]
    assert int(sent[-1]["Retry-After"]) > 0


# Consent


def test_consent_page_shows_who_asks_for_what(app: App) -> None:
    page = app.ask()
    assert page.status_code == 200
    text = page.content.decode()
    assert "Claude" in text
    assert "https://app.example.com" in text
    assert "Read: search and list memories and facts" in text
    assert "Maintain" not in text
    assert page["X-Frame-Options"] == "DENY"
    assert "form-action 'self' https://app.example.com;" in page["Content-Security-Policy"] + ";"
    assert "frame-ancestors 'none'" in page["Content-Security-Policy"]


def test_visitor_signs_in_first(app: App) -> None:
    response = Client().get(app.address())
    assert response.status_code == 302
    assert response["Location"].startswith("/login/?next=/authorize/")


def test_allowing_returns_a_code_with_state_and_issuer(app: App) -> None:
    response = app.decide()
    assert response["Location"].startswith(f"{CALLBACK}?")
    found = query_of(response)
    assert (found["state"], found["iss"]) == ("xyz", HUB)
    assert OAuthCode.objects.get().digest == tokens.hash_token(found["code"])


def test_denying_returns_access_denied_and_approves_nothing(app: App) -> None:
    found = query_of(app.decide("deny"))
    assert (found["error"], found["state"], found["iss"]) == ("access_denied", "xyz", HUB)
    assert OAuthClient.objects.get().approved_at is None
    assert not OAuthCode.objects.exists()


def test_grant_has_what_the_person_chose(app: App) -> None:
    form = {"name": "phone", "clearance": "private", "rights": ["read"], "projects": "zoo\nfarm", "days": "7"}
    answer = app.connect(form)
    token = AgentToken.objects.get()
    assert (token.name, token.owner, token.clearance) == ("phone", "boss", "private")
    assert (token.rights, token.projects) == (["read"], ["farm", "zoo"])
    assert token.expires_at is not None
    assert timedelta(days=6) < token.expires_at - timezone.now() <= timedelta(days=7)
    assert answer["scope"] == "read"
    assert (answer["token_type"], answer["expires_in"]) == ("Bearer", 3600)


def test_right_that_the_app_did_not_ask_for_cannot_be_granted(app: App) -> None:
    response = app.decide(form={"rights": ["read", "write"]}, scope="read")
    assert response.status_code == 422
    assert not OAuthCode.objects.exists()


def test_unknown_scopes_are_ignored(app: App) -> None:
    assert app.connect({"rights": ["read"]}, scope="read offline_access")["scope"] == "read"
    error = query_of(app.ask(scope="openid"))
    assert error["error"] == "invalid_scope"


def test_journal_has_approval_grant_and_revocation(app: App) -> None:
    access = app.connect()["access_token"]
    app.post("revoke", token=access)
    assert operations("client") == ["register", "approve"]
    assert operations("token") == ["issue", "revoke"]
    approval = JournalEntry.objects.get(operation="approve")
    assert approval.actor == "user:boss"


# Approval


def curator(*more: str) -> Client:
    user = User.objects.create_user("ada", password="a good password")
    names = ("add_agenttoken", "add_memory", *more)
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = Client()
    client.force_login(user)
    return client


def test_curator_cannot_approve_an_app() -> None:
    app = App(curator())
    assert app.ask().status_code == 403
    assert app.decide().status_code == 403
    assert OAuthClient.objects.get().approved_at is None
    assert not OAuthCode.objects.exists()


def test_curator_connects_an_approved_app_within_their_own_rights(boss: Client) -> None:
    app = App(boss)
    app.connect()
    app.browser = curator()
    assert app.decide(form={"clearance": "secret"}).status_code == 422
    app.connect()
    assert AgentToken.objects.get(owner="ada").clearance == "public"


def test_viewer_cannot_connect_an_app(app: App) -> None:
    app.connect()
    app.browser = Client()
    app.browser.force_login(User.objects.create_user("eve"))
    assert app.decide().status_code == 403
    assert query_of(app.decide("deny"))["error"] == "access_denied"


def test_confined_person_grants_only_own_projects(app: App, member: Callable[..., User]) -> None:
    app.connect()
    app.browser = Client()
    app.browser.force_login(member("add_agenttoken", "add_memory", zoo="private"))
    assert app.decide(form={"projects": ["farm"]}).status_code == 422
    app.connect({"projects": ["zoo"], "clearance": "private"})
    assert AgentToken.objects.get(owner="ada").projects == ["zoo"]


def test_rights_lost_after_consent_are_not_issued(boss: Client) -> None:
    app = App(boss)
    app.connect()
    app.browser = curator()
    code = app.code()
    User.objects.get(username="ada").user_permissions.clear()
    assert app.exchange(code).json()["scope"] == "read"


def test_removing_an_app_revokes_every_grant(app: App, boss: Client) -> None:
    answer = app.connect()
    assert boss.post(f"/you/apps/{app.id}/remove/").status_code == 302
    assert call(answer["access_token"]).status_code == 401
    assert app.refresh(answer["refresh_token"]).json()["error"] == "invalid_client"
    assert app.ask().status_code == 400
    assert operations("client")[-1] == "remove"


def test_only_managers_of_tokens_remove_an_app(app: App) -> None:
    app.connect()
    assert curator().post(f"/you/apps/{app.id}/remove/").status_code == 403
    assert OAuthClient.objects.get().removed_at is None


# Tokens


def test_access_token_works_at_its_mcp_server_alone(app: App, remember: Callable[..., Any]) -> None:
    remember("zebra crossing")
    access = app.connect()["access_token"]
    found = call(access).json()["result"]["structuredContent"]["results"]
    assert [one["content"] for one in found] == ["zebra crossing"]
    assert call(access, toolset="mira").status_code == 401
    bearer = {"Authorization": f"Bearer {access}"}
    assert Client(headers=bearer).get("/api/v1/memories").status_code == 401


def test_grant_sees_only_its_levels_and_projects(app: App, four_levels: Any) -> None:
    access = app.connect({"clearance": "public"})["access_token"]
    response = call(access, query="zebra", allow_private=True, allow_secret=True).json()["result"]
    texts = [one["content"] for one in response["structuredContent"].get("results", [])]
    assert not any(word in text for text in texts for word in ("private", "secret", "unknown"))


def test_access_token_expires_and_refresh_renews_it(app: App) -> None:
    answer = app.connect()
    AgentToken.objects.update(secret_until=timezone.now())
    assert call(answer["access_token"]).status_code == 401
    fresh = app.refresh(answer["refresh_token"], resource=RESOURCE).json()
    assert call(fresh["access_token"]).status_code == 200
    assert fresh["refresh_token"] != answer["refresh_token"]
    assert AgentToken.objects.count() == 1


def test_secrets_are_stored_hashed(app: App) -> None:
    answer = app.connect()
    stored = json.dumps([list(model.objects.values()) for model in (AgentToken, OAuthRefresh)], default=str)
    assert answer["access_token"] not in stored
    assert answer["refresh_token"] not in stored
    assert OAuthRefresh.objects.get().digest == tokens.hash_token(answer["refresh_token"])


@pytest.mark.parametrize("name", ["access_token", "refresh_token"])
def test_client_revokes_its_grant_by_either_token(app: App, name: str) -> None:
    answer = app.connect()
    assert app.post("revoke", token=answer[name], token_type_hint=name).status_code == 200
    assert call(answer["access_token"]).status_code == 401
    assert app.refresh(answer["refresh_token"]).json()["error"] == "invalid_grant"


def test_unknown_hint_does_not_stop_a_revocation(app: App) -> None:
    answer = app.connect()
    assert app.post("revoke", token=answer["access_token"], token_type_hint="id_token").status_code == 200
    assert call(answer["access_token"]).status_code == 401
    assert app.post("revoke", token="").json()["error"] == "invalid_request"


def test_revoking_an_unknown_token_is_no_error(app: App) -> None:
    assert app.post("revoke", token="mh_unknown").status_code == 200


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
def test_confidential_client_authenticates(boss: Client, method: str) -> None:
    app = App(boss, {"token_endpoint_auth_method": method})
    code = app.code()
    secret = app.info["client_secret"]
    assert app.exchange(code).json()["error"] == "invalid_client"
    assert app.exchange(code, client_secret="wrong").json()["error"] == "invalid_client"
    if method == "client_secret_post":
        proof: dict[str, Any] = {"client_secret": secret}
    else:
        pair = base64.b64encode(f"{app.id}:{secret}".encode()).decode()
        proof = {"headers": {"Authorization": f"Basic {pair}"}}
    assert app.exchange(code, **proof).status_code == 200


# The page of tokens


def test_page_lists_the_grant_and_revokes_it(app: App, boss: Client) -> None:
    answer = app.connect()
    call(answer["access_token"])
    page = boss.get("/you/").content.decode()
    token = AgentToken.objects.get()
    row = page[page.index(f'id="grant-{token.uid}"') :]
    row = row[: row.index("</tr>")]
    assert "Claude" in row
    assert "app.example.com" in row
    assert "from 127.0.0.1" in row
    assert f'id="token-{token.uid}"' not in page
    boss.post(f"/you/tokens/{token.uid}/revoke/")
    assert call(answer["access_token"]).status_code == 401
    assert app.refresh(answer["refresh_token"]).json()["error"] == "invalid_grant"


def test_connect_page_names_the_address_for_hosted_agents(boss: Client, settings: Any) -> None:
    assert boss.get("/connect/hosted/")["Location"] == "/connect/hosted/snippet/"
    assert f"{HUB}/mcp/mira" in boss.get("/connect/hosted/snippet/?toolset=mira").content.decode()
    assert "ChatGPT" in boss.get("/connect/").content.decode()
    form = {"name": "bot", "clearance": "public"}
    assert boss.post("/connect/hosted/snippet/", form).status_code == 422
    assert not AgentToken.objects.exists()
    settings.PUBLIC_URL = ""
    assert "ChatGPT" not in boss.get("/connect/").content.decode()
    assert boss.get("/connect/hosted/snippet/").status_code == 404


def test_grant_cannot_be_rotated_by_hand(app: App, boss: Client) -> None:
    answer = app.connect()
    boss.post(f"/you/tokens/{AgentToken.objects.get().uid}/rotate/")
    assert call(answer["access_token"]).status_code == 200


def test_admin_shows_clients_and_changes_none(app: App, boss: Client) -> None:
    client = OAuthClient.objects.get()
    listed = boss.get("/admin/memoryhub/oauthclient/").content.decode()
    assert "waits for approval" in listed
    assert boss.get(f"/admin/memoryhub/oauthclient/{client.pk}/change/").status_code == 200
    assert boss.post(f"/admin/memoryhub/oauthclient/{client.pk}/change/", {"name": "x"}).status_code == 403
    assert boss.get("/admin/memoryhub/oauthclient/add/").status_code == 403


def test_closed_account_ends_grant_and_refresh(app: App) -> None:
    answer = app.connect()
    User.objects.update(is_active=False)
    assert call(answer["access_token"]).status_code == 401
    assert app.refresh(answer["refresh_token"]).json()["error"] == "invalid_grant"


def test_lowered_rights_lower_a_grant_whose_access_token_expired(boss: Client) -> None:
    app = App(boss)
    app.connect()
    app.browser = curator()
    answer = app.connect()
    AgentToken.objects.filter(owner="ada").update(secret_until=timezone.now())
    ada = User.objects.get(username="ada")
    ada.user_permissions.clear()
    tokens.reduce_tokens_to_owner(User.objects.get(pk=ada.pk), oauth._ANONYMOUS)
    assert app.refresh(answer["refresh_token"]).json()["scope"] == "read"


# The public address


def public_url(monkeypatch: pytest.MonkeyPatch, written: str) -> tuple[str, list[str]]:
    monkeypatch.setenv("MEMORYHUB_PUBLIC_URL", written)
    operator = config.load_operator()
    return operator.public_url, operator.allowed_hosts


@pytest.mark.parametrize(
    ("written", "address", "host"),
    [
        ("https://Hub.example.org/", "https://hub.example.org", "hub.example.org"),
        ("https://hub.example.org:443", "https://hub.example.org", "hub.example.org"),
        ("https://hub.example.org:8443", "https://hub.example.org:8443", "hub.example.org"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000", "127.0.0.1"),
        ("https://[2001:db8::1]", "https://[2001:db8::1]", "[2001:db8::1]"),
    ],
)
def test_host_of_the_public_address_is_answered(
    monkeypatch: pytest.MonkeyPatch, written: str, address: str, host: str
) -> None:
    found, hosts = public_url(monkeypatch, written)
    assert found == address
    assert hosts.count(host) == 1


@pytest.mark.parametrize(
    "written",
    [
        *(
            "http://hub.example.org",
            "hub.example.org",
            "https://",
            "ftp://127.0.0.1",
            "https://hub.example.org/x",
        ),
        *(
            "https://me@hub.example.org",
            "https://hub.example.org?x",
            "https://hub.example.org:99999",
            "https://[x",
        ),
    ],
)
def test_address_that_is_not_a_secure_origin_is_refused(
    monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    with pytest.raises(ConfigError, match="MEMORYHUB_PUBLIC_URL"):
        public_url(monkeypatch, written)
