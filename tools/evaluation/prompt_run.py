"""Run labelled prompts in an empty store: ``python -m tools.evaluation.prompt_run FOLDER``.

The command starts it with an empty LETSGO_HOME, and passes on ``--held-back``, ``--fresh`` and ``--learned``.
It prints one line of JSON with the ids of the returned memories: ``{"came": {path: {prompt: ids}}}``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import django

if TYPE_CHECKING:
    from memoryhub.http.authentication import Caller
    from tools.evaluation.prompt_sets import LabelledPrompt, PromptSet

INJECTION, RECALL = "injection", "recall"


def main(folder: Path, held_back: bool, fresh: bool, learned: bool) -> None:
    """Store the memories, run every prompt on both paths, and print the returned memories."""
    from django.core.management import call_command
    from django.db import transaction
    from django.utils import timezone

    from memoryhub.access.policy import Actor
    from memoryhub.core.vocabulary import Right
    from memoryhub.http.authentication import Caller
    from tools.evaluation.prompt_sets import read_prompts
    from tools.screenshots.frozen_clock import freeze_clock

    given = read_prompts(folder, held_back=held_back)
    call_command("migrate", verbosity=0, interactive=False)
    caller = Caller(Actor("agent:evaluate"), frozenset({Right.READ.value}))
    came: dict[str, dict[str, list[str]]] = {INJECTION: {}, RECALL: {}}
    with freeze_clock(timezone.now()):  # a score next to the floor must not change with the seconds
        names = _store(given, fresh)
        if learned:
            _learn(read_prompts(folder, held_back=not held_back), names, caller)
        for conversation in given.conversations():
            with transaction.atomic():  # rolled back: accesses must not influence the next conversation
                for prompt in conversation:
                    came[INJECTION][prompt.id] = _named(_inject(prompt, caller), names)
                    came[RECALL][prompt.id] = _named(_recall(prompt, caller), names)
                transaction.set_rollback(True)
    print(json.dumps({"came": came}), flush=True)


def _store(given: PromptSet, fresh: bool) -> dict[str, str]:
    """Store the memories, as new ones if ``fresh``. Return the id in the file by the id in the store."""
    from django.utils import timezone

    from memoryhub.access.policy import system_actor
    from memoryhub.memories import StoreError, create_memories
    from tools.evaluation.isolated_run import embed_stored
    from tools.evaluation.prompt_sets import replacements_first, to_draft

    now = timezone.now()
    stored: dict[str, str] = {}
    for group in replacements_first(given.memories):
        drafts = [
            to_draft(memory, stored, now if fresh else now - timedelta(days=memory.age_days))
            for memory in group
        ]
        for memory, result in zip(group, create_memories(drafts, system_actor("evaluate")), strict=True):
            if isinstance(result, StoreError):
                raise result
            stored[memory.id] = result.memory.uid
    embed_stored("prompts")
    return {uid: name for name, uid in stored.items()}


def _learn(other: PromptSet, names: Mapping[str, str], caller: Caller) -> None:
    """Inject for the prompts of the other half. Count a memory as helpful if the labels allow it."""
    from memoryhub.memories import count_outcomes
    from memoryhub.models import Memory

    keys = dict(Memory.objects.values_list("uid", "pk"))
    uids = {name: uid for uid, name in names.items()}
    for prompt in other.prompts:
        injected = _named(_inject(prompt.model_copy(update={"session": ""}), caller), names)
        helped = {name: int(not prompt.is_unwanted(name)) for name in injected}
        count_outcomes({keys[uids[name]]: (1, value) for name, value in helped.items()})


def _inject(prompt: LabelledPrompt, caller: Caller) -> list[str]:
    """Return the injected memories, and those left out only because the session has seen them."""
    from memoryhub.injection.requests import InjectionRequest
    from memoryhub.injection.selection import ALREADY_SHOWN
    from memoryhub.injection.services import inject_context

    request = InjectionRequest(prompt.prompt, session_id=prompt.session)
    result = inject_context(request, caller.actor, record=bool(prompt.session))
    if result.choice is None:
        raise SystemExit(f"{prompt.id}: {'; '.join(result.skipped)}")
    again = [one.uid for one in result.withheld if one.reason == ALREADY_SHOWN]
    return [*(one.uid for one in result.injected), *again]


def _recall(prompt: LabelledPrompt, caller: Caller) -> list[str]:
    """Return the memories in the answer of the recall tool with its default budget."""
    from memoryhub.toolsets.memory_mcp import RecallArguments, memory_recall

    answer = memory_recall(caller, RecallArguments(query=prompt.prompt))
    return [row["id"] for row in (*answer["index"], *answer["details"])]


def _named(uids: list[str], names: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(names[uid] for uid in uids))


if __name__ == "__main__":
    django.setup()
    main(Path(sys.argv[1]), "--held-back" in sys.argv, "--fresh" in sys.argv, "--learned" in sys.argv)
