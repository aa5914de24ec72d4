"""mcp-memory-service, for comparison: its HTTP API over the same memories with the same queries."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.bench.clients import Measured, Request, crowd
from tools.bench.hub import Server, start

MAX_MEMORIES = 10_000  # it computes vectors one by one: a larger store takes hours to fill
_VERSION = "from importlib.metadata import version; print(version('mcp-memory-service'))"


@dataclass(frozen=True)
class Peer:
    """A running mcp-memory-service that contains the memories."""

    server: Server
    name: str
    stored_per_second: float

    def search(self, queries: list[str], clients: int) -> Measured:
        requests: list[Request] = [("POST", "/api/search", {"query": query}) for query in queries]
        return crowd(self.server.port, {}, requests, clients)


@contextmanager
def started(python: Path, home: Path, memories: list[dict[str, Any]]) -> Iterator[Peer]:
    """Start it in its virtual environment and store the memories in it.

    It uses the embedding model that its environment has. Without one it falls back to hashes of the text;
    ``name`` then says so.
    """
    home.mkdir()
    environment = {
        **os.environ,
        "MCP_MEMORY_BASE_DIR": str(home),
        "MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec",
        "MCP_ALLOW_ANONYMOUS_ACCESS": "true",
        "MCP_OAUTH_ENABLED": "false",
        "MCP_MDNS_ENABLED": "false",
        "MCP_MEMORY_ONNX_ALLOW_DOWNLOAD": "0",
        "MCP_MEMORY_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    log = home / "server.log"
    version = subprocess.run([python, "-c", _VERSION], capture_output=True, text=True, check=True).stdout
    command: list[str | Path] = [python.with_name("memory"), "server", "--http", "--http-port", "{port}"]
    with start(command, environment, "/api/health", log) as server:
        rate = _fill(server.port, memories)
        embedder = "hashes, no model" if "using hash embeddings" in log.read_text() else "its own model"
        yield Peer(server, f"mcp-memory-service {version.strip()} ({embedder})", rate)


def _fill(port: int, memories: list[dict[str, Any]]) -> float:
    """Store the memories and return how many per second."""
    requests: list[Request] = [
        # The conversation turns off its search for similar memories, which slows down each store.
        ("POST", "/api/memories", {"content": one["content"], "conversation_id": "bench"})
        for one in memories
    ]
    began = time.perf_counter()
    stored = crowd(port, {}, requests, 2)
    if stored.failed > len(memories) // 100:  # some texts are too long for it
        raise OSError(f"mcp-memory-service refused {stored.failed} of {len(memories)} memories")
    return len(memories) / (time.perf_counter() - began)
