"""``create_token``: what is given is what the token gets, and nothing wider."""

import pytest
from django.core.management import CommandError, call_command

from memoryhub.models import AgentToken
from tests.cases import each


@each("option, field", [("--projects=", "projects"), ("--projects= , ", "projects"), ("--rights=", "rights")])
def test_a_list_that_names_nothing_is_refused(db, option, field):
    with pytest.raises(CommandError, match=f"^{field}: .*at least one"):
        call_command("create_token", "claude", option)
    assert not AgentToken.objects.exists()


def test_token_has_every_project_or_those_of_the_option(db, capsys):
    call_command("create_token", "claude")
    call_command("create_token", "codex", "--projects", "b, a")
    assert [token.projects for token in AgentToken.objects.order_by("pk")] == [[], ["a", "b"]]
    assert "in all projects" in capsys.readouterr().err
