"""The official SDKs' OAuth clients against the real server: discovery to revocation."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

from tests.mcp import node
from tests.mcp.clients import SECONDS
from tests.mcp.conftest import PLAIN, Served

CALLBACK = "http://127.0.0.1:9/callback"
SIGN_UP = (
    "import django; django.setup();"
    "from django.contrib.auth.models import User;"
    "User.objects.create_superuser('boss', password='a good password')"
)


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[httpx2.Client]:
    """A signed-in browser of a superuser."""
    done = served.hub.run_code(SIGN_UP, **PLAIN)
    assert done.returncode == 0, done.stderr
    with httpx2.Client(base_url=served.base, timeout=SECONDS) as browser:
        browser.get("/login/")
        form = {"username": "boss", "password": "a good password"}
        form["csrfmiddlewaretoken"] = browser.cookies["csrftoken"]
        assert browser.post("/login/", data=form).status_code == 302
        yield browser


class App:
    """A program with the Python SDK: it stores tokens, and a person in a browser decides about it."""

    def __init__(self, served: Served, browser: httpx2.Client, decision: str = "allow") -> None:
        self.served, self.browser, self.decision = served, browser, decision
        self.client: OAuthClientInformationFull | None = None
        self.saved: OAuthToken | None = None
        self.asked = 0
        self.callback: dict[str, str] = {}

    async def get_tokens(self) -> OAuthToken | None:
        return self.saved

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.saved = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info

    async def redirect(self, address: str) -> None:
        self.asked += 1
        page = self.browser.get(address)
        assert page.status_code == 200, page.text
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert found is not None
        form = {"name": "python", "clearance": "public", "rights": ["read", "write"]}
        form |= {"decision": self.decision, "csrfmiddlewaretoken": found[1]}
        answer = self.browser.post(address, data=form)
        assert answer.status_code == 302, answer.text
        query = parse_qs(urlsplit(answer.headers["Location"]).query)
        self.callback = {name: values[0] for name, values in query.items()}

    async def come_back(self) -> AuthorizationCodeResult:
        found = self.callback
        return AuthorizationCodeResult(
            code=found.get("code", ""), state=found.get("state"), iss=found.get("iss")
        )

    def run(self, task: Callable[[Client, OAuthClientProvider], Awaitable[Any]]) -> Any:
        """Connect without a token and run the task."""
        url = self.served.url("letsgo")
        metadata = OAuthClientMetadata(
            client_name="Python SDK", redirect_uris=[CALLBACK], token_endpoint_auth_method="none"
        )
        provider = OAuthClientProvider(url, metadata, self, self.redirect, self.come_back)

        async def work() -> Any:
            async with httpx2.AsyncClient(auth=provider, timeout=SECONDS) as http:
                transport = streamable_http_client(url, http_client=http)
                async with Client(transport, read_timeout_seconds=SECONDS) as client:
                    return await task(client, provider)

        return anyio.run(work)

    def post(self, endpoint: str, **data: str) -> httpx2.Response:
        assert self.client is not None
        url = f"{self.served.base}/api/v1/oauth/{endpoint}"
        return httpx2.post(url, data={"client_id": self.client.client_id, **data}, timeout=SECONDS)


async def store(client: Client) -> None:
    found = await client.call_tool("store_memory", {"content": "the numbat eats termites"})
    assert not found.is_error, found.content


def test_python_client_connects_refreshes_and_is_revoked(served: Served, browser: httpx2.Client) -> None:
    app = App(served, browser)

    async def work(client: Client, provider: OAuthClientProvider) -> None:
        await store(client)
        assert app.asked == 1
        first = app.saved
        assert first is not None
        assert (first.scope, first.expires_in) == ("read write", 3600)
        provider.context.token_expiry_time = 1  # long ago
        await store(client)
        assert app.saved is not None
        assert app.saved.access_token != first.access_token
        assert app.saved.refresh_token != first.refresh_token
        assert app.asked == 1, "a refresh asks no one"
        app.post("revoke", token=str(app.saved.refresh_token))
        await store(client)
        assert app.asked == 2, "a revoked app asks the person again"

    app.run(work)


def test_stolen_refresh_token_ends_the_grant(served: Served, browser: httpx2.Client) -> None:
    app = App(served, browser)

    async def work(client: Client, provider: OAuthClientProvider) -> None:
        await store(client)
        stolen = str(app.saved and app.saved.refresh_token)
        provider.context.token_expiry_time = 1
        await store(client)
        found = app.post("token", grant_type="refresh_token", refresh_token=stolen)
        assert found.status_code == 200, "within a minute, as if the response had been lost"
        provider.context.token_expiry_time = 1
        await store(client)
        assert app.asked == 2
        found = app.post("token", grant_type="refresh_token", refresh_token=found.json()["refresh_token"])
        assert found.json()["error"] == "invalid_grant"

    app.run(work)


def test_denied_python_client_cannot_connect(served: Served, browser: httpx2.Client) -> None:
    app = App(served, browser, "deny")

    async def nothing(client: Client, provider: OAuthClientProvider) -> None:
        raise AssertionError("connected")

    with pytest.raises(BaseExceptionGroup) as caught:
        app.run(nothing)
    assert caught.group_contains(OAuthFlowError, match="No authorization code")
    assert app.callback["error"] == "access_denied"
    assert app.saved is None


def test_client_rejects_the_answer_of_another_server(served: Served, browser: httpx2.Client) -> None:
    app = App(served, browser)

    async def mixed_up() -> AuthorizationCodeResult:
        found = app.callback
        return AuthorizationCodeResult(found["code"], found["state"], "https://evil.example")

    app.come_back = mixed_up  # type: ignore[method-assign]

    async def nothing(client: Client, provider: OAuthClientProvider) -> None:
        raise AssertionError("connected")

    with pytest.raises(BaseExceptionGroup) as caught:
        app.run(nothing)
    assert not caught.group_contains(AssertionError)
    assert app.saved is None


@pytest.mark.parametrize(("sdk", "mode"), [("v1", "legacy"), ("v2", "auto")])
def test_typescript_client_connects_refreshes_and_is_revoked(
    served: Served, browser: httpx2.Client, tmp_path: Path, sdk: str, mode: str
) -> None:
    node.require_node(sdk)
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    calls = [{"name": "store_memory", "arguments": {"content": "the quokka smiles"}}]
    server = {"url": served.url("letsgo"), "calls": calls, "oauth": {"cookie": cookie}}
    [report] = node.talk(tmp_path, sdk, mode, [server])
    for visit in ("connected", "refreshed"):
        assert report[visit]["calls"][0]["result"]["isError"] is False, report
    assert report["refreshed"]["rotated"] is True
    assert "nauthorized" in report["revoked"]["refused"]
    assert report["asked"] == 2, "once to connect, once after the revocation"
