"""Three nodes behind a proxy with TLS, configured as in ``docs/deployment.md``: Caddy and nginx."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.conf import settings

from tests.faults.cluster import until
from tools.bench.hub import free_port, manage
from tools.cluster import postgres
from tools.cluster.nodes import Node

HOST = "hub.example.org"
PROGRAMS = {name: os.environ.get(name.upper()) or shutil.which(name) or "" for name in ("caddy", "nginx")}
pytestmark = pytest.mark.slow
_FORGED_ADDRESS = "203.0.113.9"
_CREATE_PERSON = """
from django.contrib.auth.models import User
User.objects.create_superuser("ada", password="a good password")
"""


def documented(language: str, containing: str) -> str:
    """Return the block of ``docs/deployment.md`` in this language that contains a text."""
    text = Path(settings.BASE_DIR, "docs", "deployment.md").read_text()
    blocks = re.findall(rf"```{language}\n(.*?)```", text, re.S)
    return next(str(block) for block in blocks if containing in block)


class Site:
    """Nodes that are reached by HTTPS only, and the proxy in front of them."""

    def __init__(self, program: str, folder: Path, database: postgres.Postgres) -> None:
        self.folder, self.port = folder, free_port()
        url = database.create_database(program)
        variables = {
            "MEMORYHUB_HTTPS": "1",
            "MEMORYHUB_BEHIND_PROXY": "1",
            "MEMORYHUB_ALLOWED_HOSTS": f"{HOST},127.0.0.1",
            "MEMORYHUB_LOG_FORMAT": "json",
        }
        self.nodes = [Node(f"web-{n}", folder / f"web-{n}", url, **variables) for n in (1, 2, 3)]
        environment = self.nodes[0].environment
        manage(environment, "migrate", "--verbosity", "0")
        manage(environment, "shell", "--no-imports", "-c", _CREATE_PERSON)
        token = manage(environment, "create_token", "tls", "--rights", "read,write")
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait_until_ready()
        self._make_certificate()
        command = getattr(self, f"_{program}_command")()
        variables = {"XDG_DATA_HOME": str(folder), "CADDY_ADMIN": f"127.0.0.1:{free_port()}"}
        self.proxy = subprocess.Popen(command, env=os.environ | variables, stderr=subprocess.DEVNULL)
        until(lambda: self._answers("/readyz"))

    def _make_certificate(self) -> None:
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        command += ["-keyout", "key.pem", "-out", "chain.pem", "-subj", f"/CN={HOST}"]
        command += ["-addext", f"subjectAltName=DNS:{HOST}"]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)

    def _caddy_command(self) -> list[str]:
        text = documented("caddy", "web-1:8000")
        for number, node in enumerate(self.nodes, 1):
            text = text.replace(f"web-{number}:8000", f"127.0.0.1:{node.port}")
        certificate = f"tls {self.folder}/chain.pem {self.folder}/key.pem"
        text = re.sub(rf"^{HOST} {{", f"{HOST}:{self.port} {{\n{certificate}", text, flags=re.M)
        file = self.folder / "Caddyfile"
        file.write_text("{\nauto_https disable_redirects\n}\n" + text)
        return [PROGRAMS["caddy"], "run", "--adapter", "caddyfile", "--config", str(file)]

    def _nginx_command(self) -> list[str]:
        text = documented("nginx", "ssl_certificate")
        text = text.replace("listen 443 ", f"listen 127.0.0.1:{self.port} ")
        text = text.replace("http://127.0.0.1:8000", "http://nodes")
        text = re.sub(r"/etc/letsencrypt/\S*/fullchain.pem", f"{self.folder}/chain.pem", text)
        text = re.sub(r"/etc/letsencrypt/\S*/privkey.pem", f"{self.folder}/key.pem", text)
        servers = "".join(f"server 127.0.0.1:{node.port};" for node in self.nodes)
        folders = "".join(
            f"{name}_temp_path {self.folder}/{name};"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        file = self.folder / "nginx.conf"
        user = "user root; " if os.geteuid() == 0 else ""
        file.write_text(
            f"{user}daemon off; pid {self.folder}/nginx.pid; error_log {self.folder}/error.log;"
            f"events {{}} http {{ access_log off; {folders} upstream nodes {{ {servers} }}\n{text}\n}}"
        )
        return [PROGRAMS["nginx"], "-p", str(self.folder), "-c", str(file)]

    def _answers(self, path: str) -> bool:
        try:
            return self.send("GET", path)[0].status == 200
        except OSError:
            return False

    def send(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Send a request by HTTPS; verify the certificate. Underscores in header names become hyphens."""
        context = ssl.create_default_context(cafile=str(self.folder / "chain.pem"))
        connection = http.client.HTTPSConnection(HOST, timeout=120)
        address = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        connection.sock = context.wrap_socket(address, server_hostname=HOST)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(connection):
            connection.request(method, path, body or None, sent)
            answer = connection.getresponse()
            return answer, answer.read()

    def logged_addresses(self, route: str) -> set[str]:
        """Return the addresses of the clients that the nodes logged for a route."""
        lines = [line for node in self.nodes for line in node.log.read_text().splitlines()]
        rows = [json.loads(line) for line in lines if line.startswith("{")]
        return {row["address"] for row in rows if row.get("route") == route}

    def stop(self) -> None:
        self.proxy.terminate()
        self.proxy.wait()
        for node in self.nodes:
            node.stop()


