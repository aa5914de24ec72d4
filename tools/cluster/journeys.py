"""Tests against nodes behind a proxy, in a copy of the demo: browser journeys and official MCP clients."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tools.bench.hub import ROOT, manage, store_environment
from tools.cluster.nodes import Killer, Node
from tools.cluster.postgres import started
from tools.cluster.proxies import BalancingProxy

CLIENTS = tuple(
    f"tests/mcp/test_{name}.py" for name in ("python_client", "typescript_client", "oauth_clients")
)
SUITES = {"browser journeys": ("tests/browser/journeys",), "MCP clients": CLIENTS}
BRIEF_SUITES = {  # each journey once; a client that stores, finds, updates and deletes
    "browser journeys": ("tests/browser/journeys", "-k", "not (scripts or keyboard or phone)"),
    "MCP client": (CLIENTS[0], "-k", "stores_finds"),
}
MAX_RUNS = 4  # of a test whose requests were cut off
_DEMO = """
from django.core.management import call_command
from memoryhub.ops import demo, replay
call_command("migrate", verbosity=0)
demo.mark()
demo.load()
replay.play_session()
"""
_READ = """
import json
from memoryhub.audit import journal
from memoryhub.models import JournalEntry, Memory
live = Memory.objects.live().filter(expires_at=None).values_list("uid", "content", "title", "importance")
rows = JournalEntry.objects.values_list("seq", "hash")
print(json.dumps({"intact": journal.verify_chain().ok, "rows": sorted(map(repr, [*live, *rows]))}))
"""


class Journeys:
    """Three nodes of a copy of the demo, the proxy in front of them, and the tests that use it."""

    def __init__(self, options: argparse.Namespace, folder: Path, running: ExitStack) -> None:
        self.suites = BRIEF_SUITES if options.brief else SUITES
        self.folder, self.url = folder, running.enter_context(started()).create_database("hub")
        self._copy_demo()
        # A journey starts its own worker, or executes a run itself and looks at the page between.
        settings = {"MEMORYHUB_EMBEDDINGS": "wordllama", "MEMORYHUB_MAINTENANCE_WORKER": "false"}
        self.nodes = [
            Node(f"node-{n}", folder / f"node-{n}", self.url, options.workers, **settings)
            for n in range(options.nodes)
        ]
        self.proxy = BalancingProxy([node.port for node in self.nodes])
        running.callback(self.proxy.close)
        self.address = f"http://127.0.0.1:{self.proxy.port}"
        for node in self.nodes:
            node.environment["MEMORYHUB_PUBLIC_URL"] = self.address  # turns OAuth on
            node.start()
            running.callback(node.stop)
        for node in self.nodes:
            node.wait_until_ready()
        self.killer = Killer(self.nodes, options.kill_every, options.kills)

    def _copy_demo(self) -> None:
        demo = self.folder / "demo"
        demo.mkdir()
        environment = store_environment(demo) | {"DJANGO_SETTINGS_MODULE": "memoryhub.settings"}
        manage(environment, "shell", "--no-imports", "-c", _DEMO)
        print(manage(environment, "copy_store", "--to", self.url).splitlines()[-2])
        self.demo = read_store(environment)

    def check(self) -> int:
        """Run the tests while nodes are killed; return the exit code."""
        with self.killer:
            failed = [name for name, paths in self.suites.items() if not self._passes(name, paths)]
        found = read_store(self.nodes[0].environment)
        lost = set(self.demo["rows"]) - set(found["rows"])
        print(f"{self.killer.kills} kills, {self.proxy.cut_off} requests cut off;", end=" ")
        print(
            f"of {len(self.demo['rows'])} rows of the demo, {len(lost)} lost or changed;",
            end=" ",
        )
        print(f"the journal is {'' if found['intact'] else 'not '}intact")
        return 1 if failed or lost or not found["intact"] else 0

    def _passes(self, name: str, paths: tuple[str, ...]) -> bool:
        """Run tests. Repeat those that failed, if a request was cut off for each of them."""
        for number in range(MAX_RUNS):
            cut_off = self.proxy.cut_off
            run, failed = self._run_tests(paths, again=number > 0)
            cut_off = self.proxy.cut_off - cut_off
            print(f"{name}: {run} run, {failed} failed, {cut_off} requests cut off", flush=True)
            if not failed:
                return run > 0
            if failed > cut_off:
                return False
        return False

    def _run_tests(self, paths: tuple[str, ...], again: bool) -> tuple[int, int]:
        """Return how many tests ran and how many of them failed."""
        report, environment = self.folder / "report.xml", {**os.environ, "TEST_NODES_URL": self.address}
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", f"--junit-xml={report}", *paths]
        command += ["--last-failed"] if again else []
        subprocess.run(command, cwd=ROOT, env=environment | {"TEST_DATABASE_URL": self.url})
        return count_tests(report)


def count_tests(report: Path) -> tuple[int, int]:
    """Return how many tests of a JUnit report ran, and how many failed.

    A test that fails, and again when its fixtures end, is listed twice.
    """
    ran, failed = set(), set()
    for case in ElementTree.parse(report).iter("testcase"):
        results, name = {part.tag for part in case}, case.attrib["classname"] + case.attrib["name"]
        if "skipped" not in results:
            ran.add(name)
        if results & {"failure", "error"}:
            failed.add(name)
    return len(ran), len(failed)


def read_store(environment: dict[str, str]) -> Any:
    """Return the memories that do not expire and the journal."""
    return json.loads(manage(environment, "shell", "--no-imports", "-c", _READ).splitlines()[-1])
