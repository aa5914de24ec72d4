"""``manage.py extract`` and the ``evaluate_extraction`` tool."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import BaseCommand, CommandError, call_command

from memoryhub.access.policy import system_actor
from memoryhub.capture.projects import configure_project
from memoryhub.models import JournalEntry, Memory
from tests.extraction.conftest import SAID
from tools.commands.evaluate_extraction import Command as EvaluateCommand


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    file = tmp_path / "talk.json"
    file.write_text(json.dumps(SAID))
    return file


def run(command: str | BaseCommand, *arguments: Any) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command(command, *map(str, arguments), stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


@pytest.mark.django_db
class TestExtract:
    def test_candidates_are_stored_with_their_outcomes(self, transcript: Path) -> None:
        out, _ = run("extract", transcript, "--project", "p", "--session-id", "s", "--sensitivity", "private")
        assert "created   events       We decided to keep the queue in Postgres." in out
        assert "3 candidates: 3 created (read by the rules)" in out
        rows = Memory.objects.values_list("project", "session_id", "sensitivity")
        assert set(rows) == {("p", "s", "private")}
        assert JournalEntry.objects.filter(operation="insert", actor__startswith="command:").count() == 3

    @pytest.mark.parametrize("options", [(), ("--rules",)])
    def test_ignored_path_is_neither_stored_nor_sent(
        self, transcript: Path, model: Any, options: tuple[str, ...]
    ) -> None:
        text = "We decided to keep the keys in vault/quincewort.txt, because the deploy reads them there."
        transcript.write_text(json.dumps([{"role": "user", "content": text}]))
        configure_project("p", system_actor("test"), ignored_paths="vault/")
        run("extract", transcript, "--project", "p", *options)
        assert Memory.objects.count() == 1
        assert "quincewort" not in f"{list(Memory.objects.values())} {model.asked}"

    def test_model_is_not_asked_where_nothing_is_stored(self, transcript: Path, model: Any) -> None:
        configure_project("p", system_actor("test"), mode="observe")
        out, _ = run("extract", transcript, "--project", "p")
        assert "3 candidates: 3 refused (read by the rules)" in out
        assert model.asked == []

    def test_dry_run_stores_nothing(self, transcript: Path) -> None:
        out, _ = run("extract", transcript, "--dry-run")
        assert "3 candidates: 3 found" in out
        assert "→" in out
        assert not Memory.objects.exists()

    def test_model_is_called_synchronously(self, transcript: Path, model: Any) -> None:
        out, _ = run("extract", transcript)
        assert "1 candidate: 1 created (read by the model)" in out
        assert len(model.asked) == 1

    def test_rules_option_skips_the_model(self, transcript: Path, model: Any) -> None:
        out, _ = run("extract", transcript, "--rules")
        assert "(read by the rules)" in out
        assert model.asked == []

    def test_model_failure_is_reported(self, transcript: Path, model: Any) -> None:
        from tests.llm.servers import status

        model.usual = status(401)
        out, err = run("extract", transcript)
        assert "(read by the rules)" in out
        assert "check MEMORYHUB_LLM_KEY" in err

    def test_json(self, transcript: Path) -> None:
        out, _ = run("extract", transcript, "--json")
        assert {one["outcome"] for one in json.loads(out)["results"]} == {"created"}

    def test_personal_memories_need_an_owner(self, transcript: Path) -> None:
        with pytest.raises(CommandError, match="needs an owner"):
            run("extract", transcript, "--scope", "personal")
        run("extract", transcript, "--scope", "personal", "--owner", "ada")
        assert set(Memory.objects.values_list("owner", flat=True)) == {"ada"}

    def test_missing_or_invalid_file_is_reported(self, tmp_path: Path) -> None:
        with pytest.raises(CommandError, match="cannot be read: No such file"):
            run("extract", tmp_path / "nothing")
        file = tmp_path / "t.txt"
        file.write_text("nothing")
        with pytest.raises(CommandError, match="it contains no messages"):
            run("extract", file)


class TestEvaluate:
    def test_it_prints_the_scores_of_each_part(self) -> None:
        out, _ = run(EvaluateCommand())
        assert "tuned" in out
        assert "precision" in out

    def test_details_list_misses_and_errors(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("User: I prefer tea. The keyboard is green.")
        label = '{category = "entities", words = ["green"], says = "green"}'
        (tmp_path / "labels.toml").write_text(f'[[conversation]]\nname = "a"\nkeep = [{label}]\n')
        out, _ = run(EvaluateCommand(), tmp_path, "--details")
        assert "missed: green" in out
        assert "wrong:  preferences: I prefer tea." in out
        assert "precision 0.00, recall 0.00" in out

    def test_folder_without_labels_is_reported(self, tmp_path: Path) -> None:
        with pytest.raises(CommandError, match="cannot be evaluated"):
            run(EvaluateCommand(), tmp_path)
