"""Selection of the configured provider, its query cache, configuration checks and failure logs."""

from __future__ import annotations

import importlib.util
import logging
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from django.core.checks import run_checks

from memoryhub.config import Config, ConfigError, load_config
from memoryhub.embeddings import EmbeddingError, provider
from memoryhub.embeddings import provider as embeddings_provider
from memoryhub.embeddings.base import MAX_TEXT_CHARS, EmbeddingSettings
from memoryhub.embeddings.provider import CachedQueries, configured, find_problems
from memoryhub.ops import checks
from memoryhub.ops.doctor import Status
from memoryhub.ops.doctor import content as doctor
from tests.embeddings import servers
from tests.embeddings.conftest import KEY
from tests.embeddings.models import write_encoder


@pytest.fixture(autouse=True)
def new_process(monkeypatch, configure) -> None:
    """Start like a new process with the default provider."""
    configure(embeddings=Config().embeddings)
    monkeypatch.setattr(embeddings_provider, "_loaded", embeddings_provider._LoadedProvider())


@pytest.fixture
def loads(monkeypatch) -> Iterator[list[str]]:
    """The loaded providers, in order."""
    found: list[str] = []
    make = embeddings_provider.create_embedder

    def counted(chosen: EmbeddingSettings) -> object:
        found.append(chosen.provider)
        return make(chosen)

    monkeypatch.setattr(embeddings_provider, "create_embedder", counted)
    return found


def test_wordllama_is_the_default():
    assert configured().name == "wordllama/l2_supercat/256"


def test_none_disables_embeddings(configure):
    configure(embeddings="none")
    assert configured() is None


def test_provider_is_loaded_once(loads):
    assert configured() is configured()
    assert loads == ["wordllama"]


