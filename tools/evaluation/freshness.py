"""Measure how well the hub finds memories that a repository's history has outdated."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from memoryhub.access.policy import Clearance, Sensitivity, system_actor
from memoryhub.models import Memory
from memoryhub.ops.replay import Player, connect_in_process, read_transcript

PROJECT = "tidewatch"


@dataclass
class Freshness:
    """The memories of a history by label and mark. ``missing``: labels whose memory was not captured."""

    found: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    false_alarms: list[str] = field(default_factory=list)
    unmarked: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def found_share(self) -> float:
        return len(self.found) / max(len(self.found) + len(self.missed), 1)

    @property
    def false_alarm_share(self) -> float:
        return len(self.false_alarms) / max(len(self.false_alarms) + len(self.unmarked), 1)


def measure_history(folder: Path) -> Freshness:
    """Play the history of a folder into the store, and compare the marks of its memories with the labels."""
    with connect_in_process(system_actor("evaluate"), "evaluate_freshness") as transport:
        list(Player(transport, read_transcript(folder / "history.jsonl"), PROJECT, outcomes=False).play())
    visible = Memory.objects.visible_to(Clearance.up_to(Sensitivity.SECRET)).filter(project=PROJECT)
    stored = list(visible.filter(deleted_at__isnull=True))
    result = Freshness()
    for label in json.loads((folder / "labels.json").read_text("utf-8")):
        headline = label["memory"]
        memory = next((one for one in stored if one.content.startswith(headline)), None)
        if memory is None:
            result.missing.append(headline)
        elif label["outdated"]:
            (result.found if memory.may_be_outdated else result.missed).append(headline)
        else:
            (result.false_alarms if memory.may_be_outdated else result.unmarked).append(headline)
    return result
