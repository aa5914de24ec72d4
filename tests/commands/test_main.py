"""The command ``memoryhub`` and ``manage.py``."""

import pytest

from memoryhub import __main__
from memoryhub.ops import bootstrap


def test_client_commands_are_listed_once_the_requirements_are_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The process that starts itself again in the new environment lists nothing."""
    started: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "main", lambda argv, run: started.append(argv))
    __main__.main(["manage.py", "help"])
    assert started == [["manage.py", "help"]]
    assert capsys.readouterr().out == ""

    monkeypatch.setattr(bootstrap, "main", lambda argv, run: run(argv))
    monkeypatch.setattr(bootstrap, "run_management_command", started.append)
    __main__.main(["manage.py", "help"])
    assert capsys.readouterr().out.count("Commands that use a hub") == 1
