"""The extraction queue: claiming, retries, interruption and cleanup."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance
from memoryhub.extraction import services
from memoryhub.extraction.comparison import Destination
from memoryhub.extraction.conversation import Turn
from memoryhub.extraction.services import ExtractionWorker
from memoryhub.llm import EndpointChat, ModelError, Reply
from memoryhub.memories import Conflict, Forbidden, SecretDetected
from memoryhub.models import Extraction, JournalEntry, Memory

pytestmark = pytest.mark.django_db
Status = Extraction.Status


@pytest.fixture
def home(tmp_path: Path, settings: Any) -> Path:
    settings.HOME = tmp_path
    return tmp_path


@pytest.fixture
def waiting(said: list[Turn], actor: Actor) -> Extraction:
    return services.enqueue(said, Destination("p", "s", sensitivity="private"), actor)


def test_it_is_processed_as_its_sender_and_messages_are_deleted(
    model: Any, waiting: Extraction, actor: Actor
) -> None:
    assert services.process_next()
    waiting.refresh_from_db()
    assert (waiting.status, waiting.extractor, waiting.messages, waiting.error) == ("done", "model", [], "")
    memory = Memory.objects.get()
    assert (memory.project, memory.session_id, memory.sensitivity) == ("p", "s", "private")
    assert memory.author == actor.name
    assert [one["id"] for one in waiting.result] == [memory.uid]


def test_journal_row_only_has_counts(model: Any, waiting: Extraction) -> None:
    services.process_next()
    row = JournalEntry.objects.get(operation="extract")
    assert (row.object_id, row.detail) == (waiting.uid, {"extractor": "model", "created": 1})
    assert (row.project, row.sensitivity) == ("p", "private")


def test_empty_queue(db: None) -> None:
    assert not services.process_next()


def test_first_in_first_out(model: Any, said: list[Turn], actor: Actor) -> None:
    rows = [services.enqueue(said, Destination(f"p{n}"), actor) for n in range(2)]
    services.process_next()
    assert [Extraction.objects.get(pk=row.pk).status for row in rows] == ["done", "queued"]


def test_interrupted_extraction_is_queued_again(model: Any, waiting: Extraction) -> None:
    services.process_next(is_stopping=lambda: True)
    waiting.refresh_from_db()
    assert (waiting.status, waiting.tries) == ("queued", 0)
    assert waiting.messages


def test_error_is_retried_and_finally_read_by_rules(
    model: Any, waiting: Extraction, monkeypatch: Any
) -> None:
    def broken(*args: Any) -> None:
        raise ZeroDivisionError("with words of the conversation")

    monkeypatch.setattr(services, "extract_by_model", broken)
    for _ in range(services.MAX_ATTEMPTS - 1):
        with pytest.raises(ZeroDivisionError):
            services.process_next()
    waiting.refresh_from_db()
    assert waiting.status == "queued"
    assert waiting.error == "ZeroDivisionError; see the log of the hub"
    services.process_next()
    waiting.refresh_from_db()
    assert (waiting.status, waiting.extractor) == ("done", "rules")
    assert Memory.objects.count() >= 3


def test_unreadable_conversation_fails_and_keeps_its_messages(
    model: Any, waiting: Extraction, monkeypatch: Any
) -> None:
    def broken(*args: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(services, "extract_by_model", broken)
    monkeypatch.setattr(services, "extract_by_rules", broken)
    for _ in range(services.MAX_ATTEMPTS):
        with pytest.raises(ZeroDivisionError):
            services.process_next()
    waiting.refresh_from_db()
    assert waiting.status == "failed"
    assert waiting.messages
    assert not services.process_next()


def test_processing_twice_stores_once(model: Any, waiting: Extraction) -> None:
    services.process_next()
    Extraction.objects.filter(pk=waiting.pk).update(
        status="queued", messages=[{"role": "user", "content": "We decided to keep the queue in Postgres."}]
    )
    services.process_next()
    assert Memory.objects.count() == 1


def _take_over() -> None:
    """Do what another node does when the process that has the lease is silent."""
    services.requeue_interrupted()
    assert services.process_next()


@pytest.mark.parametrize("answer", ["a memory", "no JSON"])
def test_process_that_was_replaced_stores_nothing_when_it_continues(
    waiting: Extraction, monkeypatch: pytest.MonkeyPatch, answer: str, configure: Any
) -> None:
    """It was stopped while it waited for the model, and the other process has ended before it continues."""
    texts = iter(["We decided to store the queue in Postgres.", "The queue is in Postgres, a decision."])

    def ask(self: EndpointChat, *args: Any) -> Reply:
        text = next(texts)
        if text.startswith("We"):
            _take_over()
            if answer == "no JSON":
                raise ModelError("the answer is no JSON")
        return Reply(json.dumps([{"category": "events", "content": text, "decision": True}]), 40, 5)

    configure(llm="openai", llm_url="http://127.0.0.1:1", llm_model="tiny")
    monkeypatch.setattr(EndpointChat, "ask", ask)
    assert services.process_next()
    assert [memory.content for memory in Memory.objects.all()] == ["The queue is in Postgres, a decision."]
    assert JournalEntry.objects.filter(operation="extract").count() == 1


@pytest.mark.parametrize("is_failing", [False, True])
def test_process_that_was_replaced_does_not_end_the_work_of_the_other(
    model: Any, waiting: Extraction, monkeypatch: pytest.MonkeyPatch, is_failing: bool
) -> None:
    def extract(*args: Any) -> services.ExtractionResult:
        services.requeue_interrupted()
        Extraction.objects.update(status="running", tries=2)  # by the other process
        if is_failing:
            raise ZeroDivisionError
        return services.ExtractionResult("model")

    monkeypatch.setattr(services, "extract_by_model", extract)
    with pytest.raises(ZeroDivisionError) if is_failing else nullcontext():
        services.process_next()
    waiting.refresh_from_db()
    assert (waiting.status, waiting.tries, waiting.error) == ("running", 2, "")
    assert waiting.messages
    assert not JournalEntry.objects.filter(operation="extract").exists()


def test_full_queue_refuses_more(said: list[Turn], actor: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MAX_WAITING", 1)
    services.enqueue(said, Destination(), actor)
    with pytest.raises(Conflict, match="try again later"):
        services.enqueue(said, Destination(), actor)


def test_only_the_sender_finds_it(waiting: Extraction, actor: Actor) -> None:
    assert services.get_extraction(waiting.uid, actor)
    others = [
        Actor("token:other", actor.clearance),
        Actor(actor.name, Clearance.up_to("secret", owner="bob")),
        Actor(actor.name, Clearance.up_to("secret", owner="ada", projects=["zoo"])),
    ]
    assert not any(services.get_extraction(waiting.uid, other) for other in others)


def test_abstracts_respect_the_current_clearance(model: Any, waiting: Extraction, actor: Actor) -> None:
    services.process_next()
    waiting.refresh_from_db()
    [result] = services.visible_results(waiting, actor)
    assert "Postgres" in result["abstract"]
    low = Actor(actor.name, Clearance.up_to("public", owner="ada"))
    assert services.visible_results(waiting, low)[0]["abstract"] == ""


def test_inaccessible_project_and_credential_in_a_name_are_refused(actor: Actor) -> None:
    confined = Actor("token:kim", Clearance.up_to("public", projects=["zoo"]))
    with pytest.raises(Forbidden):
        services.resolve_destination(Destination("bank"), confined)
    assert services.resolve_destination(Destination(""), confined).project == "zoo"
    with pytest.raises(Forbidden):
        services.resolve_destination(Destination(scope="personal"), Actor("token:x", Clearance()))
    with pytest.raises(SecretDetected):
        services.resolve_destination(Destination(session_id="ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"), actor)


def test_old_rows_are_deleted_without_their_memories(model: Any, waiting: Extraction) -> None:
    services.process_next()
    services.delete_old(timezone.now())
    assert Extraction.objects.exists()
    services.delete_old(timezone.now() + services.RETENTION + timedelta(hours=1))
    assert not Extraction.objects.exists()
    assert Memory.objects.exists()


class TestWorker:
    @pytest.fixture
    def reader(self, home: Path) -> Iterator[Callable[[], ExtractionWorker]]:
        """Workers that release their lease after the test."""
        made: list[ExtractionWorker] = []

        def make() -> ExtractionWorker:
            made.append(ExtractionWorker())
            return made[-1]

        yield make
        for one in made:
            one.release_lease()

    def test_it_processes_the_queue(self, model: Any, waiting: Extraction, reader: Any) -> None:
        one = reader()
        assert one.run_once()
        assert not one.run_once()
        assert Extraction.objects.get().status == "done"

    def test_rows_of_a_dead_process_are_taken_over(
        self, model: Any, waiting: Extraction, reader: Any
    ) -> None:
        Extraction.objects.update(status="running")
        assert reader().run_once()
        assert Extraction.objects.get().status == "done"

    def test_only_one_worker_is_active(self, model: Any, waiting: Extraction, reader: Any) -> None:
        first, second = reader(), reader()
        assert first.run_once()
        services.enqueue([Turn("user", "I prefer tea.")], Destination(), Actor("token:tests", Clearance()))
        assert not second.run_once()
        first.release_lease()
        assert second.run_once()

    def test_it_stops_on_request(self, reader: Any) -> None:
        one = reader()
        one.end()
        one.start()  # a thread with its own connection
        one.join(5)
        assert not one.is_alive()
