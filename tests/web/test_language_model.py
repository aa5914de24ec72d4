"""The language model page: budget, usage, problems and permissions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryhub.models import Extraction, ModelUse
from tests.web.markup import PAYLOAD, find_dangers, main

PAGE = "/maintenance/language-model/"


@pytest.fixture
def looker(sign_in: Any) -> Client:
    client: Client = sign_in("view_maintenancerun")
    return client


def words(client: Client) -> str:
    return " ".join(main(client.get(PAGE)).words.split())


def test_without_a_model_the_message_names_the_rules(looker: Client) -> None:
    shown = words(looker)
    assert "No model is configured. Rules process" in shown
    assert "To use a model, set llm" in shown
    assert "budget" not in shown


def test_it_shows_model_host_and_remaining_budget(looker: Client, configure: Any) -> None:
    configure(
        llm="openai",
        llm_url="https://llm.example.org/v1",
        llm_model="tiny",
        llm_daily_calls=7,
        llm_daily_tokens=900,
    )
    ModelUse.objects.create(
        day=timezone.now().date(), model="tiny", calls=3, failures=1, prompt_tokens=400, completion_tokens=50
    )
    said = words(looker)
    assert "tiny at llm.example.org processes the conversations" in said
    assert "3calls of 7" in said.replace("3 calls", "3calls")
    assert "450tokens of 900" in said.replace("450 tokens", "450tokens")


def test_no_key_is_shown(looker: Client, configure: Any, settings: Any) -> None:
    settings.LLM_KEY = "sk-no-one-may-read"
    configure(llm="openai", llm_url="https://llm.example.org/v1", llm_model="tiny")
    assert "sk-no-one" not in looker.get(PAGE).content.decode()


def test_a_broken_configuration_is_shown_with_its_fix(looker: Client, configure: Any) -> None:
    configure(llm="openai")
    assert "llm_url is empty" in words(looker)


def test_plain_http_to_another_machine_is_warned_of(looker: Client, configure: Any) -> None:
    configure(llm="openai", llm_url="http://llm.example.org/v1", llm_model="tiny")
    assert "others on the network can read" in words(looker)


def test_the_used_share_of_the_budget_is_in_percent(looker: Client, configure: Any) -> None:
    configure(llm="openai", llm_url="https://llm.example.org/v1", llm_model="tiny", llm_daily_calls=250)
    ModelUse.objects.create(day=timezone.now().date(), model="tiny", calls=42)
    assert "share of the limit 17%" in words(looker)


def test_the_last_days_with_use_are_listed(looker: Client) -> None:
    day = timezone.now().date() - timedelta(days=2)
    ModelUse.objects.create(day=day, model="tiny", calls=41)
    page = looker.get(PAGE).content.decode()
    assert page.count('data-label="Calls"') == 1
    assert 'data-label="Calls">41<' in page


def test_a_model_without_use_shows_an_empty_state(looker: Client, configure: Any) -> None:
    configure(llm="openai", llm_url="https://llm.example.org/v1", llm_model="tiny")
    assert "No calls in the last 14 days." in words(looker)


def test_errors_are_listed_as_text(looker: Client) -> None:
    Extraction.objects.create(error=f"the model failed {PAYLOAD}", project=PAYLOAD, extractor="rules")
    response = looker.get(PAGE)
    assert "The model failed" in words(looker)
    assert not find_dangers(response.content.decode())


def test_problems_of_hidden_conversations_are_not_shown(looker: Client) -> None:
    Extraction.objects.create(error="hidden by its level", sensitivity="secret")
    Extraction.objects.create(error="hidden by its unknown level", sensitivity="cosmic")
    Extraction.objects.create(error="hidden by its owner", scope="personal", reach={"owner": "bob"})
    Extraction.objects.create(error="mine to see", scope="personal", reach={"owner": "ada"})
    said = words(looker)
    assert "hidden by" not in said.lower()
    assert "Mine to see" in said


def test_people_without_permission_do_not_see_it(visitor: Client) -> None:
    assert visitor.get(PAGE).status_code == 403


def test_it_is_linked_from_maintenance(looker: Client) -> None:
    assert PAGE in looker.get("/maintenance/").content.decode()
