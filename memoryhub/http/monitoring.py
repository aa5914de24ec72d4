"""For operators: figures of requests and of the store in Prometheus' format, and one log line per request.

Both are off by default. Labels and log lines contain routes, never paths, queries or other stored text.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.db import connection
from django.db.models import Count, Max
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_safe
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from memoryhub import embeddings
from memoryhub.backends import schema
from memoryhub.core.database import is_postgres, store_path
from memoryhub.core.logs import request_id
from memoryhub.embeddings import provider
from memoryhub.http import authentication
from memoryhub.http.problems import Problem, RateLimitExceeded, get_request_id, to_problem
from memoryhub.memories.rows import memories_without_vector
from memoryhub.models import Extraction, JournalEntry, MaintenanceRun, Memory

logger = logging.getLogger("memoryhub.request")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUCKETS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

REQUESTS = Counter("memoryhub_requests", "Answered requests.", ["method", "route", "status"])
SECONDS = Histogram("memoryhub_request_seconds", "Time until the answer began.", ["route"], buckets=_BUCKETS)
STATEMENTS = Counter("memoryhub_database_statements", "SQL statements of requests.")
DATABASE_SECONDS = Counter("memoryhub_database_seconds", "Time that requests spent in SQL statements.")
DATABASE_ERRORS = Counter("memoryhub_database_errors", "SQL statements that failed.", ["error"])
WORKERS = Gauge("memoryhub_workers", "Processes that serve requests.", multiprocess_mode="livesum")


class MonitoringMiddleware:
    """Measures each request. Used only with ``MEMORYHUB_METRICS_TOKEN`` or ``MEMORYHUB_LOG_FORMAT=json``."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        if not settings.METRICS_TOKEN and settings.LOG_FORMAT != "json":
            raise MiddlewareNotUsed
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        began = time.perf_counter()
        statements = _Statements()
        outer = request_id.set(get_request_id(request))
        try:
            with connection.execute_wrapper(statements):
                response = self.get_response(request)
            seconds, route = time.perf_counter() - began, route_of(request)
            _observe(request, response, route, seconds, statements)
            if settings.LOG_FORMAT == "json":
                _log(request, response, route, seconds, statements)
        finally:
            request_id.reset(outer)
        return response


class _Statements:
    """Counts and times the SQL statements of one request."""

    def __init__(self) -> None:
        self.count, self.seconds = 0, 0.0

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        except Exception as error:
            DATABASE_ERRORS.labels(type(error).__name__).inc()
            raise
        finally:
            self.count += 1
            self.seconds += time.perf_counter() - began


def route_of(request: HttpRequest) -> str:
    """Return the pattern of the address, with the tool of an MCP call: ``mcp/mira/memory_recall``."""
    if tool := getattr(request, "mcp_tool", ""):
        return str(tool)
    if match := request.resolver_match:
        return str(match.route) or "/"
    return "static" if request.path_info.startswith(f"/{settings.STATIC_URL.strip('/')}/") else "none"


def _observe(
    request: HttpRequest, response: HttpResponseBase, route: str, seconds: float, statements: _Statements
) -> None:
    REQUESTS.labels(_method(request), route, str(response.status_code)).inc()
    SECONDS.labels(route).observe(seconds)
    STATEMENTS.inc(statements.count)
    DATABASE_SECONDS.inc(statements.seconds)


def _log(
    request: HttpRequest, response: HttpResponseBase, route: str, seconds: float, statements: _Statements
) -> None:
    fields = {
        "method": _method(request),
        "route": route,
        "status": response.status_code,
        "milliseconds": round(seconds * 1000, 1),
        "statements": statements.count,
        "database_milliseconds": round(statements.seconds * 1000, 1),
        "address": request.META.get("REMOTE_ADDR", ""),
    }
    logger.info("%s %s %s", fields["method"], route, response.status_code, extra={"fields": fields})


def _method(request: HttpRequest) -> str:
    return request.method if request.method in _METHODS else "other"


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return all figures to a caller with ``MEMORYHUB_METRICS_TOKEN``. Without that setting: 404."""
    if not settings.METRICS_TOKEN:
        raise Http404
    try:
        _require_metrics_token(request)
    except (Problem, RateLimitExceeded) as error:
        return to_problem(error).response(request)
    registry = CollectorRegistry()
    if folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        _forget_ended_workers(Path(folder))
        MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
    registry.register(StoreCollector())
    text = generate_latest(registry) + (b"" if folder else generate_latest(REGISTRY))
    return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)


def _require_metrics_token(request: HttpRequest) -> None:
    """Raise 401 for another token, and RateLimitExceeded for an address that guesses."""
    scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
    address = request.META.get("REMOTE_ADDR", "")
    authentication.check_token_guesses(address, "")
    if scheme.lower() != "bearer" or not constant_time_compare(sent.strip(), settings.METRICS_TOKEN):
        authentication.count_token_guess(address)
        detail = "send the value of MEMORYHUB_METRICS_TOKEN as Authorization: Bearer …"
        raise Problem(401, "unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"})


def _forget_ended_workers(folder: Path) -> None:
    for file in folder.glob("gauge_live*_*.db"):
        pid = file.stem.rpartition("_")[2]
        if not Path(f"/proc/{pid}").exists() and Path("/proc").is_dir():
            mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]


class StoreCollector:
    """Figures that the store has, counted when they are asked for."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        live, trashed = Memory.objects.live().count(), Memory.objects.trashed().count()
        yield _family("memoryhub_memories", "Memories.", "state", {"live": live, "trash": trashed})
        newest = JournalEntry.objects.aggregate(seq=Max("seq"))["seq"]
        yield _gauge("memoryhub_journal_rows", "Rows of the journal.", newest)
        queue = _count_by_status(Extraction)
        yield _family("memoryhub_extractions", "Conversations for extraction.", "status", queue)
        runs = _count_by_status(MaintenanceRun)
        yield _family("memoryhub_maintenance_runs", "Maintenance runs.", "status", runs)
        with suppress(embeddings.EmbeddingError):  # doctor reports it
            if embedder := provider.configured():
                waiting = memories_without_vector(embedder.name).count()
                yield _gauge("memoryhub_memories_without_vector", "Memories that wait for a vector.", waiting)
        yield _family("memoryhub_store_bytes", "Size of the store's files.", "file", _file_sizes())
        free = shutil.disk_usage(settings.HOME).free
        yield _gauge("memoryhub_disk_free_bytes", "Free space on the disk of the store.", free)


def _count_by_status(model: type[Extraction | MaintenanceRun]) -> dict[str, int]:
    counts = model._default_manager.values_list("status").annotate(Count("pk"))
    return dict.fromkeys(model.Status.values, 0) | dict(counts)


def _file_sizes() -> dict[str, int]:
    if is_postgres():
        return {"database": schema.database_bytes()}
    path, sizes = str(store_path()), {}
    for kind, suffix in (("database", ""), ("log", "-wal")):
        with suppress(OSError):  # there is no log before the first write
            sizes[kind] = os.stat(path + suffix).st_size
    return sizes


def _gauge(name: str, text: str, value: float | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value or 0)


def _family(name: str, text: str, label: str, values: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