@pytest.fixture(scope="module", params=sorted(PROGRAMS))
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if not PROGRAMS[request.param]:
        pytest.skip(f"{request.param} is not installed")
    with postgres.started() as database:
        made = Site(request.param, tmp_path_factory.mktemp(request.param), database)
        yield made
        made.stop()


def test_person_signs_in_with_cookies_for_https_only(site: Site) -> None:
    page, content = site.send("GET", "/login/")
    cookies = page.headers.get_all("Set-Cookie") or []
    assert cookies
    assert all("Secure" in cookie and cookie.startswith("__Host-") for cookie in cookies)
    forged, _ = send_login(site, page, content, origin="https://other.example.org")
    assert forged.status == 403
    session = sign_in(site)
    for _ in site.nodes:
        assert site.send("GET", "/memories/", Cookie=session)[0].status == 200


def send_login(
    site: Site, page: http.client.HTTPResponse, content: bytes, origin: str = f"https://{HOST}"
) -> tuple[http.client.HTTPResponse, bytes]:
    token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', content.decode())[0]
    form = urlencode({"username": "ada", "password": "a good password", "csrfmiddlewaretoken": token})
    headers = {
        "Cookie": cookies_of(page),
        "Content_Type": "application/x-www-form-urlencoded",
        "Origin": origin,
    }
    return site.send("POST", "/login/", form.encode(), **headers)


def cookies_of(answer: http.client.HTTPResponse) -> str:
    return "; ".join(cookie.partition(";")[0] for cookie in answer.headers.get_all("Set-Cookie") or [])


def sign_in(site: Site) -> str:
    """Return the cookies of a session."""
    answer, _ = send_login(site, *site.send("GET", "/login/"))
    assert answer.status == 302
    return cookies_of(answer)


@pytest.mark.parametrize("page", ["/", "/sessions/", "/sessions/night/?project=live"])
def test_open_page_is_updated_by_every_node(site: Site, page: str) -> None:
    """As ``static/js/live.js`` asks for it. The nodes agree on the state of the page."""
    session = sign_in(site)

    def poll(known: str) -> tuple[int, str]:
        answer, _ = site.send("GET", page, Cookie=session, If_None_Match=f'"{known}"')
        assert "no-store" in str(answer.headers["Cache-Control"])
        return answer.status, str(answer.headers["ETag"]).strip('W/"')

    def store(text: str) -> None:
        body = json.dumps({"content": text, "project": "live", "session_id": "night"}).encode()
        assert site.send("POST", "/api/v1/memories", body, **site.headers)[0].status == 201

    store(f"A memory for {page}.")
    _, before = poll("")
    assert {poll(before) for _ in range(2 * len(site.nodes))} == {(304, before)}
    store(f"A change while {page} is open.")
    _, after = poll(before)
    assert after != before
    assert {poll(before) for _ in range(2 * len(site.nodes))} == {(200, after)}
    assert poll(after) == (304, after)


def test_address_of_a_client_cannot_be_forged(site: Site) -> None:
    headers = site.headers | {"X-Forwarded-For": _FORGED_ADDRESS, "X-Forwarded-Proto": "http"}
    assert site.send("GET", "/api/v1/stats", **headers)[0].status == 200
    assert site.logged_addresses("api/v1/stats") == {"127.0.0.1"}


def test_session_of_tools_continues_on_every_node(site: Site) -> None:
    headers = site.headers | {"Accept": "application/json, text/event-stream"}
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    answer, _ = site.send("POST", "/mcp/letsgo", json.dumps(first).encode(), **headers)
    assert answer.status == 200
    if session := answer.headers.get("Mcp-Session-Id"):
        headers["Mcp-Session-Id"] = session
    listed = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}).encode()
    for _ in site.nodes:
        answer, content = site.send("POST", "/mcp/letsgo", listed, **headers)
        assert answer.status == 200
        assert json.loads(content)["result"]["tools"]


def test_file_larger_than_a_request_body_is_imported(site: Site) -> None:
    lines = json.dumps({"content": "x" * 1000, "project": "tls"}) + "\n"
    path = "/api/v1/import?name=memories.jsonl&dry_run=true"
    answer, content = site.send("POST", path, lines.encode() * 3000, **site.headers)
    assert answer.status == 202, content


def test_body_that_is_too_large_gets_the_answer_of_the_hub(site: Site) -> None:
    """The proxy accepts larger bodies than the hub does."""
    body = json.dumps({"content": "x" * 3_000_000}).encode()
    answer, content = site.send("POST", "/api/v1/memories", body, **site.headers)
    assert answer.status == 413
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert json.loads(content)["request_id"]


def test_export_arrives_whole(site: Site) -> None:
    stored, _ = site.send("POST", "/api/v1/memories", b'{"content": "An exported memory."}', **site.headers)
    assert stored.status in (200, 201)
    answer, content = site.send("GET", "/api/v1/export", **site.headers)
    assert answer.status == 200
    assert b"An exported memory." in content


def test_health_checks_need_no_https(site: Site) -> None:
    for node in site.nodes:
        assert node.readiness() == 200
