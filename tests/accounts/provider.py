"""A small OpenID Connect provider on loopback with configurable responses."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET = "memoryhub-tests", "a secret of the tests, long enough"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Provider:
    """``token``, ``claims``: values that differ from a correct response; ``key``: the signing key."""

    issuer: str = ""
    token: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    key: Any = KEY
    broken: str = ""  # an endpoint that fails
    answers: dict[str, str] = field(default_factory=dict)  # texts that replace answers, by path
    asked: dict[str, str] = field(default_factory=dict)  # sent by the browser to the authorization endpoint

    def agree(self, address: str) -> str:
        """Accept the login; return the code and the state for the browser."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        self.asked = query
        return f"code=good-code&state={query['state']}"

    def document(self) -> dict[str, str]:
        names = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri")
        return {"issuer": self.issuer, **{name: f"{self.issuer}/{name}" for name in names}}

    def jwks(self) -> dict[str, Any]:
        shown = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
        return {"keys": [{**shown, "kid": "one", "alg": "RS256", "use": "sig"}]}

    def tokens(self, form: dict[str, str]) -> dict[str, Any] | None:
        """Return None for a wrong code, secret or verifier."""
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        good = {"code": "good-code", "client_id": CLIENT, "client_secret": SECRET}
        if challenge != self.asked.get("code_challenge") or not good.items() <= form.items():
            return None
        payload = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "person-1",
            "nonce": self.asked["nonce"],
            "exp": int(time.time()) + 60,
            **self.token,
        }
        signed = jwt.encode(
            {k: v for k, v in payload.items() if v is not None}, self.key, "RS256", {"kid": "one"}
        )
        return {"access_token": "access", "id_token": signed, "token_type": "Bearer"}

    def userinfo(self) -> dict[str, Any]:
        return {"sub": "person-1", "email": "ada@example.org", "email_verified": True, **self.claims}


def serve(provider: Provider) -> ThreadingHTTPServer:
    """Start a server for this provider; the caller stops it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers = {
                "/.well-known/openid-configuration": provider.document,
                "/jwks_uri": provider.jwks,
                "/userinfo_endpoint": provider.userinfo,
            }
            self.answer(answers[self.path]())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.answer(provider.tokens({name: values[0] for name, values in parse_qs(body).items()}))

        def answer(self, payload: Any) -> None:
            refused = payload is None or self.path == f"/{provider.broken}"
            text = provider.answers.get(self.path, json.dumps(payload)).encode()
            self.send_response(500 if refused else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server