def test_concurrent_threads_load_one_provider(loads):
    found = []
    threads = [threading.Thread(target=lambda: found.append(configured())) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    assert loads == ["wordllama"]


def test_changed_configuration_loads_another_provider(configure, tmp_path, endpoint):
    configure(embeddings="onnx", embeddings_folder=str(write_encoder(tmp_path / "tiny")))
    assert configured().name.startswith("onnx/tiny@")
    configure(embeddings="openai", embeddings_url=endpoint.url, embeddings_model="m")
    assert configured().name == "openai/m"
    configure(embeddings="none")
    assert configured() is None


def test_failed_load_is_not_repeated_at_once(configure, loads, tmp_path):
    configure(embeddings="onnx", embeddings_folder=str(tmp_path))
    for _ in range(3):
        with pytest.raises(EmbeddingError, match=r"no readable file model\.onnx"):
            configured()
    assert loads == ["onnx"]


def test_fixed_provider_is_loaded_after_a_while(configure, monkeypatch, tmp_path):
    configure(embeddings="onnx", embeddings_folder=str(tmp_path))
    with pytest.raises(EmbeddingError):
        configured()
    write_encoder(tmp_path)
    monkeypatch.setattr(embeddings_provider, "RETRY_SECONDS", -1.0)
    assert configured().dimensions == 16


def test_key_comes_from_the_settings(configure, settings, endpoint):
    settings.EMBEDDINGS_KEY = "one"
    configure(embeddings="openai", embeddings_url=endpoint.url, embeddings_model="m")
    configured().documents(["zebra"])
    settings.EMBEDDINGS_KEY = "two"
    configured().documents(["zebra"])
    assert [headers["Authorization"] for _, headers, _ in endpoint.asked] == ["Bearer one", "Bearer two"]


def test_repr_does_not_contain_the_key():
    assert KEY not in repr(EmbeddingSettings("openai", key=KEY))


# Query cache


class Counting:
    """A provider that counts its calls."""

    name, dimensions, in_process = "counting", 2, True

    def __init__(self) -> None:
        self.asked: list[tuple[str, object]] = []

    def documents(self, texts):
        return np.ones((len(texts), 2), dtype=np.float32)

    def query(self, text, weights=None):
        self.asked.append((text, weights))
        if text == "fail":
            raise EmbeddingError("no")
        return np.array([1, 0], dtype=np.float32)


def test_same_question_is_embedded_once():
    inner = Counting()
    remembered = CachedQueries(inner, uses_weights=True)
    for weights in (None, {}, {"a": 0.5, "b": 1.0}, {"b": 1.0, "a": 0.5}, {"a": 0.6}):
        remembered.query("a b", weights)
    assert inner.asked == [("a b", None), ("a b", {"a": 0.5, "b": 1.0}), ("a b", {"a": 0.6})]


def test_very_long_question_is_truncated():
    inner = Counting()
    CachedQueries(inner, uses_weights=True).query("a" * 100_000)
    [(text, _)] = inner.asked
    assert text == "a" * MAX_TEXT_CHARS


def test_failure_is_not_cached():
    inner = Counting()
    remembered = CachedQueries(inner, uses_weights=True)
    for _ in range(2):
        with pytest.raises(EmbeddingError):
            remembered.query("fail")
    assert len(inner.asked) == 2


def test_cache_evicts_old_questions():
    inner = Counting()
    remembered = CachedQueries(inner, uses_weights=True, max_size=2)
    for text in "abca":
        remembered.query(text)
    assert len(inner.asked) == 4


def test_cached_vector_is_read_only():
    with pytest.raises(ValueError, match="read-only"):
        CachedQueries(Counting(), uses_weights=True).query("a")[0] = 5


# Invalid configuration


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"provider": "openai", "model": "m"}, "embeddings_url is empty"),
        ({"provider": "openai", "url": "https://host/v1"}, "embeddings_model is empty"),
        ({"provider": "openai", "model": "m", "url": "https:///v1"}, "embeddings_url is not a valid address"),
        (
            {"provider": "openai", "model": "m", "url": "http://host:99999"},
            "embeddings_url is not a valid address",
        ),
        ({"provider": "openai", "model": "m", "url": "http://[::1"}, "embeddings_url is not a valid address"),
        (
            {"provider": "openai", "model": "m", "url": "http://hôst/v1"},
            "embeddings_url is not a valid address",
        ),
        ({"provider": "openai", "model": "m", "url": "http://h", "key": "a\nb"}, "MEMORYHUB_EMBEDDINGS_KEY"),
        ({"provider": "onnx"}, "embeddings_folder is empty"),
        (
            {"provider": "onnx", "folder": "/" + "x" * 5000},
            "embeddings_folder contains no readable file model.onnx",
        ),
        ({"provider": "onnx", "folder": "\x00"}, "embeddings_folder contains no readable file model.onnx"),
        (
            {"provider": "onnx", "folder": "~nobody-here/x"},
            "embeddings_folder contains no readable file model.onnx",
        ),
    ],
)
def test_invalid_settings_are_reported_with_their_key(fields, key):
    found = find_problems(EmbeddingSettings(**fields))
    assert key in found[0].text
    assert all(problem.fix for problem in found)
    with pytest.raises(EmbeddingError, match=key):
        embeddings_provider.create_embedder(EmbeddingSettings(**fields))


@pytest.mark.parametrize("package", ["wordllama", "onnxruntime"])
def test_missing_package_is_reported(monkeypatch, tmp_path, package):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    provider = "onnx" if package == "onnxruntime" else package
    [found] = find_problems(EmbeddingSettings(provider, folder=str(write_encoder(tmp_path))))
    assert found == (
        f'embeddings is "{provider}", and the package {package} is not installed',
        f"Install it: pip install {package}.",
    )


@pytest.mark.parametrize("provider", ["wordllama", "none"])
def test_provider_without_settings_has_no_problems(provider):
    assert find_problems(EmbeddingSettings(provider)) == []


@pytest.mark.django_db
def test_system_check_only_warns(configure):
    configure(embeddings="openai")
    found = [message for message in run_checks() if message.id == "memoryhub.W004"]
    assert ["embeddings_url" in found[0].msg, "embeddings_model" in found[1].msg] == [True, True]
    assert not any(message.is_serious() for message in found)
    assert "search uses words only" in found[0].hint


@pytest.mark.parametrize(
    ("url", "ids"),
    [
        ("http://models.example/v1", ["memoryhub.W005"]),
        ("https://models.example/v1", []),
        ("http://127.0.0.1:1/v1", []),
        ("http://[::1]:1/v1", []),
        ("http://localhost:1/v1", []),
    ],
)
def test_remote_endpoint_without_tls_is_a_warning(configure, url, ids):
    configure(embeddings="openai", embeddings_url=url, embeddings_model="m")
    assert [message.id for message in checks.embeddings_can_work()] == ids


