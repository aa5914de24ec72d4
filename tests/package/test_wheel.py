"""The wheel: what it contains, and a hub that runs from it without a checkout."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

import pytest

import memoryhub
from tests.commands import hub as hubs
from tests.commands.hub import ROOT, Hub


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    [path] = built.glob("*.whl")
    return zipfile.ZipFile(path)


@dataclass(frozen=True)
class Installed(Hub):
    """A wheel in the place of a checkout. ``folder`` is the working directory."""

    site: Path = Path()

    def environment(self, **more: str) -> dict[str, str]:
        return {**super().environment(**more), "PYTHONPATH": str(self.site), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def installed(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The unpacked wheel and an empty home. The requirements come from the environment of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    for name in ("site", "home", "work"):
        (folder / name).mkdir()
    wheel.extractall(folder / "site")
    return Installed(folder / "work", folder / "home", site=folder / "site")


@pytest.fixture(scope="module")
def prepared(installed: Installed) -> tuple[Installed, str]:
    """The installed package with a prepared demo, and the output of the command."""
    done = installed._run(["-m", "memoryhub", "quickstart", "--prepare-only"])
    assert (done.returncode, done.stderr) == (0, "")
    return installed, done.stdout


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["templates", "static", "fixtures/demo"])
def test_wheel_contains_every_file_of_a_top_level_folder(wheel, name):
    prefix = f"memoryhub/data/{name}/"
    packed = {path.removeprefix(prefix) for path in wheel.namelist() if path.startswith(prefix)}
    assert packed == files_below(ROOT / name)


def test_wheel_contains_every_data_file_of_the_package(wheel):
    data = {
        f"memoryhub/{name}"
        for name in files_below(ROOT / "memoryhub")
        if not name.endswith(".pyc") and not Path(name).name.startswith(".")
    }
    assert data <= set(wheel.namelist())


def test_wheel_contains_only_the_package(wheel):
    assert {name.split("/")[0].split("-")[0] for name in wheel.namelist()} == {"memoryhub"}


def test_wheel_has_the_version_of_the_package(built):
    [path] = built.glob("*.whl")
    assert path.name == f"memoryhub-{memoryhub.__version__}-py3-none-any.whl"


def test_wheel_installs_the_command_memoryhub(wheel):
    [name] = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    scripts = ConfigParser()
    scripts.read_string(wheel.read(name).decode())
    assert dict(scripts["console_scripts"]) == {"memoryhub": "memoryhub.__main__:main"}


def test_source_archive_contains_what_the_wheel_is_built_from(built):
    [path] = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {f"templates/{name}" for name in files_below(ROOT / "templates")}
    assert wanted | {"pyproject.toml", "README.md", "LICENSE", "fixtures/sessions/debugging.jsonl"} <= names


def test_quickstart_from_the_wheel_puts_the_demo_into_letsgo_home(prepared):
    installed, output = prepared
    assert f"Demo store     {installed.home}/.letsgo/demo\n" in output
    assert files_below(installed.folder) == set()


def test_quickstart_from_the_wheel_writes_nothing_next_to_the_package(prepared, wheel):
    installed, _ = prepared
    assert files_below(installed.site) == {name for name in wheel.namelist() if not name.endswith("/")}


def test_second_quickstart_inside_the_demo_uses_the_same_demo(prepared):
    installed, _ = prepared
    home = f"{installed.home}/.letsgo/demo"
    again = installed._run(["-m", "memoryhub", "quickstart", "--prepare-only"], LETSGO_HOME=home)
    assert f"Demo store     {home}\n" in again.stdout
    assert "Contains" in again.stdout


def test_commands_that_quickstart_prints_start_with_memoryhub(prepared):
    installed, _ = prepared
    again = installed._run(["-m", "memoryhub", "quickstart", "--prepare-only"])
    assert f"LETSGO_HOME={installed.home}/.letsgo/demo memoryhub changepassword admin" in again.stdout


def test_hub_from_the_wheel_answers_a_search_and_shows_a_page(prepared):
    installed, output = prepared
    found = re.search(r"mh_[\w-]+", output)
    assert found
    port = hubs.free_port()
    home = f"{installed.home}/.letsgo/demo"
    with installed.serving(port, "memoryhub", "serve", "--port", str(port), program="-m", LETSGO_HOME=home):
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/v1/search",
            json.dumps({"query": "how is VAT rounded?"}).encode(),
            {"Authorization": f"Bearer {found.group()}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            results = json.load(answer)["results"]
        assert "VAT" in results[0]["memory"]["content"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=120) as page:
            [css, *_] = re.findall(r'href="(/static/[^"]+\.css[^"]*)"', page.read().decode())
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{css}", timeout=120) as style:
            assert style.status == 200


@pytest.mark.parametrize("command", ["test", "evaluate"])
def test_command_for_developers_says_that_it_needs_the_repository(installed, command):
    done = installed._run(["-m", "memoryhub", command, "x"])
    assert done.returncode == 1
    assert "repository" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_from_the_wheel_finds_templates_and_static_files(prepared):
    installed, _ = prepared
    done = installed._run(["-m", "memoryhub", "doctor"], LETSGO_HOME=f"{installed.home}/.letsgo/demo")
    assert re.search(r"OK +static files: all \d\d found", done.stdout)
