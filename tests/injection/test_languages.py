"""Prompts in French, Spanish, Portuguese, Italian and Dutch in a store of English memories."""

from __future__ import annotations

import pytest

from memoryhub.backends.fts_query import parse_query
from memoryhub.core.text import CHINESE_FUNCTION_WORDS
from memoryhub.search.prompts import parse_prompt
from memoryhub.search.query_words import adapt_to_language
from tests.cases import each

SUBJECTS = ("facets", "Redis", "Ansible", "gateway")
ABOUT = {
    "french": """
Pourquoi les facets sont lents ?
Comment fonctionnent les facets chez nous ?
Qu'est-ce qu'on a décidé pour Redis ?
Où sont stockées les sessions Redis ?
Il y a un problème avec Ansible depuis hier
Je veux changer la configuration de Ansible
Peux-tu m'expliquer comment marche le gateway ?
Quelles adresses sont bloquées par le gateway ?
""",
    "spanish": """
¿Por qué son lentas las facets?
¿Cómo funcionan las facets?
¿Qué decidimos sobre Redis?
¿Dónde se guardan las sesiones en Redis?
Hay un problema con Ansible desde ayer
Quiero cambiar la configuración de Ansible
Explícame cómo funciona el gateway
¿Qué direcciones bloquea el gateway?
""",
    "portuguese": """
Por que as facets são lentas?
Como funcionam as facets?
O que decidimos sobre o Redis?
Onde são guardadas as sessões do Redis?
Há um problema com o Ansible desde ontem
Eu quero mudar a configuração do Ansible
Me explique como funciona o gateway
Quais endereços são bloqueados pelo gateway?
""",
    "italian": """
Perché le facets sono lente?
Come funzionano le facets da noi?
Cosa abbiamo deciso su Redis?
Dove sono salvate le sessioni di Redis?
C'è un problema con Ansible da ieri, non so perché
Voglio cambiare la configurazione di Ansible
Spiegami come funziona il gateway
Quali indirizzi sono bloccati dal gateway?
""",
    "dutch": """
Waarom zijn de facets traag?
Hoe werken de facets bij ons?
Wat hebben we besloten over Redis?
Waar worden de sessies van Redis opgeslagen?
Er is sinds gisteren een probleem met Ansible
Ik wil de configuratie van Ansible veranderen
Leg uit hoe de gateway werkt
Welke adressen worden door de gateway geblokkeerd?
""",
}
WITHOUT_SUBJECT = {
    "french": """
Merci, continue
lance les tests
fais un commit de tout ça
ça ne marche pas, essaie encore
corrige les erreurs et relance les tests
c'est parfait, on passe à la suite
combien de temps ça va prendre ?
montre-moi le diff
pourquoi ça ne passe pas ?
""",
    "spanish": """
vale, sigue
haz commit de esto
ejecuta los tests
no funciona, prueba otra vez
corrige los errores y vuelve a ejecutar los tests
gracias, está perfecto
¿cuánto tiempo va a tardar?
¿puedes limpiar el código por favor?
""",
    "portuguese": """
ok, continua
faz commit disso
roda os tests de novo
não funciona, tenta de novo
corrija os erros e rode os tests de novo
obrigado, está perfeito
quanto tempo vai demorar?
você pode limpar o código por favor?
""",
    "italian": """
grazie, continua
fai il commit di questo
esegui i test
non funziona, prova ancora
correggi gli errori e riesegui i test
perfetto, passiamo al prossimo
quanto tempo ci vuole?
puoi pulire il codice per favore?
""",
    "dutch": """
bedankt, ga verder
maak hier een commit van
draai de tests
het werkt niet, probeer het opnieuw
herstel de fouten en draai de tests opnieuw
dank je, dat is perfect
hoe lang gaat dit duren?
laat me de diff zien
""",
}
COMMON = ("Fix tests", "Temporary files", "Commit hooks", "Error messages", "The next line of code")


@pytest.fixture
def project(remember):
    for number in range(300):
        remember(f"{COMMON[number % 5]} in part {number}.", title=f"{COMMON[number % 5]} {number}")
    for number in range(48):
        subject = SUBJECTS[number % 4]
        remember(f"The {subject} of part {number} were changed.", title=f"Use {subject} in part {number}")


def titles(ask, prompts):
    return {prompt: [one.candidate.memory.title for one in ask(prompt).shown] for prompt in prompts}


@each("language", ABOUT)
def test_a_subject_is_found_in_a_prompt_in_another_language(ask, project, language):
    prompts = ABOUT[language].strip().splitlines()
    subjects = [subject for subject in SUBJECTS for _ in range(2)]
    found = titles(ask, prompts)
    assert all(found.values()), found
    for subject, shown in zip(subjects, found.values(), strict=True):
        assert all(subject in title for title in shown), found


@each("language", WITHOUT_SUBJECT)
def test_a_prompt_without_subject_in_another_language_brings_nothing(ask, project, language):
    found = titles(ask, WITHOUT_SUBJECT[language].strip().splitlines())
    assert not any(found.values()), found


@pytest.mark.parametrize(
    "prompt",
    [
        "Add the locales de, es, fr, it, pt and nl",
        "Comment on the main plus sign, pour la forme",
        "Is the data in Les Halles or in La Paz?",
        "Why does com.example.io time out per request?",
    ],
)
def test_foreign_words_in_an_english_prompt_do_not_change_its_language(prompt):
    assert parse_prompt(prompt).is_english


@pytest.mark.parametrize(
    "prompt",
    [
        "Füge eine Option hinzu, um SpatiaLite beim Start abzuschalten",
        "Der Modus immutable zählt die Zeilen falsch",
        "non, pas comme ça",
        "et maintenant ?",
        "¿Las canned queries pueden escribir en la base de datos?",
        "As canned queries podem escrever no banco?",
        "Avevamo un problema con l'esportazione CSV, ti ricordi?",
        "wacht, ik ben iets vergeten",
    ],
)
def test_a_short_prompt_shows_its_language(prompt):
    assert not parse_prompt(prompt).is_english


def test_a_name_in_capitals_is_no_function_word():
    assert parse_prompt("Perché ci vuole tanto tempo per la CI?").words == ("tanto", "ci")
    assert parse_prompt("Quanto tempo ci vuole?").words == ()


@pytest.mark.parametrize(
    "prompt",
    [
        "looks good, go on",
        "Ask Kim to do it",
        "Add Łódź to the list",
        "ok, do it",
        "café on the river, can we",
    ],
)
def test_english_words_that_are_also_polish_do_not_change_the_language(prompt):
    assert parse_prompt(prompt).is_english


@pytest.mark.parametrize(
    "text",
    [
        "deploy dove service",
        "Lake Como trip",
        "DOS para virtualization",
        "sin cos tan table",
        "des encryption est cert",
        "disk usage du ou ldap",
        "Fix dove client timeout",
        '"sin" "tan" lookup',
        "var size of her object",
    ],
)
def test_english_words_that_are_also_foreign_remain_in_a_search(text):
    query = parse_query(text)
    assert adapt_to_language(query) == query


@pytest.mark.parametrize("text", ["Fix dove client timeout", "plot sin tan curves", "deploy dove service"])
def test_english_words_that_are_also_foreign_remain_in_a_prompt(text):
    assert parse_prompt(text).is_english


@pytest.mark.parametrize(
    "word", ["重要", "主要", "摘要", "线上", "上海", "上游", "阿里云", "机会", "会话", "正在", "存在", "被测"]
)
def test_a_character_inside_a_chinese_word_is_not_removed(word):
    assert CHINESE_FUNCTION_WORDS.sub("", word) == word