# The doctor


def look() -> list[tuple[Status, str]]:
    return [(finding.status, finding.text) for finding in doctor.provider.findings()]


def test_doctor_asks_the_provider():
    assert look() == [(Status.OK, "wordllama/l2_supercat/256 answers, with vectors of 256 numbers")]


def test_doctor_accepts_none(configure):
    configure(embeddings="none")
    assert look() == [(Status.OK, "none: search uses words only")]


def test_doctor_reports_a_missing_setting_once(configure):
    configure(embeddings="openai", embeddings_model="m")
    assert look() == [(Status.WARN, 'embeddings is "openai", and embeddings_url is empty')]


def test_doctor_reports_an_unreachable_endpoint(configure):
    configure(embeddings="openai", embeddings_model="m", embeddings_url=servers.unused_url())
    assert look() == [(Status.WARN, "the embeddings endpoint cannot be reached: Connection refused")]


# The configuration


@pytest.mark.parametrize(
    ("variable", "value", "wanted"),
    [
        ("MEMORYHUB_EMBEDDINGS", "bert", "wordllama, minilm, onnx, openai or none"),
        ("MEMORYHUB_EMBEDDINGS_URL", "host/v1", "an http or https address"),
        ("MEMORYHUB_EMBEDDINGS_URL", "ftp://host/v1", "an http or https address"),
        ("MEMORYHUB_EMBEDDINGS_URL", "https://me:pass@host/v1", "without a password"),
        ("MEMORYHUB_EMBEDDINGS_MODEL", "two words", "a model's name"),
        ("MEMORYHUB_EMBEDDINGS_TIMEOUT_SECONDS", "0", "between 0.1 and 600"),
        ("MEMORYHUB_EMBEDDINGS_BATCH", "0", "between 1 and 2048"),
    ],
)
def test_invalid_value_is_refused(variable, value, wanted):
    with pytest.raises(ConfigError, match=wanted):
        load_config({variable: value})


def test_key_is_no_tunable(tmp_path):
    (tmp_path / "memoryhub.toml").write_text(f'embeddings_key = "{KEY}"')
    with pytest.raises(ConfigError, match="unknown key 'embeddings_key'") as caught:
        load_config({}, tmp_path)
    assert KEY not in str(caught.value)


def test_key_variables_are_known():
    environ = {"MEMORYHUB_EMBEDDINGS_KEY": KEY, "MEMORYHUB_EMBEDDINGS_KEY_FILE": "/run/key"}
    assert load_config(environ).warnings == ()


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_show_config_only_shows_that_there_is_a_key(settings, capsys, options, monkeypatch):
    from django.core.management import call_command

    monkeypatch.setenv("MEMORYHUB_EMBEDDINGS_KEY", KEY)
    settings.EMBEDDINGS_KEY = KEY
    call_command("show_config", *options)
    shown = capsys.readouterr().out
    assert KEY not in shown
    assert "MEMORYHUB_EMBEDDINGS_KEY" in shown
    assert f"set, {len(KEY)} characters" in shown


logger = logging.getLogger("memoryhub.tests")


@pytest.fixture(autouse=True)
def logged(monkeypatch, caplog):
    """The log, empty at the start."""
    monkeypatch.setattr(provider, "_warned", {})
    with caplog.at_level(logging.WARNING):
        yield lambda: [record.getMessage() for record in caplog.records]


def warn(words="it does not answer", consequence="searched by words only"):
    provider.log_failure(logger, consequence, EmbeddingError(words))


def test_repeated_failure_is_logged_once(logged):
    for _ in range(5):
        warn()
    assert logged() == ["searched by words only: it does not answer"]


def test_failure_is_logged_again_after_a_while(logged, monkeypatch):
    warn()
    monkeypatch.setattr(provider, "SECONDS_BETWEEN_WARNINGS", 0.0)
    warn()
    assert len(logged()) == 2


def test_different_failure_is_logged_at_once(logged):
    warn()
    warn("the key is refused")
    assert logged()[1:] == ["searched by words only: the key is refused"]


def test_failure_is_logged_once_per_consequence(logged):
    for _ in range(5):
        warn()
        warn(consequence="stored without vectors")
    assert len(logged()) == 2
