"""An OAuth client for tests, as honest or as dishonest as a test needs."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.test import Client

HUB = "https://hub.example.org"
RESOURCE = f"{HUB}/mcp/letsgo"
CALLBACK = "https://app.example.com/callback"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
METADATA = {"client_name": "Claude", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}


def register(metadata: Any = None, **more: Any) -> Any:
    body = metadata if metadata is not None else {**METADATA, **more}
    data = body if isinstance(body, bytes) else json.dumps(body)
    return Client().post("/api/v1/oauth/register", data, content_type="application/json")


@dataclass
class App:
    """A registered client. ``browser`` belongs to the person whom it sends to the hub."""

    browser: Client
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        response = register(**self.metadata)
        assert response.status_code == 201, response.content
        self.info: dict[str, Any] = response.json()
        self.id: str = self.info["client_id"]

    def address(self, **changes: Any) -> str:
        """Return the address of an authorization request; None omits a parameter."""
        asked = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": CALLBACK,
            "scope": "read write",
            "state": "xyz",
            "resource": RESOURCE,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            **changes,
        }
        return "/authorize/?" + urlencode({k: v for k, v in asked.items() if v is not None}, doseq=True)

    def ask(self, **changes: Any) -> Any:
        return self.browser.get(self.address(**changes))

    def decide(self, decision: str = "allow", form: dict[str, Any] | None = None, **changes: Any) -> Any:
        """Send the consent form."""
        given = {"name": "claude", "clearance": "public", "rights": ["read", "write"], "days": "90"}
        return self.browser.post(self.address(**changes), {**given, **(form or {}), "decision": decision})

    def code(self, form: dict[str, Any] | None = None, **changes: Any) -> str:
        """Return the code that the hub sends when the person allows it."""
        response = self.decide("allow", form, **changes)
        assert response.status_code == 302, response.content.decode()
        return query_of(response)["code"]

    def exchange(self, code: str, **changes: Any) -> Any:
        return self.post(
            "token",
            grant_type="authorization_code",
            code=code,
            redirect_uri=CALLBACK,
            code_verifier=VERIFIER,
            resource=RESOURCE,
            **changes,
        )

    def refresh(self, token: str, **changes: Any) -> Any:
        return self.post("token", grant_type="refresh_token", refresh_token=token, **changes)

    def connect(self, form: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
        """Go through the whole flow and return the token response."""
        response = self.exchange(self.code(form, **changes))
        assert response.status_code == 200, response.content
        found: dict[str, Any] = response.json()
        return found

    def post(self, endpoint: str, **given: Any) -> Any:
        headers = given.pop("headers", {})
        data = {"client_id": self.id, **given}
        data = {name: value for name, value in data.items() if value is not None}
        return Client().post(f"/api/v1/oauth/{endpoint}", data, headers=headers)


def query_of(response: Any) -> dict[str, str]:
    """Return the parameters of a redirect."""
    return {name: values[0] for name, values in parse_qs(urlsplit(response["Location"]).query).items()}


def call(token: str, name: str = "search_memories", toolset: str = "letsgo", **arguments: Any) -> Any:
    """Call a tool over MCP with an access token."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments or {"query": "zebra"}},
    }
    return Client().post(
        f"/mcp/{toolset}",
        json.dumps(message),
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
