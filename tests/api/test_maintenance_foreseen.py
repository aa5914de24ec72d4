"""What a dry run lists to an agent is what the run then does, for a token of each clearance."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.models import Memory
from tests.api.test_maintenance import read, worked

LEVELS = ("public", "private", "secret")
OPERATIONS = ("purge_expired", "consolidate", "compress", "summarize_old", "evict", "empty_trash")


@pytest.fixture
def store_of_all_levels(bot, configure):
    """Of each level what each operation has something to do with."""
    now = timezone.now()
    special = {
        "faded": {"importance": 0.01, "updated_at": now - timedelta(days=200)},
        "used": {"accessed_count": 3, "last_accessed_at": now},
        "expired": {"expires_at": now - timedelta(days=1)},
        "trashed": {"deleted_at": now - timedelta(days=1), "trash_reason": "forgotten"},
    }
    for level in LEVELS:
        said = [f"the {level} pump in the mill house was greased again, turn {n}" for n in range(6)]
        for content in (*said, *(f"{level} and {name}" for name in special)):
            bot.post("/memories", {"content": content, "sensitivity": level})
    Memory.objects.update(updated_at=now - timedelta(days=40), created_at=now - timedelta(days=40))
    for name, values in special.items():
        Memory.objects.filter(content__endswith=f"and {name}").update(**values)
    configure(max_memories=5)


@pytest.mark.parametrize("clearance", LEVELS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_dry_run_lists_exactly_what_the_run_then_does(agent, store_of_all_levels, clearance, operation):
    keeper = agent(clearance, "keeper")

    def listed(*, dry_run):
        uid = worked(keeper, operation=operation, dry_run=dry_run)["id"]
        result = read(keeper, uid, allow_private=True, allow_secret=True, limit=200)["result"]
        assert result["changes"] == len(result["items"])
        named = ("id", "action", "before", "reason", "members")
        return [tuple(map(str, (item[name] for name in named))) for item in result["items"]]

    foreseen = listed(dry_run=True)
    assert foreseen
    assert listed(dry_run=False) == foreseen
