"""Give an agent access: create a token for one project, see its first event, revoke the token."""

from __future__ import annotations

from typing import Any

from django.test import Client
from playwright.sync_api import expect

from memoryhub.models import AgentToken
from tests.browser.journeys.conftest import go_to


def remember(token: str, project: str) -> int:
    """Return the response to an agent that stores a memory."""
    answer = Client().post(
        "/api/v1/memories",
        {"content": f"the oven in {project} runs hot", "project": project},
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
    return int(answer.status_code)


def test_a_new_agent_gets_a_token_for_one_project_and_loses_it_again(
    set_out: Any, person: Any, scripts: bool, new_memories: Any
) -> None:
    earlier = AgentToken.objects.active().count()
    page = set_out("/", person("ada", "add_agenttoken", "change_agenttoken", "add_memory"))
    go_to(page, "Settings", "Agents and tokens")
    page.get_by_role("link", name="Connect an agent").click()
    page.get_by_role("link", name="Claude Code", exact=True).click()
    page.get_by_label("Name", exact=True).fill("baker-bot")
    page.get_by_label("Project", exact=True).fill("bakery")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_role("status").filter(has_text="baker-bot")).to_contain_text("has a token for bakery")
    token = page.locator("#snippet-plugin").inner_text().rpartition("token=")[2]
    expect(page.get_by_text("Waiting for the first event")).to_be_visible()
    assert remember(token, "bakery") == 201
    assert remember(token, "bank") in (403, 404, 422)
    assert [memory.project for memory in new_memories()] == ["bakery"]
    if not scripts:
        page.get_by_role("link", name="Check again").click()
    expect(page.get_by_text("Connected.")).to_be_visible()
    page.get_by_role("link", name="View baker-bot").click()
    expect(page.get_by_role("link", name="the oven in bakery runs hot")).to_be_visible()
    go_to(page, "Settings", "Agents and tokens")
    page.get_by_role("link", name="Your tokens").click()
    page.locator("summary", has_text="Manage baker-bot").click()
    page.get_by_role("button", name="Revoke permanently").click()
    expect(page.get_by_text("baker-bot is revoked.")).to_be_visible()
    assert AgentToken.objects.active().count() == earlier
    assert remember(token, "bakery") == 401
