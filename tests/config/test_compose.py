"""The compose files: commands and variables exist, and the host of the health checks is allowed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands

from memoryhub.config import Operator
from tests.config.test_reference import ROOT, load

FILES = ("compose.yaml", "deploy/compose-nodes.yaml")
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*)|:\?)?\}")


def hubs(file: str) -> dict[str, Any]:
    """Return the services of a compose file that run the hub."""
    services = yaml.safe_load(Path(ROOT, file).read_text())["services"]
    return {name: one for name, one in services.items() if str(one["image"]).startswith("memoryhub")}


def environment_of(service: dict[str, Any], **variables: str) -> dict[str, str]:
    """Return the environment of a service in which compose has replaced the variables."""

    def replace(match: re.Match[str]) -> str:
        return variables.get(match[1]) or match[2] or ("" if match[2] is not None else "0" * 64)

    return {name: _VARIABLE.sub(replace, value) for name, value in service["environment"].items()}


@pytest.mark.parametrize("file", FILES)
def test_commands_and_variables_exist(file):
    known = {str(field.validation_alias) for field in Operator.model_fields.values()}
    for service in hubs(file).values():
        assert {*service["environment"]} <= known
        assert service.get("command", ["memoryhub", "serve"])[1] in get_commands()


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("hosts", ["", "hub.example.org"])
def test_health_checks_send_a_host_that_is_allowed(file, hosts):
    for service in hubs(file).values():
        operator = load(**environment_of(service, MEMORYHUB_ALLOWED_HOSTS=hosts))
        [host] = re.findall(r'"Host": "(\S+?)"', str(service["healthcheck"]["test"]))
        assert {host, hosts} - {""} <= {*operator.allowed_hosts}


def test_nodes_can_be_reached_by_https_only():
    for service in hubs("deploy/compose-nodes.yaml").values():
        assert load(**environment_of(service, MEMORYHUB_HTTPS="1")).https
        assert load(**environment_of(service)).metrics_token == ""
