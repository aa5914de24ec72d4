"""Pictures of every page: none is forgotten, no real store is touched, and they are there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from django.core.management import CommandError, call_command
from django.urls import NoReverseMatch

from memoryhub.models import Memory
from memoryhub.web import urls
from tests.commands import hub as hubs
from tests.commands.hub import ROOT
from tools.commands.screenshots import FOLDER, Command, shown_files
from tools.screenshots import temporary_store
from tools.screenshots.chromium import installed
from tools.screenshots.pages import NOT_PICTURED, PICTURES

TAKEN = {
    f"{one.name}-{width}-{theme}"
    for one in PICTURES
    for width in ("wide", "phone")
    for theme in ("light", "dark")
}
PICTURED = {one.page for one in PICTURES if not one.template}
LEFT_OUT = [name for names in NOT_PICTURED.values() for name in names]


class _Anything(dict):
    def __missing__(self, key: str) -> str:
        return "1"


def test_every_page_is_pictured_or_it_is_said_why_not():
    named = {one.name for one in urls.urlpatterns if one.name}
    assert sorted(named - PICTURED - set(LEFT_OUT)) == []


def test_excluded_pages_exist_and_are_not_pictured():
    named = {one.name for one in urls.urlpatterns}
    assert sorted(set(LEFT_OUT) - named) == []
    assert sorted(set(LEFT_OUT) & PICTURED) == []


def test_each_picture_has_a_name_of_its_own_and_an_address():
    names = [one.name for one in PICTURES]
    assert len(names) == len(set(names))
    for one in PICTURES:
        try:
            assert one.address(_Anything()).startswith("/")
        except NoReverseMatch as error:
            pytest.fail(f"{one.name}: {error}")


def test_a_store_of_another_command_is_refused(db):
    with pytest.raises(CommandError, match="need a temporary store"):
        call_command(Command())
    assert not Memory.objects.exists()


def test_error_for_an_unknown_name_lists_the_known_ones(monkeypatch, settings):
    monkeypatch.setattr(temporary_store, "home", settings.HOME)
    with pytest.raises(CommandError, match=r"no picture is called hoem; there are: .*home"):
        call_command(Command(), "--only", "hoem")


def test_missing_package_is_named_with_its_fix(monkeypatch, settings, tmp_path):
    monkeypatch.setattr(temporary_store, "home", settings.HOME)
    for name in ("browser", "chromium"):
        monkeypatch.delitem(sys.modules, f"tools.screenshots.{name}", raising=False)
        monkeypatch.delattr(f"tools.screenshots.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    with pytest.raises(CommandError, match=r"playwright.* is missing; pip install -r requirements-dev.txt"):
        call_command(Command(), str(tmp_path), "--only", "login")


def test_a_real_store_in_the_environment_is_not_taken(tmp_path):
    environ = {"LETSGO_HOME": str(tmp_path), "MEMORYHUB_TOKEN_CAP": "1", "DATABASE_URL": "x", "HOME": "/root"}
    temporary_store.enter(environ)
    home = Path(environ["LETSGO_HOME"])
    assert home.is_dir()
    assert home != tmp_path
    assert set(environ) == {"LETSGO_HOME", "HOME"}
    home.rmdir()


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.skipif(installed() is None, reason="needs Chromium")
def test_it_takes_pictures_in_both_themes_and_widths_and_leaves_no_store_behind(tmp_path):
    from PIL import Image

    hub = hubs.copy(tmp_path)
    with TemporaryDirectory() as temporary:  # Chromium has sockets there, whose paths must be short
        done = hub.run_tool("screenshots", str(tmp_path / "out"), "--only", "login", TMPDIR=temporary)
        left = list(Path(temporary).glob("memoryhub-*"))
    assert done.returncode == 0, done.stderr
    assert left == []
    assert done.stdout.startswith("4 pictures in ")
    sizes = {}
    for file in (tmp_path / "out").iterdir():
        with Image.open(file) as image:
            sizes[file.name] = image.size
    assert sizes == {
        "login-wide-light.webp": (1280, 900),
        "login-wide-dark.webp": (1280, 900),
        "login-phone-light.webp": (390, 844),
        "login-phone-dark.webp": (390, 844),
    }


def test_the_pictures_that_the_documentation_shows_are_there_few_and_small():
    files = list((ROOT / FOLDER).glob("*.webp"))
    assert {file.name for file in files} == shown_files(ROOT)
    assert len(files) <= 24
    assert sum(file.stat().st_size for file in files) < 2_000_000


@pytest.mark.parametrize("document", ["README.md", "docs/dashboard.md"])
def test_pictures_of_documents_exist(document):
    page = ROOT / document
    shown = re.findall(r'(?:src|srcset)="([^"]+)"', page.read_text("utf-8"))
    assert shown
    assert [name for name in shown if not (page.parent / name).exists()] == []


def test_every_picture_that_the_documentation_shows_can_be_taken():
    assert {file.removesuffix(".webp") for file in shown_files(ROOT)} <= TAKEN
