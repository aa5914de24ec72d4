"""A labelled set of texts with and without credentials, put together when it is asked for.

No file holds a whole token: a template says where chance writes, and breaks its issuer's prefix in two.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tools.secret_examples.negatives import HARD, LONG, PLAIN
from tools.secret_examples.passwords import TEXTS
from tools.secret_examples.tokens import SERVICES, TOKENS

BREAK = "¦"  # stands in the midst of a prefix, so that no scanner takes a template for a token
_DIGITS, _LETTERS, _SMALL = string.digits, string.ascii_letters, string.ascii_lowercase
_ALPHABETS = {
    "a": _LETTERS + _DIGITS,
    "l": _SMALL + _DIGITS,
    "u": string.ascii_uppercase + _DIGITS,
    "h": _DIGITS + "abcdef",
    "d": _DIGITS,
    "w": _LETTERS + _DIGITS + "-_",
    "b": _LETTERS + _DIGITS + "+/",
    "z": _LETTERS,
    "s": _SMALL + "234567",
    "c": string.ascii_uppercase + "234567",
}
_HOLE = re.compile(r"\{([a-z]+)(\d*)\}")
# What a token stands in, in notes, settings, code and commands.
_FRAMES = (
    "The token for staging is {} until Friday.",
    "{}",
    "export SERVICE_TOKEN={}",
    'token: "{}"',
    "We found `{}` in the build log and turned it off.",
    'client = Client(token="{}")',
    '{{"service": {{"token": "{}"}}}}',
    "1. log in\n2. paste {}\n3. restart the worker",
    "curl -H 'X-Auth-Token: {}' https://api.internal/v1/jobs",
    "--token={} \\\n  --verbose",
)
_NAMED = (
    "{name}_API_KEY={value}",
    '{name}Token = "{value}"',
    "our {name} api key is {value}, ask Ada for a new one",
    '"{name}_secret": "{value}"',
    "{name}:\n  api_token: {value}\n",
    'const {name}ApiKey = "{value}";',
    "{name} token: {value}",
    "<{name}Token>{value}</{name}Token>",
)


@dataclass(frozen=True)
class Example:
    """``kind`` is empty for a text that must pass. ``half``: 0 for tuning, 1 to be left unseen meanwhile."""

    kind: str
    text: str
    half: int


def make_examples(seed: int = 7) -> list[Example]:
    """The whole set. Another seed writes other values into the same templates."""
    chance = random.Random(seed)
    return [*_examples_with_secrets(chance), *_examples_without_secrets(chance)]


def _examples_with_secrets(chance: random.Random) -> Iterator[Example]:
    for row, (kind, template) in enumerate(_parse_templates(TOKENS)):
        for turn in range(3):
            frame = _FRAMES[(row * 3 + turn) % len(_FRAMES)]
            yield Example(kind, frame.format(fill_template(template, chance)), turn % 2)
    for row, (service, template) in enumerate(_parse_templates(SERVICES)):
        for turn in range(2):
            frame = _NAMED[(row * 2 + turn) % len(_NAMED)]
            name, value = (service.upper() if frame[0] == "{" else service), fill_template(template, chance)
            yield Example(f"key of {service}", frame.format(name=name, value=value), turn % 2)
    for kind, template in _parse_templates(TEXTS):
        for turn in range(2):
            yield Example(kind, fill_template(template, chance), turn)


def _examples_without_secrets(chance: random.Random) -> Iterator[Example]:
    texts = [line for line in PLAIN.strip().split("\n") if line]
    for row, text in enumerate(texts):
        yield Example("", fill_template(text, chance), row % 2)
    for row, text in enumerate(line for line in HARD.strip().split("\n") if line):
        for turn in range(2):
            yield Example("", fill_template(text, chance), (row + turn) % 2)
    for row, text in enumerate(LONG):
        yield Example("", fill_template(text, chance), row % 2)


def _parse_templates(table: str) -> Iterator[tuple[str, str]]:
    """Kind and template of each line, which ``::`` parts; ``⏎`` is a line break."""
    for line in filter(None, table.strip().split("\n")):
        kind, _, template = line.partition(" :: ")
        yield kind.strip(), template.replace("⏎", "\n")


def fill_template(template: str, chance: random.Random) -> str:
    """The template with chance's signs in its holes: ``{a20}`` is 20 letters and digits."""

    def written(hole: re.Match[str]) -> str:
        name, length = hole[1], int(hole[2] or 0)
        if name in _GENERATORS:
            return _GENERATORS[name](chance, length)
        if name not in _ALPHABETS:
            return hole[0]
        return "".join(chance.choices(_ALPHABETS[name], k=length))

    return _HOLE.sub(written, template).replace(BREAK, "")


def _random_characters(chance: random.Random, alphabet: str, length: int) -> str:
    return "".join(chance.choices(_ALPHABETS[alphabet], k=length))


def _uuid(chance: random.Random, _: int) -> str:
    return "-".join(_random_characters(chance, "h", length) for length in (8, 4, 4, 4, 12))


def _password(chance: random.Random, length: int) -> str:
    """As a person's generator makes them: letters, at least two digits, a sign."""
    signs = [
        *_random_characters(chance, "a", length - 4),
        *_random_characters(chance, "d", 2),
        chance.choice("!#%+*?"),
        "q",
    ]
    chance.shuffle(signs)
    return "x" + "".join(signs)


def _base64(chance: random.Random, length: int) -> str:
    return base64.b64encode(chance.randbytes(length)).decode()


def _in_base64(chance: random.Random, length: int) -> str:
    return base64.b64encode(_random_characters(chance, "a", length).encode()).decode()


def _pair(chance: random.Random, length: int) -> str:
    return base64.b64encode(f"ada:{_random_characters(chance, 'a', length)}".encode()).decode()


def _jwt(chance: random.Random, _: int) -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": _random_characters(chance, "d", 9), "name": "Ada"})
    head = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join([*head, _random_characters(chance, "w", 43)])


def _bot(chance: random.Random, _: int) -> str:
    return base64.b64encode(_random_characters(chance, "d", 18).encode()).decode().rstrip("=")


_GENERATORS: dict[str, Callable[[random.Random, int], str]] = {
    "uuid": _uuid,
    "password": _password,
    "bytes": _base64,
    "readable": _in_base64,
    "pair": _pair,
    "jwt": _jwt,
    "bot": _bot,
}
