"""Mixed operations of several clients, and the check that each acknowledged one was done exactly once."""

from __future__ import annotations

import itertools
import json
import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

from tools.bench.clients import Client
from tools.bench.hub import manage
from tools.cluster.nodes import Node

MEMORIES = "/api/v1/memories"
WORDS = "harbour tide beacon ledger attic lantern orchard quarry meadow cellar bridge kiln".split()
BATCH = 100  # memories of a batch; each is an operation
WEIGHTS = {"batch": 3, "store": 20, "update": 20, "delete": 10, "search": 26}
AGED_PROJECTS, AGED_MEMORIES = 10, 100  # of each project


@dataclass
class Outcome:
    """What the clients received. ``unknown``: memories with a failed request, which may have taken effect."""

    stored: dict[str, str] = field(default_factory=dict)
    updates: Counter[str] = field(default_factory=Counter)
    titles: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)

    def add(self, other: Outcome) -> None:
        self.stored |= other.stored
        self.updates += other.updates
        self.titles |= other.titles
        self.deleted |= other.deleted
        self.unknown |= other.unknown
        self.statuses += other.statuses
        for kind, times in other.milliseconds.items():
            self.milliseconds.setdefault(kind, []).extend(times)


class Agent:
    """One client. Each request goes to another node; it changes only memories that it has stored."""

    def __init__(self, number: int, ports: Sequence[int], headers: dict[str, str], count: int) -> None:
        self.number, self.ports, self.headers, self.count = number, ports, headers, count
        self.outcome, self.random = Outcome(), random.Random(number)
        self.clients: dict[int, Client] = {}
        self.run_id = secrets.token_hex(4)  # a text of an earlier run would not be stored again

    def run(self) -> None:
        kinds, number = list(WEIGHTS), 0
        while number < self.count:
            kind = self.random.choices(kinds, list(WEIGHTS.values()))[0] if self._own() else "store"
            getattr(self, f"_{kind}")(number)
            number += BATCH if kind == "batch" else 1
        for client in self.clients.values():
            client.close()

    def _own(self) -> list[str]:
        found = self.outcome
        return [uid for uid in list(found.stored)[-50:] if uid not in found.deleted | found.unknown]

    def _send(self, kind: str, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        port = self.random.choice(self.ports)
        try:
            if port not in self.clients:
                self.clients[port] = Client(port, self.headers)
        except OSError:
            self.outcome.statuses[-1] += 1
            time.sleep(0.05)
            return -1, {}  # nothing was sent
        answer, content = self.clients[port].send(method, path, body)
        if not answer.status:
            self.clients.pop(port).close()
        self.outcome.statuses[answer.status] += 1
        self.outcome.milliseconds.setdefault(kind, []).append(1000 * answer.seconds)
        return answer.status, Client.decode(content)

    def _text(self, number: int) -> str:
        words = " ".join(self.random.choices(WORDS, k=12))
        return f"Agent {self.number} note {number} of run {self.run_id}: {words}"

    def _store(self, number: int) -> None:
        body = {"content": self._text(number), "project": f"p{self.number % 5}"}
        status, answer = self._send("store", "POST", MEMORIES, body)
        if status in (200, 201):
            self.outcome.stored[answer["memory"]["id"]] = body["content"]

    def _batch(self, number: int) -> None:
        drafts = [{"content": self._text(number + n), "project": f"p{n % 5}"} for n in range(BATCH)]
        status, answer = self._send("batch", "POST", f"{MEMORIES}/batch", {"memories": drafts})
        if status == 200:
            for draft, result in zip(drafts, answer["results"], strict=True):
                self.outcome.stored[result["id"]] = draft["content"]

    def _update(self, number: int) -> None:
        uid, title = self.random.choice(self._own()), f"Title {number}"
        status, _ = self._send("update", "PATCH", f"{MEMORIES}/{uid}", {"title": title})
        if status == 200:
            self.outcome.updates[uid] += 1
            self.outcome.titles[uid] = title
        elif status == 0 or status >= 500:
            self.outcome.unknown.add(uid)

    def _delete(self, number: int) -> None:
        uid = self.random.choice(self._own())
        status, _ = self._send("delete", "DELETE", f"{MEMORIES}/{uid}")
        if status in (200, 204):
            self.outcome.deleted.add(uid)
        elif status == 0 or status >= 500:
            self.outcome.unknown.add(uid)

    def _search(self, number: int) -> None:
        words = "+".join(self.random.sample(WORDS, 2))
        self._send("search", "GET", f"/api/v1/search?query={words}&limit=10")


def work(
    nodes: Sequence[Node], headers: dict[str, str], clients: int, operations: int
) -> tuple[Outcome, float]:
    """Run this number of operations with several clients. Return what they received, and the seconds."""
    ports = [node.port for node in nodes]
    agents = [Agent(number, ports, headers, operations // clients) for number in range(clients)]
    threads = [threading.Thread(target=agent.run, daemon=True) for agent in agents]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Outcome()
    for agent in agents:
        found.add(agent.outcome)
    return found, time.monotonic() - began


_AGE = """
from datetime import timedelta
from django.db.models import F
from memoryhub.models import Memory
memories = Memory.objects.filter(project__startswith="aged-")
print(memories.update(updated_at=F("updated_at") - timedelta(days=10)))
"""


def store_aged_memories(node: Node, headers: dict[str, str], environment: dict[str, str]) -> None:
    """Store old memories in some projects, so that a consolidation changes each of them once."""
    client = Client(node.port, headers)
    for project in range(AGED_PROJECTS):
        texts = [f"Aged note {number} of project {project}" for number in range(AGED_MEMORIES)]
        body = {"memories": [{"content": text, "project": f"aged-{project}"} for text in texts]}
        answer, _ = client.send("POST", f"{MEMORIES}/batch", body)
        if answer.status != 200:
            raise OSError(f"the aged memories were not stored: {answer.status}")
    client.close()
    manage(environment, "shell", "--no-imports", "-c", _AGE)


def request_runs(nodes: Sequence[Node], headers: dict[str, str], pause: Callable[[], object]) -> None:
    """Request a consolidation of each aged project from the nodes in turn, until it is accepted."""
    numbers = itertools.count()
    for project in range(AGED_PROJECTS):
        body = {"operation": "consolidate", "project": f"aged-{project}"}
        status = 0
        while status not in (202, 409):  # 409: the request without an answer was accepted
            pause()
            with (
                suppress(OSError),
                closing(Client(nodes[next(numbers) % len(nodes)].port, headers)) as client,
            ):
                status = client.send("POST", "/api/v1/maintenance", body)[0].status


def find_faults_of_runs(stored: dict[str, Any]) -> list[str]:
    """Return which runs did not end, and which of their changes were left out or made twice."""
    runs = [tuple(run[1:]) for run in stored["runs"] if run[0] == "consolidate"]
    faults = [f"a run is {run[0]} ({run[1]}) after {run[2]} memories" for run in runs if run[0] != "done"]
    times = Counter(dict(stored["consolidated"]).values())
    if times != {1: AGED_PROJECTS * AGED_MEMORIES}:
        faults.append(f"memories by the number of their consolidations: {dict(times)}")
    return faults


_READ = """
import json, sys
from collections import Counter
from memoryhub.audit import journal
from memoryhub.models import JournalEntry, MaintenanceRun, Memory
rows = Counter(JournalEntry.objects.filter(object_type="memory").values_list("operation", "object_id"))
changes = Counter()
for detail in JournalEntry.objects.filter(operation="consolidate").values_list("detail", flat=True):
    changes.update(change[0] for change in detail.get("changes", ()))
print(json.dumps({
    "memories": [[one.uid, one.content, one.title, one.deleted_at is None] for one in Memory.objects.all()],
    "journal": [[*key, count] for key, count in rows.items()],
    "runs": list(map(list, MaintenanceRun.objects.values_list("operation", "status", "cause", "done"))),
    "consolidated": [list(pair) for pair in changes.items()],
    "intact": journal.verify_chain().ok,
    "rows": JournalEntry.objects.count(),
}, default=str))
"""


def read_store(environment: dict[str, str]) -> dict[str, Any]:
    """Return what the database contains, read by a process of its own."""
    printed = manage(environment, "shell", "--no-imports", "-c", _READ)
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def find_faults(answers: Outcome, stored: dict[str, Any]) -> list[str]:
    """Return what was lost, done twice, or changed without a request."""
    memories = {uid: (content, title, live) for uid, content, title, live in stored["memories"]}
    journal = Counter({(operation, uid): count for operation, uid, count in stored["journal"]})
    faults = [] if stored["intact"] else ["the journal is not intact"]
    texts = Counter(content for content, _, _ in memories.values())
    faults += [f"stored {count} times: {text}" for text, count in texts.items() if count > 1]
    for uid, content in answers.stored.items():
        if uid not in memories or memories[uid][0] != content:
            faults.append(f"{uid} was stored and is lost")
            continue
        if journal["insert", uid] != 1:
            faults.append(f"{uid} was stored {journal['insert', uid]} times")
        if uid in answers.unknown:
            continue
        if memories[uid][2] is (uid in answers.deleted):
            faults.append(f"{uid} was{'' if uid in answers.deleted else ' not'} deleted")
        if journal["update", uid] != answers.updates[uid]:
            faults.append(f"{uid} was updated {journal['update', uid]} times, not {answers.updates[uid]}")
        if uid in answers.titles and memories[uid][1] != answers.titles[uid]:
            faults.append(f"{uid} has lost its last title")
    return faults
