"""Outgoing requests reach only addresses that the operator's settings mean."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from memoryhub.core.network import Unreachable, is_allowed_peer, post_json
from tests.api.conftest import agent, bot
from tests.embeddings import servers
from tests.embeddings.servers import Endpoint, serving

__all__ = ["agent", "bot"]
PUBLIC_NAME = "llm.example.com"


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let every name lead to this machine. Returns the names that were looked up."""
    asked: list[str] = []

    def look_up(host: Any, port: Any, *args: Any, **kwargs: Any) -> list[Any]:
        asked.append(host if isinstance(host, str) else host.decode())
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


def named(endpoint: Endpoint, name: str) -> str:
    return endpoint.url.replace("127.0.0.1", name) + "/embeddings"


def ask(url: str, **options: Any) -> int:
    return post_json(url, {"input": ["zebra"]}, "key", 5, 100_000, **options).status


@pytest.mark.parametrize(
    ("host", "address", "is_allowed"),
    [
        (PUBLIC_NAME, "93.184.215.14", True),
        (PUBLIC_NAME, "2606:4700::1111", True),
        (PUBLIC_NAME, "127.0.0.1", False),
        (PUBLIC_NAME, "10.0.0.5", False),
        (PUBLIC_NAME, "172.16.3.4", False),
        (PUBLIC_NAME, "192.168.1.10", False),
        (PUBLIC_NAME, "100.64.0.1", False),
        (PUBLIC_NAME, "0.0.0.0", False),
        (PUBLIC_NAME, "::1", False),
        (PUBLIC_NAME, "fd00::5", False),
        (PUBLIC_NAME, "::ffff:10.0.0.5", False),
        (PUBLIC_NAME, "64:ff9b::a00:5", False),
        (PUBLIC_NAME, "2002:a00:5::", False),
        (PUBLIC_NAME, "::a00:5", False),
        (PUBLIC_NAME, "::ffff:0:a00:5", False),
        (PUBLIC_NAME, "64:ff9b:1::a00:5", False),
        (PUBLIC_NAME, "fec0::5", False),
        (PUBLIC_NAME, "239.1.2.3", False),
        ("10.0.0.5", "10.0.0.5", True),
        ("::1", "::1", True),
        ("localhost", "127.0.0.1", True),
        ("ollama", "172.18.0.2", True),
        ("gpu.lan", "192.168.1.10", True),
        ("host.docker.internal", "192.168.65.2", True),
        ("localhost.", "127.0.0.1", True),
        ("local.example.com", "127.0.0.1", False),
        ("169.254.169.254", "169.254.169.254", False),
        ("metadata.google.internal", "169.254.169.254", False),
        ("ollama", "fe80::1%eth0", False),
        ("ollama", "::ffff:169.254.169.254", False),
    ],
)
def test_allowed_addresses_of_a_host(host: str, address: str, is_allowed: bool) -> None:
    assert is_allowed_peer(host, address, private_names=False) is is_allowed


def test_setting_allows_public_names_of_the_private_network() -> None:
    assert is_allowed_peer(PUBLIC_NAME, "10.0.0.5", private_names=True)
    assert not is_allowed_peer(PUBLIC_NAME, "169.254.169.254", private_names=True)


def test_public_name_with_a_private_address_gets_no_request(lookups: list[str]) -> None:
    """As after DNS rebinding: the address of the connection is checked, and the name is looked up once."""
    with serving() as endpoint:
        with pytest.raises(Unreachable, match="endpoint_private_names") as refused:
            ask(named(endpoint, PUBLIC_NAME))
        assert lookups == [PUBLIC_NAME]
        assert (endpoint.asked, refused.value.sent, refused.value.passes) == ([], False, False)


@pytest.mark.parametrize("name", ["ollama", "gpu.local"])
def test_private_name_is_asked(lookups: list[str], name: str) -> None:
    with serving() as endpoint:
        assert ask(named(endpoint, name)) == 200
        assert len(endpoint.asked) == 1


def test_public_name_is_asked_with_the_setting(lookups: list[str]) -> None:
    with serving() as endpoint:
        assert ask(named(endpoint, PUBLIC_NAME), private_names=True) == 200


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirect_to_another_address_is_not_followed(code: int) -> None:
    with serving() as endpoint, serving() as inside:
        endpoint.script = [lambda handler, _: handler.say(code, b"", Location=f"{inside.url}/embeddings")]
        assert ask(f"{endpoint.url}/embeddings") == code
        assert inside.asked == []


def test_settings_reach_both_endpoints(lookups: list[str], configure: Callable[..., None]) -> None:
    from memoryhub.embeddings import EmbeddingError
    from memoryhub.embeddings.endpoint import EndpointEmbedder
    from memoryhub.embeddings.provider import current_settings
    from memoryhub.llm import LlmSettings

    with serving() as endpoint:
        where = {"embeddings": "openai", "embeddings_model": "m"}
        configure(**where, embeddings_url=named(endpoint, PUBLIC_NAME))
        with pytest.raises(EmbeddingError, match="endpoint_private_names"):
            EndpointEmbedder(current_settings()).query("zebra")
        configure(**where, embeddings_url=named(endpoint, PUBLIC_NAME), endpoint_private_names=True)
        assert EndpointEmbedder(current_settings()).query("zebra").shape == (servers.DIMENSIONS,)
    assert LlmSettings.now().private_names


def test_a_request_cannot_choose_the_endpoint(bot: Any) -> None:
    """The settings are of the operator: environment variables and the configuration file."""
    with serving() as endpoint:
        urls = dict.fromkeys(("embeddings_url", "llm_url", "url", "base_url", "model_url"), endpoint.url)
        more = {"embeddings": "openai", "llm": "openai", "MEMORYHUB_LLM_URL": endpoint.url, **urls}
        said = {"messages": [{"role": "user", "content": "We decided to use PostgreSQL for the ledger."}]}
        bot.post("/search", {"query": "zebra", "mode": "semantic", **more})
        bot.post("/memories", {"content": "zebra", **more})
        bot.post("/extract", {**said, **more})
        bot.post("/maintenance", {"operation": "embed", **more})
        assert endpoint.asked == []
