"""The recorded history of a repository: outdated memories found, and false alarms."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.evaluation.freshness import measure_history

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "freshness"
MIN_FOUND, MAX_FALSE_ALARMS = 0.75, 0.15


@pytest.mark.django_db
def test_most_outdated_memories_are_found_with_few_false_alarms():
    result = measure_history(FOLDER)
    assert not result.missing
    assert len(result.found) + len(result.missed) >= 15
    assert len(result.false_alarms) + len(result.unmarked) >= 25
    assert result.found_share >= MIN_FOUND
    assert result.false_alarm_share <= MAX_FALSE_ALARMS


def test_history_is_what_its_script_records(tmp_path):
    for name in ("record.py", "recorder.py"):
        shutil.copy(FOLDER / name, tmp_path)
    subprocess.run([sys.executable, "record.py"], cwd=tmp_path, check=True)
    for name in ("history.jsonl", "labels.json"):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()


def test_labels_of_outdated_memories_say_why():
    labels = json.loads((FOLDER / "labels.json").read_text("utf-8"))
    assert all(bool(label["why"]) == label["outdated"] for label in labels)
